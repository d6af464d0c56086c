//! From logits to the scores a caller wants.

use cascade_core::{GatheredProbs, Matrix, Result, RowDetail, Scores, TokenTree, Top, Want};
use cascade_cpu::{Softmax, entropy, first_maximum, greatest};

/// What `want` asks for but hidden states, of `logits` (`[N + 1, vocabulary]`) after the context
/// and each node of `tree`. Logits are read where they lie, and handed out without a copy.
///
/// # Errors
/// [`ImproperLogits`](cascade_core::Error::ImproperLogits) for the first row that is not a valid
/// distribution, whatever is wanted of it.
pub(crate) fn scores(
    logits: Vec<f32>,
    vocab_size: usize,
    tree: &TokenTree,
    want: Want,
) -> Result<Scores> {
    scores_of_logits(Matrix::new(vocab_size, logits), tree, want)
}

/// What `want` asks for, of all logits (`[N + 1, vocabulary]`) after the context and each node of
/// `tree`: for scorers that compute nothing but logits. Hidden states are not among it, and neither
/// is how many rows were computed.
///
/// # Errors
/// [`ImproperLogits`](cascade_core::Error::ImproperLogits) for the first row that is not a valid
/// distribution, whatever is wanted of it.
///
/// # Panics
/// If there are not N + 1 rows.
pub fn scores_of_logits(logits: Matrix, tree: &TokenTree, want: Want) -> Result<Scores> {
    assert_eq!(logits.rows(), tree.len() + 1, "rows of logits for a tree");
    let columns = logits.columns();
    let scores = read_rows(logits.as_slice(), columns, tree, want)?;
    Ok(scores.with_logits((want.rows == RowDetail::Logits).then_some(logits)))
}

/// All but the matrices.
fn read_rows(values: &[f32], vocab_size: usize, tree: &TokenTree, want: Want) -> Result<Scores> {
    let rows: Vec<&[f32]> = values.chunks_exact(vocab_size).collect();
    let argmax = rows
        .iter()
        .map(|row| first_maximum(row))
        .collect::<Result<Vec<_>>>()?;
    let softmaxes: Vec<Softmax> = if want.rows == RowDetail::Gathered || want.top > 0 {
        let rows = rows.iter().zip(&argmax);
        rows.map(|(row, &token)| Softmax::new(row, row[token as usize]))
            .collect()
    } else {
        Vec::new()
    };
    Ok(Scores::default()
        .with_gathered(
            (want.rows == RowDetail::Gathered).then(|| gathered_probs(&rows, &softmaxes, tree)),
        )
        .with_entropy(
            want.entropy
                .then(|| rows.iter().map(|row| entropy(row)).collect()),
        )
        .with_top((want.top > 0).then(|| top(&rows, &softmaxes, want.top.min(vocab_size))))
        .with_argmax(argmax))
}

fn gathered_probs(rows: &[&[f32]], softmaxes: &[Softmax], tree: &TokenTree) -> GatheredProbs {
    let of_node = |node| {
        let row = TokenTree::row(tree.parent(node));
        softmaxes[row].probability(rows[row][tree.token(node) as usize])
    };
    GatheredProbs {
        argmax: softmaxes.iter().map(|row| row.greatest()).collect(),
        nodes: (0..tree.len()).map(of_node).collect(),
    }
}

