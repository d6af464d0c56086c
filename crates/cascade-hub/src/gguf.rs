//! Models in one file, or in parts beside each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
    fn parts_are_named_by_the_first() {
        assert_eq!(first_part("m-Q4-00001-of-00003"), Some(("m-Q4", 3)));
        for other in ["m", "m-00002-of-00003", "m-00001-of-3", "m-00001-of-00000"] {
            assert_eq!(first_part(other), None, "{other}");
        }
    }
}
