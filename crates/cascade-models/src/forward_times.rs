//! T(R): what forwards of a model take on this machine, measured in a fraction of a second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cascade_core::{Architecture, Result, Scorer, TokenId, TokenTree, Want};
use cascade_cpu::PAGE_SLOTS;

use crate::{Model, Session};

/// Rows of the forwards that are timed: kernels take rows by four or eight. What more of them add
/// is what the last ones added, since weights have been read long before.
const ROWS: [usize; 6] = [1, 2, 4, 5, 8, 16];
/// Forwards of so many rows are timed however long they take.
const NEEDED: usize = 8;
/// Rows of the forwards that are timed after a long context: their times are on a line.
const ROWS_AFTER_LONG: [usize; 2] = [1, 8];
/// Pages of the long context.
const LONG_PAGES: usize = 16;
/// Rows, and how many forwards of as many follow one another, of which the shortest counts: it
/// takes some until a processor's caches hold what they hold when nothing else is computed, the
/// more the shorter they are.
const RUNS: [(usize, usize); 5] = [(8, 2), (5, 3), (4, 4), (2, 6), (1, 10)];
/// What timing all forwards takes at most, in forwards of one row.
const FORWARDS: u32 = 60;
/// Tokens of the source, of an encoder-decoder.
const SOURCE: usize = 64;
/// Where forwards begin: after the short context, or after the long one.
const SHORT: usize = 0;
const LONG: usize = 1;

/// Seconds of the shortest forward, by tokens of the context and rows.
pub type TimedForwards = BTreeMap<(usize, usize), f64>;

impl Model {
    /// Times forwards of 1 to 16 rows after a short context, and on the CPU some after one of 1,024
    /// tokens, as long as there is time: for as long as 60 forwards of one row, and `most` at most.
    /// After the short context, those of up to 8 rows are timed once at least, and after the long
    /// one that of one row. `now` is the clock.
    ///
    /// Then those of up to 8 rows are timed in runs, since decoding that never drafts has a faster
    /// forward than decoding that does: where weights are about as large as a processor's caches,
    /// what is read more often stays in them.
    ///
    /// The long context costs nothing to read: it is the short one, repeated.
    ///
    /// # Errors
    /// What a forward fails with.
    pub fn time_forwards(
        self: &Arc<Self>,
        most: Duration,
        now: impl Fn() -> Duration,
    ) -> Result<TimedForwards> {
        let mut timing = Timing::new(self, most, now)?;
        for rows in ROWS {
            timing.time(SHORT, rows, true)?;
        }
        for rows in ROWS_AFTER_LONG {
            timing.time(LONG, rows, rows == 1)?;
        }
        timing.run()?;
        Ok(timing.times)
    }
}

/// Forwards that are being timed.
struct Timing<N> {
    /// Sessions after a short context, and a long one if that is timed, with the contexts of their
    /// next forwards.
    places: Vec<(Session, Vec<TokenId>)>,
    times: TimedForwards,
    end: Duration,
    now: N,
}

impl<N: Fn() -> Duration> Timing<N> {
    fn new(model: &Arc<Model>, most: Duration, now: N) -> Result<Self> {
        let mut places = vec![begun(model)?];
        let limit = model.info().max_context.unwrap_or(usize::MAX);
        if model.gathers() && (LONG_PAGES + 1) * PAGE_SLOTS <= limit {
            let (mut session, _) = begun(model)?;
            let context = session.repeat_first_page(LONG_PAGES);
            places.extend(context.map(|context| (session, context)));
        }
        let mut timing = Self {
            places,
            times: BTreeMap::new(),
            end: now(),
            now,
        };
        timing.time(SHORT, 1, true)?;
        let one: f64 = timing.times.values().sum();
        timing.end += most.min(FORWARDS * Duration::from_secs_f64(one));
        Ok(timing)
    }

    /// Times runs of forwards, all shorter if there is little time.
    fn run(&mut self) -> Result<()> {
        let context = self.places[SHORT].1.len();
        let known = |rows| self.times.get(&(context, rows)).copied().unwrap_or(0.0);
        let planned = RUNS.map(|(rows, forwards)| forwards as f64 * known(rows));
        let left = self.end.saturating_sub((self.now)()).as_secs_f64();
        let share = (left / planned.iter().sum::<f64>()).min(1.0);
        for (rows, forwards) in RUNS {
            for _ in 0..(share * forwards as f64) as usize {
                self.time(SHORT, rows, false)?;
            }
        }
        Ok(())
    }

