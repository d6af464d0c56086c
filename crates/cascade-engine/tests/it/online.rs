//! The online schedule: what it gains, what it never loses, and what it must not depend on.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cascade_core::toy::ToyScorer;
use cascade_core::{
    Architecture, Budget, Decoding, Drafter, LevelId, Observation, Prompt, Sampling, ScoredTree,
    TokenId,
};
use cascade_engine::{
    AssumedCosts, Cascade, Convention, DraftState, KMatrix, OnlineSchedule, Options, Outcome, Rule,
    Schedule, Turn, TurnStart, VirtualClock,
};

use crate::common::matrix;
use crate::replays::{Regime, Replay, token};

fn regime(positions: Range<usize>, acceptance: f64, forward: f64, row: f64) -> Regime {
    Regime {
        positions,
        acceptance,
        forward,
        row,
    }
}

fn everywhere(acceptance: f64, row: f64) -> Vec<Regime> {
    vec![regime(0..usize::MAX, acceptance, 1e-3, row)]
}

fn k(tokens: usize) -> KMatrix {
    matrix(&[&[tokens]])
}

/// Seconds between the emission of two tokens.
fn seconds(times: &[f64], tokens: Range<usize>) -> f64 {
    times[tokens.end - 1] - times[tokens.start]
}

/// The schedule that knows what rows cost, as it does of a model on a machine.
fn schedule(regimes: &[Regime]) -> OnlineSchedule {
    OnlineSchedule::new(AssumedCosts {
        row: regimes[0].row,
        ..AssumedCosts::default()
    })
}

fn online(regimes: Vec<Regime>, tokens: usize) -> Vec<f64> {
    let schedule = schedule(&regimes);
    let replay = Replay::new(regimes);
    let drafter = replay.drafter(5, 0.0);
    let builder = replay.builder().statistical("drafter", drafter);
    replay.times(builder.schedule(schedule), tokens)
}

