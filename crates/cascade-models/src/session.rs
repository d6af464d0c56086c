//! Sessions: what has been fed to a model, behind a scorer that seems to have no memory.

use std::sync::Arc;

use candle_core::{Result as TensorResult, Tensor};
use cascade_core::{Architecture, Error, Result, Scorer, Scores, TokenId, TokenTree, Want};

use crate::arena::Arena;
use crate::mask::Plan;
use crate::readout::Readout;
use crate::t5::EncodedSource;
use crate::{Llama, T5};

/// Rows of one forward at most, as far as the context goes: longer gaps are fed in pieces, which bounds the memory that
/// attention scores take.
const CHUNK: usize = 512;

#[derive(Debug)]
enum Network {
    T5(T5),
    Llama(Llama),
}

/// The weights of a model on a device, of either architecture, shared by any number of [sessions](Session).
#[derive(Debug)]
pub struct Model {
    network: Network,
    readout: Readout,
}

impl Model {
    /// A T5 model, ready to be scored with.
    ///
    /// # Errors
    /// If the device has no memory left for a row of the vocabulary's size.
    pub fn t5(model: T5) -> crate::Result<Self> {
        Ok(Self {
            readout: Readout::new(model.config().vocab_size, model.device())?,
            network: Network::T5(model),
        })
    }

    /// A LLaMA model, ready to be scored with.
    ///
    /// # Errors
    /// As for [`t5`](Self::t5).
    pub fn llama(model: Llama) -> crate::Result<Self> {
        Ok(Self {
            readout: Readout::new(model.config().vocab_size, model.device())?,
            network: Network::Llama(model),
        })
    }

    /// How the model reads its prompt.
    pub fn architecture(&self) -> Architecture {
        match &self.network {
            Network::T5(_) => Architecture::EncoderDecoder,
            Network::Llama(_) => Architecture::DecoderOnly,
        }
    }

    /// Rows of its embedding, and columns of its logits.
    pub fn vocab_size(&self) -> usize {
        match &self.network {
            Network::T5(model) => model.config().vocab_size,
            Network::Llama(model) => model.config().vocab_size,
        }
    }

    /// Number of parameters; a tied head counts once.
    pub fn num_parameters(&self) -> usize {
        match &self.network {
            Network::T5(model) => model.num_parameters(),
            Network::Llama(model) => model.num_parameters(),
        }
    }

    /// Bytes of weights that one forward reads, whatever the number of rows: what bounds decoding at batch 1. For T5 it is the
    /// decoder's; the encoder runs once per source.
    pub fn bytes_per_forward(&self) -> usize {
        match &self.network {
            Network::T5(model) => {
                model.config().parameters_per_forward() * model.dtype().size_in_bytes()
            }
            Network::Llama(model) => {
                model.config().parameters_per_forward() * model.dtype().size_in_bytes()
            }
        }
    }

    /// The most positions that a context and the height of a tree may take together. T5 has no limit: its positions are
    /// relative.
    pub fn max_context(&self) -> Option<usize> {
        match &self.network {
            Network::T5(_) => None,
            Network::Llama(model) => Some(model.config().max_position_embeddings),
        }
    }

    /// A session that has seen nothing yet. Allocates nothing.
    pub fn session(self: &Arc<Self>) -> Session {
        Session::new(Arc::clone(self))
    }

    /// The token that the network reads before the context.
    fn start(&self) -> Option<TokenId> {
        match &self.network {
            Network::T5(model) => Some(model.config().decoder_start()),
            Network::Llama(_) => None,
        }
    }

    fn arena(&self) -> Arena {
        match &self.network {
            Network::T5(model) => model.arena(),
            Network::Llama(model) => model.arena(),
        }
    }

    fn logits(&self, hidden: &Tensor) -> TensorResult<Tensor> {
        match &self.network {
            Network::T5(model) => model.logits(hidden),
            Network::Llama(model) => model.logits(hidden),
        }
    }
}

/// A [`Scorer`] over a model: its contexts, trees and sources are whatever the caller likes, in any order.
///
/// A session keeps the keys and values of the last context and tree. It compares each new context with them, keeps the
/// longest common prefix (and, of the last tree, the branch that the context follows), and feeds the rest together with
/// the new tree in one forward, or in several if more than 512 tokens of the context are new. The last token of the
/// context is always fed again: its row is the first of the answer.
///
/// On the CPU in f32, an answer has the same bits whatever was fed before and together with it, so that checking a draft
/// gives the very numbers that plain decoding gives. Elsewhere the last bits vary with the number of rows.
///
/// Logits that make no distribution are an error whatever is wanted of them ([`Error::ImproperLogits`]). After it, the
/// session answers other calls as if it had seen nothing.
///
/// Hidden states are those after the final norm. For a T5 with a tied head, the factor d_model^-0.5 comes after them.
///
/// Memory: keys and values of context and tree, at most twice (see the source of the arena), and for T5 the
/// cross-attention's keys and values of one source.
#[derive(Debug)]
pub struct Session {
    model: Arc<Model>,
    source: Source,
    cache: Cache,
}

