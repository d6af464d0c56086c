//! Penalties on tokens that a text has already.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{
    Distribution, GatheredProbs, InvalidSampling, Matrix, RowDetail, Sampling, Scorer, ScorerInfo,
    Scores, TokenId, TokenTree, Top, Want,
};

/// What tokens lose that a text has already, before anything else is done to a row of logits.
///
/// The repetition penalty is that of Hugging Face transformers: a logit above 0 is divided by it,
/// one below multiplied, for every token of the context, the prompt's included. The presence and
/// the frequency penalty are OpenAI's: they are subtracted from the logits of tokens that were
/// generated, once, and once for each time. They follow the repetition penalty, as in vLLM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalties {
    repetition: f32,
    presence: f32,
    frequency: f32,
}

impl Default for Penalties {
    fn default() -> Self {
        Self::NONE
    }
}

impl Penalties {
    /// Rows stay what they are.
    pub const NONE: Self = Self {
        repetition: 1.0,
        presence: 0.0,
        frequency: 0.0,
    };

    /// 1, 0 and 0 are none.
    ///
    /// # Errors
    /// A repetition penalty that is not finite and above 0; others outside [−2, 2].
    pub fn new(repetition: f32, presence: f32, frequency: f32) -> Result<Self, InvalidSampling> {
        if !(repetition > 0.0 && repetition.is_finite()) {
            return Err(InvalidSampling::RepetitionPenalty(repetition));
        }
        if !(-2.0..=2.0).contains(&presence) {
            return Err(InvalidSampling::PresencePenalty(presence));
        }
        if !(-2.0..=2.0).contains(&frequency) {
            return Err(InvalidSampling::FrequencyPenalty(frequency));
        }
        Ok(Self {
            repetition,
            presence,
            frequency,
        })
    }

    /// What divides the logits above 0 of tokens of the context, and multiplies those below.
    pub fn repetition(self) -> f32 {
        self.repetition
    }

    /// What the logit of each token loses that was generated.
    pub fn presence(self) -> f32 {
        self.presence
    }

    /// What the logit of a token loses for each time that it was generated.
    pub fn frequency(self) -> f32 {
        self.frequency
    }

    fn of(self, logit: f32, generated: u32) -> f32 {
        let repeated = if logit > 0.0 {
            logit / self.repetition
        } else {
            logit * self.repetition
        };
        match generated {
            0 => repeated,
            times => repeated - self.frequency * times as f32 - self.presence,
        }
    }
}

/// The penalties of one text, of which the prompt's tokens come first, and what it may not begin
/// with.
#[derive(Clone, Debug)]
pub struct PenalizedText {
    penalties: Penalties,
    prompt: usize,
    /// Tokens that have no probability up to a place of the text.
    barred: Arc<[TokenId]>,
    until: usize,
}

impl PenalizedText {
    /// The penalties of a text after a prompt of so many tokens of the context; nothing if they
    /// change nothing. `barred` are tokens that none of so many first ones behind the prompt is.
    pub fn new(
        penalties: Penalties,
        prompt: usize,
        barred: Option<(Arc<[TokenId]>, usize)>,
    ) -> Option<Self> {
        let (barred, first) = barred.unwrap_or_default();
        let until = prompt.saturating_add(first);
        let changes = penalties != Penalties::NONE || !barred.is_empty() && first > 0;
        changes.then_some(Self {
            penalties,
            prompt,
            barred,
            until,
        })
    }

    /// Whether rows behind a context of so many tokens are not as they were.
    pub fn changes(&self, context: usize) -> bool {
        self.penalties != Penalties::NONE || context < self.until
    }

    /// What a model must compute where `want` is wanted of penalized rows.
    pub fn want(&self, want: Want) -> Want {
        want.with_rows(RowDetail::Logits).with_top(0)
    }

    /// The scores of `tree` after `context`, each row penalized by the tokens on its own path: what
    /// `want` asks for is taken from the penalized logits, but for entropies and hidden states,
    /// which are the model's own. So a row depends on its text alone, whatever else was drafted.
    ///
    /// # Errors
    /// A row that is no distribution.
    pub fn scores(
        &self,
        mut scores: Scores,
        (context, tree): (&[TokenId], &TokenTree),
        want: Want,
    ) -> crate::Result<Scores> {
        let Some(mut logits) = scores.logits.take() else {
            return Ok(scores);
        };
        self.penalize(&mut logits, context, tree);
        scores.argmax = (0..logits.rows())
            .map(|row| most_probable(logits.row(row)))
            .collect();
        if want.top > 0 || want.rows == RowDetail::Gathered {
            let softmaxes = (0..logits.rows())
                .map(|row| Sampling::PLAIN.distribution(logits.row(row)))
                .collect::<crate::Result<Vec<_>>>()?;
            scores.gathered = (want.rows == RowDetail::Gathered)
                .then(|| gathered(&softmaxes, &scores.argmax, tree));
            scores.top = (want.top > 0).then(|| top(&softmaxes, want.top.min(logits.columns())));
        }
        scores.logits = (want.rows == RowDetail::Logits).then_some(logits);
        Ok(scores)
    }

