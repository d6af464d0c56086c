//! Documents before their markup is stripped.

use std::sync::Arc;

use crate::corpus::site::Site;
use crate::corpus::wikitext;

/// A document as it is in its file, before its markup is stripped.
///
/// Reading is cheap and stripping is not: send documents to worker threads and call
/// [`into_text`](Self::into_text) there.
#[derive(Clone, Debug, Default)]
pub struct RawDocument {
    /// The document.
    pub text: String,
    /// The index of the input among those given to [`Corpus::open`](crate::corpus::Corpus::open).
    pub input: usize,
    /// Where the document starts: the byte of the input's text after decompression; in Parquet
    /// files the row.
    pub offset: u64,
    /// The wiki of a text in wikitext; `None` for plain text.
    pub(crate) site: Option<Arc<Site>>,
}

impl RawDocument {
    /// A document of plain text.
    pub(crate) fn plain(text: String, offset: u64) -> Self {
        Self {
            text,
            offset,
            ..Self::default()
        }
    }

    /// The plain text. Plain text is moved; wikitext is stripped, in linear time.
    pub fn into_text(self) -> String {
        match self.site {
            Some(site) => wikitext::strip_with(&self.text, &site),
            None => self.text,
        }
    }
}
