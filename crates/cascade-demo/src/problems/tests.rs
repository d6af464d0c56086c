use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::*;

const SPLITS: [Split; 3] = [Split::Train, Split::Validation, Split::Test];

fn sample(kind: ProblemKind, split: Split, count: usize) -> Vec<Problem> {
    problems(kind, split, 7).take(count).collect()
}

/// The value of `a * b`, `a + b`, `a - b` or `a / b`.
fn value(words: &[&str]) -> Option<u32> {
    let number = |word: &str| word.parse::<u32>().ok();
    let (a, b) = (number(words[0])?, number(words[2])?);
    match words[1] {
        "*" => Some(a * b),
        "+" => Some(a + b),
        "-" => a.checked_sub(b),
        "/" => (a % b == 0).then(|| a / b),
        _ => None,
    }
}

/// A problem of numbers of every template, for a seed.
fn of_every_template(seed: u64) -> impl Iterator<Item = Problem> {
    templates::all().map(move |template| {
        let mut draw = Draw::new(seed);
        let story = template.draw(&mut draw).story();
        let StoryAnswer::Number(answer) = story.answer else {
            panic!("{} asks for no number", template.name);
        };
        written(template, &story, answer, &mut draw)
    })
}

#[test]
fn every_equation_holds_and_the_last_one_gives_the_answer() {
    assert_eq!(templates::all().count(), 56);
    for problem in (0..500).flat_map(of_every_template) {
        let (steps, answer) = problem.solution.split_once(" #### ").unwrap();
        assert_eq!(answer, problem.answer, "{problem:?}");
        let words: Vec<&str> = steps.split_whitespace().collect();
        let equations: Vec<(u32, u32)> = (3..words.len())
            .filter(|i| words[*i] == "=")
            .map(|i| {
                let stated = words[i + 1].trim_start_matches('$').trim_end_matches('.');
                let found = value(&words[i - 3..i]).expect(steps);
                (found, stated.parse().expect(steps))
            })
            .collect();
        assert!(!equations.is_empty() && equations.len() <= 5, "{problem:?}");
        for (found, stated) in &equations {
            assert!(found == stated && *found >= 2, "{problem:?}");
        }
        let last = equations.last().unwrap().1;
        assert_eq!(last.to_string(), answer, "{problem:?}");
    }
}

#[test]
fn every_number_of_a_first_step_is_told() {
    for problem in sample(ProblemKind::WordProblem, Split::Train, 1000) {
        let first = problem.solution.split(" = ").next().unwrap();
        let numbers = |text: &str| -> HashSet<u32> {
            text.split(|c: char| !c.is_ascii_digit())
                .filter_map(|n| n.parse().ok())
                .collect()
        };
        let mut known = numbers(&problem.question);
        // What everybody knows: hens, legs, cents, percents, days, halves and parts.
        known.extend([2, 3, 4, 5, 7, 10, 60]);
        assert!(numbers(first).is_subset(&known), "{problem:?}");
    }
}

#[test]
fn every_template_is_in_every_split_and_only_some_are_held_out() {
    for kind in [ProblemKind::WordProblem, ProblemKind::MultipleChoice] {
        let names = |split| -> BTreeSet<&str> {
            sample(kind, split, 1500)
                .iter()
                .map(|problem| problem.template)
                .collect()
        };
        let train = names(Split::Train);
        assert!(train.len() >= 40, "{}", train.len());
        assert_eq!(names(Split::Validation), train);
        assert_eq!(names(Split::Test), train);
        let held_out = names(Split::HeldOut);
        assert!((4..8).contains(&held_out.len()) && held_out.is_disjoint(&train));
    }
}

#[test]
fn splits_share_no_numbers_names_or_wordings() {
    let mut owners: BTreeMap<(&str, String), Split> = BTreeMap::new();
    for split in SPLITS {
        let mut drawn = Drawing::new(ProblemKind::MultipleChoice, split, 3);
        for _ in 0..800 {
            let template = drawn.templates[drawn.rng.random_range(0..drawn.templates.len())];
            let draw = loop {
                let mut draw = Draw::new(drawn.rng.random());
                template.draw(&mut draw);
                if belongs(template, &draw.record, split) {
                    break draw.record;
                }
            };
            for fact in [
                format!("{:?}", draw.numbers),
                format!("person {}", draw.person.unwrap_or_default()),
                format!("wording {}", draw.wording),
            ] {
                let owner = *owners.entry((template.name, fact.clone())).or_insert(split);
                assert_eq!(owner, split, "{} {fact}", template.name);
            }
        }
    }
}

