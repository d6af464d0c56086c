//! Work that threads share.
//!
//! Who computes something leads: it writes down work in pieces, takes pieces itself, and threads of
//! rayon's pool help. Helpers wait awake for the next work of a forward, since waking one takes as
//! long as a tenth of a product.
//!
//! On a busy machine a helper may lose its core in the middle of a piece, for as long as a whole
//! forward. So what [`share`] shares belongs to all who compute it: the leader waits for a piece
//! about as long as it takes, then does it again, and whatever the helper finds later goes nowhere.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Starts the threads that work is shared with, unless they have been started.
///
/// # Errors
/// If the system has no threads, or no memory for them. Without a call of this, that is a panic of
/// the first forward.
pub fn start_threads() -> Result<(), String> {
    static STARTED: OnceLock<Result<(), String>> = OnceLock::new();
    let start = || match rayon::ThreadPoolBuilder::new().build_global() {
        Err(error) if error.source().is_some() => Err(error.to_string()),
        // Otherwise somebody else has started them.
        _ => Ok(()),
    };
    STARTED.get_or_init(start).clone()
}

thread_local! {
    /// Whether this thread leads a forward.
    static LEADS: Cell<bool> = const { Cell::new(false) };
}

/// Forwards from now on in which leaders do alone what they would have to wait for, unless it is
/// much: a helper has lost its core, and such a wait takes as long as half a forward.
static CROWDED: AtomicUsize = AtomicUsize::new(0);

/// How many forwards these are after each loss.
const CROWDED_FOR: usize = 16;

/// Runs a forward that is worth other threads: most likely they have just had a part in a product,
/// and are not asleep yet, when there is the next.
pub fn lead<T>(run: impl FnOnce() -> T) -> T {
    let before = LEADS.replace(true);
    let done = run();
    LEADS.set(before);
    let less = |forwards: usize| forwards.checked_sub(1);
    // There is nothing to count down if all is well.
    let _ = CROWDED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    done
}

/// Threads that do work of this estimated single-thread time in ns, for which nobody waits long.
pub(crate) fn threads(nanoseconds: usize) -> usize {
    let least = if LEADS.get() { 15_000 } else { 200_000 };
    if nanoseconds < least {
        1
    } else {
        rayon::current_num_threads()
    }
}

/// Threads that do such work if who leads it waits for helpers, which may lose their cores.
pub(crate) fn waiting_threads(nanoseconds: usize) -> usize {
    let crowded = LEADS.get() && CROWDED.load(Ordering::Relaxed) > 0;
    threads(nanoseconds / if crowded { 8 } else { 1 })
}

/// Which pieces have been taken. Each thread begins in a region of its own, so that it reads from
/// front to back, and goes on in those of others.
struct Pieces {
    /// The next piece of each region, and where the region ends.
    regions: Vec<(AtomicUsize, usize)>,
    /// Threads that have come.
    here: AtomicUsize,
}

impl Pieces {
    fn new(count: usize, threads: usize) -> Self {
        let begin = |region: usize| count * region / threads;
        let region = |region| (AtomicUsize::new(begin(region)), begin(region + 1));
        Self {
            regions: (0..threads).map(region).collect(),
            here: AtomicUsize::new(0),
        }
    }

    /// The pieces that a thread gets to do.
    fn taken(&self) -> impl Iterator<Item = usize> {
        let (own, count) = (
            self.here.fetch_add(1, Ordering::Relaxed),
            self.regions.len(),
        );
        let regions = (own..own + count).map(move |region| &self.regions[region % count]);
        regions.flat_map(|(next, end)| {
            let take = || next.fetch_add(1, Ordering::Relaxed);
            std::iter::repeat_with(take).take_while(|piece| piece < end)
        })
    }

    fn are_left(&self) -> bool {
        let left = |(next, end): &(AtomicUsize, usize)| next.load(Ordering::Relaxed) < *end;
        self.regions.iter().any(left)
    }
}

/// What helpers do.
trait Work: Send + Sync {
    fn pieces(&self) -> &Pieces;

    /// Does pieces until none is left.
    fn help(&self);
}

/// Work that helpers may have a part in.
struct Board {
    work: Mutex<Vec<Arc<dyn Work>>>,
    /// How many times there has been new work.
    posted: AtomicUsize,
    /// Helpers that wait for it, or come soon.
    helpers: AtomicUsize,
}

static BOARD: Board = Board {
    work: Mutex::new(Vec::new()),
    posted: AtomicUsize::new(0),
    helpers: AtomicUsize::new(0),
};