impl Session {
    /// A session that has seen nothing yet. Allocates nothing.
    pub fn new(model: Arc<Model>) -> Self {
        Self {
            cache: Cache::new(model.arena()),
            source: Source::default(),
            model,
        }
    }

    /// The model it scores with.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    fn check(&self, context: &[TokenId], tree: &TokenTree) -> Result<()> {
        match self.architecture() {
            Architecture::DecoderOnly if context.is_empty() => return Err(Error::EmptyContext),
            Architecture::EncoderDecoder if self.source.tokens.is_empty() => {
                return Err(Error::EmptySource)
            }
            _ => {}
        }
        check_tokens(context.iter().copied().chain(tree.tokens()), &self.model)?;
        let needed = context.len() + tree.height();
        match self.max_context() {
            Some(limit) if needed > limit => Err(Error::ContextTooLong { needed, limit }),
            _ => Ok(()),
        }
    }

    /// Runs the network over `context`, of which the cache holds the beginning, and `tree`. Gives the hidden states of
    /// all rows of the last forward and the number of rows fed.
    fn feed(&mut self, context: &[TokenId], tree: &TokenTree) -> TensorResult<(Tensor, usize)> {
        let Self {
            model,
            source,
            cache,
        } = self;
        let mut run = |plan: &Plan<'_>, arena: &Arena| match &model.network {
            Network::T5(model) => model.decode(plan, source.encoded(model)?, arena),
            Network::Llama(model) => model.decode(plan, arena),
        };
        let empty = TokenTree::new();
        let mut fed = 0;
        loop {
            let gap = &context[cache.context.len()..];
            if gap.len() <= CHUNK {
                let hidden = cache.extend(gap, tree, &mut run)?;
                return Ok((hidden, fed + gap.len() + tree.len()));
            }
            cache.extend(&gap[..CHUNK], &empty, &mut run)?;
            fed += CHUNK;
        }
    }

    /// Logits and hidden states after the context and each node, and the number of rows fed.
    fn forward(
        &mut self,
        context: &[TokenId],
        tree: &TokenTree,
    ) -> TensorResult<(Tensor, Tensor, usize)> {
        let context: Vec<TokenId> = self
            .model
            .start()
            .into_iter()
            .chain(context.iter().copied())
            .collect();
        self.cache.keep_prefix_of(&context)?;
        let (hidden, fed) = self.feed(&context, tree)?;
        let wanted = tree.len() + 1;
        let hidden = hidden.narrow(0, hidden.dim(0)? - wanted, wanted)?;
        Ok((self.model.logits(&hidden)?, hidden, fed))
    }
}

impl Scorer for Session {
    fn architecture(&self) -> Architecture {
        self.model.architecture()
    }

    fn vocab_size(&self) -> usize {
        self.model.vocab_size()
    }

    fn max_context(&self) -> Option<usize> {
        self.model.max_context()
    }

    /// Encoding is put off until the first `score`.
    fn begin(&mut self, source: &[TokenId]) -> Result<()> {
        match self.architecture() {
            Architecture::EncoderDecoder if source.is_empty() => return Err(Error::EmptySource),
            Architecture::DecoderOnly if !source.is_empty() => {
                return Err(Error::SourceWithoutEncoder {
                    tokens: source.len(),
                })
            }
            _ => {}
        }
        check_tokens(source.iter().copied(), &self.model)?;
        if self.source.tokens != source {
            self.source = Source::new(source);
            self.cache.clear();
        }
        Ok(())
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        self.check(context, tree)?;
        let (logits, hidden, fed) = self.forward(context, tree).map_err(Error::backend)?;
        let readout = &self.model.readout;
        let scores = readout.scores(logits, &hidden, tree, want, fed);
        if scores.is_err() {
            // What is not a number spoils the keys and values of rows that it is hidden from, too: a mask adds −∞ to a
            // score, or 0 times a value to a sum. Rows that a later call might keep cannot be told from those.
            self.cache.clear();
        }
        scores
    }
}

fn check_tokens(mut tokens: impl Iterator<Item = TokenId>, model: &Model) -> Result<()> {
    let vocab_size = model.vocab_size();
    match tokens.find(|&token| token as usize >= vocab_size) {
        Some(token) => Err(Error::TokenOutOfVocabulary { token, vocab_size }),
        None => Ok(()),
    }
}

