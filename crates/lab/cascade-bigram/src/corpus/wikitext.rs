//! Strips wikitext to the plain text that a reader of the page sees.
//!
//! Templates, tables, references, galleries, files, categories, links to other languages, comments,
//! formulas and tags go, with what they hold. Link texts, emphasised words, headings' words and
//! list items stay, character references become characters, and white space is put in order: one
//! blank line between paragraphs, none at the ends.
//!
//! # Why not a parser that exists
//!
//! `parse-wiki-text-2`, the maintained one, gives up after a time limit of five seconds on 4 kB of
//! `{{`, `{|`, `<ref>` or `[http://a `, and what it gives up on is the whole page. A page that
//! somebody left open must not cost that. This is one pass with an explicit stack instead: text is
//! written to the output as it comes, every construct remembers where its output began, and closing
//! it cuts the output back to there. A construct that is never closed is therefore harmless: its
//! text simply stays, as MediaWiki shows it. Every byte is written once, cut at most once, and
//! looked at a bounded number of times, so the time is linear whatever the markup.
//!
//! # What differs from mwparserfromhell's `strip_code`
//!
//! On purpose: tables, pictures with their captions, categories and links to other languages go (it
//! keeps their text); the marks of lists, words like `__NOTOC__` and addresses without a link text
//! go; source code stays; parentheses that held nothing but templates go; a no-break space becomes
//! a space. That is the words of tables and captions: on the English sample one word in seven of
//! its text.
//!
//! Without these, the words agree (`scripts/compare_wikitext.py`: identical on three of five
//! samples), but for pages with mistakes in their markup. There we follow MediaWiki: a reference
//! ends at the next `</ref>` whatever quotes are open in it, and a table ends at the next `|}`
//! whatever its attributes look like. mwparserfromhell shows such tables as text, or loses the
//! sections up to the end of the next table.
//!
//! Both lose what templates would have shown in the midst of a sentence, such as converted
//! measures.

mod entities;
mod tags;
mod tidy;

use std::ops::Range;

use memchr::memmem;

use self::tags::Tag;
use crate::corpus::site::{Prefix, Site};

/// The reader's text of a page of wikitext, by the names that are known without its wiki's own.
///
/// Never panics, and takes time and memory linear in the length of `source`, whatever it holds.
///
/// ```
/// use cascade_bigram::corpus::wikitext::strip;
///
/// let text = strip("'''Rust''' is a [[programming language|language]].<ref>A book</ref>");
/// assert_eq!(text, "Rust is a language.");
/// ```
pub fn strip(source: &str) -> String {
    strip_with(source, &Site::well_known())
}

/// Like [`strip`], by the names that `site` has for files, categories and languages.
pub(crate) fn strip_with(source: &str, site: &Site) -> String {
    Stripper::new(source, site).run()
}

/// A construct that is open: what it is, and where its output began.
#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: Construct,
    start: usize,
    /// The innermost construct around or at this one that stretches over lines.
    wide: Wide,
}

/// A construct of wikitext that has an end of its own, by what opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Construct {
    /// So many opening braces: a template, or the parameter of one.
    Braces(usize),
    /// `{|`
    Table,
    /// `<table>`
    HtmlTable,
    /// `[[`: dropped when closed, or shown from its first bar on.
    Link { drop: bool, piped: bool },
    /// `[http://…`, the address already gone.
    External,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wide {
    Nothing,
    Braces,
    Table,
    HtmlTable,
}

struct Stripper<'a> {
    source: &'a str,
    bytes: &'a [u8],
    at: usize,
    out: String,
    stack: Vec<Frame>,
    /// Frames of braces and of tables on the stack, to know without a search whether a closing mark
    /// has a partner.
    braces: usize,
    tables: usize,
    /// Nothing of this line has been read but white space and comments.
    fresh: bool,
    /// The equals signs that end the heading of this line.
    heading_end: Range<usize>,
    /// Tags with raw content that no closing tag follows from here on. Keeps the search for them
    /// linear.
    unclosed: Vec<&'static str>,
    site: &'a Site,
}

/// The longest prefix of a link.
const LONGEST_PREFIX: usize = 64;
/// The longest character reference or magic word.
const LONGEST_WORD: usize = 40;

