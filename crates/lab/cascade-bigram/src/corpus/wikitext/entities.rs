//! The named character references of HTML 4, and `&apos;`: those of wikitext.
//!
//! # Why not a crate that exists
//!
//! The kept ones (`html-escape`, `htmlentity`, `htmlize`) decode HTML 5. That is 2,231 names,
//! among them some without a semicolon and some for two characters, and it changed `&lang;` and
//! `&rang;` from U+2329 and U+232A to U+27E8 and U+27E9. Text that was stripped before would come
//! out with other characters, and tables that were counted before could not be counted again.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The character of the reference `&name;`, if there is such a reference.
pub(super) fn named(name: &str) -> Option<char> {
    NAMES.get(name).copied()
}

/// Lines of a name and its code point in hexadecimal.
const LIST: &str = include_str!("entities.tsv");

static NAMES: LazyLock<HashMap<&str, char>> =
    LazyLock::new(|| LIST.lines().filter_map(entry).collect());

fn entry(line: &'static str) -> Option<(&'static str, char)> {
    let (name, code) = line.split_once('\t')?;
    let code = u32::from_str_radix(code, 16).ok()?;
    Some((name, char::from_u32(code)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_reference_of_its_own() {
        assert_eq!(NAMES.len(), LIST.lines().count());
        assert_eq!(named("lang"), Some('\u{2329}'));
        assert_eq!(named("amp"), Some('&'));
        assert_eq!(named("Amp"), None);
    }
}
