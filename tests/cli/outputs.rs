//! Every command that writes a file: it keeps what exists, and never destroys an input.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{command, error, project, stdout};

/// A folder with inputs of all kinds.
struct Folder(tempfile::TempDir);

const QUESTION: &str = r#"{"question_id": 7, "category": "c", "turns": ["How many eggs?"]}"#;
const ANSWER: &str = r#"{"question_id": 7, "choices": [{"turns": ["16 eggs."]}]}"#;
const CONFIG: &str = "target: {model: embedded:demo-llama-target}\ndrafters: []\nk: {matrix: []}\n";

/// Commands that write a file, with `OUT` for its name, and their inputs.
const COMMANDS: [(&str, &[&str]); 7] = [
    (
        "bigram build text.txt --tokenizer tokenizer.json --out OUT",
        &["text.txt", "tokenizer.json"],
    ),
    (
        "bigram import --json next.json --tokenizer tokenizer.json --out OUT",
        &["next.json", "tokenizer.json"],
    ),
    (
        "trace import --questions question.jsonl --answers answer.jsonl --tokenizer tokenizer.json --output OUT",
        &["question.jsonl", "answer.jsonl", "tokenizer.json"],
    ),
    (
        "trace record --config config.yaml --prompts prompts.jsonl --max-new-tokens 2 --output OUT",
        &["config.yaml", "prompts.jsonl"],
    ),
    (
        "trace record --config config.yaml --dataset prompts --data data --max-new-tokens 2 --output OUT",
        &["data/prompts.jsonl"],
    ),
    (
        "run --config config.yaml --prompts prompts.jsonl --max-new-tokens 2 --quiet --output OUT",
        &["config.yaml", "prompts.jsonl"],
    ),
    (
        "quantize model.gguf --dtype q8_0 --out OUT",
        &["model.gguf"],
    ),
];

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        let tokenizer = cascade_demo::checkpoint("demo-llama-target")
            .unwrap()
            .tokenizer;
        fs::create_dir(folder.path("data")).unwrap();
        let model = project("tests/goldens/gguf/mistral-f16.gguf");
        fs::copy(model, folder.path("model.gguf")).unwrap();
        for (name, content) in [
            ("text.txt", "the cat\n\nthe dog"),
            ("other.txt", "the bird"),
            ("tokenizer.json", std::str::from_utf8(tokenizer).unwrap()),
            ("question.jsonl", QUESTION),
            ("answer.jsonl", ANSWER),
            ("config.yaml", CONFIG),
            ("prompts.jsonl", r#"{"prompt": "Tom has"}"#),
            ("data/prompts.jsonl", r#"{"prompt": "Tom has"}"#),
        ] {
            fs::write(folder.path(name), content).unwrap();
        }
        let next = serde_json::json!(vec![0; 1280]).to_string();
        fs::write(folder.path("next.json"), next).unwrap();
        let build = "bigram build text.txt --tokenizer tokenizer.json --out table";
        stdout(&folder.run(build));
        folder
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Runs `cascade`, which hands commands of the laboratory on.
    fn run(&self, args: &str) -> Output {
        self.command(args).output().unwrap()
    }

    fn command(&self, args: &str) -> Command {
        let mut command = command(&[]);
        command.args(args.split(' ')).current_dir(self.0.path());
        command
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn inputs_are_never_written_to() {
    let folder = Folder::new();
    for (command, inputs) in COMMANDS {
        for (input, force) in inputs.iter().flat_map(|i| [(i, ""), (i, " --force")]) {
            let (before, names) = (folder.read(input), folder.names());
            let output = folder.run(&(command.replace("OUT", input) + force));
            let message = error(&output);
            assert!(message.contains("it is the input"), "{command}: {message}");
            assert!(folder.read(input) == before, "{command}");
            assert_eq!(folder.names(), names, "{command}");
        }
    }
}

/// A configuration of a target, a drafter, a table and weights of a tree, each in a file.
const FILES_CONFIG: &str = "target: {model: ./target, tokenizer: ./tokenizer}\n\
    drafters:\n  - {model: ./drafter, tokenizer: ./tokenizer}\n  - bigram: {table: ./table}\n\
    k: {matrix: [[1, 1], [0, 1]]}\n";

#[test]
fn no_file_of_a_model_is_ever_replaced() {
    let folder = Folder::new();
    let model = project("crates/testing/cascade-hostile/good");
    for place in ["target", "drafter", "tokenizer"] {
        fs::create_dir(folder.path(place)).unwrap();
        for name in ["config.json", "model.safetensors", "tokenizer.json"] {
            let from = Path::new(&model).join(name);
            fs::copy(from, folder.path(place).join(name)).unwrap();
        }
        for name in [
            "generation_config.json",
            "chat_template.jinja",
            "merges.txt",
        ] {
            fs::write(folder.path(place).join(name), "{}").unwrap();
        }
    }
    fs::write(folder.path("files.yaml"), FILES_CONFIG).unwrap();
    fs::write(folder.path("own.jinja"), "{{ messages[0].content }}").unwrap();
    let record =
        "trace record --config files.yaml --template own.jinja --prompt x --force --output ";
    let quantize = "quantize target --dtype q8_0 --force --out ";
    let count = "bigram build text.txt --tokenizer tokenizer --force --out ";
    for (command, outputs) in [
        (
            quantize,
            &[
                "target/config.json",
                "target/generation_config.json",
                "target/chat_template.jinja",
                "target/merges.txt",
                "target/model.safetensors",
            ][..],
        ),
        (
            record,
            &[
                "target/config.json",
                "drafter/config.json",
                "drafter/model.safetensors",
                "tokenizer/tokenizer.json",
                "table",
                "own.jinja",
                "files.yaml",
            ],
        ),
        (
            count,
            &["tokenizer/config.json", "tokenizer/model.safetensors"],
        ),
    ] {
        for output in outputs {
            let before = folder.read(output);
            let message = error(&folder.run(&format!("{command}{output}")));
            assert!(
                message.contains("it is the input"),
                "{command}{output}: {message}"
            );
            assert!(folder.read(output) == before, "{output}");
        }
    }
    // What is not of the model may stand beside it, and be made again.
    for command in [
        "bigram build text.txt --tokenizer tokenizer/tokenizer.json --force --out tokenizer/bigram.safetensors",
        "bigram build text.txt --tokenizer tokenizer/tokenizer.json --force --out tokenizer/bigram.safetensors",
    ] {
        stdout(&folder.run(command));
    }
}

#[cfg(unix)]
#[test]
fn what_a_killed_command_has_left_is_removed() {
    let folder = Folder::new();
    let left = folder.path(".cascade-partial-abcdef");
    let living = cascade_core::fs::AtomicFile::create(folder.path("another")).unwrap();
    fs::write(&left, "half").unwrap();
    let import = folder.run("bigram import --json next.json --tokenizer tokenizer.json --out out");
    let said = String::from_utf8_lossy(&import.stderr);
    assert!(said.contains("removed ./.cascade-partial-abcdef"), "{said}");
    assert!(!left.exists() && living.temporary().exists());
}

#[cfg(unix)]
#[test]
fn inputs_are_known_under_other_names() {
    let folder = Folder::new();
    fs::hard_link(folder.path("text.txt"), folder.path("hard")).unwrap();
    std::os::unix::fs::symlink("text.txt", folder.path("soft")).unwrap();
    let before = folder.read("text.txt");
    let (build, _) = COMMANDS[0];
    for name in ["hard", "soft", "./text.txt", "data/../text.txt"] {
        for more in ["", " --force", " --resume", " --resume --force"] {
            let message = error(&folder.run(&(build.replace("OUT", name) + more)));
            assert!(message.contains("it is the input text.txt"), "{message}");
            assert!(folder.read("text.txt") == before);
        }
    }
    let mut piped =
        folder.command("bigram build - --tokenizer tokenizer.json --out text.txt --force");
    piped.stdin(fs::File::open(folder.path("text.txt")).unwrap());
    let message = error(&piped.output().unwrap());
    assert!(message.contains("it is the input -"), "{message}");
    assert!(folder.read("text.txt") == before);
}

#[test]
fn what_exists_is_replaced_only_by_force() {
    let folder = Folder::new();
    for (command, _) in COMMANDS {
        fs::write(folder.path("old"), "old").unwrap();
        let names = folder.names();
        let command = command.replace("OUT", "old");
        let message = error(&folder.run(&command));
        assert!(
            message.contains("old: the file exists already"),
            "{message}"
        );
        assert!(message.contains("--force"), "{message}");
        assert_eq!(folder.read("old"), b"old", "{command}");

        stdout(&folder.run(&format!("{command} --force")));
        assert!(folder.read("old") != b"old", "{command}");
        assert_eq!(folder.names(), names, "{command}");
        let forced = folder.read("old");
        fs::remove_file(folder.path("old")).unwrap();
        stdout(&folder.run(&command));
        assert!(folder.read("old") == forced, "{command}");
        fs::remove_file(folder.path("old")).unwrap();
    }
}

#[test]
fn a_failed_command_leaves_what_exists() {
    let folder = Folder::new();
    fs::write(folder.path("old"), "old").unwrap();
    for command in [
        "bigram build missing --tokenizer tokenizer.json --out old --force",
        "bigram import --json text.txt --tokenizer tokenizer.json --out old --force",
        "trace import --questions question.jsonl --answers text.txt --tokenizer tokenizer.json --output old --force",
    ] {
        error(&folder.run(command));
        assert_eq!(folder.read("old"), b"old", "{command}");
    }
}

#[test]
fn a_finished_count_is_resumed_without_counting_again() {
    let folder = Folder::new();
    let command = "bigram build text.txt --tokenizer tokenizer.json --resume --out table";
    let before = folder.read("table");
    let said = stdout(&folder.run(command));
    assert!(said.contains("complete already"), "{said}");
    assert!(folder.read("table") == before);
    // A table of other inputs is no result of this command.
    let message = error(&folder.run(&command.replace("text.txt", "other.txt")));
    assert!(message.contains("exists already"), "{message}");
    assert!(folder.read("table") == before);
}

#[test]
fn an_import_does_not_advise_to_resume() {
    let folder = Folder::new();
    fs::write(folder.path("old"), "old").unwrap();
    let import = folder.run(&COMMANDS[2].0.replace("OUT", "old"));
    assert!(!error(&import).contains("resume"), "{}", error(&import));
    let record = folder.run(&COMMANDS[3].0.replace("OUT", "old"));
    assert!(error(&record).contains("--resume"), "{}", error(&record));
}

fn reproduce(folder: &Path, args: &str) -> Output {
    command(&["reproduce"])
        .args(args.split(' '))
        .current_dir(folder)
        .output()
        .unwrap()
}

/// Names and contents of a folder.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut contents: Vec<_> = entries
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                fs::read(entry.path()).unwrap(),
            )
        })
        .collect();
    contents.sort();
    contents
}

