//! Files of any kind, read as one stream of documents.

use std::fs::{self, File};
use std::io::{self, Cursor, Read, Seek, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::vec;

use cascade_core::fs::Inflation;

use crate::corpus::bz2::{Bz2Reader, is_bzip2};
use crate::corpus::document::RawDocument;
use crate::corpus::jsonl::JsonlReader;
use crate::corpus::parquet::ParquetReader;
use crate::corpus::plain::PlainReader;
use crate::corpus::progress::{Progress, Skip};
use crate::corpus::read_once;
use crate::corpus::xml::XmlReader;
use crate::source::is_stdin;
use crate::{Error, Result};

/// How a [`Corpus`] is read.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Documents after which to stop, over all inputs.
    pub limit_pages: Option<u64>,
    /// Threads that decompress bzip2.
    pub threads: NonZeroUsize,
}

impl Default for Options {
    /// All documents, and one thread per CPU.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self {
            limit_pages: None,
            threads,
        }
    }
}

type Documents = Box<dyn Iterator<Item = Result<RawDocument>> + Send>;

/// The documents of some inputs, in their order.
///
/// File types are detected from content, not from names: layers of gzip (of any number of
/// members), zstd (frames) and bzip2 (streams), and in them a MediaWiki dump, a Parquet file,
/// JSONL, or plain text, all in UTF-8, perhaps with a byte order mark.
///
/// Documents are read lazily, in bounded memory: one document, some
/// buffers, and with bzip2 about 15 MiB for each thread. A Parquet file that is compressed or comes
/// as a stream is first written to a temporary file.
///
/// An error ends its input, and the next one is opened, except that a bad line of JSONL is skipped.
/// Pages of dumps that cannot be read are skipped, counted and reported in [`Progress`].
pub struct Corpus {
    inputs: vec::IntoIter<PathBuf>,
    /// The place of the current input, plus one.
    opened: usize,
    current: Option<Documents>,
    options: Options,
    left: u64,
    progress: Arc<Progress>,
}

impl Corpus {
    /// Checks that all inputs can be opened, and prepares to read them. `-` is standard input,
    /// anything else the path of a file.
    ///
    /// # Errors
    /// If one of them does not exist, is a directory, or is an empty file.
    pub fn open(
        inputs: impl IntoIterator<Item = impl Into<PathBuf>>,
        options: Options,
    ) -> Result<Self> {
        let inputs: Vec<PathBuf> = inputs.into_iter().map(Into::into).collect();
        let sizes = inputs.iter().map(|input| size(input));
        let progress = Progress::of(sizes.sum::<Result<Option<u64>>>()?);
        Ok(Self {
            inputs: inputs.into_iter(),
            opened: 0,
            current: None,
            options,
            left: options.limit_pages.unwrap_or(u64::MAX),
            progress: Arc::new(progress),
        })
    }

    /// The counters, to be shown while another thread reads the corpus.
    pub fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    fn open_next(&mut self) -> Option<Result<()>> {
        let input = self.inputs.next()?;
        self.opened += 1;
        let opener = Opener {
            file: name(&input).into(),
            options: self.options,
            progress: self.progress.clone(),
        };
        let opened = opener.open(&input);
        Some(opened.map(|documents| self.current = Some(documents)))
    }
}

impl Iterator for Corpus {
    type Item = Result<RawDocument>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.left > 0 {
            match self.current.as_mut().and_then(Iterator::next) {
                Some(Ok(document)) if document.text.trim().is_empty() => {
                    self.progress.count_skip(Skip::NoText)
                }
                Some(Ok(document)) => {
                    self.left -= 1;
                    self.progress.count_document();
                    return Some(Ok(RawDocument {
                        input: self.opened - 1,
                        ..document
                    }));
                }
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.current = None;
                    if let Err(error) = self.open_next()? {
                        return Some(Err(error));
                    }
                }
            }
        }
        None
    }
}

/// What an input is called in messages.
fn name(input: &Path) -> String {
    if is_stdin(input) {
        "standard input".to_owned()
    } else {
        input.display().to_string()
    }
}

