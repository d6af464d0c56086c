//! The automaton against naive search, and its claims about size.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

use crate::common::conversations::conversations;
use cascade_ngram::{Match, SuffixAutomaton};
use rand::{Rng, SeedableRng, rngs::StdRng};

fn automaton(tokens: impl IntoIterator<Item = u32>) -> SuffixAutomaton {
    let mut automaton = SuffixAutomaton::new();
    for token in tokens {
        automaton.push(token);
    }
    automaton
}

fn naive(text: &[u32], limit: usize) -> Option<Match> {
    let searched = &text[..text.len().saturating_sub(1)];
    (1..=limit.min(searched.len())).rev().find_map(|len| {
        let suffix = &text[text.len() - len..];
        let start = searched.windows(len).position(|window| window == suffix)?;
        Some(Match {
            len,
            end: start + len,
        })
    })
}

#[test]
fn finds_what_naive_search_finds_after_any_walk() {
    for seed in 0..2_000 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let alphabet = [1, 2, 2, 3, 4, 9, 30][seed as usize % 7];
        let mut text: Vec<u32> = Vec::new();
        let mut automaton = SuffixAutomaton::new();
        for _ in 0..30 {
            if rng.random_bool(0.4) {
                let len = rng.random_range(0..=text.len());
                text.truncate(len);
                automaton.truncate(len);
            }
            for _ in 0..rng.random_range(0..12) {
                let token = rng.random_range(0..alphabet);
                text.push(token);
                automaton.push(token);
            }
            assert_eq!(automaton.tokens(), text);
            let limit = rng.random_range(0..=text.len() + 1);
            for limit in [limit, usize::MAX] {
                assert_eq!(
                    automaton.longest_earlier_match(limit),
                    naive(&text, limit),
                    "{text:?}, limit {limit}"
                );
            }
        }
    }
}

#[test]
fn stands_adversarial_texts() {
    const N: usize = 50_000;
    let equal = automaton(std::iter::repeat_n(7, N));
    let found = |len, end| Some(Match { len, end });
    assert_eq!(equal.longest_earlier_match(N), found(N - 1, N - 1));
    assert_eq!(equal.longest_earlier_match(10), found(10, 10));

    let mut new = equal;
    new.push(8);
    assert_eq!(new.longest_earlier_match(N), None);
    for token in std::iter::repeat_n(7, N).chain([8]) {
        new.push(token);
    }
    assert_eq!(new.longest_earlier_match(usize::MAX), found(N + 1, N + 1));
    new.truncate(N);
    assert_eq!(new.longest_earlier_match(N), found(N - 1, N - 1));
    new.truncate(0);
    assert!(new.is_empty() && new.longest_earlier_match(1).is_none());
    assert_eq!((new.len(), new.states()), (0, 1));
    new.push(9);
    assert!(!new.is_empty());
    assert_eq!((new.len(), new.states()), (1, 2));

    // Many states: (ab)^n c-like texts reach 2n, and tokens may be any number.
    let alternating = automaton((0..N as u32).map(|i| u32::MAX - i % 2));
    assert!(alternating.states() <= 2 * N);
    let random = StdRng::seed_from_u64(1);
    let texts = automaton(random.random_iter::<u32>().take(N).map(|x| x % 2));
    assert!(texts.states() <= 2 * N);
}

#[test]
fn recorded_conversations_need_as_much_memory_as_documented() {
    let tokens: Vec<u32> = conversations().into_iter().flat_map(|c| c.tokens).collect();
    let automaton = automaton(tokens.iter().copied());
    let states = automaton.states() as f64 / tokens.len() as f64;
    let bytes = automaton.heap_bytes() as f64 / tokens.len() as f64;
    assert!(states > 1.0, "{states} states for each token");
    assert!(states < 1.6, "{states} states for each token");
    // A token, a step and a state of each, at least.
    assert!(bytes > 44.0, "{bytes} bytes for each token");
    assert!(bytes < 160.0, "{bytes} bytes for each token");
    println!(
        "{} tokens, {states:.2} states and {bytes:.0} bytes each",
        tokens.len()
    );
}
