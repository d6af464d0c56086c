//! Progress of reading, and what was skipped.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Why a page of a dump is not a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Skip {
    /// Not in the main namespace: a discussion, a template, a category.
    Namespace,
    /// A redirect to another page.
    Redirect,
    /// A page of data or source code, as on Wikidata.
    NotWikitext,
    /// A page without text.
    NoText,
    /// Bad: its XML is broken.
    Malformed,
    /// Bad: it refers to an entity that is not one of XML's five. Declared ones are never expanded.
    Entity,
    /// Bad: its bytes are not text in the encoding of the dump.
    InvalidText,
    /// Bad: one revision of it is longer than 64 MiB.
    TooLong,
}

impl Skip {
    /// All reasons, in the order of their places.
    pub const ALL: [Self; 8] = [
        Self::Namespace,
        Self::Redirect,
        Self::NotWikitext,
        Self::NoText,
        Self::Malformed,
        Self::Entity,
        Self::InvalidText,
        Self::TooLong,
    ];
}

impl fmt::Display for Skip {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Namespace => "not an article",
            Self::Redirect => "redirect",
            Self::NotWikitext => "not wikitext",
            Self::NoText => "no text",
            Self::Malformed => "broken XML",
            Self::Entity => "undefined or declared entity",
            Self::InvalidText => "invalid characters",
            Self::TooLong => "too long",
        })
    }
}

/// A page that was skipped because something is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPage {
    /// The file.
    pub file: String,
    /// Where the page starts, in bytes of the file's text in UTF-8, after decompression.
    pub offset: u64,
    /// Why it was skipped.
    pub reason: Skip,
    /// What exactly is wrong.
    pub detail: String,
}

impl fmt::Display for BadPage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            offset,
            reason,
            detail,
        } = self;
        write!(
            out,
            "skipped the page at byte {offset} of {file}: {reason}: {detail}"
        )
    }
}

/// Counters that any thread can read while a [`Corpus`](crate::corpus::Corpus) is read.
#[derive(Debug, Default)]
pub struct Progress {
    bytes_total: Option<u64>,
    pub(crate) bytes_read: AtomicU64,
    pages: AtomicU64,
    documents: AtomicU64,
    skipped: [AtomicU64; Skip::ALL.len()],
    bad: Mutex<Vec<BadPage>>,
}

impl Progress {
    /// How many bad pages are remembered; all are counted.
    pub const REMEMBERED: usize = 100;

    /// Size of all inputs in bytes, as they are on the disk; `None` if one of them is a stream.
    pub fn bytes_total(&self) -> Option<u64> {
        self.bytes_total
    }

    /// Bytes that have been read of the inputs, as they are on the disk.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Relaxed)
    }

    /// Pages, rows and records that have been seen: documents, and whatever was skipped.
    pub fn pages(&self) -> u64 {
        self.pages.load(Relaxed)
    }

    /// Documents that have been delivered.
    pub fn documents(&self) -> u64 {
        self.documents.load(Relaxed)
    }

    /// Pages that have been skipped for this reason.
    pub fn skipped(&self, reason: Skip) -> u64 {
        self.skipped[reason as usize].load(Relaxed)
    }

    /// The first [`REMEMBERED`](Self::REMEMBERED) pages with which something is wrong.
    pub fn bad_pages(&self) -> Vec<BadPage> {
        self.bad
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn of(bytes_total: Option<u64>) -> Self {
        Self {
            bytes_total,
            ..Self::default()
        }
    }

    pub(crate) fn count_document(&self) {
        self.pages.fetch_add(1, Relaxed);
        self.documents.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_skip(&self, reason: Skip) {
        self.pages.fetch_add(1, Relaxed);
        self.skipped[reason as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn report(&self, page: BadPage) {
        self.count_skip(page.reason);
        let mut bad = self.bad.lock().unwrap_or_else(PoisonError::into_inner);
        if bad.len() < Self::REMEMBERED {
            bad.push(page);
        }
    }
}
