//! AMX: tiles of bytes and bf16, in inline assembly, since the intrinsics are not stable.
//!
//! A tile of weights is what a step of a panel holds already: rows of 16 outputs with four bytes or
//! a pair of bf16 each. A few rows of bytes are faster with AVX-512, which gives the same bits,
//! because integers are exact; bf16 gives others, and always comes here.

use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::OnceLock;

use super::{Bf16, Kernels, Sums, avx512};
use crate::activations::Q8;
use crate::format::{HALF_STEP, Q4_0_STEP, Q8_0_STEP, WIDTH};

pub(super) static KERNELS: Kernels = Kernels {
    bf16: Bf16::Pairs(bf16),
    q8_0,
    q4_0,
    ..avx512::KERNELS
};

/// Rows up to which bytes are multiplied by AVX-512.
const FEW: usize = 4;

/// Whether the CPU has tiles, Linux lets this process use them, and they compute what they
/// should: found out once.
pub(super) fn works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| has_tiles() && may_use_tiles() && are_right())
}

/// AMX-TILE, AMX-INT8 and AMX-BF16, of leaf 7.
fn has_tiles() -> bool {
    let bits = 1 << 24 | 1 << 25 | 1 << 22;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & bits == bits
}

/// Asks for the permission to use tiles, which threads inherit: arch_prctl(ARCH_REQ_XCOMP_PERM,
/// XFEATURE_XTILEDATA).
fn may_use_tiles() -> bool {
    let answer: i64;
    // SAFETY: the call allocates room for tiles when this process first uses them, or fails.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") 158i64 => answer,
            in("rdi") 0x1023u64,
            in("rsi") 18u64,
            out("rcx") _,
            out("r11") _,
        );
    }
    answer == 0
}

/// Compares products of small integers, which are exact in every order of sums, with the reference.
fn are_right() -> bool {
    use super::scalar;
    let byte = |i: usize| (i * 37 % 15) as u8;
    let rows = 7;
    let words = std::array::from_fn(|i| i32::from_le_bytes([1, 2, 3, 4].map(|k| byte(i + k))));
    let sum: i32 = (0..32).map(|i| i32::from(words_byte(&words, i))).sum();
    let x = vec![Q8::new(words, 0.5, sum); 2 * rows];
    let mut panel = vec![0; 2 * Q8_0_STEP];
    for (i, to) in panel.iter_mut().enumerate() {
        *to = byte(i / 3);
    }
    for step in panel.chunks_exact_mut(Q8_0_STEP) {
        // One, in f16.
        step[..2 * WIDTH].as_chunks_mut::<2>().0.fill([0, 0x3c]);
    }
    let same = |f: super::Kernel<Q8>, g: super::Kernel<Q8>, panel: &[u8]| {
        let (mut a, mut b) = ([[0.0; WIDTH]; 7], [[1.0; WIDTH]; 7]);
        // SAFETY: tiles are there, and so is all of AVX-512 that they come with.
        unsafe {
            f(panel, &x, &mut a);
            g(panel, &x, &mut b);
        }
        a == b
    };
    let bytes = same(q8_0, scalar::KERNELS.q8_0, &panel);
    let nibbles = same(q4_0, scalar::KERNELS.q4_0, &panel[..2 * Q4_0_STEP]);
    bytes && nibbles && bf16_is_right()
}

/// Whether tiles multiply bf16 as the definition says.
fn bf16_is_right() -> bool {
    use super::scalar;
    let pairs: Vec<[u32; 16]> = (0..2 * 7)
        .map(|row| std::array::from_fn(|i| [0x3f80_4000, 0xc040_3f80, 0x4080_0000][(row + i) % 3]))
        .collect();
    let weights: Vec<u8> = (0..2 * HALF_STEP / 2)
        .flat_map(|i| [0x3f80_u16, 0x4000, 0xbf80, 0][i * i % 7 % 4].to_le_bytes())
        .collect();
    let (mut a, mut b) = ([[0.0; WIDTH]; 7], [[1.0; WIDTH]; 7]);
    // SAFETY: as above.
    unsafe {
        bf16(&weights, &pairs, &mut a);
        scalar::bf16(&weights, &pairs, &mut b);
    }
    a == b
}

fn words_byte(words: &[i32; 8], i: usize) -> i8 {
    (words[i / 4] >> (8 * (i % 4))) as i8
}

