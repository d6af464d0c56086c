//! Training: examples, resumption to the same bits, quality and choice.

mod drafter;
mod head;

use std::path::Path;

use cascade_core::{Prompt, toy::ToyScorer};
use cascade_engine::{CLASSIFIER_FEATURES, Cascade, Options};
use cascade_traces::trace::Record;
use cascade_traces::train::{
    Choice, ErrorKind, Example, Fit, Network, Output, Quality, Result, Settings, Split, Training,
    baselines, examples,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::toy_trace;

/// Outputs whose tokens are accepted with a probability that their first feature is.
fn outputs(count: usize, seed: u64) -> Vec<Output> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut output = || {
        let tokens = (0..40).map(|position| {
            let sure = rng.random_bool(0.7);
            let p: f32 = if sure { 0.97 } else { 0.3 };
            let mut features = [0.0; CLASSIFIER_FEATURES];
            features[0] = p;
            features[1] = (1.0 - p) / 2.0;
            features[CLASSIFIER_FEATURES - 2] = -p.ln();
            features[CLASSIFIER_FEATURES - 1] = position as f32;
            Example {
                features,
                accepted: rng.random_bool(f64::from(p)),
            }
        });
        Output(tokens.collect())
    };
    (0..count).map(|_| output()).collect()
}

fn settings() -> Settings {
    changed(Settings::default(), |settings| {
        settings.units = 8;
        (settings.plan.epochs, settings.plan.patience) = (12, 12);
        settings.plan.learning_rate = 0.01;
    })
}

/// Settings with a change.
fn changed<S>(mut settings: S, change: impl FnOnce(&mut S)) -> S {
    change(&mut settings);
    settings
}

/// A training that is killed after every epoch, and resumed from a file to its end; how often.
fn killed<N: Network>(begun: impl Fn() -> Fit<N>, file: &Path) -> (Fit<N>, usize) {
    for killed in 0.. {
        let mut part = begun().resumed(file).unwrap();
        if part.epoch().unwrap().is_none() {
            return (part, killed);
        }
        part.save(file).unwrap();
        // What an epoch that was not saved has learned is lost with it.
        part.epoch().unwrap();
    }
    unreachable!("a training ends")
}

/// Why a training is not resumed from a file.
fn refused<N: Network>(begun: Result<Fit<N>>, file: &Path) -> String {
    let resumed = begun.and_then(|begun| begun.resumed(file));
    resumed.map(|_| ()).unwrap_err().to_string()
}

fn record(prompt: &[u32]) -> Record {
    let options = Options::default().with_max_new_tokens(100);
    let target = ToyScorer::target("target", 16, 7);
    toy_trace(&target, prompt, &options).records[0].clone()
}

#[test]
fn examples_are_what_the_drafter_says_after_each_prefix() {
    let record = record(&[1, 2, 3]);
    let mut drafter = ToyScorer::drafter("drafter", 16, 7, 1, 200);
    let Output(examples) = examples(&mut drafter, &record).unwrap();
    assert_eq!(examples.len(), record.output.len());
    // The same, one token at a time, by a cascade without drafters.
    let mut alone = Cascade::builder()
        .target("drafter", ToyScorer::drafter("drafter", 16, 7, 1, 200))
        .build()
        .unwrap();
    for (i, example) in examples.iter().enumerate() {
        let prompt = Prompt {
            context: [&record.context[..], &record.output[..i]].concat(),
            ..Prompt::default()
        };
        let options = Options::default().with_max_new_tokens(1);
        let said = alone.generate_tokens(&prompt, &options).unwrap().tokens[0];
        assert_eq!(example.accepted, said == record.output[i], "token {i}");
        assert_eq!(example.features[CLASSIFIER_FEATURES - 1], i as f32);
        let top = &example.features[..CLASSIFIER_FEATURES - 2];
        assert!(top.windows(2).all(|pair| pair[0] >= pair[1]) && top[0] > 0.0);
    }
    let accepted = examples.iter().filter(|example| example.accepted).count();
    assert!(accepted > 50 && accepted < 100, "{accepted}");
}

#[test]
fn no_output_is_in_two_parts() {
    let mut all = outputs(40, 1);
    for (i, output) in all.iter_mut().enumerate() {
        output.0[0].features[2] = i as f32;
    }
    let split = Split::new(all, 5).unwrap();
    let parts = [&split.training, &split.choice, &split.held_out];
    assert_eq!(parts.map(|part| part.len()), [28, 6, 6]);
    let mut seen: Vec<usize> = parts
        .into_iter()
        .flatten()
        .map(|output| output.0[0].features[2] as usize)
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..40).collect::<Vec<_>>());
    let few = Split::new(outputs(9, 1), 0).map(|_| ()).unwrap_err();
    assert_eq!(few.kind(), ErrorKind::TooFew);
    assert!(few.to_string().starts_with("9 recorded outputs"), "{few}");
}

