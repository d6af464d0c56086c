//! The `cascade` command, end to end.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use cascade_eval::RandomSample;
use serde_json::Value;

use crate::common::{cascade, command, error, program_of, project, stdout};
use crate::line::{assert_says, line, words};

fn config(name: &str) -> String {
    project(&format!("configs/{name}"))
}

/// What is said of each prompt, without what is said of all that were compared.
fn records(output: &Output) -> Vec<Value> {
    stdout(output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|record: &Value| record.get("compared").is_none())
        .collect()
}

fn file(name: &str, content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::File::create(&path)
        .unwrap()
        .write_all(content)
        .unwrap();
    (folder, path)
}

#[test]
fn runs_the_embedded_demo_without_arguments() {
    let text = said(&["run", "--max-new-tokens", "12"]);
    assert!(text.contains("[3/3]") && !text.contains('\u{1b}'), "{text}");
    let total = &text[text.find("total: ").unwrap()..];
    assert_says(
        total,
        "of 3 answers right ( … at the length limit)\n36 tokens,  … tokens/s,  … \
         drafted accepted\nprompts: read in  …  s\ncalls: demo-t5-target ",
    );
    assert!(
        total.lines().all(|line| line.chars().count() <= 80),
        "{total}"
    );
}

/// Standard error of a command that succeeds.
fn said(args: &[&str]) -> String {
    let output = cascade(args);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The demo is described in the same words wherever one meets it.
#[test]
fn one_sentence_says_what_the_demo_knows() {
    const KNOWS: &str =
        "know word problems of the kinds that `cascade-lab demo problems` prints, and nothing else";
    let read = |path: &str| std::fs::read_to_string(project(path)).unwrap();
    let of_page = read("crates/cascade-serve/page/index.html")
        .replace("<code>", "`")
        .replace("</code>", "`");
    let texts = [
        read("README.md"),
        read("docs/chat.md"),
        read("docs/serve.md"),
        of_page,
        stdout(&cascade(&["run", "--help"])),
        stdout(&cascade(&["chat", "--help"])),
        stdout(&cascade(&["serve", "--help"])),
        said(&["run", "Who wrote Faust?", "--max-new-tokens", "2"]),
    ];
    for text in texts {
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ").replace("knows word", "know word");
        assert!(text.contains(KNOWS), "{text}");
    }
}

#[test]
fn own_questions_in_the_demos_words_get_no_remark() {
    let ask = |question: &str| said(&["run", question, "--max-new-tokens", "2"]);
    let known = "Ann has 12 shells. Tom has 3 times as many. How many shells have the two?";
    assert!(!ask(known).contains("note: "));
    let other = ask("Ann feeds 2 giraffes. How many legs do they have?");
    assert!(other.contains("\"giraffes\""), "{other}");
}

#[test]
fn quiet_leaves_the_answers_and_a_file_takes_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let run = |more: &[&str]| {
        cascade(&[&["run", "--limit", "1", "--max-new-tokens", "8"], more].concat())
    };
    let json = stdout(&run(&["--json"]));
    let record: Value = serde_json::from_str(&json).unwrap();
    let answer = format!("{}\n", record["text"].as_str().unwrap());
    let loud = run(&[]);
    assert_eq!(stdout(&loud), answer);
    let told = String::from_utf8(loud.stderr).unwrap();
    assert_says(&told, "cut at 8 tokens … 8 tokens, … tokens/s … calls: ");
    let quiet = run(&["--quiet"]);
    assert_eq!(stdout(&quiet), answer);
    let told = String::from_utf8(quiet.stderr).unwrap();
    assert_eq!(
        told,
        "prompt 1: cut at 8 tokens: -n 16 lets the answer go on\n"
    );
    for more in [&["--quiet"][..], &[]] {
        let to_file = ["--output", &at("answer.txt"), "--force"];
        assert_eq!(stdout(&run(&[&to_file[..], more].concat())), "");
        assert_eq!(std::fs::read_to_string(at("answer.txt")).unwrap(), answer);
    }
    // Warnings and errors are said in any case.
    let refused = error(&run(&["--quiet", "--output", &at("answer.txt")]));
    assert!(refused.contains("answer.txt"), "{refused}");
    let json = stdout(&run(&["--json", "--output", &at("answer.txt"), "--force"]));
    assert_eq!(json, "");
    let record = std::fs::read_to_string(at("answer.txt")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["num_tokens"], 8);
}