#[test]
fn results_of_another_experiment_are_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    stdout(&reproduce(folder, "table1 --out formulas"));
    stdout(&reproduce(folder, "horizontal --limit 1 --out measured"));
    let formulas = contents(&folder.join("formulas"));
    let measured = contents(&folder.join("measured"));
    for (args, part) in [
        ("table1 --out measured", "holds results of the experiment"),
        (
            "table2 --limit 1 --out measured",
            "`horizontal`, and this is `table2`",
        ),
        (
            "table2 --limit 1 --resume --out measured",
            "`horizontal`, and this is `table2`",
        ),
        (
            "horizontal --limit 1 --out formulas",
            "holds results of the experiment",
        ),
        (
            "merge measured --into formulas",
            "holds results of the experiment",
        ),
    ] {
        let message = error(&reproduce(folder, args));
        assert!(message.contains(part), "{args}: {message}");
        assert!(contents(&folder.join("formulas")) == formulas, "{args}");
        assert!(contents(&folder.join("measured")) == measured, "{args}");
    }
    // The same experiment goes on.
    stdout(&reproduce(folder, "table1 --out formulas"));
    stdout(&reproduce(
        folder,
        "horizontal --limit 1 --out measured --resume",
    ));
}

#[test]
fn files_of_others_are_not_replaced_by_results() {
    for name in [
        "report.html",
        "table.md",
        "table-3.csv",
        "table-1-swi.tex",
        "plot.png",
        "manifest.json",
        "plan.json",
        "costs.json",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::create_dir(folder.join("out")).unwrap();
        fs::write(folder.join("out").join(name), "mine").unwrap();
        for args in ["table1 --out out", "horizontal --limit 1 --out out"] {
            let message = error(&reproduce(folder, args));
            assert!(
                message.contains(name) && message.contains("would be replaced"),
                "{message}"
            );
            assert_eq!(
                contents(&folder.join("out")),
                [(name.to_owned(), b"mine".to_vec())]
            );
        }
    }
    // Files that no run writes are of no concern.
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("out")).unwrap();
    fs::write(folder.path().join("out/notes.txt"), "mine").unwrap();
    stdout(&reproduce(folder.path(), "table1 --out out"));
    assert_eq!(
        fs::read(folder.path().join("out/notes.txt")).unwrap(),
        b"mine"
    );
}
