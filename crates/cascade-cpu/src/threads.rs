//! Which work is shared with other threads.

use std::error::Error;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Whether work of this estimated single-thread time in ns is shared with other threads.
///
/// Waking one takes long. To a thread of the pool others are nearer: most likely they have just had
/// a part in a product, and are not asleep yet.
fn pays(nanoseconds: usize) -> bool {
    let least = match rayon::current_thread_index() {
        Some(_) => 30_000,
        None => 200_000,
    };
    nanoseconds >= least && rayon::current_num_threads() > 1
}

/// Does work of this estimated single-thread time in ns, alone or shared with other threads.
pub(crate) fn run<W, T>(
    nanoseconds: usize,
    work: W,
    alone: impl FnOnce(W) -> T,
    shared: impl FnOnce(W) -> T,
) -> T {
    if !pays(nanoseconds) {
        return alone(work);
    }
    SHARED.fetch_add(1, Ordering::Relaxed);
    let done = shared(work);
    if rayon::current_thread_index().is_some() {
        keep_awake();
    }
    done
}

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

/// How many times work was shared, by anybody.
static SHARED: AtomicUsize = AtomicUsize::new(0);

/// The longest that a thread waits awake for more work.
const LONGEST: Duration = Duration::from_micros(100);

/// Keeps the other threads of the pool awake until work is shared again. A thread that has nothing
/// to do goes to sleep sooner than a forward gets from one product to the next, and waking it takes
/// as long as a tenth of a product.
///
/// They wait in jobs of their own, which end as soon as work is shared, and are nothing more to a
/// thread that comes upon one later.
fn keep_awake() {
    let seen = SHARED.load(Ordering::Relaxed);
    for _ in 1..rayon::current_num_threads() {
        rayon::spawn(move || {
            let start = Instant::now();
            while SHARED.load(Ordering::Relaxed) == seen && start.elapsed() < LONGEST {
                (0..16).for_each(|_| std::hint::spin_loop());
            }
        });
    }
}
