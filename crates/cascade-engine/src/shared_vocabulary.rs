//! Drafters whose vocabulary is not the target's to the last row.
//!
//! Models of one family share a tokenizer and often differ in rows: embeddings are padded to
//! multiples of another number. Token ids mean the same below the shorter of the two; what lies
//! beyond it, and what the caller says the models name differently, a drafter never drafts. That
//! changes its proposals, which are renormalized over what is left, and no review: the output is
//! the target's whatever is drafted.

use std::sync::Arc;

use cascade_core::{
    Distribution, Error, GatheredProbs, Matrix, Observation, Result, RowDetail, Sampling, Scorer,
    ScorerInfo, Scores, SharedForward, TokenId, TokenTree, Top, Want,
};

pub(crate) type BoxedScorer = Box<dyn Scorer + Send>;

/// What a neural drafter may draft, of the tokens that it and the target have rows for. All of
/// them by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftVocabulary {
    end: Option<TokenId>,
    /// Sorted.
    except: Arc<[TokenId]>,
}

impl DraftVocabulary {
    /// The tokens below `end`: the rows behind the last id of a tokenizer are padding.
    pub fn below(end: TokenId) -> Self {
        Self {
            end: Some(end),
            ..Self::default()
        }
    }

    /// Leaves out some tokens, such as those that stand for one thing in the drafter and for
    /// another in the target.
    pub fn without(self, tokens: impl IntoIterator<Item = TokenId>) -> Self {
        let mut except: Vec<TokenId> = self.except.iter().copied().chain(tokens).collect();
        except.sort_unstable();
        except.dedup();
        Self {
            except: except.into(),
            ..self
        }
    }

    /// A drafter as it drafts for a target of so many rows: what it may not draft has a probability
    /// of 0. For those who read a drafter's scores without a cascade.
    pub fn restrict(
        &self,
        drafter: Box<dyn Scorer + Send>,
        target_rows: usize,
    ) -> Box<dyn Scorer + Send> {
        SharedVocabulary::fit(drafter, target_rows, self)
    }

    /// The first id that a drafter and a target of so many rows do not draft.
    fn end(&self, rows: usize, target_rows: usize) -> usize {
        let end = self.end.map_or(usize::MAX, |end| end as usize);
        rows.min(target_rows).min(end)
    }

    /// Whether two models of so many rows share a token that may be drafted.
    pub(crate) fn is_empty(&self, rows: usize, target_rows: usize) -> bool {
        let end = self.end(rows, target_rows);
        let left_out = self.except.iter().filter(|&&id| (id as usize) < end);
        left_out.count() == end
    }
}

/// A drafter whose scores are over the target's vocabulary: those of what it may not draft are −∞.
///
/// Reviews by a greedy drafter, and policies, read probabilities of the drafter's own softmax over
/// all of its rows; the distributions that samples are drawn from are those of the logits, and so
/// renormalized.
pub(crate) struct SharedVocabulary {
    scorer: BoxedScorer,
    target_rows: usize,
    end: usize,
    except: Arc<[TokenId]>,
    /// The first token of the source that the drafter has no row for.
    unread: Option<TokenId>,
}

impl SharedVocabulary {
    /// The drafter as it is if it may draft every token of the target.
    pub(crate) fn fit(
        scorer: BoxedScorer,
        target_rows: usize,
        allowed: &DraftVocabulary,
    ) -> BoxedScorer {
        let rows = scorer.info().vocab_size;
        let end = allowed.end(rows, target_rows);
        if rows == target_rows && end == rows && allowed.except.is_empty() {
            return scorer;
        }
        Box::new(Self {
            scorer,
            target_rows,
            end,
            except: Arc::clone(&allowed.except),
            unread: None,
        })
    }

    fn drafts(&self, token: TokenId) -> bool {
        (token as usize) < self.end && self.except.binary_search(&token).is_err()
    }

    fn reads(&self, token: TokenId) -> bool {
        (token as usize) < self.scorer.info().vocab_size
    }

    /// The tree with a known token in place of each that the drafter has no row for: no review
    /// reaches the rows behind those, since their own probability is 0.
    fn readable(&self, tree: &TokenTree) -> Option<TokenTree> {
        if tree.tokens().all(|token| self.reads(token)) {
            return None;
        }
        let mut readable = TokenTree::new();
        for node in 0..tree.len() {
            let token = Some(tree.token(node)).filter(|&token| self.reads(token));
            readable.push(token.unwrap_or(0), tree.parent(node));
        }
        Some(readable)
    }

    /// Whether nothing that may not be drafted is the most probable or among the top.
    fn is_fit(&self, scores: &Scores, want: Want) -> bool {
        let top = scores.top.as_ref();
        let width = want.top.min(self.target_rows);
        let mut tokens = top.iter().flat_map(|top| &top.tokens);
        top.is_none_or(|top| top.width == width)
            && tokens.all(|&(token, _)| self.drafts(token))
            && scores.argmax.iter().all(|&token| self.drafts(token))
    }

    /// The drafter's logits as rows of the target's vocabulary.
    fn masked(&self, logits: &Matrix) -> Matrix {
        let mut masked = Vec::with_capacity(logits.rows() * self.target_rows);
        for row in 0..logits.rows() {
            let start = masked.len();
            masked.extend_from_slice(&logits.row(row)[..self.end]);
            for &token in self.except.iter() {
                if let Some(logit) = masked.get_mut(start + token as usize) {
                    *logit = f32::NEG_INFINITY;
                }
            }
            masked.resize(start + self.target_rows, f32::NEG_INFINITY);
        }
        Matrix::new(self.target_rows, masked)
    }

