//! How tokens are chosen in one generation, and what is read from a model's scores.

use std::sync::Arc;

use cascade_core::{
    Choice, Decoding, Distribution, Draft, NodeId, Noise, Proposal, RandomSource, Result, Sampling,
    Scores, SeededNoise, SeededRandom, TokenId, TokenTree, Want,
};
use cascade_verify::{
    LeniencePolicy, ReviewRule, RowDistributions, SampledRows, Verdict, coupled, greedy, sampled,
};

use crate::{Branching, Siblings};

/// How the tokens of one generation are chosen, by the target and by its drafters.
pub(crate) enum DecodingState {
    /// The most probable ones.
    Greedy,
    /// The winners of races with noise that depends on positions alone.
    Coupled(Sampling, Box<dyn Noise + Send>),
    /// Drawn from a source of randomness, in the order in which draws are needed: what a seed's
    /// tokens are depends on what is drafted.
    Drawn(Sampling, Box<dyn RandomSource + Send>),
}

impl DecodingState {
    pub(crate) fn new(decoding: Decoding, seed: u64, coupled: bool) -> Self {
        match (decoding, coupled) {
            (Decoding::Greedy, _) => Self::Greedy,
            (Decoding::Sampled(sampling), true) => {
                Self::Coupled(sampling, Box::new(SeededNoise::new(seed)))
            }
            (Decoding::Sampled(sampling), false) => {
                Self::Drawn(sampling, Box::new(SeededRandom::new(seed)))
            }
        }
    }

    /// Races with this noise, if tokens are sampled.
    pub(crate) fn with_noise(self, noise: impl Noise + Send + 'static) -> Self {
        match self {
            Self::Greedy => Self::Greedy,
            Self::Coupled(sampling, _) | Self::Drawn(sampling, _) => {
                Self::Coupled(sampling, Box::new(noise))
            }
        }
    }

    /// Draws from this source, if tokens are sampled.
    pub(crate) fn with_random(self, random: impl RandomSource + Send + 'static) -> Self {
        match self {
            Self::Greedy => Self::Greedy,
            Self::Coupled(sampling, _) | Self::Drawn(sampling, _) => {
                Self::Drawn(sampling, Box::new(random))
            }
        }
    }

    /// What must be computed of each row for a review with this lenience and for branching.
    pub(crate) fn want(&self, lenience: LeniencePolicy, branching: &Branching) -> Want {
        match self {
            Self::Coupled(..) | Self::Drawn(..) => Want::LOGITS,
            Self::Greedy => {
                let want = if lenience.is_strict() {
                    Want::ARGMAX
                } else {
                    Want::GATHERED
                };
                match branching.widest() {
                    1 => want,
                    width => want.with_top(width),
                }
            }
        }
    }

    /// Whether the text depends on what is drafted. If so, what is drafted must not depend on the
    /// clock or on earlier generations, or a seed would not give the same text twice.
    pub(crate) fn is_drawn(&self) -> bool {
        matches!(self, Self::Drawn(..))
    }

    /// What a drafter chooses its tokens by.
    pub(crate) fn choice(&mut self) -> Choice<'_> {
        match self {
            Self::Greedy => Choice::Greedy,
            Self::Coupled(sampling, noise) => Choice::Coupled {
                sampling,
                noise: &**noise,
            },
            Self::Drawn(sampling, random) => Choice::Drawn {
                sampling,
                random: &mut **random,
            },
        }
    }

    /// Reads the `scores` of a tree after `context` tokens, according to the decoding mode.
    pub(crate) fn view<'s>(&'s mut self, scores: &'s Scores, context: usize) -> ScoreView<'s> {
        let choice = self.choice();
        let sampling = match choice {
            Choice::Greedy => None,
            Choice::Coupled { sampling, .. } | Choice::Drawn { sampling, .. } => Some(sampling),
        };
        let rows = scores.logits.as_ref().zip(sampling);
        ScoreView {
            scores,
            rows: rows.map(|(logits, sampling)| SampledRows::new(logits, sampling)),
            choice,
            context,
        }
    }
}

/// A model's scores, read according to the decoding mode.
pub(crate) struct ScoreView<'s> {
    scores: &'s Scores,
    /// The distributions of the rows, if tokens are sampled.
    rows: Option<SampledRows<'s>>,
    choice: Choice<'s>,
    /// Tokens before the tree.
    context: usize,
}

