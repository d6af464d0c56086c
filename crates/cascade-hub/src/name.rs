//! Which texts may be names of the hub, its revisions and its files.

/// Whether a text is an owner or a name of the hub.
pub(crate) fn is_hub_name(part: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    !part.is_empty() && !part.starts_with(['.', '-']) && part.bytes().all(allowed)
}

/// Whether a text may be a branch, a tag or a commit. It becomes a path in the cache.
fn is_revision(text: &str) -> bool {
    is_plain_name(text) && !text.contains(char::is_whitespace)
}

/// Checks what stands after @, if anything does.
pub(crate) fn check_revision(revision: Option<&str>) -> Result<(), &'static str> {
    match revision {
        Some("") => Err("the revision after @ is empty"),
        Some(text) if !is_revision(text) => {
            Err("the revision after @ is not a branch, tag or commit")
        }
        _ => Ok(()),
    }
}

/// Whether a file name from a repository stays inside the folder it is joined to, on every system:
/// parts between slashes, none of them empty, `.` or `..`; no backslash, no drive letter, no
/// control character.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let odd = |c: char| c == '\\' || c.is_control() || (cfg!(windows) && c == ':');
    name.len() <= 1024 && !name.contains(odd) && name.split('/').all(is_plain_part)
}

fn is_plain_part(part: &str) -> bool {
    let drive = matches!(part.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    !drive && !matches!(part, "" | "." | "..") && part.len() <= 255
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside_their_folder() {
        for good in [
            "model-00001-of-00002.safetensors",
            "a/b",
            "odd@name: 1.jsonl",
            "..a/.b",
        ] {
            assert!(is_plain_name(good) || cfg!(windows), "{good}");
        }
        for bad in [
            "",
            "../a",
            "/etc/passwd",
            "a/../../b",
            "..",
            "a/..",
            "./a",
            "a//b",
            "a/",
            "a\\b",
            "..\\a",
            "C:",
            "C:a",
            "a/c:/b",
            "a\0b",
            "a\nb",
            "\u{1b}[2J",
        ] {
            assert!(!is_plain_name(bad), "{bad:?}");
        }
        assert!(!is_plain_name(&"a".repeat(256)));
    }
}
