//! The noise that tokens are raced with: its definition to the bit, the race's shortcuts, and its
//! statistics.

use cascade_core::{
    Distribution, Noise, RandomSource, Sampling, SeededNoise, SeededRandom, TokenId,
    exponential_of, seed_of,
};

/// What the definition gives, computed elsewhere.
#[derive(Debug)]
struct Golden(serde_json::Value);

impl Golden {
    fn read() -> Self {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/goldens/noise.json"
        );
        Self(serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
    }

    fn rows(&self, key: &str) -> &[serde_json::Value] {
        self.0[key].as_array().unwrap()
    }
}

fn number(value: &serde_json::Value) -> u64 {
    match value.as_str() {
        Some(text) => text.parse().unwrap(),
        None => value.as_u64().unwrap(),
    }
}

fn double(value: &serde_json::Value) -> f64 {
    f64::from_bits(u64::from_str_radix(value.as_str().unwrap(), 16).unwrap())
}

#[test]
fn the_noise_is_what_its_definition_says_to_the_bit() {
    let golden = Golden::read();
    for row in golden.rows("noise") {
        let noise = SeededNoise::new(number(&row[0]));
        let found = noise.exponential(number(&row[1]), number(&row[2]) as TokenId);
        assert_eq!(found.to_bits(), double(&row[3]).to_bits(), "{row}");
    }
    for row in golden.rows("exponentials") {
        let found = exponential_of(number(&row[0]));
        assert_eq!(found.to_bits(), double(&row[1]).to_bits(), "{row}");
    }
    for row in golden.rows("seeds") {
        assert_eq!(seed_of(number(&row[0]), number(&row[1])), number(&row[2]));
    }
    let weights = Distribution::new((1..=50).map(f64::from).collect()).unwrap();
    for (seed, row) in (0..).zip(golden.rows("races")) {
        let found = SeededNoise::new(seed).first(3, &weights, 8);
        let expected: Vec<u64> = row.as_array().unwrap().iter().map(number).collect();
        assert_eq!(
            found.iter().map(|&t| u64::from(t)).collect::<Vec<_>>(),
            expected
        );
    }
}

