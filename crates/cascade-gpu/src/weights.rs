//! Weights on their way to a device, and in the order that kernels read them.

use std::borrow::Cow;

use half::{bf16, f16};

use crate::arguments::{FillArguments, PackArguments, MAX_PARTS};
use crate::dtype::{BLOCK, BLOCK_BYTES};
use crate::launch::{Kernel, Launch};
use crate::{padded, Address, Buffer, DType, Device, Error, Heads, Result, StorageDType};

/// Where the values of a tensor come from.
#[derive(Clone, Debug)]
pub enum TensorSource<'a> {
    /// From the host.
    Values {
        /// Their type.
        stored: StorageDType,
        /// The values, row-major and little-endian.
        bytes: Cow<'a, [u8]>,
    },
    /// From a generator on the device: values spread evenly between minus and plus this one, for
    /// measurements. Norms become 1.
    Random(f32),
}

/// Gives tensors by name and expected shape.
pub trait Weights {
    /// The tensor `name`.
    ///
    /// # Errors
    /// If it is missing or has another shape.
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<TensorSource<'_>>;

    /// The matrix `name`, `[outputs, inputs]`, in [blocks](StorageDType::Q8). Only models in
    /// [`DType::Q8`] ask for them.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor), and if there are none, as by default.
    fn blocks(&self, name: &str, _shape: [usize; 2]) -> Result<TensorSource<'_>> {
        Err(Error::Weights(
            format!("{name} is not there in blocks of 8 bits").into(),
        ))
    }
}

/// Puts weights into a device's memory.
pub struct Loader<'a> {
    device: &'a Device,
    dtype: DType,
    weights: &'a dyn Weights,
    /// Where tensors lie as stored, before they are packed.
    staging: Option<Buffer>,
    parameters: usize,
    seed: u32,
}

/// What lies in the staging buffer.
#[derive(Default)]
struct Staged {
    bytes: usize,
    /// Of all of them.
    dtype: Option<StorageDType>,
}

/// The part of a linear map that tensors go to.
#[derive(Clone, Copy)]
struct Destination<'a> {
    /// The output that they begin at.
    first: usize,
    /// How many outputs, and of how many each the first half alternates with the second in eights
    /// (0: none).
    runs: &'a [(usize, usize)],
    layout: Layout,
}

/// How weights lie in a device's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Row by row, as they are stored.
    Rows,
    /// In the tiles that tensor cores read.
    Tiles,
}

/// A linear map, several of the same input side by side, or a gate and what it gates.
#[derive(Debug)]
pub struct Linear {
    pub(crate) weight: Buffer,
    /// In the order of the outputs.
    pub(crate) bias: Option<Buffer>,
    pub(crate) inputs: usize,
    /// In whole tiles of sixteen.
    pub(crate) outputs: usize,
    /// Outputs that there are.
    pub(crate) columns: usize,
    pub(crate) order: Order,
    /// Ranges of the inputs that are summed apart.
    pub(crate) parts: usize,
    pub(crate) dtype: DType,
}

/// How the outputs of a linear map follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As they are stored.
    Plain,
    /// Eight gates, eight of what they gate.
    Gated,
    /// In heads of this size that are rotated, eight of the first half, eight of the second; behind
    /// the first so many outputs as they are stored.
    Rotated { head: usize, outputs: usize },
}

impl Order {
    /// Runs of outputs: how many, and of how many each the first half alternates with the second
    /// in eights (0: none).
    fn runs(self, outputs: usize) -> Vec<(usize, usize)> {
        match self {
            Self::Plain => vec![(outputs, 0)],
            Self::Gated => vec![(outputs, outputs)],
            Self::Rotated {
                head,
                outputs: rotated,
            } => vec![(rotated, head), (outputs - rotated, 0)],
        }
    }

