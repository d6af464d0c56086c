//! Cascades of which only the models are named, and configurations written as YAML.

use std::fs;
use std::path::Path;

use cascade_config::{
    AssembleOptions, CascadeSpec, Config, DeviceSpec, Drafter, Message, Neural, NgramTable, Role,
    ScheduleConfig, StopRuleConfig, TextDrafter, default_draft_tokens, default_lenience,
    default_nodes, model_source,
};
use cascade_engine::{Convention, KMatrix, Lenience, StopSequences};
use cascade_models::DType;
use cascade_ngram::{MaxGramConfig, MaxGramTreeConfig, TableLocator};

use crate::bad_configs::assert_says;

fn neural(name: &str) -> Neural {
    cascade_demo::register();
    Neural::new(model_source(&format!("embedded:{name}")).unwrap())
}

fn spec(target: &str, drafters: &[&str]) -> CascadeSpec {
    CascadeSpec::new(neural(target), drafters.iter().map(|d| neural(d)).collect())
}

fn config(spec: &CascadeSpec) -> Config {
    spec.config("command line", &AssembleOptions::default())
        .unwrap()
}

fn message(spec: &CascadeSpec) -> String {
    let error = spec.config("command line", &AssembleOptions::default());
    error.unwrap_err().to_string()
}

fn project(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join(path).display().to_string()
}

fn table(config: &Config) -> Option<TableLocator> {
    let drafter = config.drafters().last().unwrap();
    match drafter.settings::<MaxGramTreeConfig>() {
        Some(tree) => tree.table.clone(),
        None => drafter.settings::<MaxGramConfig>().unwrap().bigram.clone(),
    }
}

fn added(rows: &[&[usize]]) -> KMatrix {
    let rows = rows.iter().map(|row| row.to_vec()).collect();
    KMatrix::new(rows, Convention::Added).unwrap()
}

#[test]
fn without_drafters_the_tree_drafts_with_the_table_of_the_vocabulary() {
    cascade_demo::register();
    for family in ["demo-t5", "demo-llama"] {
        let config = config(&spec(&format!("{family}-target"), &[]));
        assert_eq!(
            table(&config),
            Some(TableLocator::Embedded("demo".to_owned()))
        );
        assert_eq!(
            (config.max_nodes, config.schedule()),
            (64, &ScheduleConfig::Online)
        );
        assert_eq!(config.drafters()[0].name(), "max-gram-tree");
        let assembled = config.assemble(&AssembleOptions::default()).unwrap();
        assert_eq!(assembled.cascade.level_names().len(), 2);
    }
    for drafter in [TextDrafter::Tree, TextDrafter::MaxGram] {
        let mut own = spec("demo-t5-target", &[]);
        let mut with = |table: &str| {
            own.text = Some((drafter, NgramTable::parse(table)));
            own.clone()
        };
        assert_eq!(table(&config(&with("none"))), None);
        assert!(table(&config(&with("embedded:demo"))).is_some());
        assert!(message(&with("embedded:x")).contains("there is no embedded table `x`"));
    }
}

#[test]
fn the_tree_has_as_many_nodes_as_rows_are_cheap() {
    let tree = |change: &dyn Fn(&mut CascadeSpec)| {
        let mut spec = spec("demo-llama-target", &[]);
        spec.fixed = true;
        spec.target.device = Some(DeviceSpec::Cpu);
        change(&mut spec);
        let config = config(&spec);
        (config.max_nodes, config.k().unwrap().rows()[0][0])
    };
    assert_eq!(tree(&|_| {}), (8, 7));
    assert_eq!(tree(&|spec| spec.max_nodes = Some(64)), (64, 24));
    assert_eq!(tree(&|spec| spec.max_nodes = Some(1)), (1, 1));
    assert_eq!(tree(&|spec| spec.draft_tokens = Some(vec![4])), (8, 4));
    // A chain of the paper is as it was.
    let paper = (TextDrafter::MaxGram, NgramTable::Fitting);
    assert_eq!(tree(&|spec| spec.text = Some(paper.clone())), (64, 10));
    assert_eq!(default_nodes(DeviceSpec::Cuda(0)), 32);
    let mut none = spec("demo-llama-target", &[]);
    none.max_nodes = Some(0);
    assert!(message(&none).contains("node"), "{}", message(&none));
}

