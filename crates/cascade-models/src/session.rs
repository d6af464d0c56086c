//! Sessions: what a model has read, behind a scorer that seems to have no memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use cascade_core::{
    Architecture, Error, HiddenStates, Result, Scorer, ScorerInfo, Scores, TokenId, TokenTree,
    Want, common_prefix,
};
use cascade_cpu::PAGE_SLOTS;

use crate::Model;
use crate::backend::network::{CHUNK, NewRows, Read, Sequence};
use crate::plan::Plan;
use crate::prefixes::{SharedPrefixes, Sharing};

/// A [`Scorer`] over a model: its contexts, trees and sources are whatever the caller likes, in any
/// order.
///
/// A session keeps the keys and values of the last context and tree. It compares each new context
/// with them, keeps the longest common prefix (and, of the last tree, the branch that the context
/// follows), and appends the rest together with the new tree in one forward, or in several if there
/// are more rows than one takes (512 on the CPU, 64 on a GPU). The last token of the context is
/// always computed again: its row is the first of the answer.
///
/// An answer has the same bits whatever was scored before and together with it, so that verifying a
/// draft gives the very values that plain decoding gives; on a device of candle's it has about the
/// same values ([`Model::is_row_invariant`]).
///
/// Logits that are not a valid distribution are an error whatever is wanted of them
/// ([`Error::ImproperLogits`]). After it, the session answers other calls as if it had seen
/// nothing.
///
/// Hidden states are those after the final norm. For a T5 with a tied head, the factor d_model^-0.5
/// comes after them.
///
/// Memory: keys and values of context and tree, on the CPU in pages of 64 positions and as many as
/// are needed, on GPUs at most twice; and for T5 the cross-attention's keys and values of one
/// source.
#[derive(Debug)]
pub struct Session {
    model: Arc<Model>,
    source: Vec<TokenId>,
    cache: Cache,
    sharing: Sharing,
    counted: CountedBytes,
}

/// Bytes of some sessions together, of which one counts its own.
#[derive(Debug, Default)]
struct CountedBytes {
    all: Arc<AtomicUsize>,
    own: usize,
}

