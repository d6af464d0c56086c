//! From logits on a device to the scores a caller wants, with one copy to the host.

use std::cell::Cell;

use candle_core::{CpuStorage, DType, Device, InplaceOp1, Layout, Storage, Tensor, D};
use candle_core::{Error as TensorError, Result as TensorResult};
use cascade_core::{Error, Matrix, Picks, Result, Rows, Scores, TokenId, TokenTree, Top, Want};

use crate::rows::{first_maximum, greatest, Softmax};

/// Reads scores off logits.
#[derive(Debug)]
pub(crate) struct Readout {
    /// `[1, vocabulary]` in f32: V, V - 1, …, 1, on devices other than the CPU.
    ranks: Option<Tensor>,
}

impl Readout {
    pub(crate) fn new(vocab_size: usize, device: &Device) -> TensorResult<Self> {
        let ranks = (!device.is_cpu()).then(|| descending(vocab_size, device));
        Ok(Self {
            ranks: ranks.transpose()?,
        })
    }

    /// What `want` asks for, of `logits` (`[N + 1, vocabulary]`, f32, in memory that no other tensor shares) and `hidden`
    /// (`[N + 1, size]`) after the context and each node of `tree`. On a device this takes one copy to the host, of no
    /// more than what is wanted (but for [`Want::top`], which takes whole rows); on the CPU, logits are read where they
    /// lie, and handed out without a copy.
    ///
    /// # Errors
    /// [`Error::ImproperLogits`] for the first row that makes no distribution, whatever is wanted of it; on a device,
    /// finding that token takes a copy of all rows. And what the device fails with.
    pub(crate) fn scores(
        &self,
        logits: Tensor,
        hidden: &Tensor,
        tree: &TokenTree,
        want: Want,
        rows_computed: usize,
    ) -> Result<Scores> {
        let scores = match &self.ranks {
            None => on_host(logits, hidden, tree, want)?,
            Some(ranks) => on_device(&logits, hidden, tree, want, ranks)?,
        };
        Ok(Scores {
            rows_computed,
            ..scores
        })
    }
}

fn descending(vocab_size: usize, device: &Device) -> TensorResult<Tensor> {
    let ranks: Vec<f32> = (0..vocab_size).map(|i| (vocab_size - i) as f32).collect();
    Tensor::from_vec(ranks, (1, vocab_size), device)
}