    /// The scores of `tree`, with what depends on which tokens may be drafted taken from `logits`,
    /// the drafter's own rows.
    fn fitted(
        &self,
        mut scores: Scores,
        logits: &Matrix,
        tree: &TokenTree,
        want: Want,
    ) -> Result<Scores> {
        let masked = self.masked(logits);
        for (row, token) in scores.argmax.iter_mut().enumerate() {
            if !self.drafts(*token) {
                *token = most_probable(masked.row(row))?;
            }
        }
        let gathered = want.rows == RowDetail::Gathered;
        let softmaxes = if gathered || want.top > 0 {
            (0..logits.rows())
                .map(|row| Sampling::PLAIN.distribution(logits.row(row)))
                .collect::<Result<Vec<_>>>()?
        } else {
            Vec::new()
        };
        let top = match want.top {
            0 => None,
            _ => Some(self.top(&masked, &softmaxes, want.top.min(self.target_rows))?),
        };
        let gathered = gathered.then(|| self.gathered(&scores.argmax, &softmaxes, tree));
        let logits = (want.rows == RowDetail::Logits).then_some(masked);
        Ok(scores
            .with_gathered(gathered)
            .with_top(top)
            .with_logits(logits))
    }

    /// Rows of one width: where fewer tokens may be drafted, others follow with a probability of 0.
    fn top(&self, masked: &Matrix, softmaxes: &[Distribution], width: usize) -> Result<Top> {
        let mut tokens = Vec::with_capacity(width * softmaxes.len());
        for (row, softmax) in softmaxes.iter().enumerate() {
            let best = Sampling::PLAIN.distribution(masked.row(row))?.top(width);
            let others = (0..)
                .filter(|token| !best.contains(token))
                .take(width - best.len())
                .map(|token| (token, 0.0));
            let best = best.iter();
            tokens.extend(best.map(|&token| (token, softmax.probability(token) as f32)));
            tokens.extend(others);
        }
        Ok(Top { width, tokens })
    }

    fn gathered(
        &self,
        argmax: &[TokenId],
        softmaxes: &[Distribution],
        tree: &TokenTree,
    ) -> GatheredProbs {
        let of_row = softmaxes.iter().zip(argmax);
        let of_node = |node| match tree.token(node) {
            token if self.drafts(token) => {
                let row = TokenTree::row(tree.parent(node));
                softmaxes[row].probability(token) as f32
            }
            _ => 0.0,
        };
        GatheredProbs {
            argmax: of_row
                .map(|(softmax, &token)| softmax.probability(token) as f32)
                .collect(),
            nodes: (0..tree.len()).map(of_node).collect(),
        }
    }

    /// Scores that need no logits: nodes that may not be drafted have no probability.
    fn without_others(&self, mut scores: Scores, tree: &TokenTree) -> Scores {
        if let Some(gathered) = &mut scores.gathered {
            for (probability, token) in gathered.nodes.iter_mut().zip(tree.tokens()) {
                if !self.drafts(token) {
                    *probability = 0.0;
                }
            }
        }
        scores
    }
}

/// The most probable token of a row, ties by lower id.
fn most_probable(row: &[f32]) -> Result<TokenId> {
    let best = (0..)
        .zip(row)
        .reduce(|best, next| if next.1 > best.1 { next } else { best });
    match best {
        Some((token, &logit)) if logit > f32::NEG_INFINITY => Ok(token),
        _ => Err(Error::improper_logits(row)),
    }
}

impl Scorer for SharedVocabulary {
    fn info(&self) -> ScorerInfo {
        self.scorer.info().with_vocab_size(self.target_rows)
    }

    /// A source with a token that the drafter has no row for is none that it could score: see
    /// [`Neural::positions`](crate::level::Neural::positions).
    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.unread = source.iter().copied().find(|&token| !self.reads(token));
        match self.unread {
            None => self.scorer.set_source(source),
            Some(_) => Ok(()),
        }
    }

    fn reach(&self, context: &[TokenId]) -> Option<usize> {
        self.scorer.reach(context)
    }

    fn observe(&mut self, observation: &Observation<'_>) -> Result<()> {
        self.scorer.observe(observation)
    }

    fn cached(&mut self, context: &[TokenId]) -> usize {
        self.scorer.cached(context)
    }

    fn texts(&self) -> usize {
        self.scorer.texts()
    }

    fn shared_forward(&self) -> Option<SharedForward> {
        self.scorer.shared_forward()
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let unread = context.iter().copied().find(|&token| !self.reads(token));
        if let Some(token) = self.unread.or(unread) {
            let vocab_size = self.scorer.info().vocab_size;
            return Err(Error::TokenOutOfVocabulary { token, vocab_size });
        }
        let readable = self.readable(tree);
        let known = readable.as_ref().unwrap_or(tree);
        let mut scores = self.scorer.score(context, known, want)?;
        if want.rows != RowDetail::Logits {
            if self.is_fit(&scores, want) {
                return Ok(self.without_others(scores, tree));
            }
            // Rare: the next in rank are needed, and only the logits have them.
            let computed = scores.rows_computed;
            let all = want.with_rows(RowDetail::Logits).with_top(0);
            scores = self.scorer.score(context, known, all)?;
            scores.rows_computed += computed;
        }
        match scores.logits.take() {
            Some(logits) => self.fitted(scores, &logits, tree, want),
            // A scorer that breaks its contract, which the ledger reports.
            None => Ok(scores),
        }
    }
}
