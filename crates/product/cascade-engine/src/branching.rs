//! How drafts branch into trees.

/// How a neural drafter's guesses branch. By default they do not: a chain.
///
/// Whatever the shape, an exact review stays exact: the children of a node are draws whose
/// proposals are known, and how many there are is settled before any of them is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branching {
    /// Children of a node, by its children's depth in the draft; the last number holds for all
    /// depths below. The lead counts: 1 is a chain.
    pub widths: Vec<usize>,
    /// Which nodes have children.
    pub expand: Expand,
    /// How children beside the lead are chosen.
    pub siblings: Siblings,
}

/// Which nodes of a draft have children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expand {
    #[serde(alias = "lead")]
    /// The one on the main path at each depth: the tree of Cascade Speculative Drafting (App. B),
    /// which costs no forward of the drafter beyond those of a chain.
    #[default]
    MainPath,
    /// All: the drafter scores its whole tree in each forward, and every leaf grows (SpecInfer's
    /// expansion).
    #[serde(alias = "every")]
    AllLeaves,
}

/// How siblings are chosen from a drafter's row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Siblings {
    /// The most probable tokens. (Greedy decoding always takes these.)
    #[default]
    #[serde(alias = "top")]
    TopK,
    /// Further samples. A token drawn again is one node with two draws. Widths [n, 1] with children
    /// of every node are SpecInfer's n sampled sequences, merged into a prefix tree: a node drawn m
    /// times has m times as many draws below.
    #[serde(alias = "sampled")]
    WithReplacement,
    /// Further samples without the tokens drawn before.
    WithoutReplacement,
}

/// Where the drafters of one row of the K matrix draft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Each after the one before: the horizontal cascade.
    #[default]
    #[serde(alias = "after")]
    Sequential,
    /// Each from where the draft begins, merged into a prefix tree: SpecInfer's merge of several
    /// drafters. Shares are not summed up: each drafter drafts the tokens of its own entry.
    #[serde(alias = "beside")]
    Merged,
}

impl Branching {
    /// No branches.
    pub fn chain() -> Self {
        Self {
            widths: vec![1],
            expand: Expand::MainPath,
            siblings: Siblings::TopK,
        }
    }

    /// The paper's tree: `width` children of the leading node of each depth, the drafter's most
    /// probable tokens.
    pub fn main_path(width: usize) -> Self {
        Self {
            widths: vec![width],
            ..Self::chain()
        }
    }

    /// Number of children that a node has at `depth` (0 for those that continue the context); at
    /// least 1.
    pub fn width(&self, depth: usize) -> usize {
        let last = self.widths.len().saturating_sub(1);
        self.widths.get(depth.min(last)).map_or(1, |&w| w.max(1))
    }

    /// The largest width.
    pub(crate) fn widest(&self) -> usize {
        self.widths.iter().copied().max().unwrap_or(1).max(1)
    }
}

impl Default for Branching {
    fn default() -> Self {
        Self::chain()
    }
}
