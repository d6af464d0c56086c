//! MediaWiki's export format, page by page.
//!
//! A scanner finds the borders of pages among the tags, comments and CDATA sections of the file, without a document tree
//! and without entities: a document type is passed over, so nothing that it declares is ever expanded. Only the page
//! between two borders is parsed as XML. So a page that is broken is one page, and the next `<page>` is a fresh start.
//! Of a page with its history only the last revision is kept in memory.

use std::io::{self, Read};
use std::sync::Arc;

use memchr::{memchr, memmem};
use quick_xml::events::{BytesRef, Event};

use crate::document::{Markup, RawDocument};
use crate::encoding::read_once;
use crate::error::{Error, Result};
use crate::progress::{BadPage, Progress, Skip};
use crate::redirect::is_redirect;
use crate::site::Site;

/// How much is read at a time.
const CHUNK: usize = 256 << 10;
/// As many bytes after `<` tell all tags apart that matter here.
const LOOK_AHEAD: usize = 16;
/// The longest page, with one revision, that is kept in memory.
const LONGEST_PAGE: usize = 64 << 20;

/// What the scanner is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Nothing,
    Dump,
    SiteInfo,
    Page,
}

impl Within {
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Dump => "<mediawiki>",
            Self::SiteInfo => "<siteinfo>",
            Self::Page => "<page>",
        }
    }
}

/// A piece of markup that the scanner tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Dump,
    DumpEnd,
    SiteInfo,
    SiteInfoEnd,
    Page,
    PageEnd,
    Revision,
    Comment,
    Cdata,
    Instruction,
    DocumentType,
    Other,
}

