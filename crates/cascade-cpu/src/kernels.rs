//! Products of a panel of weights with a block of rows: one file for each set of instructions, and
//! `isa.rs`, which chooses among them.
//!
//! Each sum of a row and an output is made by itself, in one order, whatever else is computed
//! beside it. [`scalar`] says which, and the others give the same bits, with two exceptions: bf16
//! with AMX adds even and odd inputs of 32 apart, and bf16 instructions take subnormal numbers for
//! 0.

#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop)]

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod isa;
#[cfg(target_arch = "aarch64")]
mod neon;
pub(crate) mod scalar;

pub use self::isa::{Isa, VARIABLE};
use crate::activations::{ActivationKind, Activations, Q8, Q8K, Values};
use crate::format::{Format, WIDTH};

/// Bytes before they are read that weights are prefetched into the second cache: four pages, since
/// hardware prefetchers stop at the end of one.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 1 << 14;

/// Bytes ahead that lines are fetched into the first cache. Fewer lines can be on their way there
/// than it takes to keep memory busy while a few rows are multiplied, so they come from the second
/// cache.
#[cfg(target_arch = "x86_64")]
const SHORTLY_AHEAD: usize = 1 << 12;

/// Asks for what comes after a line.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch(line: &[u8]) {
    use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
    let line = line.as_ptr().cast::<i8>();
    // SAFETY: hints read nothing, and never fault, wherever the address is.
    unsafe {
        _mm_prefetch::<_MM_HINT_T1>(line.wrapping_add(AHEAD));
        _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(SHORTLY_AHEAD));
    }
}

/// Asks for what comes after each line of a step.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_all(step: &[u8]) {
    step.as_chunks::<64>().0.iter().for_each(
        #[inline(always)]
        |line| prefetch(line),
    );
}

/// The sums of rows with a panel.
pub(crate) type Sums = [f32; WIDTH];

/// `[steps][rows]` activations of a block of rows, with a panel of as many steps, to one sum each.
type Kernel<X> = unsafe fn(panel: &[u8], x: &[X], sums: &mut [Sums]);

/// The kernels of an instruction set.
struct Kernels {
    f32: Kernel<[f32; 32]>,
    f16: Kernel<[f32; 32]>,
    bf16: Bf16,
    q8_0: Kernel<Q8>,
    q4_0: Kernel<Q8>,
    q4_1: Kernel<Q8>,
    q5_1: Kernel<Q8>,
    iq4: Kernel<Q8>,
    mxfp4: Kernel<Q8>,
    q2k: Kernel<Q8K>,
    q4k: Kernel<Q8K>,
    q5k: Kernel<Q8K>,
    q6k: Kernel<Q8K>,
    /// The most rows that f32 and f16, bf16, and integers take at a time.
    most: (usize, usize, usize),
}

/// A kernel of weights in bf16.
enum Bf16 {
    Pairs(Kernel<[u32; 16]>),
    /// Takes inputs in f32, rounded to bf16: without instructions for pairs, it takes time to part
    /// them.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    Rounded(Kernel<[f32; 32]>),
}

impl Isa {
    fn kernels(self) -> &'static Kernels {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => &avx2::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => &avx512::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 => &avx512::WITH_BF16,
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Self::Amx => &amx::KERNELS,
            #[cfg(target_arch = "aarch64")]
            Self::Neon => &neon::KERNELS,
            _ => &scalar::KERNELS,
        }
    }

    /// What the kernel of a format takes.
    pub(crate) fn kind(self, format: Format) -> ActivationKind {
        match (format, &self.kernels().bf16) {
            (Format::F32 | Format::F16, _) => ActivationKind::F32,
            (Format::BF16, Bf16::Pairs(_)) => ActivationKind::BF16,
            (Format::BF16, Bf16::Rounded(_)) => ActivationKind::Rounded,
            _ if format.step() == 256 => ActivationKind::Q8K,
            _ => ActivationKind::Q8,
        }
    }

    /// The most rows that a kernel takes at a time.
    pub(crate) fn most_rows(self, format: Format) -> usize {
        let (floats, bf16, integers) = self.kernels().most;
        match format {
            Format::F32 | Format::F16 => floats,
            Format::BF16 => bf16,
            _ => integers,
        }
    }
}

