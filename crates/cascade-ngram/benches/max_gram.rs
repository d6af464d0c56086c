//! Cost of Max-Gram at a context of 128k tokens: appending a token, searching, and a whole
//! proposal, chain and tree.
//!
//! `cargo bench -p cascade-ngram`. Times of `append` are for the whole text: divide by 131,072, or
//! read the throughput.

use std::{hint::black_box, time::Duration};

use cascade_core::{Budget, Drafter};
use cascade_ngram::{MaxGram, MaxGramConfig, SuffixAutomaton};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::{Rng, SeedableRng, rngs::StdRng};

#[path = "../tests/it/common/conversations.rs"]
#[allow(dead_code, clippy::unwrap_used)] // As in the tests, which it belongs to.
mod conversations;

const LEN: usize = 128 * 1024;
const BUDGET: usize = 10;
const TREE: Budget = Budget {
    depth: BUDGET,
    nodes: 64,
};

/// Recorded conversations, over and over; each time, half of the rarer tokens are other ones, so
/// that text repeats itself as much as natural text does.
fn conversations() -> Vec<u32> {
    const VOCABULARY: u32 = 32_000;
    const FREQUENT: u32 = 1_000;
    let tokens: Vec<u32> = conversations::conversations()
        .into_iter()
        .flat_map(|conversation| conversation.tokens)
        .collect();
    let vary = |round: u32, token: u32| {
        let changes = token >= FREQUENT && token.wrapping_mul(0x9e37_79b9) >> (round % 16) & 1 == 1;
        token + u32::from(changes) * round * VOCABULARY
    };
    (0..)
        .flat_map(|round| tokens.iter().map(move |&token| vary(round, token)))
        .take(LEN)
        .collect()
}

fn random(vocabulary: u32) -> Vec<u32> {
    let rng = &mut StdRng::seed_from_u64(0);
    (0..LEN).map(|_| rng.random_range(0..vocabulary)).collect()
}

fn automaton(tokens: &[u32]) -> SuffixAutomaton {
    let mut automaton = SuffixAutomaton::new();
    for &token in tokens {
        automaton.push(token);
    }
    automaton
}

/// The draft alone, without comparing the context with the one before.
fn search(automaton: &SuffixAutomaton) -> Vec<u32> {
    let found = automaton.longest_earlier_match(usize::MAX);
    let end = found.map_or(automaton.len(), |found| found.end);
    automaton.tokens()[end..]
        .iter()
        .take(BUDGET)
        .copied()
        .collect()
}

fn max_gram(criterion: &mut Criterion) {
    for (name, tokens) in [
        ("conversations", conversations()),
        ("random 32000", random(32_000)),
        ("random 4", random(4)),
        // Every token is an occurrence, every match is long, and nothing that follows is new.
        ("one token", random(1)),
    ] {
        let mut group = criterion.benchmark_group(name);
        group
            .measurement_time(Duration::from_secs(3))
            .sample_size(20);
        group.throughput(Throughput::Elements(LEN as u64));
        group.bench_function("append", |bencher| {
            bencher.iter(|| automaton(black_box(&tokens)));
        });
        group.throughput(Throughput::Elements(1));

        let mut automaton = automaton(&tokens);
        let last = tokens[LEN - 1];
        group.bench_function("append one and take it back", |bencher| {
            bencher.iter(|| {
                automaton.truncate(LEN - 1);
                automaton.push(black_box(last));
            });
        });
        group.bench_function("search", |bencher| {
            bencher.iter(|| search(black_box(&automaton)))
        });

        let branches = MaxGramConfig {
            branches: 8,
            ..MaxGramConfig::default()
        };
        for (name, options, budget) in [
            ("propose", MaxGramConfig::default(), Budget::chain(BUDGET)),
            ("propose a tree", branches, TREE),
        ] {
            // A generation that goes on by one token at a time.
            let mut drafter = MaxGram::new().with_options(options);
            let mut end = LEN - 1000;
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    end = if end == LEN { LEN - 1000 } else { end + 1 };
                    drafter
                        .propose(black_box(&tokens[..end]), budget)
                        .into_tree()
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, max_gram);
criterion_main!(benches);
