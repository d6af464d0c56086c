//! Questions with four answers to choose from.

use super::draw::Draw;
use super::templates::{self, Story, StoryAnswer, Tell, Template};
use super::{Problem, question, sentences};

const LETTERS: [char; 4] = ['A', 'B', 'C', 'D'];

/// What has four words as answers.
static WORDS: [Template; 3] = [
    words("most", most),
    words("fewest", fewest),
    words("of_a_kind", of_a_kind),
];

const fn words(name: &'static str, tell: fn(&mut Draw) -> Story) -> Template {
    Template {
        name,
        held_out: false,
        tell: Tell::Function(tell),
    }
}

/// Templates of numbers, and those of words so often that a quarter of the problems are such.
pub(super) fn all() -> impl Iterator<Item = &'static Template> {
    let words = WORDS.iter().cycle().take(templates::all().count() / 3);
    templates::all().chain(words)
}

pub(super) fn written(template: &Template, story: &Story, draw: &mut Draw) -> Problem {
    let (choices, right) = match &story.answer {
        StoryAnswer::Number(right) => numbers(*right, draw),
        StoryAnswer::OneOf(options, right) => (options.clone(), *right),
    };
    let (question, steps) = (question(story, draw), sentences(&story.steps));
    of(template.name, question, &steps, (choices, right))
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

fn most(draw: &mut Draw) -> Story {
    compare(draw, ["the most", "more"], "largest", |numbers| {
        (0..4).max_by_key(|i| numbers[*i])
    })
}

fn fewest(draw: &mut Draw) -> Story {
    compare(draw, ["the fewest", "fewer"], "smallest", |numbers| {
        (0..4).min_by_key(|i| numbers[*i])
    })
}

/// Which of four people, with a number each, all different, has the one that `pick` picks.
fn compare(
    draw: &mut Draw,
    [most, more]: [&str; 2],
    largest: &str,
    pick: fn([u32; 4]) -> Option<usize>,
) -> Story {
    let many = draw.word("toys");
    let mut owners = [(); 4].map(|()| (draw.word("people"), draw.number(3..=60)));
    for i in 1..owners.len() {
        while owners[..i].iter().any(|(_, number)| *number == owners[i].1) {
            owners[i].1 = draw.number(3..=60);
        }
    }
    let [(a, x), (b, y), (c, z), (d, u)] = owners;
    let fact = draw.say([
        format!("{a} has {x} {many}, {b} has {y}, {c} has {z} and {d} has {u}."),
        format!("{a} finds {x} {many}. {b} finds {y}, {c} finds {z} and {d} finds {u}."),
        format!("Of the {many}, {x} belong to {a}, {y} to {b}, {z} to {c} and {u} to {d}."),
        format!("There are {x} {many} for {a}, {y} for {b}, {z} for {c} and {u} for {d}."),
        format!("{a} counts {x} {many}, {b} {y}, {c} {z} and {d} {u}."),
    ]);
    let question = draw.say([
        format!("Who has {most} {many}?"),
        format!("Who has {more} {many} than all others?"),
    ]);
    let right = pick(owners.map(|(_, number)| number)).unwrap_or_default();
    let (winner, number) = owners[right];
    Story {
        told: vec![fact, question],
        steps: vec![format!(
            "The {largest} number is {number}, and it belongs to {winner}."
        )],
        answer: StoryAnswer::OneOf(owners.map(|(person, _)| person.to_string()), right),
    }
}

fn of_a_kind(draw: &mut Draw) -> Story {
    const KINDS: [(&str, &str); 4] = [
        ("fruits", "fruit"),
        ("flowers", "flowers"),
        ("things to write with", "pens"),
        ("baked goods", "baked"),
    ];
    let name = draw.word("people");
    let right_kind = draw.place(KINDS.len());
    let right = draw.place(LETTERS.len());
    let number = draw.number(2..=90);
    let mut others = Vec::from(KINDS);
    let (word, list) = others.remove(right_kind);
    let options = std::array::from_fn(|place| {
        let list = if place == right {
            list
        } else {
            others.remove(draw.place(others.len())).1
        };
        draw.word(list).to_string()
    });
    let question = draw.say([
        format!("Which of them are {word}?"),
        format!("Which of these things are {word}?"),
    ]);
    let fact = draw.say([
        format!("{name} has a list of {number} things."),
        format!("There are {number} things on the list of {name}."),
        format!("{name} writes down {number} things."),
        format!("In the house of {name} are {number} kinds of things."),
        format!("{name} looks at {number} pictures."),
    ]);
    Story {
        told: vec![fact, question],
        steps: vec![format!("On the list, only {} are {word}.", options[right])],
        answer: StoryAnswer::OneOf(options, right),
    }
}
