//! Max-Gram: copies what followed the longest match (Cascade Speculative Drafting, §3.3 and
//! Appendix A).

use std::path::Path;
use std::sync::Arc;

use cascade_core::{Budget, Drafter, ScoredTree, TokenId, TokenTree, common_prefix};
use serde::{Deserialize, Serialize};

use crate::{
    Match, NgramTable, SuffixAutomaton,
    branches::{Branches, earlier_ends},
    config::{
        DrafterConfig, DrafterFactory, DrafterKey, Draw, OpenError, Resources, TableLocator,
        is_default, is_one, positive,
    },
};

/// Which of several earlier occurrences to copy from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Occurrence {
    /// The first one, as in the paper's Listing 1. Known in constant time.
    #[default]
    Earliest,
    /// The one nearest to the end. The automaton does not store it: it is found by a backward scan,
    /// in time and memory linear in the match and in the distance to that occurrence.
    Latest,
}

/// Settings of [`MaxGram`]: `max_gram: { bigram: TABLE, branches: 4 }`. The default is the paper's
/// definition without a table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct MaxGramConfig {
    /// The place of the table that fills what no match gives. [`MaxGram::with_options`] leaves it
    /// unread: there the table itself is given, by [`MaxGram::with_bigram`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bigram: Option<TableLocator>,
    /// Which occurrence to copy from.
    #[serde(skip_serializing_if = "is_default")]
    pub occurrence: Occurrence,
    /// Matches of fewer tokens count as none, so that the bigram table is used. 0 and 1 are the
    /// same.
    #[serde(deserialize_with = "positive", skip_serializing_if = "is_one")]
    pub min_match: usize,
    /// Continuations to propose, the main chain included, if the budget has nodes for more than one
    /// chain: what followed other occurrences of the matched suffix, and then of shorter ones. 0
    /// and 1 are the same.
    #[serde(deserialize_with = "positive", skip_serializing_if = "is_one")]
    pub branches: usize,
    /// Followers to propose wherever the main chain is filled from the bigram table, the main chain
    /// included, as [`Bigram::with_width`](crate::Bigram::with_width). 0 and 1 are the same.
    #[serde(deserialize_with = "positive", skip_serializing_if = "is_one")]
    pub width: usize,
}

impl Default for MaxGramConfig {
    fn default() -> Self {
        Self {
            bigram: None,
            occurrence: Occurrence::Earliest,
            min_match: 1,
            branches: 1,
            width: 1,
        }
    }
}

impl DrafterKey for MaxGramConfig {
    const KEY: &'static str = "max_gram";
}

impl DrafterConfig for MaxGramConfig {
    fn open(&self, resources: &dyn Resources) -> Result<Arc<dyn DrafterFactory>, OpenError> {
        let table = self.bigram.as_ref().map(|table| resources.table(table));
        let table = table.transpose();
        Ok(Arc::new(MaxGram {
            bigram: table.map_err(OpenError::at("max_gram.bigram"))?,
            ..MaxGram::new().with_options(self.clone())
        }))
    }

    fn files(&self) -> Vec<&Path> {
        self.bigram.iter().filter_map(TableLocator::file).collect()
    }

    fn tables(&mut self) -> Vec<(&'static str, &mut TableLocator)> {
        let table = self.bigram.iter_mut();
        table.map(|table| ("max_gram.bigram", table)).collect()
    }

    fn settings(&self) -> String {
        format!("branches {}, width {}", self.branches, self.width)
    }

    fn with_drawn_settings(&self, draw: &mut Draw<'_>) -> Option<Arc<dyn DrafterConfig>> {
        Some(Arc::new(Self {
            branches: draw(1..5),
            width: draw(1..4),
            ..self.clone()
        }))
    }
}

impl DrafterFactory for MaxGram {
    fn drafter(&self) -> Box<dyn Drafter + Send> {
        Box::new(self.clone())
    }

    fn source(&self) -> String {
        match &self.bigram {
            None => "max-gram".to_owned(),
            Some(table) => format!("max-gram with {}", table.file()),
        }
    }
}

/// Tokens of a match after which its next token is right as often as not.
const EVEN: f32 = 2.5;
/// How often a token of the table is right.
const OF_TABLE: f32 = 0.2;
/// How often a sibling is right, as a share of the first child.
const OF_SIBLING: f32 = 0.3;

