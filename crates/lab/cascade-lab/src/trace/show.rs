//! `cascade-lab trace show`.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use cascade_traces::error;
use cascade_traces::trace::{Header, NEAR_TIE, Quantiles, Reader, Summary};
use serde_json::{Value, json};

use crate::terminal;
use crate::terminal::grouped;

/// Quantiles of the lengths.
const LENGTHS: [(&str, f64); 4] = [("min", 0.0), ("median", 0.5), ("p90", 0.9), ("max", 1.0)];

/// Quantiles of the gaps; the small ones matter.
const GAPS: [(&str, f64); 5] = [
    ("min", 0.0),
    ("p0.1", 0.001),
    ("p1", 0.01),
    ("p10", 0.1),
    ("median", 0.5),
];

pub(super) fn show(file: &Path, as_json: bool) -> Result<()> {
    let mut reader = Reader::open(file)?;
    let mut summary = Summary::default();
    for record in reader.by_ref() {
        summary.add(&record?);
    }
    let label = reader.label().to_owned();
    if summary.records == 0 {
        return Err(error::no_records(&label).into());
    }
    let mut out = terminal::stdout();
    if as_json {
        return Ok(terminal::write_json(
            &mut out,
            &object(reader.header(), &summary),
        )?);
    }
    for (what, is) in header(reader.header()).into_iter().chain(counts(&summary)) {
        writeln!(out, "{what:<12} {is}")?;
    }
    Ok(())
}

fn header(header: &Header) -> Vec<(&'static str, String)> {
    let how = [
        &header.dtype,
        &header.device,
        &header.machine,
        &header.program,
    ];
    let how = std::iter::once(header.provenance.as_str()).chain(given(how));
    let prompts = [&header.dataset, &header.template];
    vec![
        ("target", target(header)),
        ("provenance", how.collect::<Vec<_>>().join(", ")),
        (
            "vocabulary",
            format!(
                "{} columns, {}",
                grouped(header.vocab_size as u64),
                header.tokenizer()
            ),
        ),
        (
            "decoding",
            format!(
                "{}, at most {} new tokens, end tokens {:?}",
                decoding(header),
                header.max_new_tokens,
                header.eos
            ),
        ),
        ("prompts", given(prompts).join(", template ")),
    ]
}

fn given<const N: usize>(fields: [&Option<String>; N]) -> Vec<&str> {
    fields.into_iter().flatten().map(String::as_str).collect()
}

fn target(header: &Header) -> String {
    let revision = header.revision.as_ref();
    let revision = revision.map_or(String::new(), |revision| format!(" at {revision}"));
    let positions = header
        .max_context
        .map_or(String::new(), |n| format!(", {n} positions"));
    format!(
        "{}{revision}, {}{positions}",
        header.model, header.architecture
    )
}

fn decoding(header: &Header) -> String {
    let Some(sampling) = header.sampling() else {
        return "greedy".to_owned();
    };
    match sampling.top_probabilities {
        None => format!("sampled at {sampling}"),
        Some(tokens) => {
            format!("sampled at {sampling}, with {tokens} probabilities for each token")
        }
    }
}

fn counts(summary: &Summary) -> Vec<(&'static str, String)> {
    let list = |counts: &mut dyn Iterator<Item = (String, usize)>| {
        let counts: Vec<_> = counts
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        counts.join(", ")
    };
    let categories = &mut summary.categories.iter().cloned();
    let finishes = &mut summary
        .finishes
        .iter()
        .map(|(f, &n)| (f.as_str().to_owned(), n));
    let mut rows = vec![
        ("records", grouped(summary.records as u64)),
        ("categories", list(categories)),
        ("finished by", list(finishes)),
        ("prompts", lengths(&summary.prompt_tokens)),
        ("outputs", lengths(&summary.output_tokens)),
        ("gaps", gaps(summary)),
    ];
    rows.retain(|(_, is)| !is.is_empty());
    rows
}

fn lengths(tokens: &[usize]) -> String {
    let total: usize = tokens.iter().sum();
    let shares: Vec<_> = quantiles(tokens.iter().map(|&n| n as f64), &LENGTHS)
        .iter()
        .map(|(name, n)| format!("{name} {n}"))
        .collect();
    format!("{} tokens; {}", grouped(total as u64), shares.join(", "))
}

fn gaps(summary: &Summary) -> String {
    let shares: Vec<_> = quantiles(summary.margins.iter().copied().map(f64::from), &GAPS)
        .iter()
        .map(|(name, n)| format!("{name} {n:.2e}"))
        .collect();
    if shares.is_empty() {
        "not measured".to_owned()
    } else {
        format!(
            "{}; {} of {} below {NEAR_TIE}",
            shares.join(", "),
            summary.near_ties(),
            grouped(summary.margins.len() as u64)
        )
    }
}

fn quantiles(
    values: impl Iterator<Item = f64>,
    shares: &[(&'static str, f64)],
) -> Vec<(&'static str, f64)> {
    let quantiles = Quantiles::of(values);
    let at = |&(name, share): &(&'static str, f64)| Some((name, quantiles.as_ref()?.at(share)));
    shares.iter().filter_map(at).collect()
}

fn object(header: &Header, summary: &Summary) -> Value {
    let map = |shares: Vec<(&'static str, f64)>| -> Value {
        shares
            .into_iter()
            .map(|(name, n)| (name.to_owned(), json!(n)))
            .collect()
    };
    let lengths = |tokens: &[usize]| {
        let mut lengths = map(quantiles(tokens.iter().map(|&n| n as f64), &LENGTHS));
        lengths["total"] = json!(tokens.iter().sum::<usize>());
        lengths
    };
    let gaps = map(quantiles(
        summary.margins.iter().copied().map(f64::from),
        &GAPS,
    ));
    let categories: Value = summary
        .categories
        .iter()
        .map(|(c, n)| (c.clone(), json!(n)))
        .collect();
    json!({
        "header": header,
        "records": summary.records,
        "categories": categories,
        "finish_reasons": summary.finishes,
        "prompt_tokens": lengths(&summary.prompt_tokens),
        "output_tokens": lengths(&summary.output_tokens),
        "gaps": gaps,
        "near_ties": summary.near_ties(),
    })
}
