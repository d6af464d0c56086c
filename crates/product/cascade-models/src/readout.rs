//! From logits to the scores a caller wants.

use std::cell::Cell;

use candle_core::{CpuStorage, DType, InplaceOp1, Layout, Storage, Tensor};
use candle_core::{Error as TensorError, Result as TensorResult};
use cascade_core::{Error, GatheredProbs, Matrix, Result, RowDetail, Scores, TokenTree, Top, Want};

use crate::rows::{entropy, first_maximum, greatest, Softmax};

/// What `want` asks for, of `logits` (`[N + 1, vocabulary]`, f32, in memory that no other tensor shares) and `hidden`
/// (`[N + 1, size]`) after the context and each node of `tree`. Logits are read where they lie, and handed out without a copy.
///
/// # Errors
/// [`Error::ImproperLogits`] for the first row that makes no distribution, whatever is wanted of it.
pub(crate) fn scores(
    logits: Tensor,
    hidden: &Tensor,
    tree: &TokenTree,
    want: Want,
) -> Result<Scores> {
    let vocab_size = logits.dim(1).map_err(Error::backend)?;
    let read = |values: &[f32]| read_rows(values, vocab_size, tree, want);
    let scores = with_values(&logits, read).map_err(Error::backend)??;
    let matrices = || {
        let logits = (want.rows == RowDetail::Logits).then(|| into_matrix(logits));
        let hidden = want.hidden.then(|| matrix(hidden));
        Ok((logits.transpose()?, hidden.transpose()?))
    };
    let (logits, hidden) = matrices().map_err(|error: TensorError| Error::backend(error))?;
    Ok(Scores {
        logits,
        hidden,
        ..scores
    })
}

/// All but the matrices, of logits on the host.
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
    Ok(Scores {
        gathered: (want.rows == RowDetail::Gathered)
            .then(|| gathered_probs(&rows, &softmaxes, tree)),
        entropy: want
            .entropy
            .then(|| rows.iter().map(|row| entropy(row)).collect()),
        top: (want.top > 0).then(|| top(&rows, &softmaxes, want.top.min(vocab_size))),
        argmax,
        ..Scores::default()
    })
}

/// Calls `read` with the values of a tensor in f32, without copying them if they lie contiguous on the host.
pub(crate) fn with_values<T>(tensor: &Tensor, read: impl FnOnce(&[f32]) -> T) -> TensorResult<T> {
    let tensor = tensor.to_dtype(DType::F32)?.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let start = layout.start_offset();
    if let Storage::Cpu(CpuStorage::F32(values)) = &*storage {
        return Ok(read(&values[start..start + layout.shape().elem_count()]));
    }
    drop(storage);
    Ok(read(&tensor.flatten_all()?.to_vec1()?))
}

fn matrix(tensor: &Tensor) -> TensorResult<Matrix> {
    let columns = tensor.dim(1)?;
    with_values(tensor, |values| Matrix::new(columns, values.to_vec()))
}

/// The same, without a copy, of an f32 tensor on the host whose memory no other tensor shares.
fn into_matrix(tensor: Tensor) -> TensorResult<Matrix> {
    let taken = TakeValues::default();
    tensor.inplace_op1(&taken)?;
    match taken.0.take() {
        Some(values) => Ok(Matrix::new(tensor.dim(1)?, values)),
        None => matrix(&tensor),
    }
}

/// Moves the values out of a tensor's storage, if they are all that it holds. Nothing may read the tensor afterwards.
#[derive(Default)]
struct TakeValues(Cell<Option<Vec<f32>>>);

impl InplaceOp1 for TakeValues {
    fn name(&self) -> &'static str {
        "take-values"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> TensorResult<()> {
        if let CpuStorage::F32(values) = storage {
            if layout.contiguous_offsets() == Some((0, values.len())) {
                self.0.set(Some(std::mem::take(values)));
            }
        }
        Ok(())
    }
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
    use candle_core::Device;

    fn sample() -> (Tensor, Tensor, TokenTree) {
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
        let hidden: Vec<f32> = (0..8).map(|i| i as f32).collect();
        (
            Tensor::from_vec(logits, (4, 4), &Device::Cpu).unwrap(),
            Tensor::from_vec(hidden, (4, 2), &Device::Cpu).unwrap(),
            tree,
        )
    }

    #[test]
    fn the_first_of_equals_wins() {
        let (logits, hidden, tree) = sample();
        let scores = scores(logits, &hidden, &tree, Want::ARGMAX).unwrap();
        assert_eq!(scores.argmax, [1, 0, 0, 3]);
    }

    #[test]
    fn picks_are_probabilities_in_the_parents_row() {
        let (logits, hidden, tree) = sample();
        let scores = scores(logits, &hidden, &tree, Want::GATHERED).unwrap();
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
        let (logits, hidden, tree) = sample();
        let want = Want::ARGMAX.with_entropy();
        let entropies = scores(logits, &hidden, &tree, want)
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
                [false, true].map(|hidden| Want {
                    rows,
                    top,
                    entropy: hidden != (top > 0),
                    hidden,
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
            let (logits, hidden, tree) = sample();
            let scores = scores(logits.clone(), &hidden, &tree, want).unwrap();
            assert_eq!(scores.gathered.is_some(), want.rows == RowDetail::Gathered);
            assert_eq!(scores.logits.is_some(), want.rows == RowDetail::Logits);
            assert_eq!(scores.entropy.is_some(), want.entropy);
            assert_eq!(scores.hidden.is_some(), want.hidden);
            assert_eq!(
                scores.top.map(|top| (top.width, top.tokens.len())),
                (want.top > 0).then(|| (want.top.min(4), 4 * want.top.min(4)))
            );
        }
    }

    #[test]
    fn the_top_is_sorted_and_agrees_with_the_picks() {
        let (logits, hidden, tree) = sample();
        let scores = scores(logits, &hidden, &tree, Want::GATHERED.with_top(9)).unwrap();
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
        let (logits, hidden, tree) = sample();
        let place = with_values(&logits, |values| values.as_ptr()).unwrap();
        let scores = scores(logits, &hidden, &tree, Want::LOGITS).unwrap();
        assert_eq!(scores.logits.unwrap().row(0).as_ptr(), place);
        // A view is copied.
        let view = sample().0.narrow(0, 1, 2).unwrap();
        let copied = into_matrix(view).unwrap();
        assert_eq!(
            (copied.rows(), copied.row(0)),
            (2, &[3.0, 0.0, 3.0, 3.0][..])
        );
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
            let logits = Tensor::new(&[good, *row], &Device::Cpu).unwrap();
            let hidden = sample().1.narrow(0, 0, 2).unwrap();
            match scores(logits, &hidden, &tree, want) {
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
