//! Builds a bigram table from plain text.
//!
//! ```text
//! cargo run --release -p cascade-ngram --example build_bigram -- \
//!     --tokenizer tokenizer.json --top-k 4 --min-count 2 --corpus "what the text is" --out table.safetensors \
//!     [--wikitext wiki.test.raw …] [text.txt …]
//! ```
//!
//! Documents are separated by blank lines. Files named after `--wikitext` are in WikiText's form: its spaces around
//! punctuation are undone first, because no model writes them, and its headings are left out. For dumps of Wikipedia there is `cascade bigram build`.

use std::{error::Error, fs};

use cascade_core::Fingerprint;
use cascade_ngram::{BigramBuilder, Provenance};
use tokenizers::Tokenizer;

#[derive(Default)]
struct Args {
    tokenizer: String,
    out: String,
    corpus: String,
    top_k: usize,
    min_count: u64,
    /// Paths, and whether the file is in WikiText's form.
    inputs: Vec<(String, bool)>,
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let args = parse(std::env::args().skip(1))?;
    let tokenizer = Tokenizer::from_file(&args.tokenizer)?;
    let vocabulary = tokenizer.get_vocab(true);
    let vocab_size = vocabulary.values().max().map_or(0, |&id| id as usize + 1);
    let provenance = Provenance {
        tokenizer: Fingerprint::of_vocabulary(
            vocabulary.iter().map(|(piece, &id)| (id, piece.as_str())),
        ),
        corpus: args.corpus,
        producer: format!(
            "cascade-ngram {} build_bigram --top-k {} --min-count {}",
            env!("CARGO_PKG_VERSION"),
            args.top_k,
            args.min_count
        ),
    };
    let mut builder = BigramBuilder::new(vocab_size, provenance);
    for (path, wikitext) in &args.inputs {
        for document in documents(&fs::read_to_string(path)?) {
            if *wikitext && is_wikitext_heading(&document) {
                continue;
            }
            let document = if *wikitext {
                undo_wikitext(&document)
            } else {
                document
            };
            builder.add_document(tokenizer.encode_fast(document, false)?.get_ids())?;
        }
    }
    let table = builder.finish(args.top_k, args.min_count)?;
    table.write(&args.out)?;
    println!(
        "{}: {} bytes, {} pairs, {:?}",
        args.out,
        table.as_bytes().len(),
        table.pairs(),
        table.metadata()
    );
    Ok(())
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut parsed = Args {
        top_k: 4,
        min_count: 1,
        ..Args::default()
    };
    while let Some(arg) = args.next() {
        if !arg.starts_with("--") {
            parsed.inputs.push((arg, false));
            continue;
        }
        let value = args.next().ok_or(format!("{arg} needs a value"))?;
        let number = |value: &str| {
            value
                .parse::<u64>()
                .map_err(|_| format!("{arg} needs a number, not {value}"))
        };
        match arg.as_str() {
            "--tokenizer" => parsed.tokenizer = value,
            "--out" => parsed.out = value,
            "--corpus" => parsed.corpus = value,
            "--top-k" => parsed.top_k = number(&value)? as usize,
            "--min-count" => parsed.min_count = number(&value)?,
            "--wikitext" => parsed.inputs.push((value, true)),
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    if parsed.tokenizer.is_empty() || parsed.out.is_empty() || parsed.inputs.is_empty() {
        return Err("--tokenizer, --out and at least one text are needed".to_owned());
    }
    Ok(parsed)
}

/// Blocks of lines with at least one character, lines trimmed.
fn documents(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines
        .split(|line| line.is_empty())
        .filter(|block| !block.is_empty())
        .map(|block| block.join("\n"))
        .collect()
}

/// Whether a document is a heading of WikiText: `= = Career = =`.
fn is_wikitext_heading(document: &str) -> bool {
    document.starts_with("= ") && document.ends_with(" =") && !document.contains('\n')
}

/// WikiText separates punctuation by spaces and marks what stood within words: `1 @,@ 000`, `mid @-@ 1990s`.
fn undo_wikitext(text: &str) -> String {
    const RULES: [(&str, &str); 19] = [
        (" @-@ ", "-"),
        (" @,@ ", ","),
        (" @.@ ", "."),
        (" ,", ","),
        (" .", "."),
        (" ;", ";"),
        (" :", ":"),
        (" !", "!"),
        (" ?", "?"),
        (" )", ")"),
        ("( ", "("),
        (" ]", "]"),
        ("[ ", "["),
        (" 's ", "'s "),
        (" 's,", "'s,"),
        (" n't", "n't"),
        (" 're ", "'re "),
        (" 've ", "'ve "),
        (" 'll ", "'ll "),
    ];
    let text = RULES
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    // Quotes open and close by turns.
    let mut open = false;
    let mut parts = text.split('"');
    let mut joined = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        open = !open;
        if open {
            joined.push('"');
            joined.push_str(part.strip_prefix(' ').unwrap_or(part));
        } else {
            joined.truncate(joined.trim_end_matches(' ').len());
            joined.push('"');
            joined.push_str(part);
        }
    }
    joined
}
