//! The online schedule on recorded answers, with assumed costs of rows.

use std::path::Path;
use std::sync::Arc;

use cascade_engine::{
    AssumedTime, Cascade, CascadeBuilder, Clock, Convention, KMatrix, OnlineSchedule, Options,
    RowTimes, VirtualClock,
};
use cascade_ngram::MaxGram;
use cascade_traces::trace::{replay, Oracle, Record, Trace, TraceScorer};

const LENGTHS: [usize; 7] = [1, 2, 3, 4, 6, 10, 16];

/// Every `every`th record of the shipped recording of the demo LLaMA.
fn trace(every: usize) -> Arc<Trace> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let trace = Trace::open(root.join("traces/demo-llama-problems.jsonl")).unwrap();
    let records = trace.records.into_iter().step_by(every).collect();
    Arc::new(Trace::new("shipped", trace.header, records).unwrap())
}

/// How many times as fast as plain decoding.
fn speedup(
    trace: &Arc<Trace>,
    row: f64,
    build: impl Fn(CascadeBuilder) -> CascadeBuilder,
    mut before: impl FnMut(&Record),
) -> f64 {
    let clock = VirtualClock::default();
    let scorer = TraceScorer::new(Arc::clone(trace)).unwrap();
    let scorer = AssumedTime::new(scorer, clock.clone(), RowTimes::linear(1e-3, row));
    let builder = Cascade::builder()
        .target("target", scorer)
        .eos(trace.header.eos.iter().copied())
        .clock(clock.clone());
    let mut cascade = build(builder).build().unwrap();
    let options = Options::default().with_max_new_tokens(2048);
    let mut tokens = 0;
    for record in &trace.records {
        before(record);
        tokens += replay(&mut cascade, record, &options).unwrap().tokens.len();
    }
    tokens as f64 * 1e-3 / clock.now().as_secs_f64()
}

fn chains(builder: CascadeBuilder) -> CascadeBuilder {
    builder.statistical("max-gram", MaxGram::new())
}

fn online(trace: &Arc<Trace>, row: f64) -> f64 {
    let build = |builder| chains(builder).schedule(OnlineSchedule::default());
    speedup(trace, row, build, |_| {})
}

fn fixed(trace: &Arc<Trace>, row: f64, length: usize) -> f64 {
    let k = KMatrix::new(vec![vec![length]], Convention::Added).unwrap();
    speedup(
        trace,
        row,
        |builder| chains(builder).k_matrix(k.clone()),
        |_| {},
    )
}

fn oracle(trace: &Arc<Trace>, row: f64) -> f64 {
    let (oracle, text) = Oracle::new();
    let build = |builder| chains(builder).schedule(oracle.clone());
    speedup(trace, row, build, |record| text.set(&record.output))
}

fn compare(every: usize, rows: &[f64]) {
    let trace = trace(every);
    for &row in rows {
        let lengths = LENGTHS.map(|length| fixed(&trace, row, length));
        let best = lengths.into_iter().fold(1.0, f64::max);
        let found = online(&trace, row);
        assert!(found > 0.98 * best, "{row}: {found} against {best}");
        let bound = oracle(&trace, row);
        assert!(
            bound > found && bound > best,
            "{row}: {found}, {best}, {bound}"
        );
    }
}

#[test]
fn recorded_answers_are_drafted_nearly_as_well_as_in_hindsight() {
    compare(2, &[0.018, 0.17]);
}

/// However dear rows are, and from nothing: never much below plain decoding.
#[test]
fn answers_never_become_slower_than_plain_decoding() {
    let trace = trace(2);
    let tokens: usize = trace.records.iter().map(|record| record.output.len()).sum();
    for row in [0.05, 0.5, 1.0] {
        let found = online(&trace, row);
        // What it takes to learn what tokens and rows are worth: three forwards, once.
        let least = 0.97 * tokens as f64 / (tokens + 3) as f64;
        assert!(found > least, "{row}: {found}, {tokens} tokens");
    }
}
