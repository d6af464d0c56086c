//! The metadata of a table's file, as text.

use std::collections::HashMap;
use std::str::FromStr;

use cascade_core::Fingerprint;

use crate::{Error, Provenance, Result};

/// The format of bigram tables.
pub(crate) const BIGRAMS: &str = "cascade-bigram";
/// The format of n-gram tables.
pub(crate) const NGRAMS: &str = "cascade-ngram";

/// What all tables begin with: format, its version, and where the table comes from.
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

/// Whether entries say that they are of this format.
pub(crate) fn declare(entries: &Option<HashMap<String, String>>, format: &str) -> bool {
    let declared = entries.as_ref().and_then(|entries| entries.get("format"));
    declared.is_some_and(|declared| declared == format)
}

/// The entries of a file that are read.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'a> {
    file: &'a str,
    entries: &'a HashMap<String, String>,
}

impl<'a> Entries<'a> {
    /// Entries of a format's version; `None` if they are of another format.
    ///
    /// # Errors
    /// [`Error::Version`] for another version, [`Error::Invalid`] without one.
    pub(crate) fn of_format(
        file: &'a str,
        entries: &'a Option<HashMap<String, String>>,
        format: &str,
        supported: u32,
    ) -> Result<Option<Self>> {
        let Some(entries) = entries.as_ref().filter(|_| declare(entries, format)) else {
            return Ok(None);
        };
        let own = Self { file, entries };
        let found = own.text("format_version")?;
        if found == supported.to_string() {
            Ok(Some(own))
        } else {
            Err(Error::Version {
                file: file.into(),
                found: found.to_owned(),
                supported,
            })
        }
    }

    /// All of them, in no order.
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

    /// An entry that is missing or malformed.
    pub(crate) fn bad(self, key: &str) -> Error {
        let reason = format!("the metadata `{key}` is missing or is not of the right form");
        Error::invalid(self.file, reason)
    }
}