#[test]
fn the_right_letter_stands_behind_the_right_answer() {
    let mut letters = BTreeMap::new();
    for problem in sample(ProblemKind::MultipleChoice, Split::Train, 1000) {
        *letters.entry(problem.answer.clone()).or_insert(0) += 1;
        let choices = problem.choices.as_ref().unwrap();
        let place = "ABCD".find(&problem.answer).unwrap();
        let (steps, letter) = problem.solution.split_once(" #### ").unwrap();
        assert_eq!(letter, problem.answer);
        let right = &choices[place];
        assert!(
            steps.ends_with(&format!(". The answer is {right} ({letter}).")),
            "{problem:?}"
        );
        assert!(steps.matches(right).count() >= 2, "{problem:?}");
        assert_eq!(choices.iter().collect::<HashSet<_>>().len(), 4);
    }
    assert!(
        letters.values().all(|count| (180..320).contains(count)),
        "{letters:?}"
    );
}

#[test]
fn texts_are_clean() {
    for kind in [ProblemKind::WordProblem, ProblemKind::MultipleChoice] {
        for problem in sample(kind, Split::Train, 1000) {
            for text in [&problem.question, &problem.solution] {
                assert!(text.is_ascii() && text.len() < 600, "{text}");
                assert!(
                    !text.contains("  ") && !text.contains(['{', '}', '\n']),
                    "{text}"
                );
                assert!(text.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit()));
                assert!(!text.contains(" 0") && !text.contains(" 1 "), "{text}");
            }
        }
    }
}

#[test]
fn a_seed_gives_the_same_problems_for_ever() {
    let digest = |kind, split| {
        let text: String = sample(kind, split, 500)
            .iter()
            .map(|problem| format!("{problem:?}\n"))
            .collect();
        hash(text.bytes(), 0)
    };
    assert_eq!(
        [
            digest(ProblemKind::WordProblem, Split::Train),
            digest(ProblemKind::WordProblem, Split::Test),
            digest(ProblemKind::MultipleChoice, Split::Test),
        ],
        [
            843_512_819_433_947_438,
            1_103_713_123_419_273_157,
            330_745_133_813_982_618
        ]
    );
}

#[test]
fn ordinary_problems_are_thirty_in_nobodys_words() {
    let ordinary: Vec<Problem> = problems(ProblemKind::WordProblem, Split::Ordinary, 0).collect();
    assert_eq!(ordinary.len(), 30);
    let choices = problems(ProblemKind::MultipleChoice, Split::Ordinary, 0);
    for (problem, choice) in ordinary.iter().zip(choices) {
        assert_eq!(choice.question, problem.question);
        let right = choice.answer.as_bytes()[0] - b'A';
        assert_eq!(
            choice.choices.unwrap()[usize::from(right)],
            problem.answer,
            "{problem:?}"
        );
    }
    let beginnings = |text: &str| text.split(' ').take(6).collect::<Vec<_>>().join(" ");
    let templates: HashSet<String> = [Split::Train, Split::HeldOut]
        .into_iter()
        .flat_map(|split| sample(ProblemKind::WordProblem, split, 3000))
        .map(|problem| beginnings(&problem.question))
        .collect();
    for problem in &ordinary {
        let begins = beginnings(&problem.question);
        assert!(!templates.contains(&begins), "{begins}");
    }
}

#[test]
fn names_of_kinds_and_splits_are_known() {
    assert_eq!("held-out".parse(), Ok(Split::HeldOut));
    assert_eq!("word-problem".parse(), Ok(ProblemKind::WordProblem));
    for split in Split::ALL {
        assert_eq!(split.to_string().parse(), Ok(split));
    }
    for kind in ProblemKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    let error = "tset".parse::<Split>().unwrap_err().to_string();
    assert_eq!(
        error,
        "\"tset\" is none of train, validation, test, held-out, ordinary"
    );
}