/// The bytes that have a meaning anywhere in a line.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let marks = b"{}[]|<&'_=\n";
    let mut index = 0;
    while index < marks.len() {
        special[marks[index] as usize] = true;
        index += 1;
    }
    special
};

impl<'a> Stripper<'a> {
    fn new(source: &'a str, site: &'a Site) -> Self {
        Self {
            source,
            bytes: source.as_bytes(),
            at: 0,
            out: String::with_capacity(source.len() / 2),
            stack: Vec::new(),
            braces: 0,
            tables: 0,
            fresh: true,
            heading_end: 0..0,
            unclosed: Vec::new(),
            site,
        }
    }

    fn run(mut self) -> String {
        while self.at < self.bytes.len() {
            if self.fresh {
                self.line_start();
            }
            self.plain_run();
            if let Some(&mark) = self.bytes.get(self.at) {
                self.mark(mark);
            }
        }
        let open_table = self
            .stack
            .iter()
            .find(|frame| frame.kind == Construct::Table);
        tidy::tidy(&self.out, open_table.map(|frame| frame.start))
    }

    /// Copies up to the next byte that means something.
    fn plain_run(&mut self) {
        let rest = &self.bytes[self.at..];
        let length = rest
            .iter()
            .position(|&byte| SPECIAL[usize::from(byte)])
            .unwrap_or(rest.len());
        if length > 0 {
            self.copy(length);
            self.fresh = false;
        }
    }

    fn mark(&mut self, mark: u8) {
        let was_fresh = std::mem::replace(&mut self.fresh, false);
        match mark {
            b'\n' => self.newline(),
            b'{' => self.open_braces(),
            b'}' => self.close_braces(),
            b'[' => self.open_bracket(),
            b']' => self.close_bracket(),
            b'|' => self.bar(),
            b'<' => self.angle(was_fresh),
            b'&' => self.reference(),
            b'\'' => self.apostrophes(),
            b'_' => self.magic_word(),
            b'=' if self.heading_end.contains(&self.at) => self.at = self.heading_end.end,
            _ => self.copy(1),
        }
    }

    // Reading and writing.

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn sees(&self, text: &str) -> bool {
        self.bytes[self.at..].starts_with(text.as_bytes())
    }

    /// Copies `length` bytes of the source, which end at the border of a character.
    fn copy(&mut self, length: usize) {
        self.out.push_str(&self.source[self.at..self.at + length]);
        self.at += length;
    }