/// The longest that a helper waits awake for more work.
const LONGEST: Duration = Duration::from_micros(100);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Work on the board, until it is dropped.
struct Posted(Arc<dyn Work>);

impl Posted {
    fn new(work: Arc<dyn Work>) -> Self {
        lock(&BOARD.work).push(Arc::clone(&work));
        BOARD.posted.fetch_add(1, Ordering::SeqCst);
        let posted = Self(work);
        let wanted = posted.0.pieces().regions.len() - 1;
        let more = |helpers: usize| (helpers < wanted).then_some(helpers + 1);
        let helpers = &BOARD.helpers;
        while helpers
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)
            .is_ok()
        {
            rayon::spawn(help);
        }
        posted
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        lock(&BOARD.work).retain(|work| !std::ptr::addr_eq(&raw const **work, &raw const *self.0));
    }
}

/// Has a part in all work until there has been none for a while.
fn help() {
    let (mut seen, mut since) = (None, Instant::now());
    loop {
        let posted = BOARD.posted.load(Ordering::SeqCst);
        if seen.replace(posted) != Some(posted) {
            while let Some(work) = left() {
                work.help();
            }
            since = Instant::now();
        } else if since.elapsed() < LONGEST {
            (0..8).for_each(|_| std::hint::spin_loop());
        } else {
            BOARD.helpers.fetch_sub(1, Ordering::SeqCst);
            if BOARD.posted.load(Ordering::SeqCst) == posted {
                return;
            }
            // Whoever posted may have counted on this one.
            BOARD.helpers.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Work of which pieces are left.
fn left() -> Option<Arc<dyn Work>> {
    let work = lock(&BOARD.work);
    work.iter().find(|work| work.pieces().are_left()).cloned()
}

/// Work that outlives the one who leads it.
struct Shared<W, T> {
    work: W,
    of_piece: fn(&W, usize) -> T,
    pieces: Pieces,
    /// What helpers have done.
    done: Vec<Mutex<Option<T>>>,
}

impl<W: Send + Sync, T: Send> Work for Shared<W, T> {
    fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    fn help(&self) {
        for piece in self.pieces.taken() {
            let of_piece = || (self.of_piece)(&self.work, piece);
            // If it panics, it will do so again where the leader does it.
            match catch_unwind(AssertUnwindSafe(of_piece)) {
                Ok(done) => *lock(&self.done[piece]) = Some(done),
                Err(_) => return,
            }
        }
    }
}

impl<W, T> Shared<W, T> {
    /// What a helper has made of a piece, if it does so within a time from `start` on.
    fn within(&self, patience: Duration, start: Instant, piece: usize) -> Option<T> {
        loop {
            let done = self.done[piece].try_lock().ok();
            let done = done.and_then(|mut done| done.take());
            if done.is_some() || start.elapsed() > patience {
                return done;
            }
            std::hint::spin_loop();
        }
    }
}

/// Does `count` pieces of work with so many threads. Calls `lead` with each of them: with what a
/// helper has made of it, or with nothing if the leader is to do it.
pub(crate) fn share<W, T>(
    threads: usize,
    count: usize,
    work: W,
    of_piece: fn(&W, usize) -> T,
    mut lead: impl FnMut(&W, usize, Option<T>),
) where
    W: Send + Sync + 'static,
    T: Send + 'static,
{
    if threads == 1 {
        return (0..count).for_each(|piece| lead(&work, piece, None));
    }
    let shared = Arc::new(Shared {
        work,
        of_piece,
        pieces: Pieces::new(count, threads),
        done: (0..count).map(|_| Mutex::new(None)).collect(),
    });
    let mut missing = vec![true; count];
    let start = Instant::now();
    let _posted = Posted::new(Arc::clone(&shared) as _);
    for piece in shared.pieces.taken() {
        lead(&shared.work, piece, None);
        missing[piece] = false;
    }
    let own = missing.iter().filter(|missing| !**missing).count();
    let patience = start.elapsed() / own.max(1) as u32;
    let start = Instant::now();
    for piece in (0..count).filter(|piece| missing[*piece]) {
        let done = shared.within(patience, start, piece);
        let again = done.is_none();
        lead(&shared.work, piece, done);
        let found = shared.done[piece].try_lock();
        if again && found.is_ok_and(|found| found.is_none()) {
            CROWDED.store(CROWDED_FOR, Ordering::Relaxed);
        }
    }
}

/// Work that others wait for.
struct Awaited<'a> {
    of_piece: &'a (dyn Fn(usize) + Sync),
    pieces: Pieces,
    /// Pieces that are not done.
    left: AtomicUsize,
    panicked: Mutex<Option<Box<dyn std::any::Any + Send>>>,
}

impl Awaited<'_> {
    /// Waits until all pieces are done.
    fn wait(&self) {
        let start = Instant::now();
        while self.left.load(Ordering::Acquire) > 0 {
            if start.elapsed() < LONGEST {
                std::hint::spin_loop();
            } else {
                CROWDED.store(CROWDED_FOR, Ordering::Relaxed);
                // Perhaps this takes the core that the helper needs.
                std::thread::yield_now();
            }
        }
    }
}

impl Work for Awaited<'_> {
    fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    fn help(&self) {
        for piece in self.pieces.taken() {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.of_piece)(piece))) {
                *lock(&self.panicked) = Some(panic);
            }
            self.left.fetch_sub(1, Ordering::Release);
        }
    }
}