    /// Values of outputs as they are stored, in this order.
    fn arrange(self, values: &[f32]) -> Vec<f32> {
        let mut rest = values;
        let mut arranged = Vec::with_capacity(values.len());
        for (count, alternating) in self.runs(values.len()) {
            let (run, after) = rest.split_at(count);
            rest = after;
            match alternating {
                0 => arranged.extend(run),
                alternating => arranged.extend(run.chunks(alternating).flat_map(alternate)),
            }
        }
        arranged
    }
}

/// Eight values of the first half, eight of the second, and so on.
fn alternate(values: &[f32]) -> Vec<f32> {
    let (first, second) = values.split_at(values.len() / 2);
    let eights = first.chunks(8).zip(second.chunks(8));
    eights.flat_map(|(a, b)| [a, b].concat()).collect()
}

/// An embedding: rows that are looked up.
#[derive(Debug)]
pub struct Table {
    pub(crate) rows: Buffer,
    pub(crate) size: usize,
    /// Whether rows are [blocks](StorageDType::Q8).
    pub(crate) blocks: bool,
}

/// A root-mean-square norm.
#[derive(Debug)]
pub struct Norm {
    pub(crate) weight: Buffer,
    pub(crate) size: usize,
}

impl<'a> Loader<'a> {
    /// Loads for a model that computes in `dtype` on `device`.
    pub fn new(device: &'a Device, dtype: DType, weights: &'a dyn Weights) -> Self {
        Self {
            device,
            dtype,
            weights,
            staging: None,
            parameters: 0,
            seed: 0,
        }
    }

    /// Parameters loaded so far.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// Linear maps of the same input, outputs side by side: `[outputs, inputs]` each.
    ///
    /// # Errors
    /// [`Error::Size`] for sizes that tiles do not divide, and what loading fails with.
    pub fn linear(&mut self, inputs: usize, maps: &[(&str, usize)]) -> Result<Linear> {
        let outputs = maps.iter().map(|&(_, outputs)| outputs).sum();
        let mut linear = self.empty(maps[0].0, inputs, outputs, Order::Plain)?;
        self.put_side_by_side(&mut linear, 0, maps, 0)?;
        Ok(linear)
    }

    /// Queries, keys and values of heads whose queries and keys are rotated, side by side.
    ///
    /// # Errors
    /// As for [`linear`](Self::linear), and for heads of sizes that there are no kernels for.
    pub fn rotated(
        &mut self,
        inputs: usize,
        heads: Heads,
        [queries, keys, values]: [&str; 3],
    ) -> Result<Linear> {
        padded(heads.size)?;
        let (of_queries, of_keys) = (heads.queries * heads.size, heads.kv * heads.size);
        let outputs = of_queries + 2 * of_keys;
        let order = rotated_order(heads);
        let mut linear = self.empty(queries, inputs, outputs, order)?;
        let rotated = [(queries, of_queries), (keys, of_keys)];
        self.put_side_by_side(&mut linear, 0, &rotated, heads.size)?;
        self.put_side_by_side(&mut linear, of_queries + of_keys, &[(values, of_keys)], 0)?;
        Ok(linear)
    }

    /// The same, stored as one tensor: queries, keys and values below one another.
    ///
    /// # Errors
    /// As for [`rotated`](Self::rotated).
    pub fn rotated_as_one(&mut self, inputs: usize, heads: Heads, name: &str) -> Result<Linear> {
        padded(heads.size)?;
        let outputs = (heads.queries + 2 * heads.kv) * heads.size;
        let order = rotated_order(heads);
        let mut linear = self.empty(name, inputs, outputs, order)?;
        self.pack(&mut linear, &[(name, outputs)], &order.runs(outputs), 0)?;
        Ok(linear)
    }

    /// A gate and what it gates, stored as one tensor: one below the other.
    ///
    /// # Errors
    /// As for [`gated`](Self::gated).
    pub fn gated_as_one(&mut self, inputs: usize, name: &str, both: usize) -> Result<Linear> {
        let mut linear = self.empty(name, inputs, both, Order::Gated)?;
        self.pack(&mut linear, &[(name, both)], &[(both, both)], 0)?;
        Ok(linear)
    }

