//! Questions with four answers to choose from.

use super::draw::Draw;
use super::story::{template, Answer, Story, Template};
use super::world::{Person, Thing, BAKED, FLOWERS, FRUIT, PENS, TOYS};
use super::{question, sentences, templates, Problem};
use crate::problems::draw::say;

const LETTERS: [char; 4] = ['A', 'B', 'C', 'D'];

/// What has four words as answers.
const WORDS: [Template; 3] = [template!(most), template!(fewest), template!(of_a_kind)];

/// Templates of numbers, and those of words so often that a quarter of the problems are such.
pub(super) fn all() -> impl Iterator<Item = &'static Template> {
    let words = WORDS.iter().cycle().take(templates::all().count() / 3);
    templates::all().chain(words)
}

pub(super) fn written(template: &Template, story: &Story, draw: &mut Draw) -> Problem {
    let (choices, right) = match &story.answer {
        Answer::Number(right) => numbers(*right, draw),
        Answer::OneOf(options, right) => (options.clone(), *right),
    };
    let question = question(story, draw);
    of(
        template.name,
        question,
        &sentences(&story.steps),
        (choices, right),
    )
}

/// A question with its choices, and the place of the right one.
pub(super) fn of(
    template: &'static str,
    question: String,
    steps: &str,
    (choices, right): ([String; 4], usize),
) -> Problem {
    let (letter, chosen) = (LETTERS[right], &choices[right]);
    Problem {
        template,
        question,
        solution: format!("{steps} The answer is {chosen} ({letter}). #### {letter}"),
        choices: Some(choices),
        answer: letter.to_string(),
    }
}

/// The right number among three others that a slip may lead to, in any order; and its place.
pub(super) fn numbers(right: u32, draw: &mut Draw) -> ([String; 4], usize) {
    let mut slips = vec![right + 1, right + 2, right + 10, right * 2, right + 5];
    slips.extend(
        [1, 2, 10]
            .iter()
            .filter_map(|less| right.checked_sub(*less)),
    );
    slips.retain(|slip| *slip > 1 && *slip != right);
    slips.sort_unstable();
    slips.dedup();
    let place = draw.place(LETTERS.len());
    let options = std::array::from_fn(|at| {
        if at == place {
            right.to_string()
        } else {
            slips.swap_remove(draw.place(slips.len())).to_string()
        }
    });
    (options, place)
}

/// Four people with a number each, all different, and the places of the least and the largest.
fn four(draw: &mut Draw) -> ([(Person, u32); 4], usize, usize) {
    let mut owners = [(); 4].map(|()| (draw.person(), draw.number(3..=60)));
    for i in 1..owners.len() {
        while owners[..i].iter().any(|(_, number)| *number == owners[i].1) {
            owners[i].1 = draw.number(3..=60);
        }
    }
    let by_number = |pick: fn(&[u32; 4]) -> Option<usize>| {
        pick(&owners.map(|(_, number)| number)).unwrap_or_default()
    };
    let least = by_number(|all| (0..4).min_by_key(|i| all[*i]));
    let most = by_number(|all| (0..4).max_by_key(|i| all[*i]));
    (owners, least, most)
}

fn told(owners: &[(Person, u32); 4], many: &str, draw: &mut Draw) -> String {
    let [(a, x), (b, y), (c, z), (d, u)] = owners.map(|(person, number)| (person.name, number));
    say!(draw; "{a} has {x} {many}, {b} has {y}, {c} has {z} and {d} has {u}.",
        "{a} finds {x} {many}. {b} finds {y}, {c} finds {z} and {d} finds {u}.",
        "Of the {many}, {x} belong to {a}, {y} to {b}, {z} to {c} and {u} to {d}.",
        "There are {x} {many} for {a}, {y} for {b}, {z} for {c} and {u} for {d}.",
        "{a} counts {x} {many}, {b} {y}, {c} {z} and {d} {u}.")
}

fn most(draw: &mut Draw) -> Story {
    let Thing { many, .. } = draw.thing(&TOYS);
    let (owners, _, right) = four(draw);
    let text = told(&owners, many, draw);
    let asked = say!(draw; "Who has the most {many}?", "Who has more {many} than all others?");
    let (winner, number) = (owners[right].0.name, owners[right].1);
    choose(
        text,
        asked,
        owners.map(|(person, _)| person.name.to_owned()),
        format!("The largest number is {number}, and it belongs to {winner}."),
        right,
    )
}

fn fewest(draw: &mut Draw) -> Story {
    let Thing { many, .. } = draw.thing(&TOYS);
    let (owners, right, _) = four(draw);
    let text = told(&owners, many, draw);
    let asked = say!(draw; "Who has the fewest {many}?", "Who has fewer {many} than all others?");
    let (winner, number) = (owners[right].0.name, owners[right].1);
    choose(
        text,
        asked,
        owners.map(|(person, _)| person.name.to_owned()),
        format!("The smallest number is {number}, and it belongs to {winner}."),
        right,
    )
}

fn of_a_kind(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let kinds: [(&str, &[Thing]); 4] = [
        ("fruits", &FRUIT),
        ("flowers", &FLOWERS),
        ("things to write with", &PENS),
        ("baked goods", &BAKED),
    ];
    let right_kind = draw.place(kinds.len());
    let right = draw.place(LETTERS.len());
    let number = draw.number(2..=90);
    let mut others: Vec<usize> = (0..kinds.len())
        .filter(|kind| *kind != right_kind)
        .collect();
    let options = std::array::from_fn(|place| {
        let kind = if place == right {
            right_kind
        } else {
            others.remove(draw.place(others.len()))
        };
        draw.thing(kinds[kind].1).many.to_owned()
    });
    let (word, answer) = (kinds[right_kind].0, options[right].clone());
    let asked = say!(draw; "Which of them are {word}?", "Which of these things are {word}?");
    choose(
        say!(draw; "{name} has a list of {number} things.",
            "There are {number} things on the list of {name}.",
            "{name} writes down {number} things.",
            "In the house of {name} are {number} kinds of things.",
            "{name} looks at {number} pictures."),
        asked,
        options,
        format!("On the list, only {answer} are {word}."),
        right,
    )
}

fn choose(
    fact: String,
    question: String,
    options: [String; 4],
    reason: String,
    right: usize,
) -> Story {
    Story {
        facts: vec![fact],
        question,
        steps: vec![reason],
        answer: Answer::OneOf(options, right),
    }
}