fn on_host(logits: Tensor, hidden: &Tensor, tree: &TokenTree, want: Want) -> Result<Scores> {
    let vocab_size = logits.dim(1).map_err(Error::backend)?;
    let read = |values: &[f32]| read_rows(values, vocab_size, tree, want);
    let scores = with_values(&logits, read).map_err(Error::backend)??;
    let matrices = || {
        let logits = (want.rows == Rows::Logits).then(|| into_matrix(logits));
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
    let softmaxes: Vec<Softmax> = if want.rows == Rows::Picks || want.top > 0 {
        let rows = rows.iter().zip(&argmax);
        rows.map(|(row, &token)| Softmax::new(row, row[token as usize]))
            .collect()
    } else {
        Vec::new()
    };
    Ok(Scores {
        picks: (want.rows == Rows::Picks).then(|| picks_on_host(&rows, &softmaxes, tree)),
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

fn picks_on_host(rows: &[&[f32]], softmaxes: &[Softmax], tree: &TokenTree) -> Picks {
    let of_node = |node| {
        let row = TokenTree::row(tree.parent(node));
        softmaxes[row].probability(rows[row][tree.token(node) as usize])
    };
    Picks {
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

fn on_device(
    logits: &Tensor,
    hidden: &Tensor,
    tree: &TokenTree,
    want: Want,
    ranks: &Tensor,
) -> Result<Scores> {
    // The tensor library has no kernel that selects the k greatest of a row, and sorting whole rows costs more than
    // copying them.
    if want.rows == Rows::Logits || want.top > 0 {
        return whole_rows(logits, hidden, tree, want);
    }
    let (scores, proper) =
        reduced_rows(logits, hidden, tree, want, ranks).map_err(Error::backend)?;
    if !proper {
        check_rows(logits)?;
    }
    Ok(scores)
}

/// Copies logits to the host, together with hidden states if those are wanted, and reads them there.
fn whole_rows(logits: &Tensor, hidden: &Tensor, tree: &TokenTree, want: Want) -> Result<Scores> {
    let copy = || {
        let mut parts = vec![logits.flatten_all()?];
        if want.hidden {
            parts.push(hidden.to_dtype(DType::F32)?.flatten_all()?);
        }
        Ok((packed(&parts)?, logits.dim(1)?, hidden.dim(1)?))
    };
    let (mut values, vocab_size, size) =
        copy().map_err(|error: TensorError| Error::backend(error))?;
    let states = values.split_off(logits.elem_count());
    let scores = read_rows(&values, vocab_size, tree, want)?;
    Ok(Scores {
        logits: (want.rows == Rows::Logits).then(|| Matrix::new(vocab_size, values)),
        hidden: want.hidden.then(|| Matrix::new(size, states)),
        ..scores
    })
}

/// Reduces rows on the device, packs everything wanted into one f32 tensor and copies that. Ids below 2^24 are exact in
/// f32. Tells, too, whether all logits are certainly finite.
///
/// The greatest value of a row says nothing of that: a device's reduction may pass over what is not a number (CUDA's
/// does). A sum does not: it is finite only if all its terms are. It may overflow or meet a single −∞, so a sum that is
/// not finite proves nothing.
fn reduced_rows(
    logits: &Tensor,
    hidden: &Tensor,
    tree: &TokenTree,
    want: Want,
    ranks: &Tensor,
) -> TensorResult<(Scores, bool)> {
    let (rows, vocab_size) = logits.dims2()?;
    let mut parts = vec![first_maxima(logits, ranks)?, logits.sum(D::Minus1)?];
    if want.rows == Rows::Picks {
        parts.extend(picks_on_device(logits, tree)?);
    }
    if want.hidden {
        parts.push(hidden.to_dtype(DType::F32)?.flatten_all()?);
    }
    let packed = packed(&parts)?;
    let mut packed = Unpacker(packed.as_slice());
    let argmax = packed.ids(rows, vocab_size);
    let proper = packed.take(rows).iter().all(|sum| sum.is_finite());
    let scores = Scores {
        argmax,
        picks: (want.rows == Rows::Picks).then(|| Picks {
            argmax: packed.take(rows),
            nodes: packed.take(tree.len()),
        }),
        hidden: want.hidden.then(|| {
            let size = hidden.dims()[1];
            Matrix::new(size, packed.take(rows * size))
        }),
        ..Scores::default()
    };
    Ok((scores, proper))
}

/// Copies flat f32 tensors to the host as one.
fn packed(parts: &[Tensor]) -> TensorResult<Vec<f32>> {
    match parts {
        [part] => part.to_vec1(),
        parts => Tensor::cat(parts, 0)?.to_vec1(),
    }
}

/// Whether each row makes a distribution, found out on the host.
fn check_rows(logits: &Tensor) -> Result<()> {
    let check = |values: &[f32]| {
        let vocab_size = logits.dims()[1];
        let mut rows = values.chunks_exact(vocab_size);
        rows.try_for_each(|row| first_maximum(row).map(drop))
    };
    with_values(logits, check).map_err(Error::backend)?
}

/// Index of the first maximum of each row, as f32. The device's own argmax may name any of equals, and in bf16 the two
/// best logits are equal quite often.
fn first_maxima(logits: &Tensor, ranks: &Tensor) -> TensorResult<Tensor> {
    let best = logits.broadcast_eq(&logits.max_keepdim(D::Minus1)?)?;
    let first = best
        .to_dtype(DType::F32)?
        .broadcast_mul(ranks)?
        .max(D::Minus1)?;
    first.affine(-1.0, logits.dim(1)? as f64)
}

fn picks_on_device(logits: &Tensor, tree: &TokenTree) -> TensorResult<Vec<Tensor>> {
    let vocab_size = logits.dim(1)?;
    let probabilities = candle_nn::ops::softmax_last_dim(logits)?;
    let mut picks = vec![probabilities.max(D::Minus1)?];
    if !tree.is_empty() {
        let places: Vec<u32> = (0..tree.len())
            .map(|node| TokenTree::row(tree.parent(node)) * vocab_size + tree.token(node) as usize)
            .map(|place| place as u32)
            .collect();
        let places = Tensor::new(places, logits.device())?;
        picks.push(probabilities.flatten_all()?.index_select(&places, 0)?);
    }
    Ok(picks)
}

struct Unpacker<'a>(&'a [f32]);

impl Unpacker<'_> {
    fn take(&mut self, count: usize) -> Vec<f32> {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken.to_vec()
    }

    /// Ids below `vocab_size`, even if a row was not a number.
    fn ids(&mut self, count: usize, vocab_size: usize) -> Vec<TokenId> {
        let ids = self.take(count).into_iter();
        ids.map(|id| (id as TokenId).min(vocab_size as TokenId - 1))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let scores = on_host(logits, &hidden, &tree, Want::ARGMAX).unwrap();
        assert_eq!(scores.argmax, [1, 0, 0, 3]);
    }

    #[test]
    fn picks_are_probabilities_in_the_parents_row() {
        let (logits, hidden, tree) = sample();
        let scores = on_host(logits, &hidden, &tree, Want::PICKS).unwrap();
        let picks = scores.picks.unwrap();
        let sum = (-1.5f32).exp() + 2.0 + (-3.0f32).exp();
        let close = |a: f32, b: f32| assert!((a - b).abs() < 1e-6, "{a} {b}");
        close(picks.argmax[0], 1.0 / sum);
        close(picks.nodes[0], 1.0 / sum);
        close(picks.nodes[1], (-1.5f32).exp() / sum);
        close(picks.nodes[2], picks.argmax[1]);
    }

    fn all_wants() -> impl Iterator<Item = Want> {
        let rows = [Rows::Argmax, Rows::Picks, Rows::Logits].into_iter();
        rows.flat_map(|rows| {
            let with_top = move |top| [false, true].map(|hidden| Want { rows, top, hidden });
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
    fn the_device_agrees_with_the_host() {
        let (logits, hidden, tree) = sample();
        let ranks = descending(4, &Device::Cpu).unwrap();
        for want in all_wants() {
            let host = on_host(logits.copy().unwrap(), &hidden, &tree, want).unwrap();
            let device = on_device(&logits, &hidden, &tree, want, &ranks).unwrap();
            assert_eq!(host.argmax, device.argmax);
            assert_eq!((host.logits, host.hidden), (device.logits, device.hidden));
            assert_eq!(host.top, device.top);
            match (host.picks, device.picks) {
                (Some(host), Some(device)) => {
                    assert_close(&host.argmax, &device.argmax);
                    assert_close(&host.nodes, &device.nodes);
                }
                (host, device) => assert_eq!(host, device),
            }
        }
    }

    #[test]
    fn there_is_what_was_wanted_and_no_more() {
        for want in all_wants() {
            let (logits, hidden, tree) = sample();
            let scores = on_host(logits.clone(), &hidden, &tree, want).unwrap();
            assert_eq!(scores.picks.is_some(), want.rows == Rows::Picks);
            assert_eq!(scores.logits.is_some(), want.rows == Rows::Logits);
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
        let scores = on_host(logits, &hidden, &tree, Want::PICKS.with_top(9)).unwrap();
        let (top, picks) = (scores.top.unwrap(), scores.picks.unwrap());
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
        let scores = on_host(logits, &hidden, &tree, Want::LOGITS).unwrap();
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
        let ranks = descending(4, &Device::Cpu).unwrap();
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
            let device = on_device(&logits, &hidden, &tree, want, &ranks);
            for scores in [on_host(logits, &hidden, &tree, want), device] {
                match scores {
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
}
