//! Word problems with worked solutions, without end: the demo models are trained and tested on
//! them.
//!
//! ```
//! use cascade_demo::problems::{problems, ProblemKind, Split};
//! let mut problems = problems(ProblemKind::WordProblem, Split::Test, 1);
//! let problem = problems.next().expect("there is no end");
//! assert!(problem.solution.ends_with(&format!("#### {}", problem.answer)));
//! ```
//!
//! A problem is made by one of 56 templates of one to five steps, about shops, farms, trips,
//! savings, kitchens, sharing, comparing, working and school, in one of many wordings, sometimes
//! with a sentence that has nothing to do with it. Its solution has the form of GSM8K's: a sentence
//! and an equation for each step, then `#### ` and the answer. All numbers are whole, and none is
//! below 2.
//!
//! A problem of [`ProblemKind::MultipleChoice`] has four answers to choose from, A to D, and its
//! answer is a letter. It asks for a number like the others, or which of four people has the most
//! or the fewest, or which of four things is of a kind.

mod choice;
mod draw;
mod ordinary;
mod templates;
mod words;

use std::fmt;
use std::str::FromStr;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use draw::{Draw, Record};
use templates::{Story, StoryAnswer, Template};

pub use words::Wording;

/// A question with its worked solution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The template that made it.
    pub template: &'static str,
    /// The facts and the question, on one line.
    pub question: String,
    /// What there is to choose from, A to D, if the answer is a letter.
    pub choices: Option<[String; 4]>,
    /// A sentence for each step, then `#### ` and the answer, on one line.
    pub solution: String,
    /// A number, or a letter from A to D.
    pub answer: String,
}

/// A kind of problem, by what its answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// The answer is a number.
    WordProblem,
    /// The answer is one of four, named by a letter.
    MultipleChoice,
}

/// Sets of problems that share nothing a model could learn by heart. For each template, no two
/// splits have the same tuple of numbers, the same first person or the same combination of
/// wordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// What models are trained on.
    Train,
    /// What training is watched by.
    Validation,
    /// What models are tested on.
    Test,
    /// Problems of templates that no other split has.
    HeldOut,
    /// Thirty problems of no template, written by hand, that no model was trained on.
    Ordinary,
}

/// An error for a name that no kind or split has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    name: String,
    known: &'static [&'static str],
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is none of {}", self.name, self.known.join(", "))
    }
}

impl std::error::Error for UnknownName {}

fn named<T: Copy>(
    name: &str,
    values: &[T],
    known: &'static [&'static str],
) -> Result<T, UnknownName> {
    let at = known.iter().position(|known| *known == name);
    at.map(|at| values[at]).ok_or_else(|| UnknownName {
        name: name.to_owned(),
        known,
    })
}

impl ProblemKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::WordProblem, Self::MultipleChoice];
    const NAMES: [&'static str; 2] = ["word-problem", "multiple-choice"];

    /// `word-problem` or `multiple-choice`.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl Split {
    /// All splits.
    pub const ALL: [Self; 5] = [
        Self::Train,
        Self::Validation,
        Self::Test,
        Self::HeldOut,
        Self::Ordinary,
    ];
    const NAMES: [&'static str; 5] = ["train", "validation", "test", "held-out", "ordinary"];

    /// `train`, `validation`, `test`, `held-out` or `ordinary`.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ProblemKind {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        named(name, &Self::ALL, &Self::NAMES)
    }
}

impl FromStr for Split {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        named(name, &Self::ALL, &Self::NAMES)
    }
}

/// Problems without end, except for [`Split::Ordinary`]. A seed gives the same problems on every
/// machine, and in every release of this crate that has the same models.
pub fn problems(kind: ProblemKind, split: Split, seed: u64) -> Problems {
    Problems(match split {
        Split::Ordinary => Source::Written(ordinary::problems(kind, seed).into_iter()),
        _ => Source::Drawn(Box::new(Drawing::new(kind, split, seed))),
    })
}

/// An iterator over the problems of a split. See [`problems`].
#[derive(Debug)]
pub struct Problems(Source);

#[derive(Debug)]
enum Source {
    Drawn(Box<Drawing>),
    Written(std::vec::IntoIter<Problem>),
}

