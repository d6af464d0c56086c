//! A forward pass as launches: what layers are made of.

use std::num::NonZeroUsize;

use bytemuck::Zeroable;

use crate::arguments::{
    AttentionArguments, EmbedArguments, HeadsArguments, LinearArguments, LogitsArguments,
    NormHeadsArguments, StreamArguments, SLICE, SPLIT,
};
use crate::launch::{Kernel, Launch};
use crate::weights::Order;
use crate::workspace::Workspace;
use crate::{Address, Buffer, DType, Device, Heads, Linear, Norm, Result, Table};

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

/// What is added to scores by the distance of a key from its query, for each head.
#[derive(Debug)]
pub struct RelativeBias {
    pub(crate) table: Buffer,
    pub(crate) reach: usize,
}

impl RelativeBias {
    /// A bias from `[heads][2 * reach + 1]`: entry reach + d is that of a key d positions before
    /// its query; farther ones have the last on their side.
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
    /// Rotations from `[positions][head size / 2]` cosines and sines. Scores are not scaled
    /// elsewhere: the tables hold the square root of that.
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
pub enum QkvParts<'a> {
    /// All three, keys and values for the sequence's own cache.
    All(Option<&'a Rotary>),
    /// Queries for cross-attention.
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

/// Which keys and values attention reads.
#[derive(Clone, Copy, Debug)]
pub enum AttentionKind<'a> {
    /// The sequence, as far as rows see it.
    SelfAttn(Option<&'a RelativeBias>),
    /// So many positions of the sequence up to a row's own, at most.
    Windowed(NonZeroUsize),
    /// The whole source.
    CrossAttn,
}

/// The epilogue of a linear map, numbered as in `kernels/arguments.h`.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Epilogue {
    Add,
    Heads,
    Activate,
    Logits,
}

/// Writes down the launches of one forward of at most the given number of rows.
///
/// Rows pass through the residual stream and its norm, what attention gives, and the inner layer of
/// a feed-forward. Each method is one launch: a linear map and its epilogue, or attention.
#[derive(Debug)]
pub struct Forward<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) dtype: DType,
    pub(crate) heads: Heads,
    pub(crate) padded: usize,
    pub(crate) epsilon: f32,
    /// Room for rows.
    pub(crate) rows: usize,
    /// Room for splits of the sequence's keys and the source's.
    pub(crate) splits: [usize; 2],
    pub(crate) step: Address,
    /// Where the rows' residual stream and queries begin.
    pub(crate) stream: Address,
    pub(crate) queries: Address,
    pub(crate) launches: Vec<Launch>,
}