    /// Length of the run of `byte` at `from`.
    fn run_of(&self, byte: u8, from: usize) -> usize {
        self.bytes[from..]
            .iter()
            .take_while(|&&other| other == byte)
            .count()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(0), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    /// Begins a line of the output, unless one has just begun.
    fn break_line(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }

    // The stack.

    fn top(&self) -> Option<Construct> {
        self.stack.last().map(|frame| frame.kind)
    }

    fn wide(&self) -> Wide {
        self.stack.last().map_or(Wide::Nothing, |frame| frame.wide)
    }

    fn push(&mut self, kind: Construct) {
        self.push_at(kind, self.out.len());
    }

    fn push_at(&mut self, kind: Construct, start: usize) {
        let wide = match kind {
            Construct::Braces(_) => Wide::Braces,
            Construct::Table => Wide::Table,
            Construct::HtmlTable => Wide::HtmlTable,
            Construct::Link { .. } | Construct::External => self.wide(),
        };
        self.braces += usize::from(matches!(kind, Construct::Braces(_)));
        self.tables += usize::from(kind == Construct::Table);
        self.stack.push(Frame { kind, start, wide });
    }

    fn pop(&mut self) -> Option<Frame> {
        let frame = self.stack.pop()?;
        self.braces -= usize::from(matches!(frame.kind, Construct::Braces(_)));
        self.tables -= usize::from(frame.kind == Construct::Table);
        Some(frame)
    }

    /// Closes the innermost frame that `is_it`, and all that was left open within; its output goes.
    fn drop_to(&mut self, is_it: impl Fn(Construct) -> bool) {
        while let Some(frame) = self.pop() {
            if is_it(frame.kind) {
                self.out.truncate(frame.start);
                return;
            }
        }
    }

    // Lines.

    /// What has a meaning only at the start of a line: lists, tables, headings, rules.
    fn line_start(&mut self) {
        self.skip_blanks();
        if self.sees("<!--") {
            return;
        }
        while matches!(self.peek(0), Some(b'*' | b'#' | b':' | b';')) {
            self.at += 1;
            self.skip_blanks();
        }
        match (self.peek(0), self.peek(1)) {
            (Some(b'{'), Some(b'|')) => self.open_table(),
            (Some(b'|'), Some(b'}')) => self.close_table(),
            (Some(b'='), _) => self.heading(),
            (Some(b'-'), Some(b'-')) if self.sees("----") => self.at += self.run_of(b'-', self.at),
            _ => {}
        }
    }

    fn open_table(&mut self) {
        self.push(Construct::Table);
        self.copy(2);
        self.fresh = false;
    }

    /// At `|}`. Where braces are open within the table, `|}}` is their end, after an empty
    /// argument.
    fn close_table(&mut self) {
        let braces_end = self.wide() == Wide::Braces && self.peek(2) == Some(b'}');
        if braces_end || (self.tables == 0 && self.peek(2) == Some(b'}')) {
            return;
        }
        self.at += 2;
        self.fresh = false;
        if self.tables > 0 {
            self.drop_to(|kind| kind == Construct::Table);
        }
    }

    /// At `=`: a heading if the line ends with one, too; comments may follow.
    fn heading(&mut self) {
        let rest = &self.source[self.at..];
        let line = &rest[..memchr::memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len())];
        let line = without_comments(line);
        let leading = line.bytes().take_while(|&byte| byte == b'=').count();
        let trailing = line.bytes().rev().take_while(|&byte| byte == b'=').count();
        let level = leading.min(trailing).min(line.len().saturating_sub(1) / 2);
        if level > 0 {
            let end = self.at + line.len();
            self.heading_end = end - level..end;
            self.at += level;
            self.fresh = false;
        }
    }

    fn newline(&mut self) {
        self.copy(1);
        self.fresh = true;
        let blank = self.out.ends_with("\n\n");
        while let Some(kind) = self.top() {
            match kind {
                // The text of an address ends with its line, that of a link with its paragraph.
                Construct::External => {}
                Construct::Link { drop: false, .. } if blank => {}
                _ => break,
            }
            self.pop();
        }
    }

    // Braces.

    fn open_braces(&mut self) {
        let count = self.run_of(b'{', self.at);
        if count >= 2 {
            self.push(Construct::Braces(count));
        }
        self.copy(count);
    }

    /// Pairs closing braces with open ones as MediaWiki does: three if both sides have three, else
    /// two.
    fn close_braces(&mut self) {
        let mut count = self.run_of(b'}', self.at);
        self.at += count;
        while count >= 2 && self.braces > 0 {
            while !matches!(self.top(), None | Some(Construct::Braces(_))) {
                self.pop();
            }
            let Some(Frame {
                kind: Construct::Braces(open),
                start,
                ..
            }) = self.pop()
            else {
                break;
            };
            let pair = open.min(count).min(3);
            count -= pair;
            self.out.truncate(start + open - pair);
            if open - pair >= 2 {
                self.push_at(Construct::Braces(open - pair), start);
            }
        }
        self.out.extend(std::iter::repeat_n('}', count));
    }

    // Brackets.

    fn open_bracket(&mut self) {
        match (self.peek(1), self.peek(2)) {
            (Some(b'['), Some(b'[')) => self.copy(1),
            (Some(b'['), _) => self.open_link(),
            _ => self.open_external(),
        }
    }

    fn open_link(&mut self) {
        self.at += 2;
        self.skip_blanks();
        let prefix = self.link_prefix();
        let drop = matches!(
            prefix,
            Some(Prefix::File | Prefix::Category | Prefix::Language)
        );
        self.push(Construct::Link { drop, piped: false });
        if self.peek(0) == Some(b':') {
            self.at += 1;
        }
    }

    /// What stands before the colon of the link here; a colon in front makes a plain link of
    /// anything.
    fn link_prefix(&self) -> Option<Prefix> {
        let rest = &self.bytes[self.at..];
        let window = &rest[..rest.len().min(LONGEST_PREFIX)];
        let end = window
            .iter()
            .position(|byte| b":|[]{}<>\n".contains(byte))?;
        if end == 0 || window[end] != b':' {
            return None;
        }
        self.site.prefix(&self.source[self.at..self.at + end])
    }