#[test]
fn help_has_groups_and_examples() {
    let help = stdout(&cascade(&["--help"]));
    assert_says(&help, "Generate:\n  run  … Models:\n  quantize  … Options:");
    let of_laboratory = stdout(
        &Command::new(program_of(&["tune"]))
            .arg("--help")
            .output()
            .unwrap(),
    );
    assert!(
        of_laboratory.contains("Papers:\n  reproduce "),
        "{of_laboratory}"
    );
    let run = stdout(&cascade(&["run", "-h"]));
    assert_says(
        &run,
        "Models and drafting: … Prompts: … Decoding: … Examples:\n  cascade run\n",
    );
}

#[test]
fn colours_on_demand() {
    let output = line("run --limit 1 --max-new-tokens 12 --color always", &[]);
    assert!(stdout(&output).contains('\u{1b}'));
    let told = String::from_utf8(output.stderr).unwrap();
    assert_says(
        &told,
        "first proposed by: … demo-t5-target … demo-t5-base … max-gram",
    );
}

#[test]
fn json_is_complete_and_the_comparison_equal() {
    for family in ["demo-t5.yaml", "demo-llama.yaml"] {
        let output = line(
            "run --config {} --dataset problems --offset 5 --limit 2 --max-new-tokens 20 \
            --compare --json",
            &[&config(family)],
        );
        let records = records(&output);
        assert_eq!(records.len(), 2);
        for record in &records {
            let count = |key: &str| {
                record[key]
                    .as_u64()
                    .unwrap_or_else(|| panic!("{key} in {record}"))
            };
            let tokens = record["token_ids"].as_array().unwrap().len() as u64;
            assert_eq!(count("num_tokens"), tokens);
            assert_eq!(
                record["token_origins"].as_array().unwrap().len() as u64,
                tokens
            );
            assert!(record["prompt"].as_str().unwrap().starts_with("Question: "));
            assert!(!record["text"].as_str().unwrap().is_empty());
            assert!(count("num_accepted_draft_tokens") <= count("num_draft_tokens"));
            let histogram: u64 = record["acceptance_histogram"]
                .as_array()
                .unwrap()
                .iter()
                .map(|n| n.as_u64().unwrap())
                .sum();
            assert_eq!(histogram, count("num_spec_steps"));
            assert_eq!(record["models"][0]["role"], "target");
            assert_eq!(record["models"][0]["calls"], record["num_spec_steps"]);
            assert_eq!(record["models"].as_array().unwrap().len(), 4);
            for key in [
                "wall_seconds",
                "tokens_per_second",
                "mean_acceptance_length",
                "speedup",
            ] {
                assert!(record[key].as_f64().unwrap() > 0.0, "{key}");
            }
            assert_eq!(record["equal_to_plain"], true);
        }
    }
}

#[test]
fn plain_decoding_asks_the_target_only() {
    let record = &records(&line(
        "run --limit 1 --max-new-tokens 9 --no-speculation --json",
        &[],
    ))[0];
    assert_eq!(record["mean_acceptance_length"], 1.0);
    assert_eq!(record["num_draft_tokens"], 0);
    assert_eq!(record["models"][0]["calls"], 9);
    assert_eq!(record["models"][1]["calls"], 0);
}

#[test]
fn prompts_from_a_file_carry_their_fields_through() {
    let lines = b"{\"prompt\": \"Tom has 3 apples.\", \"id\": 17, \"text\": \"mine\"}\n\n{\"prompt\": \"2 + 2\"}\n";
    let (_folder, path) = file("prompts.jsonl", lines);
    let output = line(
        "run --prompts {} --max-new-tokens 4 --json",
        &[path.to_str().unwrap()],
    );
    let records = records(&output);
    assert_eq!(records.len(), 2);
    assert_eq!(records[0]["id"], 17);
    assert_eq!(records[0]["prompt"], "Question: Tom has 3 apples. Answer:");
    assert_ne!(records[0]["text"], "mine");
    assert_eq!(records[0]["num_tokens"], 4);
}

/// A dataset excerpt of the datasets' own tests.
fn excerpt(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../cascade-eval/tests/data")
        .join(name)
        .display()
        .to_string()
}