    /// Gives a linear map the biases of the maps that it was loaded from, in the same order: names
    /// and outputs.
    ///
    /// # Errors
    /// What loading fails with.
    ///
    /// # Panics
    /// If they are not as many as the outputs.
    pub fn bias(&mut self, linear: &mut Linear, maps: &[(&str, usize)]) -> Result<()> {
        let mut values = Vec::with_capacity(linear.outputs);
        for &(name, outputs) in maps {
            values.extend(self.on_host(name, &[outputs])?);
        }
        assert_eq!(values.len(), linear.outputs, "biases of another map");
        let arranged = linear.order.arrange(&values);
        linear.bias = Some(self.device.upload(&arranged)?);
        Ok(())
    }

    /// Two linear maps of the same input, the first of which gates the second.
    ///
    /// # Errors
    /// As for [`linear`](Self::linear).
    pub fn gated(&mut self, inputs: usize, gate: &str, up: &str, inner: usize) -> Result<Linear> {
        if !inner.is_multiple_of(8) {
            return Err(Error::Size {
                what: format!("the number of outputs of {gate}"),
                size: inner,
                needed: "a multiple of 8",
            });
        }
        let mut linear = self.empty(gate, inputs, 2 * inner, Order::Gated)?;
        let both = 2 * inner;
        self.pack(
            &mut linear,
            &[(gate, inner), (up, inner)],
            &[(both, both)],
            0,
        )?;
        Ok(linear)
    }

    /// The linear map that gives logits: any number of them.
    ///
    /// # Errors
    /// As for [`linear`](Self::linear).
    pub fn head(&mut self, inputs: usize, name: &str, vocabulary: usize) -> Result<Linear> {
        let outputs = vocabulary.next_multiple_of(16);
        let mut linear = self.empty(name, inputs, outputs, Order::Plain)?;
        linear.columns = vocabulary;
        self.pack(&mut linear, &[(name, vocabulary)], &[(vocabulary, 0)], 0)?;
        Ok(linear)
    }

    /// An embedding `[rows, size]`.
    ///
    /// # Errors
    /// What loading fails with.
    pub fn table(&mut self, name: &str, rows: usize, size: usize) -> Result<Table> {
        let blocks = self.dtype == DType::Q8;
        let rows = if blocks {
            self.table_of_blocks(name, rows, size)?
        } else {
            self.table_of_numbers(name, rows, size)?
        };
        Ok(Table { rows, size, blocks })
    }

    fn table_of_numbers(&mut self, name: &str, rows: usize, size: usize) -> Result<Buffer> {
        let mut linear = Linear {
            weight: self.device.allocate(self.dtype.weight_bytes(rows * size))?,
            bias: None,
            inputs: size,
            outputs: rows,
            columns: rows,
            order: Order::Plain,
            parts: 1,
            dtype: self.dtype,
        };
        let whole = Destination {
            first: 0,
            runs: &[(rows, 0)],
            layout: Layout::Rows,
        };
        self.place(&mut linear, &[(name, rows)], whole)?;
        Ok(linear.weight)
    }

    /// Blocks as they are stored.
    fn table_of_blocks(&mut self, name: &str, rows: usize, size: usize) -> Result<Buffer> {
        self.check_inputs(name, size)?;
        self.parameters += rows * size;
        let bytes = match self.weights.blocks(name, [rows, size])? {
            TensorSource::Random(scale) => Cow::Owned(random_blocks(rows * size / BLOCK, scale)),
            TensorSource::Values { stored, bytes } => {
                let needed = StorageDType::Q8.bytes(rows * size);
                check_stored(name, stored, bytes.len(), StorageDType::Q8, needed)?;
                bytes
            }
        };
        self.device.upload(&bytes)
    }

