//! Heads: what they learn from, resumption to the same bits, and what they gain.

use cascade_core::toy::ToyScorer;
use cascade_core::{HiddenLayer, Sampling, Scorer, TokenId, TokenTree, Want};
use cascade_traces::trace::Record;
use cascade_traces::train::{
    ErrorKind, HeadChoice, HeadExamples, HeadOutput, HeadPass, HeadSettings, HeadTraining, Plan,
    Split, Teacher, baselines,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{changed, killed, refused};

const SIZE: usize = 6;

/// Outputs of tokens whose acceptance depends on the sign of a product of two numbers of their
/// state, which no linear map computes.
fn outputs(count: usize, seed: u64) -> Vec<HeadOutput> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut output = || {
        let mut output = HeadOutput::default();
        for _ in 0..40 {
            let state: Vec<f32> = (0..SIZE).map(|_| rng.random_range(-1.5..1.5)).collect();
            let p: f32 = if state[0] * state[1] > 0.0 { 0.97 } else { 0.3 };
            output.hidden.extend(state);
            output.acceptance.push(p);
            output.accepted.push(rng.random_bool(f64::from(p)));
        }
        output
    };
    (0..count).map(|_| output()).collect()
}

fn examples(seed: u64) -> HeadExamples {
    HeadExamples {
        size: SIZE,
        split: Split {
            training: outputs(60, seed),
            choice: outputs(12, seed + 1),
            held_out: outputs(30, seed + 2),
        },
    }
}

fn settings() -> HeadSettings {
    HeadSettings {
        depth: 2,
        reject_weight: 1.0,
        plan: Plan {
            epochs: 12,
            batch: 8,
            learning_rate: 0.01,
            patience: 12,
            seed: 4,
            ..HeadSettings::default().plan
        },
    }
}

#[test]
fn a_training_that_is_killed_after_every_epoch_ends_with_the_same_bits() {
    let examples = examples(1);
    let mut whole = HeadTraining::new(&examples, settings()).unwrap();
    while whole.epoch().unwrap().is_some() {}
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("checkpoint.safetensors");
    let begun = || HeadTraining::new(&examples, settings()).unwrap();
    let (part, killed) = killed(begun, &file);
    assert_eq!(whole.weights().unwrap(), part.weights().unwrap());
    assert_eq!((whole.history(), killed), (part.history(), 12));
    let other = changed(settings(), |settings| settings.reject_weight = 6.0);
    let refused = refused(HeadTraining::new(&examples, other), &file);
    assert!(refused.contains("other examples or settings"), "{refused}");
}

#[test]
fn what_can_be_learned_is_learned_and_pays() {
    let examples = examples(7);
    let settings = changed(settings(), |settings| {
        (settings.plan.epochs, settings.plan.patience) = (40, 40);
        settings.plan.learning_rate = 0.02;
    });
    let mut training = HeadTraining::new(&examples, settings).unwrap();
    while training.epoch().unwrap().is_some() {}
    let quality = training.held_out().unwrap();
    // The best possible: the mean of H(0.97) and H(0.3), 0.373 nats; a linear map has 0.65.
    assert!(quality.loss < 0.48, "{quality:?}");
    assert!(quality.calibration_error < 0.1, "{quality:?}");
    let weights = training.weights().unwrap();
    let choice = HeadChoice::best(&weights, &examples.split.choice, 0.2).unwrap();
    let held_out = &examples.split.held_out;
    let head = choice.predicted(&weights, held_out, 0.2).unwrap();
    let (fixed, oracle) = baselines(held_out, 0.2).unwrap();
    // The rule drafts two tokens at least, as those do.
    assert!(head.speedup > fixed[2].speedup, "{head:?} {fixed:?}");
    assert!(oracle.speedup > head.speedup && oracle.discard_rate == 0.0);
    assert_eq!(fixed[0].speedup, 1.0);
}

