//! The tags of HTML and of MediaWiki's extensions that may occur in wikitext, and what a reader
//! sees of them.

/// How a tag is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// The tag is removed, its content stays in the line: `<b>`.
    Inline,
    /// The tag is removed, its content stays on lines of its own: `<div>`.
    Block,
    /// An HTML table: removed with its content.
    Table,
    /// Removed with its content, which is not wikitext of the page: `<ref>`, `<math>`.
    Drop,
    /// The tag is removed, its content stays as it is, whatever markup it seems to hold:
    /// `<nowiki>`.
    Raw,
}

/// The longest name below.
pub(super) const LONGEST: usize = 20;

/// Number of entries, and so of possible places.
pub(super) const COUNT: usize = TAGS.len();

/// The tag of a name in small letters, with its place in the list.
pub(super) fn lookup(name: &str) -> Option<(usize, Tag)> {
    let index = TAGS.binary_search_by_key(&name, |entry| entry.0).ok()?;
    TAGS.get(index).map(|entry| (index, entry.1))
}

use Tag::{Block, Drop, Inline, Raw, Table};

/// Sorted by name. A name that is not here is text: "<someone@example.org>".
const TAGS: [(&str, Tag); 101] = [
    ("a", Inline),
    ("abbr", Inline),
    ("b", Inline),
    ("bdi", Inline),
    ("bdo", Inline),
    ("big", Inline),
    ("blockquote", Block),
    ("br", Block),
    ("caption", Block),
    ("categorytree", Drop),
    ("ce", Drop),
    ("center", Block),
    ("charinsert", Drop),
    ("chem", Drop),
    ("cite", Inline),
    ("code", Inline),
    ("data", Inline),
    ("dd", Block),
    ("del", Inline),
    ("dfn", Inline),
    ("div", Block),
    ("dl", Block),
    ("dt", Block),
    ("dynamicpagelist", Drop),
    ("em", Inline),
    ("font", Inline),
    ("gallery", Drop),
    ("graph", Drop),
    ("h1", Block),
    ("h2", Block),
    ("h3", Block),
    ("h4", Block),
    ("h5", Block),
    ("h6", Block),
    ("hiero", Drop),
    ("hr", Block),
    ("i", Inline),
    ("imagemap", Drop),
    ("img", Inline),
    ("includeonly", Drop),
    ("indicator", Drop),
    ("inputbox", Drop),
    ("ins", Inline),
    ("kbd", Inline),
    ("languages", Inline),
    ("li", Block),
    ("mapframe", Drop),
    ("maplink", Drop),
    ("mark", Inline),
    ("math", Drop),
    ("nobr", Inline),
    ("noinclude", Inline),
    ("nowiki", Raw),
    ("ol", Block),
    ("onlyinclude", Inline),
    ("p", Block),
    ("phonos", Drop),
    ("poem", Block),
    ("pre", Raw),
    ("q", Inline),
    ("rb", Inline),
    ("rbc", Inline),
    ("ref", Drop),
    ("references", Drop),
    ("rp", Inline),
    ("rss", Drop),
    ("rt", Inline),
    ("rtc", Inline),
    ("ruby", Inline),
    ("s", Inline),
    ("samp", Inline),
    ("score", Drop),
    ("script", Drop),
    ("section", Inline),
    ("small", Inline),
    ("source", Raw),
    ("span", Inline),
    ("strike", Inline),
    ("strong", Inline),
    ("style", Drop),
    ("sub", Inline),
    ("sup", Inline),
    ("syntaxhighlight", Raw),
    ("table", Table),
    ("tbody", Block),
    ("td", Block),
    ("templatedata", Drop),
    ("templatestyles", Drop),
    ("tfoot", Block),
    ("th", Block),
    ("thead", Block),
    ("time", Inline),
    ("timeline", Drop),
    ("tr", Block),
    ("translate", Inline),
    ("tt", Inline),
    ("tvar", Inline),
    ("u", Inline),
    ("ul", Block),
    ("var", Inline),
    ("wbr", Inline),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_no_name_is_too_long() {
        assert!(TAGS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(TAGS.iter().all(|entry| entry.0.len() <= LONGEST));
        assert_eq!(lookup("br").map(|found| found.1), Some(Block));
        assert_eq!(lookup("someone"), None);
    }
}
