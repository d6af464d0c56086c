//! The command line that this process runs.

use std::ffi::OsString;
use std::sync::OnceLock;

static GIVEN: OnceLock<Vec<String>> = OnceLock::new();

/// Keeps arguments for those who record them.
pub fn remember(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let texts = arguments
        .iter()
        .map(|own| own.to_string_lossy().into_owned());
    let _ = GIVEN.set(texts.collect());
    arguments
}

/// The arguments of this command, the program's name first.
pub fn arguments() -> Vec<String> {
    GIVEN.get().cloned().unwrap_or_default()
}
