//! A forward pass as launches: what layers are made of.

use crate::arguments::{
    ActivationArguments, AttentionArguments, CombineArguments, EmbedArguments, HeadsArguments,
    LinearArguments, LogitsArguments, NormArguments, SLICE, SPLIT,
};
use crate::launch::{Kernel, Launch};
use crate::runner::Workspace;
use crate::{Address, Buffer, Device, Kind, Linear, Norm, Result, Table};

/// The nonlinearity of a feed-forward layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// max(x, 0)
    Relu,
    /// The tanh form.
    Gelu,
    /// x / (1 + exp(-x))
    Silu,
}

/// Heads of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Heads of queries.
    pub queries: usize,
    /// Heads of keys and values.
    pub kv: usize,
    /// Numbers of a head.
    pub size: usize,
}

/// What is added to scores by the distance of a key from its query, for each head.
#[derive(Debug)]
pub struct RelativeBias {
    pub(crate) table: Buffer,
    pub(crate) reach: usize,
}

impl RelativeBias {
    /// A bias from `[heads][2 * reach + 1]`: entry reach + d is that of a key d positions before its query; farther ones have the
    /// last on their side.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(device: &Device, table: &[f32], reach: usize) -> Result<Self> {
        Ok(Self {
            table: device.upload(table)?,
            reach,
        })
    }
}

/// Rotations of queries and keys by position.
#[derive(Debug)]
pub struct Rotary {
    pub(crate) cosines: Buffer,
    pub(crate) sines: Buffer,
}

impl Rotary {
    /// Rotations from `[positions][head size / 2]` cosines and sines. Scores are not scaled elsewhere: the tables hold the
    /// square root of that.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(device: &Device, cosines: &[f32], sines: &[f32]) -> Result<Self> {
        Ok(Self {
            cosines: device.upload(cosines)?,
            sines: device.upload(sines)?,
        })
    }
}

/// Which of queries, keys and values a projection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projected<'a> {
    /// All three, keys and values for the sequence's own cache.
    All(Option<&'a Rotary>),
    /// Queries, which will look at the source.
    Queries,
    /// Keys and values of the source.
    SourceKeysValues,
}

impl PartialEq for Rotary {
    fn eq(&self, other: &Self) -> bool {
        self.cosines.address() == other.cosines.address()
    }
}

impl Eq for Rotary {}

/// What attention looks at.
#[derive(Clone, Copy, Debug)]
pub enum Looks<'a> {
    /// The sequence, as far as rows see it.
    AtSequence(Option<&'a RelativeBias>),
    /// The whole source.
    AtSource,
}

/// Writes down the launches of one forward of at most so many rows.
///
/// Rows pass through three places: the residual stream, the input of a linear map, and its output in parts. Each method
/// reads one and writes another.
#[derive(Debug)]
pub struct Forward<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) kind: Kind,
    pub(crate) heads: Heads,
    pub(crate) padded: usize,
    /// Room for rows.
    pub(crate) rows: usize,
    /// Room for splits of the sequence's keys and the source's.
    pub(crate) splits: [usize; 2],
    pub(crate) step: Address,
    /// Where the rows' residual stream and queries begin.
    pub(crate) stream: Address,
    pub(crate) queries: Address,
    /// Parts of the last linear map's output.
    pub(crate) parts: usize,
    pub(crate) launches: Vec<Launch>,
}

