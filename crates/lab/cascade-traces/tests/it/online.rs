//! The online schedule on recorded answers, with assumed costs of rows: of one text, and of texts
//! that share forwards, with one price for the drafts of all of them.

use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use cascade_config::{AssembleOptions, Config};
use cascade_engine::Statement;
use cascade_traces::trace::Trace;
use cascade_traces::{AssumedCosts, AssumedReplays, AssumedReport, Bins, Reliability};

/// Milliseconds of forwards by rows of TinyLlama's shape in docs/benchmarks.md: assumed here.
const CURVES: [(&str, [(usize, f64); 4]); 3] = [
    ("bf16", [(1, 65.0), (8, 68.8), (16, 88.7), (32, 174.0)]),
    ("q8_0", [(1, 38.6), (8, 41.8), (16, 65.0), (32, 127.8)]),
    ("q4_0", [(1, 21.5), (8, 34.3), (16, 66.6), (32, 131.2)]),
];

/// 0 is plain decoding.
const LENGTHS: [usize; 6] = [0, 1, 2, 3, 6, 10];

const TREE: &str = "max_gram_tree: {}";
const CHAIN: &str = "max_gram: {}";
const MODEL: &str = "model: ./crates/cascade-demo/models/demo-llama-base";
/// A forward of `MODEL`, in forwards of the target.
const MODEL_COST: f64 = 0.055;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Every `every`th record of a shipped recording.
fn trace(family: &str, every: usize) -> Arc<Trace> {
    let file = format!("traces/demo-{family}-problems.jsonl");
    let trace = Trace::open(project().join(file)).unwrap();
    let records = trace.records.into_iter().step_by(every).collect();
    Arc::new(Trace::new("shipped", trace.header, records).unwrap())
}

fn replay(
    trace: &Arc<Trace>,
    drafter: &str,
    costs: &[AssumedCosts],
    with: (&[usize], bool),
    texts: &[usize],
) -> AssumedReport {
    watched(trace, drafter, costs, with, texts, None)
}

fn watched(
    trace: &Arc<Trace>,
    drafter: &str,
    costs: &[AssumedCosts],
    (lengths, oracle): (&[usize], bool),
    texts: &[usize],
    statements: Option<Sender<Statement>>,
) -> AssumedReport {
    let text = format!("target: {{ model: recorded/model }}\ndrafters: [{{ {drafter} }}]\n");
    let config = Config::parse(&text, "a test's", project()).unwrap();
    let texts: Vec<NonZeroUsize> = texts.iter().map(|&n| n.try_into().unwrap()).collect();
    let replays = AssumedReplays {
        config: &config,
        pool: &config.pool(&AssembleOptions::default()),
        trace,
        offset: 0,
        limit: usize::MAX,
        costs,
        lengths,
        oracle,
        texts: &texts,
        statements,
    };
    let report = replays.run(|| ControlFlow::Continue(())).unwrap();
    report.unwrap()
}

/// For each number of texts, what the online schedule gains over plain decoding, and over the best
/// of all fixed lengths.
fn gains(
    trace: &Arc<Trace>,
    curve: &[(usize, f64)],
    drafter: &str,
    texts: &[usize],
) -> Vec<(f64, f64)> {
    let costs = AssumedCosts::by_rows(curve, &[MODEL_COST]).unwrap();
    let report = replay(trace, drafter, &[costs], (&LENGTHS, false), texts);
    let speed = |way: usize, column: usize| report.ways[way].outcomes[column].speedup();
    let of = |column: usize| {
        let best = (1..=LENGTHS.len())
            .map(|way| speed(way, column))
            .fold(0.0, f64::max);
        (speed(0, column) / speed(1, column), speed(0, column) / best)
    };
    (0..texts.len()).map(of).collect()
}

/// Compares on the recording of the demo LLaMA, for the types of `CURVES` with these numbers.
fn compare(every: usize, drafter: &str, types: Range<usize>, texts: &[usize]) {
    let trace = trace("llama", every);
    for (dtype, curve) in &CURVES[types] {
        let gains = gains(&trace, curve, drafter, texts);
        for (&texts, (over_plain, over_best)) in texts.iter().zip(gains) {
            println!("{drafter} {dtype} {texts:>2}: {over_plain:.3} {over_best:.3}");
            // So few answers are half over before it is known what rows and a drafter's forwards
            // cost.
            let least = if drafter == MODEL { 0.96 } else { 0.98 };
            assert!(
                over_best > least,
                "{drafter} {dtype} {texts}: {over_best} of the best"
            );
            if texts == 4 && drafter != CHAIN && *dtype != "q4_0" {
                assert!(over_plain > 1.2, "{dtype}: {over_plain} of plain decoding");
            }
        }
    }
}

