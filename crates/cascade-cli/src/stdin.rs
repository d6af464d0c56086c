//! Standard input as a prompt.

use std::io::{self, IsTerminal, Read};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::terminal;

/// Bytes of the longest prompt, and of a message of a conversation: far more than any model reads.
pub(crate) const LONGEST: u64 = 64 << 20;

/// After so long, a silent pipe is worth a word.
const PATIENCE: Duration = Duration::from_secs(2);

/// All of standard input, for the prompt `-`.
pub(crate) fn prompt() -> Result<String> {
    let text = read(io::stdin())?;
    if text.trim().is_empty() {
        bail!("the prompt is -, and standard input is empty; type a prompt, or pipe one in");
    }
    Ok(text)
}

/// What a pipe or a file on standard input holds; nothing at a terminal, or if it is empty.
pub(crate) fn piped() -> Result<Option<String>> {
    if io::stdin().is_terminal() {
        return Ok(None);
    }
    let (sender, receiver) = mpsc::channel();
    let reader = thread::Builder::new().spawn(move || sender.send(read(io::stdin())));
    reader.context("no thread can be started to read standard input")?;
    let text = receiver
        .recv_timeout(PATIENCE)
        .or_else(|_| {
            terminal::note(format_args!(
                "note: reading the prompt from standard input (</dev/null if there is none)"
            ));
            receiver.recv()
        })
        .context("standard input")??;
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

/// The whole text, without the end of its last line.
fn read(input: impl Read) -> Result<String> {
    let mut bytes = Vec::new();
    input
        .take(LONGEST + 1)
        .read_to_end(&mut bytes)
        .context("standard input cannot be read")?;
    if bytes.len() as u64 > LONGEST {
        bail!(
            "standard input has more than {} MiB; give the prompt in parts",
            LONGEST >> 20
        );
    }
    let text =
        String::from_utf8(bytes).context("standard input is not UTF-8; convert it to UTF-8")?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}
