//! The text of Wikipedia dumps and other corpora, document by document.
//!
//! [`Corpus`] opens files of any kind, detected from their content, and iterates over their
//! documents in bounded memory; [`RawDocument::into_text`] does the expensive part, stripping
//! wikitext, on whatever thread calls it.
//!
//! ```
//! use cascade_corpus::{Corpus, Input, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::env::temp_dir().join("cascade-corpus-example.txt");
//! # std::fs::write(&file, "A document.\n\nAnother one.")?;
//! let corpus = Corpus::open([Input::new(&file)], Options::default())?;
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
//! | `corpus` | inputs, compression, formats detected from content |
//! | `bz2` | bzip2 by several threads |
//! | `encoding` | texts that are not UTF-8 |
//! | `xml`, `site`, `redirect` | MediaWiki's dumps: pages, namespaces, redirects |
//! | `parquet`, `jsonl`, `plain` | the other formats |
//! | [`wikitext`] | plain text from wikitext |

#![forbid(unsafe_code)]

mod bz2;
mod corpus;
mod document;
mod encoding;
mod error;
mod jsonl;
mod lines;
mod parquet;
mod plain;
mod progress;
mod redirect;
mod site;
pub mod wikitext;
mod xml;

pub use corpus::{Corpus, Input, Options};
pub use document::{Markup, RawDocument};
pub use error::{Error, Result};
pub use progress::{BadPage, Progress, Skip};
pub use site::Site;
