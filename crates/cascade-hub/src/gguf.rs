//! Models in one file, or in parts beside each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::file_source::FileSource;
use crate::files::is_gguf;
use crate::{Error, ErrorKind, ModelFile, ModelFiles, Result, TokenizerFiles, WeightFormat};

/// Parts of one model at most: their number has five digits.
const MOST_PARTS: usize = 99_999;

/// The tokenizer of a file: it is inside, in the first part if there are several.
pub(crate) fn tokenizer(path: &Path) -> TokenizerFiles {
    TokenizerFiles::Gguf(ModelFile::Disk(path.to_owned()))
}

/// The files of the model in a file, with `tokenizer` in place of its own if there is one.
pub(crate) fn files(
    name: String,
    tokenizer: Option<TokenizerFiles>,
    path: &Path,
) -> Result<ModelFiles> {
    Ok(ModelFiles {
        name,
        config: ModelFile::Disk(path.to_owned()),
        generation_config: None,
        tokenizer: tokenizer.unwrap_or_else(|| self::tokenizer(path)),
        weight_format: WeightFormat::Gguf,
        weights: parts(path)?.into_iter().map(ModelFile::Disk).collect(),
        weight_map: BTreeMap::new(),
    })
}

/// What is in the names of GGUF files that are no models of their own.
const OTHERS: [&str; 3] = ["mmproj", "imatrix", "mtp-"];

/// The first part, or the whole, of the model of a repository that a tag names.
pub(crate) fn first(place: &mut FileSource<'_>, tag: &str) -> Result<PathBuf> {
    let names = place.listing()?;
    let chosen = chosen(&names, tag).ok_or_else(|| {
        let there =
            offered(&names).map_or_else(String::new, |there| format!("; there are {there}"));
        let message = format!("{place} has no GGUF model {tag}{there}");
        Error::new(ErrorKind::Missing, message)
    })?;
    fetched(place, chosen)
}

/// As [`first`], with all other parts beside it.
pub(crate) fn whole(place: &mut FileSource<'_>, tag: &str) -> Result<PathBuf> {
    let first = first(place, tag)?;
    let names = place.listing()?;
    let Some((name, part)) = chosen(&names, tag).and_then(|name| Some((name, numbered(name)?)))
    else {
        return Ok(first);
    };
    for number in 2..=part.1 {
        let of = format!("-of-{:05}", part.1);
        let other = name.replacen(&format!("-00001{of}"), &format!("-{number:05}{of}"), 1);
        fetched(place, &other)?;
    }
    Ok(first)
}

/// The error of a repository without a model in the layout of Hugging Face: it may have GGUF files.
pub(crate) fn unnamed(place: &FileSource<'_>, error: Error) -> Error {
    let is_missing = error.kind() == ErrorKind::Missing && matches!(place, FileSource::Hub(_));
    let offered = is_missing.then(|| offered(&place.names())).flatten();
    let Some(there) = offered else {
        return error;
    };
    let name = place.python_name();
    let message = format!(
        "{place} is a repository of GGUF files: name one after a colon, as in {name}:Q4_K_M; there are {there}"
    );
    Error::new(ErrorKind::Missing, message)
}

fn fetched(place: &mut FileSource<'_>, name: &str) -> Result<PathBuf> {
    match place.find(name)? {
        Some(ModelFile::Disk(path)) => Ok(path),
        _ => Err(place.unknown(name).unwrap_or_else(|| {
            let message = format!("{place} does not have {name}, which it lists");
            Error::new(ErrorKind::Missing, message)
        })),
    }
}

/// The models among the files of a repository, by their first parts.
fn models(names: &[String]) -> impl Iterator<Item = &str> {
    let is_model = |name: &&str| {
        let file = name.rsplit('/').next().unwrap_or(name).to_lowercase();
        let is_part = file.contains("-of-") && numbered(name).is_none();
        is_gguf(Path::new(name)) && !is_part && !OTHERS.iter().any(|other| file.contains(other))
    };
    names.iter().map(String::as_str).filter(is_model)
}

/// The model whose name is a tag or ends with it, whatever the case of its letters; of several, the
/// one with the shortest name.
fn chosen<'n>(names: &'n [String], tag: &str) -> Option<&'n str> {
    let tag = tag.to_lowercase();
    let named = |name: &&str| {
        let (whole, stem) = (name.to_lowercase(), stem(name).to_lowercase());
        let before = stem.strip_suffix(&tag);
        whole == tag
            || whole.ends_with(&format!("/{tag}"))
            || before.is_some_and(|before| before.is_empty() || before.ends_with(['-', '.', '_']))
    };
    models(names).filter(named).min_by_key(|name| name.len())
}

