//! Prompts, chat templates, and models without a configuration.

use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::common::{cascade, command, error, project, stdout};
use crate::line::{assert_says, line, words};

/// Runs a program as [`cascade`] does, with a text on standard input.
pub(crate) fn piped(args: &[&str], input: &str) -> Output {
    let mut child = command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that does not read its input closes it.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

/// LLaMA's decoder strips the blank at the beginning of a text: not that of what continues one.
#[test]
fn a_continuation_keeps_the_blank_behind_its_prompt() {
    let llama = project("tests/lookalikes/lmsys/vicuna-7b-v1.3");
    let file = format!("{llama}/tokenizer.model");
    let tokenizer = cascade_models::Tokenizer::from_file(file).unwrap();
    let decoded = |tokens: &[u32]| tokenizer.decode(tokens).unwrap();
    let mut blanks = 0;
    // Seeds with which the first token begins with a blank, and one with which it does not.
    for seed in ["1", "39", "59"] {
        let prompt = "Once upon a";
        let run = [
            "run", "-m", &llama, "--raw", prompt, "--temp", "2", "--seed", seed,
        ];
        let record = record(&run);
        let (text, ids) = (
            record["text"].as_str().unwrap(),
            record["token_ids"].clone(),
        );
        let ids: Vec<u32> = serde_json::from_value(ids).unwrap();
        let asked = cascade_core::TextCodec::encode(&tokenizer, prompt).unwrap();
        let whole = decoded(&[&asked[..], &ids].concat());
        assert_eq!(format!("{}{text}", decoded(&asked)), whole, "{prompt}");
        blanks += usize::from(text != decoded(&ids));
        let batch = [&run[..], &["--batch", "2"]].concat();
        assert_eq!(self::record(&batch)["text"], text);
    }
    assert_eq!(blanks, 2);
}

#[test]
fn a_pipe_beside_a_prompt_follows_it() {
    let ask = |args: &[&str], input: &str| {
        let args = [
            &["run", "-m", SMALL, "--max-new-tokens", "1", "--json"],
            args,
        ]
        .concat();
        let record: Value = serde_json::from_str(&stdout(&piped(&args, input))).unwrap();
        record["prompt"].as_str().unwrap().to_owned()
    };
    for (args, input, prompt) in [
        (&["Sum up:"][..], "one\ntwo\n", "Sum up:\n\none\ntwo"),
        (&["--prompt", "Sum up:"], "one", "Sum up:\n\none"),
        (&["Sum up:"], "", "Sum up:"),
        (&["Sum up:"], " \n", "Sum up:"),
        (&["-"], "one", "one"),
        (&[], "one", "one"),
    ] {
        assert_eq!(ask(args, input), prompt, "{args:?} {input:?}");
    }
}

/// A template that cannot read a list of parts gets their texts, and one that can gets the list.
#[test]
fn text_parts_of_messages_are_asked() {
    let (_folder, path) = model(&[("tokenizer_config.json", &config_with(TEMPLATE))]);
    let folder = tempfile::tempdir().unwrap();
    let prompts = folder.path().join("parts.jsonl").display().to_string();
    let parts = r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "and"}]}]}"#;
    fs::write(&prompts, parts).unwrap();
    let asked = record(&["run", "-m", &path, "--prompts", &prompts]);
    assert_eq!(asked["prompt"], "<s>[user] One\nand[answer]");
    let lists = folder.path().join("lists.jinja").display().to_string();
    let each = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}\
                {% for p in m.content %}<{{ p.text }}>{% endfor %}{% endif %}{% endfor %}";
    fs::write(&lists, each).unwrap();
    let asked = record(&[
        "run",
        "-m",
        &path,
        "--template",
        &lists,
        "--prompts",
        &prompts,
    ]);
    assert_eq!(asked["prompt"], "<One><and>");
}

const SMALL: &str = "embedded:demo-llama-small";

fn record(args: &[&str]) -> Value {
    let output = cascade(&[args, &["--max-new-tokens", "4", "--json"]].concat());
    serde_json::from_str(stdout(&output).lines().next().unwrap()).unwrap()
}