/// The source of an encoder-decoder model; empty for others.
#[derive(Debug, Default)]
struct Source {
    tokens: Vec<TokenId>,
    encoded: Option<EncodedSource>,
}

impl Source {
    fn new(tokens: &[TokenId]) -> Self {
        Self {
            tokens: tokens.to_vec(),
            encoded: None,
        }
    }

    /// The encoded source; encodes it the first time.
    fn encoded(&mut self, model: &T5) -> TensorResult<&EncodedSource> {
        let encoded = match self.encoded.take() {
            Some(encoded) => encoded,
            None => model.encode(&self.tokens)?,
        };
        Ok(self.encoded.insert(encoded))
    }
}

/// What the arena's slots stand for: the tokens of a context, then the nodes of the tree that was scored last.
///
/// The slots of the arena are never fewer than what is booked here, whatever fails.
#[derive(Debug)]
struct Cache {
    arena: Arena,
    context: Vec<TokenId>,
    tree: TokenTree,
}

impl Cache {
    fn new(arena: Arena) -> Self {
        Self {
            arena,
            context: Vec::new(),
            tree: TokenTree::new(),
        }
    }

    /// Forgets everything, keeping the memory.
    fn clear(&mut self) {
        self.truncate(0);
    }

    /// Forgets the tree, and the context from `len` on.
    fn truncate(&mut self, len: usize) {
        self.tree = TokenTree::new();
        self.context.truncate(len);
        self.arena.truncate(self.context.len());
    }

    /// Keeps of the cached context and tree what `context` begins with, its last token excepted.
    fn keep_prefix_of(&mut self, context: &[TokenId]) -> TensorResult<()> {
        let reusable = &context[..context.len() - 1];
        let common = common_prefix(&self.context, reusable);
        if common < self.context.len() {
            self.truncate(common);
            return Ok(());
        }
        let branch = followed_branch(&self.tree, &reusable[common..]);
        let slots: Vec<u32> = branch.iter().map(|node| (common + node) as u32).collect();
        self.tree = TokenTree::new();
        self.arena.keep(common, &slots)?;
        self.context.extend(&reusable[common..common + slots.len()]);
        Ok(())
    }

    /// Feeds `gap` behind the cached context, and `tree` behind that. Gives what `run` gives; on failure, all is as it
    /// was before.
    fn extend(
        &mut self,
        gap: &[TokenId],
        tree: &TokenTree,
        run: &mut impl FnMut(&Plan<'_>, &Arena) -> TensorResult<Tensor>,
    ) -> TensorResult<Tensor> {
        debug_assert_eq!(self.arena.len(), self.context.len());
        let plan = Plan::new(self.context.len(), gap, tree);
        self.arena.reserve(plan.rows())?;
        let hidden = run(&plan, &self.arena)?;
        self.arena.commit(plan.rows());
        self.context.extend(gap);
        self.tree = tree.clone();
        Ok(hidden)
    }
}

fn common_prefix(a: &[TokenId], b: &[TokenId]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Nodes of `tree`, from a root down, whose tokens `continuation` begins with: the longest such branch.
fn followed_branch(tree: &TokenTree, continuation: &[TokenId]) -> Vec<usize> {
    let mut follows = vec![false; tree.len()];
    let mut deepest = None;
    for node in 0..tree.len() {
        let depth = tree.depth(node);
        follows[node] = tree.parent(node).is_none_or(|parent| follows[parent])
            && continuation.get(depth) == Some(&tree.token(node));
        if follows[node] && deepest.is_none_or(|other| depth > tree.depth(other)) {
            deepest = Some(node);
        }
    }
    let mut branch: Vec<usize> = deepest
        .into_iter()
        .flat_map(|node| tree.ancestors(node))
        .collect();
    branch.reverse();
    branch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_deepest_of_equal_branches() {
        let mut tree = TokenTree::new();
        let a = tree.push(1, None);
        let twin = tree.push(1, None);
        tree.push(2, Some(a));
        let b = tree.push(2, Some(twin));
        tree.push(3, Some(b));
        assert_eq!(followed_branch(&tree, &[1, 2, 3, 4]), [1, 3, 4]);
        assert_eq!(followed_branch(&tree, &[1, 2]), [0, 2]);
        assert_eq!(followed_branch(&tree, &[1, 9]), [0]);
        assert_eq!(followed_branch(&tree, &[9]), [0usize; 0]);
        assert_eq!(followed_branch(&tree, &[]), [0usize; 0]);
    }

    #[test]
    fn sessions_move_between_threads() {
        fn is_send<T: Send>() {}
        is_send::<Session>();
    }
}
