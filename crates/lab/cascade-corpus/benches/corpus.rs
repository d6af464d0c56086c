//! How fast dumps are read and wikitext is stripped, on pages that are made here.
#![allow(missing_docs)]

use std::hint::black_box;
use std::io::Write;

use cascade_corpus::{wikitext, Corpus, Input, Options};
use criterion::{criterion_group, criterion_main, Criterion, Throughput};

/// A page with the markup that an article has, in about its proportions.
fn page(number: usize) -> String {
    let mut text = format!(
        "{{{{Infobox settlement\n| name = Place {number}\n| population = {{{{nts|{number}}}}}\n}}}}\n\
         '''Place {number}''' is a [[town]] in [[Some Region|the region]].<ref name=\"a\">{{{{cite web|url=http://a.org/{number}|\
         title=About it}}}}</ref>\n\n"
    );
    for section in 0..8 {
        text += &format!(
            "== Section {section} ==\n[[File:Picture {section}.jpg|thumb|A ''view'' of [[it]]]]\n"
        );
        for sentence in 0..12 {
            text += &format!(
                "The {sentence}th sentence speaks of [[thing {sentence}|things]] that happened in {} &amp; later, and of \
                 others, which nobody has ever heard of.<ref>{{{{harvnb|Someone|{sentence}}}}}</ref> ",
                1800 + sentence
            );
        }
        text += "\n* one\n* two\n\n{| class=\"wikitable\"\n! a\n! b\n|-\n| 1 || 2\n|}\n\n";
    }
    text + "{{Reflist}}\n[[Category:Places]]\n"
}

fn stripping(criterion: &mut Criterion) {
    let pages: Vec<_> = (0..100).map(page).collect();
    let bytes: usize = pages.iter().map(String::len).sum();
    let mut group = criterion.benchmark_group("wikitext");
    group.throughput(Throughput::Bytes(bytes as u64));
    group.bench_function("strip", |bencher| {
        bencher.iter(|| {
            pages
                .iter()
                .map(|page| black_box(wikitext::strip(page)).len())
                .sum::<usize>()
        });
    });
    group.finish();
}

fn dump() -> String {
    let pages = (0..400).map(|number| {
        let text = page(number).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        format!("<page>\n<title>Place {number}</title>\n<ns>0</ns>\n<revision>\n<text>{text}</text>\n</revision>\n</page>\n")
    });
    format!("<mediawiki>\n{}</mediawiki>\n", pages.collect::<String>())
}

/// One stream for every ten pages, as Wikipedia's multistream dumps have one for every hundred.
fn multistream(dump: &str) -> Vec<u8> {
    let parts = dump.as_bytes().chunks(dump.len() / 40);
    parts
        .flat_map(|part| {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
            encoder
                .write_all(part)
                .and_then(|()| encoder.finish())
                .unwrap_or_default()
        })
        .collect()
}

fn reading(criterion: &mut Criterion) {
    let Ok(folder) = tempfile::tempdir() else {
        return;
    };
    let dump = dump();
    let mut group = criterion.benchmark_group("reading");
    group
        .throughput(Throughput::Bytes(dump.len() as u64))
        .sample_size(10);
    for (name, bytes) in [
        ("xml", dump.clone().into_bytes()),
        ("xml.bz2", multistream(&dump)),
    ] {
        let path = folder.path().join(name);
        if std::fs::write(&path, bytes).is_err() {
            return;
        }
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                Corpus::open([Input::new(&path)], Options::default())
                    .map(Iterator::count)
                    .ok()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, stripping, reading);
criterion_main!(benches);
