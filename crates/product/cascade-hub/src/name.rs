//! Which texts may be names of the hub, its revisions and its files.

use std::path::Path;

/// Whether a text is an owner or a name of the hub.
pub(crate) fn is_hub_name(part: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    !part.is_empty() && !part.starts_with(['.', '-']) && part.bytes().all(allowed)
}

/// Whether a text may be a branch, a tag or a commit. It becomes a path in the cache.
pub(crate) fn is_revision(text: &str) -> bool {
    is_plain_name(text) && !text.contains(char::is_whitespace)
}

/// Whether a file name from a repository stays inside the folder it is joined to.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    !name.is_empty() && parts.all(|part| matches!(part, std::path::Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside_their_folder() {
        assert!(is_plain_name("model-00001-of-00002.safetensors") && is_plain_name("a/b"));
        for bad in ["", "../a", "/etc/passwd", "a/../../b"] {
            assert!(!is_plain_name(bad), "{bad}");
        }
    }
}
