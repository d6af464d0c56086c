//! Log probabilities of emitted tokens, and the drafts that they came from: what a step reports
//! when it is asked to.

use std::ops::Range;

use cascade_core::{Draft, LevelId, Matrix, NodeId, TokenId, TokenTree, Want};
use cascade_verify::Verdict;

use crate::Result;
use crate::level::Neural;

/// The target's own log probability of an emitted token, and of the most probable ones beside it.
///
/// They are natural logarithms of the softmax over the whole vocabulary at temperature 1, before
/// any truncation, computed in f64 from the logits that verified the token: after penalties, if
/// there are any.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TokenLogprobs {
    /// The log probability of the emitted token.
    pub logprob: f64,
    /// The most probable tokens in descending order, ties by lower id; −∞ for a probability of 0.
    pub top: Vec<(TokenId, f64)>,
}

/// A node of the draft that a step verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DraftNode {
    /// Its token.
    pub token: TokenId,
    /// The node before it, which precedes it in the list; `None` if it continues the context.
    pub parent: Option<NodeId>,
    /// The model that proposed it first.
    pub proposer: LevelId,
    /// Whether the target accepted it.
    pub accepted: bool,
}

/// Log probabilities of a text's own tokens: of those in `range`, each after all before it. One
/// forward, and one softmax for each.
pub(crate) fn of_tokens(
    target: &mut Neural,
    tokens: &[TokenId],
    range: Range<usize>,
    top: usize,
) -> Result<Vec<TokenLogprobs>> {
    let (before, own) = (&tokens[..range.start], &tokens[range]);
    // The last token's own row would say what follows it.
    let tree = TokenTree::chain(own[..own.len().saturating_sub(1)].iter().copied());
    let (scores, _) = target.score_unpenalized(before, &tree, Want::LOGITS)?;
    let Some(logits) = &scores.logits else {
        return Ok(Vec::new());
    };
    let rows = (0..own.len()).map(|row| logits.row(row)).zip(own);
    Ok(rows.map(|(row, &token)| of_row(row, token, top)).collect())
}

/// Log probabilities of the tokens that a verdict emits, in their rows: one softmax for each.
pub(crate) fn of_emitted(
    logits: &Matrix,
    verdict: &Verdict,
    emitted: &[TokenId],
    top: usize,
) -> Vec<TokenLogprobs> {
    let parents = std::iter::once(None).chain(verdict.kept.iter().copied().map(Some));
    let rows = parents.map(|parent| logits.row(TokenTree::row(parent)));
    rows.zip(emitted)
        .map(|(row, &token)| of_row(row, token, top))
        .collect()
}

fn of_row(row: &[f32], token: TokenId, top: usize) -> TokenLogprobs {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mass: f64 = row.iter().map(|&logit| f64::from(logit - max).exp()).sum();
    let log_total = f64::from(max) + mass.ln();
    let of = |token: TokenId| f64::from(row[token as usize]) - log_total;
    let mut ids: Vec<TokenId> = (0..row.len() as TokenId).collect();
    let by_rank = |a: &TokenId, b: &TokenId| {
        let (x, y) = (row[*a as usize], row[*b as usize]);
        y.total_cmp(&x).then(a.cmp(b))
    };
    let top = top.min(ids.len());
    if top > 0 && top < ids.len() {
        ids.select_nth_unstable_by(top - 1, by_rank);
    }
    ids.truncate(top);
    ids.sort_unstable_by(by_rank);
    TokenLogprobs {
        logprob: of(token),
        top: ids.into_iter().map(|id| (id, of(id))).collect(),
    }
}

/// The nodes of a verified draft.
pub(crate) fn nodes(draft: &Draft, verdict: &Verdict) -> Vec<DraftNode> {
    let tree = draft.tree();
    let node = |node| DraftNode {
        token: tree.token(node),
        parent: tree.parent(node),
        proposer: draft.proposer(node),
        accepted: verdict.kept.contains(&node),
    };
    (0..tree.len()).map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_softmax_at_temperature_1() {
        let row = [1.0, 3.0, f32::NEG_INFINITY, 3.0];
        let found = of_row(&row, 0, 4);
        let total = (1f64.exp() + 2.0 * 3f64.exp()).ln();
        assert!((found.logprob - (1.0 - total)).abs() < 1e-12);
        let ids: Vec<TokenId> = found.top.iter().map(|top| top.0).collect();
        assert_eq!(ids, [1, 3, 0, 2], "ties by lower id");
        let mass: f64 = found.top.iter().map(|top| top.1.exp()).sum();
        assert!((mass - 1.0).abs() < 1e-12);
        assert_eq!(found.top[3].1, f64::NEG_INFINITY);
        assert_eq!(of_row(&row, 3, 2).top.len(), 2);
        assert_eq!(of_row(&row, 3, 0).top, []);
        assert_eq!(of_row(&row, 3, 99).top.len(), 4);
    }
}
