//! Files of every format, whole and broken, as a user would give them.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cascade_bigram::Result;
use cascade_bigram::corpus::{Corpus, Options, Progress, RawDocument, Skip};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use tempfile::TempDir;

/// The results of reading some files, and the counters.
struct Reading {
    results: Vec<Result<RawDocument>>,
    progress: Arc<Progress>,
}

impl Reading {
    fn of(paths: &[&Path], limit_pages: Option<u64>) -> Self {
        let options = Options {
            limit_pages,
            threads: NonZeroUsize::new(2).unwrap(),
        };
        let corpus = Corpus::open(paths.iter().copied(), options).unwrap();
        let progress = corpus.progress();
        // More results than any file here has mean that an iterator does not end.
        Self {
            results: corpus.take(100_000).collect(),
            progress,
        }
    }

    fn documents(&self) -> Vec<&RawDocument> {
        self.results
            .iter()
            .filter_map(|result| result.as_ref().ok())
            .collect()
    }

    fn texts(&self) -> Vec<String> {
        self.documents()
            .into_iter()
            .map(|document| document.clone().into_text())
            .collect()
    }

    fn errors(&self) -> Vec<String> {
        self.results
            .iter()
            .filter_map(|result| result.as_ref().err())
            .map(ToString::to_string)
            .collect()
    }

    /// The one error of the file, which says this.
    fn says(&self, part: &str) {
        match &self.errors()[..] {
            [error] => assert!(error.contains(part), "{part}: {error}"),
            others => panic!("{part}: {others:?}"),
        }
    }
}

/// A folder for the files of one test.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn read(&self, bytes: impl AsRef<[u8]>) -> Reading {
        Reading::of(&[&self.file("input", bytes)], None)
    }
}

fn page(title: &str, ns: &str, text: &str) -> String {
    format!(
        "  <page>\n    <title>{title}</title>\n    {ns}\n    <id>1</id>\n    <revision>\n      <id>2</id>\n      \
         <model>wikitext</model>\n      <text xml:space=\"preserve\">{text}</text>\n    </revision>\n  </page>\n"
    )
}

const START: &str = "<mediawiki version=\"0.10\">\n  <siteinfo>\n    <sitename>Вики</sitename>\n    <namespaces>\n      \
    <namespace key=\"0\" case=\"first-letter\" />\n      <namespace key=\"1\" case=\"first-letter\">Беседа</namespace>\n      \
    <namespace key=\"14\" case=\"first-letter\">Kategoreja</namespace>\n    </namespaces>\n  </siteinfo>\n";
const MAIN: &str = "<ns>0</ns>";

fn dump(pages: &[String]) -> String {
    format!("{START}{}</mediawiki>\n", pages.concat())
}

fn small_dump() -> String {
    dump(&[
        page(
            "Първа",
            MAIN,
            "'''Първа''' &lt;ref&gt;x&lt;/ref&gt; [[страница]].[[Kategoreja:X]]",
        ),
        page("Беседа:Първа", "<ns>1</ns>", "talk"),
        page(
            "Moved",
            "<ns>0</ns>\n<redirect title=\"Първа\" />",
            "#REDIRECT [[Първа]]",
        ),
        page(
            "Second &amp; last",
            MAIN,
            "{{Infobox}}Second &amp;amp; last",
        ),
    ])
}

const SMALL_TEXTS: [&str; 2] = ["Първа страница.", "Second & last"];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Compresses the thirds of a text one by one: several members, frames or streams.
fn in_parts(text: &str, compress: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    text.as_bytes()
        .chunks(text.len() / 3)
        .flat_map(compress)
        .collect()
}

#[test]
fn a_dump_gives_its_articles() {
    let reading = Folder::new().read(small_dump());
    assert_eq!(reading.texts(), SMALL_TEXTS);
    let document = reading.documents()[0];
    assert_eq!(document.input, 0);
    assert_eq!(document.offset, small_dump().find("<page>").unwrap() as u64);
    let progress = &reading.progress;
    assert_eq!((progress.pages(), progress.documents()), (4, 2));
    assert_eq!(
        (
            progress.skipped(Skip::Namespace),
            progress.skipped(Skip::Redirect)
        ),
        (1, 1)
    );
    assert_eq!(progress.bytes_total(), Some(small_dump().len() as u64));
    assert_eq!(progress.bytes_read(), small_dump().len() as u64);
}

#[test]
fn every_compression_gives_the_same() {
    let folder = Folder::new();
    let text = small_dump();
    let variants: Vec<Vec<u8>> = vec![
        format!("\u{feff}{text}").into_bytes(),
        format!(
            "<?xml version=\"1.0\"?>\n<!DOCTYPE mediawiki [<!ENTITY a \"]>\">]>\n<!-- c -->{text}"
        )
        .into_bytes(),
        gzip(text.as_bytes()),
        in_parts(&text, gzip),
        in_parts(&text, zstd),
        in_parts(&text, bzip2),
        gzip(&zstd(&bzip2(text.as_bytes()))),
    ];
    for (index, bytes) in variants.iter().enumerate() {
        let reading = folder.read(bytes);
        assert_eq!(
            reading.texts(),
            SMALL_TEXTS,
            "variant {index}: {:?}",
            reading.errors()
        );
        assert!(
            reading.errors().is_empty(),
            "variant {index}: {:?}",
            reading.errors()
        );
        assert_eq!(
            reading.progress.bytes_read(),
            bytes.len() as u64,
            "variant {index}"
        );
    }
}

