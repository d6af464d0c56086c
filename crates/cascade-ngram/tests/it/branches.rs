//! Trees of the statistical drafters: the lead is the chain, and every other path is somewhere in
//! the corpus.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

use std::{collections::HashSet, sync::Arc};

use crate::common::{conversations::conversations, tables::bigrams};
use cascade_core::{Budget, Drafter, NodeId, TokenTree};
use cascade_ngram::{Bigram, MaxGram, MaxGramConfig, NgramTable, Occurrence, PromptLookup};
use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::StdRng};

/// A table that keeps three successors of each token.
fn table(vocab_size: usize, documents: &[Vec<u32>]) -> Arc<NgramTable> {
    Arc::new(bigrams(vocab_size, documents, 3))
}

fn tree(depth: usize, nodes: usize) -> Budget {
    Budget { depth, nodes }
}

/// Paths from the context to every node, in the order of the nodes.
fn paths(tree: &TokenTree) -> Vec<Vec<u32>> {
    (0..tree.len()).map(|n| tree.path_tokens(Some(n))).collect()
}

/// The first child of the context, its first child, and so on.
fn first_children(tree: &TokenTree) -> Vec<NodeId> {
    std::iter::successors(tree.children(None).next(), |&node| {
        tree.children(Some(node)).next()
    })
    .collect()
}

fn assert_sound(tree: &TokenTree, budget: Budget) {
    assert!(tree.len() <= budget.nodes && tree.height() <= budget.depth);
    let parents = [None].into_iter().chain((0..tree.len()).map(Some));
    for parent in parents {
        let tokens: Vec<u32> = tree.children(parent).map(|n| tree.token(n)).collect();
        let distinct: HashSet<u32> = tokens.iter().copied().collect();
        assert_eq!(distinct.len(), tokens.len(), "siblings differ");
        assert!(tree.children(parent).all(|node| parent < Some(node)));
    }
}

/// Checks the lead, and returns the other nodes.
fn beside_the_lead(tree: &TokenTree, chain: &TokenTree) -> Vec<NodeId> {
    let lead = first_children(tree);
    assert_eq!(lead, (0..chain.len()).collect::<Vec<_>>());
    assert!(tree.tokens().take(chain.len()).eq(chain.tokens()));
    (chain.len()..tree.len()).collect()
}

fn depths_rise(tree: &TokenTree, nodes: &[NodeId]) -> bool {
    nodes
        .windows(2)
        .all(|pair| tree.depth(pair[0]) <= tree.depth(pair[1]))
}

/// Naive search for all that Max-Gram may branch into: by falling length of the match, then from
/// the end, the tokens that follow each earlier occurrence of a suffix of the context.
fn continuations(source: &[u32], context: &[u32], depth: usize, min_match: usize) -> Vec<Vec<u32>> {
    let corpus = [source, context].concat();
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for len in (min_match.max(1)..=context.len()).rev() {
        let suffix = &context[context.len() - len..];
        for end in (len..corpus.len()).rev() {
            if corpus[end - len..end] == *suffix && seen.insert(end) {
                all.push(corpus[end..corpus.len().min(end + depth)].to_vec());
            }
        }
    }
    all
}

/// The tree of the documentation, by the letter: which paths it has, from those sets of prefixes
/// that a tree is.
fn expected(
    lead: &[u32],
    mut continuations: Vec<Vec<u32>>,
    branches: usize,
    nodes: usize,
) -> Vec<Vec<u32>> {
    let prefixes = |tokens: &[u32]| -> Vec<Vec<u32>> {
        (1..=tokens.len()).map(|n| tokens[..n].to_vec()).collect()
    };
    let mut paths = prefixes(lead);
    let mut taken = 1;
    continuations.retain(|continuation| !continuation.starts_with(lead));
    for continuation in continuations {
        let new: Vec<_> = prefixes(&continuation)
            .into_iter()
            .filter(|path| !paths.contains(path))
            .collect();
        if new.is_empty() || taken >= branches {
            continue;
        }
        taken += 1;
        paths.extend(new);
    }
    paths[lead.len()..].sort_by_key(Vec::len);
    paths.truncate(nodes);
    paths
}

