//! The metadata of a table's file, as text.

use std::collections::HashMap;
use std::str::FromStr;

use cascade_core::Fingerprint;

use crate::{Error, Provenance, Result};

/// The format of bigram tables, which earlier versions wrote.
pub(crate) const BIGRAMS: &str = "cascade-bigram";
/// The format of n-gram tables.
pub(crate) const NGRAMS: &str = "cascade-ngram";

/// What the metadata of all tables begins with: format, its version, and the table's provenance.
pub(crate) fn beginning(
    format: &str,
    format_version: u32,
    provenance: &Provenance,
) -> Vec<(&'static str, String)> {
    let mut sources = provenance.sources.clone();
    sources.sort();
    vec![
        ("format", format.to_owned()),
        ("format_version", format_version.to_string()),
        ("tokenizer", provenance.tokenizer.to_string()),
        ("sources", serde_json::json!(sources).to_string()),
        ("command", provenance.command.clone()),
        ("version", provenance.version.clone()),
    ]
}

/// The metadata entries of a file that is read.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'a> {
    pub(crate) file: &'a str,
    entries: &'a HashMap<String, String>,
}

impl<'a> Entries<'a> {
    /// # Errors
    /// [`Error::NotATable`] for a file without metadata.
    pub(crate) fn new(file: &'a str, entries: &'a Option<HashMap<String, String>>) -> Result<Self> {
        let entries = entries.as_ref();
        let entries = entries.ok_or_else(|| Error::NotATable { file: file.into() })?;
        Ok(Self { file, entries })
    }

    /// Whether these are the entries of this format.
    ///
    /// # Errors
    /// [`Error::Version`] for another version of the format, [`Error::Invalid`] without a version.
    pub(crate) fn are_of(self, format: &str, supported: u32) -> Result<bool> {
        if self.entries.get("format").map(String::as_str) != Some(format) {
            return Ok(false);
        }
        let found = self.text("format_version")?;
        if found == supported.to_string() {
            return Ok(true);
        }
        Err(Error::Version {
            file: self.file.into(),
            found: found.to_owned(),
            supported,
        })
    }

    /// All entries, in no order.
    pub(crate) fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let entries = self.entries.iter();
        entries.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub(crate) fn text(self, key: &str) -> Result<&'a str> {
        let value = self.entries.get(key).map(String::as_str);
        value.ok_or_else(|| self.bad(key))
    }

    pub(crate) fn number<N: FromStr>(self, key: &str) -> Result<N> {
        self.text(key)?.parse().map_err(|_| self.bad(key))
    }

    pub(crate) fn provenance(self) -> Result<Provenance> {
        let sources = serde_json::from_str(self.text("sources")?);
        Ok(Provenance {
            tokenizer: Fingerprint::from_stored(self.text("tokenizer")?.to_owned()),
            sources: sources.map_err(|_| self.bad("sources"))?,
            command: self.text("command")?.to_owned(),
            version: self.text("version")?.to_owned(),
        })
    }

    /// The error of an entry that is missing or malformed.
    pub(crate) fn bad(self, key: &str) -> Error {
        let reason = format!("the metadata `{key}` is missing or is not of the right form");
        Error::invalid(self.file, reason)
    }
}
