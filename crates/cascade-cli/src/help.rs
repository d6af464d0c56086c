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

/// Examples of each command, which a test parses.
const EXAMPLES: [(&str, &[&str]); 48] = [
    (
        "run",
        &[
            "cascade run",
            "cascade run -m Qwen/Qwen2.5-1.5B-Instruct --chat \"Why is the sky blue?\"",
            "cascade run --config my.yaml --prompts prompts.jsonl --json --output out.jsonl",
        ],
    ),
    (
        "chat",
        &["cascade chat", "cascade chat -m Qwen/Qwen2.5-1.5B-Instruct"],
    ),
    (
        "serve",
        &["cascade serve", "cascade serve -m ./model --port 8000"],
    ),
    (
        "quantize",
        &["cascade quantize ./model --dtype q8_0 --out model-q8_0.gguf"],
    ),
    (
        "config",
        &[
            "cascade config init -m ./large -d ./small",
            "cascade config check my.yaml",
        ],
    ),
    (
        "config init",
        &["cascade config init -m ./large -d ./small --max-gram -k 3,10"],
    ),
    (
        "config check",
        &[
            "cascade config check my.yaml",
            "cascade config check --load my.yaml",
        ],
    ),
    ("doctor", &["cascade doctor", "cascade doctor --json"]),
    (
        "check-lossless",
        &[
            "cascade check-lossless --config my.yaml --dataset problems --limit 50",
            "cascade check-lossless --config my.yaml --temperature 0.8 --samples 5000",
        ],
    ),
    (
        "bench",
        &[
            "cascade bench model google/flan-t5-base",
            "cascade bench step --trace t5.jsonl --config my.yaml",
        ],
    ),
    (
        "bench model",
        &[
            "cascade bench model google/flan-t5-base",
            "cascade bench model ./model --save costs.json",
            "cascade bench model ./model --texts --rows 1,4,16 --contexts 256",
        ],
    ),
    (
        "bench step",
        &["cascade bench step --trace t5.jsonl --config my.yaml --limit 20"],
    ),
    (
        "bigram",
        &[
            "cascade bigram build enwiki.xml.bz2 --tokenizer org/name --out enwiki.safetensors",
            "cascade bigram show enwiki.safetensors --token the --tokenizer org/name",
        ],
    ),
    (
        "bigram build",
        &[
            "cascade bigram build enwiki.xml.bz2 --tokenizer org/name --out enwiki.safetensors",
            "cascade bigram build a.txt b.txt --tokenizer ./model --order 2 --out ab.safetensors",
        ],
    ),
    (
        "bigram count",
        &["cascade bigram count enwiki-1.xml.bz2 --tokenizer org/name --out 1.parquet"],
    ),
    (
        "bigram reduce",
        &["cascade bigram reduce 1.parquet 2.parquet --out enwiki.safetensors"],
    ),
    (
        "bigram eval",
        &["cascade bigram eval enwiki.safetensors --trace t5.jsonl"],
    ),
    (
        "bigram show",
        &[
            "cascade bigram show enwiki.safetensors",
            "cascade bigram show enwiki.safetensors --token the --tokenizer org/name",
        ],
    ),
    (
        "bigram compare",
        &["cascade bigram compare enwiki.safetensors simplewiki.safetensors"],
    ),
    (
        "bigram export",
        &["cascade bigram export enwiki.safetensors --csv enwiki.csv"],
    ),
    (
        "bigram import",
        &["cascade bigram import --json bigram.json --tokenizer org/name --out b.safetensors"],
    ),
    (
        "ngram",
        &["cascade ngram fit --trace t5.jsonl --out weights.json"],
    ),
    (
        "ngram fit",
        &["cascade ngram fit --trace t5.jsonl --holdout 0.2 --out weights.json"],
    ),
    (
        "ngram calibrate",
        &["cascade ngram calibrate --trace t5.jsonl --nodes 32 --svg curve.svg"],
    ),
    (
        "trace",
        &[
            "cascade trace record --dataset problems --limit 50 --output t5.jsonl",
            "cascade trace show t5.jsonl",
        ],
    ),
    (
        "trace record",
        &["cascade trace record --dataset problems --limit 50 --output t5.jsonl"],
    ),
    (
        "trace score",
        &["cascade trace score t5.jsonl -m embedded:demo-t5-target --dtype q8_0"],
    ),
    (
        "trace import",
        &["cascade trace import --questions q.jsonl --answers a.jsonl --tokenizer org/name --output t.jsonl"],
    ),
    ("trace show", &["cascade trace show t5.jsonl"]),
    (
        "replay",
        &[
            "cascade replay --trace t5.jsonl --config my.yaml",
            "cascade replay --trace t5.jsonl --row-cost 0.02 --drafter-cost 0.1,0.05",
        ],
    ),
    (
        "tune",
        &[
            "cascade tune --trace t5.jsonl --config my.yaml",
            "cascade tune --trace t5.jsonl --config my.yaml --costs large.json,small.json",
        ],
    ),
    (
        "train",
        &["cascade train head --trace t5.jsonl -d ./small --cost 0.1 --out head"],
    ),
    (
        "train classifier",
        &["cascade train classifier --trace t5.jsonl -d ./small --cost 0.1 --out rule"],
    ),
    (
        "train head",
        &["cascade train head --trace t5.jsonl -d ./small --cost 0.1 --out head"],
    ),
    (
        "train drafter",
        &["cascade train drafter --trace t5.jsonl --target ./my-model --out my-head"],
    ),
    (
        "reproduce",
        &[
            "cascade reproduce list",
            "cascade reproduce table2 --limit 10",
        ],
    ),
    (
        "theory",
        &[
            "cascade theory speculative --alpha 0.8 --cost 0.1",
            "cascade theory rejections --chains 3 --runs 20000",
        ],
    ),
    (
        "theory speculative",
        &["cascade theory speculative --alpha 0.8 --cost 0.1 --simulate 100000"],
    ),
    (
        "theory vertical",
        &["cascade theory vertical --alpha 0.8 --cost 0.1 --alpha-below 0.5 --cost-below 0"],
    ),
    (
        "theory horizontal",
        &["cascade theory horizontal --alpha 0.8 --cost 0.1 --alpha 0.5 --cost 0.01"],
    ),
    (
        "theory table1",
        &["cascade theory table1 --simulate 100000"],
    ),
    (
        "theory rejections",
        &["cascade theory rejections --chains 3 --runs 20000"],
    ),
    (
        "theory batch",
        &["cascade theory batch --drafts 1,2,4 --runs 20000"],
    ),
    ("theory front", &["cascade theory front --runs 20000"]),
    (
        "theory mdp",
        &["cascade theory mdp --cost 0.1 --lengths 2,4,8 --runs 5000"],
    ),
    (
        "theory chain",
        &["cascade theory chain --states 4 --positions 10"],
    ),
    (
        "demo",
        &[
            "cascade demo problems --limit 3",
            "cascade demo evaluate --limit 50",
        ],
    ),
    ("completions", &["cascade completions bash"]),
];

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
            let about = found.and_then(Command::get_about);
            let about = about.map_or_else(
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
    let known = EXAMPLES.iter().find(|(of, _)| *of == path);
    match known {
        None => command,
        Some((_, examples)) => {
            let lines: String = examples.iter().map(|line| format!("\n  {line}")).collect();
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
        let shown = command.get_subcommands().filter(|of| !of.is_hide_set());
        let mut shown: Vec<&str> = shown.map(Command::get_name).chain(["help"]).collect();
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
        for (path, examples) in EXAMPLES {
            assert!((1..=3).contains(&examples.len()), "{path}");
            for example in examples {
                assert!(example.starts_with(&format!("cascade {path}")) || path.is_empty());
                assert!(example.chars().count() <= 100, "{example}");
                let parsed = arranged(Cli::command()).try_get_matches_from(words(example));
                let parsed = parsed.unwrap_or_else(|error| panic!("{example}: {error}"));
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
