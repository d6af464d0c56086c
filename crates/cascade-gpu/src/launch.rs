//! Launches of kernels, as data.

use std::io::Read;
use std::sync::LazyLock;

use bytemuck::Pod;
use flate2::read::DeflateDecoder;

use crate::DType;

/// The kernels as PTX for compute capability 8.0, made by `scripts/compile-kernels.sh`.
pub static PTX_80: LazyLock<String> = LazyLock::new(|| {
    unpack(include_bytes!(concat!(
        env!("OUT_DIR"),
        "/kernels.sm80.ptx"
    )))
});
/// The kernels as PTX for compute capability 9.0, whose launches can overlap.
pub static PTX_90: LazyLock<String> = LazyLock::new(|| {
    unpack(include_bytes!(concat!(
        env!("OUT_DIR"),
        "/kernels.sm90.ptx"
    )))
});

/// What `build.rs` has packed.
fn unpack(packed: &[u8]) -> String {
    let mut text = String::new();
    let read = DeflateDecoder::new(packed).read_to_string(&mut text);
    debug_assert!(read.is_ok(), "build.rs has packed it: {read:?}");
    text
}

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
    Embed = "embed",
    EmbedQ8 = "embed_q8",
    LinearBf16x1 = "linear_bf16_1",
    LinearBf16x2 = "linear_bf16_2",
    LinearBf16x4 = "linear_bf16_4",
    LinearBf16x8 = "linear_bf16_8",
    LinearF16x1 = "linear_f16_1",
    LinearF16x2 = "linear_f16_2",
    LinearF16x4 = "linear_f16_4",
    LinearF16x8 = "linear_f16_8",
    LinearQ8x1 = "linear_q8_1",
    LinearQ8x2 = "linear_q8_2",
    LinearQ8x4 = "linear_q8_4",
    LinearQ8x8 = "linear_q8_8",
    LinearF32 = "linear_f32",
    AttentionBf16x32 = "attention_bf16_32",
    AttentionBf16x64 = "attention_bf16_64",
    AttentionBf16x128 = "attention_bf16_128",
    AttentionF16x32 = "attention_f16_32",
    AttentionF16x64 = "attention_f16_64",
    AttentionF16x128 = "attention_f16_128",
    AttentionF32 = "attention_f32",
    NormHeads = "norm_heads",
    Logits = "logits",
    Top = "top",
    Keep = "keep",
    Grow = "grow",
    Pack = "pack",
    PackQ8 = "pack_q8",
    Fill = "fill",
    CopyQuads = "copy_quads",
    ReadQuads = "read_quads",
}

impl Kernel {
    /// That of linear maps of at most so many rows.
    pub(crate) fn linear(dtype: DType, rows: usize) -> Self {
        let of = |kernels: [Self; 4]| match rows {
            ..=8 => kernels[0],
            9..=16 => kernels[1],
            17..=32 => kernels[2],
            _ => kernels[3],
        };
        match dtype {
            DType::F32 => Self::LinearF32,
            DType::BF16 => of([
                Self::LinearBf16x1,
                Self::LinearBf16x2,
                Self::LinearBf16x4,
                Self::LinearBf16x8,
            ]),
            DType::F16 => of([
                Self::LinearF16x1,
                Self::LinearF16x2,
                Self::LinearF16x4,
                Self::LinearF16x8,
            ]),
            DType::Q8 => of([
                Self::LinearQ8x1,
                Self::LinearQ8x2,
                Self::LinearQ8x4,
                Self::LinearQ8x8,
            ]),
        }
    }

    /// That of attention with heads that are padded to this size.
    pub(crate) fn attention(dtype: DType, padded: usize) -> Self {
        let of = |kernels: [Self; 3]| match padded {
            32 => kernels[0],
            64 => kernels[1],
            _ => kernels[2],
        };
        match dtype {
            DType::F32 => Self::AttentionF32,
            DType::BF16 | DType::Q8 => of([
                Self::AttentionBf16x32,
                Self::AttentionBf16x64,
                Self::AttentionBf16x128,
            ]),
            DType::F16 => of([
                Self::AttentionF16x32,
                Self::AttentionF16x64,
                Self::AttentionF16x128,
            ]),
        }
    }
}

