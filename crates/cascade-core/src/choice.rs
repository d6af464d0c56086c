//! How the tokens of a generation are chosen, for drafters that choose as their reviewers do.

use std::fmt;
use std::sync::Arc;

use crate::{Distribution, Noise, Proposal, RandomSource, Result, Sampling, TokenId};

/// How the tokens of a generation are chosen, by the target and by its drafters.
pub enum Choice<'a> {
    /// The most probable ones.
    Greedy,
    /// The first to arrive in races with noise that depends on positions alone, by which drafters
    /// agree with their reviewers as often as two distributions can.
    Coupled {
        /// What logits are transformed by before anything is drawn.
        sampling: &'a Sampling,
        /// The noise of all models.
        noise: &'a dyn Noise,
    },
    /// Drawn from a source of randomness, in the order in which draws are needed.
    Drawn {
        /// What logits are transformed by before anything is drawn.
        sampling: &'a Sampling,
        /// The source.
        random: &'a mut dyn RandomSource,
    },
}

impl fmt::Debug for Choice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Greedy => "Greedy",
            Self::Coupled { .. } => "Coupled",
            Self::Drawn { .. } => "Drawn",
        })
    }
}

impl Choice<'_> {
    /// The distribution of next tokens: the softmax of `logits`, transformed as the target's are.
    ///
    /// # Errors
    /// [`ImproperLogits`](crate::Error::ImproperLogits).
    pub fn distribution(&self, logits: &[f32]) -> Result<Distribution> {
        match self {
            Self::Greedy => Sampling::PLAIN.distribution(logits),
            Self::Coupled { sampling, .. } | Self::Drawn { sampling, .. } => {
                sampling.distribution(logits)
            }
        }
    }

    /// At most `count` different tokens of `p` for the place after `position` tokens of the
    /// context, in the order in which they are chosen, with what each was drawn from: the most
    /// probable ones, the first to arrive, or draws without replacement. Fewer if `p` has no more.
    ///
    /// `on_path` is a token of this place that was chosen already; it is left out.
    pub fn draw(
        &mut self,
        p: &Arc<Distribution>,
        position: u64,
        count: usize,
        on_path: Option<TokenId>,
    ) -> Vec<(TokenId, Proposal)> {
        match self {
            Self::Greedy => picks(p, p.top(count + 1), count, on_path),
            Self::Coupled { noise, .. } => {
                picks(p, noise.first(position, p, count + 1), count, on_path)
            }
            Self::Drawn { random, .. } => without_replacement(p, count, on_path, *random),
        }
    }
}

/// The first `count` of some tokens other than that of the main path.
fn picks(
    p: &Distribution,
    tokens: Vec<TokenId>,
    count: usize,
    on_path: Option<TokenId>,
) -> Vec<(TokenId, Proposal)> {
    let tokens = tokens.into_iter();
    tokens
        .filter(|&token| Some(token) != on_path)
        .take(count)
        .map(|token| {
            let probability = p.probability(token) as f32;
            (token, Proposal::Pick { probability })
        })
        .collect()
}

fn without_replacement(
    p: &Arc<Distribution>,
    count: usize,
    on_path: Option<TokenId>,
    random: &mut dyn RandomSource,
) -> Vec<(TokenId, Proposal)> {
    let mut left = match on_path {
        None => Some(Arc::clone(p)),
        Some(on_path) => p.without(&[on_path]).map(Arc::new),
    };
    let mut children = Vec::with_capacity(count);
    while let Some(q) = left.filter(|_| children.len() < count) {
        let token = random.draw(&q);
        left = q.without(&[token]).map(Arc::new);
        children.push((token, Proposal::Sampled(q)));
    }
    children
}