impl Forward<'_> {
    /// Tokens to the residual stream, and that to its norm.
    ///
    /// # Panics
    /// If the norm is of another size.
    pub fn embed(&mut self, table: &Table, norm: &Norm) {
        assert_eq!(table.size, norm.size, "a norm of another size");
        let arguments = EmbedArguments {
            step: self.step,
            table: table.rows.address(),
            stream: self.entering(norm),
        };
        let grid = [table.size.div_ceil(128), self.rows.div_ceil(8), 1];
        let kernel = if table.blocks {
            Kernel::EmbedQ8
        } else {
            Kernel::Embed
        };
        let launch = Launch::new(kernel, grid, 256, arguments);
        self.launches.push(launch.reading("embedding", 0));
    }

    fn entering(&self, norm: &Norm) -> StreamArguments {
        StreamArguments {
            stream: self.stream,
            weight: norm.weight.address(),
            normed: self.workspace.normed.address(),
            squares: self.workspace.squares.address(),
            size: norm.size as u32,
            kind: self.dtype.number(),
        }
    }

    /// Norm to queries, and keys and values of `layer`.
    ///
    /// # Panics
    /// If `linear` was loaded for rotated heads and these are not, or the other way round.
    pub fn project(&mut self, linear: &Linear, projected: QkvParts<'_>, layer: usize) {
        let Heads { queries, kv, size } = self.heads;
        let (which, rotary) = match projected {
            QkvParts::All(rotary) => (3, rotary),
            QkvParts::Queries => (1, None),
            QkvParts::SourceKeysValues => (2, None),
        };
        let purpose = match which {
            1 => "queries",
            2 => "keys, values of the source",
            _ => "queries, keys, values",
        };
        assert_eq!(
            matches!(linear.order, Order::Rotated { .. }),
            rotary.is_some(),
            "heads are loaded to be rotated, or not"
        );
        let heads = HeadsArguments {
            cosines: rotary.map_or(0, |rotary| rotary.cosines.address()),
            sines: rotary.map_or(0, |rotary| rotary.sines.address()),
            queries: self.queries,
            heads: queries as u32,
            kv_heads: kv as u32,
            head_dim: size as u32,
            padded: self.padded as u32,
            layer: layer as u32,
            kind: self.dtype.number(),
            to_source: u32::from(projected == QkvParts::SourceKeysValues),
            which,
        };
        let arguments = LinearArguments {
            heads,
            ..self.of_norm(linear, Epilogue::Heads)
        };
        self.map(purpose, linear, arguments);
    }

    /// Norms of heads of queries and of the rows' own keys of `layer`, each head by itself, and
    /// their rotation. They were projected without one.
    ///
    /// # Panics
    /// If a norm is not of the size of a head.
    pub fn norm_heads(&mut self, [queries, keys]: [&Norm; 2], rotary: &Rotary, layer: usize) {
        let heads = self.heads;
        let sizes = [queries.size, keys.size];
        assert_eq!(sizes, [heads.size; 2], "norms of another size");
        let arguments = NormHeadsArguments {
            step: self.step,
            cosines: rotary.cosines.address(),
            sines: rotary.sines.address(),
            query_weight: queries.weight.address(),
            key_weight: keys.weight.address(),
            queries: self.queries,
            heads: heads.queries as u32,
            kv_heads: heads.kv as u32,
            head_dim: heads.size as u32,
            padded: self.padded as u32,
            layer: layer as u32,
            kind: self.dtype.number(),
            epsilon: self.epsilon,
            unused: 0,
        };
        let grid = [(heads.queries + heads.kv).div_ceil(8), self.rows, 1];
        let launch = Launch::new(Kernel::NormHeads, grid, 256, arguments);
        self.launches.push(launch.reading("norms of heads", 0));
    }

    /// Queries to what attention gives, through the keys and values of `layer`.
    pub fn attention(&mut self, looks: AttentionKind<'_>, layer: usize) {
        let (bias, window, to_source) = match looks {
            AttentionKind::SelfAttn(bias) => (bias, 0, false),
            AttentionKind::Windowed(window) => (None, window.get(), false),
            AttentionKind::CrossAttn => (None, 0, true),
        };
        let splits = self.splits[usize::from(to_source)];
        let Heads { queries, kv, size } = self.heads;
        let arguments = AttentionArguments {
            step: self.step,
            queries: self.queries,
            bias: bias.map_or(0, |bias| bias.table.address()),
            mixed: self.workspace.mixed.address(),
            weights: self.workspace.weights.address(),
            arrived: self.workspace.arrived.address(),
            out: self.workspace.attended.address(),
            heads: queries as u32,
            kv_heads: kv as u32,
            head_dim: size as u32,
            padded: self.padded as u32,
            layer: layer as u32,
            reach: bias.map_or(0, |bias| bias.reach as u32),
            kind: self.dtype.number(),
            to_source: u32::from(to_source),
            window: u32::try_from(window).unwrap_or(0),
            unused: 0,
        };
        let tiles = (self.rows * queries / kv).div_ceil(16);
        let (grid, threads) = match self.dtype {
            DType::F32 => ([queries, splits, self.rows], SPLIT),
            _ => ([kv, splits, tiles], 128),
        };
        let kernel = Kernel::attention(self.dtype, self.padded);
        let launch = Launch::new(kernel, grid, threads, arguments);
        let purpose = if to_source {
            "attention to the source"
        } else {
            "attention"
        };
        self.launches.push(launch.reading(purpose, 0));
    }

    /// Adds a linear map of what attention gave to the residual stream, and that to its norm.
    pub fn add_attended(&mut self, linear: &Linear, norm: &Norm) {
        let attended = self.workspace.attended.address();
        self.add("output of attention", linear, attended, norm);
    }

    /// Norm to the inner layer of a feed-forward; a gated one if `linear` was loaded so.
    pub fn activate(&mut self, linear: &Linear, activation: Activation) {
        let arguments = LinearArguments {
            out: self.workspace.inner.address(),
            activation: match activation {
                Activation::Relu => 0,
                Activation::Gelu => 1,
                Activation::Silu => 2,
            },
            gated: u32::from(linear.order == Order::Gated),
            ..self.of_norm(linear, Epilogue::Activate)
        };
        self.map("inner layer", linear, arguments);
    }

    /// Adds a linear map of the inner layer to the residual stream, and that to its norm.
    pub fn add_inner(&mut self, linear: &Linear, norm: &Norm) {
        let inner = self.workspace.inner.address();
        self.add("output of inner layer", linear, inner, norm);
    }

    /// Norm to logits, of the rows that are wanted, times `scale`; and what is read off them.
    pub fn logits(&mut self, head: &Linear, scale: f32) {
        let arguments = LinearArguments {
            out: self.workspace.logits.address(),
            wanted_only: 1,
            vocabulary: head.columns as u32,
            scale,
            ..self.of_norm(head, Epilogue::Logits)
        };
        self.map("logits", head, arguments);
        let slices = head.columns.div_ceil(SLICE);
        let arguments = LogitsArguments {
            step: self.step,
            logits: self.workspace.logits.address(),
            slices: self.workspace.slices.address(),
            arrived: self.workspace.arrived.address(),
            answer: self.workspace.answer.address(),
            vocabulary: head.columns as u32,
            slice_count: slices as u32,
        };
        let grid = [slices, self.rows, 1];
        let launch = Launch::new(Kernel::Logits, grid, 256, arguments);
        self.launches.push(launch.reading("readout", 0));
    }

    fn add(&mut self, purpose: &'static str, linear: &Linear, input: Address, norm: &Norm) {
        assert_eq!(linear.outputs, norm.size, "a norm of another size");
        let arguments = LinearArguments {
            stream: self.entering(norm),
            ..self.of(linear, input, Epilogue::Add)
        };
        self.map(purpose, linear, arguments);
    }

    /// Arguments of a linear map of the norm.
    fn of_norm(&self, linear: &Linear, then: Epilogue) -> LinearArguments {
        LinearArguments {
            squares: self.workspace.squares.address(),
            epsilon: self.epsilon,
            ..self.of(linear, self.workspace.normed.address(), then)
        }
    }

    fn of(&self, linear: &Linear, input: Address, then: Epilogue) -> LinearArguments {
        LinearArguments {
            step: self.step,
            input,
            weight: linear.weight.address(),
            partials: self.workspace.partials.address(),
            arrived: self.workspace.arrived.address(),
            bias: linear.bias.as_ref().map_or(0, Buffer::address),
            inputs: linear.inputs as u32,
            outputs: linear.outputs as u32,
            part_bits: linear.parts.ilog2(),
            then: then as u32,
            room: self.rows as u32,
            kind: self.dtype.number(),
            ..LinearArguments::zeroed()
        }
    }

    fn map(&mut self, purpose: &'static str, linear: &Linear, arguments: LinearArguments) {
        let eights = linear.outputs.div_ceil(128);
        let grid = match (linear.dtype, self.rows) {
            (DType::F32, rows) => [eights, 1, rows.div_ceil(8)],
            (_, ..=8) => [(linear.outputs * linear.parts).div_ceil(128), 1, 1],
            _ => [eights, linear.parts, 1],
        };
        let kernel = Kernel::linear(linear.dtype, self.rows);
        let launch = Launch::new(kernel, grid, 256, arguments);
        let weights = linear.weight.bytes();
        self.launches.push(launch.reading(purpose, weights));
    }
}