impl Forward<'_> {
    fn launch(&mut self, kernel: Kernel, grid: [usize; 3], threads: usize, of: impl bytemuck::Pod) {
        self.launches.push(Launch::new(kernel, grid, threads, of));
    }

    /// Tokens to the residual stream.
    pub fn embed(&mut self, table: &Table) {
        let arguments = EmbedArguments {
            step: self.step,
            table: table.rows.address(),
            stream: self.stream,
            size: table.size as u32,
            kind: table.kind.number(),
        };
        self.launch(Kernel::Embed, [self.rows, 1, 1], 256, arguments);
    }

    /// Residual stream to input.
    pub fn norm(&mut self, norm: &Norm) {
        self.normalize(norm, 0);
    }

    /// Adds the last linear map's output to the residual stream, and that to input.
    pub fn add_norm(&mut self, norm: &Norm) {
        self.normalize(norm, self.parts);
    }

    fn normalize(&mut self, norm: &Norm, parts: usize) {
        let arguments = NormArguments {
            step: self.step,
            delta: self.workspace.partials.address(),
            stream: self.stream,
            weight: norm.weight.address(),
            out: self.workspace.input.address(),
            size: norm.size as u32,
            parts: parts as u32,
            stride: self.rows as u32,
            kind: self.kind.number(),
            epsilon: norm.epsilon,
            unused: 0,
        };
        // As many threads as numbers to hide the latency of, and no more than a block may have.
        let threads = norm.size.next_power_of_two().clamp(32, 1024);
        self.launch(Kernel::Norm, [self.rows, 1, 1], threads, arguments);
    }

    /// Input to output.
    pub fn linear(&mut self, linear: &Linear) {
        self.map(linear, false);
    }

    fn map(&mut self, linear: &Linear, wanted_only: bool) {
        self.parts = linear.parts;
        let arguments = LinearArguments {
            step: self.step,
            input: self.workspace.input.address(),
            weight: linear.weight.address(),
            out: self.workspace.partials.address(),
            inputs: linear.inputs as u32,
            outputs: linear.outputs as u32,
            parts: linear.parts as u32,
            stride: self.rows as u32,
            wanted_only: u32::from(wanted_only),
            unused: 0,
        };
        let blocks = [linear.outputs.div_ceil(128), linear.parts, 1];
        let (kernel, grid, threads) = match (linear.kind, self.rows) {
            (Kind::Bf16, ..=8) => (Kernel::LinearBf16x1, blocks, 256),
            (Kind::Bf16, ..=16) => (Kernel::LinearBf16x2, blocks, 256),
            (Kind::Bf16, ..=32) => (Kernel::LinearBf16x4, blocks, 256),
            (Kind::Bf16, _) => (Kernel::LinearBf16x8, blocks, 128),
            (Kind::F32, rows) => {
                let grid = [linear.outputs.div_ceil(4), rows.div_ceil(8), 1];
                (Kernel::LinearF32, grid, 128)
            }
        };
        self.launch(kernel, grid, threads, arguments);
    }

    /// Output to queries, and keys and values of `layer`.
    pub fn heads(&mut self, projected: Projected<'_>, layer: usize) {
        let Heads { queries, kv, size } = self.heads;
        let (blocks, which, rotary) = match projected {
            Projected::All(rotary) => (queries + 2 * kv, 3, rotary),
            Projected::Queries => (queries, 1, None),
            Projected::SourceKeysValues => (2 * kv, 2, None),
        };
        let arguments = HeadsArguments {
            step: self.step,
            projected: self.workspace.partials.address(),
            cosines: rotary.map_or(0, |rotary| rotary.cosines.address()),
            sines: rotary.map_or(0, |rotary| rotary.sines.address()),
            queries: self.queries,
            heads: queries as u32,
            kv_heads: kv as u32,
            head_dim: size as u32,
            padded: self.padded as u32,
            parts: self.parts as u32,
            stride: self.rows as u32,
            kind: self.kind.number(),
            layer: layer as u32,
            to_source: u32::from(projected == Projected::SourceKeysValues),
            which,
        };
        self.launch(
            Kernel::Heads,
            [blocks, self.rows, 1],
            self.padded,
            arguments,
        );
    }

    /// Queries to input, through the keys and values of `layer`.
    pub fn attention(&mut self, looks: Looks<'_>, layer: usize) {
        let (bias, to_source) = match looks {
            Looks::AtSequence(bias) => (bias, false),
            Looks::AtSource => (None, true),
        };
        let splits = self.splits[usize::from(to_source)];
        let Heads { queries, kv, size } = self.heads;
        let arguments = AttentionArguments {
            step: self.step,
            queries: self.queries,
            bias: bias.map_or(0, |bias| bias.table.address()),
            mixed: self.workspace.mixed.address(),
            weights: self.workspace.weights.address(),
            heads: queries as u32,
            kv_heads: kv as u32,
            padded: self.padded as u32,
            layer: layer as u32,
            reach: bias.map_or(0, |bias| bias.reach as u32),
            kind: self.kind.number(),
            to_source: u32::from(to_source),
            unused: 0,
        };
        let tiles = (self.rows * queries / kv).div_ceil(16);
        let (kernel, grid, threads) = match (self.kind, self.padded) {
            (Kind::F32, _) => (Kernel::AttentionF32, [queries, splits, self.rows], SPLIT),
            (Kind::Bf16, 32) => (Kernel::AttentionBf16x32, [kv, splits, tiles], 128),
            (Kind::Bf16, 64) => (Kernel::AttentionBf16x64, [kv, splits, tiles], 128),
            (Kind::Bf16, _) => (Kernel::AttentionBf16x128, [kv, splits, tiles], 128),
        };
        self.launch(kernel, grid, threads, arguments);
        let arguments = CombineArguments {
            step: self.step,
            mixed: self.workspace.mixed.address(),
            weights: self.workspace.weights.address(),
            out: self.workspace.input.address(),
            heads: queries as u32,
            head_dim: size as u32,
            padded: self.padded as u32,
            kind: self.kind.number(),
            to_source: u32::from(to_source),
            unused: 0,
        };
        self.launch(
            Kernel::Combine,
            [queries, self.rows, 1],
            self.padded,
            arguments,
        );
    }

    /// Output to input, `inner` numbers a row.
    pub fn activation(&mut self, activation: Activation, inner: usize, gated: bool) {
        let arguments = ActivationArguments {
            step: self.step,
            projected: self.workspace.partials.address(),
            out: self.workspace.input.address(),
            inner: inner as u32,
            parts: self.parts as u32,
            stride: self.rows as u32,
            kind: self.kind.number(),
            activation: match activation {
                Activation::Relu => 0,
                Activation::Gelu => 1,
                Activation::Silu => 2,
            },
            gated: u32::from(gated),
        };
        let grid = [inner.div_ceil(256), self.rows, 1];
        self.launch(Kernel::Activation, grid, 256, arguments);
    }

    /// Input to logits, of the rows that are wanted, times `scale`; and what is read off them.
    pub fn logits(&mut self, head: &Linear, scale: f32) {
        self.map(head, true);
        let slices = head.outputs.div_ceil(SLICE);
        let arguments = LogitsArguments {
            step: self.step,
            projected: self.workspace.partials.address(),
            logits: self.workspace.logits.address(),
            slices: self.workspace.slices.address(),
            answer: self.workspace.answer.address(),
            vocabulary: head.outputs as u32,
            parts: head.parts as u32,
            stride: self.rows as u32,
            slice_count: slices as u32,
            scale,
            unused: 0,
        };
        self.launch(Kernel::Logits, [slices, self.rows, 1], 256, arguments);
        self.launch(Kernel::Answer, [self.rows, 1, 1], 32, arguments);
    }
}
