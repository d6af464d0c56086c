//! A drafter and a target over one tokenizer whose embeddings have other numbers of rows, as
//! Qwen2.5's small and large models have, and pairs whose added tokens are called otherwise.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::common::{cascade, error, project, stdout};
use crate::line::{line, words};

/// Columns of the embedding.
const SIZE: usize = 24;
/// Tokens of the tokenizer.
const TOKENS: usize = 264;

/// The tensors of a file: names, shapes and values.
type Tensors = Vec<(String, Vec<usize>, Vec<f32>)>;

fn read_tensors(path: &Path) -> Tensors {
    let bytes = fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Map<String, Value> = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let entries = header
        .into_iter()
        .filter(|(name, _)| name != "__metadata__");
    let tensors = entries.map(|(name, entry)| {
        assert_eq!(entry["dtype"], "F32");
        let at = |i: usize| 8 + length + entry["data_offsets"][i].as_u64().unwrap() as usize;
        let values = bytes[at(0)..at(1)]
            .chunks_exact(4)
            .map(|value| f32::from_le_bytes(value.try_into().unwrap()));
        let shape = serde_json::from_value(entry["shape"].clone()).unwrap();
        (name, shape, values.collect())
    });
    tensors.collect()
}

fn write_tensors(path: &Path, tensors: &Tensors) {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, shape, values) in tensors {
        let start = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(name.clone(), entry);
    }
    let header = Value::Object(header).to_string().into_bytes();
    let length = (header.len() as u64).to_le_bytes();
    fs::write(path, [&length[..], &header, &data].concat()).unwrap();
}