    /// The weight of a norm.
    ///
    /// # Errors
    /// [`Error::Size`] unless sixteen divides the size, and what loading fails with.
    pub fn norm(&mut self, name: &str, size: usize) -> Result<Norm> {
        tiles_divide(name, "elements of a norm", size)?;
        let weight = match self.weights.tensor(name, &[size])? {
            TensorSource::Random(_) => vec![1.0; size],
            content => host_values(content, size),
        };
        self.parameters += size;
        Ok(Norm {
            weight: self.device.upload(&weight)?,
            size,
        })
    }

    /// A small tensor, on the host.
    ///
    /// # Errors
    /// What reading fails with.
    pub fn on_host(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let count = shape.iter().product();
        self.parameters += count;
        Ok(host_values(self.weights.tensor(name, shape)?, count))
    }

    fn empty(&self, name: &str, inputs: usize, outputs: usize, order: Order) -> Result<Linear> {
        self.check_inputs(name, inputs)?;
        tiles_divide(name, "outputs of a linear map", outputs)?;
        Ok(Linear {
            weight: self
                .device
                .allocate(self.dtype.weight_bytes(outputs * inputs))?,
            bias: None,
            inputs,
            outputs,
            columns: outputs,
            order,
            parts: match self.dtype {
                DType::F32 => 1,
                _ => parts(inputs, outputs, self.device.slots()),
            },
            dtype: self.dtype,
        })
    }

    fn check_inputs(&self, name: &str, inputs: usize) -> Result<()> {
        if self.dtype != DType::F32 && !inputs.is_multiple_of(BLOCK) {
            Err(Error::Size {
                what: format!("the number of inputs of {name}"),
                size: inputs,
                needed: "a multiple of 32",
            })
        } else {
            Ok(())
        }
    }

    /// Puts tensors into `linear`, one after the other, from the output `first` on.
    fn put_side_by_side(
        &mut self,
        linear: &mut Linear,
        mut first: usize,
        maps: &[(&str, usize)],
        alternating: usize,
    ) -> Result<()> {
        for &(name, outputs) in maps {
            tiles_divide(name, "outputs of a linear map", outputs)?;
            self.pack(linear, &[(name, outputs)], &[(outputs, alternating)], first)?;
            first += outputs;
        }
        Ok(())
    }

    fn pack(
        &mut self,
        linear: &mut Linear,
        sources: &[(&str, usize)],
        runs: &[(usize, usize)],
        first: usize,
    ) -> Result<()> {
        let layout = match self.dtype {
            DType::F32 => Layout::Rows,
            _ => Layout::Tiles,
        };
        let destination = Destination {
            first,
            runs,
            layout,
        };
        self.place(linear, sources, destination)
    }

    /// Puts the tensors `sources` (names and rows), below one another, into `linear`.
    fn place(
        &mut self,
        linear: &mut Linear,
        sources: &[(&str, usize)],
        destination: Destination<'_>,
    ) -> Result<()> {
        let outputs: usize = sources.iter().map(|&(_, rows)| rows).sum();
        self.parameters += outputs * linear.inputs;
        match self.stage_all(linear, sources, destination.first)? {
            Some(stored) => self.pack_staged(linear, stored, destination),
            None => Ok(()),
        }
    }

    /// Copies tensors to the staging buffer, below one another, and returns what they are stored
    /// in. Those of a generator are made in `linear` instead, from the output `first` on.
    fn stage_all(
        &mut self,
        linear: &Linear,
        sources: &[(&str, usize)],
        first: usize,
    ) -> Result<Option<StorageDType>> {
        let (inputs, weights) = (linear.inputs, self.weights);
        let outputs: usize = sources.iter().map(|&(_, rows)| rows).sum();
        let (mut staged, mut generated) = (Staged::default(), first);
        for &(name, rows) in sources {
            let tensor = match self.dtype {
                DType::Q8 => weights.blocks(name, [rows, inputs])?,
                _ => weights.tensor(name, &[rows, inputs])?,
            };
            match tensor {
                TensorSource::Random(scale) => {
                    self.generate(linear, generated, rows, scale)?;
                    generated += rows;
                }
                TensorSource::Values { stored, bytes } => {
                    self.check(name, stored, &bytes, rows * inputs)?;
                    self.reserve_staging(stored.bytes(outputs * inputs))?;
                    self.stage(&mut staged, name, stored, &bytes)?;
                }
            }
        }
        Ok(staged.dtype)
    }