/// The least time of drafts of fixed length for this part of the text, and their length.
fn best_length(regimes: &[Regime], tokens: usize, part: Range<usize>) -> (f64, usize) {
    let lengths = [0, 1, 2, 3, 4, 6, 8, 12, 16].into_iter();
    let times = lengths.map(|length| {
        let replay = Replay::new(regimes.to_vec());
        let drafter = replay.drafter(5, 0.0);
        let builder = replay.builder().statistical("drafter", drafter);
        let times = replay.times(builder.k_matrix(k(length)), tokens);
        (seconds(&times, part.clone()), length)
    });
    times.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

#[test]
fn drafts_are_nearly_as_good_as_those_of_the_best_length_found_in_hindsight() {
    for (acceptance, row) in [
        (0.95, 0.01),
        (0.8, 0.02),
        (0.8, 0.2),
        (0.5, 0.05),
        (0.3, 0.1),
    ] {
        let regimes = everywhere(acceptance, row);
        let found = seconds(&online(regimes.clone(), 600), 0..600);
        let (best, length) = best_length(&regimes, 600, 0..600);
        assert!(
            found < best / 0.95,
            "{acceptance} {row}: {found} against {best} with {length}"
        );
    }
}

#[test]
fn what_does_not_pay_is_not_drafted() {
    for (acceptance, row) in [(0.0, 0.02), (0.05, 0.2), (0.3, 0.9)] {
        let found = seconds(&online(everywhere(acceptance, row), 400), 0..400);
        let plain = 399.0 * 1e-3;
        // What it takes to learn what tokens and rows are worth: three forwards, once.
        let most = (plain + 3e-3) / 0.97;
        assert!(found < most, "{acceptance} {row}: {found}");
    }
}

/// Seconds of tokens of a text whose drafter takes so many seconds to propose, and to learn.
fn asked(regimes: Vec<Regime>, asking: f64, k: Option<KMatrix>, tokens: usize) -> Vec<f64> {
    let schedule = schedule(&regimes);
    let replay = Replay::new(regimes);
    let drafter = replay.slow_drafter(5, asking);
    let builder = replay.builder().statistical("drafter", drafter);
    let builder = match k {
        Some(k) => builder.k_matrix(k),
        None => builder.schedule(schedule),
    };
    replay.times(builder, tokens)
}

/// Where forwards take as little time as asking a drafter does, that is what is saved.
#[test]
fn what_takes_longer_to_ask_than_it_saves_is_rarely_asked() {
    for acceptance in [0.0, 0.05, 0.2] {
        for asking in [0.02e-3, 0.1e-3, 0.3e-3, 2e-3] {
            let found = asked(everywhere(acceptance, 0.1), asking, None, 1200);
            let plain = 1199.0 * 1e-3;
            // What it takes to learn what tokens, rows and asking are worth.
            let most = (plain + 4e-3 + 4.0 * asking) / 0.97;
            let found = seconds(&found, 0..1200);
            assert!(found < most, "{acceptance} {asking}: {found} {plain}");
        }
    }
}

#[test]
fn what_saves_more_than_asking_takes_is_asked() {
    for (acceptance, asking) in [(0.9, 0.02e-3), (0.9, 0.2e-3), (0.6, 0.1e-3)] {
        let regimes = everywhere(acceptance, 0.02);
        let found = seconds(&asked(regimes.clone(), asking, None, 800), 0..800);
        let fixed = [1, 2, 3, 4, 6, 8, 12]
            .map(|length| asked(regimes.clone(), asking, Some(k(length)), 800))
            .map(|times| seconds(&times, 0..800));
        let best = fixed.into_iter().fold(f64::INFINITY, f64::min);
        assert!(found < best / 0.93, "{acceptance} {asking}: {found} {best}");
    }
}

#[test]
fn a_drafter_that_rests_is_asked_again_when_the_text_changes() {
    let regimes = vec![
        regime(0..1000, 0.0, 1e-3, 0.05),
        regime(1000..usize::MAX, 0.95, 1e-3, 0.05),
    ];
    let times = asked(regimes, 0.1e-3, None, 2000);
    assert!(
        seconds(&times, 0..1000) < 1.03,
        "{}",
        seconds(&times, 0..1000)
    );
    let found = seconds(&times, 1200..2000);
    let best = asked(everywhere(0.95, 0.05), 0.1e-3, Some(k(8)), 2000);
    let best = seconds(&best, 1200..2000);
    assert!(found < best / 0.9, "{found} {best}");
}

/// A context, the text behind it, and whether that was told alone.
type Told = (Vec<TokenId>, Vec<TokenId>, bool);

/// Remembers what it was given.
#[derive(Clone, Default)]
struct Listener {
    clock: VirtualClock,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Drafter for Listener {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], _budget: Budget) -> ScoredTree {
        let told = self.told.lock().unwrap();
        let last = told.last().filter(|last| context.len() > last.0.len());
        if let Some((before, emitted, _)) = last {
            assert_eq!(
                context,
                [&before[..], &emitted[..]].concat(),
                "nothing is missing"
            );
        }
        self.clock.advance(Duration::from_millis(1));
        ScoredTree::default()
    }

    fn observe(&mut self, seen: &Observation<'_>) {
        let told = (
            seen.context.to_vec(),
            seen.emitted.to_vec(),
            seen.is_text_alone(),
        );
        self.told.lock().unwrap().push(told);
    }
}

/// Takes 1 ms to propose nothing, and 2 ms to learn from a step.
struct Learning(VirtualClock);

impl Drafter for Learning {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, _context: &[TokenId], _budget: Budget) -> ScoredTree {
        self.0.advance(Duration::from_millis(1));
        ScoredTree::default()
    }

    fn observe(&mut self, _seen: &Observation<'_>) {
        self.0.advance(Duration::from_millis(2));
    }
}

/// Asks the first drafter in every second step, and remembers how long its turns took.
#[derive(Clone, Default)]
struct EverySecond {
    steps: usize,
    milliseconds: Arc<Mutex<Vec<u128>>>,
}

