//! `cascade bench model --logits`: what a model says, to be compared with what other programs say.

use std::path::Path;

use anyhow::{Context, Result};
use cascade_core::{Architecture, Scorer, TokenId, TokenTree, Want};
use cascade_eval::ForwardCost;
use cascade_models::{LoadOptions, Session};
use serde::Serialize;

use super::ModelArgs;

/// Rows whose logits are written.
const ROWS: usize = 8;
/// Greedy tokens.
const ANSWER: usize = 32;

#[derive(Serialize)]
struct Said<'a> {
    model: &'a str,
    /// With which engine, and where.
    by: &'a str,
    dtype: &'a str,
    source: Vec<TokenId>,
    context: Vec<TokenId>,
    /// Logits after the last tokens of the context, one forward.
    logits: Vec<Vec<f32>>,
    /// Tokens after the context, each by a forward of one row.
    greedy: Vec<TokenId>,
    /// How far the best token of each was from the second, relative to the greatest logit.
    gaps: Vec<f32>,
    /// Time of a forward of one row after this context, if it was measured.
    milliseconds: Option<f64>,
}

/// Writes the file, with the time that was measured at the last context length.
pub(super) fn write(
    file: &Path,
    args: &ModelArgs,
    model: &str,
    options: &LoadOptions,
    costs: &[ForwardCost],
    session: &mut Session,
) -> Result<()> {
    let vocabulary = session.info().vocab_size;
    let context = args.contexts.last().copied().unwrap_or_default();
    let (context, source) = (
        tokens(1, context.max(ROWS), vocabulary),
        match session.info().architecture {
            Architecture::EncoderDecoder => tokens(2, args.source.max(1), vocabulary),
            Architecture::DecoderOnly => Vec::new(),
        },
    );
    session.set_source(&source)?;
    let (greedy, gaps) = answer(session, &context)?;
    let one = costs.iter().rev().find(|cost| cost.rows == 1);
    let said = Said {
        model,
        by: &args.device,
        dtype: options.dtype.as_str(),
        logits: last_rows(session, &context)?,
        greedy,
        gaps,
        source,
        context,
        milliseconds: one.map(|cost| 1e3 * cost.median.as_secs_f64()),
    };
    let text = serde_json::to_vec(&said)?;
    cascade_core::fs::write(file, &text).with_context(|| format!("cannot write {}", file.display()))
}

/// Any tokens but the first few, which may be special.
fn tokens(seed: usize, count: usize, vocabulary: usize) -> Vec<TokenId> {
    let first = 3.min(vocabulary - 1);
    let token = |i: usize| first + (7919 * seed + 104_729 * i + i * i) % (vocabulary - first);
    (0..count).map(|i| token(i) as TokenId).collect()
}

fn last_rows(session: &mut Session, context: &[TokenId]) -> Result<Vec<Vec<f32>>> {
    let (known, fed) = context.split_at(context.len() - (ROWS - 1));
    let chain = TokenTree::chain(fed.iter().copied());
    let logits = session
        .score(known, &chain, Want::LOGITS)?
        .logits
        .context("the model gave no logits")?;
    Ok((0..logits.rows())
        .map(|row| logits.row(row).to_vec())
        .collect())
}

fn answer(session: &mut Session, context: &[TokenId]) -> Result<(Vec<TokenId>, Vec<f32>)> {
    let (mut text, mut gaps) = (context.to_vec(), Vec::new());
    for _ in 0..ANSWER {
        let logits = session
            .score(&text, &TokenTree::new(), Want::LOGITS)?
            .logits
            .context("the model gave no logits")?;
        let (best, gap) = best(logits.row(0));
        text.push(best as TokenId);
        gaps.push(gap);
    }
    Ok((text.split_off(context.len()), gaps))
}

/// The first of the greatest, and how far it is ahead relative to the greatest magnitude.
fn best(logits: &[f32]) -> (usize, f32) {
    let (mut best, mut second, mut magnitude) = ((0, f32::NEG_INFINITY), f32::NEG_INFINITY, 0f32);
    for (token, &logit) in logits.iter().enumerate() {
        magnitude = magnitude.max(logit.abs());
        if logit > best.1 {
            (best, second) = ((token, logit), best.1);
        } else {
            second = second.max(logit);
        }
    }
    (best.0, (best.1 - second) / magnitude)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_first_of_equals_is_the_best_without_a_gap() {
        assert_eq!(super::best(&[-4.0, 1.0, 2.0, 2.0]), (2, 0.0));
        assert_eq!(super::best(&[2.0, -4.0, 1.0]), (0, 0.25));
    }
}