/// A greater weight of rejections lowers what is predicted.
#[test]
fn rejections_weigh_more_where_that_is_asked_for() {
    let examples = examples(3);
    let mean = |reject_weight: f64| {
        let settings = changed(settings(), |settings| {
            settings.reject_weight = reject_weight
        });
        let mut training = HeadTraining::new(&examples, settings).unwrap();
        while training.epoch().unwrap().is_some() {}
        let weights = training.weights().unwrap();
        let outputs = examples.split.held_out.iter();
        let all: Vec<f32> = outputs
            .flat_map(|output| output.tokens())
            .map(|(state, _)| weights.probability(state).unwrap())
            .collect();
        all.iter().sum::<f32>() / all.len() as f32
    };
    let (even, heavy) = (mean(1.0), mean(6.0));
    assert!(heavy < even - 0.1, "{heavy} {even}");
}

fn drafter() -> ToyScorer {
    ToyScorer::drafter("drafter", 16, 7, 1, 200)
}

fn records() -> Vec<Record> {
    (0..12).map(|i| super::record(&[1, 2, i])).collect()
}

/// The state of the last token of a text.
fn state(context: &[TokenId]) -> f32 {
    let want = Want::ARGMAX.with_last_hidden();
    let scores = drafter().score(context, &TokenTree::new(), want).unwrap();
    scores.hidden.of(HiddenLayer::Last).unwrap().row(0)[0]
}

/// Greedy: the drafter says one token after each prefix of the target's; its state is the one of
/// that token there.
#[test]
fn states_are_those_of_the_drafters_tokens_after_the_targets() {
    let records = records();
    let pass = HeadPass { mix: 0.15, seed: 3 };
    let found = pass
        .read(&mut drafter(), Teacher::Recorded, &records, || ())
        .unwrap();
    assert_eq!(found.size, 1);
    let mut wanted: Vec<HeadOutput> = Vec::new();
    for record in &records {
        let mut output = HeadOutput::default();
        let mut context = record.context.clone();
        for &token in &record.output {
            let said = drafter()
                .score(&context, &TokenTree::new(), Want::ARGMAX)
                .unwrap()
                .argmax[0];
            output.hidden.push(state(&[&context[..], &[said]].concat()));
            output.acceptance.push(f32::from(u8::from(said == token)));
            output.accepted.push(said == token);
            context.push(token);
        }
        wanted.push(output);
    }
    for output in found.split.choice.iter().chain(&found.split.held_out) {
        assert!(wanted.contains(output), "an output is not as it should be");
    }
    // Of those to train on, about 15% of the tokens are left out.
    let kept: usize = found
        .split
        .training
        .iter()
        .map(|o| o.acceptance.len())
        .sum();
    let all = found.split.training.len() * 100;
    assert!(
        kept > all * 8 / 10 && kept < all * 9 / 10,
        "{kept} of {all}"
    );
    let again = pass
        .read(&mut drafter(), Teacher::Recorded, &records, || ())
        .unwrap();
    assert_eq!(found, again);
}

/// Sampled: acceptance is min(1, p/q) of a token of q. On average it is 1 − TV(p, q).
#[test]
fn acceptance_by_a_target_is_that_of_speculative_sampling() {
    let records = records();
    let mut target = ToyScorer::target("target", 16, 7);
    let pass = HeadPass { mix: 0.0, seed: 3 };
    let found = pass
        .read(
            &mut drafter(),
            Teacher::Target(&mut target, Sampling::PLAIN),
            &records,
            || (),
        )
        .unwrap();
    let split = &found.split;
    let all: Vec<f32> = split
        .training
        .iter()
        .chain(&split.choice)
        .chain(&split.held_out)
        .flat_map(|output| output.acceptance.clone())
        .collect();
    let mean = all.iter().sum::<f32>() / all.len() as f32;
    let sampling = Sampling::new(1.0).unwrap();
    let (mut overlap, mut tokens) = (0.0, 0);
    for record in &records {
        for at in 0..record.output.len() {
            let context = [&record.context[..], &record.output[..at]].concat();
            let mut rows = [drafter(), ToyScorer::target("target", 16, 7)].map(|mut scorer| {
                let scores = scorer
                    .score(&context, &TokenTree::new(), Want::LOGITS)
                    .unwrap();
                sampling
                    .distribution(scores.logits.unwrap().row(0))
                    .unwrap()
            });
            rows.reverse();
            overlap += 1.0 - rows[0].total_variation(&rows[1]);
            tokens += 1;
        }
    }
    assert_eq!(all.len(), tokens);
    let wanted = overlap / tokens as f64;
    assert!((f64::from(mean) - wanted).abs() < 0.05, "{mean} {wanted}");
    assert!(all.iter().any(|&p| p > 0.0 && p < 1.0));
}

