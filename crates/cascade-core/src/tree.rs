//! Token trees: the shape of a draft.

use crate::TokenId;

/// Index of a node within its tree.
pub type NodeId = usize;

/// Candidate tokens that may follow a context: a forest whose roots all continue the context.
///
/// Nodes are kept in topological order: a parent comes before its children, and siblings keep the
/// order in which they were pushed. `None` as a parent means the context itself. A chain is a tree
/// in which every node is the parent of the next, and an empty tree asks for plain decoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenTree {
    nodes: Vec<Node>,
    roots: Family,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    token: TokenId,
    parent: Option<NodeId>,
    depth: usize,
    children: Family,
    next_sibling: Option<NodeId>,
}

/// The first and the last of a list of siblings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Family {
    first: Option<NodeId>,
    last: Option<NodeId>,
}

impl TokenTree {
    /// The empty tree.
    pub const fn new() -> Self {
        Self {
            nodes: Vec::new(),
            roots: Family {
                first: None,
                last: None,
            },
        }
    }

    /// The tree in which each token follows the one before.
    pub fn chain(tokens: impl IntoIterator<Item = TokenId>) -> Self {
        let mut tree = Self::new();
        let mut parent = None;
        for token in tokens {
            parent = Some(tree.push(token, parent));
        }
        tree
    }

    /// Adds a node and returns its index.
    ///
    /// # Panics
    /// If `parent` is not a node of this tree.
    pub fn push(&mut self, token: TokenId, parent: Option<NodeId>) -> NodeId {
        let depth = match parent {
            None => 0,
            Some(parent) => self.nodes[parent].depth + 1,
        };
        let node = self.nodes.len();
        self.nodes.push(Node {
            token,
            parent,
            depth,
            children: Family::default(),
            next_sibling: None,
        });
        let family = match parent {
            None => &mut self.roots,
            Some(parent) => &mut self.nodes[parent].children,
        };
        match family.last.replace(node) {
            None => family.first = Some(node),
            Some(sibling) => self.nodes[sibling].next_sibling = Some(node),
        }
        node
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Token of a node.
    ///
    /// # Panics
    /// If `node` is not a node of this tree; the same holds for every method that takes a node.
    pub fn token(&self, node: NodeId) -> TokenId {
        self.nodes[node].token
    }

    /// Parent of a node; `None` if it continues the context.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.nodes[node].parent
    }

    /// Number of ancestors of a node: 0 if it directly follows the context. Its position in the
    /// sequence is the length of the context plus its depth.
    pub fn depth(&self, node: NodeId) -> usize {
        self.nodes[node].depth
    }

    /// Number of tokens on the longest path from the context: 0 for the empty tree.
    pub fn height(&self) -> usize {
        self.nodes.iter().map(|n| n.depth + 1).max().unwrap_or(0)
    }

    /// Tokens of all nodes, in order.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = TokenId> + '_ {
        self.nodes.iter().map(|n| n.token)
    }

    /// Children of `parent` (of the context, if `None`) in the order in which they were pushed.
    pub fn children(&self, parent: Option<NodeId>) -> impl Iterator<Item = NodeId> + '_ {
        let family = parent.map_or(self.roots, |p| self.nodes[p].children);
        std::iter::successors(family.first, |&n| self.nodes[n].next_sibling)
    }

    /// The child of `parent` (of the context, if `None`) that carries `token`; the first, if
    /// several do.
    pub fn child(&self, parent: Option<NodeId>, token: TokenId) -> Option<NodeId> {
        self.children(parent)
            .find(|&node| self.token(node) == token)
    }

    /// The node and its ancestors, deepest first.
    pub fn ancestors(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(Some(node), move |&n| self.nodes[n].parent)
    }

    /// Tokens from the context down to `node`, that one included; empty for `None`.
    pub fn path_tokens(&self, node: Option<NodeId>) -> Vec<TokenId> {
        let mut path: Vec<TokenId> = node
            .into_iter()
            .flat_map(|n| self.ancestors(n))
            .map(|n| self.token(n))
            .collect();
        path.reverse();
        path
    }

    /// Whether every node is the parent of the next.
    pub fn is_chain(&self) -> bool {
        self.nodes.iter().enumerate().all(|(i, n)| n.depth == i)
    }

    /// Index of the [`Scores`](crate::Scores) row for the token after `node`, or after the context
    /// if `None`.
    pub fn row(node: Option<NodeId>) -> usize {
        node.map_or(0, |n| n + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ```text
    /// context ─ 0:a ─ 1:b
    ///         │     └ 2:c ─ 4:e
    ///         └ 3:d
    /// ```
    fn sample() -> TokenTree {
        let mut tree = TokenTree::new();
        let a = tree.push(10, None);
        tree.push(11, Some(a));
        let c = tree.push(12, Some(a));
        tree.push(13, None);
        tree.push(14, Some(c));
        tree
    }

    #[test]
    fn reports_family_relations() {
        let tree = sample();
        assert_eq!(tree.children(None).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(tree.children(Some(0)).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(tree.ancestors(4).collect::<Vec<_>>(), [4, 2, 0]);
        assert_eq!(
            (tree.child(Some(0), 12), tree.child(None, 12)),
            (Some(2), None)
        );
        assert_eq!(tree.path_tokens(Some(4)), [10, 12, 14]);
        assert_eq!(tree.path_tokens(None), [0u32; 0]);
        assert_eq!((tree.depth(3), tree.depth(4), tree.height()), (0, 2, 3));
        assert_eq!((TokenTree::row(None), TokenTree::row(Some(4))), (0, 5));
    }

    #[test]
    fn a_chain_is_a_tree() {
        let chain = TokenTree::chain([5, 6, 7]);
        assert!(chain.is_chain() && !sample().is_chain() && TokenTree::new().is_chain());
        assert_eq!(chain.path_tokens(Some(2)), [5, 6, 7]);
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn refuses_a_parent_that_is_not_there() {
        TokenTree::new().push(1, Some(0));
    }
}
