//! What is read off logits, against the logits themselves.
#![allow(clippy::unwrap_used)]

use crate::common::batch::Batch;
use crate::common::store::Store;
use crate::common::{cache, on_all, on_each, EPSILON, ONE_HEAD};
use cascade_gpu::{
    DType, Device, Loader, Readout, Runner, StorageDType, WorkspaceSizes, MAX_PICKS,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const TOKENS: usize = 40;
const STREAM: usize = 32;
/// Four slices and a bit, which tiles do not divide.
const VOCABULARY: usize = 4107;

/// A head of which every logit comes up again and again, after so many tokens.
fn weights(seed: u64, period: usize) -> Store {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut store = Store::default();
    store.random(&mut rng, "table", &[TOKENS, STREAM], StorageDType::F32, 1.0);
    store.put("norm", &[STREAM], StorageDType::F32, &[1.0; STREAM]);
    let rows = STREAM * period;
    let once: Vec<f32> = (0..rows).map(|_| rng.random_range(-1.0..1.0)).collect();
    let again: Vec<f32> = once
        .iter()
        .copied()
        .cycle()
        .take(VOCABULARY * STREAM)
        .collect();
    store.put("head", &[VOCABULARY, STREAM], StorageDType::F32, &again);
    store
}

/// Changes numbers of a weight.
fn change(store: &mut Store, name: &str, rows: usize, change: impl Fn(&mut [f32])) {
    let mut values = store.values(name).to_vec();
    change(&mut values);
    store.put(name, &[rows, STREAM], StorageDType::F32, &values);
}

fn run(store: &Store, batch: &Batch, (device, dtype): (&Device, DType)) -> Runner {
    let mut loader = Loader::new(device, dtype, store);
    let table = loader.table("table", TOKENS, STREAM).unwrap();
    let norm = loader.norm("norm", STREAM).unwrap();
    let head = loader.head(STREAM, "head", VOCABULARY).unwrap();
    let mut sizes = WorkspaceSizes::new(STREAM, EPSILON, ONE_HEAD, VOCABULARY);
    sizes.cover(&head);
    let mut runner = Runner::new(device, dtype, sizes).unwrap();
    let cache = cache(device, dtype, ONE_HEAD, batch.tokens.len());
    let forward = runner.forward(&batch.rows(), &cache, None, |f| {
        f.embed(&table, &norm);
        f.logits(&head, 1.75);
    });
    forward.unwrap();
    runner
}

/// Tokens by falling logits, lower ones first where those are equal.
fn ranked(logits: &[f32]) -> Vec<(u32, f32)> {
    let mut ranked: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked
}

fn probability(logits: &[f32], token: u32) -> f64 {
    let most = ranked(logits)[0].1;
    let share = |logit: f32| f64::from(logit - most).exp();
    let sum: f64 = logits.iter().map(|&logit| share(logit)).sum();
    share(logits[token as usize]) / sum
}

fn assert_probability(got: f32, want: f64) {
    let close = (f64::from(got) - want).abs() <= 1e-5 * want + 1e-12;
    assert!(close, "{got} instead of {want}");
}

fn check(readout: &Readout, logits: &[f32], picks: &[(u32, u32)]) {
    let rows: Vec<&[f32]> = logits.chunks(VOCABULARY).collect();
    for (row, logits) in rows.iter().enumerate() {
        let (token, _) = ranked(logits)[0];
        assert_eq!(readout.argmax[row], token);
        assert_probability(readout.greatest[row], probability(logits, token));
    }
    for (&got, &(row, token)) in readout.picks.iter().zip(picks) {
        assert_probability(got, probability(rows[row as usize], token));
    }
}

fn random_batch(rng: &mut StdRng, rows: usize, wanted: usize, picks: usize) -> Batch {
    let tokens: Vec<u32> = (0..rows)
        .map(|_| rng.random_range(0..TOKENS as u32))
        .collect();
    let mut batch = Batch::chain(&tokens, 0);
    batch.wanted = wanted;
    let pick = |_| {
        let row = rng.random_range(0..wanted as u32);
        (row, rng.random_range(0..VOCABULARY as u32))
    };
    batch.picks = (0..picks).map(pick).collect();
    batch
}

#[test]
fn readings_are_those_of_the_logits() {
    let mut rng = StdRng::seed_from_u64(2);
    // Logits come up again in other slices, with the same thread, in other warps and other lanes.
    let cases = [
        (1, 1, 0, 1024),
        (20, 20, MAX_PICKS, 256),
        (7, 3, 20, 32),
        (2, 2, 0, 4),
    ];
    for (rows, wanted, picks, period) in cases {
        let store = weights(1, period);
        let batch = random_batch(&mut rng, rows, wanted, picks);
        on_all(|device, dtype| {
            let runner = run(&store, &batch, (device, dtype));
            let logits = runner.logits(wanted).unwrap();
            let readout = runner.readout(wanted, picks).unwrap();
            assert_eq!(readout.improper, None);
            check(&readout, &logits, &batch.picks);
            [readout.greatest, readout.picks, logits].concat()
        });
    }
}

#[test]
fn the_greatest_logits_come_in_order() {
    let store = weights(3, 500);
    let mut rng = StdRng::seed_from_u64(4);
    for (rows, wanted, width) in [(1, 1, 1), (6, 2, 9)] {
        let batch = random_batch(&mut rng, rows, wanted, 0);
        on_all(|device, dtype| {
            let runner = run(&store, &batch, (device, dtype));
            let logits = runner.logits(wanted).unwrap();
            let top = runner.top(wanted, width).unwrap();
            let rows = logits.chunks(VOCABULARY).map(ranked);
            let want: Vec<_> = rows.flat_map(|row| row[..width].to_vec()).collect();
            assert_eq!(top, want);
            // Nothing is lost by asking.
            assert_eq!(runner.logits(wanted).unwrap(), logits);
            logits
        });
    }
}

/// Types that infinite weights stay what they are in.
const UNBOUNDED: [DType; 2] = [DType::F32, DType::BF16];

/// Tokens 0 and 1 have a first number above and below zero, which meets what `head` has there.
fn with_first_column(head: impl Fn(usize) -> Option<f32>) -> Store {
    let mut store = weights(5, 500);
    change(&mut store, "table", TOKENS, |table| {
        table[0] = 0.5;
        table[STREAM] = -0.5;
    });
    change(&mut store, "head", VOCABULARY, |weight| {
        for (token, row) in weight.chunks_mut(STREAM).enumerate() {
            row[0] = head(token).unwrap_or(row[0]);
        }
    });
    store
}

fn improper(store: &Store, tokens: &[u32]) -> Option<usize> {
    let batch = Batch::chain(tokens, 0);
    let found = std::cell::Cell::new(None);
    on_each(&UNBOUNDED, |device, dtype| {
        let runner = run(store, &batch, (device, dtype));
        let readout = runner.readout(tokens.len(), 0).unwrap();
        found.set(readout.improper);
        vec![readout.improper.map_or(-1.0, |row| row as f32)]
    });
    found.get()
}

#[test]
fn rows_that_make_no_distribution_are_told() {
    let infinite = with_first_column(|token| (token == 1777).then_some(f32::INFINITY));
    assert_eq!(improper(&infinite, &[1, 1, 0, 1]), Some(2));
    assert_eq!(improper(&infinite, &[1, 1]), None);
    let nan = with_first_column(|token| (token == 3).then_some(f32::NAN));
    assert_eq!(improper(&nan, &[1]), Some(0));
    let nothing = with_first_column(|_| Some(f32::NEG_INFINITY));
    assert_eq!(improper(&nothing, &[0]), Some(0));
    let mut broken = weights(6, 500);
    change(&mut broken, "table", TOKENS, |table| {
        table[5 * STREAM + 7] = f32::NAN
    });
    assert_eq!(improper(&broken, &[4, 6, 5]), Some(2));
}

#[test]
fn tokens_that_cannot_be_have_no_probability() {
    // Whole slices of them, too.
    let store = with_first_column(|token| (token < 1100).then_some(f32::INFINITY));
    let mut batch = Batch::chain(&[1], 0);
    batch.picks = vec![(0, 5), (0, 1050), (0, 1200)];
    on_each(&UNBOUNDED, |device, dtype| {
        let runner = run(&store, &batch, (device, dtype));
        let logits = runner.logits(1).unwrap();
        assert_eq!(logits[1050], f32::NEG_INFINITY);
        let readout = runner.readout(1, 3).unwrap();
        assert_eq!(readout.improper, None);
        check(&readout, &logits, &batch.picks);
        assert_eq!(readout.picks[..2], [0.0, 0.0]);
        readout.picks
    });
}
