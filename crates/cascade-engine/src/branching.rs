//! Branching: how drafts become trees.

/// How a neural drafter's drafts branch. The default is a chain.
///
/// Exact reviews are exact for any shape: the children of a node are draws whose proposals are
/// known, and their number is fixed before any of them is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branching {
    /// Number of children of a node, indexed by the children's depth in the draft; the last entry
    /// applies to all greater depths. The child on the main path is included, so 1 is a chain.
    pub widths: Vec<usize>,
    /// Which nodes have children.
    pub expand: Expand,
    /// How children beside the main path are chosen.
    pub siblings: Siblings,
}

/// Which nodes of a draft have children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expand {
    /// Only the node on the main path at each depth: the tree of Cascade Speculative Drafting (App.
    /// B), which costs no forward of the drafter beyond those of a chain.
    #[default]
    MainPath,
    /// All leaves: the drafter scores its whole tree in each forward, and every leaf gets children
    /// (SpecInfer's expansion).
    AllLeaves,
    /// The nodes of the most probable paths, in one tree within the budget of the draft. Tokens are
    /// chosen, not drawn, so widths and siblings do not apply.
    ///
    /// By a schedule that prices tokens ([`OnlineSchedule`](crate::OnlineSchedule)), the tree has
    /// the nodes that pay, and grows while that pays.
    ///
    /// If nobody drafts for it, the drafter grows the tree alone (the dynamic tree of EAGLE-2):
    /// each forward gives up to 10 children to all nodes that the draft would have and that have
    /// none yet. Its entry of the K matrix is the tree's height.
    ///
    /// With a statistical drafter below it that mixes probabilities
    /// ([`Drafter::takes_advice`](cascade_core::Drafter::takes_advice)), both grow one tree: the
    /// statistical one proposes it, each forward scores nodes of it, and it is grown anew with what
    /// was said. By a K matrix, the neural drafter's entry is then the number of its forwards, and
    /// the statistical one's the tree's depth.
    MostProbable,
}

/// How siblings are chosen from a drafter's row, if samples are drawn by a rule that draws. (Greedy
/// decoding uses the most probable tokens, and coupled samples the next to arrive in the race.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Siblings {
    /// The most probable tokens.
    #[default]
    TopK,
    /// Further samples, with replacement. A token drawn twice is one node with two draws. Widths
    /// [n, 1] with children of every node are SpecInfer's n sampled sequences, merged into a prefix
    /// tree: a node drawn m times has m times as many draws below.
    WithReplacement,
    /// Further samples, excluding the tokens drawn before.
    WithoutReplacement,
}

/// Where the drafters of one row of the K matrix draft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Each continues the draft of the one before: the horizontal cascade.
    #[default]
    Sequential,
    /// Each from the start of the draft, merged into a prefix tree: SpecInfer's merge of several
    /// drafters. Entries are not summed: each drafter drafts the tokens of its own entry.
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

    /// The paper's tree: `width` children of the main path's node at each depth, the drafter's most
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