/// What `ldtilecfg` reads: bytes of a row and rows of each tile.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    columns: [u16; 16],
    rows: [u8; 16],
}

/// Tiles 0 and 1 with sums of `rows` rows, 2 and 3 with as many rows of `bytes` of activations, 4
/// and 5 with weights for them.
fn configure(rows: usize, bytes: u16) -> Config {
    let mut config = Config {
        palette: 1,
        start: 0,
        reserved: [0; 14],
        columns: [0; 16],
        rows: [0; 16],
    };
    for tile in 0..2 {
        (config.columns[tile], config.rows[tile]) = (64, rows as u8);
        (config.columns[2 + tile], config.rows[2 + tile]) = (bytes, rows as u8);
        (config.columns[4 + tile], config.rows[4 + tile]) = (64, (bytes / 4) as u8);
    }
    config
}

/// Loads a configuration of tiles, which is let go at the end.
struct Tiles;

impl Tiles {
    unsafe fn configured(config: &Config) -> Self {
        // SAFETY: the caller may use tiles; the configuration has its 64 bytes.
        unsafe { asm!("ldtilecfg [{}]", in(reg) config, options(nostack)) };
        Self
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: tiles were configured.
        unsafe { asm!("tilerelease", options(nostack)) };
    }
}

unsafe fn bf16(panel: &[u8], x: &[[u32; 16]], sums: &mut [Sums]) {
    let rows = sums.len();
    let steps = panel.len() / HALF_STEP;
    assert!(x.len() >= rows * steps && (1..=16).contains(&rows));
    if steps == 0 {
        sums.fill([0.0; WIDTH]);
        return;
    }
    let config = configure(rows, 64);
    // SAFETY: the caller vouches for tiles. Each step reads `rows` rows of 64 bytes of `x`, and 16
    // of the panel, which has as many steps; sums have room for `rows` rows of 64 bytes.
    unsafe {
        let _tiles = Tiles::configured(&config);
        asm!(
            "tilezero tmm0",
            "2:",
            "tileloadd tmm2, [{x} + {line}*1]",
            "tileloadd tmm4, [{w} + {line}*1]",
            "tdpbf16ps tmm0, tmm2, tmm4",
            "prefetcht0 [{w} + 8192]",
            "prefetcht0 [{w} + 8256]",
            "prefetcht0 [{w} + 8320]",
            "prefetcht0 [{w} + 8384]",
            "prefetcht0 [{w} + 8448]",
            "prefetcht0 [{w} + 8512]",
            "prefetcht0 [{w} + 8576]",
            "prefetcht0 [{w} + 8640]",
            "prefetcht0 [{w} + 8704]",
            "prefetcht0 [{w} + 8768]",
            "prefetcht0 [{w} + 8832]",
            "prefetcht0 [{w} + 8896]",
            "prefetcht0 [{w} + 8960]",
            "prefetcht0 [{w} + 9024]",
            "prefetcht0 [{w} + 9088]",
            "prefetcht0 [{w} + 9152]",
            "add {x}, {x_step}",
            "add {w}, 1024",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{sums} + {line}*1], tmm0",
            x = inout(reg) x.as_ptr() => _,
            w = inout(reg) panel.as_ptr() => _,
            steps = inout(reg) steps => _,
            x_step = in(reg) 64 * rows,
            line = in(reg) 64usize,
            sums = in(reg) sums.as_mut_ptr(),
            out("tmm0") _,
            out("tmm2") _,
            out("tmm4") _,
            options(nostack),
        );
    }
}

/// Integers of up to 16 rows and a panel.
#[repr(C, align(64))]
struct Dots([[i32; WIDTH]; 16]);

/// Dot products of 32 inputs, `stride` bytes from row to row, with unsigned weights `[8][16][4]`.
///
/// # Safety
/// Tiles are configured for as many rows of 32 bytes as can be read at `x`.
#[inline]
unsafe fn dots(x: *const i32, stride: usize, weights: &[u8; 512], dots: &mut Dots) {
    // SAFETY: the caller's; the weights have 8 rows of 64 bytes, and there is room for 16 rows.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tileloadd tmm2, [{x} + {stride}*1]",
            "tileloadd tmm4, [{w} + {line}*1]",
            "tdpbsud tmm0, tmm2, tmm4",
            "tilestored [{dots} + {line}*1], tmm0",
            x = in(reg) x,
            stride = in(reg) stride,
            w = in(reg) weights.as_ptr(),
            line = in(reg) 64usize,
            dots = in(reg) dots.0.as_mut_ptr(),
            out("tmm0") _,
            out("tmm2") _,
            out("tmm4") _,
            options(nostack),
        );
    }
}

