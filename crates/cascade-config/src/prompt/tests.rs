use super::*;

const SYSTEM: &str = "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user's questions.";

fn text(text: &str) -> Content {
    Content::Text(text.into())
}

fn conversation() -> Content {
    let turns = ["Hello!", "How are\nyou?", "Bye. "].map(String::from);
    Content::Text(Turns::new(turns.into()).unwrap())
}

fn choice() -> Content {
    Content::MultipleChoice {
        question: "Which?".into(),
        choices: ["one", "{d}", "3", "(B) four"].map(String::from),
    }
}

fn task() -> Content {
    Content::Task {
        description: "Add two {numbers}.".into(),
        tests: vec![
            "assert add(1, 2) == 3".into(),
            "assert add(0, 0) == 0".into(),
        ],
    }
}

fn instruction(input: Option<&str>) -> Content {
    Content::Instruction {
        instruction: "Translate into German.".into(),
        input: input.map(String::from),
    }
}

/// One content of each kind.
fn contents() -> [Content; 7] {
    [
        Content::Question("How many {question}s?".into()),
        choice(),
        text("Hello\nthere "),
        Content::Code("def f(x):\n".into()),
        task(),
        instruction(None),
        Content::Article("It rained. {article}".into()),
    ]
}

fn prompt(template: PromptTemplate, content: &Content) -> String {
    template.apply(content).unwrap()
}

#[test]
fn questions_and_texts_are_exact() {
    let [question, choice, text, code, ..] = &contents();
    let all = [
        (PromptTemplate::T5Gsm8k, question, "Reason the math question below step by step. Question: How many {question}s?.\n Answer: ".to_owned()),
        (PromptTemplate::VicunaGsm8k, question, format!("{SYSTEM} USER: Reason the math question step by step. Question: How many {{question}}s?\n Answer:  ASSISTANT:")),
        (PromptTemplate::T5Mmlu, choice, "Question: Which?\n(A) one (B) {d} (C) 3 (D) (B) four\n Answer: \n Let's think step by step. ".to_owned()),
        (PromptTemplate::VicunaMmlu, choice, format!("{SYSTEM} USER: Answer the question step by step: Question: Which?\n(A) one (B) {{d}} (C) 3 (D) (B) four\n Answer: \n ASSISTANT:")),
        (PromptTemplate::Problem, question, "Question: How many {question}s? Answer:".to_owned()),
        (PromptTemplate::Problem, choice, "Question: Which? one (A), {d} (B), 3 (C) or (B) four (D)? Answer:".to_owned()),
        (PromptTemplate::Problem, text, "Question: Hello\nthere  Answer:".to_owned()),
        (PromptTemplate::Raw, text, "Hello\nthere ".to_owned()),
        (PromptTemplate::Raw, code, "def f(x):\n".to_owned()),
        (PromptTemplate::Vicuna, text, format!("{SYSTEM} USER: Hello\nthere  ASSISTANT:")),
        (PromptTemplate::VicunaHumanEval, code, format!("{SYSTEM} USER: Create a Python script for this problem:\ndef f(x):\n ASSISTANT:")),
    ];
    for (template, content, expected) in all {
        assert_eq!(prompt(template, content), expected, "{template}");
    }
}

#[test]
fn tasks_instructions_and_articles_are_exact() {
    let article = &contents()[6];
    let all = [
        (PromptTemplate::Mbpp, &task(), "\"\"\"\nAdd two {numbers}.\nassert add(1, 2) == 3\n\"\"\"\n".to_owned()),
        (PromptTemplate::VicunaMbpp, &task(), format!("{SYSTEM} USER: You are an expert Python programmer, and here is your task: Add two {{numbers}}. Your code should pass these tests:\n\nassert add(1, 2) == 3\nassert add(0, 0) == 0\n ASSISTANT:")),
        (PromptTemplate::Alpaca, &instruction(None), "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n### Instruction:\nTranslate into German.\n\n### Response:".to_owned()),
        (PromptTemplate::Alpaca, &instruction(Some("Rain")), "Below is an instruction that describes a task, paired with an input that provides further context. Write a response that appropriately completes the request.\n\n### Instruction:\nTranslate into German.\n\n### Input:\nRain\n\n### Response:".to_owned()),
        (PromptTemplate::VicunaAlpaca, &instruction(None), format!("{SYSTEM} USER: Translate into German. ASSISTANT:")),
        (PromptTemplate::VicunaAlpaca, &instruction(Some("Rain")), format!("{SYSTEM} USER: Translate into German.\nInput: Rain ASSISTANT:")),
        (PromptTemplate::CnnDailyMail, article, "Summarize:\nIt rained. {article}\nSummary:\n".to_owned()),
        (PromptTemplate::T5CnnDailyMail, article, "summarize: It rained. {article}".to_owned()),
        (PromptTemplate::VicunaCnnDailyMail, article, format!("{SYSTEM} USER: Summarize: It rained. {{article}} ASSISTANT:")),
    ];
    for (template, content, expected) in all {
        assert_eq!(prompt(template, content), expected, "{template}");
    }
}

