//! Drafting from an n-gram table alone.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use cascade_core::{Budget, Drafter, NodeId, ScoredTree, TokenId};
use cascade_ngram::{Continuations, NgramTable};

/// Drafts the most probable continuations as a table alone estimates them: best first by the
/// probability of the path.
///
/// The estimate is interpolated (Witten and Bell): after a context with T continuations in the
/// table, which occur c(w) times out of N, a token has the probability
/// (c(w) + (T + N − Σc)·p'(w)) / (T + N), where p' is the estimate after the shorter context: T
/// stands for what was not seen, N − Σc for what the table left out. After no token, the table's
/// most frequent tokens are interpolated with an even share for each in the same way. These are
/// probabilities: they add up to 1 over the vocabulary.
///
/// The text is the source followed by the context.
#[derive(Clone, Debug)]
pub struct TableDrafter {
    table: Arc<NgramTable>,
    /// Of each token, after nothing; of the most frequent ones, by token.
    unigrams: Vec<(TokenId, f64)>,
    /// Of each other token.
    rest: f64,
    /// The last tokens of the source.
    source: Vec<TokenId>,
}

/// Children of a node at most.
const MOST_CHILDREN: usize = 32;

impl TableDrafter {
    /// A drafter that reads from `table`.
    pub fn new(table: Arc<NgramTable>) -> Self {
        let even = 1.0 / table.vocab_size() as f64;
        let counts = table.unigrams();
        let counted = Counted {
            total: table.total_tokens(),
            seen: counts.iter().map(|unigram| unigram.1).sum(),
            kinds: counts.len(),
        };
        let share = |&(token, count)| (token, counted.interpolated(count, even));
        let mut unigrams: Vec<(TokenId, f64)> = counts.iter().map(share).collect();
        unigrams.sort_unstable_by_key(|unigram| unigram.0);
        Self {
            unigrams,
            rest: counted.interpolated(0, even),
            table,
            source: Vec::new(),
        }
    }

    /// The estimate that `token` comes next after a text of which `newest` are the last tokens, the
    /// newest last.
    pub fn probability(&self, newest: &[TokenId], token: TokenId) -> f64 {
        let unigram = self.unigrams.binary_search_by_key(&token, |of| of.0);
        let mut probability = unigram.map_or(self.rest, |at| self.unigrams[at].1);
        for mut list in self.lists(newest) {
            let counted = Counted::of(&list);
            let found = list.find(|next| next.0 == token);
            probability = counted.interpolated(found.map_or(0, |next| next.1), probability);
        }
        probability
    }

    /// The `most` most probable next tokens that the table names, the best first.
    pub fn best(&self, newest: &[TokenId], most: usize) -> Vec<(TokenId, f64)> {
        let mut all = self.unigrams.clone();
        for list in self.lists(newest) {
            let counted = Counted::of(&list);
            let mut counts: Vec<(TokenId, u64)> = list.collect();
            counts.sort_unstable();
            for &(token, _) in &counts {
                if let Err(at) = all.binary_search_by_key(&token, |next| next.0) {
                    all.insert(at, (token, self.rest));
                }
            }
            let mut counts = counts.into_iter().peekable();
            for (token, probability) in &mut all {
                let count = counts.next_if(|next| next.0 == *token);
                *probability = counted.interpolated(count.map_or(0, |next| next.1), *probability);
            }
        }
        all.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all.truncate(most);
        all
    }

    /// What followed the last token, and the last two; as far as the table knows.
    fn lists<'a>(&'a self, newest: &'a [TokenId]) -> impl Iterator<Item = Continuations<'a>> + 'a {
        let order = self.table.order().min(newest.len());
        (1..=order).map_while(|length| self.table.after(&newest[newest.len() - length..]))
    }

    /// The last tokens of the text and of the path to a node.
    fn newest(
        &self,
        context: &[TokenId],
        draft: &ScoredTree,
        node: Option<NodeId>,
    ) -> Vec<TokenId> {
        let path = std::iter::successors(node, |&node| draft.tree().parent(node))
            .map(|node| draft.tree().token(node));
        let text = self.source.iter().chain(context).rev().copied();
        let mut newest: Vec<TokenId> = path.chain(text).take(self.table.order()).collect();
        newest.reverse();
        newest
    }
}

/// What a table says of a context in all.
#[derive(Clone, Copy)]
struct Counted {
    total: u64,
    /// The sum of the counts that the table has.
    seen: u64,
    kinds: usize,
}

impl Counted {
    fn of(list: &Continuations<'_>) -> Self {
        Self {
            total: list.total(),
            seen: list.clone().map(|next| next.1).sum(),
            kinds: list.len(),
        }
    }

    /// The estimate for what occurs so often, if it is `shorter` after the shorter context.
    fn interpolated(self, count: u64, shorter: f64) -> f64 {
        let kinds = self.kinds as f64;
        let left_out = self.total.saturating_sub(self.seen) as f64;
        let weight = kinds + self.total.max(self.seen) as f64;
        if weight > 0.0 {
            (count as f64 + (kinds + left_out) * shorter) / weight
        } else {
            shorter
        }
    }
}

/// A node that may be appended.
struct Candidate {
    path: f64,
    probability: f64,
    token: TokenId,
    parent: Option<NodeId>,
}

impl Candidate {
    /// Of equally probable paths, the one nearer to the context, then the lower token.
    fn order(&self, other: &Self) -> Ordering {
        let by_path = self.path.total_cmp(&other.path);
        by_path
            .then_with(|| other.parent.cmp(&self.parent))
            .then_with(|| other.token.cmp(&self.token))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order(other)
    }
}

impl Drafter for TableDrafter {
    fn set_source(&mut self, source: &[TokenId]) {
        let start = source.len().saturating_sub(self.table.order());
        self.source = source[start..].to_vec();
    }

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        let mut draft = ScoredTree::default();
        if budget.depth == 0 || budget.nodes == 0 {
            return draft;
        }
        let mut heap = BinaryHeap::new();
        let mut expand = Some((None, 1.0));
        loop {
            if let Some((node, path)) = expand {
                let children = if budget.nodes <= budget.depth {
                    1
                } else {
                    MOST_CHILDREN.min(budget.nodes - draft.tree().len())
                };
                let newest = self.newest(context, &draft, node);
                heap.extend(self.best(&newest, children).into_iter().map(
                    |(token, probability)| Candidate {
                        path: path * probability,
                        probability,
                        token,
                        parent: node,
                    },
                ));
            }
            if draft.tree().len() == budget.nodes {
                return draft;
            }
            let Some(best) = heap.pop() else {
                return draft;
            };
            let node = draft.push_estimated(best.token, best.parent, best.probability as f32);
            let deeper = draft.tree().depth(node) + 1 < budget.depth;
            expand = deeper.then_some((Some(node), best.path));
        }
    }
}
