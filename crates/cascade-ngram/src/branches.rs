//! Several continuations in one tree.

use cascade_core::{NodeId, TokenId, TokenTree};

use crate::NgramTable;

/// The latest occurrences of the last token that are examined, at most.
const OCCURRENCES: usize = 256;

/// Matches of this many tokens and more count as equally long, which bounds the cost of repetitive
/// text.
const LONGEST: usize = 64;

/// A chain, called the main chain, and the continuations that were merged with it.
///
/// The main chain is what a drafter would propose as a chain. It stays as it is: others branch off
/// before its end.
pub(crate) struct Branches {
    /// The first nodes are the main chain.
    tree: TokenTree,
    main: usize,
}

impl Branches {
    pub(crate) fn new(main: &[TokenId]) -> Self {
        Self {
            tree: TokenTree::chain(main.iter().copied()),
            main: main.len(),
        }
    }

    /// Merges what follows in `text` at each of `ends`, up to `depth` tokens, until `count` of them
    /// have added something.
    pub(crate) fn graft(&mut self, text: &[TokenId], ends: &[usize], depth: usize, count: usize) {
        let mut left = count;
        for &end in ends {
            if left == 0 {
                break;
            }
            let follows = &text[end..];
            left -= usize::from(self.merge(&follows[..follows.len().min(depth)]));
        }
    }

    /// Merges a continuation; true if it added anything.
    fn merge(&mut self, continuation: &[TokenId]) -> bool {
        let before = self.tree.len();
        let mut parent = None;
        for &token in continuation {
            let node = self.tree.child(parent, token);
            if node.is_some_and(|node| node + 1 == self.main) {
                break;
            }
            parent = node.or_else(|| Some(self.tree.push(token, parent)));
        }
        self.tree.len() > before
    }

    /// Gives each token of the main chain from the one at `from` on, which are the best followers
    /// in `table`, the next best ones as siblings, so that there are at most `width` followers of
    /// each. `last` is the token before the main chain.
    pub(crate) fn graft_followers(
        &mut self,
        table: &NgramTable,
        last: Option<TokenId>,
        from: usize,
        width: usize,
    ) {
        for node in from..self.main {
            let parent = self.tree.parent(node);
            let Some(before) = parent.map(|node| self.tree.token(node)).or(last) else {
                continue;
            };
            for (token, _) in table.after(&[before]).into_iter().flatten().take(width) {
                if self.tree.child(parent, token).is_none() {
                    self.tree.push(token, parent);
                }
            }
        }
    }

    /// The main chain, then the other nodes, nearest to the context first, those of one depth as
    /// they were merged: `nodes` in all.
    ///
    /// A node is worth the probability that verification reaches it, which falls with every token
    /// on its path; so a new token after the context is worth more than another step on a branch.
    pub(crate) fn within(self, nodes: usize) -> TokenTree {
        let Self { tree, main } = self;
        let mut others: Vec<NodeId> = (main..tree.len()).collect();
        others.sort_by_key(|&node| tree.depth(node));
        others.truncate(nodes.saturating_sub(main));

        let mut kept = TokenTree::chain(tree.tokens().take(main));
        let mut place: Vec<NodeId> = (0..tree.len()).collect();
        for node in others {
            let parent = tree.parent(node).map(|parent| place[parent]);
            place[node] = kept.push(tree.token(node), parent);
        }
        kept
    }
}

/// Ends of earlier occurrences of suffixes of `text` that have between `shortest` and `longest`
/// tokens: those of longer suffixes first, of suffixes of one length the latest first. Each is
/// before the end of the text, so that a token follows.
///
/// One pass backwards at the speed of `memcmp`, until [`OCCURRENCES`] of the last token are found;
/// each of them is compared over at most [`LONGEST`] tokens.
pub(crate) fn earlier_ends(text: &[TokenId], shortest: usize, longest: usize) -> Vec<usize> {
    let Some((&last, before)) = text.split_last() else {
        return Vec::new();
    };
    let longest = longest.min(LONGEST);
    // Longer matches than these are not distinguished.
    let shortest = shortest.clamp(1, LONGEST);
    let mut found: Vec<(usize, usize)> = latest_first(before, last)
        .take(OCCURRENCES)
        .map(|at| (common_suffix(&before[..=at], text, longest), at + 1))
        .filter(|&(len, _)| len >= shortest)
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, end)| end).collect()
}

