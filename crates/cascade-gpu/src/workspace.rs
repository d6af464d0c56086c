//! Memory that forwards pass through, and the sizes that it follows from.

use crate::arguments::{Answer, Slice, Step, MAX_ROWS, SLICE};
use crate::{padded, Buffer, DType, Device, Heads, Linear, Result};

/// Sizes from which the workspace of a forward is allocated.
#[derive(Clone, Copy, Debug)]
pub struct WorkspaceSizes {
    /// Size of the residual stream.
    pub stream: usize,
    /// What norms add to the mean square.
    pub epsilon: f64,
    /// Most inputs of a linear map.
    pub input: usize,
    /// Most outputs of a linear map.
    pub outputs: usize,
    /// Most values that blocks which share a linear map leave for a row.
    pub partials: usize,
    /// Heads of attention, the same in all layers.
    pub heads: Heads,
    /// Columns of the logits.
    pub vocabulary: usize,
}

impl WorkspaceSizes {
    /// Sizes without room for any linear map yet.
    pub fn new(stream: usize, epsilon: f64, heads: Heads, vocabulary: usize) -> Self {
        Self {
            stream,
            epsilon,
            input: 0,
            outputs: 0,
            partials: 0,
            heads,
            vocabulary,
        }
    }

    /// Makes room for `linear`.
    pub fn cover(&mut self, linear: &Linear) {
        self.input = self.input.max(linear.inputs);
        self.outputs = self.outputs.max(linear.outputs);
        if linear.parts > 1 {
            self.partials = self.partials.max(linear.outputs * linear.parts);
        }
    }
}

/// Memory that forwards pass through.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) step: Buffer,
    pub(crate) answer: Buffer,
    pub(crate) stream: Buffer,
    /// Norm of the stream, up to a factor for each row that follows from `squares`.
    pub(crate) normed: Buffer,
    pub(crate) squares: Buffer,
    /// What attention gives.
    pub(crate) attended: Buffer,
    /// Inner layer of a feed-forward.
    pub(crate) inner: Buffer,
    pub(crate) partials: Buffer,
    /// Counters of blocks that are done with something, all zero between kernels.
    pub(crate) arrived: Buffer,
    pub(crate) queries: Buffer,
    /// What splits of the keys give, and their weights.
    pub(crate) mixed: Buffer,
    pub(crate) weights: Buffer,
    pub(crate) logits: Buffer,
    pub(crate) slices: Buffer,
    /// Splits that there is room for.
    pub(crate) splits: usize,
}

impl Workspace {
    pub(crate) fn new(
        device: &Device,
        dtype: DType,
        sizes: &WorkspaceSizes,
        splits: usize,
    ) -> Result<Self> {
        let heads = sizes.heads.queries;
        let padded = padded(sizes.heads.size)?;
        let slices = sizes.vocabulary.div_ceil(SLICE);
        let (mixed, weights) = split_buffers(device, (heads, padded), splits)?;
        let rows = |bytes: usize| device.allocate(MAX_ROWS * bytes);
        let counters = sizes.outputs.div_ceil(128).max(MAX_ROWS * heads);
        Ok(Self {
            step: device.allocate(size_of::<Step>())?,
            answer: device.allocate(size_of::<Answer>())?,
            stream: rows(sizes.stream * 4)?,
            normed: rows(sizes.stream * dtype.bytes())?,
            squares: rows(sizes.stream.div_ceil(16) * 4)?,
            attended: rows(heads * sizes.heads.size * dtype.bytes())?,
            inner: rows(sizes.input * dtype.bytes())?,
            partials: rows(sizes.partials.max(2 * sizes.vocabulary) * 4)?,
            arrived: device.zeroed(counters * 4)?,
            // Heads are padded with zeros that nobody writes again.
            queries: device.zeroed(MAX_ROWS * heads * padded * dtype.bytes())?,
            mixed,
            weights,
            logits: rows(sizes.vocabulary * 4)?,
            slices: rows(slices * size_of::<Slice>())?,
            splits,
        })
    }

    /// Makes room for more splits, of so many heads of this size each.
    pub(crate) fn widen(
        &mut self,
        device: &Device,
        shape: (usize, usize),
        splits: usize,
    ) -> Result<()> {
        (self.mixed, self.weights) = split_buffers(device, shape, splits)?;
        self.splits = splits;
        Ok(())
    }
}

fn split_buffers(
    device: &Device,
    (heads, padded): (usize, usize),
    splits: usize,
) -> Result<(Buffer, Buffer)> {
    let rows = splits * MAX_ROWS * heads;
    Ok((
        device.allocate(rows * padded * 4)?,
        device.allocate(rows * 2 * 4)?,
    ))
}