impl Schedule for EverySecond {
    fn next(&mut self, _reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn> {
        (state.turns.is_empty() && self.steps.is_multiple_of(2)).then_some(Turn {
            drafter: LevelId(1),
            tokens: 1,
            start: TurnStart::Tip,
            reserved: 0,
            nodes: 1,
        })
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        self.steps += 1;
        let times = outcome.turns.iter().map(|turn| turn.time.as_millis());
        self.milliseconds.lock().unwrap().extend(times);
    }
}

/// A turn takes as long as its drafter, and as that learned since its last turn. A text whose
/// samples depend on what is drafted has no times, and leaves none to the next.
#[test]
fn what_a_drafter_learned_is_a_part_of_its_next_turn_in_the_same_text() {
    let clock = VirtualClock::default();
    let schedule = EverySecond::default();
    let mut cascade = Cascade::builder()
        .target_with("target", ToyScorer::target("target", 24, 7), Rule::Iterated)
        .statistical("learning", Learning(clock.clone()))
        .schedule(schedule.clone())
        .clock(clock)
        .build()
        .unwrap();
    let prompt = Prompt::new(Architecture::DecoderOnly, vec![3]);
    let greedy = Options::default().with_max_new_tokens(6);
    let drawn = greedy
        .clone()
        .with_decoding(Decoding::Sampled(Sampling::new(1.0).unwrap()));
    for (options, expected) in [(&greedy, [1, 5, 5]), (&drawn, [0; 3]), (&greedy, [1, 5, 5])] {
        cascade.generate_tokens(&prompt, options).unwrap();
        let found = std::mem::take(&mut *schedule.milliseconds.lock().unwrap());
        assert_eq!(found, expected);
    }
}

/// A drafter that rests is given all of the text before it proposes again.
#[test]
fn a_drafter_that_rests_misses_no_text() {
    let replay = Replay::new(everywhere(0.0, 0.05));
    let listener = Listener {
        clock: replay.clock.clone(),
        ..Listener::default()
    };
    let builder = replay.builder().statistical("listener", listener.clone());
    let schedule = schedule(&everywhere(0.0, 0.05));
    let mut cascade = builder.schedule(schedule).build().unwrap();
    let prompt = Prompt::new(Architecture::DecoderOnly, vec![token(0)]);
    let options = Options::default().with_max_new_tokens(300);
    let said = cascade.generate_tokens(&prompt, &options).unwrap().tokens;
    let told = listener.told.lock().unwrap();
    let mut text = prompt.context.clone();
    for (context, emitted, _) in told.iter() {
        assert_eq!(context, &text);
        text.extend(emitted);
    }
    assert_eq!(text[1..], said[..text.len() - 1]);
    assert!(told.iter().any(|told| told.2) && told.iter().any(|told| !told.2));
    assert!(told.len() < 100, "it rested: {}", told.len());
}

/// Acceptance falls and rises, and the load of the machine changes at the same time.
#[test]
fn it_recovers_within_fifty_tokens_when_acceptance_and_load_change() {
    let regimes = vec![
        regime(0..400, 0.9, 1e-3, 0.02),
        regime(400..800, 0.15, 2.5e-3, 0.02),
        regime(800..1200, 0.92, 1e-3, 0.02),
        regime(1200..1700, 0.9, 3e-3, 0.02),
    ];
    let times = online(regimes.clone(), 1600);
    for part in [450..700, 850..1100, 1250..1600] {
        let found = seconds(&times, part.clone());
        let (best, length) = best_length(&regimes, 1600, part.clone());
        assert!(
            found < best / 0.9,
            "{part:?}: {found} against {best} with {length}"
        );
    }
}

/// A neural drafter that costs a share of the target.
fn with_neural(share: f64, acceptance: f64, row: f64) -> (f64, f64) {
    let run = |k: Option<KMatrix>| {
        let replay = Replay::new(everywhere(acceptance, row));
        let builder = replay.builder().neural("small", replay.drafter(5, share));
        let builder = match k {
            Some(k) => builder.k_matrix(k),
            None => builder.schedule(schedule(&everywhere(acceptance, row))),
        };
        seconds(&replay.times(builder, 500), 0..500)
    };
    let lengths = [0, 1, 2, 3, 4, 6, 8].into_iter();
    let best = lengths.map(|length| run(Some(k(length))));
    (run(None), best.min_by(f64::total_cmp).unwrap())
}

#[test]
fn neural_drafters_draft_as_far_as_they_pay_and_not_at_all_if_they_do_not() {
    for (share, acceptance) in [(0.05, 0.9), (0.1, 0.7), (0.3, 0.8), (0.6, 0.5), (1.0, 0.9)] {
        let (found, best) = with_neural(share, acceptance, 0.02);
        assert!(
            found < best / 0.95,
            "{share} {acceptance}: {found} against {best}"
        );
    }
}

/// The drafters of a cascade that pay draft: the outcome is near that of the better one alone.
#[test]
fn the_drafter_that_pays_drafts() {
    for (share, acceptance) in [(0.02, 0.9), (0.9, 0.9)] {
        let replay = Replay::new(everywhere(acceptance, 0.05));
        let builder = replay
            .builder()
            .neural("small", replay.drafter(5, share))
            .statistical("text", replay.drafter(99, 0.0));
        let schedule = schedule(&everywhere(acceptance, 0.05));
        let both = replay.times(builder.schedule(schedule), 500);
        let both = seconds(&both, 0..500);
        let (neural, _) = with_neural(share, acceptance, 0.05);
        let text = seconds(&online(everywhere(acceptance, 0.05), 500), 0..500);
        let better = neural.min(text);
        assert!(both < better * 1.15, "{share}: {both}, {neural}, {text}");
    }
}

/// Times of a cascade of a drafter of these regimes, which costs 0.15 of the target, and a small
/// one that is right as often as is said, which costs 0.03.
fn with_two(
    larger: &[Regime],
    smaller: &[Regime],
    k: Option<Vec<Vec<usize>>>,
    tokens: usize,
) -> Vec<f64> {
    let replay = Replay::new(larger.to_vec());
    let builder = replay
        .builder()
        .neural("larger", replay.drafter(5, 0.15))
        .neural("smaller", replay.drafter_of(7, 0.03, smaller.to_vec()));
    let builder = match k {
        Some(k) => builder.k_matrix(KMatrix::new(k, Convention::Added).unwrap()),
        None => builder.schedule(schedule(larger)),
    };
    replay.times(builder, tokens)
}

/// The least time of drafts of fixed length of two drafters for this part of the text.
fn best_of_two(
    larger: &[Regime],
    smaller: &[Regime],
    tokens: usize,
    part: Range<usize>,
) -> (f64, Vec<Vec<usize>>) {
    let lengths = [0, 2, 4, 6, 8, 12];
    let settings = lengths.into_iter().flat_map(|first| {
        let pairs = [0, 2, 4]
            .into_iter()
            .flat_map(|then| [(then, 0), (then, 2), (then, 4)]);
        pairs.map(move |(then, inner)| vec![vec![first, then], vec![0, inner]])
    });
    let times = settings.map(|k| {
        let times = with_two(larger, smaller, Some(k.clone()), tokens);
        (seconds(&times, part.clone()), k)
    });
    times.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

/// A smaller drafter pays, and with a larger one above it, it pays more.
#[test]
fn a_larger_drafter_is_found_beside_a_smaller_one_that_pays() {
    for (larger, smaller) in [(0.95, 0.7), (0.85, 0.8), (0.3, 0.75)] {
        let (larger, smaller) = (everywhere(larger, 0.05), everywhere(smaller, 0.05));
        let found = seconds(&with_two(&larger, &smaller, None, 3000), 0..3000);
        let (best, k) = best_of_two(&larger, &smaller, 3000, 0..3000);
        assert!(found < best / 0.9, "{found} against {best} with {k:?}");
    }
}

#[test]
fn a_larger_drafter_that_gets_better_is_found_again() {
    let larger = [
        regime(0..2000, 0.1, 1e-3, 0.05),
        regime(2000..usize::MAX, 0.95, 1e-3, 0.05),
    ];
    let smaller = everywhere(0.7, 0.05);
    let times = with_two(&larger, &smaller, None, 4000);
    for part in [0..2000, 2200..4000] {
        let found = seconds(&times, part.clone());
        let (best, k) = best_of_two(&larger, &smaller, 4000, part.clone());
        assert!(
            found < best / 0.9,
            "{part:?}: {found} against {best} with {k:?}"
        );
    }
}

#[test]
fn the_same_outcomes_and_times_give_the_same_drafts() {
    let regimes = vec![
        regime(0..100, 0.9, 1e-3, 0.02),
        regime(100..300, 0.3, 2e-3, 0.1),
    ];
    assert_eq!(online(regimes.clone(), 250), online(regimes, 250));
}
