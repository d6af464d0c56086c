//! Documents before their markup is stripped.

use std::sync::Arc;

use crate::site::Site;
use crate::wikitext;

/// The markup language of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markup {
    /// Wikitext.
    Wikitext,
    /// Plain text.
    Plain,
}

/// A document as it is in its file, before its markup is stripped.
///
/// Reading is cheap and stripping is not: send documents to worker threads and call
/// [`into_text`](Self::into_text) there.
#[derive(Clone, Debug)]
pub struct RawDocument {
    /// The markup of `text`.
    pub markup: Markup,
    /// The title, where the file gives one.
    pub title: Option<String>,
    /// The document.
    pub text: String,
    /// The place of the input among those given to [`Corpus::open`](crate::Corpus::open), from 0.
    pub input: usize,
    /// Where the document starts: the byte of the input's text in UTF-8, after decompression; in
    /// Parquet files the row.
    pub offset: u64,
    pub(crate) site: Option<Arc<Site>>,
}

impl RawDocument {
    /// A document of plain text.
    #[must_use]
    pub fn plain(text: String) -> Self {
        Self {
            markup: Markup::Plain,
            title: None,
            text,
            input: 0,
            offset: 0,
            site: None,
        }
    }

    /// The plain text, without the title. Plain text is moved; wikitext is stripped,
    /// in linear time.
    #[must_use]
    pub fn into_text(self) -> String {
        match (self.markup, self.site) {
            (Markup::Plain, _) => self.text,
            (Markup::Wikitext, Some(site)) => wikitext::strip_with(&self.text, &site),
            (Markup::Wikitext, None) => wikitext::strip(&self.text),
        }
    }
}
