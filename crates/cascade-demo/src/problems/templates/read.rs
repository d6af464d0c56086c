//! Reads `templates.txt`.

use std::collections::HashMap;

use super::{Expression, List, Operand, Operator, Script, Statement, Tell, Template};

type Lists = HashMap<&'static str, List>;

/// The lists and templates of a file.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) lists: Lists,
    pub(super) templates: Vec<Template>,
}

/// What is wrong with a line.
type Wrong = &'static str;

const UNKNOWN: Wrong = "no such name";

impl Book {
    /// Reads a file; an error says what is wrong with which line.
    pub(super) fn read(text: &'static str) -> Result<Self, (Wrong, &'static str)> {
        let mut book = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            book.line(line).map_err(|wrong| (wrong, line))?;
        }
        Ok(book)
    }

    fn line(&mut self, line: &'static str) -> Result<(), Wrong> {
        if line.starts_with('#') {
            return Ok(());
        }
        if let Some(head) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            let held_out = head.strip_suffix(", held out");
            self.templates.push(Template {
                name: held_out.unwrap_or(head),
                held_out: held_out.is_some(),
                tell: Tell::Script(Script::default()),
            });
            return Ok(());
        }
        if let Some(Tell::Script(script)) = self.templates.last_mut().map(|last| &mut last.tell) {
            return script.line(line, &self.lists);
        }
        let (name, entries) = line.split_once(": ").ok_or("no list")?;
        let (name, forms) = name.split_once(' ').unwrap_or((name, ""));
        let list = self.lists.entry(name);
        list.or_insert_with(|| List::new(name == "people"))
            .add(entries, forms);
        Ok(())
    }
}

impl Script {
    fn line(&mut self, line: &'static str, lists: &Lists) -> Result<(), Wrong> {
        let (first, rest) = line.split_once(' ').ok_or("no statement")?;
        match first {
            "-" | "?" => self.sentences.push(vec![self.known(rest)?]),
            "|" => {
                let rest = self.known(rest)?;
                self.sentences.last_mut().ok_or("no sentence")?.push(rest);
            }
            ">" => self.steps.push(self.known(rest)?),
            "!" => self.answer = self.named(rest)?,
            "record" => self.statements.push(Statement::Record(self.named(rest)?)),
            _ => self.statement(line, lists)?,
        }
        Ok(())
    }

    fn statement(&mut self, line: &'static str, lists: &Lists) -> Result<(), Wrong> {
        let (names, statement) = if let Some((name, value)) = line.split_once(" = ") {
            (name, Statement::Compute(self.expression(value)?))
        } else {
            let (names, source) = line.split_once(" < ").ok_or("no statement")?;
            let drawn = match source.split_once("..") {
                Some((least, most)) => self.number(least, most)?,
                None => self.entry(names.split('/').count(), source, lists)?,
            };
            (names, drawn)
        };
        for name in names.split('/') {
            if self.place(name).is_some() {
                return Err("the name is taken");
            }
            self.names.push(name);
        }
        self.statements.push(statement);
        Ok(())
    }

    fn number(&self, least: &str, most: &str) -> Result<Statement, Wrong> {
        let (unit, least) = least.split_once(" * ").unwrap_or(("1", least));
        Ok(Statement::Number {
            unit: unit.parse().map_err(|_| "no number")?,
            least: least.parse().map_err(|_| "no number")?,
            most: self.expression(most)?,
        })
    }

    fn entry(&self, forms: usize, source: &'static str, lists: &Lists) -> Result<Statement, Wrong> {
        let (source, least) = match source.split_once(" from ") {
            Some((source, least)) => (source, Some(self.expression(least)?)),
            None => (source, None),
        };
        let list = if source.contains(", ") {
            let mut list = List::new(false);
            list.add(source, "");
            list
        } else {
            lists.get(source).ok_or("no such list")?.clone()
        };
        let has_all = list.entries.iter().all(|entry| forms <= entry.len());
        has_all.then_some(()).ok_or("more names than forms")?;
        Ok(Statement::Entry { list, forms, least })
    }
    fn expression(&self, text: &str) -> Result<Expression, Wrong> {
        let mut words = ["+"].into_iter().chain(text.split(' '));
        let mut terms = Vec::new();
        while let Some(operator) = words.next() {
            let operator = match operator {
                "+" => Operator::Add,
                "-" => Operator::Subtract,
                "*" => Operator::Multiply,
                "/" => Operator::Divide,
                "min" => Operator::Least,
                _ => return Err("no operator"),
            };
            let operand = words.next().ok_or("nothing to compute with")?;
            let number = operand.parse().ok().map(Operand::Number);
            let operand = number.or_else(|| self.place(operand).map(Operand::Name));
            terms.push((operator, operand.ok_or(UNKNOWN)?));
        }
        Ok(Expression(terms))
    }

    /// Checks that all names of a sentence are known, and returns the sentence.
    fn known(&self, text: &'static str) -> Result<&'static str, Wrong> {
        for name in text.split(['{', '}']).skip(1).step_by(2) {
            self.named(name)?;
        }
        Ok(text)
    }

    fn named(&self, name: &str) -> Result<usize, Wrong> {
        self.place(name).ok_or(UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, wrong) in [
            ("toys", "no list"),
            ("[a]\nb", "no statement"),
            ("[a]\nb is 2", "no statement"),
            ("[a]\n| Or so.", "no sentence"),
            ("[a]\n- It is {b}.", UNKNOWN),
            ("[a]\nb = c + 1", UNKNOWN),
            ("[a]\n! b", UNKNOWN),
            ("[a]\nrecord b", UNKNOWN),
            ("[a]\nb = 1 + ", UNKNOWN),
            ("[a]\nb = 1 +", "nothing to compute with"),
            ("[a]\nb = 1 ^ 2", "no operator"),
            ("[a]\nb < x..9", "no number"),
            ("[a]\nb < 1..9\nb < 1..9", "the name is taken"),
            ("[a]\nb < toys", "no such list"),
            ("[a]\nb/c < cup, pot", "more names than forms"),
        ] {
            let found = Book::read(text).unwrap_err();
            assert_eq!(found, (wrong, text.lines().last().unwrap()), "{text}");
        }
    }
}
