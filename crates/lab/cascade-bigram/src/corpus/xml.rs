//! MediaWiki's export format, page by page.
//!
//! [`scanner`] finds where pages begin and end, without parsing; only what is between is parsed as
//! XML, by quick-xml in [`page`]. So a page that is broken costs one page, and the next `<page>` is
//! a fresh start; a document type is passed over, so nothing that it declares is ever expanded; and
//! no more than one page is in memory, of a page with its history the last revision alone.

use std::io::{self, Read};
use std::sync::Arc;

use crate::corpus::document::RawDocument;
use crate::corpus::progress::{BadPage, Progress, Skip};
use crate::corpus::site::Site;
use crate::{Error, Result};

use self::page::{parse_namespaces, parse_page};
use self::scanner::{ScanEvent, Scanner};

mod page;
mod scanner;

/// Reads the articles of a dump.
pub(crate) struct XmlReader<R> {
    scanner: Scanner<R>,
    file: Arc<str>,
    site: Arc<Site>,
    progress: Arc<Progress>,
    done: bool,
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

    /// Refuses XML that is not a dump, before it is read to the end in search of pages.
    fn check_start(&mut self) -> Result<()> {
        let is_dump = self.scanner.is_dump();
        if is_dump.map_err(|error| self.read_error(error))? {
            return Ok(());
        }
        Err(Error::input(format!(
            "{} is XML but not a MediaWiki dump: there is no <mediawiki> element; \
             give a pages-articles dump, or extract the text first",
            self.file
        )))
    }

    fn article(&mut self) -> Result<Option<RawDocument>> {
        if self.scanner.offset() == 0 {
            self.check_start()?;
        }
        loop {
            let found = self.scanner.next();
            match found.map_err(|error| self.read_error(error))? {
                ScanEvent::Page => {
                    if let Some(document) = self.page() {
                        return Ok(Some(document));
                    }
                }
                ScanEvent::Bad(offset, reason, detail) => {
                    self.report(offset, reason, detail.to_string())
                }
                ScanEvent::SiteInfo => self.read_site(),
                ScanEvent::End => return self.end().map(|()| None),
            }
        }
    }

    fn read_error(&self, error: io::Error) -> Error {
        Error::read_at(&self.file, self.scanner.offset(), error)
    }

    /// A dump is whole if it has ended with `</mediawiki>`.
    fn end(&self) -> Result<()> {
        match self.scanner.unfinished() {
            None => Ok(()),
            Some((within, offset)) => Err(Error::input(format!(
                "{} is cut off: it ends at byte {} within {within}, which starts at byte {offset}; \
                 what came before it was delivered; fetch the file again",
                self.file,
                self.scanner.offset()
            ))),
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
        let page = match parse_page(self.scanner.element()) {
            Ok(page) => page,
            Err((reason, detail)) => {
                self.report(self.scanner.start(), reason, detail);
                return None;
            }
        };
        match page.skip() {
            Some(reason) => {
                self.progress.count_skip(reason);
                None
            }
            None => Some(RawDocument {
                text: page.text,
                input: 0,
                offset: self.scanner.start(),
                site: Some(self.site.clone()),
            }),
        }
    }

    /// Reads the namespaces of the wiki. What cannot be parsed is left out, and is not an error.
    fn read_site(&mut self) {
        let mut site = Site::default();
        if let Ok(text) = std::str::from_utf8(self.scanner.element()) {
            // An error ends the list; what came before it stays.
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