/// A folder with the smallest demo LLaMA and further files.
fn model(files: &[(&str, &str)]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let demo = project("crates/cascade-demo/models/demo-llama-small");
    for entry in fs::read_dir(demo).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() == "chat_template.jinja" {
            continue;
        }
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let path = folder.path().display().to_string();
    (folder, path)
}

/// A template in the style of LLaMA 2.
const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token if m.role == 'assistant' }}{% endfor %}{% if add_generation_prompt %}[answer]{% endif %}";

fn config_with(template: &str) -> String {
    let json =
        serde_json::json!({"chat_template": template, "bos_token": "<s>", "eos_token": "</s>"});
    json.to_string()
}

#[test]
fn a_positional_prompt_equals_the_option() {
    let positional = record(&["run", "-m", SMALL, "Question: 2 + 3?"]);
    let option = record(&["run", "-m", SMALL, "--prompt", "Question: 2 + 3?"]);
    assert_eq!(positional["prompt"], "Question: 2 + 3?");
    assert_eq!(positional["token_ids"], option["token_ids"]);
    let both = error(&cascade(&["run", "a", "--prompt", "b"]));
    assert!(both.contains("cannot be used with"), "{both}");
}

#[test]
fn models_need_no_configuration() {
    let alone = record(&["run", "-m", SMALL, "One and"]);
    let names = |record: &Value| {
        let models = record["models"].as_array().unwrap().iter();
        models
            .map(|m| m["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&alone), ["demo-llama-small", "max-gram-tree"]);
    let paper = record(&["run", "-m", SMALL, "--max-gram", "One and"]);
    assert_eq!(names(&paper), ["demo-llama-small", "max-gram"]);
    assert_eq!(paper["token_ids"], alone["token_ids"]);
    let three = words(
        "run -m embedded:demo-llama-target -d embedded:demo-llama-base -d {}",
        &[SMALL],
    );
    let tree = record(
        &[
            &three[..],
            &["--tree", "--nodes", "12", "One and", "--compare"],
        ]
        .concat(),
    );
    assert_eq!(names(&tree)[3], "max-gram-tree");
    assert_eq!(tree["equal_to_plain"], true);
    let three = record(
        &[
            &three[..],
            &["--max-gram", "-k", "2,1,3", "One and", "--compare"],
        ]
        .concat(),
    );
    let expected = [
        "demo-llama-target",
        "demo-llama-base",
        "demo-llama-small",
        "max-gram",
    ];
    assert_eq!(names(&three), expected);
    assert_eq!(three["equal_to_plain"], true);
    let lossless = line(
        "check-lossless -m embedded:demo-llama-base -d {} {} --max-new-tokens 12",
        &[SMALL, "One and"],
    );
    assert!(stdout(&lossless).contains("lossless"));
}

#[test]
fn models_are_refused_with_a_cure() {
    let other = project("tests/lookalikes/double7/vicuna-68m");
    for (text, values, parts) in [
        ("run -m {}", &[SMALL][..], "no prompt … --prompts FILE"),
        ("run -d {} x", &[SMALL], "--model"),
        (
            "run -m {} --config x.yaml x",
            &[SMALL],
            "cannot be used with",
        ),
        (
            "run -m {} -k 1,2 x",
            &[SMALL],
            "-k … 1 drafter(s): max-gram-tree",
        ),
        (
            "run -m {} -d {} x",
            &[SMALL, &other],
            "vicuna-68m … demo-llama-small … token 3 is \"<0x00>\" in the drafter … \
         models of one family",
        ),
        (
            "run -m {} -d embedded:demo-t5-small x",
            &[SMALL],
            "demo-t5-small … demo-llama-small … cannot share a context",
        ),
        (
            "run -m {} --ngram embedded:t5 x",
            &[SMALL],
            "embedded:t5 … tokenizer",
        ),
        ("run -m {} --ngram /nowhere x", &[SMALL], "/nowhere"),
        ("run -m {} --lenience 0.5 x", &[SMALL], "0.5"),
        ("run -m {} --dtype int8 x", &[SMALL], "f32, f16 or bf16"),
        (
            "run -m demo-llama-small x",
            &[],
            "embedded:demo-llama-small",
        ),
    ] {
        assert_says(&error(&line(text, values)), parts);
    }
}

#[test]
fn config_init_prints_what_a_command_line_means() {
    let args = words(
        "-m embedded:demo-llama-target -d {} --max-gram -k 3,4 --temperature 0.5 --stop \
        {}",
        &[SMALL, "\n"],
    );
    let yaml = stdout(&cascade(&[&["config", "init"], &args[..]].concat()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.yaml");
    fs::write(&path, &yaml).unwrap();
    let path = path.to_str().unwrap();
    let described = stdout(&cascade(&["config", "check", path]));
    assert_says(
        &described,
        "demo-llama-target reviews 3 from demo-llama-small, then 4 from max-gram … \
         sampled at temperature 0.5",
    );
    let seeded = |first: &[&str]| {
        record(&[first, &["--prompt", "One", "--seed", "3"]].concat())["token_ids"].clone()
    };
    let by_names = seeded(&[&["run"], &args[..]].concat());
    assert_eq!(by_names, seeded(&["run", "--config", path]));
}

#[test]
fn standard_input_is_a_prompt() {
    let ids = |text: &str| record(&["run", "-m", SMALL, "--prompt", text])["token_ids"].clone();
    let run = |args: &[&str], input: &str| {
        let args = [
            &["run", "-m", SMALL, "--max-new-tokens", "4", "--json"],
            args,
        ]
        .concat();
        let record: Value = serde_json::from_str(&stdout(&piped(&args, input))).unwrap();
        record
    };
    for args in [&[][..], &["-"], &["--prompt", "-"]] {
        let record = run(args, "Two\nlines\n");
        assert_eq!(record["prompt"], "Two\nlines", "{args:?}");
        assert_eq!(record["token_ids"], ids("Two\nlines"));
    }
    let empty = error(&piped(&["run", "-"], " \n"));
    assert!(empty.contains("standard input is empty"), "{empty}");
    // Without a model, an empty pipe means the demo, as /dev/null does.
    let demo = piped(&["run", "--limit", "1", "--max-new-tokens", "2"], "");
    let said = String::from_utf8(demo.stderr).unwrap();
    assert!(said.contains("calls: demo-t5-target"), "{said}");
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), b"caf\xe9").unwrap();
    let latin = command(&["run"])
        .stdin(fs::File::open(file.path()).unwrap())
        .output()
        .unwrap();
    assert!(error(&latin).contains("not UTF-8"));
}

/// As fingers type it, and what is said of answers that are not as they should be.
#[test]
fn answers_are_cut_penalized_and_remarked_on() {
    let run = |args: &[&str]| cascade(&[&["run", "--temp", "0", "-m"], args].concat());
    let said = |args: &[&str]| String::from_utf8(run(args).stderr).unwrap();
    let cut = said(&[SMALL, "-n", "5", "Once upon a time"]);
    assert!(cut.contains("cut at 5 tokens: -n 10"), "{cut}");
    assert!(!cut.contains("[1/1]"), "{cut}");
    let empty = said(&["embedded:demo-llama-base", "the the the"]);
    assert!(empty.contains("an empty answer: "), "{empty}");
    // What the smallest demo model does not know ends in a loop.
    let endless = [SMALL, "Once upon a time", "--max-tokens", "160"];
    assert!(said(&endless).contains("the answer repeats itself: "));
    let record = |more: &[&str]| -> Value {
        let text = stdout(&run(&[&endless[..], &["--json"], more].concat()));
        serde_json::from_str(text.lines().next().unwrap()).unwrap()
    };
    let plain = record(&[]);
    assert_eq!(plain["ends_in_loop"], true, "{plain}");
    for penalties in [
        &["--repetition-penalty", "1.3"][..],
        &["--presence-penalty", "2", "--frequency-penalty", "1"],
    ] {
        let penalized = record(&[penalties, &["--compare"]].concat());
        assert_eq!(penalized["equal_to_plain"], true, "{penalized}");
        assert_ne!(penalized["token_ids"], plain["token_ids"], "{penalties:?}");
    }
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    let generation = "{ max_new_tokens: 160, repetition_penalty: 1.3, presence_penalty: 0.5 }";
    let config = format!("target: {{ model: {SMALL} }}\ndrafters: []\ngeneration: {generation}\n");
    fs::write(file.path(), config).unwrap();
    let path = file.path().display().to_string();
    let text = stdout(&cascade(&[
        "run",
        "--config",
        &path,
        "--json",
        "Once upon a time",
    ]));
    let configured: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let given = record(&["--repetition-penalty", "1.3", "--presence-penalty", "0.5"]);
    assert_eq!(configured["token_ids"], given["token_ids"]);
    let wrong = error(&cascade(&[
        "run",
        "-m",
        SMALL,
        "--repetition-penalty",
        "0",
        "x",
    ]));
    assert!(wrong.contains("repetition penalty is 0"), "{wrong}");
}

#[test]
fn a_models_own_sampling_is_told_and_followed_in_conversations() {
    let sampling =
        r#"{"do_sample": true, "temperature": 0.6, "top_k": 9, "repetition_penalty": 1.2}"#;
    let (_folder, path) = model(&[("generation_config.json", sampling)]);
    let told = |args: &[&str]| {
        let output = cascade(&[args, &["-m", &path, "-n", "2"]].concat());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let recommended = "recommends temperature 0.6, top-k 9, repetition penalty 1.2";
    assert!(told(&["run", "Hi"]).contains(recommended));
    assert!(!told(&["run", "Hi", "--temperature", "0"]).contains("recommends"));
    let chat = |more: &[&str]| {
        let args = words("chat -m {} --template vicuna -n 2", &[&path]);
        stdout(&piped(&[&args[..], more].concat(), "/temp\n"))
    };
    let own = "(sampled at temperature 0.6, top-k 9, repetition penalty 1.2)";
    assert!(chat(&[]).contains(own), "{}", chat(&[]));
    assert!(chat(&["--temp", "0"]).contains("(greedy, repetition penalty 1.2)"));
    let changed = chat(&["--top-k", "3", "--repetition-penalty", "1"]);
    assert!(
        changed.contains("temperature 0.6, top-k 3, repetition penalty 1)"),
        "{changed}"
    );
}

#[test]
fn stop_texts_end_an_answer() {
    let run = |more: &[&str]| {
        let args = ["run", "--limit", "1", "--max-new-tokens", "40", "--json"];
        let output = cascade(&[&args, more].concat());
        let record: Value = serde_json::from_str(&stdout(&output)).unwrap();
        (
            record["text"].as_str().unwrap().to_owned(),
            record["finish_reason"].clone(),
        )
    };
    let whole = run(&[]).0;
    let words: Vec<&str> = whole.split(' ').collect();
    let (second, third) = (words[words.len() / 3], words[words.len() / 2]);
    let (text, reason) = run(&["--stop", third, "--stop", second]);
    assert_eq!(reason, "stop");
    assert!(
        whole.starts_with(&text) && text.len() < whole.len(),
        "{text}"
    );
    assert!(!text.contains(second));
    let empty = error(&cascade(&["run", "--stop", "", "x"]));
    assert!(empty.contains("stop sequence"), "{empty}");
}

#[test]
fn a_models_chat_template_asks_with_its_own_special_tokens() {
    let (_folder, path) = model(&[("tokenizer_config.json", &config_with(TEMPLATE))]);
    let asked = record(&["run", "-m", &path, "--chat", "--system", "Be brief.", "Hi"]);
    assert_eq!(asked["prompt"], "<s>[system] Be brief.[user] Hi[answer]");
    // The tokens of the text without another <s> before it: as the tokenizer gives them for the
    // same text without the one that it puts there itself.
    let raw = |text: &str| record(&["run", "-m", &path, "--raw", text]);
    let own = raw("[system] Be brief.[user] Hi[answer]");
    let rows = |record: &Value| {
        let target = &record["models"][0];
        target["prefill_rows"].as_u64().unwrap()
    };
    // With the prefix blank of the first word, which follows no special token, the raw text differs
    // in its tokens, but never by a whole special token more.
    assert!(rows(&asked).abs_diff(rows(&own)) <= 1, "{asked} {own}");
    let double = raw("<s>[system] Be brief.[user] Hi[answer]");
    assert_eq!(rows(&double), rows(&asked) + 1);

    let by_file = path.clone() + "/tokenizer_config.json";
    let same = record(&words(
        "run -m {} --template {} --system {} Hi",
        &[&path, &by_file, "Be brief."],
    ));
    assert_eq!(same["token_ids"], asked["token_ids"]);
    let jinja = path.clone() + "/other.jinja";
    fs::write(&jinja, "{{ bos_token }}other: {{ messages[0].content }}").unwrap();
    let other = record(&["run", "-m", &path, "--template", &jinja, "Hi"]);
    assert_eq!(other["prompt"], "<s>other: Hi");
}

/// As llama-cli and ollama do: a chat model that is asked without its template looks broken.
#[test]
fn a_models_chat_template_asks_unless_something_else_is_said() {
    let (folder, path) = model(&[("tokenizer_config.json", &config_with(TEMPLATE))]);
    let args = words("run -m {} Hi --max-new-tokens 2 --json", &[&path]);
    let asked = |more: &[&str]| {
        let output = cascade(&[&args[..], more].concat());
        let record: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let notes = said
            .matches("asked with the model's chat template; --raw")
            .count();
        (record["prompt"].as_str().unwrap().to_owned(), notes)
    };
    let own = "<s>[user] Hi[answer]".to_owned();
    assert_eq!(asked(&[]), (own.clone(), 1), "and says so once");
    assert_eq!(asked(&["--quiet"]), (own.clone(), 0));
    assert_eq!(asked(&["--chat"]), (own.clone(), 0), "asked for");
    assert_eq!(asked(&["--raw"]), ("Hi".to_owned(), 0));
    assert_eq!(asked(&["--template", "raw"]), ("Hi".to_owned(), 0));
    // A configuration that says how is followed, and one that does not means what the names mean.
    let file = folder.path().join("own.yaml");
    for (line, prompt) in [
        ("", own.as_str()),
        ("prompt: raw\n", "Hi"),
        ("prompt: problem\n", "Question: Hi Answer:"),
    ] {
        fs::write(&file, format!("target: {{ model: {path} }}\n{line}")).unwrap();
        let config = file.to_str().unwrap();
        assert_eq!(
            record(&["run", "--config", config, "Hi"])["prompt"],
            prompt,
            "{line}"
        );
    }
    let (_plain, plain) = model(&[]);
    assert_eq!(record(&["run", "-m", &plain, "Hi"])["prompt"], "Hi");
    let both = error(&cascade(&["run", "-m", &path, "--raw", "--chat", "Hi"]));
    assert!(both.contains("cannot be used with"), "{both}");
    let (_broken, broken) = model(&[("chat_template.jinja", "{% include 'x' %}")]);
    let message = error(&cascade(&["run", "-m", &broken, "Hi"]));
    assert!(message.contains("--raw asks without"), "{message}");
    assert_eq!(
        record(&["run", "-m", &broken, "--raw", "Hi"])["prompt"],
        "Hi"
    );
}

#[test]
fn messages_in_files_are_conversations() {
    let (folder, path) = model(&[("tokenizer_config.json", &config_with(TEMPLATE))]);
    let prompts = folder.path().join("prompts.jsonl");
    fs::write(
        &prompts,
        concat!(
            r#"{"id": 1, "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": [{"type": "text", "text": "c"}]}]}"#,
            "\n",
            r#"{"prompt": "raw"}"#,
            "\n",
            r#"{"prompt": ["x", "y"]}"#,
            "\n"
        ),
    )
    .unwrap();
    let prompts = prompts.to_str().unwrap();
    let run = |more: &[&str]| {
        let args = words("run --prompts {} --max-new-tokens 3 --json", &[prompts]);
        let text = stdout(&cascade(&[&args, more].concat()));
        let records = text.lines().map(|line| serde_json::from_str(line).unwrap());
        records.collect::<Vec<Value>>()
    };
    let own = run(&["-m", &path, "--limit", "2"]);
    // LLaMA 2's style has no form for parts: the template gets their texts.
    let asked = "<s>[system] S[user] a[assistant] b</s>[user] c[answer]";
    assert_eq!(own[0]["prompt"], asked);
    assert_eq!(
        (&own[0]["id"], &own[1]["prompt"]),
        (&Value::from(1), &Value::from("<s>[user] raw[answer]"))
    );
    let raw = run(&["-m", &path, "--raw", "--offset", "1", "--limit", "1"]);
    assert_eq!(raw[0]["prompt"], "raw");
    let vicuna = run(&["-m", &path, "--template", "vicuna"]);
    assert_eq!(
        vicuna[0]["prompt"],
        "S USER: a ASSISTANT: b</s>USER: c ASSISTANT:"
    );
    assert_eq!(vicuna.len(), 4, "the list of turns is asked turn by turn");
    assert_eq!(vicuna[3]["turn"], 2);
    let chat = run(&["-m", &path, "--chat", "--offset", "2"]);
    let answer = chat[0]["text"].as_str().unwrap().trim();
    assert_eq!(
        chat[1]["prompt"],
        format!("<s>[user] x[assistant] {answer}</s>[user] y[answer]")
    );
    // Without a template of its own, a model for conversations is asked as Vicuna.
    let (_plain, plain) = model(&[]);
    let config = folder.path().join("plain.yaml");
    let text = format!("target: {{ model: {plain} }}\nprompt: vicuna-gsm8k\n");
    fs::write(&config, text).unwrap();
    let asked = run(&["--config", config.to_str().unwrap(), "--limit", "1"]);
    assert_eq!(asked[0]["prompt"], vicuna[0]["prompt"]);
}

#[test]
fn templates_and_messages_are_refused_with_a_cure() {
    let (folder, path) = model(&[(
        "tokenizer_config.json",
        &config_with("{{ raise_exception('No: ' + messages[0].content) }}"),
    )]);
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let endless = file(
        "endless.jinja",
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    );
    let include = file("include.jinja", "{% include '/etc/passwd' %}");
    let tool = file(
        "tool.jsonl",
        r#"{"messages": [{"role": "tool", "content": "x"}]}"#,
    );
    let answered = file(
        "answered.jsonl",
        r#"{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}"#,
    );
    let asked = file(
        "asked.jsonl",
        r#"{"messages": [{"role": "user", "content": "x"}]}"#,
    );
    let (_none, without) = model(&[]);
    for (text, values, parts) in [
        (
            "run -m {} --chat Hi",
            &[path.as_str()][..],
            "refuses these messages: No: Hi",
        ),
        (
            "run -m {} --chat Hi",
            &[&without],
            "comes with no chat template … --template vicuna",
        ),
        (
            "run -m {} --template tool_use Hi",
            &[SMALL],
            "tool_use … nor is there such a file … t5-gsm8k",
        ),
        (
            "run -m {} --template tool_use Hi",
            &[&path],
            "has no chat template \"tool_use\" … default",
        ),
        (
            "run -m {} --template ./nowhere.jinja Hi",
            &[SMALL],
            "nowhere.jinja cannot be read",
        ),
        (
            "run -m {} --template {} Hi",
            &[SMALL, &endless],
            "endless.jinja … runs without end",
        ),
        (
            "run -m {} --template {} Hi",
            &[SMALL, &include],
            "include.jinja, line 1 … asks for another file",
        ),
        (
            "run -m {} --system S Hi",
            &[SMALL],
            "no place for a system message … --chat",
        ),
        (
            "run -m {} --prompts {}",
            &[SMALL, &tool],
            "tool.jsonl:1 … roles are system, user and assistant",
        ),
        (
            "run -m {} --prompts {}",
            &[SMALL, &answered],
            "ends with the assistant's message",
        ),
        (
            "run -m {} --prompts {}",
            &[&without, &asked],
            "comes with no chat template",
        ),
        (
            "run -m {} --template raw --prompts {}",
            &[SMALL, &asked],
            "raw … a conversation … vicuna",
        ),
        (
            "run -m {} --chat --template vicuna Hi",
            &[SMALL],
            "cannot be used with",
        ),
        (
            "run --template vicuna-mmlu --prompt Hi",
            &[],
            "needs a multiple-choice question",
        ),
    ] {
        assert_says(&error(&line(text, values)), parts);
    }
}

#[test]
fn templates_get_variables() {
    let template =
        "<s>{{ messages[-1].content }}{% if enable_thinking is false %} (no thoughts){% endif %}";
    let (_folder, path) = model(&[("chat_template.jinja", template)]);
    let args = ["run", "-m", &path, "--chat", "Hi"];
    let with = |json: &'static str| [&args[..], &["--chat-template-kwargs", json]].concat();
    assert_eq!(record(&args)["prompt"], "<s>Hi");
    let off = record(&with(r#"{"enable_thinking": false}"#));
    assert_eq!(off["prompt"], "<s>Hi (no thoughts)");
    let unread = cascade(&with(r#"{"thinking": false}"#));
    let said = String::from_utf8_lossy(&unread.stderr).into_owned();
    assert!(said.contains("does not read \"thinking\""), "{said}");
    for (json, part) in [
        (r#"{"messages": []}"#, "\"messages\""),
        ("enable_thinking", "not a JSON object"),
    ] {
        let message = error(&cascade(&with(json)));
        assert!(message.contains(part), "{message}");
    }
    let raw = words(
        "run -m {} --raw --chat-template-kwargs {} Hi",
        &[&path, "{}"],
    );
    let message = error(&cascade(&raw));
    assert!(message.contains("is not a chat template"), "{message}");
}

#[test]
fn a_system_message_that_is_left_out_is_told() {
    let args = words(
        "run --config embedded:demo-llama --chat {} --json",
        &["2 + 3?"],
    );
    let told = cascade(&[&args[..], &["--system", "Be brief."]].concat());
    let said = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(said.contains("no place for a system message"), "{said}");
    assert!(told.status.success());
}

#[test]
fn datasets_are_asked_with_chat_templates_in_the_words_of_vicunas() {
    let (_folder, path) = model(&[("chat_template.jinja", "{{ messages[0].content }}|")]);
    let args = ["run", "-m", &path, "--dataset", "problems", "--limit", "1"];
    let own = record(&[&args[..], &["--chat"]].concat());
    let prompt = own["prompt"].as_str().unwrap();
    assert!(
        prompt.starts_with("Reason the math question step by step. Question: "),
        "{prompt}"
    );
    assert!(prompt.ends_with("\n Answer: |"), "{prompt}");
}

/// A token of the demo families' vocabulary, as its tokenizer writes it.
fn piece(id: u64) -> String {
    let path = project("crates/cascade-demo/models/demo-llama-small/tokenizer.json");
    let json: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let pieces = json["model"]["vocab"].as_object().unwrap();
    let found = pieces.iter().find(|(_, known)| **known == id);
    found.unwrap().0.clone()
}

#[test]
fn a_templates_end_token_ends_an_answer() {
    let run = |end: &str| {
        let config =
            serde_json::json!({"chat_template": "{{ messages[0].content }}", "eos_token": end});
        let (_folder, path) = model(&[("tokenizer_config.json", &config.to_string())]);
        let args = words(
            "run -m {} --chat --compare --max-new-tokens 6 --json",
            &[&path],
        );
        let output = cascade(&[&args[..], &["Question: Ruth has 3"]].concat());
        serde_json::from_str::<Value>(stdout(&output).lines().next().unwrap()).unwrap()
    };
    // generation_config.json names </s> alone.
    let known = run("</s>");
    let said = |record: &Value| -> Vec<u64> {
        let ids = record["token_ids"].as_array().unwrap().iter();
        ids.map(|id| id.as_u64().unwrap()).collect()
    };
    let ids = said(&known);
    assert_eq!((ids.len(), &known["finish_reason"]), (6, &"length".into()));
    // The last token that was not said before.
    let last = (0..ids.len())
        .rfind(|&at| !ids[..at].contains(&ids[at]))
        .unwrap();
    let new = run(&piece(ids[last]));
    assert_eq!(new["finish_reason"], "eos");
    assert_eq!(said(&new), ids[..=last]);
    assert_eq!(new["equal_to_plain"], true);
}