/// What the scanner finds.
enum Found {
    Page,
    /// A page that is too long, or that has no end, and where it starts.
    Bad(u64, Skip, &'static str),
    SiteInfo,
    End,
}

/// Reads the articles of a dump.
pub(crate) struct XmlReader<R> {
    scanner: Scanner<R>,
    file: Arc<str>,
    site: Arc<Site>,
    progress: Arc<Progress>,
    done: bool,
}

struct Scanner<R> {
    source: R,
    buffer: Vec<u8>,
    /// Everything in the buffer before here has been read.
    at: usize,
    /// Where the buffer starts in the text.
    base: u64,
    end: bool,
    within: Within,
    /// What is around pages, and where it starts.
    outer: Within,
    outer_start: u64,
    /// There has been a `<mediawiki>`, or a page without one.
    is_dump: bool,
    /// The element that is being read, and where it starts.
    element: Vec<u8>,
    start: u64,
    /// Length of the element before its first revision.
    head: Option<usize>,
    too_long: bool,
}

impl<R: Read> Scanner<R> {
    fn new(source: R) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            at: 0,
            base: 0,
            end: false,
            within: Within::Nothing,
            outer: Within::Nothing,
            outer_start: 0,
            is_dump: false,
            element: Vec::new(),
            start: 0,
            head: None,
            too_long: false,
        }
    }

    fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// Reads on; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.at);
        self.base += self.at as u64;
        self.at = 0;
        let length = self.buffer.len();
        self.buffer.resize(length + CHUNK, 0);
        let result = read_once(&mut self.source, &mut self.buffer[length..]);
        self.buffer
            .truncate(length + result.as_ref().map_or(0, |read| *read));
        self.end = result? == 0;
        Ok(!self.end)
    }

    /// Moves on by `length` bytes, which belong to the element, if there is one.
    fn advance(&mut self, length: usize) {
        let inside = matches!(self.within, Within::Page | Within::SiteInfo);
        if inside && !self.too_long {
            self.element
                .extend_from_slice(&self.buffer[self.at..self.at + length]);
            self.too_long = self.element.len() > LONGEST_PAGE;
        }
        self.at += length;
    }

    /// Moves to the next `<`, with enough behind it to tell what it is; false at the end.
    fn seek_markup(&mut self) -> io::Result<bool> {
        loop {
            let length = memchr(b'<', self.rest()).unwrap_or(self.rest().len());
            self.advance(length);
            if self.rest().len() >= LOOK_AHEAD || (self.end && !self.rest().is_empty()) {
                return Ok(true);
            }
            if !self.fill()? && self.rest().is_empty() {
                return Ok(false);
            }
        }
    }

    /// Moves behind the next `mark`; false if there is none.
    fn behind(&mut self, mark: &[u8]) -> io::Result<bool> {
        loop {
            if let Some(place) = memmem::find(self.rest(), mark) {
                self.advance(place + mark.len());
                return Ok(true);
            }
            self.advance(self.rest().len().saturating_sub(mark.len() - 1));
            if !self.fill()? {
                self.advance(self.rest().len());
                return Ok(false);
            }
        }
    }

    fn mark(&self) -> Mark {
        let rest = &self.rest()[1..];
        let tags: [(&[u8], Mark); 7] = [
            (b"page", Mark::Page),
            (b"/page", Mark::PageEnd),
            (b"revision", Mark::Revision),
            (b"siteinfo", Mark::SiteInfo),
            (b"/siteinfo", Mark::SiteInfoEnd),
            (b"mediawiki", Mark::Dump),
            (b"/mediawiki", Mark::DumpEnd),
        ];
        let marks: [(&[u8], Mark); 4] = [
            (b"!--", Mark::Comment),
            (b"![CDATA[", Mark::Cdata),
            (b"?", Mark::Instruction),
            (b"!DOCTYPE", Mark::DocumentType),
        ];
        let ends_name = |length: usize| {
            rest.get(length)
                .is_none_or(|byte| b" \t\r\n/>".contains(byte))
        };
        let tag = tags
            .iter()
            .find(|(name, _)| rest.starts_with(name) && ends_name(name.len()));
        let mark = || marks.iter().find(|(name, _)| rest.starts_with(name));
        tag.or_else(mark).map_or(Mark::Other, |found| found.1)
    }

    fn begin(&mut self, within: Within) {
        self.within = within;
        self.is_dump = true;
        self.start = self.offset();
        self.element.clear();
        self.head = None;
        self.too_long = false;
    }

    /// Reads on to the end of the next page or of the description of the site.
    fn next(&mut self) -> io::Result<Found> {
        while self.seek_markup()? {
            let mark = self.mark();
            let (was_within, was_at, was_dump) = (self.within, self.start, self.is_dump);
            match mark {
                Mark::Page => self.begin(Within::Page),
                Mark::SiteInfo if was_within == Within::Dump => self.begin(Within::SiteInfo),
                Mark::Revision if was_within == Within::Page => self.begin_revision(),
                Mark::Dump => {
                    self.begin(Within::Dump);
                    self.outer = Within::Dump;
                    self.outer_start = self.start;
                }
                _ => {}
            }
            self.pass(mark)?;
            match mark {
                Mark::Page | Mark::Dump if was_within == Within::Page => {
                    return Ok(Found::Bad(
                        was_at,
                        Skip::Malformed,
                        "there is no </page> before the next page",
                    ));
                }
                Mark::DumpEnd => {
                    self.within = Within::Nothing;
                    self.outer = Within::Nothing;
                    if was_within == Within::Page {
                        return Ok(Found::Bad(
                            was_at,
                            Skip::Malformed,
                            "there is no </page> before the end",
                        ));
                    }
                }
                Mark::PageEnd if was_within == Within::Page => {
                    self.within = self.outer;
                    return Ok(self.page());
                }
                Mark::SiteInfoEnd if was_within == Within::SiteInfo => {
                    self.within = Within::Dump;
                    return Ok(Found::SiteInfo);
                }
                // Whatever opens a document that is not <mediawiki> makes it something else.
                Mark::Other if !was_dump => return Ok(Found::End),
                _ => {}
            }
        }
        Ok(Found::End)
    }

    /// Moves behind the markup here.
    fn pass(&mut self, mark: Mark) -> io::Result<()> {
        match mark {
            Mark::Comment => self.behind(b"-->")?,
            Mark::Cdata => self.behind(b"]]>")?,
            Mark::Instruction => self.behind(b"?>")?,
            Mark::DocumentType => return self.pass_document_type(),
            Mark::PageEnd | Mark::SiteInfoEnd | Mark::DumpEnd => self.behind(b">")?,
            _ => {
                self.advance(1);
                true
            }
        };
        Ok(())
    }

    /// Moves behind a document type and whatever it declares.
    fn pass_document_type(&mut self) -> io::Result<()> {
        loop {
            if let Some(place) = self
                .rest()
                .iter()
                .position(|byte| matches!(byte, b'>' | b'['))
            {
                let declares = self.rest()[place] == b'[';
                self.advance(place + 1);
                if declares {
                    self.behind(b"]")?;
                    self.behind(b">")?;
                }
                return Ok(());
            }
            self.advance(self.rest().len());
            if !self.fill()? {
                return Ok(());
            }
        }
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

    fn page(&self) -> Found {
        if self.too_long {
            Found::Bad(
                self.start,
                Skip::TooLong,
                "more than 64 MiB in one revision",
            )
        } else {
            Found::Page
        }
    }
}