/// The Max-Gram drafter.
///
/// The estimates of its nodes are rules of thumb, by the length of the match; what learns from
/// outcomes corrects them.
///
/// The corpus is the source followed by the context. Of the suffixes of the context the longest is
/// taken that occurs in the corpus earlier than at its end; occurrences may lie in the source, in
/// the context, or across their border, and may overlap the suffix. The draft is what follows the
/// earliest occurrence. If the corpus ends before the draft is complete, the search is made once
/// more, for the context and the corpus with the draft appended. What is still missing is filled
/// from the bigram table, if there is one: each token's most frequent successor, until a token has
/// none. An empty context has no suffix and no last token, and gives the empty draft.
///
/// # Siblings
/// All this makes the main chain, and without other settings the draft is the main chain.
/// [`MaxGramConfig::branches`] and [`MaxGramConfig::width`] let it branch if the budget has more
/// nodes than depth. A prefix tree is made of the main chain and of what follows other occurrences
/// in the corpus: longest match first, of one length the latest occurrence first, whichever the
/// main chain was copied from; an occurrence counts as a branch only if its tokens up to the depth
/// are new to the tree. The main chain is kept whole, and nothing continues it. The nodes that it
/// leaves are spent by depth, nearest to the context first; of one depth the branches come first,
/// in that order, and then the table's followers by falling count. The search for branches looks at
/// the latest 256 earlier occurrences of the last token, and takes matches of 64 tokens and more as
/// equally long.
///
/// # Cost
/// The corpus of the previous call is kept in a [`SuffixAutomaton`]; tokens that are new since then
/// cost amortised O(1) each, tokens that were taken back the same. The search is O(1) for
/// decoder-only models. Comparing the context with the one of the previous call is the only part
/// that grows with its length: one pass at the speed of `memcmp`.
///
/// Branches need no memory between calls. They cost a second such pass at most, 256 comparisons of
/// at most 64 tokens, and what it takes to merge the continuations that were found.
#[derive(Clone, Debug, Default)]
pub struct MaxGram {
    options: MaxGramConfig,
    bigram: Option<Arc<NgramTable>>,
    source: Vec<TokenId>,
    /// Source, context and perhaps a draft of an earlier call.
    corpus: SuffixAutomaton,
}

impl MaxGram {
    /// Max-Gram as in the paper, without a bigram table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The drafter with a table, from which it fills what is missing. The table must be for the
    /// vocabulary of the contexts.
    pub fn with_bigram(self, table: Arc<NgramTable>) -> Self {
        Self {
            bigram: Some(table),
            ..self
        }
    }

    /// The drafter with other settings.
    pub fn with_options(self, options: MaxGramConfig) -> Self {
        Self { options, ..self }
    }

    /// Makes the corpus source and context, reusing the longest common prefix with what it is.
    fn sync(&mut self, context: &[TokenId]) {
        let known = self.corpus.tokens();
        let (head, tail) = known.split_at(self.source.len().min(known.len()));
        let mut keep = common_prefix(head, &self.source);
        if keep == self.source.len() {
            keep += common_prefix(tail, context);
        }
        self.corpus.truncate(keep);
        let in_source = keep.min(self.source.len());
        for &token in &self.source[in_source..] {
            self.corpus.push(token);
        }
        for &token in &context[keep - in_source..] {
            self.corpus.push(token);
        }
    }

    /// Searches the corpus for its own suffix of at most `limit` tokens, and appends to `draft`
    /// what follows there, up to `budget` tokens in all. Returns the length of the suffix that was
    /// found, 0 if none was.
    fn copy(&self, limit: usize, draft: &mut Vec<TokenId>, budget: usize) -> usize {
        let Some(found) = self
            .corpus
            .longest_earlier_match(limit)
            .filter(|found| found.len >= self.options.min_match)
        else {
            return 0;
        };
        let end = match self.options.occurrence {
            Occurrence::Earliest => found.end,
            Occurrence::Latest => latest_end(self.corpus.tokens(), found),
        };
        let room = budget - draft.len();
        draft.extend(self.corpus.tokens()[end..].iter().take(room));
        found.len
    }

