//! `cascade-lab bigram show` and `compare` of tables of order 2.

use std::io::Write;

use anyhow::{bail, Result};
use cascade_core::TokenId;
use cascade_models::Tokenizer;
use cascade_ngram::{NgramMetadata, NgramTable};

use super::args::ShowArgs;
use super::text::{self, asked, name, open_any, show_agreement, show_counts, show_metadata};
use crate::terminal::{self, grouped};

/// The table at a place, if it declares to be an n-gram table; bigram tables are not.
pub(super) fn declared(table: &str) -> Result<Option<NgramTable>> {
    if table.starts_with("embedded:") || !NgramTable::is_declared_in(table)? {
        return Ok(None);
    }
    Ok(Some(NgramTable::open_any(table)?))
}

pub(super) fn show(table: &NgramTable, args: &ShowArgs) -> Result<()> {
    let fingerprint = &table.metadata().provenance.tokenizer;
    let (tokenizer, context) = asked(args, fingerprint, |found| table.check_tokenizer(found))?;
    match (&context[..], args.top) {
        ([], None) => show_table(table),
        ([], Some(top)) => show_frequent(table, tokenizer.as_ref(), top),
        (context, top) => show_context(table, context, tokenizer.as_ref(), top),
    }
}

fn show_table(table: &NgramTable) -> Result<()> {
    let NgramMetadata {
        provenance,
        order,
        vocab_size,
        top_k,
        min_count,
        min_context,
        documents,
        total_tokens,
        total_bigrams,
        total_trigrams,
        ..
    } = table.metadata();
    let tokens = (0..*vocab_size as TokenId).filter(|&token| table.after(&[token]).is_some());
    let of = |number: usize| grouped(number as u64);
    let rows = [
        (
            "table",
            format!("{}, {} bytes", table.file(), of(table.as_bytes().len())),
        ),
        ("order", order.to_string()),
        ("tokenizer", provenance.tokenizer.to_string()),
        ("vocabulary", of(*vocab_size)),
        ("continuations", of(table.continuations())),
        ("of tokens", of(tokens.count())),
        ("of pairs", of(table.pairs())),
        ("top-k", top_k.to_string()),
        ("min-count", min_count.to_string()),
        ("min-context", min_context.to_string()),
        ("documents", grouped(*documents)),
        ("tokens counted", grouped(*total_tokens)),
        ("bigrams counted", grouped(*total_bigrams)),
        ("trigrams counted", grouped(*total_trigrams)),
    ];
    show_metadata(rows, provenance)
}

/// The most frequent tokens, of which the table has 64, each with what most often follows it.
fn show_frequent(table: &NgramTable, tokenizer: Option<&Tokenizer>, top: usize) -> Result<()> {
    let of = |&(token, count): &(TokenId, u64)| {
        let next = table.after(&[token]).and_then(|mut after| after.next());
        (token, count, next.map(|(next, _)| next))
    };
    text::show_frequent(table.unigrams().iter().take(top).map(of), tokenizer)
}

fn show_context(
    table: &NgramTable,
    context: &[TokenId],
    tokenizer: Option<&Tokenizer>,
    top: Option<usize>,
) -> Result<()> {
    let size = table.vocab_size();
    if let Some(token) = context.iter().find(|&&token| token as usize >= size) {
        bail!("token {token} is outside the table's vocabulary of {size}");
    }
    if context.len() > table.order() {
        let (given, order) = (context.len(), table.order());
        bail!("{given} tokens are given, and the table knows what follows {order} at most");
    }
    let names: Vec<String> = context
        .iter()
        .map(|&token| name(token, tokenizer))
        .collect();
    let names = names.join(" ");
    let mut out = terminal::stdout();
    let Some(after) = table.after(context) else {
        writeln!(out, "{names}: nothing known")?;
        return Ok(());
    };
    let total = after.total();
    writeln!(
        out,
        "{names} continues {} times; most often by:",
        grouped(total)
    )?;
    show_counts(
        &mut out,
        after.take(top.unwrap_or(usize::MAX)),
        total,
        tokenizer,
    )
}

pub(super) fn compare(first: &str, second: &str) -> Result<()> {
    let (first, second) = (open_any(first)?, open_any(second)?);
    for (length, contexts) in (1..).zip(["tokens", "pairs"]) {
        let agreement = cascade_bigram::compare_ngrams(&first, &second, length)?;
        if agreement.all.tokens > 0 {
            show_agreement(contexts, &agreement)?;
        }
    }
    Ok(())
}