impl<R: Read> XmlReader<R> {
    pub(crate) fn new(source: R, file: Arc<str>, progress: Arc<Progress>) -> Self {
        Self {
            scanner: Scanner::new(source),
            file,
            site: Site::well_known(),
            progress,
            done: false,
        }
    }

    fn article(&mut self) -> Result<Option<RawDocument>> {
        loop {
            let found = self
                .scanner
                .next()
                .map_err(|error| self.read_error(error))?;
            match found {
                Found::Page => {
                    if let Some(document) = self.page() {
                        return Ok(Some(document));
                    }
                }
                Found::Bad(offset, reason, detail) => {
                    self.report(offset, reason, detail.to_string())
                }
                Found::SiteInfo => self.read_site(),
                Found::End => return self.end().map(|()| None),
            }
        }
    }

    fn read_error(&self, error: io::Error) -> Error {
        Error::read(&self.file, self.scanner.offset(), error)
    }

    /// A dump is whole if it has ended with `</mediawiki>`.
    fn end(&self) -> Result<()> {
        let file = self.file.to_string();
        let Scanner {
            within,
            start,
            outer_start,
            is_dump,
            ..
        } = self.scanner;
        let offset = if within == Within::Dump {
            outer_start
        } else {
            start
        };
        if !is_dump {
            return Err(Error::NotMediaWiki { file });
        }
        match within {
            Within::Nothing => Ok(()),
            _ => Err(Error::Truncated {
                file,
                offset,
                end: self.scanner.offset(),
                within: within.name(),
            }),
        }
    }

    fn report(&self, offset: u64, reason: Skip, detail: String) {
        self.progress.report(BadPage {
            file: self.file.to_string(),
            offset,
            reason,
            detail,
        });
    }

    /// The page that has been scanned, unless it is skipped.
    fn page(&self) -> Option<RawDocument> {
        let page = match parse_page(&self.scanner.element) {
            Ok(page) => page,
            Err((reason, detail)) => {
                self.report(self.scanner.start, reason, detail);
                return None;
            }
        };
        match page.skip(&self.site) {
            Some(reason) => {
                self.progress.count_skip(reason);
                None
            }
            None => Some(RawDocument {
                markup: Markup::Wikitext,
                title: page.title,
                text: page.text,
                input: 0,
                offset: self.scanner.start,
                site: Some(self.site.clone()),
            }),
        }
    }

    /// Learns the namespaces of the wiki. What cannot be parsed teaches nothing, and is not worth an error.
    fn read_site(&mut self) {
        let mut site = Site::default();
        if let Ok(text) = std::str::from_utf8(&self.scanner.element) {
            // An error ends the list; what was learnt stays.
            let _ = parse_namespaces(text, &mut site);
        }
        self.site = Arc::new(site);
    }
}