#[test]
fn datasets_come_from_files_and_samples_from_seeds() {
    let run = |data: &str, seed: &str| {
        let data = excerpt(data);
        let mut args = vec!["run", "--dataset", "mmlu", "--data", &data];
        args.extend(["--template", "t5-mmlu", "--offset", "1", "--sample", "2"]);
        args.extend(["--sample-seed", seed, "--max-new-tokens", "2", "--json"]);
        records(&cascade(&args))
    };
    for seed in [0, 1, 2, 3] {
        let sample = RandomSample { size: 2, seed };
        let expected: Vec<_> = sample
            .positions(4)
            .unwrap()
            .iter()
            .map(|position| (position + 1).to_string())
            .collect();
        for data in ["mmlu", "parquet/mmlu.parquet"] {
            let records = run(data, &seed.to_string());
            let ids: Vec<_> = records.iter().map(|r| r["id"].as_str().unwrap()).collect();
            assert_eq!(ids, expected);
        }
    }
    let record = &run("mmlu", "0")[1];
    let prompt = record["prompt"].as_str().unwrap();
    assert!(
        prompt.ends_with("\n Answer: \n Let's think step by step. "),
        "{prompt}"
    );
    assert!(record["category"].is_string() && record["references"].is_array());
    assert_eq!(record.get("turn"), None);
}

