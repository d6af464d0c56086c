//! Launches of kernels, as data.

use bytemuck::Pod;

/// The kernels, by name.
macro_rules! kernels {
    ($($kernel:ident = $name:literal),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kernel { $($kernel),* }

        impl Kernel {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$kernel),*];

            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$kernel => $name),* }
            }
        }
    };
}

kernels! {
    LinearBf16x1 = "linear_bf16_1",
    LinearBf16x2 = "linear_bf16_2",
    LinearBf16x4 = "linear_bf16_4",
    LinearBf16x8 = "linear_bf16_8",
    LinearF32 = "linear_f32",
    Embed = "embed",
    Norm = "norm",
    Heads = "heads",
    Activation = "activation",
    AttentionBf16x32 = "attention_bf16_32",
    AttentionBf16x64 = "attention_bf16_64",
    AttentionBf16x128 = "attention_bf16_128",
    AttentionF32 = "attention_f32",
    Combine = "combine",
    Logits = "logits",
    Answer = "answer",
    Top = "top",
    Keep = "keep",
    Grow = "grow",
    Pack = "pack",
    Fill = "fill",
    CopyQuads = "copy_quads",
    ReadQuads = "read_quads",
}

/// One launch of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) kernel: Kernel,
    pub(crate) grid: [u32; 3],
    /// Threads of a block.
    pub(crate) threads: u32,
    /// The kernel's argument, a structure of `arguments.rs`, in words of its alignment.
    pub(crate) arguments: Box<[u64]>,
}

impl Launch {
    pub(crate) fn new(
        kernel: Kernel,
        grid: [usize; 3],
        threads: usize,
        arguments: impl Pod,
    ) -> Self {
        let bytes = bytemuck::bytes_of(&arguments);
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        Self {
            kernel,
            grid: grid.map(|size| size as u32),
            threads: threads as u32,
            arguments: words.collect(),
        }
    }
}