/// Positions of `token`, from the end.
fn latest_first(text: &[TokenId], token: TokenId) -> impl Iterator<Item = usize> + '_ {
    /// Most blocks do not have the token; to see that takes a few vector instructions.
    const BLOCK: usize = 64;
    text.rchunks(BLOCK)
        .scan(text.len(), |start, block| {
            *start -= block.len();
            Some((*start, block))
        })
        .filter(move |(_, block)| block.iter().fold(false, |any, &t| any | (t == token)))
        .flat_map(move |(start, block)| {
            let places = (0..block.len()).rev();
            places
                .filter(move |&i| block[i] == token)
                .map(move |i| start + i)
        })
}

/// Number of tokens that both end with, up to `limit`.
fn common_suffix(a: &[TokenId], b: &[TokenId], limit: usize) -> usize {
    a.iter()
        .rev()
        .zip(b.iter().rev())
        .take(limit)
        .take_while(|(a, b)| a == b)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(tree: &TokenTree) -> Vec<Vec<TokenId>> {
        (0..tree.len()).map(|n| tree.path_tokens(Some(n))).collect()
    }

    #[test]
    fn the_lead_comes_first_and_stays_as_it_is() {
        let text = [1, 2, 3, 1, 9, 8, 7, 1, 2, 5, 6];
        let mut branches = Branches::new(&[1, 2, 3]);
        // 1 2 3 … has the whole main chain in it, 1 9 8 parts at the second token, 1 2 5 at the
        // third.
        branches.graft(&text, &[0, 3, 7], 3, 2);
        let tree = branches.within(usize::MAX);
        let expected: [&[u32]; 6] = [&[1], &[1, 2], &[1, 2, 3], &[1, 9], &[1, 9, 8], &[1, 2, 5]];
        assert_eq!(paths(&tree), expected);
    }

    #[test]
    fn a_new_beginning_is_worth_more_than_a_longer_branch() {
        let text = [4, 5, 6, 7, 8, 9];
        let mut branches = Branches::new(&[1, 2]);
        branches.graft(&text, &[0, 3], 3, 9);
        let expected: [&[u32]; 5] = [&[1], &[1, 2], &[4], &[7], &[4, 5]];
        assert_eq!(paths(&branches.within(5)), expected);
    }

    #[test]
    fn earlier_ends_are_ordered_by_length_then_from_the_end() {
        let text = [3, 1, 2, 3, 0, 3, 2, 3, 5, 1, 2, 3];
        assert_eq!(earlier_ends(&text, 1, usize::MAX), [4, 8, 6, 1]);
        assert_eq!(earlier_ends(&text, 2, usize::MAX), [4, 8]);
        assert_eq!(earlier_ends(&text, 1, 1), [8, 6, 4, 1]);
        assert_eq!(earlier_ends(&[], 1, 1), [0usize; 0]);
    }

    #[test]
    fn a_run_of_one_token_is_searched_too() {
        let ends = earlier_ends(&[7; 200], 1, usize::MAX);
        let expected: Vec<usize> = (200 - OCCURRENCES.min(199)..200).rev().collect();
        assert_eq!(ends, expected);
    }

    #[test]
    fn a_long_text_is_looked_at_from_its_end() {
        let text: Vec<TokenId> = (0..10_000).map(|i| i % 10).collect();
        let ends = earlier_ends(&text, LONGEST + 1, usize::MAX);
        assert_eq!(ends.len(), OCCURRENCES);
        assert!(
            ends.iter()
                .copied()
                .eq((1..=OCCURRENCES).map(|i| 10_000 - 10 * i))
        );
    }
}
