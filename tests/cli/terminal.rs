//! What reaches a terminal, and what reaches a pipe.
#![cfg(target_os = "linux")] // For its `script`.

use std::process::{Command, Stdio};

use crate::common::{cascade, program_of, project};
use crate::line::words;

/// A window title, a cleared screen, a bell, an 8-bit control sequence, and reversed text.
const HOSTILE: &str = "\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\u{202e}esrever\u{2066}\u{7f}";

/// What the program prints, standard output and error, on a pseudo-terminal, which `script` makes.
fn on_terminal(args: &[&str], variables: &[(&str, &str)]) -> String {
    let quoted = |arg: &&str| format!("'{}'", arg.replace('\'', r"'\''"));
    let program = program_of(args);
    let program = quoted(&program.to_str().unwrap());
    let args: Vec<String> = args.iter().map(quoted).collect();
    let command = format!("exec {program} {}", args.join(" "));
    let output = Command::new("script")
        .args(words(
            "--quiet --echo never --command {} /dev/null",
            &[&command],
        ))
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Lines that are sent before the program asks for them are read one by one, and none is lost.
#[test]
fn keys_sent_ahead_are_kept() {
    let program = program_of(&["chat"]);
    let chat = format!(
        "exec '{}' chat -m embedded:demo-llama-small",
        program.display()
    );
    let mut child = Command::new("script")
        .args(words(
            "--quiet --echo never --command {} /dev/null",
            &[&chat],
        ))
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let keys = b"/help\r/reset\r/system Be brief.\r/system\r/exit\r";
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, keys).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(input);
    let text = String::from_utf8(output.stdout).unwrap();
    let parts = [
        "/regen",
        "(a new conversation)",
        "message is set)",
        "no system message now)",
    ];
    let places = parts.map(|part| {
        text.find(part)
            .unwrap_or_else(|| panic!("no {part}: {text}"))
    });
    assert!(places.is_sorted(), "{text}");
}

/// What the program prints into two pipes, standard output and error.
fn piped(args: &[&str]) -> String {
    let output = cascade(args);
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// The one line that is JSON; notes stand before or after it.
fn object(text: &str) -> serde_json::Value {
    let line = text.lines().find(|line| line.starts_with('{')).unwrap();
    serde_json::from_str(line).unwrap()
}

fn is_control(c: char) -> bool {
    let reorders = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // A terminal ends lines with a carriage return of its own.
    reorders || (c.is_control() && !"\n\t\r".contains(c))
}

/// Commands that print text from outside, each with a hostile one.
fn commands(folder: &std::path::Path) -> Vec<Vec<String>> {
    let name = |name: &str| folder.join(name).display().to_string();
    let file = |file: &str, content: String| {
        std::fs::write(folder.join(file), content).unwrap();
        name(file)
    };
    let trace = std::fs::read_to_string(project("traces/demo-llama-problems.jsonl")).unwrap();
    let quoted = serde_json::json!(HOSTILE).to_string();
    let escaped: String = HOSTILE
        .chars()
        .map(|c| format!("\\u{:04x}", u32::from(c)))
        .collect();
    let with_k = project("configs/demo-llama-tree.yaml");
    let named = trace.replacen("\"demo-llama-target\"", &quoted, 1);
    let (short, config) = (
        ["--max-new-tokens", "2"],
        project("configs/demo-llama.yaml"),
    );
    let mut prompts = vec!["run", "--config", &config];
    prompts.extend(short);
    let with = |args: &[&str], last: &[String]| -> Vec<String> {
        args.iter()
            .map(|arg| (*arg).to_owned())
            .chain(last.iter().cloned())
            .collect()
    };
    let hostile = HOSTILE.to_owned();
    vec![
        // A prompt, above its answer.
        with(&prompts, &["--prompt".into(), hostile.clone()]),
        // A prompt of a file.
        with(
            &prompts,
            &[
                "--prompts".into(),
                file("p.jsonl", format!("{{\"prompt\": {quoted}}}")),
            ],
        ),
        // The names of files that are missing, in messages.
        with(&["config", "check"], &[name(HOSTILE)]),
        with(&["trace", "show"], &[name(HOSTILE)]),
        // The name of a model in a trace.
        with(&["trace", "show"], &[file("t.jsonl", named.clone())]),
        with(
            &["replay", "--limit", "1", "--config", &with_k, "--trace"],
            &[name("t.jsonl")],
        ),
        // A value in a configuration.
        with(
            &["config", "check"],
            &[file("c.yaml", format!("target: \"{escaped}\"\n"))],
        ),
        // Arguments that the parser quotes.
        with(&[], std::slice::from_ref(&hostile)),
        with(&["run", "--limit"], std::slice::from_ref(&hostile)),
        with(&["reproduce"], std::slice::from_ref(&hostile)),
        with(&["bigram", "show", "embedded:t5", "--token"], &[hostile]),
    ]
}

#[test]
fn no_control_character_of_others_reaches_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    for args in commands(folder.path()) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let shown = on_terminal(&args, &[("NO_COLOR", "1")]);
        // A progress bar clears its line.
        let others = shown.replace("\u{1b}[2K", "");
        let control = others.chars().find(|&c| is_control(c));
        assert_eq!(control, None, "{args:?}: {shown:?}");
        // It is not left out, either (the parser of arguments leaves out whole sequences).
        let visible = ["\\u009b31m", "\\u{9b}31m"];
        assert!(
            visible.iter().any(|text| shown.contains(text)),
            "{args:?}: {shown:?}"
        );
    }
}

#[test]
fn colours_are_the_only_escapes() {
    let config = project("configs/demo-llama.yaml");
    let args = words(
        "run --config {} --max-new-tokens 24 --prompt {}",
        &[&config, HOSTILE],
    );
    let shown = on_terminal(&args, &[]);
    let mut escapes = shown.split('\u{1b}').skip(1).peekable();
    assert!(escapes.peek().is_some(), "no colours: {shown:?}");
    for escape in escapes {
        let (numbers, _) = escape.split_once('m').unwrap_or_default();
        let is_style =
            escape.starts_with('[') && numbers[1..].chars().all(|c| c.is_ascii_digit() || c == ';');
        assert!(is_style, "{escape:?}");
    }
    assert!(
        !shown.replace('\u{1b}', "").chars().any(is_control),
        "{shown:?}"
    );
}

#[test]
fn pipes_get_every_byte() {
    let config = project("configs/demo-llama.yaml");
    let args = words(
        "run --config {} --max-new-tokens 2 --prompt {}",
        &[&config, HOSTILE],
    );
    assert!(piped(&["reproduce", HOSTILE]).contains(HOSTILE));
    assert_eq!(
        object(&piped(&[&args[..], &["--json"]].concat()))["prompt"],
        format!("Question: {HOSTILE} Answer:")
    );
}

#[test]
fn json_on_a_terminal_means_the_same() {
    let config = project("configs/demo-llama.yaml");
    let args = words(
        "run --config {} --max-new-tokens 2 --json --prompt {}",
        &[&config, HOSTILE],
    );
    let shown = on_terminal(&args, &[]);
    assert!(!shown.chars().any(is_control), "{shown:?}");
    assert_eq!(
        object(&shown)["prompt"],
        format!("Question: {HOSTILE} Answer:")
    );
}
