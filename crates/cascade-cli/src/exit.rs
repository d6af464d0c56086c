//! How a command ends.

/// The exit status of a command: the standard library's, but for that its number can be read, as
/// another language's `main` must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitCode(u8);

impl ExitCode {
    /// Done.
    pub const SUCCESS: Self = Self(0);
    /// Not so: an answer is no, as opposed to an error, which is 2.
    pub const FAILURE: Self = Self(1);

    /// The number.
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl From<u8> for ExitCode {
    fn from(number: u8) -> Self {
        Self(number)
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.0)
    }
}
