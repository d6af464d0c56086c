//! Checks the results of [`Scorer`](cascade_core::Scorer)s and [`Drafter`](cascade_core::Drafter)s,
//! in one place.
//!
//! Every call of a model passes through [`Metered`](crate::Metered), which checks the result here.
//! So a model that returns too few rows, or omits what was wanted, causes an error that names the
//! method, never a panic or a review that is silently stricter than configured. The cost of a check
//! does not depend on the vocabulary size.

use cascade_core::{Error, Result, RowDetail, ScoredTree, Scores, TokenId, TokenTree, Want};

const SCORE: &str = "Scorer::score";
const PROPOSE: &str = "Drafter::propose";

/// Checks the scores of `tree` against what was wanted.
pub(crate) fn check_scores(
    scores: &Scores,
    tree: &TokenTree,
    want: Want,
    vocab_size: usize,
) -> Result<()> {
    let rows = tree.len() + 1;
    let top = want.top.min(vocab_size);
    let gathered = want.rows == RowDetail::Gathered;
    let logits = want.rows == RowDetail::Logits;
    let sizes = [
        ("argmax", Some(scores.argmax.len()), Some(rows)),
        (
            "gathered.argmax",
            scores.gathered.as_ref().map(|g| g.argmax.len()),
            gathered.then_some(rows),
        ),
        (
            "gathered.nodes",
            scores.gathered.as_ref().map(|g| g.nodes.len()),
            gathered.then_some(tree.len()),
        ),
        (
            "top.width",
            scores.top.as_ref().map(|t| t.width),
            (top > 0).then_some(top),
        ),
        (
            "top.tokens",
            scores.top.as_ref().map(|t| t.tokens.len()),
            (top > 0).then_some(rows * top),
        ),
        (
            "logits.rows",
            scores.logits.as_ref().map(|m| m.rows()),
            logits.then_some(rows),
        ),
        (
            "logits.columns",
            scores.logits.as_ref().map(|m| m.columns()),
            logits.then_some(vocab_size),
        ),
        (
            "entropy",
            scores.entropy.as_ref().map(Vec::len),
            want.entropy.then_some(rows),
        ),
        (
            "hidden.rows",
            scores.hidden.as_ref().map(|m| m.rows()),
            want.hidden.then_some(rows),
        ),
    ];
    sizes
        .into_iter()
        .try_for_each(|(part, found, wanted)| check_size(part, found, wanted))
}

fn check_size(part: &'static str, found: Option<usize>, wanted: Option<usize>) -> Result<()> {
    match (found, wanted) {
        (_, None) => Ok(()),
        (Some(found), Some(wanted)) if found == wanted => Ok(()),
        (Some(found), Some(wanted)) => Err(broken(
            SCORE,
            format!("`{part}` must be {wanted}, and is {found}"),
        )),
        (None, Some(_)) => Err(broken(
            SCORE,
            format!("`{part}` was wanted, and is missing"),
        )),
    }
}

/// Checks a proposal: estimates for all nodes or none, each in `[0, 1]`, and tokens within the
/// target's vocabulary.
pub(crate) fn check_proposal(proposed: &ScoredTree, vocab_size: usize) -> Result<()> {
    let (nodes, estimates) = (proposed.tree.len(), proposed.probabilities.len());
    if estimates != 0 && estimates != nodes {
        let violation = format!("{estimates} probabilities for {nodes} nodes");
        return Err(broken(PROPOSE, violation));
    }
    let improper = |p: &&f32| !(0.0..=1.0).contains(*p);
    if let Some(p) = proposed.probabilities.iter().find(improper) {
        return Err(broken(PROPOSE, format!("{p} is not a probability")));
    }
    let outside = |&token: &TokenId| token as usize >= vocab_size;
    match proposed.tree.tokens().find(outside) {
        None => Ok(()),
        Some(token) => Err(broken(
            PROPOSE,
            format!("token {token} is outside the target's vocabulary of {vocab_size}"),
        )),
    }
}

fn broken(interface: &'static str, violation: String) -> Error {
    Error::BrokenContract {
        interface,
        violation,
    }
}
