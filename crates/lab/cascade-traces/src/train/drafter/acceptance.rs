//! How much of what a head drafts is right.

use cascade_core::TokenId;
use serde::Serialize;

use super::Text;

/// A place in drafts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Position {
    /// Drafts, one behind every token of the texts, whose tokens before it are right.
    pub reached: usize,
    /// Drafts whose token is right, too.
    pub accepted: usize,
}

impl Position {
    /// The share that is accepted where all before it are; 0 if none was reached.
    pub fn share(self) -> f64 {
        self.accepted as f64 / self.reached.max(1) as f64
    }
}

/// What chains of the most probable tokens would have been worth on recorded texts, which the
/// target is taken to say again.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DraftAcceptance {
    /// By place in a draft.
    pub positions: Vec<Position>,
    /// Tokens of the texts.
    pub tokens: usize,
    /// Forwards of the target that they take with drafts of 0, 1, 2, … tokens.
    pub forwards: Vec<usize>,
}

impl DraftAcceptance {
    /// No drafts yet, of `depth` tokens at most.
    pub(super) fn new(depth: usize) -> Self {
        Self {
            positions: vec![Position::default(); depth],
            tokens: 0,
            forwards: vec![0; depth + 1],
        }
    }

    /// Tokens per forward of the target with drafts of so many tokens, bonus tokens included.
    pub fn tokens_per_forward(&self, length: usize) -> f64 {
        let forwards = self.forwards.get(length).copied().unwrap_or(0);
        self.tokens as f64 / forwards.max(1) as f64
    }

    /// The length of drafts with most tokens per forward, the least of them.
    pub fn best_length(&self) -> usize {
        let lengths = 0..self.forwards.len();
        lengths
            .min_by_key(|&length| self.forwards[length])
            .unwrap_or(0)
    }

    /// Counts a text. `said` is, by place in a draft, what is said behind each state from that of
    /// the prompt's last token on: the token that follows the state is the target's, and a draft
    /// begins with the one behind that.
    pub(super) fn count(&mut self, text: &Text, said: &[Vec<TokenId>]) {
        let (first, end) = (text.prompt - 1, text.tokens.len());
        let right = |start: usize, place: usize| {
            let said = said.get(place).and_then(|said| said.get(start - first));
            said.is_some_and(|said| text.tokens.get(start + place + 2) == Some(said))
        };
        for start in first..end.saturating_sub(2) {
            for (place, position) in self.positions.iter_mut().enumerate() {
                if start + place + 2 >= end {
                    break;
                }
                position.reached += 1;
                if !right(start, place) {
                    break;
                }
                position.accepted += 1;
            }
        }
        self.tokens += end - text.prompt;
        for (length, forwards) in self.forwards.iter_mut().enumerate() {
            // The first forward reads the prompt, and drafts begin behind what it says.
            let (mut start, mut taken) = (first, 1);
            while start + 2 < end {
                let accepted = (0..length).take_while(|&place| right(start, place)).count();
                start += accepted + 1;
                taken += 1;
            }
            *forwards += taken;
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Tensor};

    use super::*;

    #[test]
    fn counts_what_greedy_decoding_would_keep() {
        let text = Text {
            tokens: vec![9, 1, 2, 3, 4],
            prompt: 1,
            states: Tensor::zeros((4, 1), DType::F32, &Device::Cpu).unwrap(),
        };
        // Behind the states of 9, 1, 2: one token, then the one behind it.
        let said = [vec![2, 7, 4], vec![3, 4]];
        let mut found = DraftAcceptance::new(2);
        found.count(&text, &said);
        let position = |reached, accepted| Position { reached, accepted };
        assert_eq!(found.positions, [position(3, 2), position(1, 1)]);
        // Plainly one each; with one token 1, (2 3), (4); with two 1, (2 3 4).
        assert_eq!((found.tokens, &found.forwards[..]), (4, &[4, 3, 2][..]));
        assert_eq!(found.best_length(), 2);
        assert_eq!(found.tokens_per_forward(2), 2.0);
    }
}