    fn open_external(&mut self) {
        let address = &self.bytes[self.at + 1..];
        if !is_address(address) {
            self.copy(1);
            return;
        }
        // An address may hold a template; otherwise a brace is the end of the template around it.
        let end = address
            .iter()
            .position(|byte| b" \t\n[]<>\"{}".contains(byte))
            .unwrap_or(address.len());
        let end = match address.get(end) {
            Some(b'{') => address
                .iter()
                .position(|byte| b" \t\n[]<>\"".contains(byte))
                .unwrap_or(address.len()),
            _ => end,
        };
        self.at += 1 + end;
        self.skip_blanks();
        self.push(Construct::External);
    }

    fn close_bracket(&mut self) {
        match (self.top(), self.peek(1)) {
            (Some(Construct::External), _) => {
                self.at += 1;
                self.pop();
            }
            (Some(Construct::Link { drop, .. }), Some(b']')) => {
                self.at += 2;
                let frame = self.pop();
                if let Some(frame) = frame.filter(|_| drop) {
                    self.out.truncate(frame.start);
                }
            }
            _ => self.copy(1),
        }
    }

    /// The bar of a link: what came before it was not its text.
    fn bar(&mut self) {
        match self.stack.last_mut() {
            Some(Frame {
                kind: Construct::Link { drop, piped },
                start,
                ..
            }) if *drop || !*piped => {
                *piped = true;
                self.out.truncate(*start);
                self.at += 1;
            }
            _ => self.copy(1),
        }
    }

    // Tags and comments.

    fn angle(&mut self, was_fresh: bool) {
        if self.sees("<!--") {
            self.comment(was_fresh);
        } else if !self.tag() {
            self.copy(1);
        }
    }

    /// A comment that is never closed hides the rest of the page; one that is alone on its line
    /// takes the line with it.
    fn comment(&mut self, was_fresh: bool) {
        let rest = &self.bytes[self.at..];
        self.at += memmem::find(&rest[4..], b"-->").map_or(rest.len(), |end| 4 + end + 3);
        self.fresh = was_fresh;
        if was_fresh {
            self.skip_blanks();
            if self.peek(0) == Some(b'\n') {
                self.at += 1;
            }
        }
    }

    /// Handles the tag here, or says that there is none.
    fn tag(&mut self) -> bool {
        let closing = self.peek(1) == Some(b'/');
        let name_at = self.at + 1 + usize::from(closing);
        let Some((name, tag)) = tag_at(&self.bytes[name_at..]) else {
            return false;
        };
        let Some(length) = memchr::memchr2(b'>', b'<', &self.bytes[name_at..]) else {
            return false;
        };
        let end = name_at + length;
        if self.bytes[end] != b'>' {
            return false;
        }
        let alone = self.bytes[end - 1] == b'/';
        self.at = end + 1;
        match tag {
            Tag::Inline => {}
            Tag::Block => self.break_line(),
            Tag::Table if closing => self.close_html_table(),
            Tag::Table => self.push(Construct::HtmlTable),
            Tag::Drop | Tag::Raw if closing || alone => {}
            Tag::Drop => drop(self.raw_content(name)),
            Tag::Raw => self.keep_raw(name),
        }
        true
    }

    fn close_html_table(&mut self) {
        if self.wide() == Wide::HtmlTable {
            self.drop_to(|kind| kind == Construct::HtmlTable);
        }
    }

    /// Moves behind the closing tag of the tag that has just been read, and answers what lies
    /// between, if there is one.
    fn raw_content(&mut self, name: &'static str) -> Option<Range<usize>> {
        if self.unclosed.contains(&name) {
            return None;
        }
        let start = self.at;
        let closing = memmem::find_iter(&self.bytes[start..], b"</")
            .map(|offset| start + offset)
            .find(|&place| tag_at(&self.bytes[place + 2..]).is_some_and(|found| found.0 == name));
        let Some(place) = closing else {
            self.unclosed.push(name);
            return None;
        };
        let rest = &self.bytes[place..];
        self.at = place + memchr::memchr(b'>', rest).map_or(rest.len(), |end| end + 1);
        Some(start..place)
    }