impl<R: Read> Iterator for XmlReader<R> {
    type Item = Result<RawDocument>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let article = self.article().transpose();
        self.done = !matches!(article, Some(Ok(_)));
        article
    }
}

/// What matters of a page.
#[derive(Debug, Default)]
struct Page {
    title: Option<String>,
    namespace: Option<String>,
    model: Option<String>,
    text: String,
    redirect: bool,
}

impl Page {
    /// Why the page is no document, if it is none.
    fn skip(&self, site: &Site) -> Option<Skip> {
        let title = self.title.as_deref().unwrap_or_default();
        let is_article = self
            .namespace
            .as_deref()
            .map_or_else(|| site.in_main_namespace(title), |key| key.trim() == "0");
        let is_wikitext = self
            .model
            .as_deref()
            .is_none_or(|model| model.trim() == "wikitext");
        if !is_article {
            Some(Skip::Namespace)
        } else if self.redirect || is_redirect(&self.text) {
            Some(Skip::Redirect)
        } else if !is_wikitext {
            Some(Skip::NotWikitext)
        } else if self.text.trim().is_empty() {
            Some(Skip::NoText)
        } else {
            None
        }
    }

    /// The field that holds the text of this element, `depth` elements down, the page being the first.
    fn field(&mut self, name: &str, depth: usize) -> Option<&mut String> {
        match (depth, name) {
            (2, "title") => Some(self.title.insert(String::new())),
            (2, "ns") => Some(self.namespace.insert(String::new())),
            (3, "model") => Some(self.model.insert(String::new())),
            (3, "text") => {
                self.text.clear();
                Some(&mut self.text)
            }
            _ => None,
        }
    }
}

type Bad = (Skip, String);

fn malformed(error: impl std::fmt::Display) -> Bad {
    (Skip::Malformed, error.to_string())
}

/// Parses one `<page>…</page>`.
fn parse_page(bytes: &[u8]) -> std::result::Result<Page, Bad> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        (
            Skip::InvalidText,
            format!("byte {} of the page", error.valid_up_to()),
        )
    })?;
    let mut reader = quick_xml::Reader::from_str(text);
    let mut page = Page::default();
    let mut depth = 0_usize;
    loop {
        match reader.read_event().map_err(malformed)? {
            Event::Start(tag) => {
                depth += 1;
                page.redirect |= depth == 2 && tag.name().as_ref() == "redirect";
                if let Some(field) = page.field(tag.name().as_ref(), depth) {
                    read_text(&mut reader, field)?;
                    depth -= 1;
                }
            }
            Event::Empty(tag) => page.redirect |= depth == 1 && tag.name().as_ref() == "redirect",
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Eof if depth > 0 => return Err(malformed("an element has no end")),
            Event::Eof => return Ok(page),
            Event::GeneralRef(reference) => {
                resolve(&reference)?;
            }
            _ => {}
        }
    }
}

/// Reads the text of the element that has just begun, and its end.
fn read_text(
    reader: &mut quick_xml::Reader<&[u8]>,
    into: &mut String,
) -> std::result::Result<(), Bad> {
    loop {
        match reader.read_event().map_err(malformed)? {
            Event::Text(text) => push_lines(into, &text),
            Event::CData(text) => push_lines(into, &text),
            Event::GeneralRef(reference) => into.push(resolve(&reference)?),
            Event::End(_) => return Ok(()),
            Event::Comment(_) | Event::PI(_) => {}
            Event::Eof => return Err(malformed("an element has no end")),
            _ => return Err(malformed("there are elements where only text may be")),
        }
    }
}

/// Line ends are line feeds, says XML, whatever the file has.
fn push_lines(into: &mut String, text: &str) {
    if memchr(b'\r', text.as_bytes()).is_some() {
        into.push_str(&text.replace("\r\n", "\n").replace('\r', "\n"));
    } else {
        into.push_str(text);
    }
}

