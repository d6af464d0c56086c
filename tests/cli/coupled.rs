//! Random sampled generations of real models against plain decoding of the same seed, token by
//! token. The engine's own tests do the same with toys.
//!
//! `CASCADE_TEST_GENERATIONS` is the number for each of the three groups of models,
//! `CASCADE_TEST_SEED` another choice of settings. So 5,100 generations:
//!
//! ```sh
//! CASCADE_TEST_GENERATIONS=1700 cargo nextest run --cargo-profile ci --test cli \
//!     --run-ignored only -E 'test(coupled::)'
//! ```

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{json, Value};
use tempfile::TempDir;

use crate::common::stdout;
use crate::{lookalikes, pairs};

/// Generations of a demo family, and of all foreign models, which are smaller, without the
/// variable.
const GENERATIONS: (usize, usize) = (30, 200);

/// Generations of one configuration, each with settings of its own.
const EACH: usize = 10;

/// Types of weights, and of keys and values.
const TYPES: [&str; 5] = ["f32", "f16", "bf16", "q8_0", "q4_0"];
const CACHE_TYPES: [&str; 3] = ["f32", "bf16", "f16"];

/// Models over one tokenizer.
pub(crate) struct Group {
    target: String,
    /// Largest first.
    neural: Vec<String>,
    /// Statistical drafters, as lines of a configuration.
    statistical: Vec<&'static str>,
    /// How prompts are chosen.
    prompts: Vec<String>,
}

impl Group {
    pub(crate) fn demo(family: &str) -> Self {
        let model = |name| format!("embedded:demo-{family}-{name}");
        Self {
            target: model("target"),
            neural: vec![model("base"), model("small")],
            statistical: vec![
                "max_gram: { bigram: embedded:demo, occurrence: latest }",
                "max_gram_tree: { table: embedded:demo }",
                "max_gram: { branches: 3, width: 2, bigram: embedded:demo }",
                "prompt_lookup: { max_ngram: 3 }",
                "bigram: { table: embedded:demo }",
            ],
            prompts: ["--dataset", "problems", "--sample", "100"]
                .map(str::to_owned)
                .to_vec(),
        }
    }

    fn foreign(target: &str, neural: &[&str], prompts: &Path) -> Self {
        Self {
            target: target.to_owned(),
            neural: neural.iter().map(|&model| model.to_owned()).collect(),
            statistical: vec![
                "max_gram: {}",
                "max_gram_tree: {}",
                "prompt_lookup: { max_ngram: 2, branches: 3 }",
            ],
            prompts: vec!["--prompts".to_owned(), prompts.display().to_string()],
        }
    }

