//! Files of the hub's cache that turn out to be damaged.

use std::path::{Path, PathBuf};

use cascade_models::HubOptions;

/// What errors say of files that are to be had anew.
const DAMAGED: [&str; 4] = ["download it again", "cut off", "damaged", "not JSON"];

/// How to have a damaged file downloaded again, if an error names one that is in the cache of the
/// hub: a hub without digests may have sent it so, and what is in the cache is not asked for again.
pub(crate) fn remedy(error: &str) -> Option<String> {
    remedy_in(error, &HubOptions::from_env().cache)
}

fn remedy_in(error: &str, cache: &Path) -> Option<String> {
    if !DAMAGED.iter().any(|word| error.contains(word)) {
        return None;
    }
    let named = file_in(error, cache)?;
    // Its name is a link to its content.
    let content = named.canonicalize().ok().filter(|path| *path != named);
    let files: Vec<_> = [Some(named), content]
        .into_iter()
        .flatten()
        .map(|file| format!("'{}'", file.display()))
        .collect();
    Some(format!(
        "the file is in the cache of the hub; to have it downloaded again, delete it: rm {}",
        files.join(" ")
    ))
}

/// The longest path in a message that is a file in a folder.
fn file_in(message: &str, folder: &Path) -> Option<PathBuf> {
    let start = message.find(folder.to_str().filter(|folder| !folder.is_empty())?)?;
    let rest = &message[start..];
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    let mut paths = ends.rev().map(|end| PathBuf::from(&rest[..end]));
    paths.find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_cache_can_be_had_again() {
        let cache = tempfile::tempdir().unwrap();
        let file = cache
            .path()
            .join("models--a--b/snapshots/main/model.safetensors");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "half").unwrap();
        let damaged = format!(
            "{} is 4 bytes long but its header describes 9; it was cut off or damaged",
            file.display()
        );
        let found = remedy_in(&damaged, cache.path()).unwrap();
        assert!(
            found.contains("rm '") && found.contains("model.safetensors'"),
            "{found}"
        );
        let other = format!("{}: there is no key a", file.display());
        assert_eq!(remedy_in(&other, cache.path()), None);
        assert_eq!(remedy_in(&damaged, Path::new("/nonexistent/hf")), None);
    }
}