/// Size in bytes as it is on the disk; `None` for a stream.
fn size(input: &Path) -> Result<Option<u64>> {
    if is_stdin(input) {
        return Ok(None);
    }
    let file = name(input);
    let metadata = fs::metadata(input).map_err(Error::open(&file))?;
    if metadata.is_dir() {
        return Err(Error::input(format!(
            "{file} is a directory; name the files in it, for example {file}/*.bz2"
        )));
    }
    match (metadata.is_file(), metadata.len()) {
        (true, 0) => Err(empty(&file)),
        (true, size) => Ok(Some(size)),
        // A pipe of the shell's; others have no end, or wait for one who writes.
        (false, _) => {
            cascade_core::fs::open(input).map_err(Error::open(&file))?;
            Ok(None)
        }
    }
}

fn empty(file: &str) -> Error {
    Error::input(format!("{file} is empty; was its download interrupted?"))
}

/// Compressed data that does not decompress.
fn damaged(file: &str, format: &str, offset: u64, reason: &str) -> Error {
    Error::input(format!(
        "the {format} data of {file} is damaged or cut off at or before byte {offset}: {reason}; \
         compare its checksum and fetch the file again"
    ))
}

/// Bytes of a file that are examined to detect its format.
const SNIFF: usize = 4096;
/// Layers of compression that are removed. More are an attack.
const LAYERS: usize = 4;

type Source = Box<dyn Read + Send>;

/// What is needed to open one input.
struct Opener {
    file: Arc<str>,
    options: Options,
    progress: Arc<Progress>,
}

impl Opener {
    fn open(&self, input: &Path) -> Result<Documents> {
        if is_stdin(input) {
            return self.layers(Box::new(io::stdin()));
        }
        let open_error = Error::open(&self.file);
        let mut file = cascade_core::fs::open(input).map_err(&open_error)?;
        let is_file = file.metadata().map_err(open_error)?.is_file();
        if is_file && starts_parquet(&mut file).map_err(|error| self.unreadable(error))? {
            return self.parquet(file);
        }
        self.layers(Box::new(file))
    }

    fn unreadable(&self, error: io::Error) -> Error {
        Error::read_at(&self.file, 0, error)
    }

    /// Removes one layer of compression after the other, and reads the content.
    fn layers(&self, source: Source) -> Result<Documents> {
        let read = Arc::new(AtomicU64::new(0));
        let counted = CountedSource {
            source,
            read: read.clone(),
            progress: self.progress.clone(),
        };
        let mut source: Source = Box::new(counted);
        for _ in 0..LAYERS {
            let start = self.start(&mut source, &read)?;
            let format = compression(&start);
            let whole = Cursor::new(start.clone()).chain(source);
            source = match format {
                None => return self.text(&start, Box::new(whole)),
                Some(format) => self.decompress(format, Box::new(whole), &read)?,
            };
        }
        let reason = "too many layers of compression";
        Err(damaged(&self.file, "compressed", LAYERS as u64, reason))
    }

    fn decompress(
        &self,
        format: &'static str,
        source: Source,
        read: &Arc<AtomicU64>,
    ) -> Result<Source> {
        let opened: io::Result<Source> = match format {
            "gzip" => Ok(Box::new(flate2::read::MultiGzDecoder::new(source))),
            "zstd" => zstd::Decoder::new(source).map(|decoder| Box::new(decoder) as Source),
            _ => Bz2Reader::new(source, self.options.threads.get())
                .map(|reader| Box::new(reader) as Source),
        };
        let source = opened.map_err(|e| damaged(&self.file, format, 0, &e.to_string()))?;
        Ok(Box::new(Layer {
            source,
            format,
            file: self.file.clone(),
            read: read.clone(),
            given: Inflation::default(),
        }))
    }

    /// The first bytes of a source, as many as there are.
    fn start(&self, source: &mut Source, read: &AtomicU64) -> Result<Vec<u8>> {
        let mut start = vec![0; SNIFF];
        let mut length = 0;
        while length < start.len() {
            match read_once(source, &mut start[length..]) {
                Ok(0) => break,
                Ok(read) => length += read,
                // The bytes before the error may hold documents; the error recurs after them.
                Err(_) if length > 0 => break,
                Err(error) => return Err(Error::read_at(&self.file, read.load(Relaxed), error)),
            }
        }
        start.truncate(length);
        Ok(start)
    }

    /// Reads decompressed content.
    fn text(&self, start: &[u8], source: Source) -> Result<Documents> {
        let file = self.file.clone();
        if start.is_empty() {
            return Err(empty(&file));
        }
        if start.starts_with(PARQUET) {
            return self.spool(source).and_then(|file| self.parquet(file));
        }
        Ok(match Format::of(&String::from_utf8_lossy(start)) {
            Format::Xml => Box::new(XmlReader::new(source, file, self.progress.clone())),
            Format::Jsonl => Box::new(JsonlReader::new(source, file)),
            Format::Plain => Box::new(PlainReader::new(source, file)),
        })
    }

