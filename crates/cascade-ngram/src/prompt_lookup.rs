//! Prompt lookup decoding, the baseline that Max-Gram generalises.

use std::borrow::Cow;
use std::sync::Arc;

use cascade_core::{Budget, Drafter, ScoredTree, TokenId, TokenTree};
use serde::{Deserialize, Serialize};

use crate::branches::{Branches, earlier_ends};
use crate::config::{
    DrafterConfig, DrafterFactory, DrafterKey, Draw, OpenError, Resources, positive,
};

/// Prompt lookup as in Hugging Face transformers (`PromptLookupCandidateGenerator`).
///
/// For n from `max_ngram` down to 1, the last n tokens of the context are looked for in source and
/// context; the first earlier occurrence gives the draft: the tokens that follow it, at most the
/// budget, fewer where the text ends. There is no second search and no bigram table. As in
/// transformers, n is less than the length of the text; with a source, n is also at most the length
/// of the context.
///
/// With several [branches](Self::with_branches) and a budget of more nodes than depth, the draft is
/// a tree.
///
/// A proposal scans the text once for each n, and once more for branches.
#[derive(Clone, Debug)]
pub struct PromptLookup {
    max_ngram: usize,
    branches: usize,
    source: Vec<TokenId>,
}

impl PromptLookup {
    /// Prompt lookup with n-grams of at most `max_ngram` tokens.
    pub fn new(max_ngram: usize) -> Self {
        Self {
            max_ngram,
            branches: 1,
            source: Vec::new(),
        }
    }

    /// The drafter with up to `branches` continuations. What transformers proposes is one of them,
    /// the main chain, and others join it in the order and within the bounds that
    /// [`MaxGram`](crate::MaxGram#siblings) has, with matches of `max_ngram` tokens and more as
    /// equally long. 0 and 1 are the same.
    pub fn with_branches(self, branches: usize) -> Self {
        Self { branches, ..self }
    }
}

impl Default for PromptLookup {
    /// At most three tokens, as on the Spec-Bench leaderboard.
    fn default() -> Self {
        Self::new(3)
    }
}

impl Drafter for PromptLookup {
    fn set_source(&mut self, source: &[TokenId]) {
        source.clone_into(&mut self.source);
    }

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        let text = if self.source.is_empty() {
            Cow::Borrowed(context)
        } else {
            Cow::Owned([&self.source, context].concat())
        };
        let longest = self
            .max_ngram
            .min(context.len())
            .min(text.len().saturating_sub(1));
        let end = (1..=longest).rev().find_map(|n| first_end(&text, n));
        let follows = end.map_or(&[][..], |end| &text[end..]);
        let lead = &follows[..follows.len().min(budget.depth).min(budget.nodes)];
        if budget.nodes <= budget.depth || self.branches <= 1 || lead.is_empty() {
            return TokenTree::chain(lead.iter().copied()).into();
        }
        let mut tree = Branches::new(lead);
        let ends = earlier_ends(&text, 1, longest);
        tree.graft(&text, &ends, budget.depth, self.branches - 1);
        tree.within(budget.nodes).into()
    }
}

/// Settings of [`PromptLookup`]: `prompt_lookup: { max_ngram: 3, branches: 1 }`, the default.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PromptLookupConfig {
    /// Longest n-gram that is looked up.
    #[serde(deserialize_with = "positive")]
    pub max_ngram: usize,
    /// Matches whose continuations are proposed.
    #[serde(deserialize_with = "positive")]
    pub branches: usize,
}

impl Default for PromptLookupConfig {
    fn default() -> Self {
        Self {
            max_ngram: 3,
            branches: 1,
        }
    }
}

impl DrafterKey for PromptLookupConfig {
    const KEY: &'static str = "prompt_lookup";
}

impl DrafterConfig for PromptLookupConfig {
    fn open(&self, _: &dyn Resources) -> Result<Arc<dyn DrafterFactory>, OpenError> {
        Ok(Arc::new(self.clone()))
    }

    fn settings(&self) -> String {
        format!("branches {}", self.branches)
    }

    fn with_drawn_settings(&self, draw: &mut Draw<'_>) -> Option<Arc<dyn DrafterConfig>> {
        Some(Arc::new(Self {
            branches: draw(1..4),
            ..self.clone()
        }))
    }
}

impl DrafterFactory for PromptLookupConfig {
    fn drafter(&self) -> Box<dyn Drafter + Send> {
        Box::new(PromptLookup::new(self.max_ngram).with_branches(self.branches))
    }

    fn source(&self) -> String {
        format!("prompt lookup, n <= {}", self.max_ngram)
    }
}

/// End of the first occurrence of the last `n` tokens that has a token after it.
fn first_end(text: &[TokenId], n: usize) -> Option<usize> {
    let ngram = &text[text.len() - n..];
    text[..text.len() - 1]
        .windows(n)
        .position(|window| window == ngram)
        .map(|start| start + n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn propose(source: &[TokenId], context: &[TokenId], budget: usize) -> Vec<TokenId> {
        let mut drafter = PromptLookup::default();
        drafter.set_source(source);
        drafter
            .propose(context, Budget::chain(budget))
            .into_tree()
            .tokens()
            .collect()
    }

    #[test]
    fn takes_the_longest_ngram_then_the_first_occurrence() {
        // (2, 3) occurs twice, (1, 2, 3) only before 7.
        let context = [2, 3, 9, 1, 2, 3, 7, 8, 1, 2, 3];
        assert_eq!(propose(&[], &context, 3), [7, 8, 1]);
        // A match of four tokens is not looked for: the first of three wins.
        assert_eq!(
            propose(&[], &[2, 3, 4, 5, 1, 2, 3, 4, 6, 1, 2, 3, 4], 1),
            [5]
        );
        // The text ends before the budget.
        assert_eq!(propose(&[], &[4, 4], 10), [4]);
    }

    #[test]
    fn reads_the_source_but_never_reaches_back_into_it() {
        assert_eq!(propose(&[5, 1, 6, 2, 1, 8], &[1], 2), [6, 2]);
        // (2, 1) would lead to 6, but its 2 belongs to the source.
        assert_eq!(propose(&[1, 9, 2, 1, 6, 2], &[1], 1), [9]);
    }

    #[test]
    fn branches_into_what_followed_elsewhere() {
        // (1, 2, 3) before 7 is the main chain; (2, 3) before 6 is the next longest, 3 alone came
        // before 9 and 5.
        let context = [3, 5, 2, 3, 6, 3, 9, 1, 2, 3, 7, 8, 1, 2, 3];
        let budget = Budget { depth: 2, nodes: 6 };
        let paths = |branches| -> Vec<Vec<TokenId>> {
            let mut drafter = PromptLookup::default().with_branches(branches);
            let tree = drafter.propose(&context, budget).into_tree();
            (0..tree.len()).map(|n| tree.path_tokens(Some(n))).collect()
        };
        assert_eq!(paths(1), [vec![7], vec![7, 8]]);
        let three = [
            vec![7],
            vec![7, 8],
            vec![6],
            vec![9],
            vec![6, 3],
            vec![9, 1],
        ];
        assert_eq!(paths(3), three);
        assert_eq!(paths(4)[2..], [vec![6], vec![9], vec![5], vec![6, 3]]);
    }

    #[test]
    fn has_nothing_to_say_without_a_match() {
        for (context, budget) in [(&[][..], 5), (&[1], 5), (&[1, 2, 3], 5), (&[1, 1], 0)] {
            assert_eq!(propose(&[], context, budget), [0u32; 0]);
        }
        assert_eq!(propose(&[1, 2], &[], 5), [0u32; 0]);
    }
}
