//! From logits on a device to the scores a caller wants, with one copy to the host.

use candle_core::{CpuStorage, DType, Device, Result, Storage, Tensor, D};
use cascade_core::{Matrix, Picks, Rows, Scores, TokenId, TokenTree, Want};

/// Reads scores off logits.
#[derive(Debug)]
pub(crate) struct Readout {
    /// `[1, vocabulary]` in f32: V, V - 1, …, 1, on devices other than the CPU.
    ranks: Option<Tensor>,
}

impl Readout {
    pub(crate) fn new(vocab_size: usize, device: &Device) -> Result<Self> {
        let ranks = (!device.is_cpu()).then(|| descending(vocab_size, device));
        Ok(Self {
            ranks: ranks.transpose()?,
        })
    }

    /// What `want` asks for, of `logits` (`[N + 1, vocabulary]`, f32) and `hidden` (`[N + 1, size]`) after the context
    /// and each node of `tree`. On a device this takes one copy to the host, of no more than what is wanted; on the CPU,
    /// logits are read where they lie.
    pub(crate) fn scores(
        &self,
        logits: &Tensor,
        hidden: &Tensor,
        tree: &TokenTree,
        want: Want,
        rows_computed: usize,
    ) -> Result<Scores> {
        let scores = match &self.ranks {
            None => on_host(logits, hidden, tree, want)?,
            Some(ranks) => on_device(logits, hidden, tree, want, ranks)?,
        };
        Ok(Scores {
            rows_computed,
            ..scores
        })
    }
}

fn descending(vocab_size: usize, device: &Device) -> Result<Tensor> {
    let ranks: Vec<f32> = (0..vocab_size).map(|i| (vocab_size - i) as f32).collect();
    Tensor::from_vec(ranks, (1, vocab_size), device)
}

fn on_host(logits: &Tensor, hidden: &Tensor, tree: &TokenTree, want: Want) -> Result<Scores> {
    let vocab_size = logits.dim(1)?;
    let (argmax, picks) = with_values(logits, |values| {
        let rows: Vec<&[f32]> = values.chunks_exact(vocab_size).collect();
        let argmax: Vec<TokenId> = rows.iter().map(|row| first_maximum(row)).collect();
        let picks = (want.rows == Rows::Picks).then(|| picks_on_host(&rows, &argmax, tree));
        (argmax, picks)
    })?;
    Ok(Scores {
        argmax,
        picks,
        logits: (want.rows == Rows::Logits)
            .then(|| matrix(logits))
            .transpose()?,
        hidden: want.hidden.then(|| matrix(hidden)).transpose()?,
        rows_computed: 0,
    })
}

/// Calls `read` with the values of a tensor in f32, without copying them if they lie contiguous on the host.
pub(crate) fn with_values<T>(tensor: &Tensor, read: impl FnOnce(&[f32]) -> T) -> Result<T> {
    let tensor = tensor.to_dtype(DType::F32)?.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let start = layout.start_offset();
    if let Storage::Cpu(CpuStorage::F32(values)) = &*storage {
        return Ok(read(&values[start..start + layout.shape().elem_count()]));
    }
    drop(storage);
    Ok(read(&tensor.flatten_all()?.to_vec1()?))
}

fn matrix(tensor: &Tensor) -> Result<Matrix> {
    let columns = tensor.dim(1)?;
    with_values(tensor, |values| Matrix::new(columns, values.to_vec()))
}

fn first_maximum(row: &[f32]) -> TokenId {
    let mut best = (0, f32::NEG_INFINITY);
    for (i, &value) in row.iter().enumerate() {
        if value > best.1 {
            best = (i, value);
        }
    }
    best.0 as TokenId
}

fn picks_on_host(rows: &[&[f32]], argmax: &[TokenId], tree: &TokenTree) -> Picks {
    let maxima: Vec<f32> = rows
        .iter()
        .zip(argmax)
        .map(|(row, &token)| row[token as usize])
        .collect();
    let of_argmax: Vec<f32> = rows
        .iter()
        .zip(&maxima)
        .map(|(row, max)| row.iter().map(|x| (x - max).exp()).sum::<f32>().recip())
        .collect();
    let of_node = |node| {
        let row = TokenTree::row(tree.parent(node));
        let logit = rows[row][tree.token(node) as usize];
        (logit - maxima[row]).exp() * of_argmax[row]
    };
    Picks {
        nodes: (0..tree.len()).map(of_node).collect(),
        argmax: of_argmax,
    }
}