    /// Times a forward, if there is one of so many rows there, and time for it or it is `needed`.
    fn time(&mut self, place: usize, rows: usize, needed: bool) -> Result<()> {
        let Some((session, context)) = self.places.get_mut(place) else {
            return Ok(());
        };
        let limit = session.info().max_context.unwrap_or(usize::MAX);
        let nodes = session.info().max_nodes.unwrap_or(usize::MAX);
        let has_room = context.len() + rows <= limit && rows <= nodes;
        let started = (self.now)();
        // It takes no less than one of fewer rows.
        let fewer = self.times.range(..=(context.len(), rows)).next_back();
        let expected = Duration::from_secs_f64(fewer.map_or(0.0, |it| *it.1));
        let has_time = (needed && rows <= NEEDED) || started + expected <= self.end;
        if !has_room || !has_time {
            return Ok(());
        }
        let draft = TokenTree::chain(context[..rows - 1].to_vec());
        session.score(context, &draft, Want::ARGMAX)?;
        let seconds = (self.now)().saturating_sub(started).as_secs_f64();
        let known = self.times.entry((context.len(), rows)).or_insert(seconds);
        *known = known.min(seconds);
        Ok(())
    }
}

/// A session that has read a page, and the context of its next forward.
fn begun(model: &Arc<Model>) -> Result<(Session, Vec<TokenId>)> {
    let vocabulary = model.info().vocab_size;
    let tokens = |count| (1..=count).map(|at| (at * 7919 % vocabulary) as TokenId);
    let mut session = model.session();
    if model.info().architecture == Architecture::EncoderDecoder {
        session.set_source(&tokens(SOURCE).collect::<Vec<_>>())?;
    }
    let context: Vec<TokenId> = tokens(PAGE_SLOTS + 1).collect();
    session.score(&context, &TokenTree::new(), Want::ARGMAX)?;
    Ok((session, context))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;
    use crate::{LoadOptions, random_model};

    fn model(positions: usize) -> Arc<Model> {
        let config = json!({"model_type": "llama", "vocab_size": 96, "hidden_size": 32,
            "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1,
            "max_position_embeddings": positions});
        random_model(config, &LoadOptions::default()).unwrap()
    }

    /// What is timed by a clock that moves by a millisecond whenever it is read.
    fn timed(positions: usize, budget: u64) -> Vec<(usize, usize)> {
        let clock = Cell::new(0);
        let now = || {
            clock.set(clock.get() + 1);
            Duration::from_millis(clock.get())
        };
        let times = model(positions).time_forwards(Duration::from_millis(budget), now);
        times.unwrap().into_keys().collect()
    }

    #[test]
    fn forwards_are_timed_as_far_as_there_is_time_and_room() {
        let short = |rows: &[usize]| rows.iter().map(|&rows| (65, rows)).collect::<Vec<_>>();
        let long = [(1025, 1), (1025, 8)];
        assert_eq!(
            timed(2048, 0),
            [short(&[1, 2, 4, 5, 8]), long[..1].to_vec()].concat()
        );
        let all = [short(&[1, 2, 4, 5, 8, 16]), long.to_vec()].concat();
        assert_eq!(timed(2048, 10_000), all);
        assert_eq!(timed(75, 10_000), short(&[1, 2, 4, 5, 8]));
    }

    #[test]
    fn a_repeated_page_is_a_context_like_any_other() {
        let model = model(2048);
        let mut repeated = model.session();
        let context: Vec<TokenId> = (1..=65).collect();
        repeated
            .score(&context, &TokenTree::new(), Want::ARGMAX)
            .unwrap();
        let context = repeated.repeat_first_page(3).unwrap();
        assert_eq!(context.len(), 3 * PAGE_SLOTS + 1);
        let scores = repeated
            .score(&context, &TokenTree::new(), Want::ARGMAX)
            .unwrap();
        assert_eq!(scores.rows_computed, 1);
    }
}
