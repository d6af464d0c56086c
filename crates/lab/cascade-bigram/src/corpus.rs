//! The text of Wikipedia dumps and other corpora, document by document.
//!
//! [`Corpus`] opens files of several formats, detected from their content, and iterates over their
//! documents in bounded memory. [`RawDocument::into_text`] strips wikitext, which is expensive, on
//! the thread that calls it.
//!
//! ```
//! use cascade_bigram::corpus::{Corpus, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::env::temp_dir().join("cascade-corpus-example.txt");
//! # std::fs::write(&file, "A document.\n\nAnother one.")?;
//! let corpus = Corpus::open([&file], Options::default())?;
//! let progress = corpus.progress();
//! for document in corpus {
//!     println!("{}", document?.into_text());
//! }
//! assert_eq!(progress.documents(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! | module | content |
//! |---|---|
//! | `files` | inputs, compression, formats detected from content |
//! | `bz2` | bzip2 by several threads |
//! | `xml`, `site` | MediaWiki's dumps: pages, namespaces |
//! | `parquet`, `jsonl`, `plain` | the other formats |
//! | [`wikitext`] | plain text from wikitext |

mod bz2;
mod document;
mod files;
mod jsonl;
mod lines;
mod parquet;
mod plain;
mod progress;
mod site;
pub mod wikitext;
mod xml;

pub use document::RawDocument;
pub use files::{Corpus, Options};
pub use progress::{BadPage, Progress, Skip};

use std::io::{self, Read};

/// Reads once, again if interrupted.
fn read_once(source: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
