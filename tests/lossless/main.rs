//! The promise: any cascade, in any company, gives the target's text. Cases are drawn from a seed,
//! and each text is compared with plain decoding by its target, alone, in a fresh session: token
//! ids, how it ended, and the bits of log probabilities where they are asked for.
//!
//! Without a variable, a fixed number of cases of a fixed seed is run.
//!
//! * `CASCADE_LOSSLESS_SECONDS`: how long to search, from the same case on.
//! * `CASCADE_LOSSLESS_SEED`: another seed.
//! * `CASCADE_LOSSLESS_CASE`: one case, as a failure names it. Threads meet otherwise each time:
//!   together with seconds, the case is run again and again.
//!
//! At the end it prints how many cases had each value of each axis.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod case;
mod models;
mod run;

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use case::{Case, CaseId};
use models::Models;
use run::{Counts, Spoil, run};

const SEED: u64 = 58;
/// Cases without a variable.
const CASES: u64 = 400;

/// Numbers of the environment, with colons between them.
fn asked(name: &str) -> Option<Vec<u64>> {
    let text = env::var(name).ok()?;
    let numbers: Result<_, _> = text.split(':').map(str::parse).collect();
    Some(numbers.unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

/// How many cases had each value of each axis, and what all computed.
#[derive(Debug, Default)]
struct Coverage {
    cases: u64,
    values: BTreeMap<(&'static str, String), u64>,
    counts: Counts,
    failures: Vec<(CaseId, String)>,
}

impl Coverage {
    fn add(&mut self, case: &Case, counts: Counts) {
        self.cases += 1;
        let sums = self.counts.iter_mut().zip(counts);
        sums.for_each(|(sum, count)| *sum += count);
        for value in &case.offered {
            self.values.entry(value.clone()).or_default();
        }
        for value in &case.drawn {
            *self.values.entry(value.clone()).or_default() += 1;
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = "";
        for ((axis, value), count) in &self.values {
            if *axis != last {
                write!(f, "\n{axis}:")?;
                last = axis;
            }
            write!(f, " {value} {count};")?;
        }
        let [tokens, drafted, accepted] = self.counts;
        let cases = self.cases;
        write!(
            f,
            "\n{cases} cases: {tokens} tokens, {drafted} drafted, {accepted} accepted"
        )
    }
}

/// Runs cases on every processor as long as `goes_on` says so of their number and none fails.
fn search(
    models: &Models,
    spoil: Option<Spoil>,
    id: impl Fn(u64) -> CaseId + Sync,
    goes_on: impl Fn(u64) -> bool + Sync,
) -> Coverage {
    let (next, coverage) = (AtomicU64::new(0), Mutex::new(Coverage::default()));
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if !goes_on(number) || !coverage.lock().unwrap().failures.is_empty() {
            return;
        }
        let case = Case::draw(id(number), models);
        let outcome = run(&case, models, spoil);
        let mut coverage = coverage.lock().unwrap();
        match outcome {
            Ok(counts) => coverage.add(&case, counts),
            Err(wrong) => coverage
                .failures
                .push((case.id, format!("{case}\n{wrong}"))),
        }
    };
    thread::scope(|scope| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        (0..processors).for_each(|_| drop(scope.spawn(work)));
    });
    coverage.into_inner().unwrap()
}

#[test]
fn any_cascade_in_any_company_gives_the_targets_text() {
    let models = Models::open();
    let start = Instant::now();
    let seconds = asked("CASCADE_LOSSLESS_SECONDS").map(|seconds| Duration::from_secs(seconds[0]));
    let seed = asked("CASCADE_LOSSLESS_SEED").map_or(SEED, |seed| seed[0]);
    let one = asked("CASCADE_LOSSLESS_CASE").map(|case| (case[0], case[1]));
    let most = if one.is_some() { 1 } else { CASES };
    let coverage = search(
        &models,
        None,
        |number| one.unwrap_or((seed, number)),
        |number| seconds.map_or(number < most, |most| start.elapsed() < most),
    );
    let seconds = start.elapsed().as_secs_f64();
    println!("{coverage}, in {seconds:.1} seconds, seed {seed}");
    if let Some((_, failure)) = coverage.failures.iter().min() {
        panic!("{failure}");
    }
    if one.is_none() && coverage.cases >= CASES {
        let never = coverage.values.iter().filter(|&(_, &count)| count == 0);
        assert_eq!(never.collect::<Vec<_>>(), [], "never drawn");
        let [tokens, _, accepted] = coverage.counts;
        assert!(accepted > tokens / 10, "hardly anything is accepted");
    }
}

/// A search that could not fail would show nothing.
#[test]
fn a_broken_promise_is_found_in_few_cases() {
    let models = Models::open();
    for (spoil, most) in [(Spoil::Tokens, 40), (Spoil::Bit, 200)] {
        let id = |number| (SEED, number);
        let coverage = search(&models, Some(spoil), id, |number| number < most);
        let ((_, number), failure) = coverage.failures.iter().min().expect("it is found");
        let names = format!("CASCADE_LOSSLESS_CASE={SEED}:{number}: ");
        assert!(failure.starts_with(&names), "{failure}");
        println!("{spoil:?}: found after {} cases", coverage.cases);
    }
}
