//! Max-Gram against the paper's listing, on random and on recorded sequences.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

use std::sync::Arc;

use crate::common::{conversations::conversations, oracle, tables::bigrams};
use cascade_core::{Budget, Drafter};
use cascade_ngram::{Bigram, MaxGram, MaxGramConfig, Occurrence};
use rand::{Rng, SeedableRng, rngs::StdRng};

const BUDGET: usize = 10;

fn propose(drafter: &mut impl Drafter, context: &[u32], budget: usize) -> Vec<u32> {
    let tree = drafter.propose(context, Budget::chain(budget)).into_tree();
    assert!(tree.is_chain());
    tree.tokens().collect()
}

fn max_gram(source: &[u32], context: &[u32], budget: usize) -> Vec<u32> {
    let mut drafter = MaxGram::new();
    drafter.set_source(source);
    propose(&mut drafter, context, budget)
}

fn random_tokens(rng: &mut StdRng, alphabet: u32, len: usize) -> Vec<u32> {
    (0..len).map(|_| rng.random_range(0..alphabet)).collect()
}

/// The next context of a generation that is now continued, now taken back, now begun anew.
fn next_context(rng: &mut StdRng, context: &mut Vec<u32>, alphabet: u32, last_draft: &[u32]) {
    match rng.random_range(0..10) {
        0 => {
            let len = rng.random_range(0..=60);
            *context = random_tokens(rng, alphabet, len);
        }
        1..=3 => context.truncate(rng.random_range(0..=context.len())),
        // A draft accepted, in part or as a whole.
        4..=6 => {
            let accepted = rng.random_range(0..=last_draft.len());
            context.extend(&last_draft[..accepted]);
        }
        _ => {}
    }
    let more = rng.random_range(0..4);
    context.extend(random_tokens(rng, alphabet, more));
    context.truncate(60);
}

#[test]
fn equals_the_listing_on_random_sequences_whatever_came_before() {
    let mut cases = 0;
    for seed in 0..200 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let alphabet = *[2, 2, 3, 3, 4, 5, 8, 13, 25, 50]
            .get(seed as usize % 10)
            .unwrap();
        // Half of the vocabulary has successors.
        let documents: Vec<_> = (0..alphabet / 2)
            .map(|_| random_tokens(rng, alphabet, 2))
            .collect();
        let table = Arc::new(bigrams(alphabet as usize, &documents, 2));
        let with_bigram = seed % 2 == 0;
        let best = |token| table.best(token).filter(|_| with_bigram);
        let mut drafter = MaxGram::new();
        if with_bigram {
            drafter = drafter.with_bigram(Arc::clone(&table));
        }

        let (mut source, mut context, mut draft) = (Vec::new(), Vec::new(), Vec::new());
        for case in 0..550 {
            if case % 25 == 0 && rng.random_bool(0.8) {
                let len = rng.random_range(0..=60) * usize::from(rng.random_bool(0.7));
                source = random_tokens(rng, alphabet, len);
                drafter.set_source(&source);
            }
            next_context(rng, &mut context, alphabet, &draft);
            let budget = rng.random_range(0..=14);
            let expected = oracle::draft(&source, &context, budget, best);
            draft = propose(&mut drafter, &context, budget);
            assert_eq!(
                draft, expected,
                "seed {seed}, case {case}: {source:?} | {context:?}"
            );
            cases += 1;
        }
    }
    assert!(cases >= 100_000);
}

#[test]
fn equals_the_listing_at_every_position_of_recorded_conversations() {
    let conversations = conversations();
    let documents: Vec<_> = conversations.iter().map(|c| c.tokens.clone()).collect();
    let table = Arc::new(bigrams(32_000, &documents[..10], 2));
    let mut drafter = MaxGram::new().with_bigram(Arc::clone(&table));
    for conversation in &conversations {
        drafter.set_source(&[]);
        for end in 1..=conversation.tokens.len() {
            let context = &conversation.tokens[..end];
            assert_eq!(
                propose(&mut drafter, context, BUDGET),
                oracle::draft(&[], context, BUDGET, |token| table.best(token))
            );
        }
    }
}