    fn parquet(&self, source: File) -> Result<Documents> {
        Ok(Box::new(ParquetReader::open(
            source,
            self.file.clone(),
            self.progress.clone(),
        )?))
    }

    /// Writes a stream to a temporary file, because the table of contents of a Parquet file is at
    /// its end.
    fn spool(&self, mut source: Source) -> Result<File> {
        let error = |error| self.unreadable(error);
        let mut file = tempfile::tempfile().map_err(error)?;
        io::copy(&mut source, &mut file).map_err(error)?;
        file.flush().map_err(error)?;
        file.rewind().map_err(error)?;
        Ok(file)
    }
}

const PARQUET: &[u8] = b"PAR1";

fn starts_parquet(file: &mut File) -> io::Result<bool> {
    let mut start = Vec::new();
    file.take(PARQUET.len() as u64).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(start == PARQUET)
}

/// The compression of data that starts like this.
fn compression(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x1f, 0x8b, 8, ..] => Some("gzip"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some("zstd"),
        _ => is_bzip2(start).then_some("bzip2"),
    }
}

/// The formats of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Xml,
    Jsonl,
    Plain,
}

impl Format {
    /// The format of a text that starts like this.
    fn of(start: &str) -> Self {
        let start = start.trim_start_matches('\u{feff}').trim_start();
        let is_xml = ["<?xml", "<mediawiki", "<!DOCTYPE mediawiki", "<page>"]
            .iter()
            .any(|tag| start.starts_with(tag));
        // An object: wikitext may start with a brace, too.
        let object = start.strip_prefix('{').map(str::trim_start);
        if is_xml || (start.starts_with("<!--") && start.contains("<mediawiki")) {
            Self::Xml
        } else if object.is_some_and(|rest| rest.starts_with(['"', '}'])) {
            Self::Jsonl
        } else {
            Self::Plain
        }
    }
}

/// A source that counts the bytes that are read from it, for positions and for progress.
struct CountedSource {
    source: Source,
    read: Arc<AtomicU64>,
    progress: Arc<Progress>,
}

impl Read for CountedSource {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(into)?;
        self.read.fetch_add(length as u64, Relaxed);
        self.progress.bytes_read.fetch_add(length as u64, Relaxed);
        Ok(length)
    }
}

/// Names the file, the place and the format in the errors of a decoder, and stops one that gives
/// out of all proportion to what the whole file has.
struct Layer {
    source: Source,
    format: &'static str,
    file: Arc<str>,
    read: Arc<AtomicU64>,
    given: Inflation,
}

impl Layer {
    fn name(&self, error: io::Error) -> io::Error {
        let offset = self.read.load(Relaxed);
        let reason = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it ends within a stream".to_string(),
            _ => error.to_string(),
        };
        match error.downcast::<Error>() {
            Ok(below) => io::Error::other(below),
            // Operating system errors concern the file, not its content.
            Err(error) if error.raw_os_error().is_some() => error,
            Err(_) => io::Error::other(damaged(&self.file, self.format, offset, &reason)),
        }
    }
}

impl Read for Layer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.source.read(into) {
            Ok(length) => {
                let checked = self.given.add(length, self.read.load(Relaxed));
                checked.map(|()| length).map_err(|error| self.name(error))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => Err(self.name(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_content() {
        assert_eq!(Format::of("\u{feff} <mediawiki xmlns='x'>"), Format::Xml);
        assert_eq!(Format::of("<?xml version='1.0'?><html>"), Format::Xml);
        assert_eq!(Format::of("<!-- c --><mediawiki>"), Format::Xml);
        assert_eq!(Format::of("<html>"), Format::Plain);
        assert_eq!(Format::of("{ \"text\": \"a\"}"), Format::Jsonl);
        assert_eq!(Format::of("{{template}} text"), Format::Plain);
        assert_eq!(compression(b"BZh9not bzip2 but text"), None);
        assert_eq!(compression(&[0x1f, 0x8b, 8, 0]), Some("gzip"));
    }

    #[test]
    fn a_dash_is_standard_input() {
        assert_eq!(name(Path::new("-")), "standard input");
        assert_eq!(name(Path::new("./-")), "./-");
    }
}
