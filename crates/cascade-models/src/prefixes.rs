//! What several sessions have read alike, which is computed and kept once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cascade_core::TokenId;
use cascade_cpu::{Cache, PAGE_SLOTS, Page};

use crate::Model;
use crate::backend::network::HostSequence;

/// Keys and values that the sessions of some texts share: whose contexts begin alike for 64 tokens
/// or more, and whose sources are the same. They are computed by the session that comes first, and
/// are there as long as any session has them.
///
/// Answers have the bits that they have alone, because a row's keys and values depend on nothing
/// but the tokens before it. Times do tell that somebody has read a prefix before: give one only to
/// texts of those who may know that of each other
/// ([`Participant::share_prefixes`](crate::Participant::share_prefixes),
/// [`Session::share_prefixes`](crate::Session::share_prefixes)).
///
/// On the CPU with our kernels; sessions elsewhere share nothing.
#[derive(Debug, Default)]
pub struct SharedPrefixes {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    numbers: u64,
    roots: Vec<Root>,
    pages: HashMap<PageKey, Numbered>,
    /// Pages from which on those that nobody has any more are looked for.
    swept_at: usize,
}

/// Where the contexts of a model begin, behind a source.
#[derive(Debug)]
struct Root {
    model: Weak<Model>,
    source: Vec<TokenId>,
    number: u64,
    encoded: Weak<Cache>,
}

/// What a page is of: its tokens, and the page or root before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PageKey {
    after: u64,
    tokens: [TokenId; PAGE_SLOTS],
}

/// A page, and the number that those after it know it by, which stays.
#[derive(Debug)]
struct Numbered {
    number: u64,
    page: Weak<Page>,
}

impl Known {
    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn root(&mut self, model: &Arc<Model>, source: &[TokenId]) -> Option<&mut Root> {
        let of_model = |root: &&mut Root| root.model.as_ptr() == Arc::as_ptr(model);
        let mut roots = self.roots.iter_mut().filter(of_model);
        roots.find(|root| root.source == source)
    }

    /// Forgets what nobody has any more, now and then.
    fn sweep(&mut self) {
        if self.pages.len() >= self.swept_at {
            self.pages.retain(|_, known| known.page.strong_count() > 0);
            self.swept_at = 2 * self.pages.len() + 64;
        }
    }
}

impl SharedPrefixes {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a session knows of the prefixes that it shares.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    with: Option<Arc<SharedPrefixes>>,
    root: Option<u64>,
    /// Numbers of the first pages of its cache, as far as others can have them.
    pages: Vec<u64>,
}

impl Sharing {
    pub(crate) fn begin(&mut self, with: Option<Arc<SharedPrefixes>>) {
        let same = match (&self.with, &with) {
            (Some(own), Some(new)) => Arc::ptr_eq(own, new),
            (own, new) => own.is_none() && new.is_none(),
        };
        if !same {
            *self = Self {
                with,
                ..Self::default()
            };
        }
    }

    /// Whether two sessions share their prefixes.
    pub(crate) fn is_with(&self, other: &Self) -> bool {
        let both = self.with.as_ref().zip(other.with.as_ref());
        both.is_some_and(|(own, other)| Arc::ptr_eq(own, other))
    }

    /// Whether others can have what was computed of the source, or it was theirs.
    pub(crate) fn is_known(&self) -> bool {
        self.root.is_some()
    }

    /// Forgets that the source was known, which is another one now.
    pub(crate) fn forget_source(&mut self) {
        self.root = None;
        self.pages.clear();
    }

    /// Forgets all pages but those of the first `len` slots.
    fn truncate(&mut self, len: usize) {
        self.pages.truncate(len / PAGE_SLOTS);
    }

