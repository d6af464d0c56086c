//! `cascade chat`, from a pipe.

use crate::asking::piped;
use crate::common::{command, error, project, stdout};
use crate::line::assert_says;

const BASE: [&str; 6] = [
    "chat",
    "-m",
    "embedded:demo-llama-base",
    "--template",
    "vicuna",
    "--max-new-tokens",
];

fn chat(more: &[&str], input: &str) -> String {
    stdout(&piped(&[&BASE[..], &["6"], more].concat(), input))
}

/// How many of how many prompt tokens were known, answer by answer.
fn known(text: &str) -> Vec<(usize, usize)> {
    let lines = text
        .lines()
        .filter(|line| line.contains("prompt tokens were known"));
    let counts = lines.map(|line| {
        let (_, counts) = line.rsplit_once("; ").unwrap();
        let words: Vec<&str> = counts.split(' ').collect();
        (words[0].parse().unwrap(), words[2].parse().unwrap())
    });
    counts.collect()
}

#[test]
fn a_conversation_stays_in_the_context() {
    let text = chat(&[], "What is 2 + 3?\n\nAnd 4 + 5?\nAnd 6?\n/stats\n");
    assert!(!text.contains('\u{1b}') && !text.contains("> "), "{text}");
    let known = known(&text);
    assert_eq!(known.len(), 3, "{text}");
    assert_eq!(known[0].0, 0);
    for turn in 1..3 {
        let ((_, before), (reused, prompt)) = (known[turn - 1], known[turn]);
        // The prompt before is read once; of the answer after it, the tokens are the same too.
        assert!(prompt > before && reused >= before - 1, "{known:?}");
    }
    let stats: Vec<&str> = text.lines().rev().take(3).collect();
    assert_says(stats[2], "tokens,  …  per forward, ");
    assert_says(stats[1], "prompts:  …  tokens read in ");
    assert!(
        stats[0].starts_with("calls: ") && stats[0].contains("max-gram"),
        "{stats:?}"
    );
}

#[test]
fn bytes_that_are_no_text_do_not_end_the_conversation() {
    let mut child = command(&[&BASE[..], &["4"]].concat())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"What is 2 + 3?\nGr\xfc\xdfe\nAnd 6?\n").unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(known(&stdout(&output)).len(), 3);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("not UTF-8") && said.contains("Gr\u{fffd}"),
        "{said}"
    );
}

#[test]
fn commands_change_the_conversation() {
    let text = chat(
        &["--system", "S"],
        "one\n/reset\none\n/system Another system message, and a longer one.\n/reset\none\n/system\n/reset\none\n/help\n/exit\nnever read\n",
    );
    let known = known(&text);
    assert_eq!(known.len(), 4, "{text}");
    assert_eq!(
        known[1].1, known[0].1,
        "a new conversation has the same prompt"
    );
    assert!(known[2].1 > known[0].1 + 5, "{known:?}");
    assert!(
        known[3].1 > known[2].1,
        "Vicuna has a system message of its own: {known:?}"
    );
    assert!(
        text.contains("/system TEXT") && !text.contains("never read"),
        "{text}"
    );
    let unknown = error(&piped(&[&BASE[..], &["2"]].concat(), "/frobnicate\n"));
    assert!(
        unknown.contains("/frobnicate") && unknown.contains("/help"),
        "{unknown}"
    );
}

#[test]
fn answers_are_given_again_and_conversations_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("talk.jsonl").display().to_string();
    let input =
        format!("one\n/temp 0.9\n/regen\n/temp\ntwo\n/save {file}\n/reset\n/load {file}\nthree\n");
    let text = chat(&["--system", "S"], &input);
    assert_eq!(
        text.matches("(sampled at temperature 0.9)").count(),
        2,
        "{text}"
    );
    let saved: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let said: Vec<_> = saved["messages"].as_array().unwrap().iter().collect();
    let roles: Vec<_> = said
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    // What was answered again stands once.
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant"]);
    assert_eq!(
        (&said[1]["content"], &said[3]["content"]),
        (&"one".into(), &"two".into())
    );
    let known = known(&text);
    assert_eq!(known.len(), 4, "{text}");
    assert_eq!(known[1].1, known[0].1, "the same prompt");
    assert!(
        known[3].1 > known[2].1,
        "the loaded conversation goes on: {known:?}"
    );
    let file = || file.clone();
    for (line, part) in [
        (format!("one\n/save {}", file()), "exists"),
        ("/regen".to_owned(), "no answer to give again"),
        ("/temp warm".to_owned(), "give a number"),
        ("/temp -1".to_owned(), "temperature is -1"),
        ("/load /nowhere".to_owned(), "/nowhere"),
        (
            format!("/load {}", project("configs/demo-t5.yaml")),
            "demo-t5.yaml",
        ),
    ] {
        let message = error(&piped(&[&BASE[..], &["2"]].concat(), &format!("{line}\n")));
        assert!(message.contains(part), "{line}: {message}");
    }
}

/// The base model's context has room for few of these turns.
#[test]
fn the_oldest_turns_make_room() {
    let turn = format!("{}\n", "word ".repeat(120));
    let output = piped(&[&BASE[..], &["6"]].concat(), &turn.repeat(12));
    let text = stdout(&output);
    let known = known(&text);
    assert_eq!(known.len(), 12, "every message is answered");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("the oldest 2 messages are left out"),
        "{said}"
    );
    assert!(known.iter().all(|(_, prompt)| *prompt <= 1024), "{known:?}");
}

/// The base model ends the form of Vicuna at once.
#[test]
fn empty_answers_are_told() {
    let text = chat(&[], "What is 2 + 3?\n");
    assert!(
        text.contains("an empty answer: ") && text.contains("/temp 0.7"),
        "{text}"
    );
}

#[test]
fn messages_may_have_several_lines() {
    let one = chat(&[], "a b c d e f\n");
    let several = chat(&[], "a b \\\nc d \\\ne f\n");
    let fenced = chat(&[], "\"\"\"\na b \nc d \ne f\n\"\"\"\n");
    assert_eq!(known(&several), known(&fenced));
    assert_eq!(known(&several).len(), 1);
    assert!(known(&several)[0].1 > known(&one)[0].1);
    // Two slashes are a message.
    assert_eq!(known(&chat(&[], "//help\n")).len(), 1);
}

#[test]
fn the_demo_answers_if_no_model_is_named() {
    let text = stdout(&piped(&["chat", "--max-new-tokens", "3"], "Hi\n"));
    assert_eq!(known(&text).len(), 1, "{text}");
    assert_eq!(stdout(&piped(&["chat"], "")), "");
}

#[test]
fn what_cannot_be_a_conversation_is_refused() {
    let long = "word ".repeat(3000);
    for (args, input, parts) in [
        (
            &["chat", "-m", "embedded:demo-t5-small"][..],
            "Hi",
            &["comes with no chat template", "--template vicuna"][..],
        ),
        (
            &["chat", "--template", "raw"],
            "Hi",
            &["no place for a conversation", "vicuna"],
        ),
        (&["chat"], &long, &["1024 positions"]),
    ] {
        let message = error(&piped(args, input));
        for part in parts {
            assert!(message.contains(part), "`{part}` is missing in\n{message}");
        }
    }
}

#[test]
fn colours_are_for_terminals() {
    let colored = chat(&["--color", "always"], "What is 2 + 3?\n");
    assert!(colored.contains('\u{1b}'));
}
