//! Redirects that are recognisable by their text only, as in dumps from before 2008.

/// The words that make a page a redirect, in lower case, on Wikipedias that have their own
/// beside the English one, one a line.
const WORDS: &str = include_str!("redirects.txt");

/// Whether MediaWiki takes this page for a redirect: its text starts with a hash sign, one of the
/// words for it in the language of the wiki, perhaps a colon, and a link.
///
/// Words that are not in our list are recognised if that line is the whole page.
pub(crate) fn is_redirect(text: &str) -> bool {
    let Some(rest) = text.trim_start().strip_prefix('#') else {
        return false;
    };
    let Some((word, link)) = rest.split_once("[[") else {
        return false;
    };
    let word = word.trim().trim_end_matches(':').trim_end();
    // 40 characters of any script: longer than every word in use.
    if word.is_empty() || word.len() > 160 || word.contains('\n') {
        return false;
    }
    let word = word.to_lowercase();
    let alone = || {
        !word.contains(char::is_whitespace)
            && link.trim_end().strip_suffix("]]").is_some_and(is_one_line)
    };
    WORDS.lines().any(|known| known == word) || alone()
}

fn is_one_line(link: &str) -> bool {
    !link.contains(['[', ']', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_told_from_lists() {
        for text in [
            "#REDIRECT [[A]]",
            "\n #redirect: [[A#b|c]]\n[[Category:D]]",
            "#ПЕРЕНАПРАВЛЕНИЕ [[А]]\n{{R}}",
            "#WEITERLEITUNG[[A]]",
            "#Unheard_of [[A]]",
        ] {
            assert!(is_redirect(text), "{text:?}");
        }
        for text in [
            "# [[A]]",
            "#[[A]]",
            "# see [[A]]\n# see [[B]]",
            "#REDIRECT",
            "text #REDIRECT [[A]]",
            "",
            "#see also [[A]]",
        ] {
            assert!(!is_redirect(text), "{text:?}");
        }
    }
}
