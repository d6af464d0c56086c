//! Finds the pages of a dump by their tags.
//!
//! Tags are searched as literal bytes, as MediaWiki writes them: without attributes but for
//! `<mediawiki …>`. Nothing else is parsed here. In text every `<` is escaped, so a tag inside a
//! comment or a CDATA section, which MediaWiki never writes, is the only thing that can be taken
//! for a border, and costs the page that it is in.

use std::io::{self, Read};

use memchr::memchr_iter;
use quick_xml::events::Event;

use crate::corpus::progress::Skip;
use crate::corpus::read_once;

/// How much is read at a time.
const CHUNK: usize = 256 << 10;
/// How much of a file is read to find its first element.
const START: usize = 64 << 10;
/// The longest page, with one revision, that is kept in memory.
const LONGEST_PAGE: usize = 64 << 20;

/// The tags at which a dump is divided.
const TAGS: [&str; 7] = [
    "<mediawiki",
    "</mediawiki>",
    "<siteinfo>",
    "</siteinfo>",
    "<page>",
    "</page>",
    "<revision>",
];
/// One byte less than the longest tag.
const CUT_TAG: usize = "</mediawiki>".len() - 1;

/// An element that is read into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    SiteInfo,
    Page,
}

/// What the scanner comes to next in a dump.
pub(super) enum ScanEvent {
    /// A page, in [`Scanner::element`].
    Page,
    /// A page that is too long, or that has no end, and where it starts.
    Bad(u64, Skip, &'static str),
    /// The description of the site, in [`Scanner::element`].
    SiteInfo,
    End,
}

/// Reads a dump from one page to the next, and keeps no more than one page in memory.
pub(super) struct Scanner<R> {
    source: R,
    buffer: Vec<u8>,
    /// Everything in the buffer before here has been read.
    at: usize,
    /// Where the buffer starts in the text.
    base: u64,
    /// Where the `<mediawiki>` starts that has not ended.
    dump: Option<u64>,
    /// The element that has not ended.
    open: Option<Element>,
    /// The last element, and where it starts.
    element: Vec<u8>,
    start: u64,
    /// Length of the element before its first revision.
    head: Option<usize>,
    too_long: bool,
}

impl<R: Read> Scanner<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            at: 0,
            base: 0,
            dump: None,
            open: None,
            element: Vec::new(),
            start: 0,
            head: None,
            too_long: false,
        }
    }

    /// How far the text has been read.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The bytes of the last element that was found.
    pub(super) fn element(&self) -> &[u8] {
        &self.element
    }

    /// Where that element starts.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// The innermost element that has not ended, and where it starts.
    pub(super) fn unfinished(&self) -> Option<(&'static str, u64)> {
        match self.open {
            Some(Element::Page) => Some(("<page>", self.start)),
            Some(Element::SiteInfo) => Some(("<siteinfo>", self.start)),
            None => Some(("<mediawiki>", self.dump?)),
        }
    }

    /// Whether the first element is one of a dump. To be asked before anything else is read.
    pub(super) fn is_dump(&mut self) -> io::Result<bool> {
        self.fill_to(START)?;
        let text = String::from_utf8_lossy(&self.buffer);
        let mut reader = quick_xml::Reader::from_str(&text);
        loop {
            match reader.read_event() {
                Ok(Event::Start(tag)) => {
                    return Ok(["mediawiki", "page"].contains(&tag.name().as_ref()));
                }
                Ok(Event::Empty(_) | Event::Eof) | Err(_) => return Ok(false),
                Ok(_) => {}
            }
        }
    }

    /// Reads on to the end of the next page or of the description of the site.
    pub(super) fn next(&mut self) -> io::Result<ScanEvent> {
        while let Some(tag) = self.seek_tag()? {
            if let Some(found) = self.pass(tag) {
                return Ok(found);
            }
        }
        Ok(ScanEvent::End)
    }

    /// Moves to the next tag, and returns which it is; `None` at the end.
    fn seek_tag(&mut self) -> io::Result<Option<&'static str>> {
        loop {
            if let Some((at, tag)) = find_tag(self.rest()) {
                self.advance(at);
                return Ok(Some(tag));
            }
            self.advance(self.rest().len().saturating_sub(CUT_TAG));
            if !self.fill()? {
                self.advance(self.rest().len());
                return Ok(None);
            }
        }
    }

    /// Moves behind a tag. What opens an element counts as part of it, and so does what closes it.
    fn pass(&mut self, tag: &str) -> Option<ScanEvent> {
        let (open, start) = (self.open, self.start);
        match (tag, open) {
            ("<mediawiki", _) => (self.dump, self.open) = (Some(self.offset()), None),
            ("</mediawiki>", _) => (self.dump, self.open) = (None, None),
            ("<page>", _) => self.begin(Element::Page),
            ("<siteinfo>", None) if self.dump.is_some() => self.begin(Element::SiteInfo),
            ("<revision>", Some(Element::Page)) => self.begin_revision(),
            _ => {}
        }
        self.advance(tag.len());
        let no_end = |reason| Some(ScanEvent::Bad(start, Skip::Malformed, reason));
        match (tag, open?) {
            ("<page>" | "<mediawiki", Element::Page) => {
                no_end("there is no </page> before the next page")
            }
            ("</mediawiki>", Element::Page) => no_end("there is no </page> before the end"),
            ("</page>", Element::Page) => {
                self.open = None;
                Some(self.page())
            }
            ("</siteinfo>", Element::SiteInfo) => {
                self.open = None;
                Some(ScanEvent::SiteInfo)
            }
            _ => None,
        }
    }

    fn begin(&mut self, element: Element) {
        self.open = Some(element);
        self.start = self.offset();
        self.element.clear();
        self.head = None;
        self.too_long = false;
    }

    /// A page keeps its head and its last revision.
    fn begin_revision(&mut self) {
        match self.head {
            None => self.head = Some(self.element.len()),
            Some(head) => {
                self.element.truncate(head);
                self.too_long = self.element.len() > LONGEST_PAGE;
            }
        }
    }

    fn page(&self) -> ScanEvent {
        if self.too_long {
            let reason = "more than 64 MiB in one revision";
            ScanEvent::Bad(self.start, Skip::TooLong, reason)
        } else {
            ScanEvent::Page
        }
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// Moves on by `length` bytes, which belong to the open element, if there is one.
    fn advance(&mut self, length: usize) {
        if self.open.is_some() && !self.too_long {
            self.element
                .extend_from_slice(&self.buffer[self.at..self.at + length]);
            self.too_long = self.element.len() > LONGEST_PAGE;
        }
        self.at += length;
    }

    /// Reads until the buffer holds `length` bytes, or all there are.
    fn fill_to(&mut self, length: usize) -> io::Result<()> {
        while self.buffer.len() < length {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => break,
                // There may be pages before the error, which recurs after them.
                Err(_) if !self.buffer.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads on; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.at);
        self.base += self.at as u64;
        self.at = 0;
        let length = self.buffer.len();
        self.buffer.resize(length + CHUNK, 0);
        let result = read_once(&mut self.source, &mut self.buffer[length..]);
        let read = result.as_ref().map_or(0, |read| *read);
        self.buffer.truncate(length + read);
        Ok(result? > 0)
    }
}

/// The first tag in a text, and where it is.
fn find_tag(text: &[u8]) -> Option<(usize, &'static str)> {
    memchr_iter(b'<', text).find_map(|at| {
        let tag = TAGS
            .iter()
            .find(|tag| text[at..].starts_with(tag.as_bytes()))?;
        Some((at, *tag))
    })
}
