//! Heads that draft: that they learn, resumption to the same bits, and that what was trained is
//! what drafts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::Tensor;
use cascade_core::{Prompt, TokenId};
use cascade_engine::{Cascade, Convention, KMatrix, Options};
use cascade_models::{
    DType, Device, HeadSession, LoadOptions, Model, ModelSource, WeightSource, load_head, locate,
};
use cascade_traces::trace::{Record, Recorder, Subject};
use cascade_traces::train::{
    DraftAcceptance, DrafterKind, DrafterSettings, DrafterTexts, DrafterTraining, ErrorKind,
};

use super::{changed, killed, refused};

/// Tokens of a text's output.
const TOKENS: usize = 30;

struct Weights(HashMap<String, Tensor>);

impl WeightSource for Weights {
    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn values(&self, name: &str, _: &[usize]) -> cascade_models::Result<Vec<f32>> {
        Ok(self.0[name].flatten_all().unwrap().to_vec1().unwrap())
    }
}

fn project(path: &str) -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR");
    let here = here.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR"));
    Path::new(here).join("../../..").join(path)
}

/// A tiny random model, with heads of queries that share keys and values.
fn target(name: &str) -> Arc<Model> {
    let folder = project("tests/goldens/models").join(name);
    let config = std::fs::read(folder.join("config.json")).unwrap();
    let config = serde_json::from_slice(&config).unwrap();
    let weights = folder.join("model.safetensors");
    let weights = candle_core::safetensors::load(weights, &candle_core::Device::Cpu).unwrap();
    let model = Model::build(config, &Weights(weights), &Device::Cpu, DType::F32);
    Arc::new(model.unwrap())
}

fn prompt(target: &Model, number: u32) -> Prompt {
    let tokens = vec![1, 3 + number % 5, 9 + number % 7, 4];
    Prompt::new(target.info().architecture, tokens)
}

fn options() -> Options {
    Options::default().with_max_new_tokens(TOKENS)
}

fn records(target: &Arc<Model>) -> Vec<Record> {
    let record = |number: u32| {
        let session = target.session();
        let mut recorder = Recorder::new("target", session, [], None, &options()).unwrap();
        let subject = Subject::new(number.to_string());
        let prompt = prompt(target, number);
        recorder.record(subject, &prompt, |_| {}).unwrap().0
    };
    (0..24).map(record).collect()
}

fn texts(target: &Arc<Model>, records: &[Record], folder: &Path) -> DrafterTexts {
    let start = target.head_basis().unwrap().start;
    DrafterTexts::record(&mut target.session(), start, records, folder, 5, || ()).unwrap()
}

fn settings(kind: DrafterKind) -> DrafterSettings {
    changed(DrafterSettings::new(kind), |settings| {
        (settings.plan.epochs, settings.plan.patience) = (6, 6);
        (settings.plan.batch, settings.plan.learning_rate) = (4, 0.01);
    })
}

const KINDS: [DrafterKind; 2] = [
    DrafterKind::Eagle {
        inner: Some(24),
        steps: 2,
        noise: 0.05,
    },
    DrafterKind::Medusa { heads: 4 },
];

#[test]
fn a_head_is_learned_and_a_killed_training_ends_with_the_same_bits() {
    let target = target("tiny-llama-gqa");
    let basis = target.head_basis().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let texts = texts(&target, &records(&target), folder.path());
    for kind in KINDS {
        let mut whole = DrafterTraining::new(&texts, &basis, settings(kind)).unwrap();
        while whole.epoch().unwrap().is_some() {}
        let history = whole.history();
        let losses = [history[0], history[5]].map(|epoch| epoch.choice_loss);
        assert!(losses[1] < 0.9 * losses[0], "{kind:?}: {losses:?}");
        let file = folder.path().join(format!("{}.safetensors", kind.name()));
        let begun = || DrafterTraining::new(&texts, &basis, settings(kind)).unwrap();
        let (part, _) = killed(begun, &file);
        assert_eq!(whole.files().unwrap(), part.files().unwrap());
        assert_eq!(history, part.history());
        let other = changed(settings(kind), |settings| settings.plan.decay = 0.0);
        let refused = refused(DrafterTraining::new(&texts, &basis, other), &file);
        assert!(refused.contains("other examples or settings"), "{refused}");
    }
}

/// A session of a head of these files, over `target`.
fn session(training: &DrafterTraining<'_>, target: &Model, folder: &Path) -> HeadSession {
    let folder = folder.join(training.files().unwrap()[1].name);
    std::fs::create_dir(&folder).unwrap();
    for file in training.files().unwrap() {
        std::fs::write(folder.join(file.name), file.bytes).unwrap();
    }
    let options = LoadOptions {
        progress: false,
        // Heads have none of their own.
        tokenizer: Some(ModelSource::Folder(project(
            "crates/cascade-demo/models/demo-llama-small",
        ))),
        ..LoadOptions::default()
    };
    let files = locate(&ModelSource::Folder(folder), &options).unwrap();
    Arc::new(load_head(files, target, &options).unwrap()).session()
}

