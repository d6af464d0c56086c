//! Philox4x32-10 (Salmon, Moraes, Dror and Shaw, *Parallel Random Numbers: As Easy as 1, 2, 3*,
//! 2011): a bijection of 128-bit counters for each 64-bit key, whose values are random numbers.
//! Integer arithmetic alone, so it is the same on every machine.

/// Counters that are encrypted side by side: a loop over them is compiled to vector instructions.
pub(crate) const LANES: usize = 16;

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What the halves of the key grow by in each round.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// The words of counters `[first[i], second, third, fourth]`: word w of counter i is at `[w][i]`.
#[inline(always)]
pub(crate) fn blocks(key: [u32; 2], first: [u32; LANES], rest: [u32; 3]) -> [[u32; LANES]; 4] {
    let [mut key_0, mut key_1] = key;
    let mut c0 = first;
    let mut c1 = [rest[0]; LANES];
    let mut c2 = [rest[1]; LANES];
    let mut c3 = [rest[2]; LANES];
    for _ in 0..ROUNDS {
        for i in 0..LANES {
            let product_0 = u64::from(MULTIPLIERS[0]) * u64::from(c0[i]);
            let product_1 = u64::from(MULTIPLIERS[1]) * u64::from(c2[i]);
            c0[i] = (product_1 >> 32) as u32 ^ c1[i] ^ key_0;
            c2[i] = (product_0 >> 32) as u32 ^ c3[i] ^ key_1;
            c1[i] = product_1 as u32;
            c3[i] = product_0 as u32;
        }
        key_0 = key_0.wrapping_add(WEYL[0]);
        key_1 = key_1.wrapping_add(WEYL[1]);
    }
    [c0, c1, c2, c3]
}

/// The words of one counter.
pub(crate) fn block(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let [mut key_0, mut key_1] = key;
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    for _ in 0..ROUNDS {
        let product_0 = u64::from(MULTIPLIERS[0]) * u64::from(c0);
        let product_1 = u64::from(MULTIPLIERS[1]) * u64::from(c2);
        c0 = (product_1 >> 32) as u32 ^ c1 ^ key_0;
        c2 = (product_0 >> 32) as u32 ^ c3 ^ key_1;
        c1 = product_1 as u32;
        c3 = product_0 as u32;
        key_0 = key_0.wrapping_add(WEYL[0]);
        key_1 = key_1.wrapping_add(WEYL[1]);
    }
    [c0, c1, c2, c3]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that its authors publish.
    #[test]
    fn known_answers() {
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        for (counter, key, words) in [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                pi,
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(block(key, counter), words);
        }
    }

    #[test]
    fn lanes_are_single_counters() {
        let first: [u32; LANES] = std::array::from_fn(|i| (i as u32).wrapping_mul(0x9ABC_DEF1));
        let (key, rest) = ([7, 9], [1, 2, 3]);
        let words = blocks(key, first, rest);
        for i in 0..LANES {
            let one = block(key, [first[i], 1, 2, 3]);
            assert_eq!([0, 1, 2, 3].map(|word: usize| words[word][i]), one);
        }
    }
}