impl Iterator for Problems {
    type Item = Problem;

    fn next(&mut self) -> Option<Problem> {
        match &mut self.0 {
            Source::Drawn(drawing) => Some(drawing.problem()),
            Source::Written(problems) => problems.next(),
        }
    }
}

/// Problems that templates make.
#[derive(Debug)]
struct Drawing {
    kind: ProblemKind,
    split: Split,
    templates: Vec<&'static Template>,
    rng: ChaCha8Rng,
}

impl Drawing {
    fn new(kind: ProblemKind, split: Split, seed: u64) -> Self {
        let templates = match kind {
            ProblemKind::WordProblem => templates::all().collect::<Vec<_>>(),
            // Half of them ask for numbers, the others are of a kind of their own.
            ProblemKind::MultipleChoice => choice::all().collect(),
        };
        let held_out = split == Split::HeldOut;
        Self {
            kind,
            split,
            templates: templates
                .into_iter()
                .filter(|template| template.held_out == held_out)
                .collect(),
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    fn problem(&mut self) -> Problem {
        let template = self.templates[self.rng.random_range(0..self.templates.len())];
        loop {
            let mut draw = Draw::new(self.rng.random());
            let drawn = template.draw(&mut draw);
            if belongs(template, &draw.record, self.split) {
                let story = drawn.story();
                return match (&story.answer, self.kind) {
                    (StoryAnswer::Number(answer), ProblemKind::WordProblem) => {
                        written(template, &story, *answer, &mut draw)
                    }
                    _ => choice::written(template, &story, &mut draw),
                };
            }
        }
    }
}

/// Whether the numbers, the person and the wording that a template has drawn are all of that split.
fn belongs(template: &Template, record: &Record, split: Split) -> bool {
    let own = hash(template.name.bytes(), 0);
    let numbers = record
        .numbers
        .iter()
        .flat_map(|number| number.to_le_bytes());
    let parts = [
        hash(numbers, own),
        // One after the other, so that no split goes empty.
        own.wrapping_add(record.person.unwrap_or_default() as u64),
        own.wrapping_add(record.wording as u64),
    ];
    split == Split::HeldOut || parts.into_iter().all(|part| share(part) == split)
}

/// The split of a hash: five in seven are for training.
fn share(part: u64) -> Split {
    match part % 7 {
        0 => Split::Validation,
        1 => Split::Test,
        _ => Split::Train,
    }
}

/// FNV-1a, mixed once more: the split of a problem must be the same for ever.
fn hash(bytes: impl IntoIterator<Item = u8>, seed: u64) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = bytes.into_iter().fold(0xcbf2_9ce4_8422_2325 ^ seed, mix);
    (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 3
}

fn written(template: &Template, story: &Story, answer: u32, draw: &mut Draw) -> Problem {
    Problem {
        template: template.name,
        question: question(story, draw),
        choices: None,
        solution: format!("{} #### {answer}", sentences(&story.steps)),
        answer: answer.to_string(),
    }
}

/// The facts and the question, now and then with a sentence that does not matter.
fn question(story: &Story, draw: &mut Draw) -> String {
    let mut told = story.told.clone();
    if draw.once_in(6) {
        let at = draw.place(told.len());
        told.insert(at, aside(draw));
    }
    sentences(&told)
}

/// Something that has nothing to do with the problem.
fn aside(draw: &mut Draw) -> String {
    let places = &templates::list("places").entries;
    let (number, place) = (2 + draw.place(28), &places[draw.place(places.len())][0]);
    let asides: [String; 6] = [
        format!("It is {number} degrees outside."),
        format!("The {place} is closed today."),
        format!("Bus {number} is late today."),
        format!("The clock has struck {}.", 2 + draw.place(11)),
        "A cat sleeps in the sun.".to_owned(),
        "It has rained all morning.".to_owned(),
    ];
    asides[draw.place(asides.len())].clone()
}

/// Joins sentences, each with a capital letter.
fn sentences(sentences: &[String]) -> String {
    let capital = |sentence: &String| {
        let mut letters = sentence.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    sentences.iter().map(capital).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