#[test]
fn what_was_trained_is_what_drafts() {
    drafts_as_predicted("tiny-llama-gqa");
}

/// The first drafter's logits are scaled behind the head.
#[test]
fn what_was_trained_beside_an_encoder_is_what_drafts() {
    drafts_as_predicted("tiny-t5-v1.0");
    drafts_as_predicted("tiny-t5-gelu");
}

/// Chains of 3 tokens: the target's text, and the forwards that were predicted for the held-out
/// texts.
fn drafts_as_predicted(target: &str) {
    let target = self::target(target);
    let basis = target.head_basis().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let records = records(&target);
    let texts = texts(&target, &records, folder.path());
    for kind in KINDS {
        let mut training = DrafterTraining::new(&texts, &basis, settings(kind)).unwrap();
        while training.epoch().unwrap().is_some() {}
        let predicted: DraftAcceptance = training.held_out(3).unwrap();
        let k = KMatrix::new(vec![vec![3]], Convention::Added).unwrap();
        let mut cascade = Cascade::builder()
            .target("target", target.session())
            .neural("head", session(&training, &target, folder.path()))
            .k_matrix(k)
            .build()
            .unwrap();
        let (mut steps, mut accepted) = (0, 0);
        for text in &texts.split.held_out {
            let said = &text.tokens[text.prompt..];
            let is_of = |record: &&Record| {
                let whole = [&record.context[..], &record.output].concat();
                text.tokens.ends_with(&whole)
            };
            let prompt = records.iter().find(is_of).unwrap().prompt();
            let output = cascade.generate_tokens(&prompt, &options()).unwrap();
            assert_eq!(output.tokens, said, "{kind:?}");
            steps += output.steps.len();
            accepted += output.num_accepted_draft_tokens();
        }
        assert_eq!(predicted.forwards[3], steps, "{kind:?}");
        assert!(accepted > 0, "{kind:?} drafts nothing that is right");
        assert_eq!(predicted.forwards[0], predicted.tokens);
    }
}

#[test]
fn states_are_recorded_once_and_are_of_one_target() {
    let first = target("tiny-llama-gqa");
    let folder = tempfile::tempdir().unwrap();
    let records = records(&first);
    let whole = texts(&first, &records, folder.path());
    // An interrupted recording has fewer files, or none: here, none is computed again.
    let file = folder.path().join("states-00000.safetensors");
    let written = std::fs::metadata(&file).unwrap().modified().unwrap();
    let again = texts(&first, &records, folder.path());
    assert_eq!(
        written,
        std::fs::metadata(&file).unwrap().modified().unwrap()
    );
    let numbers = |texts: &DrafterTexts| -> Vec<f32> {
        let all = texts.split.training.iter();
        all.flat_map(|text| text.states.flatten_all().unwrap().to_vec1().unwrap())
            .collect()
    };
    assert_eq!(numbers(&whole), numbers(&again));
    let tokens: Vec<TokenId> = whole.split.choice[0].tokens.clone();
    assert!(
        records
            .iter()
            .any(|record| tokens.ends_with(&record.output))
    );
    let refused = |records: &[Record], model: &Arc<Model>| {
        let (session, folder) = (&mut model.session(), folder.path());
        let found = DrafterTexts::record(session, None, records, folder, 5, || ());
        found.map(|_| ()).unwrap_err()
    };
    let other = refused(&records[1..], &first).to_string();
    assert!(
        other.contains("other texts, or of another target"),
        "{other}"
    );
    let other = target("tiny-llama-mha");
    let other = refused(&records, &other).to_string();
    assert!(
        other.contains("other texts, or of another target"),
        "{other}"
    );
    assert_eq!(refused(&[], &first).kind(), ErrorKind::TooFew);
}

#[test]
fn what_cannot_be_trained_is_refused_by_name() {
    let target = target("tiny-llama-gqa");
    let basis = target.head_basis().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let texts = texts(&target, &records(&target), folder.path());
    let none = Path::new("none");
    let eagle = |steps, noise| DrafterKind::Eagle {
        inner: None,
        steps,
        noise,
    };
    for (kind, word) in [
        (eagle(0, 0.1), "number of steps"),
        (eagle(1, -1.0), "noise"),
        (DrafterKind::Medusa { heads: 17 }, "number of heads"),
    ] {
        let refused = refused(DrafterTraining::new(&texts, &basis, settings(kind)), none);
        assert!(refused.contains(word), "{refused}");
    }
    let mut wide = basis.clone();
    wide.size = 7;
    let eagle = DrafterTraining::new(&texts, &wide, settings(DrafterKind::EAGLE));
    let refused = refused(eagle, none);
    assert!(refused.contains("width"), "{refused}");
}
