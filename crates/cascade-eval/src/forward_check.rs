//! Whether forwards say what they should: a row the same in any company, and what another device
//! says.

use cascade_core::{Error, Matrix, Result, Scorer, Scores, TokenId, TokenTree, Want};

use serde::Serialize;

use crate::forward_input::{Tokens, with_siblings};

/// Compares forwards of a scorer with each other, bit for bit, and with another scorer of the same
/// weights.
///
/// The rows of a text are scored one by one first. Then each number of rows is scored at once, as a
/// chain, and as a tree of which that chain is a path: those rows must have the very same logits.
#[derive(Clone, Debug)]
pub struct ForwardCheck {
    /// Context lengths before the rows.
    pub contexts: Vec<usize>,
    /// Numbers of rows of a forward.
    pub rows: Vec<usize>,
    /// Tokens of the source, for encoder-decoder models.
    pub source: usize,
    /// Seed of the random input tokens.
    pub seed: u64,
}

/// What a forward was compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// Rows of a chain with the same rows one by one.
    Chain,
    /// A path of a tree with the same rows one by one.
    Tree,
    /// All rows with those of the other scorer, which computes on the CPU.
    Cpu,
}

/// A forward that was compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CheckedForward {
    /// Tokens of the context.
    pub context: usize,
    /// Rows of the forward.
    pub rows: usize,
    /// With what.
    pub compared: Compared,
    /// Logits that differ in any bit from the same rows one by one.
    pub differing: Option<usize>,
    /// Root mean square of the differences, relative to that of the other's logits.
    pub distance: f64,
}

impl CheckedForward {
    /// Whether nothing differs from another device, or in other company, by more than a share
    /// `tolerance`; in company in no bit if rows are said to be `invariant`.
    pub fn passes(&self, tolerance: f64, invariant: bool) -> bool {
        match self.differing {
            Some(differing) if invariant => differing == 0,
            _ => self.distance <= tolerance,
        }
    }
}

impl ForwardCheck {
    /// Runs all comparisons that fit into the scorer's positions. `other` has the same weights.
    ///
    /// # Errors
    /// Errors of the scorers; no number of rows.
    pub fn run(
        &self,
        scorer: &mut dyn Scorer,
        mut other: Option<&mut dyn Scorer>,
    ) -> Result<Vec<CheckedForward>> {
        let mut tokens = Tokens::new(self.seed, scorer.info().vocab_size);
        let source = tokens.source(scorer, self.source);
        scorer.set_source(&source)?;
        if let Some(other) = &mut other {
            other.set_source(&source)?;
        }
        let mut checked = Vec::new();
        for &context in &self.contexts {
            let limit = scorer.info().max_context.unwrap_or(usize::MAX);
            let fits = |rows: &usize| *rows > 0 && context.saturating_add(*rows) <= limit;
            let rows: Vec<usize> = self.rows.iter().copied().filter(fits).collect();
            let Some(&most) = rows.iter().max() else {
                continue;
            };
            let text = tokens.take(context + most);
            let alone = one_by_one(scorer, &text, context)?;
            for rows in rows {
                let forward = (&text[..context], &text[context..context + rows - 1]);
                checked.extend(comparisons(scorer, &mut other, forward, &alone)?);
            }
        }
        Ok(checked)
    }
}

/// Forwards of a context with what follows it, as a chain and as a tree, compared with its rows
/// `alone`.
fn comparisons(
    scorer: &mut dyn Scorer,
    other: &mut Option<&mut dyn Scorer>,
    (context, drafted): (&[TokenId], &[TokenId]),
    alone: &[Vec<f32>],
) -> Result<Vec<CheckedForward>> {
    let rows = 0..drafted.len() + 1;
    let checked = |compared, differing, distance| CheckedForward {
        context: context.len(),
        rows: drafted.len() + 1,
        compared,
        differing,
        distance,
    };
    let in_company = |compared, scored: &Matrix, rows: &[usize]| {
        let differing = differing(alone, scored, rows.iter().copied());
        let distance = distance(alone, scored, rows.iter().copied());
        checked(compared, Some(differing), distance)
    };
    let chain = TokenTree::chain(drafted.iter().copied());
    let scored = logits(scorer.score(context, &chain, Want::LOGITS)?)?;
    let path: Vec<usize> = rows.clone().collect();
    let mut found = vec![in_company(Compared::Chain, &scored, &path)];
    if drafted.len() > 1 {
        let (tree, path) = with_siblings(drafted, drafted.len());
        let scored = logits(scorer.score(context, &tree, Want::LOGITS)?)?;
        found.push(in_company(Compared::Tree, &scored, &path));
    }
    if let Some(other) = other {
        let theirs = logits(other.score(context, &chain, Want::LOGITS)?)?;
        found.push(checked(Compared::Cpu, None, distance(alone, &theirs, rows)));
    }
    Ok(found)
}

/// Logits of each token of `text` behind a context, by forwards of one row.
fn one_by_one(scorer: &mut dyn Scorer, text: &[TokenId], context: usize) -> Result<Vec<Vec<f32>>> {
    let empty = TokenTree::default();
    let one = |length| {
        let scored = scorer.score(&text[..length], &empty, Want::LOGITS)?;
        Ok(logits(scored)?.row(0).to_vec())
    };
    (context..text.len()).map(one).collect()
}

fn logits(scores: Scores) -> Result<Matrix> {
    scores
        .logits
        .ok_or_else(|| Error::backend(std::io::Error::other("the model gave no logits")))
}

/// Numbers that differ in any bit between rows one by one and these rows of a forward.
fn differing(alone: &[Vec<f32>], scored: &Matrix, rows: impl Iterator<Item = usize>) -> usize {
    let pairs = alone.iter().zip(rows);
    let of_row = |(alone, row): (&Vec<f32>, usize)| {
        let numbers = alone.iter().zip(scored.row(row));
        numbers.filter(|(a, b)| a.to_bits() != b.to_bits()).count()
    };
    pairs.map(of_row).sum()
}

/// Root mean square of the differences of rows one by one from these rows, relative to these.
fn distance(ours: &[Vec<f32>], theirs: &Matrix, rows: impl Iterator<Item = usize>) -> f64 {
    let (mut apart, mut size) = (0.0, 0.0);
    for (ours, row) in ours.iter().zip(rows) {
        for (&ours, &theirs) in ours.iter().zip(theirs.row(row)) {
            apart += f64::from(ours - theirs).powi(2);
            size += f64::from(theirs).powi(2);
        }
    }
    (apart / size).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cascade_core::toy::ToyScorer;

    fn check() -> ForwardCheck {
        ForwardCheck {
            contexts: vec![1, 9],
            rows: vec![1, 4, 7],
            source: 3,
            seed: 1,
        }
    }

    #[test]
    fn what_is_the_same_passes_and_what_is_not_does_not() {
        let (mut scorer, mut same) = (ToyScorer::target("a", 16, 1), ToyScorer::target("b", 16, 1));
        let checked = check().run(&mut scorer, Some(&mut same)).unwrap();
        // Chains of each, trees of two, and the other, at two contexts.
        assert_eq!(checked.len(), 2 * (3 + 2 + 3));
        assert!(
            checked.iter().all(|forward| forward.passes(1e-9, true)),
            "{checked:?}"
        );
        let mut stranger = ToyScorer::target("c", 16, 2);
        let checked = check().run(&mut scorer, Some(&mut stranger)).unwrap();
        let failing = checked
            .iter()
            .filter(|forward| !forward.passes(0.01, false));
        assert_eq!(failing.count(), 2 * 3);
    }
}