    /// Refuses values that the model's type cannot be made of.
    fn check(&self, name: &str, stored: StorageDType, bytes: &[u8], count: usize) -> Result<()> {
        match self.dtype {
            DType::Q8 => {
                let needed = StorageDType::Q8.bytes(count);
                check_stored(name, stored, bytes.len(), StorageDType::Q8, needed)
            }
            DType::F16 => check_range(name, stored, bytes),
            DType::F32 | DType::BF16 => Ok(()),
        }
    }

    /// Packs what lies in the staging buffer, one launch for each run.
    fn pack_staged(
        &self,
        linear: &Linear,
        stored: StorageDType,
        Destination {
            first,
            runs,
            layout,
        }: Destination<'_>,
    ) -> Result<()> {
        let Some(staging) = &self.staging else {
            return Ok(());
        };
        let (inputs, mut done) = (linear.inputs, 0);
        for &(outputs, alternating) in runs {
            let arguments = PackArguments {
                from: staging.address() + stored.bytes(done * inputs) as Address,
                to: linear.weight.address(),
                outputs: outputs as u32,
                inputs: inputs as u32,
                kind: stored.number(),
                to_kind: self.dtype.number(),
                alternating: alternating as u32,
                packed: u32::from(layout == Layout::Tiles),
                first_output: (first + done) as u32,
                all_outputs: linear.outputs as u32,
            };
            let (kernel, blocks) = match self.dtype {
                // A block has a tile of outputs.
                DType::Q8 => (Kernel::PackQ8, outputs.div_ceil(16)),
                _ => (Kernel::Pack, outputs),
            };
            self.device
                .launch(&Launch::new(kernel, [blocks, 1, 1], 128, arguments))?;
            done += outputs;
        }
        Ok(())
    }

    /// Makes the weights of `rows` outputs, from `first` on.
    fn generate(&mut self, linear: &Linear, first: usize, rows: usize, scale: f32) -> Result<()> {
        let (at, count) = (first * linear.inputs, rows * linear.inputs);
        let to = linear.weight.address();
        if self.dtype != DType::Q8 {
            let to = to + (at * self.dtype.bytes()) as Address;
            return self.fill(to, count, self.dtype.number(), scale);
        }
        // Integers, then a scale for each block, in any order: they are all alike.
        let integers = linear.outputs * linear.inputs;
        let scales = vec![integer_scale(scale); count / BLOCK];
        linear.weight.write(integers + at / BLOCK * 2, &scales)?;
        let kind = StorageDType::Q8.number();
        self.fill(to + at as Address, count / 4, kind, 0.0)
    }

    fn reserve_staging(&mut self, bytes: usize) -> Result<()> {
        if self.staging.as_ref().is_none_or(|b| b.bytes() < bytes) {
            // Freed first: both together might not fit.
            self.staging = None;
            self.staging = Some(self.device.allocate(bytes)?);
        }
        Ok(())
    }

    /// Copies a tensor to the staging buffer, behind those that are there.
    fn stage(
        &self,
        staged: &mut Staged,
        name: &str,
        stored: StorageDType,
        bytes: &[u8],
    ) -> Result<()> {
        if let Some(staging) = &self.staging {
            staging.write(staged.bytes, bytes)?;
        }
        staged.bytes += bytes.len();
        match staged.dtype.replace(stored) {
            Some(other) if other != stored => Err(Error::Weights(
                format!("{name} is stored in another type than its neighbour").into(),
            )),
            _ => Ok(()),
        }
    }

