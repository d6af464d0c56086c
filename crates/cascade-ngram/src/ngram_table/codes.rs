//! Counts in few bits: exact while they are small, then with a fixed number of leading bits.

use cascade_core::TokenId;

/// Bits of an entry that are its token: vocabularies have at most 2²¹ − 1 tokens.
pub(super) const TOKEN_BITS: u32 = 21;

/// A form of counts: a code below 2^(LEADING + 2) is the count itself. After that come, for each
/// power of two, 2^LEADING counts of LEADING + 1 significant bits.
struct Code<const LEADING: u32>;

impl<const LEADING: u32> Code<LEADING> {
    const fn decode(code: u64) -> u64 {
        match code >> LEADING {
            0 | 1 => code,
            octave => ((1 << LEADING) + (code & ((1 << LEADING) - 1))) << (octave - 1),
        }
    }

    /// The code of the largest count that has one and is not above this one.
    const fn floor(count: u64) -> u64 {
        let bits = u64::BITS - count.leading_zeros();
        if bits <= LEADING + 1 {
            return count;
        }
        let shift = bits - LEADING - 1;
        ((shift as u64) << LEADING) + (count >> shift)
    }

    /// The code of the smallest count that has one and is not below this one.
    const fn ceiling(count: u64) -> u64 {
        let floor = Self::floor(count);
        if Self::decode(floor) == count {
            floor
        } else {
            floor + 1
        }
    }
}

/// 11 bits of an entry: six leading bits, the rest cut off, so a count is at most 1/64 too small.
type Count = Code<6>;
/// 16 bits: eleven leading bits, rounded up, so a total is at most 1/2048 too large.
type Total = Code<11>;

/// The code of a count that is all of its context's total. It keeps unanimity exact.
pub(super) const ALL: u32 = (1 << (u32::BITS - TOKEN_BITS)) - 1;

/// Totals above this have no code.
pub(super) const LARGEST_TOTAL: u64 = Total::decode(u16::MAX as u64);

/// An entry of a context with this (exact) total.
pub(super) fn entry(token: TokenId, count: u64, total: u64) -> u32 {
    let code = if count == total {
        ALL
    } else {
        Count::floor(count).min(u64::from(ALL) - 1) as u32
    };
    token | code << TOKEN_BITS
}

/// The token of an entry.
pub(super) fn token(entry: u32) -> TokenId {
    entry & ((1 << TOKEN_BITS) - 1)
}

/// The code of an entry's count.
pub(super) fn code(entry: u32) -> u32 {
    entry >> TOKEN_BITS
}

/// The count of an entry whose context has this (decoded) total.
pub(super) fn count(entry: u32, total: u64) -> u64 {
    match code(entry) {
        ALL => total,
        code => Count::decode(u64::from(code)),
    }
}

/// The code of a total, which must not be above [`LARGEST_TOTAL`].
pub(super) fn total_code(total: u64) -> u16 {
    Total::ceiling(total).min(u16::MAX.into()) as u16
}

/// The total of a code.
pub(super) fn total(code: u16) -> u64 {
    Total::decode(code.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_the_code_of_its_count() {
        for code in 0..u64::from(ALL) {
            let count = Count::decode(code);
            assert_eq!((Count::floor(count), Count::ceiling(count)), (code, code));
            assert!(code == 0 || count > Count::decode(code - 1));
            assert_eq!(code < 128, count == code && code < 128);
        }
        for code in 0..=u16::MAX {
            assert_eq!(total_code(total(code)), code);
        }
        assert_eq!(LARGEST_TOTAL, 4095 << 30);
    }

    #[test]
    fn counts_are_rounded_down_and_totals_up_within_their_bounds() {
        let numbers = (0..63).flat_map(|bit| [1u64 << bit, (1 << bit) + 1, (1 << bit) * 2 - 1]);
        for number in numbers.filter(|number| *number < 1 << 36) {
            let counted = count(entry(7, number, number + 1), number + 1);
            assert!(counted <= number && number - counted <= number / 64);
            assert!(number >= 128 || counted == number);
            let all = total(total_code(number));
            assert!(all >= number && all - number <= number / 2048);
            assert!(number >= 4096 || all == number);
        }
    }

    #[test]
    fn entries_hold_the_largest_token_and_know_unanimity() {
        let largest = (1 << TOKEN_BITS) - 1;
        let entry = entry(largest, 1_000_003, 1_000_003);
        assert_eq!(token(entry), largest);
        assert_eq!((code(entry), count(entry, 5)), (ALL, 5));
        // More than has a code.
        assert_eq!(code(super::entry(0, 1 << 62, 1 << 63)), ALL - 1);
    }
}