#[test]
fn equals_the_listing_when_the_prompt_is_a_source() {
    for conversation in &conversations() {
        let (prompt, output) = conversation.tokens.split_at(conversation.outputs[0].0);
        let mut drafter = MaxGram::new();
        drafter.set_source(prompt);
        for end in 0..=output.len() {
            assert_eq!(
                propose(&mut drafter, &output[..end], BUDGET),
                oracle::draft(prompt, &output[..end], BUDGET, |_| None)
            );
        }
    }
}

#[test]
fn copies_what_followed_the_earliest_longest_match() {
    // (5, 6) was followed by 7, the 6 alone by 1 before that.
    assert_eq!(max_gram(&[], &[6, 1, 5, 6, 7, 8, 5, 6], 2), [7, 8]);
    // Two occurrences of the longest match: the earliest.
    assert_eq!(max_gram(&[], &[5, 1, 5, 2, 5], 1), [1]);
    // In the source, and across the border between source and context.
    assert_eq!(max_gram(&[1, 2, 3], &[1], 2), [2, 3]);
    assert_eq!(max_gram(&[9, 1], &[2, 3, 1, 2], 2), [3, 1]);
}

#[test]
fn searches_once_more_where_the_corpus_ends() {
    // The first search gives "1" (the corpus ends), the second, for (1, 1, 1), another.
    assert_eq!(max_gram(&[], &[1, 1], 10), [1, 1]);
    // The first gives "1 2", the second, for (1, 2, 1, 2, 1, 2), "1 2" again.
    assert_eq!(max_gram(&[], &[1, 2, 1, 2], 10), [1, 2, 1, 2]);
}

#[test]
fn does_not_reach_back_into_the_source() {
    // (2, 1) would lead to 7, but the 2 is the encoder's.
    assert_eq!(max_gram(&[1, 5, 2, 1, 7, 2], &[1], 1), [5]);
}

#[test]
fn fills_from_the_bigram_table_until_a_token_has_no_successor() {
    let table = Arc::new(bigrams(10, &[vec![3, 4, 5]], 2));
    let mut drafter = MaxGram::new().with_bigram(Arc::clone(&table));
    assert_eq!(propose(&mut drafter, &[3], 10), [4, 5]);
    assert_eq!(propose(&mut drafter, &[3], 1), [4]);
    // After what was copied: one 3 from each search, then the table.
    assert_eq!(propose(&mut drafter, &[3, 3], 10), [3, 3, 4, 5]);
    for (context, budget) in [(&[][..], 10), (&[3], 0), (&[5], 10), (&[99], 10)] {
        assert_eq!(propose(&mut drafter, context, budget), [0u32; 0]);
    }
    let mut alone = Bigram::new(table);
    alone.set_source(&[1, 2, 3]);
    assert_eq!(propose(&mut alone, &[1, 3], 10), [4, 5]);
    assert_eq!(propose(&mut alone, &[3], 1), [4]);
    assert_eq!(propose(&mut alone, &[], 10), [0u32; 0]);
}

#[test]
fn short_matches_count_as_none_if_told_so() {
    let options = MaxGramConfig {
        min_match: 2,
        ..MaxGramConfig::default()
    };
    let mut drafter = MaxGram::new().with_options(options);
    assert_eq!(propose(&mut drafter, &[1, 2, 3, 2], 2), [0u32; 0]);
    assert_eq!(propose(&mut drafter, &[1, 2, 3, 1, 2], 2), [3, 1]);
}

#[test]
fn the_latest_occurrence_is_an_option() {
    let options = MaxGramConfig {
        occurrence: Occurrence::Latest,
        ..MaxGramConfig::default()
    };
    for seed in 0..10_000 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let (alphabet, len) = (rng.random_range(1..6), rng.random_range(1..40));
        let source_len = rng.random_range(0..10);
        let source = random_tokens(rng, alphabet, source_len);
        let context = random_tokens(rng, alphabet, len);
        let corpus = [&source[..], &context].concat();
        // Longest first; of one length, the latest that ends before the corpus does.
        let expected = (1..=context.len()).rev().find_map(|len| {
            let suffix = &context[context.len() - len..];
            let start = corpus[..corpus.len() - 1]
                .windows(len)
                .rposition(|window| window == suffix)?;
            Some(corpus[start + len])
        });
        let mut drafter = MaxGram::new().with_options(options.clone());
        drafter.set_source(&source);
        let draft = propose(&mut drafter, &context, 1);
        assert_eq!(draft.first().copied(), expected, "{source:?} | {context:?}");
    }
}