/// The character of a reference. XML has five names; those that a document type declares are not expanded.
fn resolve(reference: &BytesRef<'_>) -> std::result::Result<char, Bad> {
    let bad = |detail: String| (Skip::Entity, detail);
    let name: &str = reference;
    match name {
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "amp" => Ok('&'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        _ => match reference.resolve_char_ref() {
            Ok(Some(character)) => Ok(character),
            Ok(None) => Err(bad(format!(
                "&{};",
                name.chars().take(40).collect::<String>()
            ))),
            Err(error) => Err(bad(error.to_string())),
        },
    }
}

fn parse_namespaces(text: &str, site: &mut Site) -> std::result::Result<(), Bad> {
    let mut reader = quick_xml::Reader::from_str(text);
    loop {
        match reader.read_event().map_err(malformed)? {
            Event::Start(tag) if tag.name().as_ref() == "namespace" => {
                let key = tag.try_get_attribute("key").map_err(malformed)?;
                let number = key.and_then(|key| key.value.trim().parse().ok());
                let mut name = String::new();
                read_text(&mut reader, &mut name)?;
                site.add_namespace(number.unwrap_or(0), &name);
            }
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        let mut site = Site::default();
        site.add_namespace(1, "Sprīža");
        site
    }

    #[test]
    fn a_page_is_parsed() {
        let page = parse_page(
            b"<page><title>A &amp; B</title><ns>0</ns><id>1</id><revision><id>2</id><model>wikitext</model>\
              <contributor><title>no</title></contributor><text xml:space=\"preserve\">a\r\n&lt;b&gt; &#233;<![CDATA[<&]]></text>\
              </revision></page>",
        )
        .unwrap();
        assert_eq!(page.title.as_deref(), Some("A & B"));
        assert_eq!(page.text, "a\n<b> é<&");
        assert_eq!(page.skip(&site()), None);
    }

    #[test]
    fn bad_pages_say_why() {
        let reason = |bytes: &[u8]| parse_page(bytes).unwrap_err().0;
        assert_eq!(reason(b"<page><title>a</titel></page>"), Skip::Malformed);
        assert_eq!(
            reason(b"<page><title>a<b/></title></page>"),
            Skip::Malformed
        );
        assert_eq!(reason(b"<page><title>a</title>"), Skip::Malformed);
        assert_eq!(reason(b"<page><title>&lol9;</title></page>"), Skip::Entity);
        assert_eq!(reason(b"<page>&#xD800;</page>"), Skip::Entity);
        assert_eq!(reason(b"<page>\xff</page>"), Skip::InvalidText);
    }

    #[test]
    fn pages_are_skipped_for_what_they_are() {
        let skip = |page: Page| page.skip(&site());
        let title = |title: &str| Page {
            title: Some(title.to_string()),
            text: "a".to_string(),
            ..Page::default()
        };
        assert_eq!(skip(title("Sprīža:A")), Some(Skip::Namespace));
        assert_eq!(skip(title("Talk:A")), Some(Skip::Namespace));
        assert_eq!(
            skip(Page {
                namespace: Some("0".to_string()),
                ..title("Talk:A")
            }),
            None
        );
        assert_eq!(
            skip(Page {
                namespace: Some("1".to_string()),
                ..title("A")
            }),
            Some(Skip::Namespace)
        );
        assert_eq!(
            skip(Page {
                redirect: true,
                ..title("A")
            }),
            Some(Skip::Redirect)
        );
        assert_eq!(
            skip(Page {
                text: "#REDIRECT [[B]]".to_string(),
                ..title("A")
            }),
            Some(Skip::Redirect)
        );
        assert_eq!(
            skip(Page {
                model: Some("json".to_string()),
                ..title("A")
            }),
            Some(Skip::NotWikitext)
        );
        assert_eq!(
            skip(Page {
                text: " \n".to_string(),
                ..title("A")
            }),
            Some(Skip::NoText)
        );
    }
}
