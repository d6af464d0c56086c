//! Configurations that make no sense: each message names the file, the key and the cure.

use std::path::Path;

use cascade_config::{AssembleOptions, Config, DeviceSpec, Error, ErrorKind, ScheduleConfig};
use cascade_models::HubOptions;

const GOOD: &str = "
target: { model: embedded:demo-t5-target }
drafters:
  - model: embedded:demo-t5-small
  - max_gram: { bigram: embedded:demo }
k: { matrix: [[4, 10], [0, 10]] }
lenience: 2
prompt: t5-gsm8k
generation: { max_new_tokens: 20, stop: [\"####\"] }
";

/// The message for GOOD with `from` replaced by `to`.
fn message(from: &str, to: &str) -> String {
    cascade_demo::register();
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replace(from, to);
    match Config::parse(&text, "bad.yaml", Path::new("")) {
        Ok(_) => panic!("{text} must be refused"),
        Err(error) => error.to_string(),
    }
}

/// Checks what is said of GOOD with `from` replaced by `to`.
fn refused(from: &str, to: &str, parts: &str) {
    assert_says(&message(from, to), parts);
}

/// Checks that a message has all parts of a list, between which is ` … `.
pub(crate) fn assert_says(message: &str, parts: &str) {
    for part in parts.split(" … ") {
        assert!(message.contains(part), "`{part}` is missing in: {message}");
    }
}

fn offline() -> AssembleOptions {
    AssembleOptions::default().with_hub(HubOptions::new("http://127.0.0.1:9", "/nonexistent"))
}

fn assembly_message(text: &str, options: &AssembleOptions) -> String {
    cascade_demo::register();
    let config = Config::parse(text, "bad.yaml", Path::new("")).unwrap();
    match config.assemble(options) {
        Ok(_) => panic!("{text} must not assemble"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_good_one_is_good_and_all_shipped_ones_are() {
    cascade_demo::register();
    let config = Config::parse(GOOD, "good.yaml", Path::new("")).unwrap();
    assert!(config.warnings().is_empty());
    Config::open("embedded:demo-t5").unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let config = Config::open(&path).unwrap();
        assert!(config.warnings().is_empty(), "{:?}", config.warnings());
        seen += 1;
    }
    assert!(seen >= 4);
}

#[test]
fn unknown_and_misplaced_keys() {
    let unknown = message("lenience: 2", "lenienze: 2");
    assert_says(
        &unknown,
        "bad.yaml … unknown field `lenienze` … `lenience` … line",
    );
    let nested = message("max_new_tokens", "max_tokens");
    assert_says(
        &nested,
        "bad.yaml … unknown field `max_tokens` … `max_new_tokens`",
    );
    let lossy = message("max_new_tokens: 20", "max_new_tokens: 20, lossy: 0.1");
    assert_says(&lossy, "bad.yaml … unknown field `lossy`");
    let drafter = message("max_gram: {", "maxgram: {");
    assert_says(
        &drafter,
        "bad.yaml: drafters[1] … unknown field `maxgram` … `max_gram` … line 5",
    );
    refused(
        "bigram: embedded:demo }",
        "branches: 2 }\n    name: a\n    name: b",
        "bad.yaml: drafters[1] … duplicate … name",
    );
    let kinds = message("max_gram: { bigram: embedded:demo }", "name: x");
    assert_says(
        &kinds,
        "`model`, `head`, `max_gram`, `max_gram_tree`, `bigram` and `prompt_lookup`",
    );
    refused(
        "- model: embedded:demo-t5-small",
        "- { model: embedded:demo-t5-small, bigram: { table: embedded:demo } }",
        "bad.yaml … drafters[0] … exactly one of",
    );
    let dtype = message(
        "max_gram: { bigram: embedded:demo }",
        "{ bigram: { table: embedded:demo }, dtype: f16 }",
    );
    assert_says(&dtype, "drafters[1] … no dtype … remove");
    let yaml = message("lenience: 2", "lenience: [2");
    assert_says(&yaml, "bad.yaml … line");
    let missing = message("target: { model: embedded:demo-t5-target }", "device: cpu");
    assert_says(&missing, "bad.yaml … missing field `target`");
}

#[test]
fn k_matrices() {
    let k = |matrix: &str| message("{ matrix: [[4, 10], [0, 10]] }", matrix);
    assert_says(
        &k("{ matrix: [[4, 10], [0]] }"),
        "bad.yaml … not square … row 1 has 1 columns",
    );
    assert_says(
        &k("{ matrix: [[4, 10], [3, 10]] }"),
        "bad.yaml … not upper triangular … row 1, column 0 is 3",
    );
    assert_says(&k("{ matrix: [[4]] }"), "bad.yaml … 1 x 1 … 2 drafters");
    assert_says(
        &k("{ matrix: [[4, 3], [0, 1]], convention: running_sum }"),
        "falls from 4 to 3 … added",
    );
    assert_says(
        &k("{ matrix: [[4, 3], [0, 1]], convention: summed }"),
        "summed … running_sum",
    );
    assert_says(&k("{ matrix: [[4, -3], [0, 1]] }"), "bad.yaml … k … -3");
    refused(
        "k: { matrix: [[4, 10], [0, 10]] }",
        "schedule: static",
        "2 drafters … needs a K matrix",
    );
}

#[test]
fn values_that_make_no_sense() {
    assert_says(
        &message("lenience: 2", "lenience: 0.5"),
        "lenience … at least 1 … 0.5",
    );
    assert_says(
        &message("lenience: 2", "statistical_lenience: .inf"),
        "statistical_lenience … finite",
    );
    assert_says(
        &message("prompt: t5-gsm8k", "prompt: gsm9k"),
        "prompt … gsm9k … t5-gsm8k",
    );
    refused("[\"####\"]", "[\"\"]", "stop sequence is empty");
    assert_says(
        &message("demo-t5-target }", "demo-t5-target, dtype: int8 }"),
        "target.dtype … int8 … bf16",
    );
    assert_says(
        &message("demo-t5-target }", "demo-t5-target, cache_dtype: q8_0 }"),
        "target.cache_dtype … q8_0 … bf16",
    );
    assert_says(
        &message("bigram: embedded:demo ", "min_match: 0 "),
        "max_gram.min_match … 1 or more",
    );
    for (settings, parts) in [
        ("hints: 9", "max_gram_tree.hints … 9 … at most 8"),
        ("hints: -1", "max_gram_tree.hints … -1"),
        (
            "min_probability: 1.5",
            "max_gram_tree.min_probability … between 0 and 1",
        ),
        (
            "learning_rate: .nan",
            "max_gram_tree.learning_rate … between 0 and 1",
        ),
        ("session_tokens: -2", "max_gram_tree.session_tokens … -2"),
        ("bigram: embedded:demo", "unknown field `bigram` … `table`"),
    ] {
        let tree = format!("max_gram_tree: {{ {settings} }}");
        assert_says(
            &message("max_gram: { bigram: embedded:demo }", &tree),
            parts,
        );
    }
}

/// What is said of a tree with this file of weights.
fn weights_message(weights: &str) -> String {
    let tree = format!("max_gram_tree: {{ weights: {weights} }}");
    let text = GOOD.replace("max_gram: { bigram: embedded:demo }", &tree);
    assembly_message(&text, &offline())
}

#[test]
fn weights_that_are_none() {
    cascade_demo::register();
    let key = "drafters[1].max_gram_tree.weights";
    assert_says(
        &weights_message("./none.json"),
        &format!("bad.yaml … {key} … none.json"),
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weights.json");
    let shipped = cascade_ngram::Weights::shipped(true, true)
        .to_json()
        .unwrap();
    for (text, says) in [
        ("", "EOF"),
        ("{}", "missing field `context`"),
        (
            &shipped.replacen("\"skip\"", "\"hop\"", 1),
            "unknown field `hop`",
        ),
        (&shipped.replacen("0.48", "1e30", 1), "beyond ±20"),
        (&" ".repeat(2 << 20), "more than 1 MiB"),
    ] {
        std::fs::write(&file, text).unwrap();
        let message = weights_message(file.to_str().unwrap());
        assert_says(&message, &format!("{key} … weights.json … {says}"));
    }
    std::fs::write(&file, &shipped).unwrap();
    let tree = format!("max_gram_tree: {{ weights: {} }}", file.display());
    let text = GOOD.replace("max_gram: { bigram: embedded:demo }", &tree);
    let config = Config::parse(&text, "good.yaml", "").unwrap();
    config.assemble(&offline()).unwrap();
}

#[test]
fn places_that_are_not_there() {
    cascade_demo::register();
    let model = message("embedded:demo-t5-target", "embedded:demo-t6");
    assert_says(
        &model,
        "bad.yaml … target.model … demo-t6 … embedded:demo-t5-target",
    );
    refused(
        "max_gram: { bigram: embedded:demo }",
        "max_gram_tree: { table: embedded:t6 }",
        "drafters[1].max_gram_tree.table … t6 … llama",
    );
    refused(
        "bigram: embedded:demo ",
        "bigram: embedded:t6 ",
        "drafters[1].max_gram.bigram … t6 … llama",
    );
    let name = message("embedded:demo-t5-target", "flan");
    assert_says(&name, "target.model … flan … org/name");
    let error = Config::open(Path::new("/nowhere/none.yaml"))
        .unwrap_err()
        .to_string();
    assert_says(&error, "/nowhere/none.yaml … check the path");
    let folder = assembly_message(
        &GOOD.replace("embedded:demo-t5-target", "./none"),
        &offline(),
    );
    assert_says(&folder, "bad.yaml … target … none");
    let file = assembly_message(
        &GOOD.replace("bigram: embedded:demo ", "bigram: ./none.safetensors "),
        &offline(),
    );
    assert_says(
        &file,
        "bad.yaml … drafters[1].max_gram.bigram … none.safetensors",
    );
    assert_says(
        &message("lenience: 2", "device: gpu7"),
        "bad.yaml: device … gpu7 … cuda:N",
    );
    assert_says(
        &message("demo-t5-small", "demo-t5-small\n    device: gpu7"),
        "bad.yaml: drafters[0].device … gpu7 … auto, cpu",
    );
    assert_says(
        &message("embedded:demo }", "embedded:demo }\n    device: cpu"),
        "bad.yaml: drafters[1] … device",
    );
    let far = offline().with_device(Some(DeviceSpec::Cuda(4000)));
    assert_says(
        &assembly_message(GOOD, &far),
        "bad.yaml: device … cuda:4000",
    );
}

#[test]
fn a_hub_that_does_not_answer() {
    let hub = assembly_message(
        &GOOD.replace("embedded:demo-t5-target", "google/flan-t5-xxl"),
        &offline(),
    );
    assert_says(
        &hub,
        "bad.yaml … target … google/flan-t5-xxl … 127.0.0.1:9 … HF_",
    );
}

#[test]
fn models_of_different_families() {
    let other =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/lookalikes/google/flan-t5-small");
    let text = GOOD.replace("embedded:demo-t5-small", &other.display().to_string());
    let family = assembly_message(&text, &offline());
    assert_says(
        &family,
        "bad.yaml … flan-t5-small … demo-t5-target … another vocabulary … \
         token 3 is \"▁\" in the drafter and \"<unk>\" in the target … Max-Gram alone",
    );
    let text = GOOD.replace("embedded:demo-t5-small", "embedded:demo-llama-small");
    let kind = assembly_message(&text, &offline());
    assert_says(&kind, "demo-llama-small … cannot share a context");
    let text = GOOD.replace("bigram: embedded:demo ", "bigram: embedded:t5 ");
    let table = assembly_message(&text, &offline());
    assert_says(&table, "drafters[1].max_gram.bigram … sha256:");
}

#[test]
fn idle_drafters_are_said_aloud() {
    cascade_demo::register();
    let text = GOOD.replace("[[4, 10], [0, 10]]", "[[0, 10], [0, 10]]");
    let config = Config::parse(&text, "idle.yaml", Path::new("")).unwrap();
    let warnings = config.warnings();
    assert_eq!(warnings.len(), 1);
    assert_says(&warnings[0], "idle.yaml … demo-t5-small … never drafts");
}

#[test]
fn dots_are_relative_to_the_file() {
    cascade_demo::register();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relative.yaml");
    let text = GOOD.replace("embedded:demo-t5-target", "./weights");
    std::fs::write(&path, text).unwrap();
    let config = Config::open(&path).unwrap();
    assert!(
        config
            .target
            .source
            .to_string()
            .starts_with(&folder.path().display().to_string())
    );
    assert_eq!(config.target.name, "weights");
}

#[test]
fn sampling_that_makes_no_sense() {
    cascade_demo::register();
    let sampling = |settings: &str| {
        message(
            "max_new_tokens: 20",
            &format!("max_new_tokens: 20, {settings}"),
        )
    };
    assert_says(
        &sampling("temperature: -1"),
        "bad.yaml: generation … temperature is -1 … greedy",
    );
    assert_says(&sampling("temperature: .nan"), "temperature is NaN");
    assert_says(
        &sampling("temperature: 1, top_k: 0"),
        "top_k is 0 … leave it out",
    );
    assert_says(&sampling("temperature: 1, top_p: 1.5"), "top_p is 1.5");
    assert_says(&sampling("temperature: 1, min_p: -0.1"), "min_p is -0.1");
    let vain = GOOD.replace("max_new_tokens: 20", "max_new_tokens: 20, top_k: 5");
    let config = Config::parse(&vain, "vain.yaml", Path::new("")).unwrap();
    assert_says(&config.warnings().join(" "), "top_k … temperature 0");
}

#[test]
fn errors_say_what_they_are_about() {
    cascade_demo::register();
    let parsed = |text: &str| Config::parse(text, "bad.yaml", Path::new(""));
    let entry = parsed(&GOOD.replace("lenience: 2", "lenience: 0")).unwrap_err();
    assert_eq!(entry.kind(), ErrorKind::Entry);
    let nowhere = GOOD.replace("embedded:demo-t5-target", "./nowhere");
    let assembled = parsed(&nowhere).unwrap().assemble(&offline());
    let error = assembled.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Load);
    let Error::Model { source, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(source.kind(), cascade_models::ErrorKind::Files);
}

#[test]
fn rules_and_branches_that_make_no_sense() {
    cascade_demo::register();
    let target = "target: { model: embedded:demo-t5-target";
    assert_says(
        &message(target, &format!("{target}, rule: guess")),
        "bad.yaml: target.rule … `guess` … speculative … `coupled` is the default",
    );
    let small = "- model: embedded:demo-t5-small";
    assert_says(
        &message(small, &format!("{small}\n    rule: iterated")),
        "drafters[0].rule … `iterated` … `coupled` … give the target",
    );
    assert_says(
        &message(target, &format!("{target}, lenience: 2")),
        "target: unknown field `lenience` … strictly … drafters",
    );
    let branches = |text: &str| message(small, &format!("{small}\n    branches: {text}"));
    assert_says(
        &branches("{ widths: [] }"),
        "drafters[0].branches.widths … empty",
    );
    assert_says(&branches("{ widths: [2, 0] }"), "widths[1] … is 0");
    for shaped in ["widths: [2]", "siblings: with_replacement"] {
        assert_says(
            &branches(&format!("{{ expand: most_probable, {shaped} }}")),
            "drafters[0].branches.widths … neither … leave them out",
        );
    }
    // Max-Gram proposes without probabilities.
    assert_says(
        &branches("{ expand: most_probable }"),
        "`demo-t5-small` … does not mix probabilities … Max-Gram tree",
    );
    assert_says(
        &branches("{ widths: [2], siblings: twins }"),
        "twins … without_replacement",
    );
    let max_gram = "max_gram: { bigram: embedded:demo }";
    assert_says(
        &message(
            max_gram,
            &format!("{max_gram}\n    branches: {{ widths: [2] }}"),
        ),
        "drafters[1] … statistical",
    );
    assert_says(
        &message(max_gram, &format!("{max_gram}\n    width: 3")),
        "drafters[1] … unknown field `width`",
    );
    assert_says(
        &message("lenience: 2", "lenience: 2\ntree: { max_nodes: 0 }"),
        "tree.max_nodes … 0",
    );
    let clipped = GOOD.replace("lenience: 2", "tree: { max_nodes: 9 }");
    let config = Config::parse(&clipped, "clipped.yaml", Path::new("")).unwrap();
    assert_says(
        &config.warnings().join(" "),
        "row 0 … 14 tokens … max_nodes is 9",
    );
}

#[test]
fn a_combination_that_would_not_be_exact_is_refused_before_anything_is_loaded() {
    cascade_demo::register();
    let siblings =
        "- model: /nowhere\n    branches: { widths: [2], siblings: without_replacement }";
    let text = GOOD
        .replace("- model: embedded:demo-t5-small", siblings)
        .replace("demo-t5-target", "demo-t5-target, rule: spec_infer");
    let error = Config::parse(&text, "bad.yaml", Path::new("")).unwrap_err();
    assert_says(
        &error.to_string(),
        "bad.yaml … `spec_infer` … `demo-t5-target` … `nowhere` … without replacement",
    );
}

#[test]
fn a_missing_k_matrix_is_written_out() {
    cascade_demo::register();
    let missing = message("k: { matrix: [[4, 10], [0, 10]] }", "schedule: static");
    let example = "k: { matrix: [[4, 4], [0, 4]] }";
    assert_says(
        &missing,
        &format!("bad.yaml: k: it is missing … 2 drafters … {example} … what pays is drafted"),
    );
    let written = GOOD.replace("k: { matrix: [[4, 10], [0, 10]] }", example);
    Config::parse(&written, "good.yaml", Path::new("")).unwrap();
}

#[test]
fn schedules_and_stop_rules_that_make_no_sense_are_named() {
    cascade_demo::register();
    let k = "k: { matrix: [[4, 10], [0, 10]] }";
    let online = GOOD.replace(k, "");
    let online = Config::parse(&online, "good.yaml", Path::new("")).unwrap();
    assert_eq!(online.schedule(), &ScheduleConfig::Online);
    refused(
        k,
        &format!("{k}\nschedule: online"),
        "bad.yaml: schedule … `k` says so too … remove `k`",
    );
    let unknown = message(k, "schedule: sometimes");
    assert_says(&unknown, "\"sometimes\" … `online` … `static`");
    let merged = message(k, "tree: { placement: merged }");
    assert_says(&merged, "tree.placement … remove it, or give `k`");
    let small = "- model: embedded:demo-t5-small";
    for (rule, says) in [
        (
            "{}",
            "drafters[0].stop_rule: invalid value: map, expected map with a single key",
        ),
        ("{ length: 3, confidence: 0.4 }", "map with a single key"),
        ("{ length: 0 }", "drafters[0].stop_rule.length: it is 0"),
        ("{ confidence: 1.5 }", "it is not a probability"),
        ("{ confidence: .nan }", "it is not a probability"),
        (
            "{ adaptive_confidence: { start: -1 } }",
            "it is not a probability",
        ),
        ("{ mdp: { cost: 0 } }", "above 0"),
        ("{ mdp: { delta: .inf } }", "delta"),
        ("{ heuristic: { start: 0 } }", "it starts at 0"),
        ("{ heuristic: { begin: 5 } }", "unknown field `begin`"),
        ("{ magic: 1 }", "unknown variant `magic`"),
    ] {
        let entry = format!("{small}\n    stop_rule: {rule}");
        refused(small, &entry, &format!("bad.yaml … {says}"));
    }
}

#[test]
fn byte_order_marks_are_passed_over_and_other_encodings_named() {
    cascade_demo::register();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    std::fs::write(&path, format!("\u{feff}{GOOD}")).unwrap();
    Config::open(&path).unwrap();
    Config::parse(&format!("\u{feff}{GOOD}"), "good.yaml", Path::new("")).unwrap();
    let wide: Vec<u8> = GOOD.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bytes in [[&b"\xff\xfe"[..], &wide].concat(), wide] {
        std::fs::write(&path, bytes).unwrap();
        let error = Config::open(&path).unwrap_err().to_string();
        assert_says(&error, "config.yaml … UTF-16 … UTF-8");
    }
}

#[test]
fn files_without_an_end_and_deep_nesting_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let error = Config::open(folder.path()).unwrap_err().to_string();
    assert_says(&error, "a folder");
    #[cfg(unix)]
    {
        let error = Config::open("/dev/zero").unwrap_err().to_string();
        assert_says(&error, "/dev/zero … a device");
    }
    refused(
        "lenience: 2",
        &format!("lenience: {}", "[".repeat(100_000)),
        "bad.yaml … line 7 … 1000",
    );
}

#[test]
fn trees_that_no_memory_holds_are_refused_before_any_is_taken() {
    cascade_demo::register();
    let text = GOOD.replace("lenience: 2", "tree: { max_nodes: 50000 }");
    let error = assembly_message(&text, &offline());
    assert_says(
        &error,
        "bad.yaml … 50000 nodes … `demo-t5-target` … tree.max_nodes … \
         64 is the default",
    );
    let fits = GOOD.replace("lenience: 2", "tree: { max_nodes: 1000 }");
    let config = Config::parse(&fits, "good.yaml", Path::new("")).unwrap();
    config.assemble(&offline()).unwrap();
}

/// The notices of assembling `text` and encoding a prompt, and the number of its tokens.
fn notices(text: &str, prompt: &str) -> (Vec<String>, Result<usize, String>) {
    cascade_demo::register();
    let said = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = said.clone();
    let notices =
        cascade_config::Notices::new(move |text| heard.lock().unwrap().push(text.to_owned()));
    let config = Config::parse(text, "good.yaml", Path::new("")).unwrap();
    let assembled = config.assemble(&offline().with_notices(notices)).unwrap();
    let _first = assembled.cascade.encode(prompt);
    let encoded = assembled.cascade.encode(prompt);
    let tokens = encoded.map(|prompt| prompt.source.len() + prompt.context.len());
    drop(assembled);
    let said = said.lock().unwrap().clone();
    (said, tokens.map_err(|error| error.to_string()))
}

#[test]
fn prompts_are_cut_only_where_that_is_asked_for_and_never_in_silence() {
    let with = |settings: &str| {
        GOOD.replace(
            "max_new_tokens: 20",
            &format!("max_new_tokens: 20, {settings}"),
        )
    };
    let prompt = "How many eggs are there in a box of twelve eggs?";
    let (said, tokens) = notices(GOOD, prompt);
    assert_eq!((said.len(), tokens.unwrap() > 8), (0, true));
    let (said, tokens) = notices(&with("max_prompt_tokens: 8"), prompt);
    assert!(said.is_empty());
    assert_says(
        &tokens.unwrap_err(),
        "8 are allowed … generation.truncate_prompt",
    );
    for (side, end) in [("left", "the first"), ("right", "the last")] {
        let (said, tokens) = notices(
            &with(&format!("max_prompt_tokens: 8, truncate_prompt: {side}")),
            prompt,
        );
        assert_eq!(
            (said.len(), tokens),
            (1, Ok(8)),
            "once, although it is encoded twice: {said:?}"
        );
        assert_says(
            &said[0],
            &format!("the prompt has … {end} … generation.max_prompt_tokens is 8"),
        );
    }
    refused(
        "max_new_tokens: 20",
        "truncate_prompt: left",
        "generation.truncate_prompt … max_prompt_tokens",
    );
    refused(
        "max_new_tokens: 20",
        "max_prompt_tokens: 0",
        "generation.max_prompt_tokens … 1 or more",
    );
}

#[test]
fn sources_that_take_long_are_announced_with_an_estimate() {
    let (said, tokens) = notices(GOOD, &"word ".repeat(2 * cascade_config::LONG_SOURCE));
    assert!(tokens.unwrap() > cascade_config::LONG_SOURCE);
    assert_eq!(said.len(), 1, "{said:?}");
    assert_says(
        &said[0],
        "encoding them takes about … generation.truncate_prompt",
    );
}
