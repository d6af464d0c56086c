//! How tables and parts describe their inputs.

use std::path::Path;

use cascade_ngram::Source;

/// Whether an input is standard input, and not the path of a file.
pub(crate) fn is_stdin(input: &Path) -> bool {
    input == Path::new("-")
}

/// Describes an input: `-` is standard input, anything else a file.
pub fn describe(path: &Path) -> Source {
    if is_stdin(path) {
        return Source {
            name: "standard input".to_owned(),
            bytes: None,
            dump_date: None,
        };
    }
    let metadata = std::fs::metadata(path).ok();
    Source {
        name: file_name(path),
        bytes: metadata
            .filter(std::fs::Metadata::is_file)
            .map(|metadata| metadata.len()),
        dump_date: dump_date(path),
    }
}

/// The last part of a path.
fn file_name(path: &Path) -> String {
    match path.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => path.display().to_string(),
    }
}

/// The date of a dump, as Wikimedia names files (`enwiki-20240601-pages-articles.xml.bz2`) and
/// folders (`20240601`), and as Hugging Face names folders (`20231101.en`).
fn dump_date(path: &Path) -> Option<String> {
    let mut parts = path.iter().rev().map(|part| part.to_string_lossy());
    let name = parts.next()?;
    let in_name = name.split(['-', '.', '_']).find_map(date);
    let folder = parts.next();
    in_name.or_else(|| date(folder?.split('.').next()?))
}

/// 20240601 as 2024-06-01.
fn date(text: &str) -> Option<String> {
    if text.len() != 8 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (year, month, day) = (&text[..4], &text[4..6], &text[6..]);
    let fits = ("2001".."2100").contains(&year)
        && ("01"..="12").contains(&month)
        && ("01"..="31").contains(&day);
    fits.then(|| format!("{year}-{month}-{day}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_off_names() {
        for (path, expected) in [
            (
                "x/enwiki-20240601-pages-articles.xml.bz2",
                Some("2024-06-01"),
            ),
            (
                "20231101.en/train-00000-of-00041.parquet",
                Some("2023-11-01"),
            ),
            ("enwiki/20240601/pages.xml", Some("2024-06-01")),
            ("enwiki-latest-pages-articles.xml", None),
            ("enwiki-20241301.xml", None),
            ("p000000010p000030302.xml", None),
            ("-", None),
        ] {
            assert_eq!(dump_date(Path::new(path)).as_deref(), expected, "{path}");
        }
        let source = describe(Path::new("no/such.file"));
        assert_eq!((source.name.as_str(), source.bytes), ("such.file", None));
    }
}
