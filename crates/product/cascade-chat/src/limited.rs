//! Output that ends before the memory does.

use std::io::{self, Write};

/// Bytes that a template may write: far more than any model reads.
pub const MAX_OUTPUT: usize = 16 << 20;

/// Collects at most [`MAX_OUTPUT`] bytes.
#[derive(Default)]
pub(crate) struct Limited(Vec<u8>);

impl Limited {
    /// What was written; templates write text.
    pub(crate) fn into_text(self) -> String {
        String::from_utf8(self.0)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

impl Write for &mut Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::Error::other(format!(
                "it writes more than {} MiB",
                MAX_OUTPUT >> 20
            )));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