    /// A configuration of these models with random drafters and types.
    pub(crate) fn random(&self, rng: &mut ChaCha8Rng) -> String {
        let one = |from: &[&'static str], rng: &mut ChaCha8Rng| *from.choose(rng).unwrap();
        let model = |name: &str, rng: &mut ChaCha8Rng| {
            let (dtype, cache) = (one(&TYPES, rng), one(&CACHE_TYPES, rng));
            format!("model: {name}, dtype: {dtype}, cache_dtype: {cache}")
        };
        let mut yaml = format!("target: {{ {} }}\ndrafters:\n", model(&self.target, rng));
        let some = |all: usize, rng: &mut ChaCha8Rng| {
            let count = rng.random_range(0..=all);
            let mut chosen = rand::seq::index::sample(rng, all, count).into_vec();
            chosen.sort_unstable();
            chosen
        };
        let (mut neural, statistical) = (
            some(self.neural.len(), rng),
            some(self.statistical.len(), rng),
        );
        if neural.is_empty() && statistical.is_empty() {
            neural.push(0);
        }
        for index in neural {
            let model = model(&self.neural[index], rng);
            writeln!(yaml, "  - {{ {model} }}").unwrap();
        }
        for index in statistical {
            writeln!(yaml, "  - {}", self.statistical[index]).unwrap();
        }
        yaml
    }

    /// Compares `count` samples; `seed` is where settings, prompts and noise come from.
    fn compare(&self, count: usize, seed: u64, hub: &Path) {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("random.yaml");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut compared = 0;
        while compared < count {
            let each = EACH.min(count - compared);
            let yaml = self.random(&mut rng);
            fs::write(&file, &yaml).unwrap();
            let report = self.check(&file, each, rng.random_range(0..1 << 40), hub);
            assert_eq!(report["lossless"], true, "{yaml}{report}");
            assert_eq!(report["equal_to_plain"], each, "{yaml}{report}");
            assert_eq!(report["tokens"], report["agreements"], "{yaml}{report}");
            compared += each;
        }
    }

    fn check(&self, config: &Path, generations: usize, seed: u64, hub: &Path) -> Value {
        let seed = seed.to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cascade"));
        command.args(["check-lossless", "--device", "cpu", "--json", "--config"]);
        command.arg(config).args(&self.prompts);
        if self.prompts[0] == "--dataset" {
            command.args(["--sample-seed", &seed]);
        }
        command.args([
            "--temperature",
            "1",
            "--seed",
            &seed,
            "--random-settings",
            &seed,
        ]);
        command.args(["--generations", &generations.to_string()]);
        let offline = command.env("HF_HUB_CACHE", hub).env("HF_HUB_OFFLINE", "1");
        let output = offline.stdin(Stdio::null()).output().unwrap();
        serde_json::from_str(&stdout(&output)).unwrap()
    }
}

/// A number of the environment.
fn asked(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name}: {value} is not a number")),
    )
}

pub(crate) fn generations(otherwise: usize) -> usize {
    asked("CASCADE_TEST_GENERATIONS").map_or(otherwise, |n| n as usize)
}

pub(crate) fn seed() -> u64 {
    asked("CASCADE_TEST_SEED").unwrap_or(35)
}

#[test]
#[ignore = "half a minute in release: run with --run-ignored all"]
fn samples_of_the_t5_demo_equal_plain_decoding() {
    Group::demo("t5").compare(
        generations(GENERATIONS.0),
        seed(),
        Path::new("/nonexistent"),
    );
}

#[test]
#[ignore = "half a minute in release: run with --run-ignored all"]
fn samples_of_the_llama_demo_equal_plain_decoding() {
    Group::demo("llama").compare(
        generations(GENERATIONS.0),
        seed() + 1,
        Path::new("/nonexistent"),
    );
}

/// Models with other layers, tokenizers and shapes than the demo's, and with random weights, which
/// agree with each other less: look-alikes of Vicuna and FLAN-T5, and Qwen2 with a drafter that has
/// rows for other tokens, both ways.
#[test]
#[ignore = "half a minute in release: run with --run-ignored all"]
fn samples_of_foreign_models_equal_plain_decoding() {
    let (hub, pair) = (lookalikes::cache(), pairs::pair());
    let prompts = pair.folder.path().join("prompts.jsonl");
    let texts = [
        "the tool in the",
        "How much is 1 apple?",
        "a b a b",
        "tool",
        "7 7 7 8",
    ];
    let lines = texts.map(|text| format!("{}\n", json!({ "prompt": text })));
    fs::write(&prompts, lines.concat()).unwrap();
    let (large, small) = (&*pair.large, &*pair.small);
    let groups = [
        (large, &[small][..]),
        (small, &[large]),
        ("lmsys/vicuna-7b-v1.3", &["double7/vicuna-68m"]),
        (
            "google/flan-t5-xxl",
            &["google/flan-t5-base", "google/flan-t5-small"],
        ),
    ];
    for (number, (target, neural)) in groups.into_iter().enumerate() {
        let group = Group::foreign(target, neural, &prompts);
        let count = (generations(GENERATIONS.1) + number) / groups.len();
        group.compare(count, seed() + 2 + number as u64, hub.path());
    }
}