    /// What both searches give, for a corpus that is source and context. Leaves the corpus with the
    /// first part of the draft appended, if there was a second search.
    fn copies(&mut self, context: &[TokenId], budget: usize) -> Copies {
        let mut draft = Vec::new();
        let matched = self.copy(context.len(), &mut draft, budget);
        if !draft.is_empty() && draft.len() < budget {
            // Left in the corpus afterwards: if the draft is accepted, the next call finds it
            // there.
            for &token in &draft {
                self.corpus.push(token);
            }
            self.copy(context.len() + draft.len(), &mut draft, budget);
        }
        Copies {
            tokens: draft,
            matched,
        }
    }

    /// The main chain, of which the first `copied` tokens come from the corpus, and as many
    /// siblings as settings and budget allow.
    fn with_siblings(
        &self,
        context: &[TokenId],
        lead: &[TokenId],
        copied: usize,
        budget: Budget,
    ) -> TokenTree {
        let options = &self.options;
        let mut tree = Branches::new(lead);
        if options.branches > 1 && copied > 0 {
            let text = &self.corpus.tokens()[..self.source.len() + context.len()];
            let ends = earlier_ends(text, options.min_match, context.len());
            tree.graft(text, &ends, budget.depth, options.branches - 1);
        }
        if let Some(table) = &self.bigram {
            tree.graft_followers(table, context.last().copied(), copied, options.width);
        }
        tree.within(budget.nodes)
    }
}

impl Drafter for MaxGram {
    fn set_source(&mut self, source: &[TokenId]) {
        // The corpus follows with the next proposal: an equal source is found again there.
        source.clone_into(&mut self.source);
    }

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        let depth = budget.depth.min(budget.nodes);
        let longest = self.source.len() + context.len();
        if context.is_empty() || depth == 0 || longest > SuffixAutomaton::MAX_LEN / 2 {
            return ScoredTree::default();
        }
        self.sync(context);
        let copies = self.copies(context, depth);
        let copied = copies.tokens.len();
        let estimate = |depth: usize| copies.estimate(depth);
        let mut lead = copies.tokens.clone();
        if let Some(table) = &self.bigram {
            let last = lead.last().or(context.last()).copied();
            lead.extend(table.chain(last).take(depth - copied));
        }
        if budget.nodes <= budget.depth {
            return ScoredTree::estimated(TokenTree::chain(lead), estimate);
        }
        let tree = self.with_siblings(context, &lead, copied, budget);
        let probabilities = estimates(&tree, estimate);
        ScoredTree::estimated(tree, |node| probabilities[node])
    }
}

/// What was copied from the corpus.
struct Copies {
    tokens: Vec<TokenId>,
    /// Length of the suffix whose continuation the first copy is.
    matched: usize,
}

impl Copies {
    /// The probability that the token at a depth of the chain is accepted if those before it are.
    fn estimate(&self, depth: usize) -> f32 {
        if depth >= self.tokens.len() {
            return OF_TABLE;
        }
        // What was copied so far is part of the match if it is accepted.
        let matched = (self.matched + depth) as f32;
        matched / (matched + EVEN)
    }
}

/// Estimates for all nodes.
fn estimates(tree: &TokenTree, estimate: impl Fn(usize) -> f32) -> Vec<f32> {
    let nodes = (0..tree.len()).map(|node| {
        let is_first = tree.children(tree.parent(node)).next() == Some(node);
        let share = if is_first { 1.0 } else { OF_SIBLING };
        share * estimate(tree.depth(node))
    });
    nodes.collect()
}

/// End of the latest occurrence of the matched suffix before the end of the text: Knuth, Morris and
/// Pratt's search in the reversed text, which stops at the first hit.
fn latest_end(text: &[TokenId], found: Match) -> usize {
    let reversed = |i: usize| text[text.len() - 1 - i];
    // borders[i]: longest proper border of the first i + 1 tokens of the reversed suffix.
    let mut borders = vec![0; found.len];
    let mut matched = 0;
    for i in 1..text.len() {
        while matched > 0 && reversed(matched) != reversed(i) {
            matched = borders[matched - 1];
        }
        if reversed(matched) == reversed(i) {
            matched += 1;
        }
        if i < found.len {
            borders[i] = matched;
        }
        if matched == found.len {
            // It begins, in the direction of the text, at reversed index i.
            return text.len() - 1 - i + found.len;
        }
    }
    found.end
}