#[test]
fn inputs_of_all_kinds_mix() {
    let folder = Folder::new();
    let paths = [
        folder.file("a", small_dump()),
        folder.file("b", "plain one\nsecond line\n\n\n \nplain two"),
        folder.file(
            "c",
            gzip(b"{\"text\": \"json\", \"title\": \"T\", \"url\": 1}\n\n{\"text\": \"\"}\n"),
        ),
        folder.file("d", shard(&[&["row"]], true)),
    ];
    let paths: Vec<_> = paths.iter().map(PathBuf::as_path).collect();
    let reading = Reading::of(&paths, None);
    let texts = [
        SMALL_TEXTS[0],
        SMALL_TEXTS[1],
        "plain one\nsecond line",
        "plain two",
        "json",
        "row",
    ];
    assert_eq!(reading.texts(), texts);
    let inputs: Vec<_> = reading
        .documents()
        .iter()
        .map(|document| document.input)
        .collect();
    assert_eq!(inputs, [0, 0, 1, 1, 2, 3]);
    assert_eq!(reading.progress.skipped(Skip::NoText), 1);
    assert_eq!(Reading::of(&paths, Some(3)).texts(), texts[..3]);
    assert!(Reading::of(&paths, Some(0)).texts().is_empty());
}

#[test]
fn of_a_history_the_last_revision_counts() {
    let revision = |text: &str| format!("<revision><text>{text}</text></revision>");
    let history: String = (0..2000)
        .map(|number| revision(&format!("text {number} {}", "x".repeat(500))))
        .collect();
    let text = dump(&[format!(
        "<page><title>A</title><ns>0</ns>{history}{}</page>",
        revision("last")
    )]);
    assert_eq!(Folder::new().read(text).texts(), ["last"]);
}

#[test]
fn a_bad_page_is_skipped_and_reported() {
    let lol = "<!DOCTYPE mediawiki [<!ENTITY a \"lol\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\"><!ENTITY c \"&b;&b;&b;&b;&b;\">]>";
    let good = |title: &str| page(title, MAIN, &format!("text of {title}"));
    let unclosed = good("F").replace("</page>", "");
    let pages = [
        good("A"),
        page("B", MAIN, "laugh &c; &c;"),
        good("C"),
        page("D", MAIN, "<b>raw tag</text>"),
        page("E", MAIN, "a & b"),
        unclosed,
        good("G"),
    ];
    let mut bytes = (lol.to_string() + &dump(&pages)).into_bytes();
    let at = memchr::memmem::find(&bytes, b"text of C").unwrap();
    bytes[at] = 0xff;
    let reading = Folder::new().read(&bytes);
    assert_eq!(reading.texts(), ["text of A", "text of G"]);
    assert!(reading.errors().is_empty());
    let bad = reading.progress.bad_pages();
    let reasons: Vec<_> = bad.iter().map(|page| page.reason).collect();
    assert_eq!(
        reasons,
        [
            Skip::Entity,
            Skip::InvalidText,
            Skip::Malformed,
            Skip::Malformed,
            Skip::Malformed
        ]
    );
    for page in &bad {
        let start = usize::try_from(page.offset).unwrap();
        assert!(bytes[start..].starts_with(b"<page>"), "{page}");
        assert!(
            page.to_string().contains("skipped the page at byte"),
            "{page}"
        );
    }
    assert_eq!(reading.progress.pages(), 7);
}

#[test]
fn a_cut_dump_is_an_error_after_what_came_before() {
    let folder = Folder::new();
    let text = small_dump();
    let last = text.rfind("<page>").unwrap();
    for (end, start) in [(last + 50, last), (text.len() - 5, 0), (text.len() - 14, 0)] {
        let reading = folder.read(&text[..end]);
        assert_eq!(reading.texts()[0], SMALL_TEXTS[0]);
        reading.says(&format!("is cut off: it ends at byte {end} within <"));
        reading.says(&format!("which starts at byte {start};"));
    }
}

