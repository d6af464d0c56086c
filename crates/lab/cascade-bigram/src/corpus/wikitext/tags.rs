//! The tags of HTML and of MediaWiki's extensions that may occur in wikitext, and what a reader
//! sees of them.

use std::collections::HashMap;
use std::sync::LazyLock;

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

/// The tag of a name in small letters, with that name.
pub(super) fn lookup(name: &str) -> Option<(&'static str, Tag)> {
    TAGS.get_key_value(name).map(|(&name, &tag)| (name, tag))
}

static TAGS: LazyLock<HashMap<&str, Tag>> = LazyLock::new(|| {
    let groups = [
        (INLINE, Tag::Inline),
        (BLOCK, Tag::Block),
        ("table", Tag::Table),
        (DROP, Tag::Drop),
        (RAW, Tag::Raw),
    ];
    let names = |(names, tag): (&'static str, Tag)| names.split(' ').map(move |name| (name, tag));
    groups.into_iter().flat_map(names).collect()
});

// A name that is not here is text: "<someone@example.org>".

const INLINE: &str = "a abbr b bdi bdo big cite code data del dfn em font i img ins kbd languages mark nobr \
     noinclude onlyinclude q rb rbc rp rt rtc ruby s samp section small span strike strong \
     sub sup time translate tt tvar u var wbr";

const BLOCK: &str = "blockquote br caption center dd div dl dt h1 h2 h3 h4 h5 h6 hr li ol p poem tbody td \
     tfoot th thead tr ul";

const DROP: &str = "categorytree ce charinsert chem dynamicpagelist gallery graph hiero imagemap includeonly \
     indicator inputbox mapframe maplink math phonos ref references rss score script style \
     templatedata templatestyles timeline";

const RAW: &str = "nowiki pre source syntaxhighlight";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_listed_once_and_none_is_too_long() {
        let listed = [INLINE, BLOCK, DROP, RAW].map(|names| names.split(' ').count());
        assert_eq!(TAGS.len(), 1 + listed.iter().sum::<usize>());
        assert!(TAGS.keys().all(|name| name.len() <= LONGEST));
        assert_eq!(lookup("br"), Some(("br", Tag::Block)));
        assert_eq!(lookup("someone"), None);
    }
}