#[test]
fn recorded_answers_are_drafted_nearly_as_well_as_in_hindsight() {
    let trace = trace("llama", 2);
    let costs = [0.018, 0.17].map(|row| AssumedCosts::linear(row, &[]));
    let report = replay(
        &trace,
        CHAIN,
        &costs,
        (&[1, 2, 3, 4, 6, 10, 16], true),
        &[1],
    );
    let speed = |way: usize, cost: usize| report.ways[way].outcomes[cost].speedup();
    for (cost, best) in report.best_length_in_hindsight.iter().enumerate() {
        let best = best.as_ref().unwrap().1.max(1.0);
        let (found, bound) = (speed(0, cost), speed(report.ways.len() - 1, cost));
        assert!(found > 0.98 * best, "{cost}: {found} against {best}");
        assert!(bound > found && bound > best, "{found}, {best}, {bound}");
    }
}

/// However dear rows are, and from nothing: never much below plain decoding.
#[test]
fn answers_never_become_slower_than_plain_decoding() {
    let trace = trace("llama", 2);
    let tokens: usize = trace.records.iter().map(|record| record.output.len()).sum();
    // What it takes to learn what tokens and rows are worth: three forwards, once.
    let least = 0.97 * tokens as f64 / (tokens + 3) as f64;
    let costs = [0.05, 0.5, 1.0].map(|row| AssumedCosts::linear(row, &[]));
    let report = replay(&trace, CHAIN, &costs, (&[], false), &[1]);
    for outcome in &report.ways[0].outcomes {
        let found = outcome.speedup();
        assert!(found > least, "{}: {found}, {tokens} tokens", outcome.name);
    }
}

#[test]
fn texts_together_draft_nearly_as_well_as_the_best_length_in_hindsight() {
    compare(2, TREE, 1..2, &[2, 8]);
    compare(4, MODEL, 1..2, &[2, 8]);
}

/// Plain decoding is the length of 0: with any number of texts, drafting loses little over it.
/// Fixed lengths of a tree are those of its main path.
#[test]
#[ignore = "slow: hundreds of replays; run with --run-ignored all"]
fn any_number_of_texts_drafts_nearly_as_well_as_the_best_length_in_hindsight() {
    compare(2, CHAIN, 1..2, &[1, 4, 8, 32]);
    compare(2, TREE, 0..3, &[1, 4, 8, 32]);
    compare(2, MODEL, 0..1, &[1, 4, 16]);
}

/// To watch statements changes nothing; and what the schedule makes of them is nearer to what was
/// kept than what the drafter stated.
#[test]
fn what_is_believed_is_nearer_to_what_is_kept_than_what_is_stated() {
    let trace = trace("llama", 1);
    let costs = [AssumedCosts::linear(0.05, &[])];
    let (tell, told) = channel();
    let report = watched(&trace, TREE, &costs, (&[], false), &[1], Some(tell));
    assert_eq!(report, replay(&trace, TREE, &costs, (&[], false), &[1]));
    let mut reliability = Reliability::default();
    reliability.extend(told);
    let levels = reliability.levels();
    assert_eq!(levels.len(), 1);
    let of = &levels[&1];
    let sums = |bins: &Bins| {
        bins.iter().fold((0, 0, 0.0), |(tokens, kept, wrong), bin| {
            let (said, share) = bin.means().unwrap_or_default();
            let off = bin.tokens as f64 * (said - share).abs();
            (tokens + bin.tokens, kept + bin.kept, wrong + off)
        })
    };
    let (stated, believed) = (sums(&of.stated), sums(&of.believed));
    assert_eq!((stated.0, stated.1), (believed.0, believed.1));
    assert!(stated.1 > 500, "{stated:?}");
    assert!(believed.2 < stated.2, "{stated:?} {believed:?}");
}

#[test]
fn replays_of_several_texts_are_reproducible() {
    let trace = trace("llama", 10);
    let costs = AssumedCosts::linear(0.05, &[]);
    let report = || {
        replay(
            &trace,
            TREE,
            std::slice::from_ref(&costs),
            (&LENGTHS, false),
            &[3],
        )
    };
    let first = report();
    assert_eq!(first, report());
    // Three texts, each of which says all records.
    let tokens: usize = trace.records.iter().map(|record| record.output.len()).sum();
    let plain = first.ways[1].outcomes[0].speedup();
    assert!(
        (plain / (3.0 / 1.1) - 1.0).abs() < 0.05,
        "{plain}, {tokens} tokens"
    );
}