impl CountedBytes {
    fn set(&mut self, own: usize) {
        // Never too few: what is reserved for them counts what they do not have yet.
        self.all.fetch_add(own, Ordering::Relaxed);
        self.all.fetch_sub(self.own, Ordering::Relaxed);
        self.own = own;
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Model {
    /// A session that has seen nothing yet. Allocates nothing.
    pub fn session(self: &Arc<Self>) -> Session {
        Session {
            model: Arc::clone(self),
            source: Vec::new(),
            cache: Cache::new(self.network().sequence()),
            sharing: Sharing::default(),
            counted: CountedBytes::default(),
        }
    }
}

impl Session {
    /// Has it share what it reads from now on, and has read, with other sessions, or with nobody.
    /// No answer changes by it.
    pub fn share_prefixes(&mut self, prefixes: Option<Arc<SharedPrefixes>>) {
        self.sharing.begin(prefixes);
    }

    /// Adds the bytes of the session's keys and values to `all` as long as the session lives.
    pub(crate) fn counted_in(mut self, all: &Arc<AtomicUsize>) -> Self {
        self.counted.all = Arc::clone(all);
        self
    }

    /// Lets it seem to have read its first page of tokens so many times, one after the other, and
    /// gives a context that follows; `None` where keys and values have no pages, or there is none.
    /// What it answers then is of no text: for timing forwards after long contexts.
    pub(crate) fn repeat_first_page(&mut self, times: usize) -> Option<Vec<TokenId>> {
        let start = usize::from(self.model.described().start.is_some());
        let Cache {
            sequence, context, ..
        } = &mut self.cache;
        let tokens = context.get(..PAGE_SLOTS)?.to_vec();
        let cache = &mut sequence.on_cpu()?.cache;
        let page = cache.share(0);
        cache.truncate(0);
        (0..times).for_each(|_| cache.adopt(Arc::clone(&page)));
        *context = tokens.repeat(times);
        let next = tokens[PAGE_SLOTS - 1];
        Some(context[start..].iter().copied().chain([next]).collect())
    }

    /// The model it scores with.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    fn check(&self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<()> {
        let info = self.info();
        if info.architecture == Architecture::EncoderDecoder && self.source.is_empty() {
            return Err(Error::EmptySource);
        }
        info.check(context, tree, want, "a model on this device")
    }

    /// Begins a call of `score`: keeps what the cache holds of the context.
    ///
    /// # Errors
    /// Those of a call that cannot be answered; what moving keys and values fails with.
    pub(crate) fn begin(
        &mut self,
        context: &[TokenId],
        tree: &TokenTree,
        want: Want,
    ) -> Result<Scoring> {
        self.check(context, tree, want)?;
        let start = self.model.described().start;
        let context: Vec<TokenId> = start.into_iter().chain(context.iter().copied()).collect();
        let want = in_slots(want, usize::from(start.is_some()));
        // Rows whose hidden states are wanted are computed again.
        if let Some(after) = want.hidden_after {
            self.cache.truncate_to(after.saturating_sub(1));
        }
        if let Err(error) = self.cache.keep_prefix_of(&context) {
            self.cache.clear();
            return Err(error);
        }
        Ok(Scoring {
            kept: self.cache.context.len(),
            context,
            tree: tree.clone(),
            want,
            piece: 0,
            hidden: HiddenStates::default(),
        })
    }

    /// Forgets all that was computed, after what left it half done.
    pub(crate) fn forget(&mut self) {
        self.cache.clear();
    }

    /// Takes over what other sessions have computed of a call's context.
    pub(crate) fn adopt(&mut self, scoring: &mut Scoring) {
        let before = self.cache.context.len();
        let Some(sequence) = self.cache.sequence.on_cpu() else {
            return;
        };
        let (of, context) = ((&self.model, &self.source[..]), scoring.reusable());
        let len = self.sharing.adopt(of, context, before, sequence);
        if len > before {
            self.cache.context = context[..len].to_vec();
            scoring.kept += len - before;
        }
    }

    /// Whether a call had better wait for another one, which computes what it can take over
    /// afterwards: the source, or most of what the other has to compute at all.
    pub(crate) fn waits_for(&self, scoring: &Scoring, (other, its): (&Self, &Scoring)) -> bool {
        if !self.sharing.is_with(&other.sharing) || self.source != other.source {
            return false;
        }
        if !self.source.is_empty() && !self.sharing.is_known() && !other.sharing.is_known() {
            return true;
        }
        if self.missing(scoring) <= PAGE_SLOTS {
            return false;
        }
        let common = common_prefix(scoring.reusable(), &its.context);
        let common = common / PAGE_SLOTS * PAGE_SLOTS;
        let gained = common.saturating_sub(self.cache.context.len());
        gained > 0 && other.missing(its) <= 2 * gained
    }

    /// Tokens of the context that are not computed yet.
    pub(crate) fn missing(&self, scoring: &Scoring) -> usize {
        scoring.context.len() - self.cache.context.len()
    }

    /// The next rows of a call: as many tokens of the context as are allowed, and the tree if none
    /// is left.
    pub(crate) fn new_rows<'a>(
        &'a mut self,
        scoring: &'a mut Scoring,
        allowed: usize,
    ) -> NewRows<'a> {
        let missing = self.missing(scoring);
        scoring.piece = allowed.min(missing);
        self.cache.new_rows(scoring, &self.source)
    }

    /// Takes what the forward of the [`new_rows`](Self::new_rows) of a call gave; gives the answer,
    /// or `None` if tokens of the context are left.
    pub(crate) fn take(
        &mut self,
        scoring: &mut Scoring,
        given: Result<Scores>,
    ) -> Option<Result<Scores>> {
        let scores = match given {
            Ok(scores) => scores,
            Err(error) => {
                // NaN spoils the keys and values of rows that it is hidden from, too: a mask adds
                // −∞ to a score, or 0 times a value to a sum. Rows that a later call might keep
                // cannot be distinguished from those.
                self.cache.clear();
                return Some(Err(error));
            }
        };
        let left = self.missing(scoring) - scoring.piece;
        self.cache.context.extend(scoring.next_tokens(&self.cache));
        let bytes = self
            .cache
            .sequence
            .on_cpu()
            .map(|sequence| sequence.bytes());
        self.counted.set(bytes.unwrap_or(0));
        let hidden = std::mem::take(&mut scoring.hidden);
        let hidden = if hidden.is_empty() {
            scores.hidden.clone()
        } else {
            hidden.followed_by(&scores.hidden)
        };
        if left > 0 {
            scoring.hidden = hidden;
            return None;
        }
        // The call keeps its own: if what comes after the forward panics, it is computed again.
        self.cache.tree = scoring.tree.clone();
        if let Some(sequence) = self.cache.sequence.on_cpu() {
            let of = (&self.model, &self.source[..]);
            self.sharing.publish(of, &self.cache.context, sequence);
        }
        let rows = scoring.context.len() - scoring.kept + self.cache.tree.len();
        Some(Ok(scores.with_hidden(hidden).with_rows_computed(rows)))
    }
}

/// A call of `score` under way.
#[derive(Debug)]
pub(crate) struct Scoring {
    /// With the start token, if there is one.
    context: Vec<TokenId>,
    tree: TokenTree,
    want: Want,
    /// Tokens of the context that were in the cache before.
    kept: usize,
    /// How many tokens of the context the forward under way computes.
    piece: usize,
    /// Hidden states of the context, as far as they have been computed.
    hidden: HiddenStates,
}

