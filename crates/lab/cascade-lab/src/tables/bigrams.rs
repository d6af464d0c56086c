//! `cascade-lab bigram show`, `compare`, `export` and `import`.

use std::io::Write;
use std::path::Path;

use anyhow::{bail, Context, Result};
use cascade_core::fs::{Existing, Output};
use cascade_core::TokenId;
use cascade_models::Tokenizer;
use cascade_ngram::{export_json, import_json, BigramMetadata, BigramTable, Provenance};

use super::args::{ExportArgs, ImportArgs, ShowArgs};
use super::ngrams;
use super::text::{self, asked, name, open, show_agreement, show_counts, show_metadata};
use crate::terminal::{self, grouped};
use crate::{outputs, tokenizer};

pub(super) fn show(args: &ShowArgs) -> Result<()> {
    if let Some(table) = ngrams::declared(&args.table)? {
        return ngrams::show(&table, args);
    }
    let table = open(&args.table)?;
    let fingerprint = &table.metadata().provenance.tokenizer;
    let (tokenizer, context) = asked(args, fingerprint, |found| table.check_tokenizer(found))?;
    match (&context[..], args.top) {
        ([token], top) => show_token(&table, *token, tokenizer.as_ref(), top),
        ([], Some(top)) => show_frequent(&table, tokenizer.as_ref(), top),
        ([], None) => show_table(&table),
        _ => bail!(
            "{} is a bigram table, which knows what follows one token; give one",
            args.table
        ),
    }
}

fn show_table(table: &BigramTable) -> Result<()> {
    let BigramMetadata {
        provenance,
        top_k,
        min_count,
        documents,
        total_tokens,
        total_bigrams,
    } = table.metadata();
    let known = (0..table.vocab_size() as TokenId).filter(|&token| table.best(token).is_some());
    let size = table.as_bytes().len() as u64;
    let rows = [
        (
            "table",
            format!("{}, {} bytes", table.file(), grouped(size)),
        ),
        ("tokenizer", provenance.tokenizer.to_string()),
        ("vocabulary", grouped(table.vocab_size() as u64)),
        ("pairs", grouped(table.pairs() as u64)),
        ("with successors", grouped(known.count() as u64)),
        ("top-k", top_k.to_string()),
        ("min-count", min_count.to_string()),
        ("documents", grouped(*documents)),
        ("tokens counted", grouped(*total_tokens)),
        ("bigrams counted", grouped(*total_bigrams)),
    ];
    show_metadata(rows, provenance)
}

/// The most frequent tokens, each with its most frequent successor.
fn show_frequent(table: &BigramTable, tokenizer: Option<&Tokenizer>, top: usize) -> Result<()> {
    let mut tokens: Vec<TokenId> = (0..table.vocab_size() as TokenId).collect();
    tokens.sort_by_key(|&token| (std::cmp::Reverse(table.unigram_count(token)), token));
    let of = |token| (token, table.unigram_count(token), table.best(token));
    text::show_frequent(tokens.into_iter().take(top).map(of), tokenizer)
}

fn show_token(
    table: &BigramTable,
    token: TokenId,
    tokenizer: Option<&Tokenizer>,
    top: Option<usize>,
) -> Result<()> {
    if token as usize >= table.vocab_size() {
        let size = table.vocab_size();
        bail!("token {token} is outside the table's vocabulary of {size}");
    }
    let mut out = terminal::stdout();
    let total = table.unigram_count(token);
    writeln!(
        out,
        "{} occurs {} times; successors:",
        name(token, tokenizer),
        grouped(total)
    )?;
    let successors = table.successors(token);
    show_counts(
        &mut out,
        successors.take(top.unwrap_or(usize::MAX)),
        total,
        tokenizer,
    )
}

pub(super) fn compare(first: &str, second: &str) -> Result<()> {
    if ngrams::declared(first)?.is_some() || ngrams::declared(second)?.is_some() {
        return ngrams::compare(first, second);
    }
    let agreement = cascade_bigram::compare(&open(first)?, &open(second)?)?;
    show_agreement("tokens", &agreement)
}

pub(super) fn export(args: &ExportArgs) -> Result<()> {
    if args.json.as_deref() == Some(Path::new("-")) {
        let json = export_json(&open(&args.table)?);
        return Ok(terminal::stdout().write_all(json.as_bytes())?);
    }
    let output = |path: &Path| {
        let existing = Existing::replaced_if(args.force);
        outputs::check(path, existing, [&args.table])
    };
    // Refuses before a table is read that may be large.
    let paths = [&args.json, &args.csv, &args.parquet];
    let [json, csv, parquet] = paths.map(|path| path.as_deref().map(output).transpose());
    let (json, csv, parquet) = (json?, csv?, parquet?);
    let table = open(&args.table)?;
    if let Some(output) = &json {
        write(output, export_json(&table).as_bytes())?;
    }
    if let Some(output) = &csv {
        cascade_bigram::export_csv(&table, output)?;
    }
    if let Some(output) = &parquet {
        cascade_bigram::export_parquet(&table, output)?;
    }
    Ok(())
}

fn write(output: &Output, bytes: &[u8]) -> Result<()> {
    let written = output.write(bytes);
    written.with_context(|| format!("cannot write {}", output.path().display()))
}

pub(super) fn import(args: &ImportArgs) -> Result<()> {
    let inputs = tokenizer::files(&args.tokenizer)
        .into_iter()
        .chain([args.json.clone()]);
    let output = outputs::check(&args.out, Existing::replaced_if(args.force), inputs)?;
    let tokenizer = tokenizer::load(&args.tokenizer)?;
    let source = cascade_bigram::describe(&args.json);
    let command = format!(
        "cascade bigram import --json {} --tokenizer {}",
        source.name,
        tokenizer::on_record(&args.tokenizer)
    );
    let provenance = Provenance {
        tokenizer: tokenizer.fingerprint(),
        sources: vec![source],
        command,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let table = import_json(&args.json, provenance)?;
    // More entries than tokens are fine: models can have more embeddings than tokens.
    if table.vocab_size() < tokenizer.id_bound() {
        bail!(
            "{} has {} entries, but the tokenizer {} tokens; is the vocabulary the same?",
            args.json.display(),
            grouped(table.vocab_size() as u64),
            grouped(tokenizer.id_bound() as u64)
        );
    }
    write(&output, table.as_bytes())
}