/// Multiplies block number `block` of the activations with a panel.
///
/// # Panics
/// If the panel has another number of steps, the activations are of another kind, this process
/// cannot use the instructions, or there are not as many sums as rows.
pub(crate) fn multiply(
    isa: Isa,
    format: Format,
    panel: &[u8],
    activations: &Activations,
    block: usize,
    sums: &mut [Sums],
) {
    assert_eq!(
        panel.len(),
        activations.steps * format.step_bytes(),
        "a panel of another length"
    );
    assert!(
        activations.blocks[block] == sums.len() && sums.len() <= isa.most_rows(format),
        "rows without sums"
    );
    debug_assert!(isa.is_available());
    let range = activations.range(block);
    let kernels = isa.kernels();
    // SAFETY: the instruction set is there: sets come from `Isa::available`. Kernels read as many
    // steps as a panel has, which is what the activations have for each row.
    unsafe {
        match (format, &activations.values, &kernels.bf16) {
            (Format::F32, Values::F32(x), _) => (kernels.f32)(panel, &x[range], sums),
            (Format::F16, Values::F32(x), _) => (kernels.f16)(panel, &x[range], sums),
            (Format::BF16, Values::BF16(x), Bf16::Pairs(kernel)) => kernel(panel, &x[range], sums),
            (Format::BF16, Values::F32(x), Bf16::Rounded(kernel)) => kernel(panel, &x[range], sums),
            (Format::Q8_0, Values::Q8(x), _) => (kernels.q8_0)(panel, &x[range], sums),
            (Format::Q4_0, Values::Q8(x), _) => (kernels.q4_0)(panel, &x[range], sums),
            (Format::Q4_1, Values::Q8(x), _) => (kernels.q4_1)(panel, &x[range], sums),
            (Format::Q5_1, Values::Q8(x), _) => (kernels.q5_1)(panel, &x[range], sums),
            (Format::Iq4, Values::Q8(x), _) => (kernels.iq4)(panel, &x[range], sums),
            (Format::Mxfp4, Values::Q8(x), _) => (kernels.mxfp4)(panel, &x[range], sums),
            (Format::Q2K, Values::Q8K(x), _) => (kernels.q2k)(panel, &x[range], sums),
            (Format::Q4K, Values::Q8K(x), _) => (kernels.q4k)(panel, &x[range], sums),
            (Format::Q5K, Values::Q8K(x), _) => (kernels.q5k)(panel, &x[range], sums),
            (Format::Q6K, Values::Q8K(x), _) => (kernels.q6k)(panel, &x[range], sums),
            // `Activations` are made in the kind of the format that they are multiplied with.
            _ => panic!("activations of another kind"),
        }
    }
}

/// What a [`Wide`] is made of: nothing can be where there are no such instructions.
#[cfg(target_arch = "x86_64")]
type Instructions = ();
#[cfg(not(target_arch = "x86_64"))]
type Instructions = std::convert::Infallible;

/// What has instructions of its own, and gives the bits that it has without them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wide(Instructions);

#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
impl Wide {
    /// If an instruction set has them.
    pub(crate) fn of(isa: Isa) -> Option<Self> {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Avx512Bf16 | Isa::Amx => isa.is_available().then_some(Self(())),
            _ => None,
        }
    }

    /// Rounds activations.
    pub(crate) fn q8(self, step: &[f32; 32]) -> Q8 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: there is a `Wide` only if the instructions are there.
        return unsafe { avx512::q8(step) };
        #[cfg(not(target_arch = "x86_64"))]
        match self.0 {}
    }

    /// Rounds activations.
    pub(crate) fn q8_k(self, step: &[f32; 256]) -> Q8K {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        return unsafe { avx512::q8_k(step) };
        #[cfg(not(target_arch = "x86_64"))]
        match self.0 {}
    }

    /// Dot products of a query with 16 keys of as many elements, a multiple of 16.
    pub(crate) fn scores(self, query: &[f32], keys: &[f32], scores: &mut [f32; 16]) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        return unsafe { avx512::scores(query, keys, scores) };
        #[cfg(not(target_arch = "x86_64"))]
        match self.0 {}
    }

    /// Scores of four queries with any multiple of four keys; those of the next query begin
    /// `width` later.
    pub(crate) fn scores_of_four(
        self,
        queries: [&[f32]; 4],
        keys: &[f32],
        scores: &mut [f32],
        width: usize,
    ) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        return unsafe { avx512::scores_of_four(queries, keys, scores, width) };
        #[cfg(not(target_arch = "x86_64"))]
        match self.0 {}
    }
}

/// Repeats a block for each of `$rows` rows, a constant. A loop would be left as one if it is long,
/// and its sums in memory.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! each_row {
    ($rows:expr, $row:ident, $body:block) => {
        each_row!(@ $rows, $row, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $rows:expr, $row:ident, $body:block, $($number:literal)*) => {
        $(if $rows > $number {
            let $row: usize = $number;
            $body
        })*
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use each_row;

/// Calls a kernel of `$number` rows with that number as a constant.
macro_rules! by_rows {
    ($number:ident => $kernel:expr, $panel:expr, $x:expr, $sums:expr, [$($rows:literal)*]) => {
        match $sums.len() {
            0 => {}
            $($rows => {
                const $number: usize = $rows;
                let (x, sums) = ($x.as_chunks::<$rows>().0, $sums.first_chunk_mut::<$rows>());
                if let Some(sums) = sums {
                    // SAFETY: the caller vouches for the instructions.
                    unsafe { $kernel($panel, x, sums) }
                }
            })*
            // `multiply` has checked that the instruction set takes so many.
            rows => unreachable!("{rows} rows at a time"),
        }
    };
}
use by_rows;

#[cfg(test)]
mod tests;
