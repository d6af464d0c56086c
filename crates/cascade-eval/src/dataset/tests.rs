use std::fs;
use std::io::Write;

use cascade_config::{Message, Role};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::{Content, PromptTemplate, RandomSample, Turns};

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

fn question(id: &str, question: &str, answer: &str) -> Sample {
    Sample {
        references: vec![vec![answer.into()]],
        ..Sample::new(id, Content::Question(question.into()))
    }
}

fn choice(
    id: &str,
    subject: Option<&str>,
    question: &str,
    choices: [&str; 4],
    answer: &str,
) -> Sample {
    let content = Content::MultipleChoice {
        question: question.into(),
        choices: choices.map(String::from),
    };
    Sample {
        category: subject.map(String::from),
        references: vec![vec![answer.into()]],
        ..Sample::new(id, content)
    }
}

fn turns(turns: &[&str]) -> Content {
    let turns = turns.iter().map(ToString::to_string).collect();
    Content::Text(Turns::new(turns).unwrap())
}

fn fields(fields: Value) -> Map<String, Value> {
    let Value::Object(fields) = fields else {
        panic!("{fields}");
    };
    fields
}

fn parsed(dataset: &Dataset, text: &str) -> Vec<Sample> {
    dataset
        .parse("file", text.as_bytes(), Selection::ALL)
        .unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn message(dataset: &Dataset, text: impl AsRef<[u8]>) -> String {
    dataset
        .parse("file", text.as_ref(), Selection::ALL)
        .unwrap_err()
        .to_string()
}

#[test]
fn gsm8k_lines_become_questions() {
    let expected = vec![
        Sample {
            fields: fields(json!({"id": 7})),
            ..question("7", "One?", "#### 1")
        },
        question("1", "Zweiä?", "#### 2"),
        question("2", "Three?", "#### 3"),
    ];
    assert_eq!(parsed(&Dataset::Gsm8k, GSM8K), expected);
    let marked = format!("\u{feff}{GSM8K}\n\n");
    assert_eq!(parsed(&Dataset::Gsm8k, &marked), expected);
}

#[test]
fn mmlu_rows_become_choices() {
    let choices = ["0", "4,5", "say \"x\"", "6"];
    let expected = |subject| {
        [
            choice("0", subject, "Find it, in Q.", choices, "B"),
            choice("1", subject, "Two\nlines", ["a", " b ", "c", ""], "D"),
        ]
    };
    assert_eq!(parsed(&Dataset::Mmlu, MMLU), expected(None));
    let marked = format!("\u{feff}{MMLU}");
    assert_eq!(parsed(&Dataset::Mmlu, &marked), expected(None));
    for (label, subject) in [
        ("data/world_religions_test.csv", "world_religions"),
        ("C:\\mmlu\\anatomy_dev.csv", "anatomy"),
        ("virology_val.csv.gz", "virology"),
        ("test_drive.csv", "test_drive"),
    ] {
        let bytes = if label.ends_with("gz") {
            gzip(MMLU.as_bytes())
        } else {
            MMLU.into()
        };
        let samples = Dataset::Mmlu.parse(label, &bytes, Selection::ALL);
        assert_eq!(samples.unwrap(), expected(Some(subject)));
    }
}

#[test]
fn mmlu_objects_have_numbers_or_letters() {
    let text = concat!(
        r#"{"question": "Q", "subject": "law", "choices": ["1", "2", "3", "4"], "answer": 2}"#,
        "\n",
        r#"{"question": "R", "choices": ["1", "2", "3", "4"], "answer": "A"}"#,
    );
    let choices = ["1", "2", "3", "4"];
    let expected = [
        choice("0", Some("law"), "Q", choices, "C"),
        choice("1", None, "R", choices, "A"),
    ];
    assert_eq!(parsed(&Dataset::Mmlu, text), expected);
}

#[test]
fn humaneval_and_mbpp_become_code_and_tasks() {
    let text = r#"{"task_id": "HumanEval/0", "prompt": "def f():\n", "canonical_solution": "  return 1\n", "test": "t"}"#;
    let expected = Sample {
        references: vec![vec!["  return 1\n".into()]],
        fields: fields(json!({"task_id": "HumanEval/0", "test": "t"})),
        ..Sample::new("HumanEval/0", Content::Code("def f():\n".into()))
    };
    assert_eq!(parsed(&Dataset::HumanEval, text), [expected]);

    for name in ["text", "prompt"] {
        let text = json!({name: "Do.", "code": "x\r\n", "task_id": 11, "test_list": ["a", "b"]});
        let content = Content::Task {
            description: "Do.".into(),
            tests: vec!["a".into(), "b".into()],
        };
        let expected = Sample {
            references: vec![vec!["x\r\n".into()]],
            fields: fields(json!({"task_id": 11})),
            ..Sample::new("11", content)
        };
        assert_eq!(parsed(&Dataset::Mbpp, &text.to_string()), [expected]);
    }
}

#[test]
fn alpaca_is_an_array_of_instructions() {
    let text = r#"
        [{"instruction": "Go.", "input": "", "output": "Gone."},
         {"instruction": "Come.", "input": "here", "output": "Coming.", "text": "all"}]"#;
    let sample = |id, instruction: &str, input: Option<&str>, output: &str| Sample {
        references: vec![vec![output.into()]],
        ..Sample::new(
            id,
            Content::Instruction {
                instruction: instruction.into(),
                input: input.map(String::from),
            },
        )
    };
    let expected = [
        sample("0", "Go.", None, "Gone."),
        Sample {
            fields: fields(json!({"text": "all"})),
            ..sample("1", "Come.", Some("here"), "Coming.")
        },
    ];
    assert_eq!(parsed(&Dataset::Alpaca, text), expected);
}

#[test]
fn conversations_keep_their_turns_and_references() {
    let text = concat!(
        r#"{"question_id": 81, "category": "writing", "turns": ["One", "Two"]}"#,
        "\n",
        r#"{"question_id": 82, "category": "math", "turns": ["One", "Two"], "reference": ["1", "2"]}"#,
        "\n",
        r#"{"question_id": 482, "category": "rag", "turns": ["Who?"], "reference": [["He", "She"]]}"#,
    );
    let sample = |id: &str, category: &str, content, references: &[&[&str]]| Sample {
        category: Some(category.into()),
        references: references
            .iter()
            .map(|turn| turn.iter().map(ToString::to_string).collect())
            .collect(),
        fields: fields(json!({"question_id": id.parse::<u64>().unwrap()})),
        ..Sample::new(id, content)
    };
    let expected = [
        sample("81", "writing", turns(&["One", "Two"]), &[]),
        sample("82", "math", turns(&["One", "Two"]), &[&["1"], &["2"]]),
        sample("482", "rag", turns(&["Who?"]), &[&["He", "She"]]),
    ];
    for dataset in [Dataset::MtBench, Dataset::SpecBench] {
        assert_eq!(parsed(&dataset, text), expected);
    }
    assert_eq!(expected[1].reference(), Some("1"));
}

#[test]
fn articles_come_one_by_one_or_in_a_list() {
    let text = r#"{"article": "A", "highlights": "a", "id": "x"}"#;
    let expected = Sample {
        references: vec![vec!["a".into()]],
        fields: fields(json!({"id": "x"})),
        ..Sample::new("x", Content::Article("A".into()))
    };
    assert_eq!(parsed(&Dataset::CnnDailyMail, text), [expected]);

    let list = r#"{"articles": ["A", "B", "C"], "lengths": [1, 1, 1]}"#;
    let take = |selection| Dataset::CnnDailyMail.parse("file", list.as_bytes(), selection);
    let expected = ["A", "B", "C"].map(|text| Content::Article(text.into()));
    let contents = |samples: Vec<Sample>| -> Vec<_> {
        samples.into_iter().map(|sample| sample.content).collect()
    };
    assert_eq!(contents(take(Selection::ALL).unwrap()), expected);
    let window = Selection {
        offset: 1,
        ..Selection::first(1)
    };
    assert_eq!(contents(take(window).unwrap()), expected[1..2]);
}

#[test]
fn prompts_carry_their_other_fields_in_order() {
    let text = r#"{"z": 1, "prompt": "Hi", "a": [2], "m": {"prompt": 3}, "id": "x"}"#;
    let samples = parsed(&Dataset::PROMPTS, text);
    let [sample] = &samples[..] else {
        panic!("{samples:?}");
    };
    assert_eq!(
        (sample.id.as_str(), &sample.content),
        ("x", &turns(&["Hi"]))
    );
    let fields: Vec<_> = sample.fields.clone().into_iter().collect();
    let expected = [
        ("z", json!(1)),
        ("a", json!([2])),
        ("m", json!({"prompt": 3})),
        ("id", json!("x")),
    ];
    assert_eq!(fields, expected.map(|(k, v)| (k.to_owned(), v)));
}

#[test]
fn prompts_may_be_messages() {
    let text = r#"{"messages": [{"role": "user", "content": "Hi"}], "id": "x", "note": 1}
        {"messages": [{"role": "user", "content": "no"}], "prompt": "this"}"#;
    let samples = parsed(&Dataset::PROMPTS, text);
    let messages = vec![Message::new(Role::User, "Hi")];
    assert_eq!(samples[0].content, Content::Conversation(messages));
    assert_eq!(samples[0].fields, fields(json!({"id": "x", "note": 1})));
    assert_eq!(samples[1].content, turns(&["this"]));
    let named: Dataset = "prompts:messages".parse().unwrap();
    assert!(matches!(
        parsed(&named, text)[1].content,
        Content::Conversation(_)
    ));
    for (text, words) in [
        (
            r#"{"messages": "Hi"}"#,
            "must be a list of messages, found a string",
        ),
        (r#"{"messages": []}"#, "no message"),
        (
            r#"{"messages": [{"role": "tool", "content": "x"}]}"#,
            "roles are system",
        ),
    ] {
        let error = Dataset::PROMPTS.parse("file", text.as_bytes(), Selection::ALL);
        let message = error.unwrap_err().to_string();
        assert!(
            message.contains(words) && message.contains("messages"),
            "{message}"
        );
    }
}

#[test]
fn prompts_may_be_in_any_field_and_of_several_turns() {
    let dataset: Dataset = "prompts:question".parse().unwrap();
    let text = r#"{"question": "Hi", "prompt": 5}
        {"question": ["Hi", "Bye"]}"#;
    let samples = parsed(&dataset, text);
    assert_eq!(samples[0].content, turns(&["Hi"]));
    assert_eq!(samples[0].fields, fields(json!({"prompt": 5})));
    assert_eq!(samples[1].content, turns(&["Hi", "Bye"]));
    assert_eq!(
        message(&dataset, r#"{"prompt": "Hi", "answer": 1}"#),
        "file:1: there is no field \"question\"; the entry has prompt, answer; \
         name the dataset that the file is of, or one of its fields as prompts:FIELD"
    );
    assert_eq!(
        message(&dataset, r#"{"question": []}"#),
        "file:1: the field \"question\" is an empty list; a conversation needs one turn at least"
    );
}

#[test]
fn any_format_holds_any_dataset() {
    let objects: Vec<&str> = GSM8K.lines().filter(|l| !l.trim().is_empty()).collect();
    let array = format!("\n [{}]\n", objects.join(",\n"));
    let expected = parsed(&Dataset::Gsm8k, GSM8K);
    for (label, bytes) in [
        ("test.jsonl", GSM8K.into()),
        ("test.json", array.clone().into_bytes()),
        ("test.json", GSM8K.into()),
        ("test", array.clone().into_bytes()),
        ("test.jsonl.gz", gzip(GSM8K.as_bytes())),
        ("test.json.gz", gzip(array.as_bytes())),
        ("without a name", gzip(GSM8K.as_bytes())),
    ] {
        let samples = Dataset::Gsm8k.parse(label, &bytes, Selection::ALL);
        assert_eq!(samples.unwrap(), expected, "{label}");
    }
}

#[test]
fn bad_json_lines_are_named_by_file_and_line() {
    let after = |line: &str| message(&Dataset::Gsm8k, format!("{GSM8K}\n\n{line}\n"));
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
        "file:7: there is no field \"answer\"; the entry has question, solution; \
         name the dataset that the file is of, or one of its fields as prompts:FIELD"
    );
    assert_eq!(
        after("{}"),
        "file:7: there is no field \"question\"; the entry is empty; \
         name the dataset that the file is of, or one of its fields as prompts:FIELD"
    );
    assert_eq!(
        after("{\"question\": 5, \"answer\": \"\"}"),
        "file:7: the field \"question\" must be a string, found a number"
    );
}

#[test]
fn bad_rows_are_named_by_file_and_line() {
    // The second record takes two lines, so this one stands on line 7.
    let after = |row: &str| message(&Dataset::Mmlu, format!("{MMLU}\n\n{row}\n"));
    assert!(after("a,b,c").starts_with("file:7: expected 6 columns"));
    assert!(after("a,b,c").contains("found 3"));
    assert!(after("q,1,2,3,4,A,B").contains("found 7"));
    assert_eq!(
        after("question,A,B,C,D,answer"),
        "file:7: the answer must be A, B, C or D, or in JSON and Parquet a number from 0 to 3, found \"answer\"; \
         a CSV file must have no header"
    );
    assert!(after("\"open,1,2,3,4,A").starts_with("file:7: expected 6 columns"));
}

#[test]
fn csv_is_mmlus_alone() {
    let error = Dataset::Gsm8k.parse("anatomy_test.csv", MMLU.as_bytes(), Selection::ALL);
    assert_eq!(
        error.unwrap_err().to_string(),
        "anatomy_test.csv:1: column 17: trailing characters; every line must be one JSON object"
    );
}

#[test]
fn bytes_that_are_no_text_are_named_by_line() {
    for dataset in Dataset::ALL {
        let text = message(&dataset, b"ok\nbad \xff\n");
        assert_eq!(text, "file:2: invalid UTF-8; convert the file to UTF-8");
    }
    let wide = message(&Dataset::Gsm8k, b"\xff\xfe{\0}\0");
    assert_eq!(wide, "file:1: it is in UTF-16; save the file as UTF-8");
}

#[test]
fn nothing_to_read_is_an_error() {
    for dataset in Dataset::ALL {
        for text in ["", "\n\n", "\u{feff}"] {
            assert_eq!(message(&dataset, text), "file: there are no samples in it");
        }
    }
}

#[test]
fn entries_of_the_wrong_shape_are_named() {
    let cases = [
        (
            Dataset::Alpaca,
            r#"[{"instruction": "a", "output": "b"}, {"instruction": 1}]"#,
            "file, element 2: the field \"instruction\" must be a string, found a number",
        ),
        (
            Dataset::Alpaca,
            "[{\"instruction\": \"a\"},\n {\"instruction\" 1}]",
            "file:2: column 17: expected `:`; the file must be one JSON array of objects, or JSON objects line by line",
        ),
        (
            Dataset::Alpaca,
            "[[1]]",
            "file, element 1: expected a JSON object, found an array",
        ),
        (
            Dataset::Mbpp,
            r#"{"description": "x"}"#,
            "file:1: there is no field \"text\" or \"prompt\"; the entry has description; \
             name the dataset that the file is of, or one of its fields as prompts:FIELD",
        ),
        (
            Dataset::Mbpp,
            r#"{"text": "x", "test_list": "assert"}"#,
            "file:1: the field \"test_list\" must be a list of strings, found a string",
        ),
        (
            Dataset::MtBench,
            r#"{"turns": ["x", 1]}"#,
            "file:1: the field \"turns\" must be a list of strings, found a number in a list",
        ),
        (
            Dataset::SpecBench,
            r#"{"turns": ["x"], "reference": 3}"#,
            "file:1: the field \"reference\" must be a string or a list of strings or of lists of strings, found a number",
        ),
        (
            Dataset::SpecBench,
            r#"{"turns": []}"#,
            "file:1: the field \"turns\" is an empty list; a conversation needs one turn at least",
        ),
        (
            Dataset::CnnDailyMail,
            r#"{"articles": ["x", null]}"#,
            "file:1: the field \"article\" must be a string, found null",
        ),
        (
            Dataset::Mmlu,
            r#"{"question": "x", "choices": ["a", "b", "c"], "answer": 0}"#,
            "file:1: there must be four choices, found 3",
        ),
        (
            Dataset::Mmlu,
            r#"{"question": "x", "choices": ["a", "b", "c", "d"], "answer": 4}"#,
            "file:1: the answer must be A, B, C or D, or in JSON and Parquet a number from 0 to 3, found 4; \
             a CSV file must have no header",
        ),
    ];
    for (dataset, text, expected) in cases {
        assert_eq!(message(&dataset, text), expected);
    }
}

#[test]
fn damaged_gzip_files_are_named() {
    let whole = gzip(GSM8K.as_bytes());
    let read = |label: &str, bytes: &[u8]| {
        let error = Dataset::Gsm8k.parse(label, bytes, Selection::first(1));
        error.unwrap_err().to_string()
    };
    for bytes in [&whole[..whole.len() - 9], &whole[..5], b"no gzip at all"] {
        let text = read("test.jsonl.gz", bytes);
        assert!(
            text.starts_with("test.jsonl.gz: not a whole gzip file: "),
            "{text}"
        );
        assert!(text.ends_with("; download it again"), "{text}");
    }
}

#[test]
fn a_selection_is_a_window() {
    let take = |offset, limit| {
        let selection = Selection {
            offset,
            limit,
            random: None,
        };
        Dataset::Gsm8k.parse("file", GSM8K.as_bytes(), selection)
    };
    let [second, third] = [
        question("1", "Zweiä?", "#### 2"),
        question("2", "Three?", "#### 3"),
    ];
    assert_eq!(take(1, Some(1)).unwrap(), [second]);
    assert_eq!(take(2, None).unwrap(), [third]);
    assert_eq!(take(1, Some(100)).unwrap().len(), 2);
    assert_eq!(take(0, Some(0)).unwrap(), []);
    assert_eq!(
        take(3, Some(1)).unwrap_err().to_string(),
        "file: it has 3 samples, so none is left after the first 3; use a smaller offset"
    );
}

#[test]
fn a_random_selection_is_of_the_window_and_in_its_order() {
    let text: String = (0..200)
        .map(|n| format!("{{\"prompt\": \"{n}\"}}\n"))
        .collect();
    let ids = |selection| -> Vec<usize> {
        let samples = Dataset::PROMPTS.parse("file", text.as_bytes(), selection);
        let ids = samples.unwrap().into_iter().map(|sample| sample.id);
        ids.map(|id| id.parse().unwrap()).collect()
    };
    let random = RandomSample { size: 8, seed: 3 };
    assert_eq!(ids(Selection::random(8, 3)), random.positions(200).unwrap());
    let window = Selection {
        offset: 100,
        limit: Some(50),
        random: Some(random),
    };
    let expected: Vec<_> = random.positions(50).unwrap();
    assert_eq!(
        ids(window),
        expected.iter().map(|n| n + 100).collect::<Vec<_>>()
    );
    assert_ne!(ids(Selection::random(8, 4)), ids(Selection::random(8, 3)));

    let too_many = Dataset::PROMPTS.parse("file", text.as_bytes(), Selection::random(201, 0));
    assert_eq!(
        too_many.unwrap_err().to_string(),
        "file: 201 samples at random were asked for, but there are 200 to choose from; ask for fewer"
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
    let none = Dataset::Mmlu
        .read(path, Selection::ALL)
        .unwrap_err()
        .to_string();
    assert!(
        none.ends_with("holds no .csv, .jsonl, .json, .parquet file; name the file itself"),
        "{none}"
    );

    fs::write(path.join("b_test.csv"), "b,1,2,3,4,A\n").unwrap();
    fs::write(path.join("a_test.csv"), "a,1,2,3,4,A\na,1,2,3,4,C\n").unwrap();
    fs::write(path.join("notes.txt"), "not CSV").unwrap();
    let all = Dataset::Mmlu.read(path, Selection::ALL).unwrap();
    let choices = ["1", "2", "3", "4"];
    let expected = [
        choice("0", Some("a"), "a", choices, "A"),
        choice("1", Some("a"), "a", choices, "C"),
        choice("2", Some("b"), "b", choices, "A"),
    ];
    assert_eq!(all, expected);
    let window = Selection {
        offset: 1,
        ..Selection::first(2)
    };
    assert_eq!(Dataset::Mmlu.read(path, window).unwrap(), expected[1..]);

    fs::write(path.join("c.csv"), "c\n").unwrap();
    assert_eq!(Dataset::Mmlu.read(path, window).unwrap(), expected[1..]);
    let bad = Dataset::Mmlu.read(path, Selection::ALL).unwrap_err();
    assert!(bad.to_string().contains("c.csv:1: expected 6"), "{bad}");

    fs::write(path.join("d.jsonl"), "").unwrap();
    let mixed = Dataset::Mmlu.read(path, Selection::ALL).unwrap_err();
    assert!(
        mixed
            .to_string()
            .ends_with("holds files of several formats, .csv, .jsonl; name one file"),
        "{mixed}"
    );
}

#[test]
fn a_missing_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nowhere.jsonl");
    let error = Dataset::Gsm8k.read(&path, Selection::ALL).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("nowhere.jsonl: "));
}

#[test]
fn names_go_both_ways() {
    let chosen = Dataset::Prompts {
        field: "question".into(),
    };
    for dataset in Dataset::ALL.into_iter().chain([chosen]) {
        assert_eq!(dataset.to_string().parse::<Dataset>().unwrap(), dataset);
        let json = serde_json::to_string(&dataset).unwrap();
        assert_eq!(json, format!("\"{dataset}\""));
        assert_eq!(serde_json::from_str::<Dataset>(&json).unwrap(), dataset);
    }
    for (name, shortest) in [
        ("problems:held-out", "problems:held-out"),
        (
            "problems:7:held-out:multiple-choice",
            "problems:multiple-choice:held-out:7",
        ),
        ("problems:test:0:word-problem", "problems"),
    ] {
        let dataset: Dataset = name.parse().unwrap();
        assert_eq!(dataset.to_string(), shortest);
        assert_eq!(shortest.parse::<Dataset>().unwrap(), dataset);
    }
    for name in [
        "squad",
        "prompts:",
        "problems:",
        "problems:test:train",
        "problems:-1",
    ] {
        assert_eq!(
            name.parse::<Dataset>().unwrap_err().to_string(),
            format!(
                "there is no dataset {name:?}; known are problems, gsm8k, mmlu, humaneval, mbpp, alpaca, mt-bench, \
                 spec-bench, cnn-dailymail, prompts, prompts:FIELD for JSON lines with the prompt in another field, \
                 and problems:KIND:SPLIT:SEED (word-problem or multiple-choice; test, validation, train, held-out \
                 or ordinary; a number)"
            )
        );
    }
}

#[test]
fn problems_are_made_as_selected() {
    let set: Dataset = "problems:multiple-choice:5".parse().unwrap();
    let made = |selection| set.made(selection).unwrap();
    let ids = |samples: &[Sample]| -> Vec<String> {
        samples.iter().map(|sample| sample.id.clone()).collect()
    };
    let first = made(Selection::first(6)).unwrap();
    assert_eq!(ids(&first), ["0", "1", "2", "3", "4", "5"]);
    assert!(first.iter().all(|sample| sample.solution().is_some()));
    assert!(matches!(first[0].content, Content::MultipleChoice { .. }));
    let window = Selection {
        offset: 4,
        ..Selection::first(2)
    };
    assert_eq!(made(window).unwrap(), first[4..]);
    let random = Selection {
        random: Some(RandomSample { size: 2, seed: 1 }),
        ..Selection::first(6)
    };
    let chosen = made(random).unwrap();
    assert!(chosen.len() == 2 && chosen.iter().all(|sample| first.contains(sample)));
    let too_many = made(Selection::random(1001, 0)).unwrap_err().to_string();
    assert!(too_many.contains("1000 to choose from"), "{too_many}");
    let past = made(Selection {
        offset: usize::MAX,
        ..Selection::first(2)
    });
    assert_eq!(past.unwrap_err().kind(), ErrorKind::Selection);
    assert!(Dataset::Gsm8k.made(Selection::ALL).is_none());
}

#[test]
fn problems_are_read_from_files_as_they_were_made() {
    let set: Dataset = "problems:multiple-choice".parse().unwrap();
    let Dataset::Problems(problems) = set else {
        panic!("{set}");
    };
    let lines: String = problems
        .problems()
        .take(3)
        .map(|problem| {
            let line = json!({
                "question": problem.question,
                "choices": problem.choices,
                "answer": problem.solution,
                "template": problem.template,
            });
            format!("{line}\n")
        })
        .collect();
    let read = set.parse("file", lines.as_bytes(), Selection::ALL).unwrap();
    assert_eq!(read, set.made(Selection::first(3)).unwrap().unwrap());
    let three = r#"{"question": "a", "choices": ["1", "2", "3"], "answer": "A"}"#;
    let error = set.parse("file", three.as_bytes(), Selection::ALL);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Entry);
}

#[test]
fn problems_are_asked_with_what_takes_them() {
    let template = |name: &str, configured: PromptTemplate| {
        let Ok(Dataset::Problems(set)) = name.parse() else {
            panic!("{name}");
        };
        set.template(configured)
    };
    let both = ["problems", "problems:multiple-choice"];
    for name in both {
        assert_eq!(template(name, PromptTemplate::Raw), PromptTemplate::Problem);
        let own = template(name, PromptTemplate::Problem);
        assert_eq!(own, PromptTemplate::Problem);
    }
    let [word, choice] = both.map(|name| template(name, PromptTemplate::T5Gsm8k));
    assert_eq!(
        (word, choice),
        (PromptTemplate::T5Gsm8k, PromptTemplate::Problem)
    );
}

proptest! {
    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "[\"a,\\n\\r{}:\\[1 ]{0,60}") {
        for dataset in Dataset::ALL {
            for magic in [&b""[..], b"PAR1", b"\x1f\x8b\x08"] {
                let _ = dataset.parse("file", &[magic, &bytes].concat(), Selection::ALL);
            }
            let _ = dataset.parse("file", text.as_bytes(), Selection::ALL);
        }
    }

    #[test]
    fn what_was_written_is_read(samples in proptest::collection::vec((".*", ".*"), 1..8)) {
        let text: String = samples
            .iter()
            .map(|(q, a)| format!("{}\n", json!({"question": q, "answer": a})))
            .collect();
        let expected: Vec<Sample> = samples
            .iter()
            .enumerate()
            .map(|(id, (q, a))| question(&id.to_string(), q, a))
            .collect();
        let read = Dataset::Gsm8k.parse("file", text.as_bytes(), Selection::ALL).unwrap();
        prop_assert_eq!(read, expected);
    }
}
