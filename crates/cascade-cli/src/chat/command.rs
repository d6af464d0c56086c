//! What a line of a conversation means.

use anyhow::anyhow;

/// The commands, as help.
pub(super) const HELP: &str = "\
/help          this list
/stats         tokens, speed and acceptance so far
/reset         begin a new conversation
/system TEXT   set the system message; without TEXT, remove it
/regen         answer the last message again
/temp T        sample at temperature T, 0 is greedy; without T, say how tokens are chosen
/save FILE     write the conversation, as a line for `cascade run --prompts`
/load FILE     go on with a conversation that was saved
/exit          leave, as Ctrl-D does

A line that ends with \\ goes on in the next one; lines between two lines of \"\"\" are one message.
A message that begins with a slash is written with two. Ctrl-C ends an answer.";

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Stats,
    Reset,
    System(String),
    Regenerate,
    Temperature(String),
    Save(String),
    Load(String),
    Exit,
}

/// What was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input<'a> {
    Nothing,
    Message(&'a str),
    Command(Command),
    /// A command that there is not.
    Unknown(&'a str),
}

impl<'a> Input<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        let Some(command) = text.strip_prefix('/') else {
            return if text.trim().is_empty() {
                Self::Nothing
            } else {
                Self::Message(text)
            };
        };
        if command.starts_with('/') {
            return Self::Message(command);
        }
        let (name, argument) = command
            .split_once(char::is_whitespace)
            .unwrap_or((command, ""));
        let argument = argument.trim();
        match (name, argument.is_empty()) {
            ("help" | "?", true) => Self::Command(Command::Help),
            ("stats", true) => Self::Command(Command::Stats),
            ("reset", true) => Self::Command(Command::Reset),
            ("exit" | "quit" | "bye", true) => Self::Command(Command::Exit),
            ("regen", true) => Self::Command(Command::Regenerate),
            ("temp", _) => Self::Command(Command::Temperature(argument.to_owned())),
            ("save", false) => Self::Command(Command::Save(argument.to_owned())),
            ("load", false) => Self::Command(Command::Load(argument.to_owned())),
            ("system", _) => Self::Command(Command::System(argument.to_owned())),
            _ => Self::Unknown(text),
        }
    }
}

/// The error for a command that there is not.
pub(super) fn unknown(text: &str) -> anyhow::Error {
    anyhow!(
        "there is no command {text:?}; /help lists the commands, and a message that begins with a slash is \
         written with two"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_messages() {
        for (text, input) in [
            ("", Input::Nothing),
            (" \t", Input::Nothing),
            ("Hi /help", Input::Message("Hi /help")),
            ("//etc", Input::Message("/etc")),
            ("/help", Input::Command(Command::Help)),
            ("/stats ", Input::Command(Command::Stats)),
            ("/reset", Input::Command(Command::Reset)),
            ("/quit", Input::Command(Command::Exit)),
            ("/system", Input::Command(Command::System(String::new()))),
            (
                "/system Be\nbrief. ",
                Input::Command(Command::System("Be\nbrief.".to_owned())),
            ),
            ("/regen", Input::Command(Command::Regenerate)),
            (
                "/temp 0.7",
                Input::Command(Command::Temperature("0.7".to_owned())),
            ),
            ("/temp", Input::Command(Command::Temperature(String::new()))),
            (
                "/save my talk.jsonl",
                Input::Command(Command::Save("my talk.jsonl".to_owned())),
            ),
            ("/save", Input::Unknown("/save")),
            ("/load", Input::Unknown("/load")),
            ("/reset now", Input::Unknown("/reset now")),
            ("/unknown", Input::Unknown("/unknown")),
            ("/", Input::Unknown("/")),
        ] {
            assert_eq!(Input::parse(text), input, "{text:?}");
        }
    }
}
