//! Untrusted text, made safe to display.

use std::borrow::Cow;
use std::fmt::Write;

/// Text of which every character can be seen or is white space.
///
/// Control characters become their pictures (`␀`), and characters that reorder the text around them
/// or are refused by XML become their numbers (`⟨U+202E⟩`). Line feeds and tabs stay. Escaping of
/// markup is left to the writer.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        push_shown(&mut out, c);
    }
    Cow::Owned(out)
}

/// [`shown`], on one line.
pub(crate) fn shown_line(text: &str) -> String {
    shown(text).replace(['\n', '\t'], " ")
}

/// The text in lines of at most so many characters, broken at spaces; a longer word has a line of
/// its own.
pub fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in shown_line(text).split_whitespace() {
        match lines.last_mut() {
            Some(last) if last.chars().count() + 1 + word.chars().count() <= most => {
                *last = format!("{last} {word}");
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn push_shown(out: &mut String, c: char) {
    if is_plain(c) {
        out.push(c);
    } else if let Some(picture) = picture(c) {
        out.push(picture);
    } else {
        // Writing to a string does not fail.
        let _ = write!(out, "⟨U+{:04X}⟩", u32::from(c));
    }
}

fn is_plain(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        // Marks, overrides and isolates of direction; zero width space, line and paragraph
        // separators, byte order mark.
        '\u{61C}' | '\u{200B}' | '\u{200E}' | '\u{200F}' => false,
        '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}' => false,
        '\u{FFFE}' | '\u{FFFF}' => false,
        _ => !c.is_control(),
    }
}

fn picture(c: char) -> Option<char> {
    match c {
        '\0'..='\u{1F}' => char::from_u32(0x2400 + u32::from(c)),
        '\u{7F}' => Some('\u{2421}'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert!(wrapped("", 8).is_empty());
    }

    #[test]
    fn what_cannot_be_seen_is_shown() {
        assert_eq!(shown("a\nb\tc"), "a\nb\tc");
        assert_eq!(shown("\0\r\u{1b}[0m\u{7f}"), "␀␍␛[0m␡");
        assert_eq!(shown("\u{202e}abc\u{85}"), "⟨U+202E⟩abc⟨U+0085⟩");
        assert!(matches!(shown("naïve 猫 👩‍🚀"), Cow::Borrowed(_)));
    }
}