#[test]
fn a_vocabulary_without_a_table_gets_none() {
    let folder = tempfile::tempdir().unwrap();
    let demo = project("crates/cascade-demo/models/demo-llama-small");
    let tokenizer = fs::read_to_string(Path::new(&demo).join("tokenizer.json")).unwrap();
    let other = tokenizer.replace("\"<unk>\"", "\"<other>\"");
    fs::write(folder.path().join("tokenizer.json"), other).unwrap();
    let target = Neural::new(model_source(folder.path().to_str().unwrap()).unwrap());
    assert_eq!(table(&config(&CascadeSpec::new(target, Vec::new()))), None);
}

#[test]
fn every_shape_has_defaults_and_they_are_those_of_the_shipped_configurations() {
    for (neural, max_gram, tokens, lenience) in [
        (0, true, &[10][..], 1.0),
        (1, false, &[8], 1.0),
        (1, true, &[2, 10], 1.0),
        (2, false, &[8, 5], 3.0),
        (2, true, &[8, 5, 10], 3.0),
        (4, true, &[8, 5, 5, 5, 10], 3.0),
    ] {
        assert_eq!(default_draft_tokens(neural, max_gram), tokens);
        assert_eq!(default_lenience(neural).get(), lenience);
    }
    let mut spec = spec("demo-t5-target", &["demo-t5-base", "demo-t5-small"]);
    spec.text = Some((TextDrafter::MaxGram, NgramTable::Fitting));
    assert_eq!(config(&spec).schedule(), &ScheduleConfig::Online);
    spec.fixed = true;
    let paper = Config::open(project("configs/t5-xxl.yaml")).unwrap();
    let ours = config(&spec);
    assert_eq!((ours.k(), ours.lenience), (paper.k(), paper.lenience));
    spec.drafters.pop();
    let paper = Config::open(project("configs/vicuna-7b.yaml")).unwrap();
    let ours = config(&spec);
    assert_eq!((ours.k(), ours.lenience), (paper.k(), paper.lenience));
    assert!(ours.warnings().is_empty());
}

#[test]
fn draft_tokens_fill_the_matrix_and_must_be_as_many_as_drafters() {
    let mut spec = spec(
        "demo-llama-target",
        &["demo-llama-base", "demo-llama-small"],
    );
    spec.text = Some((TextDrafter::MaxGram, NgramTable::Fitting));
    spec.draft_tokens = Some(vec![4, 3, 7]);
    spec.lenience = Some(Lenience::new(2.0).unwrap());
    let config = config(&spec);
    assert_eq!(
        *config.k().unwrap(),
        added(&[&[4, 3, 7], &[0, 1, 7], &[0, 0, 7]])
    );
    assert_eq!(config.lenience.get(), 2.0);
    spec.draft_tokens = Some(vec![4, 3]);
    let message = message(&spec);
    assert_says(
        &message,
        "2 number(s) … 3 drafter(s) … demo-llama-base, demo-llama-small, max-gram … \
         -k 5,10",
    );
}

#[test]
fn other_vocabularies_are_refused_before_weights_are_read() {
    let other = project("tests/lookalikes/double7/vicuna-68m");
    let drafters = vec![Neural::new(model_source(&other).unwrap())];
    let message = message(&CascadeSpec::new(neural("demo-llama-target"), drafters));
    assert_says(
        &message,
        "has another vocabulary than target `demo-llama-target` … \
         token 3 is \"<0x00>\" in the drafter and \"<unk>\" in the target … \
         models of one family … Max-Gram alone",
    );
    assert!(!message.contains("sha256"), "{message}");
    // A folder with a tokenizer and without weights: they are not looked for.
    let folder = tempfile::tempdir().unwrap();
    let demo = project("crates/cascade-demo/models/demo-llama-small/tokenizer.json");
    fs::copy(demo, folder.path().join("tokenizer.json")).unwrap();
    let drafter = Neural::new(model_source(folder.path().to_str().unwrap()).unwrap());
    config(&CascadeSpec::new(
        neural("demo-llama-target"),
        vec![drafter],
    ));
}

