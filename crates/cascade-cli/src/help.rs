//! What `--help` shows beside clap's own: commands in groups, and examples.

use std::fmt::Write;

use clap::Command;

/// The commands, by what they are for.
const GROUPS: [(&str, &[&str]); 8] = [
    ("Generate", &["run", "chat", "serve"]),
    ("Models", &["quantize", "config", "doctor"]),
    ("Checks and costs", &["check-lossless", "bench"]),
    ("Tables", &["bigram", "ngram"]),
    ("Traces", &["trace", "replay", "tune"]),
    ("Training", &["train"]),
    ("Papers", &["reproduce", "theory", "demo"]),
    ("Shell", &["completions", "man", "help"]),
];

/// Examples of each command, below its name; a test parses them.
const EXAMPLES: &str = include_str!("examples.txt");

/// The examples of a command, one a line.
fn examples(path: &str) -> Option<impl Iterator<Item = &'static str>> {
    let mut lines = EXAMPLES.lines();
    lines.find(|line| line.strip_suffix(':') == Some(path))?;
    Some(
        lines
            .take_while(|line| line.starts_with(' '))
            .map(str::trim_start),
    )
}

/// The command with its own commands in groups, and with examples in each help.
pub(crate) fn arranged(command: Command) -> Command {
    let groups = groups(&command);
    with_examples(command, "").help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{}\n{{options}}\n\n\
         `cascade help COMMAND` has all options of a command, and examples.\n",
        heading("Options")
    ))
}

fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        text += &format!("{}\n", heading(title));
        for name in names {
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

fn with_examples(mut command: Command, path: &str) -> Command {
    let names = command.get_subcommands().map(|of| of.get_name().to_owned());
    for name in names.collect::<Vec<_>>() {
        let path = format!("{path} {name}").trim_start().to_owned();
        command = command.mut_subcommand(name, |of| with_examples(of, &path));
    }
    match examples(path) {
        None => command,
        Some(examples) => {
            let lines: String = examples.map(|line| format!("\n  {line}")).collect();
            command.after_help(format!("{}{lines}", heading("Examples")))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;
    use crate::Cli;

    /// The words of a line; quotes keep some together.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (at, part) in line.split('"').enumerate() {
            match at % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        words
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let mut shown: Vec<&str> = command
            .get_subcommands()
            .filter(|of| !of.is_hide_set())
            .map(Command::get_name)
            .chain(["help"])
            .collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, of)| *of).copied().collect();
        shown.sort_unstable();
        shown.dedup();
        grouped.sort_unstable();
        assert_eq!(grouped, shown);
    }

    #[test]
    fn help_fits_80_columns_and_names_every_command() {
        let mut command = arranged(Cli::command()).term_width(80);
        let help = command.render_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for name in command.get_subcommands().map(Command::get_name) {
            assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
        }
    }

    #[test]
    fn examples_are_of_commands_and_valid() {
        for path in EXAMPLES.lines().filter_map(|line| line.strip_suffix(':')) {
            let examples: Vec<&str> = examples(path).unwrap().collect();
            assert!((1..=3).contains(&examples.len()), "{path}");
            for example in examples {
                assert!(example.starts_with(&format!("cascade {path}")));
                assert!(example.chars().count() <= 100, "{example}");
                let parsed = arranged(Cli::command())
                    .try_get_matches_from(words(example))
                    .unwrap_or_else(|error| panic!("{example}: {error}"));
                Cli::from_arg_matches(&parsed).unwrap();
            }
        }
    }

    #[test]
    fn every_command_has_examples() {
        fn check(command: &Command, path: &str) {
            for of in command.get_subcommands().filter(|of| !of.is_hide_set()) {
                let path = format!("{path} {}", of.get_name());
                // Those of reproduce and demo have theirs one level up.
                let known = of.get_after_help().or_else(|| command.get_after_help());
                assert!(
                    known.is_some() || ["help", "man"].contains(&of.get_name()),
                    "{path}"
                );
                check(of, &path);
            }
        }
        check(&arranged(Cli::command()), "");
    }
}
