//! `cascade-lab trace` and `cascade-lab replay`, end to end.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::command::{output, refused, run};
use crate::common::{cascade, project, stdout};
use crate::tune::demo_with_k;

/// Logits closer than this may swap ranks on another machine.
const NEAR_TIE: f64 = 1e-4;

fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), content).unwrap();
        self.name(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

/// The command that records some word problems with a demo family.
fn record(folder: &Folder, family: &str, name: &str, more: &str) -> String {
    let config = project(&format!("configs/demo-{family}.yaml"));
    let file = folder.name(name);
    format!("trace record --config {config} --dataset problems --output {file} {more}")
}

/// The shipped traces equal the targets' outputs.
fn ships_what_the_target_says(family: &str) {
    let shipped = std::fs::read_to_string(project(&format!("traces/demo-{family}-problems.jsonl")));
    let shipped = objects(&shipped.unwrap());
    assert_eq!(shipped.len(), 51);
    let folder = Folder::new();
    run(&record(
        &folder,
        family,
        "again.jsonl",
        "--offset 8 --limit 3",
    ));
    let again = objects(&folder.read("again.jsonl"));
    assert_eq!(again.len(), 4);
    for key in [
        "model",
        "tokenizer",
        "vocab_size",
        "eos",
        "max_new_tokens",
        "template",
        "dtype",
    ] {
        assert_eq!(again[0][key], shipped[0][key]);
    }
    for (found, shipped) in again[1..].iter().zip(&shipped[9..]) {
        for key in ["id", "source", "context"] {
            assert_eq!(found[key], shipped[key]);
        }
        let ids = |record: &Value| record["output"].as_array().unwrap().clone();
        let gaps = |record: &Value| -> Vec<f64> {
            let gaps = record["gaps"].as_array().unwrap().iter();
            gaps.map(|gap| gap.as_f64().unwrap()).collect()
        };
        let same = ids(found)
            .iter()
            .zip(ids(shipped))
            .take_while(|(a, b)| *a == b)
            .count();
        let whole = same == ids(shipped).len();
        let excused = !whole && gaps(shipped)[same] < NEAR_TIE;
        assert!(
            whole || excused,
            "token {same} of record {} differs",
            shipped["id"]
        );
        for (a, b) in gaps(found).iter().zip(gaps(shipped)).take(same) {
            assert!(
                (a - b).abs() < NEAR_TIE * (1.0 + b),
                "gap {a} instead of {b}"
            );
        }
    }
}

#[test]
fn ships_what_the_t5_target_says() {
    ships_what_the_target_says("t5");
}

#[test]
fn ships_what_the_llama_target_says() {
    ships_what_the_target_says("llama");
}

/// A replay has the tokens, steps and calls of the real run.
fn replays_what_runs(family: &str) {
    let folder = Folder::new();
    let config = folder.file("k.yaml", demo_with_k(family));
    run(&record(&folder, family, "t.jsonl", "--limit 3"));
    let from_problems = "--dataset problems --limit 3 --json";
    let runs = objects(&run(&format!("run --config {config} {from_problems}")));
    let trace = folder.name("t.jsonl");
    let mut replays = objects(&run(&format!(
        "replay --trace {trace} --config {config} --json"
    )));
    let sums = replays.pop().unwrap();
    assert_eq!((runs.len(), replays.len()), (3, 3));
    for (run, replay) in runs.iter().zip(&replays) {
        for (key, value) in replay.as_object().unwrap() {
            if !["replayed", "category", "turn", "models"].contains(&key.as_str()) {
                assert_eq!(run[key], *value, "{key}");
            }
        }
        let calls = |record: &Value| -> Vec<Value> {
            let models = record["models"].as_array().unwrap().iter();
            models
                .map(|m| json!([m["name"], m["role"], m["calls"]]))
                .collect()
        };
        assert_eq!(calls(run), calls(replay));
    }
    let sum = |key: &str| -> u64 { runs.iter().map(|run| run[key].as_u64().unwrap()).sum() };
    for key in ["num_tokens", "num_spec_steps", "num_draft_tokens"] {
        assert_eq!(sums["total"][key], sum(key));
    }
    assert_eq!(sums["provenance"], "measured");
}

#[test]
fn t5_replays_what_runs() {
    replays_what_runs("t5");
}

#[test]
fn llama_replays_what_runs() {
    replays_what_runs("llama");
}

#[test]
fn an_interrupted_recording_resumes_to_the_same_file() {
    let folder = Folder::new();
    let record = |name: &str, more: &str| record(&folder, "llama", name, more);
    let resume = "--limit 4 --max-new-tokens 12 --resume";
    run(&record("whole.jsonl", resume));
    let whole = folder.read("whole.jsonl");
    let ends: Vec<usize> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
    for cut in [0, 30, ends[0], ends[1] + 5, ends[3] - 1, ends[4]] {
        folder.file("cut.jsonl", &whole[..cut]);
        let said = run(&record("cut.jsonl", resume));
        assert!(said.contains("4 records"), "{said}");
        assert_eq!(folder.read("cut.jsonl"), whole);
    }
    let message = refused(&record("whole.jsonl", "--limit 4 --max-new-tokens 12"));
    assert!(message.contains("--resume"), "{message}");

    for (args, expected) in [
        ("--limit 4 --max-new-tokens 13", "max_new_tokens 12, not 13"),
        (
            "--offset 1 --max-new-tokens 12",
            "record 1 of the trace answers another prompt (id 0 instead of 1",
        ),
    ] {
        let message = refused(&record("whole.jsonl", &format!("{args} --resume")));
        assert!(message.contains(expected), "{message}");
        assert_eq!(folder.read("whole.jsonl"), whole);
    }
    let same = format!("{resume} --template problem");
    assert!(run(&record("whole.jsonl", &same)).contains("4 of them recorded earlier"));
    assert_eq!(folder.read("whole.jsonl"), whole);
    folder.file(
        "damaged.jsonl",
        whole.replacen("\"turn\":1", "\"turn\":one", 1),
    );
    let message = refused(&record("damaged.jsonl", resume));
    assert!(
        message.contains("damaged.jsonl:2: not a record"),
        "{message}"
    );
    folder.file("longer.jsonl", &whole);
    let longer = "--limit 5 --max-new-tokens 12 --resume";
    run(&record("longer.jsonl", longer));
    assert!(folder.read("longer.jsonl").starts_with(&whole));
}

#[test]
fn conversations_are_recorded_turn_by_turn_and_resume_in_the_middle() {
    let folder = Folder::new();
    let prompts = folder.file(
        "chat.jsonl",
        "{\"prompt\": [\"Tom has 3 apples.\", \"And now?\", \"Sure?\"], \"id\": \"a\"}\n{\"prompt\": \"2 + 2\"}\n",
    );
    let record = |name: &str| {
        let (config, output) = (project("configs/demo-llama.yaml"), folder.name(name));
        run(&format!(
            "trace record --config {config} --dataset prompts --data {prompts} --template vicuna \
             --max-new-tokens 8 --resume --output {output}"
        ))
    };
    assert!(record("whole.jsonl").contains("4 records"));
    let whole = folder.read("whole.jsonl");
    let turns: Vec<_> = objects(&whole)[1..]
        .iter()
        .map(|r| r["turn"].clone())
        .collect();
    assert_eq!(turns, [1, 2, 3, 1]);
    for (end, _) in whole.match_indices('\n') {
        folder.file("cut.jsonl", &whole[..=end]);
        record("cut.jsonl");
        assert_eq!(folder.read("cut.jsonl"), whole);
    }
    let config = project("configs/demo-llama-tree.yaml");
    let trace = folder.name("whole.jsonl");
    let said = run(&format!("replay --trace {trace} --config {config}"));
    assert!(said.contains("replayed from"), "{said}");
}

const QUESTIONS: &str = r#"{"question_id": 7, "category": "writing", "turns": ["How many eggs?", "Are you sure?"]}
{"question_id": 9, "category": "qa", "turns": ["Who?"]}
"#;

const ANSWERS: &str = r#"{"question_id": 7, "model_id": "tom", "choices": [{"turns": ["There are 16 eggs and 16 eggs.", "Yes."], "new_tokens": [16, 1024]}]}
{"question_id": 9, "model_id": "tom", "choices": [{"turns": ["Tom."], "new_tokens": [2]}]}
"#;

/// The command that imports these answers.
fn import(folder: &Folder, questions: &str, answers: &str, more: &str) -> String {
    let questions = folder.file("question.jsonl", questions);
    let answers = folder.file("answers.jsonl", answers);
    let name = folder.name("imported.jsonl");
    format!(
        "trace import --format spec-bench --questions {questions} --answers {answers} \
         --tokenizer embedded:demo-llama --output {name} {more}"
    )
}

#[test]
fn imported_answers_are_replayed_without_their_target() {
    let folder = Folder::new();
    let said = run(&import(&folder, QUESTIONS, ANSWERS, "--dtype f16"));
    assert!(said.contains("3 records"), "{said}");
    let trace = objects(&folder.read("imported.jsonl"));
    assert_eq!(trace[0]["provenance"], "imported");
    assert_eq!(
        (&trace[0]["model"], &trace[0]["dtype"]),
        (&json!("tom"), &json!("f16"))
    );
    assert!(trace[0].get("machine").is_none());
    assert_eq!(trace[0]["dataset"], "spec-bench");
    let finishes: Vec<_> = trace[1..]
        .iter()
        .map(|r| r["finish"].as_str().unwrap())
        .collect();
    assert_eq!(finishes, ["eos", "length", "eos"]);
    assert!(trace[1..].iter().all(|record| record.get("gaps").is_none()));
    // The conversation continues where the answer ended.
    let ids = |record: &Value, key: &str| record[key].as_array().unwrap().clone();
    let first = [ids(&trace[1], "context"), ids(&trace[1], "output")].concat();
    assert_eq!(ids(&trace[2], "context")[..first.len()], first);

    let config = folder.file(
        "c.yaml",
        "target: {model: org/nowhere}\ndrafters:\n  - prompt_lookup: {max_ngram: 2}\nk: {matrix: [[4]]}\ngeneration: {max_new_tokens: 1024}\n",
    );
    let path = folder.name("imported.jsonl");
    let output = output(&format!("replay --trace {path} --config {config}"));
    let (table, warnings) = (stdout(&output), String::from_utf8(output.stderr).unwrap());
    for part in [
        "replayed",
        "imported outputs of tom",
        "writing",
        "qa",
        "total",
        "prompt-lookup",
    ] {
        assert!(table.contains(part), "{table}");
    }
    assert!(
        warnings.contains("the trace is of tom, and the target of"),
        "{warnings}"
    );

    // MT-bench has the categories of Spec-Bench's first 80 questions alone.
    let first = |lines: &str| lines.lines().next().unwrap().to_owned();
    let (questions, answers) = (first(QUESTIONS), first(ANSWERS));
    run(&import(&folder, &questions, &answers, "--force"));
    let trace = objects(&folder.read("imported.jsonl"));
    assert_eq!(trace[0]["dataset"], "mt-bench");

    let again = refused(&import(&folder, QUESTIONS, ANSWERS, ""));
    assert!(again.contains("exists already"), "{again}");
}

/// Two answers as SpecDecode-Bench's simulator writes them, in made-up ids. The drafter `b` was
/// recorded with another first answer.
const YIELDS: &str = r#"{"id": "1", "prompt_token_ids": [7, 8, 9, 5], "generated_token_ids": [7, 8, 9, 5, 7, 8, 9, 2], "acc_a": {"acc_len": [1, 1, 1, 1, 4, 3, 2, 1]}, "acc_b": {"acc_len": [3, 2, 1, 1, 2, 1]}}
{"id": "2", "prompt_token_ids": [7, 1], "generated_token_ids": [3, 4, 2], "acc_a": {"acc_len": [1, 1, 1]}, "acc_b": {"acc_len": [2, 1, 1]}}
"#;

#[test]
fn recorded_drafters_stand_beside_ours() {
    let folder = Folder::new();
    let answers = folder.file("answers.jsonl", YIELDS);
    let name = folder.name("imported.jsonl");
    let import = format!(
        "trace import --format spec-decode-bench --answers {answers} --model tom --output {name}"
    );
    run(&import);
    let trace = objects(&folder.read("imported.jsonl"));
    assert_eq!(
        (
            &trace[0]["eos"],
            &trace[0]["vocab_size"],
            &trace[0]["dataset"]
        ),
        (&json!([2]), &json!(10), &json!("answers"))
    );
    assert_eq!(trace[1]["yields"]["b"], json!([3, 2, 1, 1, 2, 1]));
    let config = |more: &str| {
        let lookup = "target: {model: org/nowhere}\ndrafters:\n  - prompt_lookup: {max_ngram: 2}\n";
        folder.file("c.yaml", format!("{lookup}k: {{matrix: [[4]]}}\n{more}"))
    };
    let replay = |more: &str| {
        let said = run(&format!(
            "replay --trace {name} --config {} --json",
            config(more)
        ));
        objects(&said).pop().unwrap()
    };
    // a: one token at a time up to the fifth, which brings the rest; b: 1, 3, 1, 1; the longer of
    // both where b has places: 1, 3, 1, 4.
    let of = |records, tokens, forwards, other_lengths| json!({"records": records, "tokens": tokens, "forwards": forwards, "other_lengths": other_lengths});
    let whole = replay("");
    let (a, b, longest) = (
        of(2, 11, 6 + 3, 0),
        of(2, 6 + 3, 4 + 2, 1),
        of(2, 6 + 3, 4 + 2, 1),
    );
    assert_eq!(
        whole["recorded_drafters"],
        json!({"a": a, "b": b, "longest": longest})
    );
    assert_eq!(whole["total"]["num_tokens"], 11);
    let cut = replay("generation: {max_new_tokens: 2}\n");
    assert_eq!(cut["recorded_drafters"]["a"], of(2, 4, 4, 0));
    let said = run(&format!(
        "replay --trace {name} --config {} --row-cost 0.1",
        config("")
    ));
    assert!(
        said.contains("recorded drafters") && said.contains("longest"),
        "{said}"
    );

    let wrong = YIELDS.replace("[1, 1, 1]}", "[1, 0, 1]}");
    folder.file("answers.jsonl", wrong);
    let error = refused(&format!("{import} --force"));
    assert!(
        error.contains("answers.jsonl:2: \"acc_a\" has 0 tokens at place 1"),
        "{error}"
    );
    let error = refused(
        &import
            .replace("spec-decode-bench", "spec-bench")
            .replace("imported", "new"),
    );
    assert!(
        error.contains("--questions") || error.contains("not an answer"),
        "{error}"
    );
}

#[test]
fn answers_that_fit_no_question_are_refused() {
    let folder = Folder::new();
    for (answers, expected) in [
        (
            ANSWERS.replace("\"question_id\": 9", "\"question_id\": 10"),
            "answers.jsonl:2: the answer is to question 10",
        ),
        (
            ANSWERS
                .replace("[\"Tom.\"]", "[\"Tom.\", \"No.\"]")
                .replace("[2]", "[]"),
            "turn",
        ),
        ("{}\n".into(), "answers.jsonl:1: not an answer"),
    ] {
        let message = refused(&import(&folder, QUESTIONS, &answers, ""));
        assert!(message.contains(expected), "{message}");
        assert!(!folder.path("imported.jsonl").exists());
    }
    let message = refused(&import(&folder, QUESTIONS, ANSWERS, "--vocab-size 20"));
    assert!(
        message.contains("outside the vocabulary of 20"),
        "{message}"
    );
}

#[test]
fn describes_a_trace() {
    let trace = project("traces/demo-llama-problems.jsonl");
    let ended = std::fs::read_to_string(&trace).unwrap();
    let ended = format!("eos {}", ended.matches(r#""finish":"eos""#).count());
    let text = run(&format!("trace show {trace}"));
    for part in [
        "demo-llama-target",
        "measured, f32",
        "records",
        &ended,
        "gaps",
        "median",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let object = &objects(&run(&format!("trace show {trace} --json")))[0];
    assert_eq!(
        (&object["records"], &object["header"]["template"]),
        (&json!(50), &json!("problem"))
    );
}

#[test]
fn what_cannot_be_replayed_is_refused_with_the_cure() {
    let folder = Folder::new();
    let t5 = project("traces/demo-t5-problems.jsonl");
    let llama = project("configs/demo-llama-tree.yaml");
    let demo = std::fs::read_to_string(project("configs/demo-t5.yaml")).unwrap();
    let sampled = folder.file(
        "sampled.yaml",
        demo.replace("temperature: 0", "temperature: 0.7"),
    );
    let table = folder.file(
        "table.yaml",
        "target: {model: embedded:demo-t5-target}\ndrafters:\n  - max_gram: {bigram: embedded:t5}\nk: {matrix: [[4]]}\n",
    );
    let damaged = std::fs::read_to_string(&t5).unwrap();
    let damaged = folder.file("damaged.jsonl", &damaged[..damaged.len() - 20]);
    let notes = folder.file("notes.txt", "my notes\n");
    let demo = project("configs/demo-t5.yaml");
    for (trace, config, expected) in [
        (
            &t5,
            &llama,
            "drafter `demo-llama-base` is decoder-only and target `demo-llama-target` is encoder-decoder",
        ),
        (&t5, &table, "was built for another tokenizer"),
        (&t5, &sampled, "set the temperature to 0"),
        (
            &damaged,
            &demo,
            "damaged.jsonl:51: the last line is cut off",
        ),
        (&notes, &demo, "notes.txt: not a trace"),
        (
            &folder.name("none.jsonl"),
            &demo,
            "none.jsonl: No such file",
        ),
    ] {
        let message = refused(&format!("replay --trace {trace} --config {config}"));
        assert!(message.contains(expected), "{message}");
    }
    let output = folder.name("t.jsonl");
    let message = refused(&format!("trace record --output {output}"));
    assert!(message.contains("nothing to record"), "{message}");
}

#[test]
fn records_longer_than_the_configuration_are_cut_with_a_warning() {
    let folder = Folder::new();
    let short = folder.file(
        "short.yaml",
        demo_with_k("t5").replace("max_new_tokens: 160", "max_new_tokens: 20"),
    );
    let trace = project("traces/demo-t5-problems.jsonl");
    let output = output(&format!(
        "replay --trace {trace} --config {short} --limit 2 --json"
    ));
    let records = objects(&stdout(&output));
    assert_eq!(
        (&records[0]["num_tokens"], &records[0]["finish_reason"]),
        (&json!(20), &json!("length"))
    );
    assert_eq!(records[2]["total"]["num_tokens"], 40);
    let warnings = String::from_utf8(output.stderr).unwrap();
    assert!(
        warnings.contains("50 of 50 records are longer"),
        "{warnings}"
    );
}

/// Schedules under assumed costs, of the shipped recording: the online one against fixed lengths.
#[test]
fn replays_with_assumed_costs_compare_schedules() {
    let folder = Folder::new();
    let config = folder.file(
        "max-gram.yaml",
        "target: { model: embedded:demo-t5-target }\n\
         drafters: [{ max_gram: { bigram: embedded:demo } }]\n\
         generation: { max_new_tokens: 160 }\n",
    );
    let trace = project("traces/demo-t5-problems.jsonl");
    let replay = |more: &str| format!("replay --trace {trace} --config {config} {more}");
    let costs = "--row-cost 0,0.1,3 --lengths 1,3,8 --oracle --limit 20";
    let json = run(&replay(&format!("{costs} --json")));
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&report["assumed"], &report["provenance"]),
        (&true.into(), &"measured".into())
    );
    let ways = report["ways"].as_array().unwrap();
    let names: Vec<&str> = ways
        .iter()
        .map(|way| way["drafts"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["online", "1 tokens", "3 tokens", "8 tokens", "oracle"]
    );
    let speedup =
        |way: usize, cost: usize| ways[way]["outcomes"][cost]["speedup"].as_f64().unwrap();
    for cost in 0..3 {
        let best = report["best_length_in_hindsight"][cost][1]
            .as_f64()
            .unwrap();
        assert_eq!(
            best,
            (1..4).map(|way| speedup(way, cost)).fold(0.0, f64::max)
        );
    }
    // It drafts what will be accepted, which is best where a row costs less than a forward.
    for cost in 0..2 {
        let (online, oracle) = (speedup(0, cost), speedup(4, cost));
        assert!(
            online <= oracle,
            "{online}: the oracle bounds all, {oracle}"
        );
    }
    assert!(speedup(0, 0) > 0.95 * report["best_length_in_hindsight"][0][1].as_f64().unwrap());
    // A row costs three forwards: fixed lengths lose, and next to nothing is drafted.
    let dear = (speedup(0, 2), speedup(3, 2));
    assert!(dear.0 > 0.9 && dear.1 < 0.3, "{dear:?}");
    let text = run(&replay(costs));
    assert!(text.contains("an assumption, not a measurement"), "{text}");
    assert!(text.contains("best length in hindsight"), "{text}");
    // A stop rule stands beside the schedule, which may be the configuration's or another one.
    let ruled = run(&replay(
        "--stop-rule length=1 --row-cost 0.1 --limit 2 --json",
    ));
    assert!(objects(&ruled).iter().all(|object| object.is_object()));
    let message = refused(&replay("--schedule static"));
    assert!(message.contains("has no `k`"), "{message}");
    // Nothing pays where forwards take no time.
    let k = folder.file("k.yaml", demo_with_k("t5"));
    let online = format!("replay --trace {trace} --config {k} --schedule online");
    for line in [replay("--limit 2"), online] {
        let message = refused(&line);
        assert!(
            message.contains("--row-cost") && message.contains("--costs"),
            "{message}"
        );
    }
    for (bad, says) in [
        ("--row-cost=-1", "0 and above"),
        ("--row-cost nan", "0 and above"),
        ("--lengths 3", "--row-cost"),
        ("--texts 4", "--row-cost"),
        ("--row-cost 0.1 --texts 0", "from 1 to"),
        ("--row-times 4", "rows and times above 0"),
        ("--stop-rule magic", "there is no stop rule `magic`"),
    ] {
        assert!(refused(&replay(bad)).contains(says), "{bad}");
    }
}

#[test]
fn a_model_agrees_with_its_own_trace() {
    for family in ["t5", "llama"] {
        let trace = project(&format!("traces/demo-{family}-problems.jsonl"));
        let score = |size: &str, more: &str| {
            let scored = run(&format!(
                "trace score {trace} -m embedded:demo-{family}-{size} --limit 4 --device cpu --json {more}"
            ));
            objects(&scored).remove(0)
        };
        let target = score("target", "");
        assert_eq!(
            (&target["records"], &target["dtype"]),
            (&json!(4), &json!("f32"))
        );
        assert_eq!(target["agreement"], 1.0, "{family}");
        let perplexity = |scored: &Value| scored["perplexity"].as_f64().unwrap();
        let drafter = score("small", "");
        assert!(perplexity(&target) >= 1.0 && perplexity(&drafter) >= 1.0);
        assert!(drafter["agreement"].as_f64() < Some(1.0));
        // Fewer bits predict nearly the same.
        let rounded = perplexity(&score("target", "--dtype q8_0"));
        let ratio = rounded / perplexity(&target);
        assert!(
            ratio != 1.0 && (ratio - 1.0).abs() < 0.05,
            "{family}: {ratio}"
        );
    }
}

#[test]
fn only_models_of_its_vocabulary_and_architecture_score_a_trace() {
    let trace = project("traces/demo-t5-problems.jsonl");
    let score = |model: &str| refused(&format!("trace score {trace} --model embedded:{model}"));
    let other = score("demo-llama-small");
    assert!(
        other.contains("another tokenizer") || other.contains("decoder-only"),
        "{other}"
    );
    assert!(score("demo-t5-small --dtype q9").contains("q9"));
    assert!(score("demo-t5-small --limit 0").contains("0"));
    let missing = refused("trace score none.jsonl -m x/y");
    assert!(missing.contains("none.jsonl"), "{missing}");
}

/// In the form of a chat template, its end-of-text token ends an answer, in recordings as in runs.
#[test]
fn answers_in_a_chat_template_end_where_runs_end_them() {
    let folder = Folder::new();
    let record = |name: &str, template: &str| {
        let output = folder.name(name);
        let args = ["trace", "record", "-m", "embedded:demo-llama-target"];
        let prompt = ["--template", template, "--max-new-tokens", "24"];
        let asked = [
            "--output",
            &output,
            "--prompt",
            "Ann has 3 pens and buys 4.",
        ];
        stdout(&cascade(&[&args[..], &prompt, &asked].concat()));
        objects(&folder.read(name))
    };
    let template = |end: &str| {
        let text = "Question: {{ messages[0]['content'] }} Answer:";
        json!({ "chat_template": text, "eos_token": end }).to_string()
    };
    let without = folder.file("without.json", template("</s>"));
    let [header, whole] = &record("whole.jsonl", &without)[..] else {
        panic!("a header and a record");
    };
    // One of the tokens that the model says, by its name.
    let end = &whole["output"][5];
    let tokenizer = project("crates/cascade-demo/models/demo-llama-target/tokenizer.json");
    let tokenizer: Value = serde_json::from_slice(&std::fs::read(tokenizer).unwrap()).unwrap();
    let vocabulary = tokenizer["model"]["vocab"].as_object().unwrap();
    let (name, _) = vocabulary.iter().find(|(_, id)| *id == end).unwrap();
    let with = folder.file("with.json", template(name));
    let [cut_header, cut] = &record("cut.jsonl", &with)[..] else {
        panic!("a header and a record");
    };
    let ends = |header: &Value| header["eos"].as_array().unwrap().clone();
    assert_eq!(
        ends(cut_header),
        [&ends(header)[..], std::slice::from_ref(end)].concat()
    );
    assert_eq!(
        (&cut["finish"], cut["output"].as_array().unwrap().last()),
        (&json!("eos"), Some(end))
    );
    let run = [
        "run",
        "-m",
        "embedded:demo-llama-target",
        "--template",
        &with,
        "--json",
    ];
    let more = ["--max-new-tokens", "24", "Ann has 3 pens and buys 4."];
    let answer = objects(&stdout(&cascade(&[&run[..], &more].concat()))).remove(0);
    assert_eq!(answer["token_ids"], cut["output"]);
}

/// Several texts at a time change nothing in the file but the seconds.
#[test]
fn batches_record_the_same_file() {
    let folder = Folder::new();
    let sampled = "--temperature 0.8 --seed 11 --top-probabilities 4";
    for (family, more) in [("llama", sampled), ("t5", "")] {
        let with = |batch: u8| {
            let name = format!("{family}-{batch}.jsonl");
            let more = format!("--limit 5 --max-new-tokens 20 {more} --batch {batch}");
            run(&record(&folder, family, &name, &more));
            folder.read(&name)
        };
        let alone = with(1);
        assert_eq!(objects(&alone).len(), 6);
        for batch in [2, 5, 9] {
            assert_eq!(with(batch), alone, "{family} {batch}");
        }
    }
}

/// Samples with seeds and probabilities: recorded as `run` gives them, replayed with the same
/// drafts, and refused where they cannot be used.
#[test]
fn samples_are_recorded_and_replayed() {
    let folder = Folder::new();
    let sampling = "--temperature 0.8 --top-p 0.9 --seed 11";
    let few = "--limit 2 --max-new-tokens 40";
    let record = |name: &str, more: &str| record(&folder, "llama", name, more);
    let asked = format!("{sampling} {few} --top-probabilities 12");
    run(&record("sampled.jsonl", &asked));
    let lines = objects(&folder.read("sampled.jsonl"));
    assert_eq!(lines[0]["sampling"]["seed"], 11);
    assert_eq!(lines[0]["sampling"]["top_p"], 0.9);

    let (config, trace) = (
        folder.file("k.yaml", demo_with_k("llama")),
        folder.name("sampled.jsonl"),
    );
    let live = objects(&run(&format!(
        "run --config {config} --dataset problems --json {sampling} {few}"
    )));
    let replay = |config: &str, trace: &str| format!("replay --config {config} --trace {trace}");
    let replayed = objects(&run(&format!("{} --json", replay(&config, &trace))));
    for ((record, run), replayed) in lines[1..].iter().zip(&live).zip(&replayed) {
        assert_eq!(record["output"], run["token_ids"]);
        assert_eq!(record["top"].as_array().unwrap().len(), run["num_tokens"]);
        for key in [
            "token_ids",
            "token_origins",
            "per_step_accepted",
            "per_step_drafted",
        ] {
            assert_eq!(replayed[key], run[key], "{key}");
        }
    }

    // The online schedule, too, and what became of what drafters said.
    let online = folder.file(
        "online.yaml",
        "target: { model: embedded:demo-llama-target }\ndrafters: [{ max_gram_tree: {} }]\n",
    );
    let assumed = format!("{} --row-cost 0.05 --reliability", replay(&online, &trace));
    let report = objects(&run(&format!("{assumed} --json"))).remove(0);
    let of = &report["reliability"]["1"];
    let tokens = |bins: &serde_json::Value| -> u64 {
        let bins = bins.as_array().unwrap().iter();
        bins.map(|bin| bin["tokens"].as_u64().unwrap()).sum()
    };
    assert_eq!(tokens(&of["stated"]), tokens(&of["believed"]));
    assert!(tokens(&of["stated"]) > 20, "{of}");
    assert!(run(&assumed).contains("believed"));
    let said = refused(&format!("{} --reliability", replay(&config, &trace)));
    assert!(said.contains("--reliability needs times"), "{said}");

    let small = "-m embedded:demo-llama-small --json";
    let scored = objects(&run(&format!("trace score {trace} {small}")));
    let of = |rule: &str, side: usize| scored[0]["acceptance"][rule][side].as_f64().unwrap();
    assert!(of("coupled", 0) <= of("coupled", 1) && of("coupled", 1) <= of("drawn", 1));
    assert!(of("coupled", 0) > 0.0 && of("drawn", 1) < 1.0);
    let shown = run(&format!("trace show {trace}"));
    assert!(
        shown.contains("sampled at temperature 0.8, top_p 0.9, seed 11"),
        "{shown}"
    );

    // Experiments replay samples as they were recorded.
    let out = folder.name("specdec");
    run(&format!(
        "reproduce specdec --trace {trace} --limit 2 --out {out}"
    ));
    let table = std::fs::read_to_string(format!("{out}/table.md")).unwrap();
    for said in [
        "equals the recorded one",
        "Sampled: temperature 0.8, top-p 0.9",
        "(replayed)",
    ] {
        assert!(table.contains(said), "{said}: {table}");
    }

    // Other settings, other rules, greedy traces, and what needs greedy ones.
    let yaml = std::fs::read_to_string(&config).unwrap();
    let other = yaml.replace(
        "max_new_tokens: 160",
        "max_new_tokens: 160\n  temperature: 0.7",
    );
    let other = folder.file("other.yaml", other);
    let said = refused(&replay(&other, &trace));
    assert!(
        said.contains("temperature 0.8, top_p 0.9") && said.contains("temperature 0.7"),
        "{said}"
    );
    let shipped = project("traces/demo-llama-problems.jsonl");
    let said = refused(&replay(&other, &shipped));
    assert!(said.contains("greedy"), "{said}");
    let said = refused(&format!("tune --config {config} --trace {trace}"));
    assert!(said.contains("samples (temperature 0.8"), "{said}");
    let drawn = format!("{sampling} {few} --rule iterated");
    let said = refused(&record("drawn.jsonl", &drawn));
    assert!(
        said.contains("iterated") && said.contains("coupled"),
        "{said}"
    );
    let greedy = format!("{few} --top-probabilities 12");
    let said = refused(&record("greedy.jsonl", &greedy));
    assert!(said.contains("--top-probabilities"), "{said}");
}
