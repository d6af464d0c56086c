use std::fs;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::Letter;

const GSM8K: &str = concat!(
    "{\"question\": \"One?\", \"answer\": \"#### 1\", \"id\": 7}\n",
    "\n",
    "  \t\r\n",
    "{\"question\": \"Zwei\\u00e4?\", \"answer\": \"#### 2\"}\r\n",
    "{\"question\": \"Three?\", \"answer\": \"#### 3\"}",
);

const MMLU: &str = concat!(
    "\"Find it, in Q.\",0,\"4,5\",\"say \"\"x\"\"\",6,B\n",
    "\n",
    "\"Two\nlines\",a, b ,c,,D\r\n",
);

fn question(question: &str, answer: &str) -> Sample {
    Sample::Question {
        question: question.into(),
        answer: Some(answer.into()),
    }
}

fn choice(question: &str, choices: [&str; 4], answer: Letter) -> Sample {
    Sample::MultipleChoice {
        question: question.into(),
        choices: choices.map(String::from),
        answer: Some(answer),
    }
}

fn message(dataset: Dataset, text: impl AsRef<[u8]>) -> String {
    dataset
        .parse("file", text.as_ref(), Selection::ALL)
        .unwrap_err()
        .to_string()
}

#[test]
fn gsm8k_lines_become_questions() {
    let expected = vec![
        question("One?", "#### 1"),
        question("Zweiä?", "#### 2"),
        question("Three?", "#### 3"),
    ];
    let parsed = |text: &str| {
        Dataset::Gsm8k
            .parse("file", text.as_bytes(), Selection::ALL)
            .unwrap()
    };
    assert_eq!(parsed(GSM8K), expected);
    assert_eq!(parsed(&format!("\u{feff}{GSM8K}\n\n")), expected);
}

#[test]
fn mmlu_rows_become_choices() {
    let expected = vec![
        choice("Find it, in Q.", ["0", "4,5", "say \"x\"", "6"], Letter::B),
        choice("Two\nlines", ["a", " b ", "c", ""], Letter::D),
    ];
    let parsed = |text: &str| {
        Dataset::Mmlu
            .parse("file", text.as_bytes(), Selection::ALL)
            .unwrap()
    };
    assert_eq!(parsed(MMLU), expected);
    assert_eq!(parsed(&format!("\u{feff}{MMLU}")), expected);
}

#[test]
fn prompts_carry_their_other_fields_in_order() {
    let text = r#"{"z": 1, "prompt": "Hi", "a": [2], "m": {"prompt": 3}}"#;
    let samples = Dataset::Prompts
        .parse("file", text.as_bytes(), Selection::ALL)
        .unwrap();
    let [Sample::Text { prompt, fields }] = &samples[..] else {
        panic!("{samples:?}");
    };
    assert_eq!(prompt, "Hi");
    let fields: Vec<_> = fields.clone().into_iter().collect();
    let expected = [
        ("z", json!(1)),
        ("a", json!([2])),
        ("m", json!({"prompt": 3})),
    ];
    assert_eq!(fields, expected.map(|(k, v)| (k.to_owned(), v)));
}

#[test]
fn bad_json_lines_are_named_by_file_and_line() {
    let after = |line: &str| message(Dataset::Gsm8k, format!("{GSM8K}\n\n{line}\n"));
    assert_eq!(
        after("{\"question\": \"x\""),
        "file:7: column 16: EOF while parsing an object; every line must be one JSON object"
    );
    assert_eq!(
        after("oops"),
        "file:7: column 1: expected value; every line must be one JSON object"
    );
    assert_eq!(
        after("[1]"),
        "file:7: expected a JSON object, found an array"
    );
    assert_eq!(
        after("{\"question\": \"x\", \"solution\": 1}"),
        "file:7: there is no field \"answer\"; the object has question, solution"
    );
    assert_eq!(
        after("{}"),
        "file:7: there is no field \"question\"; the object is empty"
    );
    assert_eq!(
        after("{\"question\": 5, \"answer\": \"\"}"),
        "file:7: the field \"question\" must be a string, found a number"
    );
}

#[test]
fn bad_rows_are_named_by_file_and_line() {
    // The second record takes two lines, so this one stands on line 7.
    let after = |row: &str| message(Dataset::Mmlu, format!("{MMLU}\n\n{row}\n"));
    assert!(after("a,b,c").starts_with("file:7: expected 6 columns"));
    assert!(after("a,b,c").contains("found 3"));
    assert!(after("q,1,2,3,4,A,B").contains("found 7"));
    assert_eq!(
        after("question,A,B,C,D,answer"),
        "file:7: the answer must be A, B, C or D, found \"answer\"; the file must have no header"
    );
    assert!(after("\"open,1,2,3,4,A").starts_with("file:7: expected 6 columns"));
}

