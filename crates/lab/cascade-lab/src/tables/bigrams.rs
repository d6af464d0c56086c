//! `cascade-lab bigram show`, `compare` and `import`.

use std::cmp::Reverse;
use std::io::Write;

use anyhow::{Context, Result, bail};
use cascade_core::TokenId;
use cascade_core::fs::Existing;
use cascade_models::Tokenizer;
use cascade_ngram::{NgramMetadata, NgramTable, Provenance, import_json};

use super::args::{ImportArgs, ShowArgs};
use super::text::{asked, name, open, show_agreement, show_metadata};
use crate::terminal::{self, grouped};
use crate::{outputs, tokenizer};

pub(super) fn show(args: &ShowArgs) -> Result<()> {
    let table = open(&args.table)?;
    let (tokenizer, context) = asked(args, &table)?;
    match (&context[..], args.top) {
        ([], None) => show_table(&table),
        ([], Some(top)) => show_frequent(&table, tokenizer.as_ref(), top),
        (context, top) => show_context(&table, context, tokenizer.as_ref(), top),
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
    let bytes = of(table.as_bytes().len());
    let mut rows = vec![
        ("table", format!("{}, {bytes} bytes", table.file())),
        ("order", order.to_string()),
        ("tokenizer", provenance.tokenizer.to_string()),
        ("vocabulary", of(*vocab_size)),
        ("continuations", of(table.continuations())),
        ("of tokens", of(tokens.count())),
        ("top-k", top_k.to_string()),
        ("min-count", min_count.to_string()),
        ("documents", grouped(*documents)),
        ("tokens counted", grouped(*total_tokens)),
        ("bigrams counted", grouped(*total_bigrams)),
    ];
    if *order > 1 {
        rows.extend([
            ("of pairs", of(table.pairs())),
            ("min-context", min_context.to_string()),
            ("trigrams counted", grouped(*total_trigrams)),
        ]);
    }
    show_metadata(rows, provenance)
}

/// The most frequent tokens, each with what most often follows it. A table has the frequencies of
/// 64 tokens; in one of order 1 they are the totals of the others, too.
fn show_frequent(table: &NgramTable, tokenizer: Option<&Tokenizer>, top: usize) -> Result<()> {
    let mut tokens = table.unigrams().to_vec();
    if table.order() == 1 && tokens.len() < top {
        let listed: Vec<TokenId> = tokens.iter().map(|of| of.0).collect();
        let others = table
            .contexts()
            .map(|(context, after)| (context[0], after.total()))
            .filter(|of| !listed.contains(&of.0));
        tokens.extend(others);
        tokens.sort_by_key(|&(token, count)| (Reverse(count), token));
    }
    let mut out = terminal::stdout();
    let (times, token) = ("times", "token");
    writeln!(out, "{times:>14}  {token:<24} most often followed by")?;
    for (token, times) in tokens.into_iter().take(top) {
        let next = table.after(&[token]).and_then(|mut after| after.next());
        let next = next.map_or("nothing known".to_owned(), |next| name(next.0, tokenizer));
        let (times, token) = (grouped(times), name(token, tokenizer));
        writeln!(out, "{times:>14}  {token:<24} {next}")?;
    }
    Ok(())
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
    let times = grouped(total);
    if table.order() == 1 {
        writeln!(out, "{names} occurs {times} times; successors:")?;
    } else {
        writeln!(out, "{names} continues {times} times; most often by:")?;
    }
    for (token, count) in after.take(top.unwrap_or(usize::MAX)) {
        let share = 100.0 * count as f64 / total.max(1) as f64;
        let token = name(token, tokenizer);
        writeln!(out, "{:>12} {share:5.1}%  {token}", grouped(count))?;
    }
    Ok(())
}

pub(super) fn compare(first: &str, second: &str) -> Result<()> {
    let (first, second) = (open(first)?, open(second)?);
    for (length, contexts) in (1..).zip(["tokens", "pairs"]) {
        let agreement = cascade_bigram::compare(&first, &second, length)?;
        if agreement.all.tokens > 0 {
            show_agreement(contexts, &agreement)?;
        }
    }
    Ok(())
}

pub(super) fn import(args: &ImportArgs) -> Result<()> {
    let inputs = tokenizer::files(&args.tokenizer)
        .into_iter()
        .chain([args.json.clone()]);
    let output = outputs::check(&args.out, Existing::replaced_if(args.force), inputs)?;
    let tokenizer = tokenizer::load(&args.tokenizer)?;
    let source = cascade_bigram::describe(&args.json);
    let command = format!(
        "cascade-lab bigram import --json {} --tokenizer {}",
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
    let written = output.write(table.as_bytes());
    written.with_context(|| format!("cannot write {}", output.path().display()))
}