impl Scoring {
    /// Tokens of the context that need not be computed if they are known.
    fn reusable(&self) -> &[TokenId] {
        let most = self.context.len() - 1;
        let hidden = self.want.hidden_after.map(|after| after.saturating_sub(1));
        &self.context[..hidden.map_or(most, |hidden| hidden.min(most))]
    }

    /// Begins again, on a session that has forgotten what it had computed.
    pub(crate) fn restart(&mut self) {
        self.kept = 0;
        self.piece = 0;
        self.hidden = HiddenStates::default();
    }

    /// Rows of the tree.
    pub(crate) fn nodes(&self) -> usize {
        self.tree.len()
    }

    /// Tokens of the context that are computed next.
    fn next_tokens(&self, cache: &Cache) -> &[TokenId] {
        &self.context[cache.context.len()..][..self.piece]
    }
}

impl Scorer for Session {
    fn info(&self) -> ScorerInfo {
        self.model.info()
    }

    /// Encoding is put off until the first `score`.
    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.info().check_source(source)?;
        self.info().check_tokens(source.iter().copied())?;
        if self.source != source {
            self.source = source.to_vec();
            self.cache = Cache::new(self.model.network().sequence());
            self.sharing.forget_source();
        }
        Ok(())
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        self.score_unless(|| false, (context, tree), want)
    }

    fn cached(&mut self, context: &[TokenId]) -> usize {
        // A call that cannot be answered says why when it is made.
        let Ok(mut scoring) = self.begin(context, &TokenTree::new(), Want::ARGMAX) else {
            return 0;
        };
        self.adopt(&mut scoring);
        self.cache.context.len()
    }
}

impl Session {
    /// Scores, unless it is given up before one of the forwards that a long context takes.
    pub(crate) fn score_unless(
        &mut self,
        given_up: impl Fn() -> bool,
        (context, tree): (&[TokenId], &TokenTree),
        want: Want,
    ) -> Result<Scores> {
        let mut scoring = self.begin(context, tree, want)?;
        let model = Arc::clone(&self.model);
        loop {
            if given_up() {
                return Err(Error::GivenUp);
            }
            self.adopt(&mut scoring);
            let rows = self.new_rows(&mut scoring, CHUNK);
            let given = model.network().forward(vec![rows]).pop();
            if let Some(answer) = given.and_then(|given| self.take(&mut scoring, given)) {
                return answer;
            }
        }
    }
}

/// What is wanted, with a start token among the tokens of the context.
fn in_slots(want: Want, start: usize) -> Want {
    let after = want.hidden_after.filter(|_| !want.hidden.is_empty());
    want.with_hidden_after(after.map(|after| after + start))
}

/// What the slots of a sequence stand for: the tokens of a context, then the nodes of the tree that
/// was scored last.
///
/// The slots are never fewer than what is booked here, whatever fails.
#[derive(Debug)]
struct Cache {
    sequence: Sequence,
    context: Vec<TokenId>,
    tree: TokenTree,
}

impl Cache {
    fn new(sequence: Sequence) -> Self {
        Self {
            sequence,
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
        self.sequence.truncate(self.context.len());
    }

    /// Keeps of the cached context and tree what `context` begins with, its last token excepted.
    fn keep_prefix_of(&mut self, context: &[TokenId]) -> Result<()> {
        let reusable = &context[..context.len() - 1];
        let common = common_prefix(&self.context, reusable);
        if common < self.context.len() {
            self.truncate(common);
            return Ok(());
        }
        let branch = followed_branch(&self.tree, &reusable[common..]);
        let slots: Vec<u32> = branch.iter().map(|node| (common + node) as u32).collect();
        self.tree = TokenTree::new();
        self.sequence.retain(common, &slots)?;
        self.context.extend(&reusable[common..common + slots.len()]);
        Ok(())
    }

    /// Forgets the context from `len` on, and the tree if that is any of it.
    fn truncate_to(&mut self, len: usize) {
        if len < self.context.len() {
            self.truncate(len);
        }
    }

    /// The next rows of a call.
    fn new_rows<'a>(&'a mut self, scoring: &'a Scoring, source: &'a [TokenId]) -> NewRows<'a> {
        let Scoring { want, tree, .. } = scoring;
        let tokens = scoring.next_tokens(self);
        let end = self.context.len() + tokens.len();
        let (tree, read) = if end == scoring.context.len() {
            (tree, Read::Scores(*want))
        } else {
            let rows = want
                .hidden_after
                .map_or(0, |after| (end + 1).saturating_sub(after))
                .min(tokens.len());
            (
                NO_NODES.get_or_init(TokenTree::new),
                Read::Hidden(want.hidden, rows),
            )
        };
        NewRows {
            plan: Plan::new(self.context.len(), tokens, tree),
            sequence: &mut self.sequence,
            source,
            read,
        }
    }
}

/// What follows a piece of a context.
static NO_NODES: OnceLock<TokenTree> = OnceLock::new();

/// Nodes of `tree`, from a root down, whose tokens `continuation` begins with: the longest such
/// branch.
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