/// Numbers from -1 to 1 by their place.
fn noise(place: usize) -> f32 {
    let mixed = (place as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

/// A model of `rows` rows, of which those of tokens are the same in each; those behind the last
/// token are its best guess at times. `shift` moves the layers, so that drafts are not all right.
fn write_model(folder: &Path, rows: usize, shift: f32, tokenizer: &Value) -> String {
    let original = PathBuf::from(project("tests/goldens/models/tiny-qwen2"));
    fs::create_dir_all(folder).unwrap();
    let config = fs::read(original.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    config["vocab_size"] = json!(rows);
    config["max_position_embeddings"] = json!(512);
    config["eos_token_id"] = json!(263);
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let mut tensors = read_tensors(&original.join("model.safetensors"));
    for (name, shape, values) in &mut tensors {
        if name.contains("embed_tokens") {
            *shape = vec![rows, SIZE];
            let scale = |row| if row < TOKENS { 0.7 } else { 1.1 };
            let of = |i| scale(i / SIZE) * noise(i);
            *values = (0..rows * SIZE).map(of).collect();
        } else {
            for (i, value) in values.iter_mut().enumerate() {
                *value += shift * noise(i + 7);
            }
        }
    }
    write_tensors(&folder.join("model.safetensors"), &tensors);
    fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    folder.display().to_string()
}

fn tokenizer() -> Value {
    let file = project("tests/goldens/added-tokens/byte-level.json");
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// A large and a small model, each a folder within one.
pub(crate) struct Pair {
    pub(crate) folder: TempDir,
    pub(crate) large: String,
    pub(crate) small: String,
}

pub(crate) fn pair() -> Pair {
    let folder = TempDir::new().unwrap();
    let model =
        |name: &str, rows, shift| write_model(&folder.path().join(name), rows, shift, &tokenizer());
    let (large, small) = (model("large", 304, 0.0), model("small", 288, 0.02));
    Pair {
        folder,
        large,
        small,
    }
}

const PROMPT: [&str; 6] = [
    "--prompt",
    "the tool in the",
    "--max-new-tokens",
    "48",
    "--json",
    "--device",
];

fn record(args: &[&str]) -> Value {
    let output = cascade(&[&["run"], args, &PROMPT, &["cpu"]].concat());
    let output = stdout(&output);
    serde_json::from_str(output.lines().next().unwrap()).unwrap()
}

fn drafted(record: &Value) -> u64 {
    record["num_draft_tokens"].as_u64().unwrap()
}

#[test]
fn drafters_with_other_rows_change_no_answer() {
    let pair = pair();
    for (target, drafter) in [(&pair.large, &pair.small), (&pair.small, &pair.large)] {
        let plain = record(&["-m", target, "--no-speculation"]);
        for how in [
            &[][..],
            &["-k", "4"],
            &["-k", "3,5", "--max-gram"],
            &["--tree"],
            &["--tree", "-k", "3,8"],
            &["--lenience", "3", "--max-gram", "-k", "2,2"],
            &["--dtype", "q8_0", "-k", "4"],
        ] {
            let args = [&["-m", target, "-d", drafter], how].concat();
            let found = record(&args);
            // What pays is drafted where nothing is said, and may be nothing.
            assert!(drafted(&found) > 0 || !how.contains(&"-k"), "{how:?}");
            let expected = if how.contains(&"--dtype") {
                record(&["-m", target, "--no-speculation", "--dtype", "q8_0"])["token_ids"].clone()
            } else {
                plain["token_ids"].clone()
            };
            assert_eq!(found["token_ids"], expected, "{how:?}");
        }
    }
}

#[test]
fn files_configurations_and_recordings_take_them_too() {
    let pair = pair();
    let at = |name: &str| pair.folder.path().join(name).display().to_string();
    let file = |name: &str, from: &str| {
        let to = at(name);
        stdout(&cascade(&[
            "quantize", from, "--dtype", "f32", "--out", &to,
        ]));
        to
    };
    let (large, small) = (
        file("large.gguf", &pair.large),
        file("small.gguf", &pair.small),
    );
    let plain = record(&["-m", &large, "--no-speculation"]);
    let both = record(&["-m", &large, "-d", &small, "-k", "4"]);
    assert_eq!(both["token_ids"], plain["token_ids"]);
    assert!(drafted(&both) > 0);

    let config = at("pair.yaml");
    let init = words(
        "config init -m {} -d {} --max-gram -k 3,4",
        &[&pair.large, &pair.small],
    );
    fs::write(&config, stdout(&cascade(&init))).unwrap();
    stdout(&cascade(&["config", "check", "--load", &config]));
    let trace = at("trace.jsonl");
    let prompts = at("prompts.jsonl");
    fs::write(
        &prompts,
        "{\"prompt\": \"the tool\"}\n{\"prompt\": \"in the\"}\n",
    )
    .unwrap();
    let recorded = words(
        "trace record --config {} --prompts {} --max-new-tokens 24 --output {} --device \
        cpu",
        &[&config, &prompts, &trace],
    );
    stdout(&cascade(&recorded));
    let replayed = stdout(&cascade(&[
        "replay", "--config", &config, "--trace", &trace, "--json",
    ]));
    assert!(replayed.contains("mean_acceptance_length"), "{replayed}");
}

/// The tokenizer with another name of its only special token, and one more behind it.
fn renamed() -> Value {
    let mut json = tokenizer();
    json["added_tokens"][0]["content"] = json!("<|finish|>");
    let mut further = json["added_tokens"][0].clone();
    further["id"] = json!(264);
    further["content"] = json!("<think>");
    json["added_tokens"].as_array_mut().unwrap().push(further);
    json
}

/// An experiment of one drafter, whose tables use costs of forwards.
const EXPERIMENT: &str = "
title: A pair
about: Two models over one tokenizer.
source: none
kind: cascades
models: { demo: demo-llama, paper: vicuna-7b }
datasets: [problems]
samples: 2
max_new_tokens: 8
metrics: [measured]
rows:
  - algorithm: Autoregressive
  - algorithm: Speculative decoding
    drafters: [small]
    grid: { k11: [3] }
";

#[test]
fn tuning_and_experiments_take_them_too() {
    let pair = pair();
    let at = |name: &str| pair.folder.path().join(name).display().to_string();
    let run = |line: &str| stdout(&cascade(&line.split(' ').collect::<Vec<_>>()));
    let named = write_model(&pair.folder.path().join("renamed"), 280, 0.02, &renamed());
    let prompts = at("prompts.jsonl");
    let lines = "{\"prompt\": \"the tool\"}\n{\"prompt\": \"in the\"}\n";
    fs::write(&prompts, lines).unwrap();
    let experiment = at("experiment.yaml");
    fs::write(&experiment, EXPERIMENT).unwrap();
    let pairs = [
        (&pair.large, &pair.small),
        (&pair.small, &pair.large),
        (&pair.large, &named),
    ];
    for (number, (target, drafter)) in pairs.into_iter().enumerate() {
        let (config, trace, out) = (at("config.yaml"), at("trace.jsonl"), at("out"));
        fs::write(
            &config,
            run(&format!("config init -m {target} -d {drafter} -k 3")),
        )
        .unwrap();
        let length = "--max-new-tokens 16 --device cpu";
        run(&format!(
            "trace record --config {config} --prompts {prompts} {length} --output {trace} --force"
        ));
        let search = "--costs 10,1 --max-k 3 --starts 1 --check 1 --json --device cpu";
        let tuned = run(&format!("tune --trace {trace} --config {config} {search}"));
        let tuned: Value = serde_json::from_str(&tuned).unwrap();
        assert!(
            tuned["frontier"][0]["held_out"]["speedup"].is_number(),
            "{tuned}"
        );

        let costs = ["target", "drafter"].map(|name| at(&format!("{name}-{number}.json")));
        for (model, file) in [target, drafter].into_iter().zip(&costs) {
            run(&format!(
                "bench model {model} --contexts 16 --rows 1,4 --repeats 3 --device cpu --save {file}"
            ));
        }
        let files = costs.join(",");
        let of_experiment = format!("--config {experiment} --models {config} --device cpu");
        let report = run(&format!(
            "reproduce {of_experiment} --costs {files} --out {out}"
        ));
        assert!(report.contains("Speculative decoding"), "{report}");
        let used: Value = serde_json::from_slice(&fs::read(at("out/costs.json")).unwrap()).unwrap();
        let measured: Value = serde_json::from_slice(&fs::read(&costs[1]).unwrap()).unwrap();
        let one = measured["forwards"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|forward| forward["rows"] == 1)
            .map(|of| &of["seconds"]);
        let near = |seconds: &Value| {
            (seconds.as_f64().unwrap() / used["small"].as_f64().unwrap() - 1.0).abs() < 1e-3
        };
        assert!(one.into_iter().any(near), "{used} {measured}");

        // A drafter without a file of its own is not given another's.
        let message = error(&cascade(
            &format!(
                "reproduce {of_experiment} --costs {} --out {}",
                costs[0],
                at("other")
            )
            .split(' ')
            .collect::<Vec<_>>(),
        ));
        assert!(message.contains("no file has costs of"), "{message}");
        fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn added_tokens_may_be_called_otherwise_and_words_may_not() {
    let pair = pair();
    let other = write_model(&pair.folder.path().join("renamed"), 280, 0.02, &renamed());
    let plain = record(&["-m", &pair.large, "--no-speculation"]);
    let args = ["-m", &pair.large, "-d", &other, "-k", "4"];
    let output = cascade(&[&["run"], &args[..], &PROMPT, &["cpu"]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let found: Value = serde_json::from_str(stdout(&output).lines().next().unwrap()).unwrap();
    assert_eq!(found["token_ids"], plain["token_ids"]);
    assert!(drafted(&found) > 0);
    for named in ["263", "<|finish|>", "<|end|>", "264", "<think>"] {
        assert!(said.contains(named), "{said}");
    }

    let mut json = tokenizer();
    let vocabulary = json["model"]["vocab"].as_object_mut().unwrap();
    let (a, b) = (vocabulary["a"].clone(), vocabulary["b"].clone());
    vocabulary.insert("a".to_owned(), b);
    vocabulary.insert("b".to_owned(), a);
    let swapped = write_model(&pair.folder.path().join("swapped"), 304, 0.0, &json);
    let message = error(&line(
        "run -m {} -d {} --prompt x",
        &[&pair.large, &swapped],
    ));
    assert!(
        message.contains("\"a\"") && message.contains("another vocabulary"),
        "{message}"
    );
}

/// A drafter that has no row for a token of the prompt: `<think>` is the target's last.
#[test]
fn a_drafter_is_not_asked_behind_what_it_cannot_read() {
    let folder = TempDir::new().unwrap();
    let large = write_model(&folder.path().join("large"), 304, 0.0, &renamed());
    let small = write_model(&folder.path().join("small"), 264, 0.0, &tokenizer());
    let run = [
        "run", "-m", &large, "-d", &small, "-k", "4", "--device", "cpu", "--json",
    ];
    let ask = ["--max-new-tokens", "16", "--prompt", "the <think> tool"];
    let output = cascade(&[&run[..], &ask].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let found: Value = serde_json::from_str(stdout(&output).lines().next().unwrap()).unwrap();
    let plain = words("run -m {} --no-speculation --device cpu --json", &[&large]);
    let plain = stdout(&cascade(&[&plain[..], &ask].concat()));
    let plain: Value = serde_json::from_str(plain.lines().next().unwrap()).unwrap();
    assert_eq!(found["token_ids"], plain["token_ids"]);
    assert_eq!(drafted(&found), 0);
    assert_eq!(
        said.matches("drafts nothing behind token 264").count(),
        1,
        "{said}"
    );
}

/// A token that only tokenizer_config.json declares is read as one token, and ends an answer if it
/// is the `eos_token` of a model's template.
#[test]
fn an_end_that_only_tokenizer_config_declares_ends_an_answer() {
    let pair = pair();
    let ids = |record: &Value| -> Vec<u64> {
        let ids = record["token_ids"].as_array().unwrap();
        ids.iter().map(|id| id.as_u64().unwrap()).collect()
    };
    let before = ids(&record(&["-m", &pair.large, "--no-speculation"]));
    // One of the rows that had no token, which now has one.
    let end = before
        .iter()
        .position(|&id| id >= TOKENS as u64)
        .expect("rows behind the last token are the best guess at times");
    let token = |id: u64| {
        let content = format!("<|t{id}|>");
        let entry = json!({"content": content, "special": true, "normalized": false,
            "lstrip": false, "rstrip": false, "single_word": false});
        (id.to_string(), entry)
    };
    let declared: Map<String, Value> = (TOKENS as u64..=before[end]).map(token).collect();
    let config = json!({"added_tokens_decoder": declared, "eos_token": format!("<|t{}|>", before[end]),
        "chat_template": "{% for message in messages %}{{ message.content }}{% endfor %}"});
    let file = Path::new(&pair.large).join("tokenizer_config.json");
    fs::write(file, config.to_string()).unwrap();
    let plain = ids(&record(&["-m", &pair.large, "--chat", "--no-speculation"]));
    assert_eq!(plain, before[..=end]);
    let drafted = record(&["-m", &pair.large, "-d", &pair.small, "-k", "4", "--chat"]);
    assert_eq!(ids(&drafted), plain);
    // A blank message is one too, if the template puts words around it.
    let blank = words(
        "run -m {} --chat --system {} --prompt {} --max-new-tokens 4 --json --device \
        cpu",
        &[&pair.large, "the tool", " "],
    );
    stdout(&cascade(&blank));
}