/// Adds `(dot + start) * scale * x` to the sums of a row.
#[inline]
#[target_feature(enable = "avx512f")]
fn add(sums: &mut Sums, dots: &[i32; WIDTH], start: i32, scale: &[u8; 32], x: f32) {
    // SAFETY: 16 numbers of each are there.
    unsafe {
        let scale = _mm512_cvtph_ps(_mm256_loadu_si256(scale.as_ptr().cast()));
        let dots = _mm512_loadu_si512(dots.as_ptr().cast());
        let dots = _mm512_add_epi32(dots, _mm512_set1_epi32(start));
        let scale = _mm512_mul_ps(scale, _mm512_set1_ps(x));
        let sum = _mm512_loadu_ps(sums.as_ptr());
        let sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), scale, sum);
        _mm512_storeu_ps(sums.as_mut_ptr(), sum);
    }
}

/// Low halves, then high halves, of each of four vectors.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn unpack(packed: &[u8; 256], to: &mut [u8; 512]) {
    let low = _mm512_set1_epi8(15);
    let pairs = packed
        .as_chunks::<64>()
        .0
        .iter()
        .zip(to.as_chunks_mut::<128>().0);
    for (from, to) in pairs {
        // SAFETY: 64 bytes to read, and 128 to write.
        unsafe {
            let both = _mm512_loadu_si512(from.as_ptr().cast());
            let high = _mm512_and_si512(_mm512_srli_epi16::<4>(both), low);
            _mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_and_si512(both, low));
            _mm512_storeu_si512(to[64..].as_mut_ptr().cast(), high);
        }
    }
}

unsafe fn q8_0(panel: &[u8], x: &[Q8], sums: &mut [Sums]) {
    if sums.len() <= FEW {
        // SAFETY: the caller's.
        return unsafe { avx512::q8_0(panel, x, sums) };
    }
    // SAFETY: the caller's.
    unsafe {
        blocks::<Q8_0_STEP>(
            panel,
            x,
            sums,
            |x| x.of_bytes,
            |step, weights| {
                weights.copy_from_slice(&step[2 * WIDTH..]);
            },
        );
    }
}

unsafe fn q4_0(panel: &[u8], x: &[Q8], sums: &mut [Sums]) {
    if sums.len() <= FEW {
        // SAFETY: the caller's.
        return unsafe { avx512::q4_0(panel, x, sums) };
    }
    // SAFETY: the caller's.
    unsafe {
        blocks::<Q4_0_STEP>(
            panel,
            x,
            sums,
            |x| x.of_nibbles,
            |step, weights| {
                if let Some(packed) = step[2 * WIDTH..].first_chunk() {
                    unpack(packed, weights);
                }
            },
        );
    }
}

/// Blocks of 32 weights, unsigned, whose sums begin at `start`.
#[inline]
unsafe fn blocks<const STEP: usize>(
    panel: &[u8],
    x: &[Q8],
    sums: &mut [Sums],
    start: impl Fn(&Q8) -> i32,
    unpack: impl Fn(&[u8; STEP], &mut [u8; 512]),
) {
    let rows = sums.len();
    assert!((1..=16).contains(&rows));
    sums.fill([0.0; WIDTH]);
    let (mut found, mut weights) = (Dots([[0; WIDTH]; 16]), [0; 512]);
    let config = configure(rows, 32);
    // SAFETY: the caller may use tiles and AVX-512; `x` has as many rows as tiles are configured
    // for.
    unsafe {
        let _tiles = Tiles::configured(&config);
        let steps = panel.as_chunks::<STEP>().0.iter();
        for (step, x) in steps.zip(x.chunks_exact(rows)) {
            super::prefetch_all(step);
            unpack(step, &mut weights);
            dots(x.as_ptr().cast(), size_of::<Q8>(), &weights, &mut found);
            let scale = step.first_chunk().unwrap_or(&[0; 32]);
            for ((sums, x), dots) in sums.iter_mut().zip(x).zip(&found.0) {
                add(sums, dots, start(x), scale, x.scale);
            }
        }
    }
}