    fn keep_raw(&mut self, name: &'static str) {
        let Some(content) = self.raw_content(name) else {
            return;
        };
        let after = std::mem::replace(&mut self.at, content.start);
        while self.at < content.end {
            let rest = &self.bytes[self.at..content.end];
            self.copy(memchr::memchr(b'&', rest).unwrap_or(rest.len()));
            if self.at < content.end {
                self.reference();
            }
        }
        self.at = after.max(self.at);
    }

    // Within a line.

    /// A reference to a character, or an ampersand.
    fn reference(&mut self) {
        let rest = &self.bytes[self.at..];
        let window = &rest[..rest.len().min(LONGEST_WORD)];
        let length = window
            .iter()
            .skip(1)
            .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'#');
        let end = length.map_or(window.len(), |length| length + 1);
        let character = match window.get(end) {
            Some(b';') => character(&self.source[self.at + 1..self.at + end]),
            _ => None,
        };
        match character {
            Some(character) => {
                self.out.push(character);
                self.at += end + 1;
            }
            None => self.copy(1),
        }
    }

    /// Two apostrophes slant, three embolden, five do both; others are apostrophes.
    fn apostrophes(&mut self) {
        let count = self.run_of(b'\'', self.at);
        let shown = match count {
            1 => 1,
            4 => 1,
            2..=5 => 0,
            more => more - 5,
        };
        self.out.push_str(&self.source[self.at..self.at + shown]);
        self.at += count;
    }

    /// `__NOTOC__` and its like, in any language.
    fn magic_word(&mut self) {
        let rest = &self.bytes[self.at..];
        let window = &rest[..rest.len().min(LONGEST_WORD)];
        let is_word = |byte: &u8| byte.is_ascii_uppercase() || !byte.is_ascii();
        let letters = window
            .iter()
            .skip(2)
            .take_while(|byte| is_word(byte))
            .count();
        if window.starts_with(b"__") && letters > 2 && window[2 + letters..].starts_with(b"__") {
            self.at += letters + 4;
        } else {
            let run = self.run_of(b'_', self.at);
            self.copy(run);
        }
    }
}

/// A line without blanks and comments at its end.
fn without_comments(line: &str) -> &str {
    let mut line = line.trim_end();
    while line.ends_with("-->") {
        let Some(start) = line.rfind("<!--") else {
            break;
        };
        line = line[..start].trim_end();
    }
    line
}

fn is_address(text: &[u8]) -> bool {
    const SCHEMES: [&[u8]; 12] = [
        b"http://",
        b"https://",
        b"//",
        b"ftp://",
        b"ftps://",
        b"mailto:",
        b"irc://",
        b"ircs://",
        b"news:",
        b"gopher://",
        b"sftp://",
        b"tel:",
    ];
    SCHEMES.iter().any(|scheme| {
        text.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}

/// The tag whose name begins `text`, after `<` or `</`.
fn tag_at(text: &[u8]) -> Option<(&'static str, Tag)> {
    let length = text
        .iter()
        .take(tags::LONGEST + 1)
        .take_while(|byte| byte.is_ascii_alphanumeric())
        .count();
    let ends = text
        .get(length)
        .is_some_and(|byte| b" \t\n/>".contains(byte));
    if length == 0 || length > tags::LONGEST || !ends {
        return None;
    }
    let mut name = [0; tags::LONGEST];
    for (small, byte) in name.iter_mut().zip(&text[..length]) {
        *small = byte.to_ascii_lowercase();
    }
    tags::lookup(std::str::from_utf8(&name[..length]).ok()?)
}

/// The character that `&name;` refers to. A no-break space is a space to a reader, and to a
/// tokenizer it is not.
fn character(name: &str) -> Option<char> {
    let found = match name.strip_prefix('#') {
        None => entities::named(name),
        Some(number) => match number.strip_prefix(['x', 'X']) {
            Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok(),
            None => number.parse().ok(),
        }
        .and_then(char::from_u32),
    }?;
    match found {
        '\u{a0}' => Some(' '),
        '\n' | '\t' => Some(found),
        control if control.is_control() => None,
        _ => Some(found),
    }
}

#[cfg(test)]
mod tests;