/// Everything that makes a cascade, as text.
fn meaning(config: &Config) -> String {
    let mut config = config.clone();
    config.label.clear();
    format!("{config:?}")
}

#[test]
fn a_written_configuration_is_the_same_cascade() {
    cascade_demo::register();
    let mut by_names = spec("demo-t5-target", &["demo-t5-base"]);
    by_names.text = Some((TextDrafter::Tree, NgramTable::None));
    let mut by_names = config(&by_names);
    by_names.generation.stop = Some(StopSequences::new(["\n\n", "Q: \"x\"", "é{}"]).unwrap());
    by_names.generation.seed = 7;
    by_names.generation.ignore_eos = true;
    by_names.target.dtype = Some(DType::BF16);
    by_names.target.tokenizer = Some(model_source("google/flan-t5-xxl@main").unwrap());
    by_names.drafters_mut()[0] = Drafter::neural(neural("demo-t5-small")).named("yes");
    by_names.max_nodes = 9;
    let mut all = vec![by_names];
    let gguf = model_source("tests/nowhere/model.gguf").unwrap();
    assert!(matches!(gguf, cascade_models::ModelSource::File(_)));
    let mut of_file = Config::new(Neural::new(gguf));
    let yaml = of_file.to_yaml().unwrap();
    let here = std::env::current_dir().unwrap();
    let absolute = here.join("tests/nowhere/model.gguf");
    of_file.target.source = model_source(absolute.to_str().unwrap()).unwrap();
    let again = Config::parse(&yaml, "again", "/elsewhere").unwrap();
    assert_eq!(meaning(&again), meaning(&of_file));
    for name in ["demo-t5", "demo-llama"] {
        all.push(Config::open(format!("embedded:{name}")).unwrap());
    }
    for name in [
        "demo-llama-tree",
        "spec-bench-max-gram",
        "t5-xxl",
        "vicuna-7b",
        "vicuna-7b-tree",
    ] {
        all.push(Config::open(project(&format!("configs/{name}.yaml"))).unwrap());
    }
    let every_key = "
target: { model: /tmp/a folder: #1, rule: speculative, device: cpu }
drafters:
  - bigram: { table: embedded:demo, width: 3 }
  - prompt_lookup: { max_ngram: 4, branches: 2 }
  - max_gram: { occurrence: latest, min_match: 2, branches: 3, width: 4 }
    name: \"true\"
  - max_gram_tree: { table: embedded:demo, weights: /tmp/weights.json, min_probability: 0.25, session_tokens: 9, hints: 2, learning_rate: 0.5 }
k: { matrix: [[1, 2, 3, 4], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]] }
lenience: 1.5
statistical_lenience: 2.25
tree: { max_nodes: 12, placement: merged }
prompt: vicuna
generation: { max_new_tokens: 3, temperature: 0.7, top_k: 4, top_p: 0.9, min_p: 0.05, seed: 5, max_prompt_tokens: 9, truncate_prompt: left }
device: cuda:3
";
    let every_key = every_key.replace("/tmp/a folder: #1", "\"/tmp/a folder: #1\"");
    all.push(Config::parse(&every_key, "every key", "").unwrap());
    let rules = "
target: { model: embedded:demo-t5-target }
drafters:
  - model: embedded:demo-t5-base
    stop_rule: { length: 3 }
  - model: embedded:demo-t5-base
    stop_rule: { heuristic: { start: 7 } }
  - model: embedded:demo-t5-small
    stop_rule: { confidence: 0.25 }
  - model: embedded:demo-t5-small
    stop_rule: { adaptive_confidence: {} }
  - max_gram: {}
    stop_rule: { mdp: { cost: 0.3, delta: 1.5 } }
schedule: online
";
    all.push(Config::parse(rules, "stop rules", "").unwrap());
    let joint = "
target: { model: embedded:demo-t5-target }
drafters:
  - model: embedded:demo-t5-base
    branches: { expand: most_probable }
  - max_gram_tree: {}
k: { matrix: [[1, 0], [0, 15]] }
";
    all.push(Config::parse(joint, "joint", "").unwrap());
    for config in all {
        let yaml = config.to_yaml().unwrap();
        let again = Config::parse(&yaml, "again", "/elsewhere").unwrap_or_else(|error| {
            panic!("{}: {error}\n{yaml}", config.label);
        });
        assert_eq!(
            meaning(&again),
            meaning(&config),
            "{}\n{yaml}",
            config.label
        );
    }
}

