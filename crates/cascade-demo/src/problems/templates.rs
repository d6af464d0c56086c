//! Templates and lists of words, read from `templates.txt`, which describes its language.

use std::fmt;
use std::sync::LazyLock;

use super::draw::Draw;
use read::Book;

mod read;

static BOOK: LazyLock<Book> = LazyLock::new(|| {
    let book = Book::read(include_str!("templates.txt"));
    debug_assert!(book.is_ok(), "{:?}", book.err());
    book.unwrap_or_default()
});

/// All templates of numbers.
pub(super) fn all() -> impl Iterator<Item = &'static Template> {
    BOOK.templates.iter()
}

/// The list of that name, empty if there is none.
pub(super) fn list(name: &str) -> &'static List {
    static NONE: List = List::new(false);
    BOOK.lists.get(name).unwrap_or(&NONE)
}

/// A number or a word of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Number(u32),
    Word(&'static str),
}

impl Value {
    fn read(text: &'static str) -> Self {
        text.parse().map_or(Self::Word(text), Self::Number)
    }

    /// The number; of a word, 0.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::Number(number) => number,
            Self::Word(_) => 0,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => word.fmt(f),
        }
    }
}

/// Entries to draw from, each in one form or more.
#[derive(Clone, Debug)]
pub(super) struct List {
    /// Whether the entries are people: no two splits share the first person of a problem.
    pub(super) people: bool,
    pub(super) entries: Vec<Vec<Value>>,
}

impl List {
    const fn new(people: bool) -> Self {
        Self {
            people,
            entries: Vec::new(),
        }
    }

    fn at_least(&self, least: u32) -> Self {
        let large = |entry: &&Vec<Value>| entry[0].number() >= least;
        Self {
            people: self.people,
            entries: self.entries.iter().filter(large).cloned().collect(),
        }
    }

    fn add(&mut self, entries: &'static str, forms: &'static str) {
        self.entries.extend(entries.split(", ").map(|entry| {
            let all = entry.split('/').chain(forms.split('/').skip(1));
            all.map(Value::read).collect()
        }));
    }
}

/// A template of problems.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) name: &'static str,
    /// Whether no model is trained on it, which shows how well models generalise.
    pub(super) held_out: bool,
    pub(super) tell: Tell,
}

/// How a template makes a story of what it draws.
#[derive(Debug)]
pub(super) enum Tell {
    /// A script of the file.
    Script(Script),
    /// A function that returns it at once.
    Function(fn(&mut Draw) -> Story),
}

impl Template {
    /// Draws a problem. Most of them are never written, since they belong to another split.
    pub(super) fn draw(&self, draw: &mut Draw) -> Drawn<'_> {
        match &self.tell {
            Tell::Script(script) => script.draw(draw),
            Tell::Function(tell) => Drawn::Told(tell(draw)),
        }
    }
}

/// A problem that is drawn but not written.
#[derive(Debug)]
pub(super) enum Drawn<'t> {
    /// The values of a script, and the wording of each sentence.
    Values(&'t Script, Vec<Value>, Vec<&'static str>),
    Told(Story),
}

impl Drawn<'_> {
    pub(super) fn story(self) -> Story {
        match self {
            Self::Values(script, values, sentences) => script.story(&values, &sentences),
            Self::Told(story) => story,
        }
    }
}

/// Facts, a question, and how the answer is found.
#[derive(Debug)]
pub(super) struct Story {
    /// The facts in order, then the question.
    pub(super) told: Vec<String>,
    /// A sentence with an equation for each step.
    pub(super) steps: Vec<String>,
    pub(super) answer: StoryAnswer,
}

/// The answer to what a story asks.
#[derive(Debug)]
pub(super) enum StoryAnswer {
    Number(u32),
    /// One of four, by its place among them.
    OneOf([String; 4], usize),
}

/// A template of the file: what it draws, computes and says.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// The name of each value, in the order in which values are drawn and computed.
    names: Vec<&'static str>,
    statements: Vec<Statement>,
    /// The wordings of each fact, then those of the question.
    sentences: Vec<Vec<&'static str>>,
    steps: Vec<&'static str>,
    answer: usize,
}

#[derive(Debug)]
enum Statement {
    Entry {
        list: List,
        /// How many forms of the entry get names.
        forms: usize,
        least: Option<Expression>,
    },
    Number {
        unit: u32,
        least: u32,
        most: Expression,
    },
    Compute(Expression),
    Record(usize),
}

#[derive(Clone, Copy, Debug)]
enum Operand {
    Number(u32),
    /// The place of a value.
    Name(usize),
}

/// Operators and what they are applied to, from left to right, beginning with 0.
#[derive(Debug)]
struct Expression(Vec<(Operator, Operand)>);

#[derive(Clone, Copy, Debug)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Least,
}

impl Expression {
    fn value(&self, values: &[Value]) -> u32 {
        self.0.iter().fold(0, |left, (operator, operand)| {
            let right = match *operand {
                Operand::Number(number) => number,
                Operand::Name(name) => values[name].number(),
            };
            match operator {
                Operator::Add => left + right,
                Operator::Subtract => left - right,
                Operator::Multiply => left * right,
                Operator::Divide => left / right,
                Operator::Least => left.min(right),
            }
        })
    }
}

impl Script {
    fn draw(&self, draw: &mut Draw) -> Drawn<'_> {
        let mut values = Vec::with_capacity(self.names.len());
        for statement in &self.statements {
            statement.run(&mut values, draw);
        }
        let mut chosen = |wordings: &Vec<_>| wordings[draw.wording(wordings.len())];
        let sentences = self.sentences.iter().map(&mut chosen).collect();
        Drawn::Values(self, values, sentences)
    }

    fn story(&self, values: &[Value], sentences: &[&str]) -> Story {
        let say = |text: &&str| self.say(text, values);
        Story {
            told: sentences.iter().map(say).collect(),
            steps: self.steps.iter().map(say).collect(),
            answer: StoryAnswer::Number(values[self.answer].number()),
        }
    }

    /// Puts values in place of names.
    fn say(&self, text: &str, values: &[Value]) -> String {
        let mut said = String::with_capacity(2 * text.len());
        let mut parts = text.split(['{', '}']);
        while let Some(plain) = parts.next() {
            said += plain;
            if let Some(name) = parts.next().and_then(|name| self.place(name)) {
                said += &values[name].to_string();
            }
        }
        said
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| *known == name)
    }
}

impl Statement {
    fn run(&self, values: &mut Vec<Value>, draw: &mut Draw) {
        match self {
            Self::Entry { list, forms, least } => {
                let large;
                let list = match least.as_ref().map(|least| least.value(values)) {
                    None => list,
                    Some(least) => {
                        large = list.at_least(least);
                        &large
                    }
                };
                let entry = draw.entry(list);
                if let [Value::Number(number)] = entry[..] {
                    draw.record.numbers.push(number);
                }
                values.extend(&entry[..*forms]);
            }
            Self::Number { unit, least, most } => {
                let most = most.value(values);
                values.push(Value::Number(unit * draw.number(*least..=most)));
            }
            Self::Compute(expression) => values.push(Value::Number(expression.value(values))),
            Self::Record(name) => draw.record.numbers.push(values[*name].number()),
        }
    }
}
