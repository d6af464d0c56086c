//! Tables and tokens by what users call them, and how they are shown.

use std::io::Write;

use anyhow::{Result, bail};
use cascade_bigram::{Agreement, Band};
use cascade_core::TokenId;
use cascade_models::Tokenizer;
use cascade_ngram::{NgramTable, Provenance, Source};

use super::args::ShowArgs;
use crate::columns;
use crate::terminal::{self, grouped};
use crate::tokenizer;

/// The tokenizer of a table, if it is known, and the tokens given by `--token` or `--id`.
pub(super) fn asked(
    args: &ShowArgs,
    table: &NgramTable,
) -> Result<(Option<Tokenizer>, Vec<TokenId>)> {
    let fingerprint = &table.metadata().provenance.tokenizer;
    let check = |found: &_| table.check_tokenizer(found);
    let tokenizer = tokenizer::of_table(args.tokenizer.as_deref(), fingerprint, check)?;
    let tokens = args
        .token
        .iter()
        .map(|text| find(text, tokenizer.as_ref()))
        .chain(args.id.iter().map(|&id| Ok(id)))
        .collect::<Result<_>>()?;
    Ok((tokenizer, tokens))
}

/// What a table says of itself, and what it was made of.
pub(super) fn show_metadata(
    rows: impl IntoIterator<Item = (&'static str, String)>,
    provenance: &Provenance,
) -> Result<()> {
    let mut out = terminal::stdout();
    let made = [
        ("command", provenance.command.clone()),
        ("version", provenance.version.clone()),
    ];
    let sources = provenance
        .sources
        .iter()
        .map(|source| ("source", describe(source)));
    for (what, is) in rows.into_iter().chain(made).chain(sources) {
        writeln!(out, "{what:<16} {is}")?;
    }
    Ok(())
}

pub(super) fn open(table: &str) -> Result<NgramTable> {
    let Some(name) = table.strip_prefix("embedded:") else {
        return Ok(NgramTable::open_any(table)?);
    };
    match cascade_demo::bigram_table(name) {
        Some(bytes) => Ok(NgramTable::from_bytes(table, bytes.to_vec())?),
        None => {
            let names = cascade_demo::BIGRAM_TABLES.join(", ");
            bail!("there is no embedded table {name:?}; known: {names}")
        }
    }
}

fn describe(source: &Source) -> String {
    let mut text = source.name.clone();
    if let Some(bytes) = source.bytes {
        text += &format!(", {} bytes", grouped(bytes));
    }
    if let Some(date) = &source.dump_date {
        text += &format!(", dump of {date}");
    }
    text
}

/// A token's id, and its text if that is known.
pub(super) fn name(token: TokenId, tokenizer: Option<&Tokenizer>) -> String {
    match tokenizer.and_then(|tokenizer| tokenizer.id_to_token(token)) {
        Some(piece) => format!("#{token} {piece:?}"),
        None => format!("#{token}"),
    }
}

/// The id of a token given by the user.
fn find(text: &str, tokenizer: Option<&Tokenizer>) -> Result<TokenId> {
    if let Some(id) = text.strip_prefix('#').and_then(|id| id.parse().ok()) {
        return Ok(id);
    }
    let Some(tokenizer) = tokenizer else {
        bail!(
            "to look up the token {text:?}, give the table's tokenizer with --tokenizer, or the id with --id"
        );
    };
    if let Some(id) = tokenizer.token_to_id(text) {
        return Ok(id);
    }
    match tokenizer.encode_plain(text)?[..] {
        [token] => Ok(token),
        ref tokens => {
            let pieces: Vec<_> = tokens
                .iter()
                .filter_map(|&token| tokenizer.id_to_token(token))
                .collect();
            bail!("{text:?} is not one token but {pieces:?}; give one of them")
        }
    }
}

/// How far tables agree after `contexts`.
pub(super) fn show_agreement(contexts: &str, agreement: &Agreement) -> Result<()> {
    let mut out = terminal::stdout();
    let mut rows = vec![columns::row([
        "occurs in the first",
        contexts,
        "only first",
        "only second",
        "both",
        "agree",
        "weighted",
    ])];
    for band in &agreement.bands {
        let label = match band.from {
            0 => "never".to_owned(),
            from => format!("{} times or more", grouped(from)),
        };
        rows.push(row(&label, band));
    }
    rows.push(row("all", &agreement.all));
    write!(out, "{}", columns::table(">", &rows))?;
    Ok(())
}

fn row(label: &str, band: &Band) -> Vec<String> {
    let percent = |share: Option<f64>| match share {
        Some(share) => format!("{:.1}%", 100.0 * share),
        None => "-".to_owned(),
    };
    let counts = [band.tokens, band.only_first, band.only_second, band.both].map(grouped);
    let shares = [band.share(), band.weighted_share()].map(percent);
    [&[label.to_owned()][..], &counts, &shares].concat()
}