/// What a sampled recording with probabilities says: those of the target after each prefix.
fn with_probabilities(record: &Record, sampling: Sampling, most: usize) -> Record {
    let top = (0..record.output.len()).map(|at| {
        let context = [&record.context[..], &record.output[..at]].concat();
        let scores = ToyScorer::target("target", 16, 7)
            .score(&context, &TokenTree::new(), Want::LOGITS)
            .unwrap();
        let p = sampling
            .distribution(scores.logits.unwrap().row(0))
            .unwrap();
        let mut row: Vec<_> = (0..16).map(|id| (id, p.probability(id) as f32)).collect();
        row.retain(|&(_, p)| p > 0.0);
        row.sort_by(|a, b| b.1.total_cmp(&a.1));
        row.truncate(most);
        row
    });
    Record {
        top: Some(top.collect()),
        ..record.clone()
    }
}

/// Recorded probabilities teach what the target itself does, and parts of distributions nothing.
#[test]
fn recorded_probabilities_are_those_of_the_target() {
    let sampling = Sampling::new(1.3).unwrap().with_top_k(5).unwrap();
    let pass = HeadPass { mix: 0.15, seed: 3 };
    let records = |most| -> Vec<Record> {
        let records = records();
        let all = records
            .iter()
            .map(|record| with_probabilities(record, sampling, most));
        all.collect()
    };
    let whole = records(5);
    let recorded = pass
        .read(
            &mut drafter(),
            Teacher::Probabilities(sampling),
            &whole,
            || (),
        )
        .unwrap();
    let mut target = ToyScorer::target("target", 16, 7);
    let live = Teacher::Target(&mut target, sampling);
    let live = pass.read(&mut drafter(), live, &whole, || ()).unwrap();
    let parts = |read: &HeadExamples| {
        let split = read.split.clone();
        [split.training, split.choice, split.held_out].concat()
    };
    for (recorded, live) in parts(&recorded).iter().zip(parts(&live)) {
        assert_eq!(recorded.hidden, live.hidden);
        let pairs = recorded.acceptance.iter().zip(&live.acceptance);
        assert!(pairs.clone().all(|(a, b)| (a - b).abs() < 1e-5));
    }
    let short = records(2);
    let teacher = Teacher::Probabilities(sampling);
    let refused = pass
        .read(&mut drafter(), teacher, &short, || ())
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoProbabilities);
}

#[test]
fn what_cannot_be_trained_is_refused_by_name() {
    let mut same = examples(2);
    for output in &mut same.split.training {
        output.acceptance.iter_mut().for_each(|p| *p = 1.0);
    }
    let refused = HeadTraining::new(&same, settings())
        .map(|_| ())
        .unwrap_err();
    assert!(refused.to_string().contains("are accepted"), "{refused}");
    let examples = examples(2);
    let changes: [fn(&mut HeadSettings); 3] = [
        |settings| settings.depth = 99,
        |settings| settings.plan.batch = 0,
        |settings| settings.reject_weight = -1.0,
    ];
    for change in changes {
        let bad = changed(settings(), change);
        let refused = HeadTraining::new(&examples, bad).map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Setting, "{refused}");
    }
    let records = records();
    for (mix, count, part) in [(1.0, 12, "share"), (0.15, 9, "too few")] {
        let pass = HeadPass { mix, seed: 0 };
        let read = pass.read(&mut drafter(), Teacher::Recorded, &records[..count], || ());
        assert!(read.unwrap_err().to_string().contains(part));
    }
}