    fn fill(&mut self, to: Address, count: usize, kind: u32, scale: f32) -> Result<()> {
        self.seed += 1;
        let arguments = FillArguments {
            to,
            count: count as u64,
            kind,
            seed: self.seed,
            scale,
            unused: 0,
        };
        let blocks = count.div_ceil(256).clamp(1, 4096);
        self.device
            .launch(&Launch::new(Kernel::Fill, [blocks, 1, 1], 256, arguments))
    }
}

fn host_values(content: TensorSource<'_>, count: usize) -> Vec<f32> {
    let (stored, bytes) = match content {
        TensorSource::Random(scale) => {
            // Any values will do.
            let number = |i: usize| scale * ((i * 7919 % 1009) as f32 / 504.5 - 1.0);
            return (0..count).map(number).collect();
        }
        TensorSource::Values { stored, bytes } => (stored, bytes),
    };
    let halves = || bytes.chunks_exact(2).map(|b| [b[0], b[1]]);
    match stored {
        StorageDType::F32 => {
            let words = bytes.chunks_exact(4);
            words
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect()
        }
        StorageDType::BF16 => halves().map(|b| bf16::from_le_bytes(b).to_f32()).collect(),
        StorageDType::F16 => halves().map(|b| f16::from_le_bytes(b).to_f32()).collect(),
        StorageDType::Q8 => bytes.chunks_exact(BLOCK_BYTES).flat_map(unpacked).collect(),
    }
}

/// The weights of a block.
fn unpacked(block: &[u8]) -> impl Iterator<Item = f32> + '_ {
    let scale = f16::from_le_bytes([block[0], block[1]]).to_f32();
    block[2..]
        .iter()
        .map(move |&byte| scale * f32::from(byte as i8))
}

/// The scale of integers of 8 bits that are to be between minus and plus `scale`: its bits in f16.
fn integer_scale(scale: f32) -> u16 {
    f16::from_f32(scale / 127.0).to_bits()
}

/// Blocks of random integers, all of one scale.
fn random_blocks(count: usize, scale: f32) -> Vec<u8> {
    let scale = integer_scale(scale).to_le_bytes();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut blocks = Vec::with_capacity(count * BLOCK_BYTES);
    for _ in 0..count {
        blocks.extend(scale);
        for _ in 0..BLOCK / 8 {
            // xorshift64*
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            blocks.extend(state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
        }
    }
    blocks
}

/// Refuses finite weights that f16 has no finite number for.
fn check_range(name: &str, stored: StorageDType, bytes: &[u8]) -> Result<()> {
    // The first number that is rounded to infinity.
    const BEYOND: f32 = 65520.0;
    let too_large = |value: &f32| value.is_finite() && value.abs() >= BEYOND;
    let found = match stored {
        StorageDType::F32 => bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .find(too_large),
        StorageDType::BF16 => bytes
            .chunks_exact(2)
            .map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32())
            .find(too_large),
        StorageDType::F16 | StorageDType::Q8 => None,
    };
    match found {
        None => Ok(()),
        Some(value) => Err(Error::Weights(
            format!("{name} has the weight {value}, which is too large for f16: compute in bf16")
                .into(),
        )),
    }
}

/// Refuses weights of another type or size than they were asked for.
fn check_stored(
    name: &str,
    stored: StorageDType,
    bytes: usize,
    asked: StorageDType,
    needed: usize,
) -> Result<()> {
    if stored == asked && bytes == needed {
        Ok(())
    } else {
        Err(Error::Weights(
            format!("{name} has {bytes} bytes of {stored:?}, and {needed} of {asked:?} are needed")
                .into(),
        ))
    }
}