/// The tags of a repository's models, or their names where tags do not tell them apart; `None` if
/// there are no models.
fn offered(names: &[String]) -> Option<String> {
    let tag = |name: &str| {
        let stem = stem(name);
        let at = stem.rfind(['-', '.']).map_or(0, |at| at + 1);
        let only = |tag: &&str| chosen(names, tag) == Some(name);
        let tag = Some(&stem[at..]).filter(only);
        tag.map_or_else(|| name.to_owned(), str::to_owned)
    };
    let tags: Vec<String> = models(names).map(tag).collect();
    (!tags.is_empty()).then(|| tags.join(", "))
}

/// The name of a model's file without its folder, its ending and its number.
fn stem(name: &str) -> &str {
    let file = name.rsplit('/').next().unwrap_or(name);
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    first_part(stem).map_or(stem, |(name, _)| name)
}

/// Name and number of parts, if a file is the first of several.
fn numbered(name: &str) -> Option<(&str, usize)> {
    first_part(name.rsplit_once('.')?.0)
}

/// All parts of the model whose first is `path`; the file alone if it is not called like one.
fn parts(path: &Path) -> Result<Vec<PathBuf>> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let Some((name, count)) = stem.and_then(first_part) else {
        return Ok(vec![path.to_owned()]);
    };
    let extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or("gguf");
    let part = |number: usize| {
        path.with_file_name(format!("{name}-{number:05}-of-{count:05}.{extension}"))
    };
    let check = |part: PathBuf| {
        if part.is_file() {
            Ok(part)
        } else {
            let message = format!(
                "{} is the first of {count} parts, and {} is not beside it; copy or download that file too",
                path.display(),
                part.display()
            );
            Err(Error::new(ErrorKind::Missing, message))
        }
    };
    (1..=count).map(part).map(check).collect()
}

/// Name and number of parts in `NAME-00001-of-0000N`.
fn first_part(stem: &str) -> Option<(&str, usize)> {
    let (rest, count) = stem.rsplit_once("-of-")?;
    let name = rest.strip_suffix("-00001")?;
    let digits = count.len() == 5 && count.bytes().all(|byte| byte.is_ascii_digit());
    let count = count.parse().ok().filter(|_| digits)?;
    (1..=MOST_PARTS).contains(&count).then_some((name, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_a_repository_go_by_their_tags() {
        let names = [
            "README.md",
            "imatrix_m.gguf",
            "m-Q4_K_M.gguf",
            "m-UD-Q4_K_M.gguf",
            "m.Q8_0.GGUF",
            "mmproj-m-f16.gguf",
            "BF16/m-BF16-00001-of-00002.gguf",
            "BF16/m-BF16-00002-of-00002.gguf",
        ]
        .map(str::to_owned);
        for (tag, found) in [
            ("Q4_K_M", Some("m-Q4_K_M.gguf")),
            ("q4_k_m", Some("m-Q4_K_M.gguf")),
            ("ud-q4_k_m", Some("m-UD-Q4_K_M.gguf")),
            ("Q8_0", Some("m.Q8_0.GGUF")),
            ("bf16", Some("BF16/m-BF16-00001-of-00002.gguf")),
            ("m-Q4_K_M.gguf", Some("m-Q4_K_M.gguf")),
            ("f16", None),
            ("K_M", Some("m-Q4_K_M.gguf")),
            ("Q5_0", None),
        ] {
            assert_eq!(chosen(&names, tag), found, "{tag}");
        }
        let offered = offered(&names).unwrap();
        assert_eq!(offered, "Q4_K_M, m-UD-Q4_K_M.gguf, Q8_0, BF16");
        assert_eq!(super::offered(&["a.bin".to_owned()]), None);
    }

    #[test]
    fn parts_are_named_by_the_first() {
        assert_eq!(first_part("m-Q4-00001-of-00003"), Some(("m-Q4", 3)));
        for other in ["m", "m-00002-of-00003", "m-00001-of-3", "m-00001-of-00000"] {
            assert_eq!(first_part(other), None, "{other}");
        }
    }
}