    /// Takes what others have computed of a source and of a context, if that is more than the `len`
    /// slots of an own cache, and says how many slots that has then.
    pub(crate) fn adopt(
        &mut self,
        (model, source): (&Arc<Model>, &[TokenId]),
        context: &[TokenId],
        len: usize,
        HostSequence { cache, encoded }: &mut HostSequence,
    ) -> usize {
        self.truncate(len);
        let Some(with) = &self.with else {
            return len;
        };
        let own = self.pages.len() * PAGE_SLOTS;
        if self.root.is_some() && own + PAGE_SLOTS > context.len() {
            return len;
        }
        let mut known = with.lock();
        if self.root.is_none() {
            let usable = |root: &&mut Root| source.is_empty() || root.encoded.strong_count() > 0;
            let Some(root) = known.root(model, source).filter(usable) else {
                return len;
            };
            self.root = Some(root.number);
            if encoded.is_none() {
                *encoded = root.encoded.upgrade();
            }
        }
        let after = self.pages.last().copied().or(self.root);
        let rest = &context[own.min(context.len())..];
        let found = after.map_or_else(Vec::new, |after| known.pages_after(after, rest));
        drop(known);
        if own + found.len() * PAGE_SLOTS <= len {
            return len;
        }
        cache.truncate(own);
        for (number, page) in found {
            cache.adopt(page);
            self.pages.push(number);
        }
        cache.len()
    }

    /// Lets others have the pages of a context that an own cache holds and whose rows have been
    /// found to be numbers. Of what they have computed meanwhile, too, one copy is kept.
    pub(crate) fn publish(
        &mut self,
        (model, source): (&Arc<Model>, &[TokenId]),
        context: &[TokenId],
        HostSequence { cache, encoded }: &mut HostSequence,
    ) {
        let Some(with) = &self.with else {
            return;
        };
        let new = context[self.pages.len() * PAGE_SLOTS..]
            .as_chunks::<PAGE_SLOTS>()
            .0;
        if self.root.is_some() && new.is_empty() {
            return;
        }
        let mut known = with.lock();
        let root = match self.root {
            Some(root) => root,
            None => publish_source(&mut known, (model, source), encoded),
        };
        self.root = Some(root);
        for tokens in new {
            let key = PageKey {
                after: self.pages.last().copied().unwrap_or(root),
                tokens: *tokens,
            };
            let place = self.pages.len();
            self.pages.push(known.page(key, cache, place));
        }
        known.sweep();
    }
}

impl Known {
    /// Pages of `context` behind the page or root `after`, as far as others have them.
    fn pages_after(&self, mut after: u64, context: &[TokenId]) -> Vec<(u64, Arc<Page>)> {
        let mut found = Vec::new();
        for &tokens in context.as_chunks::<PAGE_SLOTS>().0 {
            let next = self.pages.get(&PageKey { after, tokens });
            let Some((next, page)) = next.and_then(|next| Some((next, next.page.upgrade()?)))
            else {
                break;
            };
            after = next.number;
            found.push((after, page));
        }
        found
    }

    /// The number of a page of an own cache; if others still have that page, theirs takes its
    /// place.
    fn page(&mut self, key: PageKey, cache: &mut Cache, place: usize) -> u64 {
        let there = self.pages.get(&key);
        let (number, theirs) = there
            .map(|there| (there.number, there.page.upgrade()))
            .unzip();
        if let (Some(number), Some(Some(page))) = (number, theirs) {
            cache.replace(place, page);
            return number;
        }
        let number = number.unwrap_or_else(|| self.next_number());
        let page = Arc::downgrade(&cache.share(place));
        self.pages.insert(key, Numbered { number, page });
        number
    }
}

/// Lets others have a source's keys and values, or takes theirs; the number of its root.
fn publish_source(
    known: &mut Known,
    (model, source): (&Arc<Model>, &[TokenId]),
    encoded: &mut Option<Arc<Cache>>,
) -> u64 {
    let own = encoded.as_ref().map(Arc::downgrade);
    if let Some(root) = known.root(model, source) {
        match (root.encoded.upgrade(), own) {
            (Some(theirs), _) => *encoded = Some(theirs),
            (None, Some(own)) => root.encoded = own,
            (None, None) => {}
        }
        return root.number;
    }
    // A source that nobody has encoded any more is encoded anew.
    known
        .roots
        .retain(|root| root.source.is_empty() || root.encoded.strong_count() > 0);
    known.roots.retain(|root| root.model.strong_count() > 0);
    let number = known.next_number();
    known.roots.push(Root {
        model: Arc::downgrade(model),
        source: source.to_vec(),
        number,
        encoded: own.unwrap_or_default(),
    });
    number
}
