//! Reads the files that are named, one after the other, and prints for each what was found and how
//! fast it was read.
//!
//! `cargo run --release -p cascade-bigram --example corpus -- [--text] FILE…`; with `--text` the
//! documents are printed instead, each as a line of JSON: `{"offset": …, "source": …, "text": …}`.

use std::time::{Duration, Instant};

use cascade_bigram::Result;
use cascade_bigram::corpus::{Corpus, Options, Skip};

fn main() {
    let mut files: Vec<_> = std::env::args().skip(1).collect();
    let texts = files.first().is_some_and(|first| first == "--text");
    if texts {
        files.remove(0);
    }
    for file in files {
        let result = if texts {
            print_texts(&file)
        } else {
            print_figures(&file)
        };
        if let Err(error) = result {
            eprintln!("error: {error}");
        }
    }
}

fn print_texts(file: &str) -> Result<()> {
    for document in Corpus::open([file], Options::default())? {
        let document = document?;
        let (offset, source) = (document.offset, document.text.clone());
        println!(
            "{}",
            serde_json::json!({"offset": offset, "source": source, "text": document.into_text()})
        );
    }
    Ok(())
}

fn print_figures(file: &str) -> Result<()> {
    let corpus = Corpus::open([file], Options::default())?;
    let progress = corpus.progress();
    let (mut source, mut bytes, mut characters) = (0, 0, 0);
    let mut stripping = Duration::ZERO;
    let start = Instant::now();
    for document in corpus {
        let document = match document {
            Ok(document) => document,
            Err(error) => {
                eprintln!("error: {error}");
                continue;
            }
        };
        source += document.text.len();
        let start = Instant::now();
        let text = document.into_text();
        stripping += start.elapsed();
        bytes += text.len();
        characters += text.chars().count();
    }
    let reading = start.elapsed() - stripping;
    println!("{file}");
    println!(
        "  pages {}  documents {}",
        progress.pages(),
        progress.documents()
    );
    for reason in Skip::ALL {
        if progress.skipped(reason) > 0 {
            println!("  skipped, {reason}: {}", progress.skipped(reason));
        }
    }
    for page in progress.bad_pages() {
        println!("  {page}");
    }
    let speed = |time: Duration| source as f64 / 1e6 / time.as_secs_f64();
    println!("  {source} bytes of documents, {bytes} bytes and {characters} characters of text");
    println!(
        "  reading {:.0} MB/s, stripping {:.0} MB/s of documents, on one thread",
        speed(reading),
        speed(stripping)
    );
    Ok(())
}