    fn penalize(&self, logits: &mut Matrix, context: &[TokenId], tree: &TokenTree) {
        // How often each token of the context was generated.
        let mut of_context: HashMap<TokenId, u32> = HashMap::new();
        for (place, &token) in context.iter().enumerate() {
            *of_context.entry(token).or_default() += u32::from(place >= self.prompt);
        }
        for row in 0..logits.rows() {
            let path = tree.path_tokens(row.checked_sub(1));
            if context.len() + path.len() < self.until {
                let barred = self.barred.iter().map(|&token| token as usize);
                barred.for_each(|token| {
                    if let Some(logit) = logits.row_mut(row).get_mut(token) {
                        *logit = f32::NEG_INFINITY;
                    }
                });
            }
            if self.penalties == Penalties::NONE {
                continue;
            }
            let mut penalize = |token: TokenId, times: u32| {
                if let Some(logit) = logits.row_mut(row).get_mut(token as usize) {
                    *logit = self.penalties.of(*logit, times);
                }
            };
            let of_context_alone = of_context.iter().filter(|(token, _)| !path.contains(token));
            of_context_alone.for_each(|(&token, &times)| penalize(token, times));
            for (place, token) in path.iter().enumerate() {
                if !path[..place].contains(token) {
                    let on_path = path.iter().filter(|other| *other == token).count() as u32;
                    penalize(
                        *token,
                        on_path + of_context.get(token).copied().unwrap_or(0),
                    );
                }
            }
        }
    }
}

/// A scorer with the rows that the penalties of a text leave, for those who check what a cascade
/// says against its target.
pub struct PenalizedScorer<'a> {
    scorer: &'a mut dyn Scorer,
    text: Option<PenalizedText>,
}

impl<'a> PenalizedScorer<'a> {
    /// The scorer as it is if there are no penalties.
    pub fn new(scorer: &'a mut dyn Scorer, text: Option<PenalizedText>) -> Self {
        Self { scorer, text }
    }
}

impl Scorer for PenalizedScorer<'_> {
    fn info(&self) -> ScorerInfo {
        self.scorer.info()
    }

    fn set_source(&mut self, source: &[TokenId]) -> crate::Result<()> {
        self.scorer.set_source(source)
    }

    fn score(
        &mut self,
        context: &[TokenId],
        tree: &TokenTree,
        want: Want,
    ) -> crate::Result<Scores> {
        let text = self.text.as_ref();
        let Some(text) = text.filter(|text| text.changes(context.len())) else {
            return self.scorer.score(context, tree, want);
        };
        let scores = self.scorer.score(context, tree, text.want(want))?;
        text.scores(scores, (context, tree), want)
    }
}

/// The most probable token of a row, ties by lower id.
fn most_probable(row: &[f32]) -> TokenId {
    let best = (0..)
        .zip(row)
        .reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map_or(0, |(token, _)| token)
}

fn top(softmaxes: &[Distribution], width: usize) -> Top {
    let of_row = |softmax: &Distribution| {
        let tokens = softmax.top(width);
        let lacking = width - tokens.len();
        let others = (0..).filter(|token| !tokens.contains(token)).take(lacking);
        let all: Vec<TokenId> = tokens.iter().copied().chain(others).collect();
        let with = |token| (token, softmax.probability(token) as f32);
        all.into_iter().map(with).collect::<Vec<_>>()
    };
    Top {
        width,
        tokens: softmaxes.iter().flat_map(of_row).collect(),
    }
}