/// Something to try: few different tokens, so that there are many matches.
fn case() -> impl Strategy<Value = (Vec<u32>, Vec<u32>)> {
    (1..6u32).prop_flat_map(|alphabet| {
        let tokens = |longest| prop::collection::vec(0..alphabet, 0..longest);
        (tokens(20), tokens(60))
    })
}

fn options() -> impl Strategy<Value = MaxGramConfig> {
    let occurrence = prop_oneof![Just(Occurrence::Earliest), Just(Occurrence::Latest)];
    (occurrence, 0..4usize, 0..6usize, 0..5usize).prop_map(
        |(occurrence, min_match, branches, width)| MaxGramConfig {
            bigram: None,
            occurrence,
            min_match,
            branches,
            width,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn max_gram_branches_into_what_followed_elsewhere(
        (source, context) in case(), options in options(), depth in 0..9usize, extra in 1..30usize,
    ) {
        let budget = tree(depth, depth + extra);
        let mut drafter = MaxGram::new().with_options(options.clone());
        drafter.set_source(&source);
        let chain: Vec<u32> = drafter.propose(&context, Budget::chain(depth)).into_tree().tokens().collect();
        let found = drafter.propose(&context, budget).into_tree();
        assert_sound(&found, budget);
        let others = continuations(&source, &context, depth, options.min_match);
        prop_assert_eq!(paths(&found), expected(&chain, others, options.branches, budget.nodes));
    }

    #[test]
    fn what_the_table_fills_has_its_next_best_followers_beside_it(
        (source, context) in case(), options in options(), depth in 0..9usize, extra in 1..30usize,
    ) {
        let table = table(10, &[vec![0, 1, 2, 0, 2, 1, 0, 3, 3, 2, 0, 0, 1]]);
        let budget = tree(depth, depth + extra);
        let bare = MaxGramConfig { branches: 1, ..options.clone() };
        let plain = MaxGramConfig { width: 1, ..bare.clone() };
        let mut copier = MaxGram::new().with_options(plain);
        let mut drafter = copier.clone().with_bigram(Arc::clone(&table)).with_options(bare);
        copier.set_source(&source);
        drafter.set_source(&source);
        let chain = drafter.propose(&context, Budget::chain(depth)).into_tree();
        let copied = copier.propose(&context, Budget::chain(depth)).into_tree().len();
        let found = drafter.propose(&context, budget).into_tree();
        assert_sound(&found, budget);
        let others = beside_the_lead(&found, &chain);
        prop_assert!(depths_rise(&found, &others));

        let wanted: Vec<Vec<u32>> = (copied..chain.len())
            .flat_map(|depth| {
                let path: Vec<u32> = chain.tokens().take(depth).collect();
                let last = path.last().or(context.last()).copied().unwrap();
                let next: Vec<u32> = table.after(&[last]).into_iter().flatten().map(|pair| pair.0).collect();
                let beside = next.into_iter().take(options.width).skip(1);
                beside.map(move |token| [&path[..], &[token]].concat()).collect::<Vec<_>>()
            })
            .take(budget.nodes - chain.len())
            .collect();
        prop_assert_eq!(&paths(&found)[chain.len()..], wanted);
    }

    #[test]
    fn prompt_lookup_branches_by_the_same_rule(
        context in case().prop_map(|case| case.1), branches in 0..6usize, depth in 0..9usize, extra in 1..30usize,
    ) {
        let budget = tree(depth, depth + extra);
        let mut drafter = PromptLookup::default().with_branches(branches);
        let chain = drafter.propose(&context, Budget::chain(depth)).into_tree();
        let found = drafter.propose(&context, budget).into_tree();
        assert_sound(&found, budget);
        let others = beside_the_lead(&found, &chain);
        prop_assert!(depths_rise(&found, &others));
        let occurring = continuations(&[], &context, depth, 1);
        for node in others {
            let path = found.path_tokens(Some(node));
            prop_assert!(occurring.iter().any(|tokens| tokens.starts_with(&path)));
        }
        if branches <= 1 {
            prop_assert_eq!(found, chain);
        }
    }
}

#[test]
fn without_settings_more_nodes_change_nothing() {
    let conversations = conversations();
    let documents: Vec<_> = conversations.iter().map(|c| c.tokens.clone()).collect();
    let table = table(32_000, &documents);
    let mut drafters: [Box<dyn Drafter>; 3] = [
        Box::new(MaxGram::new().with_bigram(Arc::clone(&table))),
        Box::new(Bigram::new(table)),
        Box::new(PromptLookup::default()),
    ];
    for conversation in conversations.iter().take(5) {
        for end in (0..=conversation.tokens.len()).step_by(7) {
            let context = &conversation.tokens[..end];
            for drafter in &mut drafters {
                let chain = drafter.propose(context, Budget::chain(10)).into_tree();
                assert_eq!(drafter.propose(context, tree(10, 64)).into_tree(), chain);
            }
        }
    }
}

#[test]
fn a_budget_for_a_chain_gives_the_chain_whatever_the_settings() {
    let table = table(10, &[vec![3, 4, 3, 5, 3, 5]]);
    let options = MaxGramConfig {
        branches: 8,
        width: 4,
        ..MaxGramConfig::default()
    };
    let context = [3, 4, 9, 3, 5, 9, 3];
    for nodes in 0..=6 {
        let budget = tree(6, nodes);
        let mut wide: [Box<dyn Drafter>; 3] = [
            Box::new(
                MaxGram::new()
                    .with_bigram(Arc::clone(&table))
                    .with_options(options.clone()),
            ),
            Box::new(Bigram::new(Arc::clone(&table)).with_width(4)),
            Box::new(PromptLookup::default().with_branches(8)),
        ];
        let mut plain: [Box<dyn Drafter>; 3] = [
            Box::new(MaxGram::new().with_bigram(Arc::clone(&table))),
            Box::new(Bigram::new(Arc::clone(&table))),
            Box::new(PromptLookup::default()),
        ];
        for (wide, plain) in wide.iter_mut().zip(&mut plain) {
            let chain = plain.propose(&context, Budget::chain(nodes)).into_tree();
            assert_eq!(wide.propose(&context, budget).into_tree(), chain);
        }
    }
}

#[test]
fn max_gram_prefers_the_longest_match_then_the_latest() {
    // Before the last (1, 2): (1, 2) came before 3 and before 4, 2 alone before 5 and before 6.
    let context = [1, 2, 3, 0, 2, 5, 7, 1, 2, 4, 0, 2, 6, 8, 1, 2];
    let paths = |branches, nodes| {
        let options = MaxGramConfig {
            branches,
            ..MaxGramConfig::default()
        };
        let mut drafter = MaxGram::new().with_options(options);
        paths(&drafter.propose(&context, tree(2, nodes)).into_tree())
    };
    let lead = [vec![3], vec![3, 0]];
    assert_eq!(paths(1, 20), lead);
    assert_eq!(paths(4, 5)[..2], lead);
    assert_eq!(paths(4, 5)[2..], [vec![4], vec![6], vec![5]]);
    assert_eq!(
        paths(2, 20)[2..],
        [vec![4], vec![4, 0]],
        "longest matches come first"
    );
    assert_eq!(
        paths(9, 20)[2..],
        [
            vec![4],
            vec![6],
            vec![5],
            vec![4, 0],
            vec![6, 8],
            vec![5, 7]
        ]
    );
}

#[test]
fn bigrams_branch_into_the_most_frequent_followers() {
    // After 1: 2 three times, 4 and 3 once each. After 2: 1 twice, 5 once.
    let table = table(10, &[vec![1, 2, 1, 2, 1, 4], vec![1, 3], vec![1, 2, 5]]);
    let mut drafter = Bigram::new(table).with_width(2);
    let wide = drafter.propose(&[1], tree(3, 20)).into_tree();
    let lead = [vec![2], vec![2, 1], vec![2, 1, 2]];
    assert_eq!(paths(&wide)[..3], lead);
    let siblings = [vec![3], vec![2, 5], vec![2, 1, 3]];
    assert_eq!(paths(&wide)[3..], siblings, "of 3 and 4, the lower token");
    assert_eq!(
        paths(&drafter.propose(&[1], tree(3, 4)).into_tree())[3..],
        siblings[..1]
    );

    let mut wider = drafter.with_width(100);
    let siblings = paths(&wider.propose(&[1], tree(1, 20)).into_tree());
    assert_eq!(siblings, [[2], [3], [4]], "no more than the table has");
}

/// The next context of a generation that is now continued, now taken back, now begun anew.
fn next_context(rng: &mut StdRng, context: &mut Vec<u32>, last: &TokenTree) {
    let accepted = match rng.random_range(0..=last.len()) {
        0 => None,
        node => Some(node - 1),
    };
    match rng.random_range(0..10) {
        0 => context.clear(),
        1..=3 => context.truncate(rng.random_range(0..=context.len())),
        4..=7 => context.extend(last.path_tokens(accepted)),
        _ => {}
    }
    for _ in 0..rng.random_range(0..4) {
        context.push(rng.random_range(0..4));
    }
    if context.len() > 200 {
        context.clear();
    }
}

#[test]
fn proposals_depend_on_source_context_and_budget_only() {
    let table = table(10, &[vec![0, 1, 2, 0, 2, 1, 0, 3, 3, 2, 0, 0, 1]]);
    for seed in 0..40 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let options = MaxGramConfig {
            occurrence: [Occurrence::Earliest, Occurrence::Latest][seed as usize % 2],
            min_match: rng.random_range(1..3),
            branches: rng.random_range(1..9),
            width: rng.random_range(1..4),
            bigram: None,
        };
        let fresh = MaxGram::new()
            .with_bigram(Arc::clone(&table))
            .with_options(options);
        let mut drafter = fresh.clone();
        let (mut source, mut context) = (Vec::new(), Vec::new());
        let mut last = TokenTree::new();
        for _ in 0..300 {
            if rng.random_bool(0.05) {
                source = (0..rng.random_range(0..20))
                    .map(|_| rng.random_range(0..4))
                    .collect();
                drafter.set_source(&source);
            }
            next_context(rng, &mut context, &last);
            // Several budgets on one context, too.
            for _ in 0..rng.random_range(1..4) {
                let budget = tree(rng.random_range(0..12), rng.random_range(0..40));
                let mut fresh = fresh.clone();
                fresh.set_source(&source);
                last = drafter.propose(&context, budget).into_tree();
                assert_eq!(
                    last,
                    fresh.propose(&context, budget).into_tree(),
                    "seed {seed}"
                );
            }
        }
    }
}

#[test]
fn recorded_conversations_give_paths_that_occur() {
    let options = MaxGramConfig {
        branches: 8,
        ..MaxGramConfig::default()
    };
    let mut drafter = MaxGram::new().with_options(options);
    for conversation in conversations().iter().step_by(4) {
        for end in (1..conversation.tokens.len()).step_by(23) {
            let context = &conversation.tokens[..end];
            let chain: Vec<u32> = drafter
                .propose(context, Budget::chain(10))
                .into_tree()
                .tokens()
                .collect();
            let found = drafter.propose(context, tree(10, 64)).into_tree();
            let others = continuations(&[], context, 10, 1);
            assert_eq!(paths(&found), expected(&chain, others, 8, 64), "at {end}");
        }
    }
}
