//! Cost of the Max-Gram tree: drafts of 8 to 64 nodes at a context of 2k tokens, with a static
//! table of contexts of two tokens, a session store and hints; and reading 2k, 16k and 128k tokens.
//!
//! `cargo bench -p cascade-ngram --bench max_gram_tree`. Before the times, it prints how many bytes
//! a token of the context takes (Linux; the growth of the resident set).

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use cascade_core::{Budget, Drafter, Fingerprint, Observation, TokenTree};
use cascade_ngram::{
    MaxGramTree, MaxGramTreeConfig, NgramLimits, NgramRows, NgramTable, Provenance,
};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

#[path = "../tests/it/common/conversations.rs"]
#[allow(dead_code, clippy::unwrap_used)] // As in the tests, which it belongs to.
mod conversations;

const VOCABULARY: u32 = 32_000;
/// Tokens of the context that drafts continue.
const CONTEXT: usize = 2048;

/// Recorded conversations, over and over; each time, half of the rarer tokens are other ones, so
/// that text repeats itself as much as natural text does.
fn conversations(len: usize) -> Vec<u32> {
    const FREQUENT: u32 = 1_000;
    let conversations = conversations::conversations();
    let tokens: Vec<u32> = conversations.into_iter().flat_map(|c| c.tokens).collect();
    let vary = |round: u32, token: u32| {
        let changes = token >= FREQUENT && token.wrapping_mul(0x9e37_79b9) >> (round % 16) & 1 == 1;
        if changes {
            FREQUENT + (token + round * 7919) % (VOCABULARY - FREQUENT)
        } else {
            token
        }
    };
    (0..)
        .flat_map(|round| tokens.iter().map(move |&token| vary(round, token)))
        .take(len)
        .collect()
}

/// A table of the conversations that are not the context.
fn table(tokens: &[u32]) -> NgramTable {
    let provenance = Provenance {
        tokenizer: Fingerprint::from_stored("sha256:bench"),
        sources: Vec::new(),
        command: "cargo bench".to_owned(),
        version: String::new(),
    };
    let limits = NgramLimits {
        top_k: 16,
        min_count: 1,
        min_context: 2,
    };
    let counted = "counts in order";
    let mut rows = NgramRows::new(2, VOCABULARY as usize, limits).expect("a vocabulary");
    for ([token], count) in windows(tokens) {
        rows.add_token(token, count).expect(counted);
    }
    for ([last, next], count) in windows(tokens) {
        rows.add_pair(last, next, count).expect(counted);
    }
    for ([first, second, next], count) in windows(tokens) {
        rows.add_triple([first, second], next, count)
            .expect(counted);
    }
    rows.finish(1, provenance).expect("a table")
}

/// How often each window of so many tokens occurs.
fn windows<const N: usize>(tokens: &[u32]) -> BTreeMap<[u32; N], u64> {
    let mut counts = BTreeMap::new();
    for window in tokens.windows(N) {
        *counts
            .entry(window.try_into().expect("N tokens"))
            .or_default() += 1;
    }
    counts
}

fn propose(criterion: &mut Criterion) {
    let tokens = conversations(256 * 1024);
    let (rest, text) = tokens.split_at(tokens.len() - 2 * CONTEXT);
    let table = Arc::new(table(rest));
    let mut drafter = MaxGramTree::new(MaxGramTreeConfig::default(), Some(table));
    // A session of earlier answers, of 500 tokens each.
    let empty = TokenTree::new();
    for answer in rest[rest.len() - 64 * 1024..].chunks_exact(500) {
        let (prompt, said) = answer.split_at(20);
        drafter.observe(&Observation::new(prompt, &empty, &[], said, &said[..1]));
    }
    let mut group = criterion.benchmark_group("propose at 2k tokens");
    for nodes in [8, 16, 32, 64] {
        let budget = Budget {
            depth: (nodes - 1).min(24),
            nodes,
        };
        // A generation that goes on by two tokens at a time.
        let mut end = CONTEXT;
        group.bench_function(format!("{nodes} nodes"), |bencher| {
            bencher.iter(|| {
                end = if end + 2 > text.len() {
                    CONTEXT
                } else {
                    end + 2
                };
                drafter.propose(black_box(&text[..end]), budget).into_tree()
            });
        });
    }
    let mut end = CONTEXT;
    group.bench_function("chain of 10", |bencher| {
        bencher.iter(|| {
            end = if end + 2 > text.len() {
                CONTEXT
            } else {
                end + 2
            };
            drafter
                .propose(black_box(&text[..end]), Budget::chain(10))
                .into_tree()
        });
    });
    group.finish();
}

fn read(criterion: &mut Criterion) {
    const LONG: usize = 128 * 1024;
    let tokens = conversations(LONG);
    let random: Vec<u32> = (0..LONG as u64)
        .map(|i| ((i * 2_654_435_761) >> 7) as u32 % VOCABULARY)
        .collect();
    let fan: Vec<u32> = (0..LONG as u32)
        .flat_map(|i| [0, 1 + i % (VOCABULARY - 1)])
        .take(LONG)
        .collect();
    for (name, tokens) in [
        ("conversations", &tokens),
        ("random", &random),
        ("one token before all others", &fan),
    ] {
        let before = resident();
        let mut drafter = MaxGramTree::default();
        drafter.propose(tokens, Budget::chain(1));
        if let (Some(before), Some(after)) = (before, resident()) {
            let bytes = after.saturating_sub(before) / LONG as u64;
            println!("{name}: {bytes} bytes per token at 128k tokens");
        }
        let mut group = criterion.benchmark_group(format!("read {name}"));
        group.sample_size(10);
        for len in [2 * 1024, 16 * 1024, LONG] {
            group.throughput(Throughput::Elements(len as u64));
            group.bench_function(format!("{len} tokens"), |bencher| {
                bencher.iter_batched(
                    MaxGramTree::default,
                    |mut drafter| {
                        drafter.propose(black_box(&tokens[..len]), Budget::chain(1));
                        drafter
                    },
                    BatchSize::PerIteration,
                );
            });
        }
        group.finish();
    }
}

/// Bytes of the process in memory.
fn resident() -> Option<u64> {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm")
        .ok()?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()?;
    Some(pages * 4096)
}

criterion_group!(benches, read, propose);
criterion_main!(benches);
