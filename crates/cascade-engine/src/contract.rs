//! Checks the results of [`Scorer`](cascade_core::Scorer)s and [`Drafter`](cascade_core::Drafter)s,
//! in one place.
//!
//! Every call of a model is counted by its level, which checks the result here. So a model that
//! returns too few rows, or omits what was wanted, causes an error that names the method, never a
//! panic or a review that is silently stricter than configured. The cost of a check does not depend
//! on the vocabulary size.

use cascade_core::{
    Budget, Candidate, Error, Matrix, Proposal, Result, RowDetail, ScoredTree, Scores, TokenId,
    TokenTree, Want,
};

use crate::draft_settings::DraftSettings;

const SCORE: &str = "Scorer::score";
const PROPOSE: &str = "Drafter::propose";

/// The scores of `tree` after so many tokens, checked against what was wanted.
pub(crate) fn check_scores(
    scores: Scores,
    context: usize,
    tree: &TokenTree,
    want: Want,
    vocab_size: usize,
) -> Result<Scores> {
    let rows = tree.len() + 1;
    let top = want.top.min(vocab_size);
    let of = |wanted: bool, count: usize| wanted.then_some(count);
    let is_gathered = want.rows == RowDetail::Gathered;
    let has_logits = want.rows == RowDetail::Logits;
    let gathered = scores.gathered.as_ref();
    let most = gathered.map(|gathered| gathered.argmax.len());
    let nodes = gathered.map(|gathered| gathered.nodes.len());
    let tops = scores.top.as_ref();
    let (width, tokens) = (tops.map(|t| t.width), tops.map(|t| t.tokens.len()));
    let logits = scores.logits.as_ref();
    let (found_rows, columns) = (logits.map(Matrix::rows), logits.map(Matrix::columns));
    let entropy = scores.entropy.as_ref().map(Vec::len);
    let sizes = [
        ("argmax", Some(scores.argmax.len()), Some(rows)),
        ("gathered.argmax", most, of(is_gathered, rows)),
        ("gathered.nodes", nodes, of(is_gathered, tree.len())),
        ("top.width", width, of(top > 0, top)),
        ("top.tokens", tokens, of(top > 0, rows * top)),
        ("logits.rows", found_rows, of(has_logits, rows)),
        ("logits.columns", columns, of(has_logits, vocab_size)),
        ("entropy", entropy, of(want.entropy, rows)),
    ];
    sizes
        .into_iter()
        .try_for_each(|(part, found, wanted)| check_size(part, found, wanted))?;
    let rows = want.hidden_rows(context, tree.len());
    want.hidden.iter().try_for_each(|layer| {
        let found = scores.hidden.of(layer).map(Matrix::rows);
        check_size("hidden.rows", found, Some(rows))
    })?;
    Ok(scores)
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

/// Checks a proposal: estimates in `[0, 1]`, tokens within the target's vocabulary and, if tokens
/// were drawn, no more draws than the budget has nodes, since leaving some out would bias others;
/// each from a distribution over the target's vocabulary that has it, and siblings from one if
/// their order may change.
pub(crate) fn check_proposal(
    proposed: &ScoredTree,
    budget: Budget,
    settings: &DraftSettings,
) -> Result<()> {
    let vocab_size = settings.vocab_size;
    let tree = proposed.tree();
    let estimates = (0..tree.len()).filter_map(|node| proposed.probability(node));
    let improper = |p: &f32| !(0.0..=1.0).contains(p);
    if let Some(p) = estimates.into_iter().find(improper) {
        return Err(broken(PROPOSE, format!("{p} is not a probability")));
    }
    if proposed.is_drawn() {
        check_draws(proposed, budget, vocab_size)?;
        if settings.reorders {
            check_siblings(proposed)?;
        }
    }
    let outside = |&token: &TokenId| token as usize >= vocab_size;
    match tree.tokens().find(outside) {
        None => Ok(()),
        Some(token) => Err(broken(
            PROPOSE,
            format!("token {token} is outside the target's vocabulary of {vocab_size}"),
        )),
    }
}

fn check_draws(proposed: &ScoredTree, budget: Budget, vocab_size: usize) -> Result<()> {
    let tree = proposed.tree();
    let (draws, height) = (proposed.candidates().count(), tree.height());
    if draws > budget.nodes || height > budget.depth {
        let Budget { depth, nodes } = budget;
        let violation = format!(
            "{draws} draws, {height} tokens deep, where {nodes} and {depth} are allowed at most"
        );
        return Err(broken(PROPOSE, violation));
    }
    for Candidate { node, proposal } in proposed.candidates() {
        let token = tree.token(node);
        let Proposal::Sampled(q) = proposal else {
            continue;
        };
        if q.vocab_size() != vocab_size {
            let violation = format!(
                "token {token} was drawn from a distribution over {} tokens, and the target has {vocab_size}",
                q.vocab_size()
            );
            return Err(broken(PROPOSE, violation));
        }
        if q.probability(token) <= 0.0 {
            let violation = format!("token {token} was drawn, and its probability is 0");
            return Err(broken(PROPOSE, violation));
        }
    }
    Ok(())
}

/// Checks that siblings are drawn from one distribution: what some rule of the cascade considers in
/// random order must not depend on the order.
fn check_siblings(proposed: &ScoredTree) -> Result<()> {
    let tree = proposed.tree();
    let mut first: Vec<Option<Proposal>> = vec![None; tree.len() + 1];
    for Candidate { node, proposal } in proposed.candidates() {
        let first = &mut first[TokenTree::row(tree.parent(node))];
        if first.get_or_insert_with(|| proposal.clone()) != &proposal {
            let violation = "siblings are drawn from different distributions, and a rule of the \
                             cascade considers them in random order; use the rule `iterated`";
            return Err(broken(PROPOSE, violation.to_owned()));
        }
    }
    Ok(())
}

fn broken(interface: &'static str, violation: String) -> Error {
    Error::BrokenContract {
        interface,
        violation,
    }
}