fn gathered(softmaxes: &[Distribution], argmax: &[TokenId], tree: &TokenTree) -> GatheredProbs {
    let probability = |row: usize, token| softmaxes[row].probability(token) as f32;
    let of_node = |node| probability(TokenTree::row(tree.parent(node)), tree.token(node));
    GatheredProbs {
        argmax: (0..)
            .zip(argmax)
            .map(|(row, &token)| probability(row, token))
            .collect(),
        nodes: (0..tree.len()).map(of_node).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn penalized(context: &[TokenId], tree: &TokenTree, rows: &[f32], want: Want) -> Scores {
        let penalties = Penalties::new(2.0, 0.5, 0.25).unwrap();
        let text = PenalizedText::new(penalties, 2, None).unwrap();
        let logits = Matrix::new(4, rows.to_vec());
        let scores = Scores::default().with_logits(logits);
        text.scores(scores, (context, tree), want).unwrap()
    }

    /// The prompt is tokens 0 and 1, and 1 was generated twice.
    #[test]
    fn tokens_of_the_text_lose_what_the_definitions_say() {
        let row = [3.0, 4.0, -1.0, 2.0];
        let context = [0, 1, 1, 1];
        let found = penalized(&context, &TokenTree::new(), &row, Want::LOGITS);
        // 3 / 2; 4 / 2 − 2 · 0.25 − 0.5; untouched.
        assert_eq!(found.logits.unwrap().as_slice(), [1.5, 1.0, -1.0, 2.0]);
        assert_eq!(found.argmax, [3]);
        let negative = penalized(&[2, 2], &TokenTree::new(), &row, Want::LOGITS);
        assert_eq!(
            negative.logits.unwrap().row(0)[2],
            -2.0,
            "multiplied below 0"
        );
    }

    /// Each row of a tree is that of its path as a context: nothing else of the tree matters.
    #[test]
    fn a_node_is_penalized_by_its_own_path() {
        let mut tree = TokenTree::new();
        let a = tree.push(2, None);
        tree.push(3, Some(a));
        let c = tree.push(2, Some(a));
        tree.push(3, None);
        tree.push(1, Some(c));
        let row = [3.0, 2.5, 2.0, 1.75];
        let context = [0, 0, 1];
        let of_tree = penalized(&context, &tree, &row.repeat(6), Want::LOGITS.with_top(3));
        for node in std::iter::once(None).chain((0..5).map(Some)) {
            let text = [&context[..], &tree.path_tokens(node)].concat();
            let alone = penalized(&text, &TokenTree::new(), &row, Want::LOGITS.with_top(3));
            let at = TokenTree::row(node);
            let logits = of_tree.logits.as_ref().unwrap();
            assert_eq!(logits.row(at), alone.logits.unwrap().row(0), "{node:?}");
            assert_eq!(of_tree.argmax[at], alone.argmax[0]);
            assert_eq!(
                of_tree.top.as_ref().unwrap().row(at),
                alone.top.unwrap().row(0)
            );
        }
    }

    #[test]
    fn what_is_wanted_is_read_from_penalized_rows() {
        let tree = TokenTree::chain([1]);
        let rows = [0.0, 1.0, f32::NEG_INFINITY, 0.5].repeat(2);
        let found = penalized(&[1, 1], &tree, &rows, Want::GATHERED.with_top(4));
        assert!(found.logits.is_none());
        // 1 / 2 ties with 0.5 of a token with a higher id; then it is below 0.
        assert_eq!(found.argmax, [1, 3]);
        let gathered = found.gathered.unwrap();
        let sum = 1.0 + 2.0 * 0.5f32.exp();
        assert!((gathered.nodes[0] - 0.5f32.exp() / sum).abs() < 1e-6);
        assert_eq!(gathered.nodes[0], gathered.argmax[0]);
        let order: Vec<TokenId> = found.top.unwrap().row(1).iter().map(|top| top.0).collect();
        assert_eq!(order, [3, 0, 1, 2], "those of no probability last");
    }

    /// Token 2 is none of the first two behind a prompt of two, wherever a row stands in a tree.
    #[test]
    fn barred_tokens_have_no_probability_up_to_their_place() {
        let barred = || Some((Arc::from([2]), 2));
        let text = PenalizedText::new(Penalties::NONE, 2, barred()).unwrap();
        let row = [0.0, 1.0, 5.0, 3.0];
        let rows = |context: &[TokenId], tree: &TokenTree| {
            let logits = Matrix::new(4, row.repeat(tree.len() + 1));
            let scores = Scores::default().with_logits(logits);
            text.scores(scores, (context, tree), Want::ARGMAX)
                .unwrap()
                .argmax
        };
        assert_eq!(rows(&[0, 0], &TokenTree::chain([1, 1])), [3, 3, 2]);
        assert_eq!(rows(&[0, 0, 1], &TokenTree::chain([1])), [3, 2]);
        assert!(text.changes(3) && !text.changes(4));
        let penalties = Penalties::new(2.0, 0.0, 0.0).unwrap();
        let both = PenalizedText::new(penalties, 2, barred()).unwrap();
        assert!(both.changes(100));
        assert!(PenalizedText::new(Penalties::NONE, 2, Some((Arc::from([]), 2))).is_none());
    }

    #[test]
    fn settings_without_sense_are_refused() {
        for (repetition, presence, frequency) in [
            (0.0, 0.0, 0.0),
            (-1.0, 0.0, 0.0),
            (f32::INFINITY, 0.0, 0.0),
            (f32::NAN, 0.0, 0.0),
            (1.0, 2.5, 0.0),
            (1.0, f32::NAN, 0.0),
            (1.0, 0.0, -2.1),
        ] {
            assert!(Penalties::new(repetition, presence, frequency).is_err());
        }
        assert!(PenalizedText::new(Penalties::NONE, 3, None).is_none());
    }
}
