//! What kernels are called with: `kernels/arguments.h` in Rust. A test compares the layouts.
//!
//! Fields are documented there. Pointers are addresses in the device's memory.

use bytemuck::{Pod, Zeroable};

/// Rows of one forward at most.
pub const MAX_ROWS: usize = 64;
/// Parts that the inputs of a linear map are cut into, at most: a power of two.
pub(crate) const MAX_PARTS: usize = 8;
/// Positions from the commonly seen ones on whose slots a row of a tree may have to look up.
pub const WINDOW: usize = 128;
/// Children whose probabilities one forward looks up, at most.
pub const MAX_PICKS: usize = 512;
/// Keys that one block of attention works through.
pub const SPLIT: usize = 128;
/// Tokens of the vocabulary that one block of the readout looks at.
pub(crate) const SLICE: usize = 1024;

/// An address in the device's memory; 0 for none.
pub type Address = u64;

macro_rules! structure {
    ($name:ident { $($field:ident: $kind:ty),* $(,)? }) => {
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Pod, Zeroable)]
        pub(crate) struct $name { $(pub(crate) $field: $kind),* }
    };
}

structure!(Step {
    rows: u32,
    past: u32,
    first: u32,
    keys: u32,
    cache: Address,
    source: Address,
    capacity: u32,
    source_capacity: u32,
    source_keys: u32,
    first_wanted: u32,
    picks: u32,
    scattered: u32,
    tokens: [u32; MAX_ROWS],
    positions: [u32; MAX_ROWS],
    pick_row: [u32; MAX_PICKS],
    pick_token: [u32; MAX_PICKS],
    path: [[u16; WINDOW]; MAX_ROWS],
});

structure!(Answer {
    argmax: [u32; MAX_ROWS],
    greatest: [f32; MAX_ROWS],
    sum: [f32; MAX_ROWS],
    improper: [u32; MAX_ROWS],
    picks: [f32; MAX_PICKS],
});

structure!(StreamArguments {
    stream: Address,
    weight: Address,
    normed: Address,
    squares: Address,
    size: u32,
    kind: u32,
});

structure!(EmbedArguments {
    step: Address,
    table: Address,
    stream: StreamArguments,
});

structure!(HeadsArguments {
    cosines: Address,
    sines: Address,
    queries: Address,
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    padded: u32,
    layer: u32,
    kind: u32,
    to_source: u32,
    which: u32,
});

structure!(LinearArguments {
    step: Address,
    input: Address,
    weight: Address,
    partials: Address,
    arrived: Address,
    squares: Address,
    bias: Address,
    inputs: u32,
    outputs: u32,
    part_bits: u32,
    epsilon: f32,
    wanted_only: u32,
    then: u32,
    room: u32,
    unused: u32,
    stream: StreamArguments,
    heads: HeadsArguments,
    out: Address,
    activation: u32,
    gated: u32,
    kind: u32,
    vocabulary: u32,
    scale: f32,
    unused_too: u32,
});

structure!(AttentionArguments {
    step: Address,
    queries: Address,
    bias: Address,
    mixed: Address,
    weights: Address,
    arrived: Address,
    out: Address,
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    padded: u32,
    layer: u32,
    reach: u32,
    kind: u32,
    to_source: u32,
    window: u32,
    unused: u32,
});

structure!(NormHeadsArguments {
    step: Address,
    cosines: Address,
    sines: Address,
    query_weight: Address,
    key_weight: Address,
    queries: Address,
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    padded: u32,
    layer: u32,
    kind: u32,
    epsilon: f32,
    unused: u32,
});

structure!(Slice {
    greatest: f32,
    sum: f32,
    argmax: u32,
    unused: u32,
});

structure!(LogitsArguments {
    step: Address,
    logits: Address,
    slices: Address,
    arrived: Address,
    answer: Address,
    vocabulary: u32,
    slice_count: u32,
});

structure!(TopArguments {
    step: Address,
    logits: Address,
    tokens: Address,
    values: Address,
    vocabulary: u32,
    width: u32,
});

structure!(KeepArguments {
    cache: Address,
    slots: Address,
    heads: u32,
    padded: u32,
    capacity: u32,
    at: u32,
    count: u32,
    kind: u32,
});

structure!(GrowArguments {
    from: Address,
    to: Address,
    heads: u32,
    padded: u32,
    from_capacity: u32,
    to_capacity: u32,
    count: u32,
    kind: u32,
});

structure!(PackArguments {
    from: Address,
    to: Address,
    outputs: u32,
    inputs: u32,
    kind: u32,
    to_kind: u32,
    alternating: u32,
    packed: u32,
    first_output: u32,
    all_outputs: u32,
});

structure!(FillArguments {
    to: Address,
    count: u64,
    kind: u32,
    seed: u32,
    scale: f32,
    unused: u32,
});

structure!(CopyArguments {
    from: Address,
    to: Address,
    quads: u64,
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{PTX_80, PTX_90};
    use std::mem::{offset_of, size_of};

    #[test]
    fn structures_lie_in_memory_as_in_c() {
        let layout = [
            size_of::<Step>(),
            offset_of!(Step, path),
            size_of::<Answer>(),
            size_of::<StreamArguments>(),
            size_of::<EmbedArguments>(),
            size_of::<HeadsArguments>(),
            offset_of!(HeadsArguments, which),
            size_of::<LinearArguments>(),
            offset_of!(LinearArguments, stream),
            offset_of!(LinearArguments, heads),
            offset_of!(LinearArguments, activation),
            size_of::<AttentionArguments>(),
            offset_of!(AttentionArguments, reach),
            size_of::<NormHeadsArguments>(),
            offset_of!(NormHeadsArguments, epsilon),
            size_of::<Slice>(),
            size_of::<LogitsArguments>(),
            offset_of!(LogitsArguments, slice_count),
            size_of::<TopArguments>(),
            size_of::<KeepArguments>(),
            size_of::<GrowArguments>(),
            size_of::<PackArguments>(),
            size_of::<FillArguments>(),
            size_of::<CopyArguments>(),
            MAX_PARTS,
            SPLIT,
            SLICE,
        ];
        for ptx in [&*PTX_80, &*PTX_90] {
            assert_eq!(crate::emulator_tests::layout(ptx), layout);
        }
    }
}