#[test]
fn a_command_line_names_stop_rules_as_reports_do() {
    for text in [
        "length=4",
        "heuristic=5",
        "confidence=0.25",
        "adaptive_confidence=0.4",
        "mdp=0.1",
    ] {
        let rule: StopRuleConfig = text.parse().unwrap();
        assert_eq!(rule.to_string(), text);
        let mut spec = spec("demo-t5-target", &["demo-t5-small"]);
        spec.stop_rule = Some(rule.clone());
        assert_eq!(config(&spec).drafters()[0].stop_rule(), Some(&rule));
    }
    assert_eq!("mdp".parse(), "mdp=0.1".parse::<StopRuleConfig>());
    for (text, says) in [
        ("", "there is no stop rule"),
        ("length", "needs a value"),
        ("length=x", "needs a number"),
        ("length=0", "1 or more"),
        ("confidence=2", "not a probability"),
        ("oracle", "there are `length=N`"),
        ("classifier", "`stop_rule: { classifier: … }`"),
        ("adaptive-confidence", "there is no stop rule"),
    ] {
        let error = text.parse::<StopRuleConfig>().unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn relative_folders_are_written_as_absolute_ones() {
    cascade_demo::register();
    let mut config = Config::open("embedded:demo-t5").unwrap();
    config.target = Neural::new(model_source("./models/t5").unwrap());
    let yaml = config.to_yaml().unwrap();
    let here = std::env::current_dir().unwrap();
    let line = format!("model: {}", here.join("models/t5").display());
    assert!(yaml.contains(&line), "{yaml}");
}

#[test]
fn chat_templates_are_found_beside_the_model_or_its_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let (model, tokenizer) = (folder.path().join("model"), folder.path().join("tokenizer"));
    for place in [&model, &tokenizer] {
        fs::create_dir(place).unwrap();
    }
    let source = |path: &Path| model_source(path.to_str().unwrap()).unwrap();
    let mut config = Config::new(Neural::new(source(&model)));
    let rendered = |config: &Config| {
        let chat = config.target_chat(&AssembleOptions::default()).unwrap();
        let templates = chat.templates().unwrap()?;
        let messages = [Message::new(Role::User, "Hi")];
        Some(templates.get(None).unwrap().render(&messages).unwrap())
    };
    assert_eq!(rendered(&config), None);
    config.target.tokenizer = Some(source(&tokenizer));
    assert_eq!(rendered(&config), None);
    fs::write(
        tokenizer.join("tokenizer_config.json"),
        r#"{"chat_template": "{{ eos_token }}borrowed", "eos_token": "</s>"}"#,
    )
    .unwrap();
    assert_eq!(rendered(&config).unwrap(), "</s>borrowed");
    fs::write(model.join("chat_template.jinja"), "own").unwrap();
    assert_eq!(rendered(&config).unwrap(), "own");
    fs::write(model.join("chat_template.jinja"), "{% include 'x' %}").unwrap();
    let chat = config.target_chat(&AssembleOptions::default()).unwrap();
    let message = chat.templates().unwrap_err().to_string();
    assert!(
        message.contains("model (chat_template.jinja)") && message.contains("{% include %}"),
        "{message}"
    );
}

#[test]
fn the_chat_template_of_a_gguf_file_is_the_models_own() {
    let file = project("tests/goldens/gguf/qwen2-q4_0.gguf");
    let config = Config::new(Neural::new(model_source(&file).unwrap()));
    let chat = config.target_chat(&AssembleOptions::default()).unwrap();
    let templates = chat.templates().unwrap().unwrap();
    let template = templates.get(None).unwrap();
    let messages = [
        Message::new(Role::User, "Hi"),
        Message::new(Role::Assistant, " you"),
    ];
    assert_eq!(template.render(&messages).unwrap(), "Hi you");
    assert!(template.special_token("eos_token").is_some());
}