/// What each of `items` is turned into by so many threads, in their order.
pub(crate) fn map<P: Send, T: Send>(
    threads: usize,
    items: Vec<P>,
    of_item: impl Fn(P) -> T + Sync,
) -> Vec<T> {
    if threads == 1 {
        return items.into_iter().map(of_item).collect();
    }
    let items: Vec<_> = items
        .into_iter()
        .map(|item| Mutex::new((Some(item), None)))
        .collect();
    let of_piece = |piece: usize| {
        let mut item = lock(&items[piece]);
        item.1 = item.0.take().map(&of_item);
    };
    let of_piece: &(dyn Fn(usize) + Sync) = &of_piece;
    // SAFETY: it is called for pieces only, each of them is waited for, and there are no more.
    let of_piece = unsafe {
        std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(of_piece)
    };
    let work = Arc::new(Awaited {
        of_piece,
        pieces: Pieces::new(items.len(), threads),
        left: AtomicUsize::new(items.len()),
        panicked: Mutex::new(None),
    });
    let posted = Posted::new(Arc::clone(&work) as _);
    work.help();
    work.wait();
    drop(posted);
    if let Some(panic) = lock(&work.panicked).take() {
        resume_unwind(panic);
    }
    let done = items.into_iter().filter_map(|item| {
        let (_, done) = item.into_inner().unwrap_or_else(PoisonError::into_inner);
        done
    });
    done.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread::{ThreadId, current, yield_now};

    use super::*;

    fn in_pool<T: Send>(run: impl FnOnce() -> T + Send) -> T {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3);
        pool.build().expect("a pool of threads").install(run)
    }

    #[test]
    fn a_helper_that_is_lost_holds_up_nobody() {
        struct Lost {
            leader: ThreadId,
            taken: AtomicBool,
            ended: AtomicBool,
        }
        let square = |lost: &Arc<Lost>, piece: usize| {
            if current().id() != lost.leader {
                lost.taken.store(true, Ordering::SeqCst);
                while !lost.ended.load(Ordering::SeqCst) {
                    yield_now();
                }
            }
            piece * piece
        };
        in_pool(|| {
            let lost = Arc::new(Lost {
                leader: current().id(),
                taken: AtomicBool::new(false),
                ended: AtomicBool::new(false),
            });
            let mut squares = [None; 8];
            share(2, 8, Arc::clone(&lost), square, |lost, piece, done| {
                while !lost.taken.load(Ordering::SeqCst) {
                    yield_now();
                }
                squares[piece] = Some(done.unwrap_or_else(|| square(lost, piece)));
            });
            lost.ended.store(true, Ordering::SeqCst);
            assert_eq!(squares, std::array::from_fn(|piece| Some(piece * piece)));
        });
    }

    #[test]
    fn items_are_mapped_in_their_order() {
        let tenfold = |item: &mut u32| *item *= 10;
        in_pool(|| {
            for count in [0, 1, 2, 100] {
                let mut items: Vec<u32> = (0..count).collect();
                map(3, items.iter_mut().collect(), tenfold);
                assert_eq!(items, (0..count).map(|item| 10 * item).collect::<Vec<_>>());
            }
        });
    }

    #[test]
    #[should_panic(expected = "no item 7")]
    fn a_helpers_panic_is_the_leaders() {
        let of_item = |item| assert_ne!(item, 7, "no item {item}");
        in_pool(|| map(3, (0..50).collect(), of_item));
    }
}
