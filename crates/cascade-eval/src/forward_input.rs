//! What forwards are given that are timed or compared: random tokens, and trees of them.

use cascade_core::{Architecture, Scorer, TokenId, TokenTree};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Random tokens. Rows differ between forwards, so that only the context is found in the cache.
pub(crate) struct Tokens {
    rng: ChaCha8Rng,
    vocab_size: TokenId,
}

impl Tokens {
    pub(crate) fn new(seed: u64, vocab_size: usize) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            vocab_size: vocab_size as TokenId,
        }
    }

    /// A source for a scorer: of so many tokens, of one at least, if it has an encoder.
    pub(crate) fn source(&mut self, scorer: &dyn Scorer, count: usize) -> Vec<TokenId> {
        match scorer.info().architecture {
            Architecture::EncoderDecoder => self.take(count.max(1)),
            Architecture::DecoderOnly => Vec::new(),
        }
    }

    pub(crate) fn take(&mut self, count: usize) -> Vec<TokenId> {
        (0..count)
            .map(|_| self.rng.random_range(0..self.vocab_size))
            .collect()
    }
}

/// A tree of so many nodes: a path along `text`, each node of which has a sibling as far as they
/// go; and the rows of the path, with that of the context.
pub(crate) fn with_siblings(text: &[TokenId], nodes: usize) -> (TokenTree, Vec<usize>) {
    let (mut tree, mut path, mut parent) = (TokenTree::new(), vec![0], None);
    for &token in &text[..nodes.div_ceil(2)] {
        if tree.len() + 1 < nodes {
            // Any other token; before its sibling, so that slots are not positions.
            tree.push(token ^ 1, parent);
        }
        let node = tree.push(token, parent);
        path.push(TokenTree::row(Some(node)));
        parent = Some(node);
    }
    (tree, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_have_as_many_nodes_as_asked_for_and_the_path() {
        let text = [3, 5, 7, 9, 11];
        for nodes in 2..=9 {
            let (tree, path) = with_siblings(&text, nodes);
            assert_eq!(tree.len(), nodes);
            let node = path.last().map(|row| row - 1);
            assert_eq!(tree.path_tokens(node), text[..nodes.div_ceil(2)]);
        }
    }
}