/// Packs everything wanted into one f32 tensor and copies that. Ids below 2^24 are exact in f32.
fn on_device(
    logits: &Tensor,
    hidden: &Tensor,
    tree: &TokenTree,
    want: Want,
    ranks: &Tensor,
) -> Result<Scores> {
    let (rows, vocab_size) = logits.dims2()?;
    let mut parts = vec![first_maxima(logits, ranks)?];
    match want.rows {
        Rows::Argmax => {}
        Rows::Picks => parts.extend(picks_on_device(logits, tree)?),
        Rows::Logits => parts.push(logits.flatten_all()?),
    }
    if want.hidden {
        parts.push(hidden.to_dtype(DType::F32)?.flatten_all()?);
    }
    let packed = match parts.as_slice() {
        [part] => part.to_vec1()?,
        parts => Tensor::cat(parts, 0)?.to_vec1()?,
    };
    let mut packed = Unpacker(packed.as_slice());
    Ok(Scores {
        argmax: packed.ids(rows, vocab_size),
        picks: (want.rows == Rows::Picks).then(|| Picks {
            argmax: packed.take(rows),
            nodes: packed.take(tree.len()),
        }),
        logits: (want.rows == Rows::Logits)
            .then(|| Matrix::new(vocab_size, packed.take(rows * vocab_size))),
        hidden: want.hidden.then(|| {
            let size = hidden.dims()[1];
            Matrix::new(size, packed.take(rows * size))
        }),
        rows_computed: 0,
    })
}

/// Index of the first maximum of each row, as f32. The device's own argmax may name any of equals, and in bf16 the two
/// best logits are equal quite often.
fn first_maxima(logits: &Tensor, ranks: &Tensor) -> Result<Tensor> {
    let best = logits.broadcast_eq(&logits.max_keepdim(D::Minus1)?)?;
    let first = best
        .to_dtype(DType::F32)?
        .broadcast_mul(ranks)?
        .max(D::Minus1)?;
    first.affine(-1.0, logits.dim(1)? as f64)
}

fn picks_on_device(logits: &Tensor, tree: &TokenTree) -> Result<Vec<Tensor>> {
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
        let scores = on_host(&logits, &hidden, &tree, Want::ARGMAX).unwrap();
        assert_eq!(scores.argmax, [1, 0, 0, 3]);
        assert_eq!(first_maximum(&[f32::NAN, f32::NAN]), 0);
    }

    #[test]
    fn picks_are_probabilities_in_the_parents_row() {
        let (logits, hidden, tree) = sample();
        let scores = on_host(&logits, &hidden, &tree, Want::PICKS).unwrap();
        let picks = scores.picks.unwrap();
        let sum = (-1.5f32).exp() + 2.0 + (-3.0f32).exp();
        let close = |a: f32, b: f32| assert!((a - b).abs() < 1e-6, "{a} {b}");
        close(picks.argmax[0], 1.0 / sum);
        close(picks.nodes[0], 1.0 / sum);
        close(picks.nodes[1], (-1.5f32).exp() / sum);
        close(picks.nodes[2], picks.argmax[1]);
    }

    #[test]
    fn the_device_agrees_with_the_host() {
        let (logits, hidden, tree) = sample();
        let ranks = descending(4, &Device::Cpu).unwrap();
        for rows in [Rows::Argmax, Rows::Picks, Rows::Logits] {
            for hidden_wanted in [false, true] {
                let want = Want {
                    rows,
                    hidden: hidden_wanted,
                };
                let host = on_host(&logits, &hidden, &tree, want).unwrap();
                let device = on_device(&logits, &hidden, &tree, want, &ranks).unwrap();
                assert_eq!(host.argmax, device.argmax);
                assert_eq!((host.logits, host.hidden), (device.logits, device.hidden));
                match (host.picks, device.picks) {
                    (Some(host), Some(device)) => {
                        let pairs = host.argmax.iter().chain(&host.nodes);
                        for (a, b) in pairs.zip(device.argmax.iter().chain(&device.nodes)) {
                            assert!((a - b).abs() < 1e-6);
                        }
                    }
                    (host, device) => assert_eq!(host, device),
                }
            }
        }
    }
}
