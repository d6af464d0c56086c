//! Comparison of contexts.

use crate::TokenId;

/// Length of the longest common prefix of two slices.
///
/// Compares whole blocks as memory, which is many times faster than token by token: contexts of a
/// hundred thousand tokens are compared on every call.
pub fn common_prefix(a: &[TokenId], b: &[TokenId]) -> usize {
    const BLOCK: usize = 1024;
    let equal_blocks = a
        .chunks_exact(BLOCK)
        .zip(b.chunks_exact(BLOCK))
        .take_while(|(a, b)| a == b)
        .count();
    let rest = a[equal_blocks * BLOCK..]
        .iter()
        .zip(&b[equal_blocks * BLOCK..])
        .take_while(|(a, b)| a == b)
        .count();
    equal_blocks * BLOCK + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_across_block_borders() {
        let a: Vec<TokenId> = (0..5000).collect();
        for differing in [0, 1, 1023, 1024, 1025, 4095, 4999] {
            let mut b = a.clone();
            b[differing] = TokenId::MAX;
            assert_eq!(common_prefix(&a, &b), differing);
        }
        for len in [0, 1, 1024, 3000] {
            assert_eq!(common_prefix(&a, &a[..len]), len);
            assert_eq!(common_prefix(&a[..len], &a), len);
        }
    }
}
