//! The prompts of the recorded greedy outputs come out of the problems and templates.

use std::path::PathBuf;

use cascade_config::Config;
use cascade_eval::{Dataset, PromptTemplate, Selection};

#[test]
fn templates_give_the_recorded_prompts() {
    let goldens = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/goldens");
    for family in ["demo-t5", "demo-llama"] {
        cascade_demo::register();
        let config = Config::open(format!("embedded:{family}")).unwrap();
        let golden = goldens.join(format!("{family}-greedy.jsonl"));
        let recorded = Dataset::PROMPTS.read(&golden, Selection::ALL).unwrap();
        for kind in ["problems", "problems:multiple-choice"] {
            let Ok(Dataset::Problems(set)) = kind.parse() else {
                panic!("{kind}");
            };
            let template = set.template(config.prompt());
            let of_kind = recorded.iter().filter(|s| s.fields["dataset"] == kind);
            let problems = Dataset::Problems(set).made(Selection::first(50)).unwrap();
            for (recorded, problem) in of_kind.zip(problems.unwrap()) {
                assert_eq!(recorded.id, problem.id);
                let prompt = recorded.prompt(PromptTemplate::Raw).unwrap();
                assert_eq!(problem.prompt(template).unwrap(), prompt);
            }
        }
        assert_eq!(recorded.len(), 50);
    }
}