/// The order of queries, keys and values of which queries and keys are rotated.
fn rotated_order(heads: Heads) -> Order {
    Order::Rotated {
        head: heads.size,
        outputs: (heads.queries + heads.kv) * heads.size,
    }
}

fn tiles_divide(name: &str, what: &str, size: usize) -> Result<()> {
    if size.is_multiple_of(16) {
        return Ok(());
    }
    Err(Error::Size {
        what: format!("the number of {what} ({name})"),
        size,
        needed: "a multiple of 16",
    })
}

/// How many ranges the inputs of a linear map are cut into, so that its weight is spread over the
/// whole GPU, which holds `slots` blocks at once.
///
/// It depends on the map's sizes and the GPU, not on the number of rows: parts settle the order of
/// sums, and with it the last bits of logits. A power of two, as the warps of a block share a
/// tile's parts.
fn parts(inputs: usize, outputs: usize, slots: usize) -> usize {
    // Blocks of 128 outputs: more than there is room for would wait for those, fewer parts are
    // fewer sums to add up. A part is four chunks of 32 inputs at least.
    let most = (inputs / 128).clamp(1, MAX_PARTS);
    let parts = (slots / outputs.div_ceil(128)).clamp(1, most);
    1 << parts.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_spread_narrow_maps_and_leave_wide_ones() {
        // An H200 and an A100, by what they hold.
        for (inputs, outputs, on_h200, on_a100) in [
            (4096, 4096, 8, 4),
            (4096, 12288, 2, 2),
            (4096, 22016, 1, 1),
            (4096, 32000, 1, 1),
            (11008, 4096, 8, 4),
            (512, 384, 4, 4),
            (4096, 6144, 4, 4),
            (11008, 128, 8, 8),
            (64, 2048, 1, 1),
        ] {
            assert_eq!(parts(inputs, outputs, 264), on_h200, "{inputs} {outputs}");
            assert_eq!(parts(inputs, outputs, 216), on_a100, "{inputs} {outputs}");
        }
    }
}

#[cfg(test)]
mod emulated {
    use super::*;
    use crate::emulator::{emulated, ExecutionOrder};

    /// Random tensors of any name and shape.
    struct Generated;

    impl Weights for Generated {
        fn tensor(&self, _: &str, _: &[usize]) -> Result<TensorSource<'_>> {
            Ok(TensorSource::Random(0.5))
        }
    }

    fn check_spread(values: &[f32]) {
        assert!(values.iter().all(|x| x.abs() <= 0.5));
        let moment =
            |power| values.iter().map(|x| x.powi(power)).sum::<f32>() / values.len() as f32;
        assert!(moment(1).abs() < 0.01, "mean {}", moment(1));
        assert!((moment(2) * 12.0 - 1.0).abs() < 0.03, "{}", moment(2));
    }

    #[test]
    fn generated_values_are_spread_evenly_and_differ_between_tensors() {
        for order in [
            ExecutionOrder::Forward,
            ExecutionOrder::Backward,
            ExecutionOrder::Random(3),
        ] {
            let device = emulated(order);
            let mut loader = Loader::new(&device, DType::F32, &Generated);
            let tables = ["a", "b"].map(|name| {
                let table = loader.table(name, 200, 64).unwrap();
                let mut values = vec![0f32; 200 * 64];
                table.rows.read(0, &mut values).unwrap();
                check_spread(&values);
                values
            });
            assert_ne!(tables[0], tables[1]);
            assert_eq!(loader.parameters(), 2 * 200 * 64);
            let mut loader = Loader::new(&device, DType::BF16, &Generated);
            let gated = loader.gated(64, "a", "b", 200).unwrap();
            let mut halves = vec![bf16::ZERO; 400 * 64];
            gated.weight.read(0, &mut halves).unwrap();
            let values = halves.into_iter().map(bf16::to_f32);
            check_spread(&values.collect::<Vec<_>>());
        }
    }
}
