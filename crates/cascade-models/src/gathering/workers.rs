//! Workers that each have a text in hand.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::{BatchCounts, Batcher, Participant};

/// Workers on threads of their own, whose forwards are shared: each does one item at a time with
/// scorers of its [`Participant`].
///
/// ```
/// # use cascade_core::{Scorer, TokenTree, Want};
/// # use cascade_models::{random_model, LoadOptions, Workers};
/// # let config = serde_json::json!({
/// #     "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
/// #     "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 208,
/// # });
/// let model = random_model(config, &LoadOptions::default())?;
/// let mut sessions = Workers::new(2.try_into()?, |participant| {
///     cascade_models::Result::Ok(participant.session(&model))
/// })?;
/// let next = sessions.map(&[[1, 2], [3, 4], [5, 6]], |session, tokens| {
///     session.score(tokens, &TokenTree::new(), Want::ARGMAX).unwrap().argmax[0]
/// });
/// assert_eq!(next.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Workers<T> {
    workers: Vec<(T, Participant)>,
    batcher: Batcher,
}

impl<T> Workers<T> {
    /// Makes so many workers, each with the participant whose sessions it is to use.
    ///
    /// # Errors
    /// The first that `make` has.
    pub fn new<E>(
        count: NonZeroUsize,
        mut make: impl FnMut(&Participant) -> Result<T, E>,
    ) -> Result<Self, E> {
        let batcher = Batcher::default();
        let worker = |_| {
            let participant = batcher.join();
            Ok((make(&participant)?, participant))
        };
        let workers = (0..count.get()).map(worker).collect::<Result<_, E>>()?;
        Ok(Self { workers, batcher })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.workers.len()
    }

    /// What has been computed so far, of models whose forwards are shared.
    pub fn forwards(&self) -> BatchCounts {
        self.batcher.counts()
    }

    /// Does something with each item and a worker, as many at a time as there are workers, and
    /// gives results in the order of the items.
    pub fn map<I: Sync, R: Send>(
        &mut self,
        items: &[I],
        work: impl Fn(&mut T, &I) -> R + Sync,
    ) -> Vec<R>
    where
        T: Send,
    {
        let mut results = Vec::with_capacity(items.len());
        self.for_each(items, work, |result| {
            results.push(result);
            ControlFlow::Continue(())
        });
        results
    }

    /// Does what [`map`](Self::map) does, and hands each result to `take` as soon as it and all
    /// before it are there, on the thread of the caller; no further item is begun once `take`
    /// breaks, and those that have been begun are completed.
    ///
    /// `work` runs on several threads, and forwards wait for whatever it does: it should do nothing
    /// but generate.
    ///
    /// # Panics
    /// If `work` does, after the other items.
    pub fn for_each<I: Sync, R: Send>(
        &mut self,
        items: &[I],
        work: impl Fn(&mut T, &I) -> R + Sync,
        take: impl FnMut(R) -> ControlFlow<()>,
    ) where
        T: Send,
    {
        let (next, work) = (&AtomicUsize::new(0), &work);
        let workers = self.workers.iter_mut().take(items.len());
        // All of them, before the first forward.
        let running: Vec<_> = workers
            .map(|(worker, participant)| (worker, participant.running()))
            .collect();
        thread::scope(|scope| {
            let (done, results) = mpsc::channel();
            for (worker, running) in running {
                let done = done.clone();
                scope.spawn(move || {
                    let _running = running;
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(item) = items.get(number) else {
                            return;
                        };
                        if done.send((number, work(worker, item))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(done);
            if in_order(results, take).is_break() {
                next.store(items.len(), Ordering::Relaxed);
            }
        });
    }
}

/// Hands numbered results to `take` in the order of their numbers, until it breaks.
fn in_order<R>(
    results: impl IntoIterator<Item = (usize, R)>,
    mut take: impl FnMut(R) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (mut early, mut taken) = (BTreeMap::new(), 0);
    for (number, result) in results {
        early.insert(number, result);
        while let Some(result) = early.remove(&taken) {
            taken += 1;
            take(result)?;
        }
    }
    ControlFlow::Continue(())
}