/// What `conv.get_prompt()` of FastChat's `get_conv_template("vicuna_v1.1")` gives after
/// `append_message(roles[0], …)` and `append_message(roles[1], …)` for each turn, the last with
/// `None`.
#[test]
fn a_conversation_is_fastchats_to_the_byte() {
    let content = conversation();
    let after = |answers: &[&str]| {
        let answers: Vec<String> = answers.iter().map(ToString::to_string).collect();
        PromptTemplate::Vicuna.apply_after(&content, &answers)
    };
    assert_eq!(PromptTemplate::Vicuna.turns(&content), 3);
    assert_eq!(
        after(&[]).unwrap(),
        "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user's questions. USER: Hello! ASSISTANT:"
    );
    assert_eq!(
        after(&["Hi!"]).unwrap(),
        "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user's questions. USER: Hello! ASSISTANT: Hi!</s>USER: How are\nyou? ASSISTANT:"
    );
    assert_eq!(
        after(&["Hi!", "Fine,\nthanks. "]).unwrap(),
        "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user's questions. USER: Hello! ASSISTANT: Hi!</s>USER: How are\nyou? ASSISTANT: Fine,\nthanks. </s>USER: Bye.  ASSISTANT:"
    );
    // FastChat: `if message: … + message + sep, else: role + ":"`.
    assert_eq!(
        after(&["", "Fine."]).unwrap(),
        "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user's questions. USER: Hello! ASSISTANT:USER: How are\nyou? ASSISTANT: Fine.</s>USER: Bye.  ASSISTANT:"
    );
}

#[test]
fn nothing_is_asked_after_the_last_turn() {
    let answers = ["a", "b", "c"].map(String::from);
    let over = PromptTemplate::Vicuna.apply_after(&conversation(), &answers);
    assert_eq!(
        over.unwrap_err().to_string(),
        "the prompt template vicuna asks 3 turns, all of which are answered; \
         several turns of a text need the template vicuna"
    );
    assert_eq!(PromptTemplate::Raw.turns(&conversation()), 1);
    assert_eq!(prompt(PromptTemplate::Raw, &conversation()), "Hello!");
    let over = PromptTemplate::Raw.apply_after(&conversation(), &answers[..1]);
    assert!(matches!(
        over,
        Err(PromptError::NoTurnLeft { turns: 1, .. })
    ));
}

#[test]
fn a_template_refuses_other_kinds() {
    for content in &contents() {
        let kind = content.kind();
        let fitting = PromptTemplate::ALL.iter().filter(|t| t.accepts(kind));
        assert!(fitting.count() > 1, "{kind}");
        for template in PromptTemplate::ALL {
            let applied = template.apply(content);
            assert_eq!(applied.is_ok(), template.accepts(kind), "{template} {kind}");
        }
    }
    assert_eq!(
        PromptTemplate::T5Mmlu
            .apply(&text("hi"))
            .unwrap_err()
            .to_string(),
        "the prompt template t5-mmlu needs a multiple-choice question, but the sample is a text; \
         for that there are problem, raw, vicuna"
    );
    assert_eq!(
        PromptTemplate::Raw.apply(&task()).unwrap_err().to_string(),
        "the prompt template raw needs a text or the beginning of a program, but the sample is a programming task; \
         for that there are mbpp, vicuna-mbpp"
    );
}

#[test]
fn names_go_both_ways() {
    for template in PromptTemplate::ALL {
        let again: PromptTemplate = template.to_string().parse().unwrap();
        assert_eq!(again, template);
        let json = serde_json::to_string(&template).unwrap();
        assert_eq!(json, format!("{:?}", template.name()));
        let again: PromptTemplate = serde_json::from_str(&json).unwrap();
        assert_eq!(again, template);
    }
}

#[test]
fn an_unknown_name_lists_the_known() {
    let error = "gsm8k".parse::<PromptTemplate>().unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no prompt template \"gsm8k\"; known are t5-gsm8k, t5-mmlu, vicuna-gsm8k, vicuna-mmlu, problem, raw, vicuna, \
         vicuna-humaneval, mbpp, vicuna-mbpp, alpaca, vicuna-alpaca, cnn-dailymail, t5-cnn-dailymail, vicuna-cnn-dailymail"
    );
    let serde = serde_json::from_str::<PromptTemplate>("\"gsm8k\"").unwrap_err();
    assert!(serde.to_string().contains(&error));
}