fn top(rows: &[&[f32]], softmaxes: &[Softmax], width: usize) -> Top {
    let of_row = |(row, softmax): (&&[f32], &Softmax)| {
        let softmax = *softmax;
        let tokens = greatest(row, width).into_iter();
        tokens.map(move |(token, logit)| (token, softmax.probability(logit)))
    };
    Top {
        width,
        tokens: rows.iter().zip(softmaxes).flat_map(of_row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cascade_core::Error;

    const COLUMNS: usize = 4;

    fn sample() -> (Vec<f32>, TokenTree) {
        let mut tree = TokenTree::new();
        let first = tree.push(2, None);
        tree.push(0, None);
        tree.push(3, Some(first));
        let logits: Vec<f32> = vec![
            0.5, 2.0, 2.0, -1.0, // a tie: the first wins
            3.0, 0.0, 3.0, 3.0, //
            -5.0, -5.0, -6.0, -5.0, //
            0.0, 0.1, 0.2, 0.3,
        ];
        (logits, tree)
    }

    #[test]
    fn the_first_of_equals_wins() {
        let (logits, tree) = sample();
        let scores = scores(logits, COLUMNS, &tree, Want::ARGMAX).unwrap();
        assert_eq!(scores.argmax, [1, 0, 0, 3]);
    }

    #[test]
    fn picks_are_probabilities_in_the_parents_row() {
        let (logits, tree) = sample();
        let scores = scores(logits, COLUMNS, &tree, Want::GATHERED).unwrap();
        let picks = scores.gathered.unwrap();
        let sum = (-1.5f32).exp() + 2.0 + (-3.0f32).exp();
        let close = |a: f32, b: f32| assert!((a - b).abs() < 1e-6, "{a} {b}");
        close(picks.argmax[0], 1.0 / sum);
        close(picks.nodes[0], 1.0 / sum);
        close(picks.nodes[1], (-1.5f32).exp() / sum);
        close(picks.nodes[2], picks.argmax[1]);
    }

    #[test]
    fn entropies_are_those_of_the_softmax() {
        let (logits, tree) = sample();
        let want = Want::ARGMAX.with_entropy();
        let entropies = scores(logits, COLUMNS, &tree, want)
            .unwrap()
            .entropy
            .unwrap();
        let three = 3.0 * (3.0f64.exp()) + 1.0;
        let (p, q) = (3.0f64.exp() / three, 1.0 / three);
        let expected = -(3.0 * p * p.ln() + q * q.ln());
        assert!((f64::from(entropies[1]) - expected).abs() < 1e-6);
        assert_eq!(entropy(&[0.0, f32::NEG_INFINITY]), 0.0);
        assert!((entropy(&[7.0; 8]) - 8.0f32.ln()).abs() < 1e-6);
    }

    fn all_wants() -> impl Iterator<Item = Want> {
        let rows = [RowDetail::Argmax, RowDetail::Gathered, RowDetail::Logits].into_iter();
        rows.flat_map(|rows| {
            let with_top = move |top| {
                [false, true].map(|entropy| {
                    let mut want = Want::ARGMAX.with_rows(rows).with_top(top);
                    want.entropy = entropy;
                    want
                })
            };
            [0, 1, 3, 9].into_iter().flat_map(with_top)
        })
    }

    fn assert_close<'a>(
        a: impl IntoIterator<Item = &'a f32>,
        b: impl IntoIterator<Item = &'a f32>,
    ) {
        for (a, b) in a.into_iter().zip(b) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }

    #[test]
    fn there_is_what_was_wanted_and_no_more() {
        for want in all_wants() {
            let (logits, tree) = sample();
            let scores = scores(logits, COLUMNS, &tree, want).unwrap();
            assert_eq!(scores.gathered.is_some(), want.rows == RowDetail::Gathered);
            assert_eq!(scores.logits.is_some(), want.rows == RowDetail::Logits);
            assert_eq!(scores.entropy.is_some(), want.entropy);
            assert_eq!(
                scores.top.map(|top| (top.width, top.tokens.len())),
                (want.top > 0).then(|| (want.top.min(4), 4 * want.top.min(4)))
            );
        }
    }

    #[test]
    fn the_top_is_sorted_and_agrees_with_the_picks() {
        let (logits, tree) = sample();
        let scores = scores(logits, COLUMNS, &tree, Want::GATHERED.with_top(9)).unwrap();
        let (top, picks) = (scores.top.unwrap(), scores.gathered.unwrap());
        let tokens = |row: usize| top.row(row).iter().map(|t| t.0).collect::<Vec<_>>();
        assert_eq!(tokens(0), [1, 2, 0, 3]);
        assert_eq!(tokens(1), [0, 2, 3, 1]);
        assert_eq!(tokens(2), [0, 1, 3, 2]);
        assert_eq!(tokens(3), [3, 2, 1, 0]);
        for row in 0..4 {
            assert_eq!(top.row(row)[0], (scores.argmax[row], picks.argmax[row]));
            let sum: f32 = top.row(row).iter().map(|t| t.1).sum();
            assert_close([&sum], [&1.0]);
        }
        assert_eq!(top.row(0)[1], (2, picks.nodes[0]));
    }

    #[test]
    fn logits_are_handed_out_without_a_copy() {
        let (logits, tree) = sample();
        let place = logits.as_ptr();
        let scores = scores(logits, COLUMNS, &tree, Want::LOGITS).unwrap();
        assert_eq!(scores.logits.unwrap().row(0).as_ptr(), place);
    }

    #[test]
    fn rows_that_are_no_distribution_are_refused() {
        let good = [0.5, f32::NEG_INFINITY, 2.0, -1.0];
        let nan = [0.5, 1.0, f32::NAN, f32::NAN];
        let infinite = [f32::NEG_INFINITY, f32::INFINITY, 2.0, 1.0];
        let huge = [f32::MAX, f32::MAX, 0.0, 0.0];
        let cases = [
            (good, None),
            (huge, None),
            (nan, Some((2, "NaN"))),
            (infinite, Some((1, "inf"))),
            ([f32::NEG_INFINITY; 4], Some((0, "-inf"))),
        ];
        let tree = TokenTree::chain([1]);
        for ((row, refused), want) in cases
            .iter()
            .flat_map(|case| all_wants().map(move |want| (case, want)))
        {
            let logits = [good, *row].concat();
            match scores(logits, COLUMNS, &tree, want) {
                Ok(scores) => assert_eq!((&None, scores.argmax[0]), (refused, 2)),
                Err(Error::ImproperLogits { token, logit }) => {
                    let found = (token, logit.to_string());
                    assert_eq!(Some((found.0, found.1.as_str())), *refused);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}