#[test]
fn a_training_that_is_killed_after_every_epoch_ends_with_the_same_bits() {
    let split = Split::new(outputs(40, 2), 3).unwrap();
    let mut whole = Training::new(&split, settings()).unwrap();
    while whole.epoch().unwrap().is_some() {}
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("checkpoint.safetensors");
    let begun = || Training::new(&split, settings()).unwrap();
    let (part, killed) = killed(begun, &file);
    let bits = |w: &[f32]| w.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let (a, b) = (whole.weights().unwrap(), part.weights().unwrap());
    assert_eq!(bits(&a.hidden), bits(&b.hidden));
    assert_eq!(bits(&a.output), bits(&b.output));
    assert_eq!((a, whole.history()), (b, part.history()));
    assert_eq!(killed, 12);
}

#[test]
fn a_checkpoint_of_another_training_is_refused() {
    let split = Split::new(outputs(40, 2), 3).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("checkpoint.safetensors");
    let mut training = Training::new(&split, settings()).unwrap();
    training.epoch().unwrap();
    training.save(&file).unwrap();
    let refused = |split: &Split, settings| refused(Training::new(split, settings), &file);
    let other = Split::new(outputs(40, 4), 3).unwrap();
    assert!(refused(&other, settings()).contains("other examples or settings"));
    let slower = changed(settings(), |settings| settings.plan.learning_rate = 0.001);
    assert!(refused(&split, slower).contains("other examples or settings"));
    let whole = std::fs::read(&file).unwrap();
    for cut in [0, 7, 100, whole.len() - 1] {
        std::fs::write(&file, &whole[..cut]).unwrap();
        assert!(
            refused(&split, settings()).contains("checkpoint.safetensors"),
            "{cut}"
        );
    }
}

#[test]
fn what_can_be_learned_is_learned_and_pays() {
    let split = Split::new(outputs(200, 6), 1).unwrap();
    let mut training = Training::new(&split, settings()).unwrap();
    let first = training.epoch().unwrap().unwrap();
    while training.epoch().unwrap().is_some() {}
    let last = training.history();
    assert!(last[last.len() - 1].training_loss < first.training_loss);
    let weights = training.weights().unwrap();
    let quality = Quality::of(&weights, &split.held_out);
    // The best possible: 0.7·H(0.97) + 0.3·H(0.3) = 0.277 nats.
    assert!(quality.loss < 0.33, "{quality:?}");
    assert!(
        quality.f1 > 0.9 && quality.calibration_error < 0.05,
        "{quality:?}"
    );
    let choice = Choice::best(&weights, &split.choice, 0.2).unwrap();
    let learned = choice.predicted(&weights, &split.held_out, 0.2).unwrap();
    let (fixed, oracle) = baselines(&split.held_out, 0.2).unwrap();
    let best = fixed.iter().map(|p| p.speedup).fold(0.0, f64::max);
    assert!(learned.speedup > best, "{learned:?} {best}");
    assert_eq!((fixed[0].speedup, fixed[0].discard_rate), (1.0, 0.0));
    assert!(oracle.speedup > learned.speedup && oracle.discard_rate == 0.0);
}

#[test]
fn a_training_stops_early_where_nothing_is_gained() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut noise = outputs(40, 2);
    for example in noise.iter_mut().flat_map(|output| &mut output.0) {
        example.accepted = rng.random_bool(0.5);
    }
    let split = Split::new(noise, 3).unwrap();
    let settings = changed(settings(), |settings| {
        (settings.plan.epochs, settings.plan.patience) = (200, 3);
        settings.plan.learning_rate = 0.05;
    });
    let mut training = Training::new(&split, settings).unwrap();
    while training.epoch().unwrap().is_some() {}
    assert!(training.epochs() < 100, "{}", training.epochs());
    assert_eq!(training.epochs(), training.best_epoch() + 3);
}

#[test]
fn what_cannot_be_trained_is_refused_by_name() {
    let mut same = outputs(20, 2);
    for example in same.iter_mut().flat_map(|output| &mut output.0) {
        example.accepted = true;
    }
    let split = Split::new(same, 3).unwrap();
    let refused = Training::new(&split, settings()).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("are accepted"), "{refused}");
    let split = Split::new(outputs(20, 2), 3).unwrap();
    let changes: [fn(&mut Settings); 4] = [
        |settings| settings.units = 0,
        |settings| settings.plan.epochs = 0,
        |settings| settings.plan.learning_rate = f64::NAN,
        |settings| settings.reject_weight = 0.0,
    ];
    for change in changes {
        let bad = changed(settings(), change);
        let refused = Training::new(&split, bad).map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Setting, "{refused}");
    }
    assert!(baselines(&split.choice, -1.0).is_err());
}