#[test]
fn conversations_go_on_with_the_models_own_answers() {
    let data = excerpt("spec_bench.jsonl");
    let llama = config("demo-llama.yaml");
    let mut args = vec!["run", "--config", &llama, "--dataset", "spec-bench"];
    args.extend(words(
        "--data {} --limit 2 --max-new-tokens 6 --json",
        &[&data],
    ));
    let vicuna = cascade(&[&args[..], &["--template", "vicuna", "--compare"]].concat());
    let records = records(&vicuna);
    let told: Vec<_> = records
        .iter()
        .map(|r| {
            (
                r["id"].as_str().unwrap(),
                r["question_id"].as_u64().unwrap(),
                r["turn"].as_u64(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("101", 101, Some(1)),
            ("101", 101, Some(2)),
            ("321", 321, None)
        ]
    );
    let answer = records[0]["text"].as_str().unwrap().trim();
    let expected = format!(
        "{} {answer}</s>USER: And if it was the last person that you stepped in front of? ASSISTANT:",
        records[0]["prompt"].as_str().unwrap()
    );
    assert_eq!(records[1]["prompt"], expected);
    assert!(
        records
            .iter()
            .all(|record| record["equal_to_plain"] == true)
    );

    let raw = cascade(&[&args[..], &["--template", "raw"]].concat());
    assert_eq!(stdout(&raw).lines().count(), 2);
    let warning = String::from_utf8(raw.stderr).unwrap();
    assert!(
        warning.contains("1 of 2 samples have several turns") && warning.contains("vicuna"),
        "{warning}"
    );

    let shown = line(
        "run --config {} --dataset mt-bench --data {} --template vicuna --limit 1 \
        --max-new-tokens 4",
        &[&llama, &excerpt("mt_bench.jsonl")],
    );
    let shown = String::from_utf8(shown.stderr).unwrap();
    assert!(
        shown.contains("[1/1, turn 2 of 2] Now write it again"),
        "{shown}"
    );
}

#[test]
fn unsuitable_datasets_are_refused_with_a_cure() {
    let mmlu = excerpt("mmlu");
    let alpaca = excerpt("alpaca.json");
    for (text, values, parts) in [
        (
            "run --dataset mmlu",
            &[""; 0][..],
            "mmlu is not part of the program … --data FILE … --data hub",
        ),
        (
            "run --dataset mmlu --data hub",
            &[],
            "cannot reach http://127.0.0.1:9 … dataset cais/mmlu@main",
        ),
        (
            "run --dataset squad",
            &[],
            "there is no dataset \"squad\" … spec-bench … prompts:FIELD",
        ),
        ("run --data {}", &[&mmlu], "--dataset <NAME>"),
        (
            "run --dataset alpaca --data {}",
            &[&alpaca],
            "embedded:demo-t5: prompt … --template … alpaca",
        ),
        (
            "run --dataset gsm8k --data {}",
            &[&mmlu],
            "holds no .jsonl, .json, .parquet file",
        ),
        (
            "run --sample 1001",
            &[],
            "1001 samples at random … there are 1000",
        ),
        (
            "run --dataset gsm8k",
            &[],
            "gsm8k is not part of the program … --data hub",
        ),
    ] {
        assert_says(&error(&line(text, values)), parts);
    }
}

#[test]
fn bad_prompts_are_refused_before_anything_is_generated() {
    let (_folder, path) = file("bad.jsonl", b"{\"prompt\": \"fine\"}\n{\"prompt\": 3}\n");
    let output = cascade(&["run", "--prompts", path.to_str().unwrap(), "--json"]);
    assert!(error(&output).contains("bad.jsonl:2"), "{}", error(&output));
    assert!(output.stdout.is_empty());
    assert!(error(&cascade(&["run", "--prompt", "  "])).contains("prompt is empty"));
    assert!(error(&cascade(&["run", "--prompts", "/nowhere.jsonl"])).contains("/nowhere.jsonl"));
    assert!(error(&cascade(&["run", "--offset", "500000000000"])).contains("100000 samples"));
    let long = "word ".repeat(3000);
    let too_long = error(&line(
        "run --config {} --prompt {}",
        &[&config("demo-llama.yaml"), &long],
    ));
    assert!(
        too_long.contains("1024 positions") && too_long.contains("shorten"),
        "{too_long}"
    );
}

#[test]
fn bad_configurations_and_models_name_file_and_cure() {
    let (_folder, path) = file(
        "bad.yaml",
        b"target: { model: embedded:demo-t5-target }\nlenienze: 3\n",
    );
    let unknown = error(&cascade(&["run", "--config", path.to_str().unwrap()]));
    assert!(
        unknown.contains("bad.yaml") && unknown.contains("lenienze"),
        "{unknown}"
    );
    assert!(error(&cascade(&["config", "check", "/nowhere.yaml"])).contains("/nowhere.yaml"));
    let hub = error(&line(
        "run --config {} --device cpu",
        &[&config("t5-xxl.yaml")],
    ));
    assert!(
        hub.contains("google/flan-t5-xxl") && hub.contains("127.0.0.1:9"),
        "{hub}"
    );
}

#[test]
fn config_check_shows_the_cascade() {
    let text = stdout(&cascade(&["config", "check", &config("t5-xxl.yaml")]));
    assert_says(
        &text,
        "target     flan-t5-xxl (google/flan-t5-xxl, bf16) … \
         drafter    max-gram (statistical) … \
         flan-t5-xxl reviews 8 from flan-t5-base, then 5 from flan-t5-small, then 10 from max-gram … \
         flan-t5-small reviews 10 from max-gram … \
         lenience   3 for neural, 1 for statistical … ok",
    );
    let loaded = stdout(&line(
        "config check --load {}",
        &[&config("demo-llama.yaml")],
    ));
    assert!(
        loaded.contains("loaded     demo-llama-target") && loaded.contains("M parameters"),
        "{loaded}"
    );
}

#[test]
fn doctor_help_and_completions() {
    let doctor = stdout(&cascade(&["doctor"]));
    assert_says(
        &doctor,
        "threads … /nonexistent/hf/hub (does not exist yet) … demo-t5-target … \
         http://127.0.0.1:9",
    );
    let help = stdout(&cascade(&["run", "--help"]))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert_says(
        &help,
        "three word problems … held as conversations … spec-bench",
    );
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(stdout(&cascade(&["completions", shell])).contains("cascade"));
    }
}

#[test]
fn a_reader_that_leaves_is_an_exit_status() {
    let mut child = command(&["run", "--limit", "1", "--max-new-tokens", "64"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(141), "{said}");
    assert!(!said.contains("error"), "{said}");
}

#[test]
fn samples_follow_their_seed() {
    let sample = |seed: &str| {
        let output = line(
            "run --prompt {} --max-new-tokens 24 --temperature 1.2 --top-p 0.95 --seed {} \
            --json",
            &["Question: 2 + 3?", seed],
        );
        records(&output)[0]["token_ids"].clone()
    };
    assert_eq!(sample("5"), sample("5"));
    assert_ne!(sample("5"), sample("6"));
}

#[test]
fn samples_equal_plain_decoding_unless_their_rule_draws() {
    let compared = |rule: &[&str]| {
        let run = words(
            "run --limit 1 --max-new-tokens 24 --temperature 1 --compare --json",
            &[],
        );
        let record = records(&cascade(&[&run[..], rule].concat())).swap_remove(0);
        assert!(record["speedup"].as_f64().unwrap() > 0.0);
        record.get("equal_to_plain").cloned()
    };
    assert_eq!(compared(&[]), Some(true.into()));
    assert_eq!(compared(&["--rule", "coupled"]), Some(true.into()));
    assert_eq!(compared(&["--rule", "iterated"]), None);
}

#[test]
fn temperature_zero_is_greedy_and_bad_sampling_is_refused() {
    let run = |settings: &[&str]| {
        let prompt = words(
            "run --prompt {} --max-new-tokens 8 --json",
            &["Question: 2 + 3?"],
        );
        cascade(&[&prompt, settings].concat())
    };
    let ids = |output: &Output| records(output)[0]["token_ids"].clone();
    assert_eq!(ids(&run(&["--temperature", "0"])), ids(&run(&[])));
    // A top-k beyond the vocabulary keeps all tokens.
    let all = ids(&run(&["--temperature", "1", "--top-k", "1000000"]));
    assert_eq!(all, ids(&run(&["--temperature", "1"])));
    assert!(error(&run(&["--temperature=-1"])).contains("temperature is -1"));
    assert!(error(&run(&["--temperature", "1", "--top-k", "0"])).contains("top_k is 0"));
    assert!(error(&run(&["--top-p", "0.9"])).contains("--temperature"));
}

#[test]
fn settings_of_a_model_that_are_not_known_are_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let model = project("crates/cascade-demo/models/demo-llama-small");
    for file in std::fs::read_dir(model).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    let set = |key: &str, value: Value| {
        let file = folder.path().join("config.json");
        let mut json: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        json[key] = value;
        std::fs::write(file, json.to_string()).unwrap();
    };
    let yaml = format!(
        "target: {{ model: {} }}\ngeneration: {{ max_new_tokens: 4 }}\nprompt: raw\n",
        folder.path().display()
    );
    let (_kept, yaml) = file("own.yaml", yaml.as_bytes());
    let yaml = yaml.to_str().unwrap();

    set("query_temperature", 0.5.into());
    let checked = stdout(&cascade(&["config", "check", "--load", yaml]));
    let lines: Vec<&str> = checked
        .lines()
        .filter(|line| line.starts_with("warning: "))
        .filter(|line| line.contains("query_temperature"))
        .collect();
    assert_eq!(lines.len(), 1, "{checked}");
    let run = cascade(&["run", "--config", yaml, "--prompt", "1 + 1 ="]);
    let warned = String::from_utf8(run.stderr.clone()).unwrap();
    stdout(&run);
    assert!(
        warned.contains("warning: ") && warned.contains("query_temperature"),
        "{warned}"
    );

    set("attn_logit_softcapping", 50.0.into());
    for args in [
        &["config", "check", "--load", yaml][..],
        &["run", "--config", yaml, "--prompt", "1 + 1 ="],
    ] {
        let refused = error(&cascade(args));
        assert!(
            refused.contains("config.json") && refused.contains("attn_logit_softcapping 50"),
            "{refused}"
        );
    }
}

#[test]
#[cfg(unix)]
fn inputs_without_an_end_are_refused() {
    for args in [
        &["replay", "--trace", "/dev/zero"][..],
        &["trace", "show", "/dev/zero"],
        &["run", "--config", "/dev/zero"],
        &["run", "--prompts", "/dev/zero"],
        &["bigram", "show", "/dev/zero"],
        &words(
            "bigram build /dev/zero --tokenizer embedded:demo-t5-target --out \
        table-of-nothing",
            &[],
        ),
    ] {
        let message = error(&cascade(args));
        assert!(message.contains("/dev/zero"), "{message}");
        assert!(message.contains("a device"), "{message}");
    }
}

#[test]
fn rows_that_no_memory_holds_are_refused() {
    let message = error(&line(
        "bench model embedded:demo-t5-small --rows 999999999",
        &[],
    ));
    assert!(message.contains("4096 at most"), "{message}");
    let args = words(
        "bench model embedded:demo-t5-small --contexts 999999999",
        &[],
    );
    let message = error(&cascade(&args));
    assert!(message.contains("131072 at most"), "{message}");
}
