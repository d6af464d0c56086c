//! One page or site description, parsed as XML.

use memchr::memchr;
use quick_xml::events::{BytesRef, Event};

use crate::corpus::progress::Skip;
use crate::corpus::site::Site;

/// What matters of a page.
#[derive(Debug, Default)]
pub(super) struct Page {
    namespace: Option<String>,
    model: Option<String>,
    pub(super) text: String,
    redirect: bool,
}

impl Page {
    /// Why the page is skipped, if it is.
    pub(super) fn skip(&self) -> Option<Skip> {
        let is = |field: &Option<String>, expected| {
            let found = field.as_deref();
            found.is_none_or(|found| found.trim() == expected)
        };
        if !is(&self.namespace, "0") {
            Some(Skip::Namespace)
        } else if self.redirect {
            Some(Skip::Redirect)
        } else if !is(&self.model, "wikitext") {
            Some(Skip::NotWikitext)
        } else if self.text.trim().is_empty() {
            Some(Skip::NoText)
        } else {
            None
        }
    }

    /// The field that holds the text of this element, `depth` elements down, the page being the
    /// first.
    fn field(&mut self, name: &str, depth: usize) -> Option<&mut String> {
        match (depth, name) {
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

/// Why a page is skipped, and what exactly is wrong.
type Bad = (Skip, String);

fn malformed(error: impl std::fmt::Display) -> Bad {
    (Skip::Malformed, error.to_string())
}

/// Parses one `<page>…</page>`.
pub(super) fn parse_page(bytes: &[u8]) -> std::result::Result<Page, Bad> {
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

/// The character of a reference. XML has five names; those that a document type declares are not
/// expanded.
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

/// Adds the namespaces of a `<siteinfo>` to a site, up to what cannot be parsed.
pub(super) fn parse_namespaces(text: &str, site: &mut Site) -> std::result::Result<(), Bad> {
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

    #[test]
    fn a_page_is_parsed() {
        let page = parse_page(
            b"<page><title>A &amp; B</title><ns>0</ns><id>1</id><revision><id>2</id><model>wikitext</model>\
              <contributor><title>no</title></contributor><text xml:space=\"preserve\">a\r\n&lt;b&gt; &#233;<![CDATA[<&]]></text>\
              </revision></page>",
        )
        .unwrap();
        assert_eq!(page.text, "a\n<b> é<&");
        assert_eq!(page.skip(), None);
    }

    #[test]
    fn bad_pages_say_why() {
        let reason = |bytes: &[u8]| parse_page(bytes).unwrap_err().0;
        assert_eq!(reason(b"<page><title>a</titel></page>"), Skip::Malformed);
        assert_eq!(reason(b"<page><ns>0<b/></ns></page>"), Skip::Malformed);
        assert_eq!(reason(b"<page><title>a</title>"), Skip::Malformed);
        assert_eq!(reason(b"<page><title>&lol9;</title></page>"), Skip::Entity);
        assert_eq!(reason(b"<page>&#xD800;</page>"), Skip::Entity);
        assert_eq!(reason(b"<page>\xff</page>"), Skip::InvalidText);
    }

    #[test]
    fn pages_are_skipped_for_what_they_are() {
        let page = |namespace: Option<&str>, model: Option<&str>, text: &str, redirect| Page {
            namespace: namespace.map(str::to_owned),
            model: model.map(str::to_owned),
            text: text.to_owned(),
            redirect,
        };
        for (page, expected) in [
            (page(None, None, "a", false), None),
            (page(Some("0"), Some("wikitext"), "a", false), None),
            (page(Some("1"), None, "a", false), Some(Skip::Namespace)),
            (page(Some("0"), None, "a", true), Some(Skip::Redirect)),
            (
                page(None, Some("json"), "a", false),
                Some(Skip::NotWikitext),
            ),
            (page(None, None, " \n", false), Some(Skip::NoText)),
        ] {
            assert_eq!(page.skip(), expected);
        }
    }
}