/// One launch of a kernel.
#[derive(Clone, Debug)]
pub struct Launch {
    pub(crate) kernel: Kernel,
    pub(crate) grid: [u32; 3],
    /// Threads of a block.
    pub(crate) threads: u32,
    /// The kernel's argument, a structure of `arguments.rs`, in words of its alignment.
    pub(crate) arguments: Box<[u64]>,
    /// What it is for, in reports.
    pub(crate) purpose: &'static str,
    /// Bytes of weights that it reads.
    pub(crate) weights: usize,
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
            purpose: kernel.name(),
            weights: 0,
        }
    }

    /// The name of the kernel, which the PTX has behind `cascade_`.
    pub fn kernel(&self) -> &'static str {
        self.kernel.name()
    }

    /// Blocks in three directions.
    pub fn grid(&self) -> [u32; 3] {
        self.grid
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// The kernel's only parameter, a structure, as bytes.
    pub fn arguments(&self) -> &[u8] {
        bytemuck::cast_slice(&self.arguments)
    }

    /// The same, for a purpose that reports name, with the bytes of weights that it reads.
    pub(crate) fn reading(self, purpose: &'static str, weights: usize) -> Self {
        Self {
            purpose,
            weights,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instructions of a kernel.
    fn body(ptx: &'static str, kernel: Kernel) -> Option<&'static str> {
        let entry = format!(".entry cascade_{}(", kernel.name());
        let (_, body) = ptx.split_once(&entry)?;
        body.split(".entry").next()
    }

    #[test]
    fn the_ptx_has_every_kernel() {
        for kernel in Kernel::ALL {
            assert!(
                [&*PTX_80, &*PTX_90]
                    .iter()
                    .all(|ptx| body(ptx, *kernel).is_some()),
                "{kernel:?}"
            );
        }
    }

    /// Where launches overlap, every block of every kernel of a forward waits for the kernel before
    /// it, whatever it does then.
    #[test]
    fn kernels_of_forwards_wait_before_they_end() {
        use Kernel::{CopyQuads, Fill, Grow, Pack, PackQ8, ReadQuads, Top};
        for &kernel in Kernel::ALL {
            let body = body(&PTX_90, kernel).unwrap();
            let wait = body.find("griddepcontrol.wait;");
            let alone = [CopyQuads, Fill, Grow, Pack, PackQ8, ReadQuads, Top].contains(&kernel);
            assert_eq!(wait.is_none(), alone, "{kernel:?}");
            let end = body.find("ret;").unwrap();
            assert!(wait.is_none_or(|wait| wait < end), "{kernel:?}");
        }
    }
}

#[cfg(test)]
mod emulated {
    use super::*;
    use crate::arguments::CopyArguments;
    use crate::emulator::{emulated, ExecutionOrder};

    /// Quads that no number of threads divides.
    const QUADS: u64 = 333;

    /// Runs a kernel that reads quads, and gives what it writes.
    fn run(kernel: Kernel, order: ExecutionOrder, words: &[u32]) -> Vec<u32> {
        let device = emulated(order);
        let from = device.upload(words).unwrap();
        let to = device.allocate(words.len() * 4).unwrap();
        to.zero().unwrap();
        let arguments = CopyArguments {
            from: from.address(),
            to: to.address(),
            quads: QUADS,
        };
        let launch = Launch::new(kernel, [3, 1, 1], 64, arguments);
        device.launch(&launch).unwrap();
        let mut written = vec![0; words.len()];
        to.read(0, &mut written).unwrap();
        written
    }

    #[test]
    fn memory_is_copied_whole() {
        let words: Vec<u32> = (1..=QUADS as u32 * 4).collect();
        for order in [
            ExecutionOrder::Forward,
            ExecutionOrder::Backward,
            ExecutionOrder::Random(1),
        ] {
            assert_eq!(run(Kernel::CopyQuads, order, &words), words);
        }
    }

    #[test]
    fn memory_that_is_only_read_is_read_whole() {
        // A thread that finds this number writes it; any word of memory may be the one.
        const FOUND: u32 = 0x9e37_79b9;
        for at in [0, 1, 700, QUADS as usize * 4 - 1] {
            let mut words = vec![0; QUADS as usize * 4];
            assert_eq!(
                run(Kernel::ReadQuads, ExecutionOrder::Forward, &words),
                words
            );
            words[at] = FOUND;
            assert_eq!(
                run(Kernel::ReadQuads, ExecutionOrder::Random(at as u64), &words)[0],
                FOUND
            );
        }
    }
}