#[test]
fn bytes_that_are_no_text_are_named_by_line() {
    for dataset in Dataset::ALL {
        let text = message(dataset, b"ok\nbad \xff\n");
        assert_eq!(text, "file:2: invalid UTF-8; convert the file to UTF-8");
    }
    assert!(message(Dataset::Gsm8k, b"\xff\xfe{\0}\0").starts_with("file:1: invalid UTF-8"));
}

#[test]
fn nothing_to_read_is_an_error() {
    for dataset in Dataset::ALL {
        for text in ["", "\n\n", "\u{feff}"] {
            assert_eq!(message(dataset, text), "file: there are no samples in it");
        }
    }
}

#[test]
fn a_selection_is_a_window() {
    let take =
        |offset, limit| Dataset::Gsm8k.parse("file", GSM8K.as_bytes(), Selection { offset, limit });
    assert_eq!(take(1, Some(1)).unwrap(), [question("Zweiä?", "#### 2")]);
    assert_eq!(take(2, None).unwrap(), [question("Three?", "#### 3")]);
    assert_eq!(take(1, Some(100)).unwrap().len(), 2);
    assert_eq!(take(0, Some(0)).unwrap(), []);
    assert_eq!(
        take(3, Some(1)).unwrap_err().to_string(),
        "file: it has 3 samples, so none is left after the first 3; use a smaller offset"
    );
}

#[test]
fn lines_after_the_selection_are_not_judged() {
    let text = format!("{GSM8K}\nnot JSON\n");
    let take = |selection| Dataset::Gsm8k.parse("file", text.as_bytes(), selection);
    assert_eq!(take(Selection::first(3)).unwrap().len(), 3);
    assert!(take(Selection::first(4)).is_err());
}

#[test]
fn a_folder_is_one_dataset() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let none = Dataset::Mmlu.read(path, Selection::ALL).unwrap_err();
    assert!(none.to_string().ends_with("holds no .csv file"), "{none}");

    fs::write(path.join("b.csv"), "b,1,2,3,4,A\n").unwrap();
    fs::write(path.join("a.csv"), "a,1,2,3,4,A\na,1,2,3,4,C\n").unwrap();
    fs::write(path.join("notes.txt"), "not CSV").unwrap();
    let all = Dataset::Mmlu.read(path, Selection::ALL).unwrap();
    let choices = ["1", "2", "3", "4"];
    let expected = [
        choice("a", choices, Letter::A),
        choice("a", choices, Letter::C),
        choice("b", choices, Letter::A),
    ];
    assert_eq!(all, expected);
    let window = Selection {
        offset: 1,
        limit: Some(2),
    };
    assert_eq!(Dataset::Mmlu.read(path, window).unwrap(), expected[1..]);

    fs::write(path.join("c.csv"), "c\n").unwrap();
    assert_eq!(Dataset::Mmlu.read(path, window).unwrap(), expected[1..]);
    let bad = Dataset::Mmlu.read(path, Selection::ALL).unwrap_err();
    assert!(bad.to_string().contains("c.csv:1: expected 6"), "{bad}");
}

#[test]
fn a_missing_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nowhere.jsonl");
    let error = Dataset::Gsm8k.read(&path, Selection::ALL).unwrap_err();
    assert!(matches!(error, Error::Read { .. }));
    assert!(error.to_string().contains("nowhere.jsonl: "));
}

#[test]
fn names_go_both_ways() {
    for dataset in Dataset::ALL {
        assert_eq!(dataset.to_string().parse::<Dataset>().unwrap(), dataset);
    }
    assert_eq!(
        "squad".parse::<Dataset>().unwrap_err().to_string(),
        "there is no dataset format \"squad\"; known are gsm8k, mmlu, prompts"
    );
}

proptest! {
    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "[\"a,\\n\\r{}:\\[1 ]{0,60}") {
        for dataset in Dataset::ALL {
            let _ = dataset.parse("file", &bytes, Selection::ALL);
            let _ = dataset.parse("file", text.as_bytes(), Selection::ALL);
        }
    }

    #[test]
    fn what_was_written_is_read(samples in proptest::collection::vec((".*", ".*"), 1..8)) {
        let text: String = samples
            .iter()
            .map(|(q, a)| format!("{}\n", json!({"question": q, "answer": a})))
            .collect();
        let expected: Vec<Sample> = samples.iter().map(|(q, a)| question(q, a)).collect();
        let read = Dataset::Gsm8k.parse("file", text.as_bytes(), Selection::ALL).unwrap();
        prop_assert_eq!(read, expected);
    }
}
