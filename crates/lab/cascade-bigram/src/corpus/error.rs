//! Errors of reading a corpus.

use std::io;

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why an input, or a document of it, cannot be read.
///
/// Every message names the file, the place and the remedy. Offsets count bytes from 0: of the file
/// where it is compressed, otherwise of its text after decompression.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened.
    #[error("cannot open {file}: {source}; check the path and its permissions")]
    Open {
        /// The file.
        file: String,
        /// The operating system's error.
        source: io::Error,
    },

    /// The path is that of a directory.
    #[error("{file} is a directory; name the files in it, for example {file}/*.bz2")]
    Directory {
        /// The directory.
        file: String,
    },

    /// The file is empty.
    #[error("{file} is empty; was its download interrupted?")]
    Empty {
        /// The file.
        file: String,
    },

    /// Reading fails.
    #[error("cannot read {file} at byte {offset}: {source}")]
    Read {
        /// The file.
        file: String,
        /// How far the file had been read.
        offset: u64,
        /// The operating system's error.
        source: io::Error,
    },

    /// Compressed data that does not decompress.
    #[error(
        "the {format} data of {file} is damaged or cut off at or before byte {offset}: {reason}; \
         compare its checksum and fetch the file again"
    )]
    Compressed {
        /// The file.
        file: String,
        /// The name of the format: gzip, zstd or bzip2.
        format: &'static str,
        /// How far the file had been read.
        offset: u64,
        /// The decoder's message.
        reason: String,
    },

    /// XML that is not a MediaWiki dump.
    #[error(
        "{file} is XML but not a MediaWiki dump: there is no <mediawiki> element; \
         give a pages-articles dump, or extract the text first"
    )]
    NotMediaWiki {
        /// The file.
        file: String,
    },

    /// A dump that ends too early.
    #[error(
        "{file} is cut off: it ends at byte {end} within {within}, which starts at byte {offset}; \
         what came before it was delivered; fetch the file again"
    )]
    Truncated {
        /// The file.
        file: String,
        /// Where the unfinished element starts.
        offset: u64,
        /// Where the text ends.
        end: u64,
        /// The unfinished element.
        within: &'static str,
    },

    /// Bytes that are not text.
    #[error("{file} is not valid text at byte {offset}; convert it to UTF-8 first (iconv -c drops what is invalid)")]
    InvalidText {
        /// The file.
        file: String,
        /// The first invalid byte.
        offset: u64,
    },

    /// A line that is too long to be read into memory.
    #[error("line {line} of {file}, from byte {offset} on, is longer than {limit} bytes; break it into lines")]
    LongLine {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// Where it starts.
        offset: u64,
        /// The longest line that is read.
        limit: u64,
    },

    /// A line of JSONL without a text.
    #[error(
        "line {line} of {file}, at byte {offset}, is not a JSON object with a string \"text\": {reason}; \
         mend or remove the line"
    )]
    Json {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// Where it starts.
        offset: u64,
        /// The parser's message.
        reason: String,
    },

    /// A Parquet file that cannot be read.
    #[error("the Parquet file {file} cannot be read at row {row}: {reason}; fetch the file again")]
    Parquet {
        /// The file.
        file: String,
        /// Rows that were read before.
        row: u64,
        /// The reader's message.
        reason: String,
    },

    /// A Parquet file without a text.
    #[error("the Parquet file {file} has no string column \"text\", only {columns}; rename the column that has the text")]
    NoTextColumn {
        /// The file.
        file: String,
        /// The columns that there are.
        columns: String,
    },
}

impl Error {
    /// A read error: ours if an inner reader wrapped one in [`io::Error`], otherwise the operating
    /// system's.
    pub(crate) fn read(file: &str, offset: u64, source: io::Error) -> Self {
        match source.downcast::<Self>() {
            Ok(ours) => ours,
            Err(source) => Self::Read {
                file: file.to_string(),
                offset,
                source,
            },
        }
    }
}

impl From<Error> for io::Error {
    /// For readers that can return an [`io::Error`] only.
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}
