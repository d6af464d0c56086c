//! Which files of a repository are which split.
//!
//! The names are what datasets libraries and the hub itself give:
//! `main/test-00000-of-00002.parquet`, with or without a hash after the numbers, and
//! `main/test/0000.parquet` in the hub's own export. Both are shards of the split `main/test`.

use glob::{MatchOptions, Pattern};

use crate::{Error, ErrorKind, Result};

/// A Parquet file.
struct Shard<'a> {
    split: &'a str,
    /// How many there are of the split, if the name says so.
    of: Option<usize>,
}

impl<'a> Shard<'a> {
    fn of(name: &'a str) -> Option<Self> {
        let path = name.strip_suffix(".parquet")?;
        if let Some((split, of)) = numbered(path) {
            return Some(Self {
                split,
                of: Some(of),
            });
        }
        let split = match path.rsplit_once('/') {
            Some((folder, number)) if is_number(number) => folder,
            _ => path,
        };
        Some(Self { split, of: None })
    }
}

/// `main/test` and 2 of `main/test-00000-of-00002-0123456789abcdef`.
fn numbered(path: &str) -> Option<(&str, usize)> {
    let (head, tail) = path.rsplit_once("-of-")?;
    let (split, number) = head.rsplit_once('-')?;
    let of = tail.split('-').next()?.parse().ok()?;
    is_number(number).then_some((split, of))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// The files of `repo`, which has files of these `names`, that are wanted: a split, a file, a
/// pattern, or the only split.
pub(super) fn choose<'a>(
    repo: &str,
    names: &'a [String],
    wanted: Option<&str>,
) -> Result<Vec<&'a str>> {
    let splits = splits(names);
    let split = match (wanted, splits.as_slice()) {
        (Some(wanted), _) => wanted,
        (None, [only]) => only,
        (None, _) => {
            let message = format!(
                "{repo} has not one split in Parquet files, but {}; name a split or a file: hub:org/name/SPLIT",
                listed(&splits)
            );
            return Err(Error::new(ErrorKind::Missing, message));
        }
    };
    let shards: Vec<_> = names
        .iter()
        .filter_map(|name| Some((name.as_str(), Shard::of(name)?)))
        .filter(|(_, shard)| shard.split == split)
        .collect();
    let files: Vec<_> = shards.iter().map(|(name, _)| *name).collect();
    match shards.iter().find_map(|(_, shard)| shard.of) {
        Some(expected) if expected != files.len() => {
            let found = files.len();
            let message = format!(
                "{repo} has {found} of the {expected} shards of {split}; if this is a cache without the hub, unset \
                 HF_HUB_OFFLINE once to download the others, or name the files to take: hub:org/name/FILE"
            );
            Err(Error::new(ErrorKind::Missing, message))
        }
        _ if files.is_empty() => matching(repo, names, split, &splits),
        _ => Ok(files),
    }
}

/// The files that a pattern, or a name, fits.
fn matching<'a>(
    repo: &str,
    names: &'a [String],
    wanted: &str,
    splits: &[String],
) -> Result<Vec<&'a str>> {
    let options = MatchOptions {
        require_literal_separator: true,
        ..MatchOptions::new()
    };
    let pattern = Pattern::new(wanted).ok();
    let fits = |name: &&str| {
        name == &wanted
            || pattern
                .as_ref()
                .is_some_and(|p| p.matches_with(name, options))
    };
    let files: Vec<_> = names.iter().map(String::as_str).filter(fits).collect();
    if files.is_empty() {
        let message = format!(
            "{repo} has no {wanted}; it has {}; give one of these: hub:org/name/SPLIT, or a file's name",
            listed(&near(wanted, splits))
        );
        return Err(Error::new(ErrorKind::Missing, message));
    }
    Ok(files)
}

/// Names in one line, of which some are enough to see how the others go on.
fn listed(names: &[String]) -> String {
    const LISTED: usize = 20;
    match names.len() {
        0 => "no Parquet files".to_owned(),
        n if n > LISTED => format!("{} and {} more", names[..LISTED].join(", "), n - LISTED),
        _ => names.join(", "),
    }
}

/// Splits of the configuration that is wanted, or all if it has none.
fn near(wanted: &str, splits: &[String]) -> Vec<String> {
    let folder = wanted.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside = |split: &&String| split.rsplit_once('/').is_some_and(|(f, _)| f == folder);
    let near: Vec<_> = splits.iter().filter(beside).cloned().collect();
    if near.is_empty() {
        splits.to_vec()
    } else {
        near
    }
}

fn splits(names: &[String]) -> Vec<String> {
    let shards = names.iter().filter_map(|name| Shard::of(name));
    let mut splits: Vec<_> = shards.map(|shard| shard.split.to_owned()).collect();
    splits.sort();
    splits.dedup();
    splits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[track_caller]
    fn assert_chosen(files: &[&str], wanted: Option<&str>, chosen: &[&str]) {
        assert_eq!(choose("repo", &names(files), wanted).unwrap(), chosen);
    }

    #[test]
    fn a_split_is_all_of_its_shards() {
        let files = [
            "README.md",
            "all/test-00000-of-00002.parquet",
            "all/test-00001-of-00002.parquet",
            "all/test_hard-00000-of-00001.parquet",
            "best-of-n/test-00000-of-00001-a09b74b3ef9c3b56.parquet",
            "export/test/0000.parquet",
            "export/test/0001.parquet",
            "export/train/0000.parquet",
            "plain.parquet",
        ];
        assert_chosen(&files, Some("all/test"), &files[1..3]);
        assert_chosen(&files, Some("best-of-n/test"), &files[4..5]);
        assert_chosen(&files, Some("export/test"), &files[5..7]);
        assert_chosen(&files, Some("plain"), &files[8..]);
        // Files, whatever they are, and patterns.
        assert_chosen(&files, Some("README.md"), &files[..1]);
        assert_chosen(
            &files,
            Some("all/test-00001-of-00002.parquet"),
            &files[2..3],
        );
        assert_chosen(&files, Some("all/test-*.parquet"), &files[1..3]);
        assert_chosen(&files, Some("*/test/*.parquet"), &files[5..7]);
    }

    #[test]
    fn the_only_split_need_not_be_named() {
        let files = [
            "data/train-00000-of-00001-a09b.parquet",
            "raw/question.jsonl",
        ];
        assert_chosen(&files, None, &files[..1]);
        let several = names(&["a/test.parquet", "a/train.parquet"]);
        let message = choose("repo", &several, None).unwrap_err().to_string();
        assert!(message.contains("a/test, a/train"), "{message}");
        let none = choose("repo", &names(&["README.md"]), None).unwrap_err();
        assert!(none.to_string().contains("no Parquet files"), "{none}");
    }

    #[test]
    fn hints_are_of_the_same_configuration() {
        let files: Vec<_> = (0..50).map(|i| format!("s{i:02}/test.parquet")).collect();
        let hint = |wanted| {
            choose("repo", &files, Some(wanted))
                .unwrap_err()
                .to_string()
        };
        assert!(
            hint("s07/tset").contains("it has s07/test;"),
            "{}",
            hint("s07/tset")
        );
        assert!(hint("[").contains("s19/test and 30 more"), "{}", hint("["));
    }

    #[test]
    fn a_shard_that_is_missing_is_missed() {
        let files = names(&["all/test-00001-of-00002.parquet"]);
        let message = choose("repo", &files, Some("all/test"))
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("has 1 of the 2 shards of all/test"),
            "{message}"
        );
    }
}
