//! The hub's name for the content of a file, and what that name says about it.

use std::fmt;
use std::io::{self, Read};

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::failure::{Failure, Outcome, shown};

/// Digits of digests.
const SHA1: usize = 40;
const SHA256: usize = 64;

/// The hub's name for the content of a file. It becomes a file name in the cache, so it is made of
/// letters, digits, `-` and `_`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Etag(String);

impl Etag {
    /// Reads the header: `"abc"`, `W/"abc"`, or without quotes.
    pub(super) fn parse(header: &str) -> Outcome<Self> {
        let text = header.trim();
        let text = text.strip_prefix("W/").unwrap_or(text);
        let text = text.strip_prefix('"').unwrap_or(text);
        let text = text.strip_suffix('"').unwrap_or(text);
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        // Of four letters are the device names of Windows.
        if !(5..=128).contains(&text.len()) || !text.bytes().all(plain) {
            return Err(Failure::untrusted(format!(
                "the ETag \"{}\" cannot be the name of a file of the cache",
                shown(header)
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether the name is a digest: the SHA-256 of files in Git LFS, the name of the Git object of
    /// all others.
    pub(super) fn is_digest(&self) -> bool {
        matches!(self.0.len(), SHA1 | SHA256) && self.0.bytes().all(|b| b.is_ascii_hexdigit())
    }

    /// `None` if the `length` bytes that `content` gives are the right ones, or nobody can tell;
    /// else what is wrong.
    pub(super) fn mismatch(
        &self,
        content: &mut impl Read,
        length: u64,
    ) -> io::Result<Option<String>> {
        if !self.is_digest() {
            return Ok(None);
        }
        let (name, found) = if self.0.len() == SHA256 {
            ("SHA-256", hash(Sha256::new(), content)?)
        } else {
            let start = Sha1::new().chain_update(format!("blob {length}\0"));
            ("Git's SHA-1", hash(start, content)?)
        };
        let announced = self.0.to_ascii_lowercase();
        Ok((found != announced)
            .then(|| format!("{name} of its content is {found}, not {announced}")))
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn hash<H: sha2::Digest>(mut hash: H, content: &mut impl Read) -> io::Result<String> {
    let mut buffer = vec![0; 1 << 17];
    loop {
        match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => hash.update(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let bytes = hash.finalize();
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_content_are_never_paths() {
        for (header, name) in [
            ("\"0a1b2c\"", "0a1b2c"),
            ("W/\"0a1b2c-38\"", "0a1b2c-38"),
            (" 0a1b2c_", "0a1b2c_"),
        ] {
            assert_eq!(Etag::parse(header).unwrap().to_string(), name);
        }
        let long = "a".repeat(129);
        for bad in [
            "",
            "\"\"",
            "../../evil",
            "\"/etc/passwd\"",
            "abcdef/..",
            "abcdef.lock",
            "abc def",
            "abcdef\\x",
            "C:abcdef",
            "NUL",
            "com1",
            "abcdéf",
            &long,
            "\u{1b}[2Jabc",
        ] {
            let Err(Failure::Untrusted(reason)) = Etag::parse(bad) else {
                panic!("{bad:?} was taken");
            };
            assert!(!reason.contains('\u{1b}'));
        }
    }

    #[test]
    fn digests_are_those_of_git() {
        // git hash-object; sha256sum.
        let blob = "ce013625030ba8dba906f756967f9e9ca394464a";
        let sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        for name in [blob, sha256, &sha256.to_uppercase()] {
            let etag = Etag::parse(name).unwrap();
            assert!(etag.is_digest());
            assert_eq!(etag.mismatch(&mut &b"hello\n"[..], 6).unwrap(), None);
            let wrong = etag.mismatch(&mut &b"hellO\n"[..], 6).unwrap().unwrap();
            assert!(wrong.contains(&name.to_lowercase()), "{wrong}");
        }
        assert!(!Etag::parse("0a1b2c").unwrap().is_digest());
        assert!(!Etag::parse(&"x".repeat(64)).unwrap().is_digest());
    }
}