impl ScoreView<'_> {
    pub(crate) fn review(
        &mut self,
        draft: &Draft,
        start: Option<NodeId>,
        rule: &dyn ReviewRule,
        lenience: LeniencePolicy,
    ) -> Result<Verdict> {
        match (&mut self.rows, &mut self.choice) {
            (Some(rows), Choice::Coupled { noise, .. }) => {
                coupled::review(draft, start, rows, *noise, self.context, lenience)
            }
            (Some(rows), Choice::Drawn { random, .. }) => {
                sampled::review(draft, start, rows, rule, lenience, *random)
            }
            _ => Ok(greedy::review(draft, start, self.scores, lenience)),
        }
    }

    /// At most `count` tokens after a node of `tree`, by its row, in the order in which the
    /// reviewer probably has them, with an estimate of the probability that each is the reviewer's.
    pub(crate) fn likely(
        &mut self,
        tree: &TokenTree,
        at: Option<NodeId>,
        count: usize,
    ) -> Result<Vec<(TokenId, f32)>> {
        let row = TokenTree::row(at);
        let Some(rows) = &mut self.rows else {
            return Ok(self.most_probable(row, None).take(count).collect());
        };
        let p = rows.distribution(row)?;
        let position = coupled::position(tree, self.context, at);
        let likely = match &self.choice {
            Choice::Coupled { noise, .. } => noise.first(position, &p, count),
            _ => p.top(count),
        };
        let races = matches!(self.choice, Choice::Coupled { .. });
        let estimate = |(place, token)| {
            let probability = p.probability(token);
            let estimate = if races {
                coupled_estimate(probability, place)
            } else {
                probability as f32
            };
            (token, estimate)
        };
        Ok(likely.into_iter().enumerate().map(estimate).collect())
    }

    /// Number of draws that give a node of multiplicity `times` its `width` children, in addition
    /// to the token on the main path if there is one.
    pub(crate) fn draws(
        &self,
        siblings: Siblings,
        width: usize,
        times: usize,
        on_path: Option<TokenId>,
    ) -> usize {
        let beside = usize::from(on_path.is_some());
        match (&self.choice, siblings) {
            (Choice::Drawn { .. }, Siblings::WithReplacement) => width * times - beside,
            // The token on the main path is a sample and does not replace any of the most probable
            // tokens.
            (Choice::Drawn { .. }, Siblings::TopK) if width > beside => width,
            _ => width - beside,
        }
    }

    /// Draws `count` children after a node of `tree` from its row, in addition to a token of the
    /// main path that has already been drawn, if there is one. Coupled ones are the next to arrive
    /// in the race, whatever `siblings` says.
    pub(crate) fn children(
        &mut self,
        tree: &TokenTree,
        at: Option<NodeId>,
        count: usize,
        siblings: Siblings,
        on_path: Option<TokenId>,
    ) -> Result<Vec<(TokenId, Proposal)>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let row = TokenTree::row(at);
        let Some(rows) = &mut self.rows else {
            let pick = |(token, probability)| (token, Proposal::Pick { probability });
            let most = self.most_probable(row, on_path).take(count);
            return Ok(most.map(pick).collect());
        };
        let p = rows.distribution(row)?;
        Ok(match (&mut self.choice, siblings) {
            (Choice::Drawn { .. }, Siblings::TopK) => point_masses(&p, count),
            (Choice::Drawn { random, .. }, Siblings::WithReplacement) => {
                with_replacement(&p, count, *random)
            }
            (choice, _) => {
                let position = coupled::position(tree, self.context, at);
                choice.draw(&p, position, count, on_path)
            }
        })
    }

    /// The most probable tokens of a row other than that of the main path.
    fn most_probable(
        &self,
        row: usize,
        on_path: Option<TokenId>,
    ) -> impl Iterator<Item = (TokenId, f32)> + '_ {
        let top = self.scores.top.as_ref().map_or(&[][..], |top| top.row(row));
        let top = top.iter().copied();
        top.filter(move |&(token, probability)| Some(token) != on_path && probability > 0.0)
    }
}

/// How likely a token is the reviewer's that comes in at `place` of a race that both see, by a
/// drafter that gives it this probability: if both are of one mind it is the first one's, and else
/// as likely as it is. What shows to be true corrects it.
fn coupled_estimate(probability: f64, place: usize) -> f32 {
    const OF_ONE_MIND: f64 = 0.5;
    let alone = (1.0 - OF_ONE_MIND) * probability;
    (alone + if place == 0 { OF_ONE_MIND } else { 0.0 }) as f32
}

/// The most probable tokens as point masses. They do not depend on the token of the main path,
/// which may be one of them, so a review may consider them in any order.
fn point_masses(p: &Distribution, count: usize) -> Vec<(TokenId, Proposal)> {
    let top = p.top(count).into_iter();
    top.map(|token| (token, Proposal::PointMass)).collect()
}

fn with_replacement(
    p: &Arc<Distribution>,
    count: usize,
    random: &mut dyn RandomSource,
) -> Vec<(TokenId, Proposal)> {
    let draw = |_| (random.draw(p), Proposal::Sampled(Arc::clone(p)));
    (0..count).map(draw).collect()
}
