use std::collections::BTreeMap;

use super::*;

fn positions(size: usize, seed: u64, population: usize) -> Vec<usize> {
    RandomSample { size, seed }.positions(population).unwrap()
}

/// Computed by an implementation of the documented algorithm in another language, on a ChaCha20
/// written from RFC 8439.
#[test]
fn a_seed_means_the_same_everywhere() {
    assert_eq!(
        positions(10, 0, 1319),
        [213, 349, 412, 417, 663, 682, 936, 969, 1065, 1246]
    );
    assert_eq!(
        positions(10, 2024, 1319),
        [290, 296, 299, 380, 706, 845, 1009, 1054, 1064, 1269]
    );
    assert_eq!(
        positions(20, u64::MAX, 57),
        [
            1, 8, 9, 10, 12, 14, 15, 19, 21, 22, 23, 26, 30, 33, 36, 37, 43, 47, 51, 53
        ]
    );
}

#[test]
fn samples_are_sets_of_the_wanted_size_and_grow() {
    for population in [1, 2, 7, 100] {
        for size in 0..=population {
            let sample = positions(size, 5, population);
            assert_eq!(sample.len(), size);
            assert!(sample.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(sample.iter().all(|&position| position < population));
            if size < population {
                let larger = positions(size + 1, 5, population);
                assert!(sample.iter().all(|position| larger.contains(position)));
            }
        }
    }
    assert_eq!(RandomSample { size: 4, seed: 5 }.positions(3), None);
}

/// Each of the 10 pairs out of 5 is as likely as the others: chi-square with 9 degrees of freedom,
/// whose 99.9% quantile is 27.9. Seeds are fixed, so this holds always or never.
#[test]
fn all_samples_are_equally_likely() {
    const SEEDS: u64 = 20_000;
    let mut counts = BTreeMap::new();
    for seed in 0..SEEDS {
        *counts.entry(positions(2, seed, 5)).or_insert(0_u32) += 1;
    }
    let expected = SEEDS as f64 / 10.0;
    let squares = counts.values().map(|&n| (f64::from(n) - expected).powi(2));
    assert_eq!(counts.len(), 10);
    assert!(squares.sum::<f64>() / expected < 27.9, "{counts:?}");
}
