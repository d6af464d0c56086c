//! A drafter that this project does not have: one file like this, and one line to register it.

use std::sync::Arc;

use cascade_config::{AssembleOptions, Config};
use cascade_core::{Budget, Drafter, ScoredTree, TokenId, TokenTree};
use cascade_engine::Role;
use cascade_ngram::{
    DrafterConfig, DrafterFactory, DrafterKey, MaxGramConfig, NgramTable, OpenError, Resources,
    TableLocator, drafter_kinds, positive,
};
use serde::{Deserialize, Serialize};

/// Proposes the last token again, and what most often follows it.
struct Echo {
    times: usize,
    table: Arc<NgramTable>,
}

impl Drafter for Echo {
    fn set_source(&mut self, _: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        let Some(&last) = context.last() else {
            return ScoredTree::default();
        };
        let successors = self.table.after(&[last]).into_iter().flatten();
        let next = successors.take(1).map(|(token, _)| token);
        let echo = std::iter::repeat_n(last, self.times);
        TokenTree::chain(next.chain(echo).take(budget.depth)).into()
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct EchoConfig {
    #[serde(deserialize_with = "positive")]
    times: usize,
    table: TableLocator,
}

impl DrafterKey for EchoConfig {
    const KEY: &'static str = "echo";
}

impl DrafterConfig for EchoConfig {
    fn open(&self, resources: &dyn Resources) -> Result<Arc<dyn DrafterFactory>, OpenError> {
        let table = resources
            .table(&self.table)
            .map_err(|source| OpenError::new("echo.table", source))?;
        let times = self.times;
        Ok(Arc::new(move || Echo {
            times,
            table: table.clone(),
        }))
    }

    fn tables(&mut self) -> Vec<(&'static str, &mut TableLocator)> {
        vec![("echo.table", &mut self.table)]
    }
}

drafter_kinds!(struct WithEcho: EchoConfig, MaxGramConfig);

const CONFIG: &str = "
target: { model: embedded:demo-t5-target }
drafters:
  - model: embedded:demo-t5-small
  - echo: { times: 2, table: embedded:demo }
k: { matrix: [[2, 3], [0, 3]] }
generation: { max_new_tokens: 12 }
";

fn parse(text: &str) -> cascade_config::Result<Config> {
    Config::parse_with::<WithEcho>(text, "echo.yaml", "")
}

fn refusal(from: &str, to: &str) -> String {
    cascade_demo::register();
    assert!(CONFIG.contains(from), "{from}");
    let config = parse(&CONFIG.replace(from, to));
    let refused = config.and_then(|config| config.assemble(&AssembleOptions::default()));
    refused.err().unwrap().to_string()
}

#[test]
fn drafts_without_changing_the_answer() {
    cascade_demo::register();
    let config = parse(CONFIG).unwrap();
    assert_eq!(config.drafters()[1].name(), "echo");
    assert_eq!(
        config.drafters()[1].settings::<EchoConfig>().unwrap().times,
        2
    );
    let pool = config.pool(&AssembleOptions::default());
    let answer = |config: &Config| {
        let mut assembled = pool.assemble(config).unwrap();
        let options = config.generation.options();
        let generation = assembled.cascade.generate("2 + 3?", &options);
        (assembled.levels, generation.unwrap())
    };
    let (parts, drafted) = answer(&config);
    let (_, plain) = answer(&config.plain());
    assert_eq!(drafted.tokens, plain.tokens);
    assert_eq!((parts.len(), parts[2].role), (3, Role::Statistical));
    assert!(drafted.models[2].usage.calls > 0);
}

#[test]
fn is_written_and_read_back() {
    cascade_demo::register();
    let config = parse(CONFIG).unwrap();
    let yaml = config.to_yaml().unwrap();
    let again = Config::parse_with::<WithEcho>(&yaml, "again.yaml", "/elsewhere").unwrap();
    assert_eq!(again.drafters()[1].name(), "echo");
    let settings = |config: &Config| config.drafters()[1].settings::<EchoConfig>().cloned();
    assert_eq!(settings(&again), settings(&config));
    assert_eq!(again.to_yaml().unwrap(), yaml);
    // Without the drafter, its key is refused by name.
    let error = Config::parse(&yaml, "again.yaml", "").unwrap_err();
    assert!(
        error.to_string().contains("unknown field `echo`"),
        "{error}"
    );
}

#[test]
fn errors_name_its_keys() {
    cascade_demo::register();
    for (from, to, parts) in [
        (
            "times: 2",
            "times: 0",
            &["drafters[1].echo.times", "1 or more", "line 5"][..],
        ),
        (
            "times: 2",
            "time: 2",
            &["unknown field `time`", "`times`", "line 5"],
        ),
        ("times: 2, ", "", &["missing field `times`"]),
        (
            "embedded:demo }",
            "embedded:t6 }",
            &["drafters[1].echo.table", "t6", "llama"],
        ),
        (
            "embedded:demo }",
            "./none }",
            &["echo.yaml: drafters[1].echo.table", "none"],
        ),
        (
            "embedded:demo }",
            "embedded:llama }",
            &["drafters[1].echo.table", "sha256:"],
        ),
        (
            "echo:",
            "ecco:",
            &["unknown field `ecco`", "`model`", "`echo`", "`max_gram`"],
        ),
        (
            "- echo:",
            "- model: x\n    echo:",
            &["drafters[1]", "`model`, `head`, `echo` and `max_gram`"],
        ),
        (
            "- echo:",
            "- width: 2\n    echo:",
            &["unknown field `width`", "within the settings"],
        ),
    ] {
        let message = refusal(from, to);
        for part in parts {
            assert!(message.contains(part), "`{part}` is missing in: {message}");
        }
    }
    // The kinds that are not registered are not there.
    let error = parse("target: { model: /x }\ndrafters: [{ bigram: /y }]").unwrap_err();
    assert!(
        error.to_string().contains("unknown field `bigram`"),
        "{error}"
    );
}

#[test]
fn models_and_tables_are_opened_once() {
    cascade_demo::register();
    let config = parse(CONFIG).unwrap();
    let pool = config.pool(&AssembleOptions::default());
    let target = pool.target(&config).unwrap();
    assert!(Arc::ptr_eq(&target, &pool.target(&config.plain()).unwrap()));
    let (locator, vocabulary) = ("embedded:demo".into(), target.tokenizer.fingerprint());
    let table = || pool.table(&locator, &vocabulary).unwrap();
    assert!(Arc::ptr_eq(&table(), &table()));
}
