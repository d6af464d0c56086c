//! What `--help` shows beside clap's own: commands in groups, and examples.

use std::fmt::Write;

use clap::{Command, CommandFactory, FromArgMatches};

use crate::program::CommandLine;

/// Commands by what they are for: the title of each group, and the names in it.
pub type Groups = [(&'static str, &'static [&'static str])];

/// The examples of a command, one a line. In the text they stand below the command's name,
/// indented.
fn examples<'t>(text: &'t str, path: &str) -> Option<impl Iterator<Item = &'t str>> {
    let mut lines = text.lines();
    lines.find(|line| line.strip_suffix(':') == Some(path))?;
    Some(
        lines
            .take_while(|line| line.starts_with(' '))
            .map(str::trim_start),
    )
}

/// The command with its own commands in groups, and with examples in each help.
pub fn arranged(command: Command, groups: &Groups, examples: &str) -> Command {
    let program = command.get_name().to_owned();
    let groups = listed(&command, groups);
    with_examples(command, "", examples).help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{}\n{{options}}\n\n\
         `{program} help COMMAND` has all options of a command, and examples.\n",
        heading("Options")
    ))
}

fn listed(command: &Command, groups: &Groups) -> String {
    let mut text = String::new();
    for (title, names) in groups {
        text += &format!("{}\n", heading(title));
        for name in *names {
            let found = command.find_subcommand(name);
            let about = found.and_then(Command::get_about).map_or_else(
                || "Print the help of a command".to_owned(),
                ToString::to_string,
            );
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  \u{1b}[1m{name:<14}\u{1b}[0m  {about}");
        }
        text.push('\n');
    }
    text
}

/// As clap's own headings; where nothing is styled, clap leaves the styles out.
fn heading(title: &str) -> String {
    format!("\u{1b}[1m\u{1b}[4m{title}:\u{1b}[0m")
}

fn with_examples(mut command: Command, path: &str, text: &str) -> Command {
    let names = command.get_subcommands().map(|of| of.get_name().to_owned());
    for name in names.collect::<Vec<_>>() {
        let path = format!("{path} {name}").trim_start().to_owned();
        command = command.mut_subcommand(name, |of| with_examples(of, &path, text));
    }
    match examples(text, path) {
        None => command,
        Some(examples) => {
            let lines: String = examples.map(|line| format!("\n  {line}")).collect();
            command.after_help(format!("{}{lines}", heading("Examples")))
        }
    }
}

/// The examples of the command that a line names, as its help has them.
pub(crate) fn examples_of(command: &Command, line: &[String]) -> Option<String> {
    let words = line.iter();
    let named = words.fold(command, |of, word| of.find_subcommand(word).unwrap_or(of));
    named.get_after_help().map(ToString::to_string)
}

/// Checks the help of a program, for its tests: every command is in one group and has examples,
/// which parse, and lines fit 80 columns.
///
/// # Panics
/// If something is wrong.
pub fn check<C: CommandLine + CommandFactory + FromArgMatches>(
    program: &str,
    groups: &Groups,
    text: &str,
) {
    check_groups(&C::command(), groups);
    check_width(C::arranged());
    check_examples::<C>(program, text);
    check_that_all_have_examples(&C::arranged(), "");
}

fn check_groups(command: &Command, groups: &Groups) {
    let mut shown: Vec<&str> = command
        .get_subcommands()
        .filter(|of| !of.is_hide_set())
        .map(Command::get_name)
        .chain(["help"])
        .collect();
    let mut grouped: Vec<&str> = groups.iter().flat_map(|(_, of)| *of).copied().collect();
    shown.sort_unstable();
    shown.dedup();
    grouped.sort_unstable();
    assert_eq!(grouped, shown);
}

fn check_width(command: Command) {
    let mut command = command.term_width(80);
    let help = command.render_help().to_string();
    for line in help.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let shown = command.get_subcommands().filter(|of| !of.is_hide_set());
    for name in shown.map(Command::get_name) {
        assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
    }
}

/// The words of a line, up to where a shell writes to a file; quotes keep some together.
fn words(line: &str) -> Vec<String> {
    let line = line.split(" > ").next().unwrap_or_default();
    let mut words = Vec::new();
    for (at, part) in line.split('"').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

fn check_examples<C: CommandLine + FromArgMatches>(program: &str, text: &str) {
    for path in text.lines().filter_map(|line| line.strip_suffix(':')) {
        let examples: Vec<&str> = examples(text, path).into_iter().flatten().collect();
        assert!((1..=3).contains(&examples.len()), "{path}");
        for example in examples {
            assert!(example.starts_with(&format!("{program} {path}")));
            assert!(example.chars().count() <= 100, "{example}");
            let parsed = C::arranged().try_get_matches_from(words(example));
            let read = parsed.and_then(|matches| C::from_arg_matches(&matches));
            assert!(read.is_ok(), "{example}: {:?}", read.err());
        }
    }
}

fn check_that_all_have_examples(command: &Command, path: &str) {
    for of in command.get_subcommands().filter(|of| !of.is_hide_set()) {
        let path = format!("{path} {}", of.get_name());
        // Those of reproduce and demo have theirs one level up.
        let known = of.get_after_help().or_else(|| command.get_after_help());
        assert!(
            known.is_some() || ["help", "man"].contains(&of.get_name()),
            "{path}"
        );
        check_that_all_have_examples(of, &path);
    }
}