#[test]
fn cut_and_damaged_compression_names_file_and_byte() {
    let folder = Folder::new();
    let long: Vec<_> = (0..3000_u64)
        .map(|i| page(&i.to_string(), MAIN, &format!("{i} {}", i * i * 7919)))
        .collect();
    let text = dump(&long);
    for (compress, name) in [
        (gzip as fn(&[u8]) -> Vec<u8>, "gzip"),
        (zstd, "zstd"),
        (bzip2, "bzip2"),
    ] {
        let whole = [compress(text.as_bytes()), compress(text.as_bytes())].concat();
        let reading = folder.read(&whole[..whole.len() - 1000]);
        assert!(reading.texts().len() >= 3000, "{name}");
        reading.says(&format!("the {name} data of "));
        reading.says("input is damaged or cut off at or before byte");
        let mut damaged = whole;
        let middle = damaged.len() / 4;
        damaged[middle] ^= 0xff;
        assert!(
            !folder.read(damaged).results.iter().all(Result::is_ok),
            "{name}"
        );
    }
}

#[test]
fn what_holds_no_documents_says_so() {
    let folder = Folder::new();
    folder.read(gzip(b"")).says("is empty");
    let html = folder.read("<?xml version='1.0'?><html/>");
    html.says("is XML but not a MediaWiki dump");
}

#[test]
fn bad_lines_and_bytes_name_their_place() {
    let folder = Folder::new();
    let reading = folder.read(
        "{\"text\": \"a\"}\n{\"text\": 1}\n{\"title\": \"b\"}\n{\"text\": \"c\"\n{\"text\": \"d\"}",
    );
    assert_eq!(reading.texts(), ["a", "d"]);
    let lines = reading.errors();
    assert_eq!(lines.len(), 3);
    assert!(
        lines[0].starts_with("line 2 of ") && lines[0].contains("at byte 14"),
        "{}",
        lines[0]
    );

    let reading = folder.read(b"first\n\nsec\xffond\n\nthird");
    assert_eq!(reading.texts(), ["first"]);
    reading.says("is not valid text at byte 10;");
}

/// A Parquet file with these rows in these row groups.
fn shard(groups: &[&[&str]], optional: bool) -> Vec<u8> {
    let text = if optional { "OPTIONAL" } else { "REQUIRED" };
    let schema = format!(
        "message m {{ REQUIRED INT64 id; {text} BYTE_ARRAY title (UTF8); {text} BYTE_ARRAY text (UTF8); }}"
    );
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let compression = parquet::basic::Compression::SNAPPY;
    let properties = Arc::new(
        WriterProperties::builder()
            .set_compression(compression)
            .build(),
    );
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
    for rows in groups {
        let mut group = writer.next_row_group().unwrap();
        let ids: Vec<_> = (0..rows.len() as i64).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column
            .typed::<parquet::data_type::Int64Type>()
            .write_batch(&ids, None, None)
            .unwrap();
        column.close().unwrap();
        // An empty string stands for a row without a value.
        let levels: Vec<_> = rows.iter().map(|row| i16::from(!row.is_empty())).collect();
        let values: Vec<_> = rows
            .iter()
            .filter(|row| !optional || !row.is_empty())
            .map(|row| ByteArray::from(*row))
            .collect();
        for _ in ["title", "text"] {
            let mut column = group.next_column().unwrap().unwrap();
            column
                .typed::<ByteArrayType>()
                .write_batch(&values, optional.then_some(&levels), None)
                .unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}

#[test]
fn parquet_is_read_row_group_by_row_group() {
    let folder = Folder::new();
    let many: Vec<String> = (0..300).map(|row| format!("ряд {row}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let reading = folder.read(shard(&[&many, &["x", "", "y"], &[]], true));
    let texts = reading.texts();
    assert_eq!(texts.len(), 302);
    assert_eq!(
        (
            texts[299].as_str(),
            texts[300].as_str(),
            texts[301].as_str()
        ),
        ("ряд 299", "x", "y")
    );
    assert_eq!(reading.documents()[301].offset, 302);
    assert_eq!(reading.progress.skipped(Skip::NoText), 1);
    assert!(reading.progress.bytes_read() > 0);
    // Compressed from without: by way of a temporary file.
    assert_eq!(folder.read(zstd(&shard(&[&["x"]], false))).texts(), ["x"]);
}

#[test]
fn broken_parquet_is_an_error() {
    let folder = Folder::new();
    let whole = shard(&[&["x", "y"]], true);
    for broken in [&whole[..whole.len() - 10], b"PAR1"] {
        folder.read(broken).says("cannot be read at row 0");
    }
    let mut renamed = whole.clone();
    for at in memchr::memmem::find_iter(&whole, b"text") {
        renamed[at..at + 4].copy_from_slice(b"body");
    }
    folder.read(renamed).says("only id, title, body;");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is changed in a file, reading ends, without a panic.
    #[test]
    fn changed_files_never_panic(which in 0..6_usize, places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let text = small_dump();
        let mut bytes = match which {
            0 => text.into_bytes(),
            1 => gzip(text.as_bytes()),
            2 => zstd(text.as_bytes()),
            3 => in_parts(&text, bzip2),
            4 => shard(&[&["x", "", "y"], &["z"]], true),
            _ => b"{\"text\": \"a\"}\n{\"text\": \"b\"}".to_vec(),
        };
        for (place, byte) in places {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let reading = Folder::new().read(bytes);
        prop_assert!(reading.results.len() < 100_000);
    }
}