#[test]
fn the_logarithm_is_as_precise_as_documented() {
    let ends = [0, 1, 2, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1];
    let spread = (0..200_000).map(|i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let near_both_ends = (0..64).flat_map(|shift| [u64::MAX >> shift, !(u64::MAX >> shift)]);
    for n in ends.into_iter().chain(near_both_ends).chain(spread) {
        let exact = match n >> 63 {
            0 => -(-(n as f64 + 0.5) * 0.5f64.powi(64)).ln_1p(),
            _ => -((!n as f64 + 0.5) * 0.5f64.powi(64)).ln(),
        };
        let found = exponential_of(n);
        assert!(
            (found / exact - 1.0).abs() < 0.5f64.powi(50),
            "{n}: {found} {exact}"
        );
    }
    let (most, least) = (exponential_of(u64::MAX), exponential_of(0));
    assert!((-most.ln() + 3.81).abs() < 0.01 && (-least.ln() - 45.06).abs() < 0.01);
}

/// The noise by its definition alone, without the race's shortcuts.
struct Defined(SeededNoise);

impl Noise for Defined {
    fn exponential(&self, position: u64, token: TokenId) -> f64 {
        self.0.exponential(position, token)
    }
}

/// Logits of every shape: flat, peaked, tied, with −∞ and underflow.
fn logits(vocab_size: usize, seed: u64) -> Vec<f32> {
    let mut random = SeededRandom::new(seed);
    let spread = [0.0, 0.5, 3.0, 30.0, 200.0][random.below(5)];
    let mut logits: Vec<f32> = (0..vocab_size)
        .map(|_| spread * (random.below(1000) as f32 / 1000.0 - 0.5))
        .collect();
    for _ in 0..random.below(vocab_size) {
        logits[random.below(vocab_size)] = [f32::NEG_INFINITY, spread, -spread][random.below(3)];
    }
    logits[random.below(vocab_size)] = spread;
    logits
}

#[test]
fn no_shortcut_of_the_race_changes_its_order() {
    for seed in 0..400 {
        let vocab_size = [1, 2, 3, 4, 5, 63, 64, 65, 130, 1000, 3001][seed as usize % 11];
        let logits = logits(vocab_size, seed);
        let plain = Sampling::new([0.3, 1.0, 1.5][seed as usize % 3]).unwrap();
        let noise = SeededNoise::new(seed_of(9, seed));
        for sampling in [
            plain,
            plain.with_top_k(1 + vocab_size / 20).unwrap(),
            plain.with_top_p(0.9).unwrap(),
            plain.with_min_p(0.05).unwrap(),
        ] {
            let single = sampling.distribution(&logits).unwrap();
            let double = Distribution::from_support(vocab_size, single.support()).unwrap();
            for p in [single, double] {
                for count in [0, 1, 2, 5, vocab_size + 1] {
                    let (found, defined) = (
                        noise.first(seed, &p, count),
                        Defined(noise).first(seed, &p, count),
                    );
                    assert_eq!(found, defined, "seed {seed}, {count} of {vocab_size}");
                    assert_eq!(found.len(), count.min(p.support().len()));
                }
                let winner = noise.winner(seed, &p);
                assert_eq!(Some(&winner), noise.first(seed, &p, 1).first());
                assert_eq!(noise.behind(seed, &p, winner, winner), 1.0);
                assert!(p.probability(winner) > 0.0);
            }
        }
    }
}

#[test]
fn a_token_is_behind_by_what_its_probability_lacks() {
    for seed in 0..200 {
        let noise = SeededNoise::new(seed);
        let weights = vec![0.1, 0.2, 0.3, 0.4, 0.0];
        let p = Distribution::new(weights.clone()).unwrap();
        let winner = noise.winner(5, &p);
        for token in (0..4).filter(|&token| token != winner) {
            let behind = noise.behind(5, &p, token, winner);
            assert!(behind > 1.0);
            for (factor, wins) in [(0.999, false), (1.001, true)] {
                let mut raised = weights.clone();
                raised[token as usize] *= behind * factor;
                let raised = Distribution::new(raised).unwrap();
                assert_eq!(noise.winner(5, &raised) == token, wins);
            }
        }
        assert_eq!(noise.behind(5, &p, 4, winner), f64::INFINITY);
    }
}

#[test]
fn neighbouring_seeds_have_no_sample_in_common() {
    let mut seen = std::collections::HashSet::new();
    for seed in 0..200 {
        for index in 0..200 {
            assert!(seen.insert(seed_of(seed, index)), "{seed} {index}");
        }
    }
}

/// Cells of a test of uniform numbers, and of each of a pair.
const CELLS: usize = 256;
const SIDE: usize = 16;
const SAMPLES: u64 = 2_000_000;

/// How many standard deviations counts are from equal ones (Wilson and Hilferty's approximation).
fn deviation(counts: &[u64]) -> f64 {
    let (cells, total) = (counts.len() as f64, counts.iter().sum::<u64>() as f64);
    let expected = total / cells;
    let squares = counts.iter().map(|&c| (c as f64 - expected).powi(2));
    let chi_square: f64 = squares.sum::<f64>() / expected;
    let degrees = cells - 1.0;
    let spread = 2.0 / (9.0 * degrees);
    ((chi_square / degrees).cbrt() - (1.0 - spread)) / spread.sqrt()
}

/// A number in [0, 1) that is uniform if E is exponential.
fn uniform(e: f64) -> f64 {
    -(-e).exp_m1()
}

/// Where a walk through the noise goes: seed, position and token of step i.
type Walk = fn(u64) -> (u64, u64, TokenId);

const WALKS: [(&str, Walk); 4] = [
    ("tokens", |i| (3, i / 100_000, (i % 100_000) as TokenId)),
    ("positions", |i| (3, i, 17)),
    ("seeds", |i| (i, 40, 17)),
    ("every eighth token", |i| (3, 5, 8 * i as TokenId)),
];

type Source = fn(u64, u64, TokenId) -> f64;

fn seeded(seed: u64, position: u64, token: TokenId) -> f64 {
    SeededNoise::new(seed).exponential(position, token)
}

/// How far the numbers of a walk are from uniform ones, and pairs of them from independent ones.
fn deviations(source: Source, walk: Walk) -> [f64; 3] {
    let (mut single, mut fine) = (vec![0; CELLS], vec![0; CELLS]);
    let mut pairs = vec![0; SIDE * SIDE];
    let mut last = None;
    for i in 0..SAMPLES {
        let (seed, position, token) = walk(i);
        let u = uniform(source(seed, position, token));
        single[(u * CELLS as f64) as usize] += 1;
        // Bits 24 to 32, which only the lower ranks of a number show.
        fine[((u * 0.5f64.powi(-24)).fract() * CELLS as f64) as usize] += 1;
        let cell = (u * SIDE as f64) as usize;
        if let Some(last) = last.replace(cell) {
            pairs[last * SIDE + cell] += 1;
        }
    }
    [single, fine, pairs].map(|counts| deviation(&counts))
}

#[test]
#[ignore = "statistics of 8 million numbers: seconds in release"]
fn the_noise_is_uniform_and_independent_over_tokens_positions_and_seeds() {
    for (name, walk) in WALKS {
        for z in deviations(seeded, walk) {
            assert!(z.abs() < 4.0, "{name}: {z:.1} standard deviations");
        }
    }
}

#[test]
#[ignore = "statistics of 8 million numbers: seconds in release"]
fn wrong_noise_is_noticed() {
    let wrong: [(&str, Source); 4] = [
        ("the same at all positions", |s, _, t| seeded(s, 0, t)),
        ("the same for two tokens", |s, p, t| seeded(s, p, t / 2)),
        ("16 bits", |s, p, t| {
            let u = uniform(seeded(s, p, t));
            -(-((u * 65536.0).floor() + 0.5) / 65536.0).ln_1p()
        }),
        ("too early by one in a hundred", |s, p, t| {
            0.99 * seeded(s, p, t)
        }),
    ];
    for (name, source) in wrong {
        let found = WALKS.map(|(_, walk)| deviations(source, walk));
        let worst = found.iter().flatten().fold(0.0f64, |a, z| a.max(z.abs()));
        assert!(
            worst > 10.0,
            "{name}: {worst:.1} standard deviations at most"
        );
    }
}

/// Counts of winners by the cells of a distribution, as multiples of what is expected, as uniform
/// counts.
#[test]
#[ignore = "statistics of 2 million races: seconds in release"]
fn winners_have_the_distribution_and_are_independent_of_each_other() {
    // Ten thousandths, so that a token is a range of equal cells.
    let weights = [
        1000.0, 500.0, 3000.0, 0.0, 40.0, 2460.0, 1500.0, 500.0, 1000.0,
    ];
    let p = Distribution::new(weights.to_vec()).unwrap();
    let noise = SeededNoise::new(12);
    let mut counts = [0u64; 9];
    let mut pairs = [[0u64; 9]; 9];
    let mut last = None;
    for position in 0..SAMPLES {
        let winner = noise.winner(position, &p) as usize;
        counts[winner] += 1;
        if let Some(last) = last.replace(winner) {
            pairs[last][winner] += 1;
        }
    }
    let n = SAMPLES as f64;
    let z = |count: u64, p: f64| (count as f64 - n * p) / (n * p * (1.0 - p)).sqrt().max(1.0);
    for (token, &count) in counts.iter().enumerate() {
        let own = weights[token] / 1e4;
        assert!(z(count, own).abs() < 4.5, "token {token}: {count}");
        for (next, &count) in pairs[token].iter().enumerate() {
            let both = own * weights[next] / 1e4;
            assert!(
                z(count, both).abs() < 4.5,
                "tokens {token}, {next}: {count}"
            );
        }
    }
}

/// Two models draw the same token with probability Σ_v 1 / Σ_u max(p(u)/p(v), q(u)/q(v)), which is
/// at least (1 − TV)/(1 + TV) and at most 1 − TV.
#[test]
#[ignore = "statistics of 5 million races: seconds in release"]
fn models_agree_as_often_as_the_coupling_says() {
    for seed in 0..10 {
        let mut random = SeededRandom::new(seed);
        let mut some = || {
            let weights = (0..6).map(|_| (1 + random.below(20)) as f64);
            Distribution::new(weights.collect()).unwrap()
        };
        let (p, q) = (some(), some());
        let ratio = |d: &Distribution, u, v| d.probability(u) / d.probability(v);
        let agree: f64 = (0..6)
            .map(|v| {
                (0..6)
                    .map(|u| ratio(&p, u, v).max(ratio(&q, u, v)))
                    .sum::<f64>()
            })
            .map(f64::recip)
            .sum();
        let distance = p.total_variation(&q);
        assert!(agree >= (1.0 - distance) / (1.0 + distance) - 1e-12);
        assert!(agree <= 1.0 - distance + 1e-12);
        let noise = SeededNoise::new(seed);
        let runs = 500_000;
        let same = (0..runs).filter(|&t| noise.winner(t, &p) == noise.winner(t, &q));
        let found = same.count() as f64 / runs as f64;
        let deviation = (agree * (1.0 - agree) / runs as f64).sqrt();
        assert!((found - agree).abs() < 4.5 * deviation, "{found} {agree}");
    }
}
