//! The words that all crates share: drafts, prompts, rows of scores, and models behind a box.

use std::sync::Arc;

use cascade_core::{
    Architecture, Budget, Candidate, Distribution, Draft, GatheredProbs, HiddenLayer, HiddenLayers,
    LevelId, Matrix, Prompt, Proposal, Proposed, RandomSource, Result, RowDetail, ScoredTree,
    Scorer, ScorerInfo, Scores, SeededRandom, TextCodec, TextDecoder, TokenId, TokenTree, Top,
    Want,
};

fn fixed(drafter: usize) -> Proposed {
    Proposed {
        proposal: Proposal::PointMass,
        proposer: LevelId::drafter(drafter),
    }
}

#[test]
fn the_target_is_level_0_and_drafters_follow() {
    assert_eq!(LevelId::TARGET, LevelId(0));
    assert_eq!(
        [0, 1, 5].map(LevelId::drafter).map(|level| level.0),
        [1, 2, 6]
    );
}

#[test]
fn a_graft_moves_every_draw_and_merges_equal_siblings() {
    let mut draft = Draft::new();
    assert!(draft.is_empty() && draft.tree().is_empty());
    let root = draft.push(1, None, fixed(0));
    let known = draft.push(2, Some(root), fixed(0));
    assert!(!draft.is_empty() && !draft.tree().is_empty());

    let mut other = Draft::new();
    let twin = other.push(2, None, fixed(1));
    let new = other.push(3, None, fixed(1));
    let under = other.push(4, Some(twin), fixed(1));
    let places = draft.graft(Some(root), other);

    assert_eq!(places[twin], known, "an equal sibling is the same node");
    assert_eq!(draft.len(), 4);
    let tree = draft.tree();
    assert_eq!(tree.tokens().collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(tree.parent(places[new]), Some(root));
    assert_eq!(tree.path_tokens(Some(places[under])), [1, 2, 4]);
    let drawn: Vec<usize> = draft.candidates().iter().map(|draw| draw.node).collect();
    assert_eq!(drawn, [root, known, known, places[new], places[under]]);
    let levels = [known, places[new]].map(|node| draft.proposer(node));
    assert_eq!(levels, [LevelId::drafter(0), LevelId::drafter(1)]);
    assert!(matches!(
        draft.candidates()[4],
        Candidate {
            proposal: Proposal::PointMass,
            ..
        }
    ));
}

#[test]
fn a_prompt_is_as_long_as_its_parts() {
    for architecture in [Architecture::EncoderDecoder, Architecture::DecoderOnly] {
        let of = |len: u32| Prompt::new(architecture, (0..len).collect());
        assert_eq!([0, 1, 5].map(|len| of(len).len()), [0, 1, 5]);
        assert_eq!(
            [0, 1, 5].map(|len| of(len).is_empty()),
            [true, false, false]
        );
    }
    let both = Prompt {
        source: vec![1, 2, 3],
        context: vec![4, 5],
    };
    assert_eq!((both.len(), both.is_empty()), (5, false));
}

#[test]
fn a_budget_of_a_chain_has_a_node_per_token() {
    let Budget { depth, nodes, .. } = Budget::chain(7);
    assert_eq!((depth, nodes), (7, 7));
}

/// What is drawn by `draw`.
fn first<T>(seed: u64, n: usize, mut draw: impl FnMut(&mut dyn RandomSource) -> T) -> Vec<T> {
    let mut random = SeededRandom::new(seed);
    (0..n).map(|_| draw(&mut random)).collect()
}

#[test]
fn seeded_draws_have_their_probabilities() {
    const DRAWS: usize = 20_000;
    let share = |hits: usize| hits as f64 / DRAWS as f64;
    for probability in [0.0, 0.03, 0.5, 0.9, 1.0] {
        let accepted = first(1, DRAWS, |random| random.accept(probability));
        let found = share(accepted.into_iter().filter(|&yes| yes).count());
        // Five standard deviations.
        let bound = 5.0 * (probability * (1.0 - probability) / DRAWS as f64).sqrt();
        assert!(
            (found - probability).abs() <= bound,
            "{probability}: {found}"
        );
    }
    let drawn = first(2, DRAWS, |random| random.below(4));
    for value in 0..4 {
        let found = share(drawn.iter().filter(|&&drawn| drawn == value).count());
        assert!((found - 0.25).abs() < 0.016, "{value}: {found}");
    }
    let p = Distribution::new(vec![0.1, 0.0, 0.6, 0.3]).unwrap();
    let drawn = first(3, DRAWS, |random| random.draw(&p));
    for token in 0..4 {
        let found = share(drawn.iter().filter(|&&drawn| drawn == token).count());
        assert!(
            (found - p.probability(token)).abs() < 0.018,
            "{token}: {found}"
        );
    }
}

/// Recorded samples depend on it.
#[test]
fn a_seed_gives_the_same_draws_directly_and_by_reference() {
    let mut direct = SeededRandom::new(7);
    let p = Distribution::new(vec![0.2, 0.5, 0.3]).unwrap();
    let expected: Vec<(bool, usize, TokenId)> = (0..50)
        .map(|_| (direct.accept(0.4), direct.below(9), direct.draw(&p)))
        .collect();
    let found = first(7, 50, |random| {
        (random.accept(0.4), random.below(9), random.draw(&p))
    });
    assert_eq!(found, expected);
}

#[test]
fn a_union_wants_what_either_wants() {
    let all = Want::LOGITS.with_top(3).with_entropy().with_last_hidden();
    let wants = [
        Want::ARGMAX,
        Want::GATHERED,
        Want::LOGITS,
        Want::ARGMAX.with_top(2),
        Want::GATHERED.with_top(3),
        Want::ARGMAX.with_entropy(),
        Want::ARGMAX.with_last_hidden(),
        all,
    ];
    for a in wants {
        for b in wants {
            let both = a.union(b);
            assert_eq!(both, b.union(a));
            assert_eq!(both.rows, a.rows.max(b.rows));
            assert_eq!(both.top, a.top.max(b.top));
            assert_eq!(both.entropy, a.entropy | b.entropy);
            assert_eq!(both.hidden, a.hidden.union(b.hidden));
        }
        assert_eq!(all.union(a), all);
    }
    assert_eq!(all.with_rows(RowDetail::Argmax).rows, RowDetail::Argmax);
    assert_eq!(
        (all.top, all.entropy, all.hidden),
        (3, true, HiddenLayers::LAST)
    );
}

#[test]
fn matrices_and_tops_are_read_row_by_row() {
    let matrix = Matrix::new(3, (0..12).map(|i| i as f32).collect());
    assert_eq!((matrix.rows(), matrix.columns()), (4, 3));
    assert_eq!(matrix.row(0), [0.0, 1.0, 2.0]);
    assert_eq!(matrix.row(2), [6.0, 7.0, 8.0]);
    let top = Top {
        width: 2,
        tokens: (0..6).map(|token| (token, 0.5)).collect(),
    };
    assert_eq!(top.row(0), [(0, 0.5), (1, 0.5)]);
    assert_eq!(top.row(2), [(4, 0.5), (5, 0.5)]);
}

/// Scores of a chain of two with all parts.
fn scores() -> Scores {
    let gathered = GatheredProbs {
        argmax: vec![0.5; 3],
        nodes: vec![0.25; 2],
    };
    let top = Top {
        width: 1,
        tokens: vec![(7, 0.5), (8, 0.5), (9, 0.5)],
    };
    Scores::default()
        .with_rows_computed(5)
        .with_hidden(Matrix::new(2, vec![1.0; 6]))
        .with_entropy(vec![0.1; 3])
        .with_logits(Matrix::new(4, vec![2.0; 12]))
        .with_top(top)
        .with_gathered(gathered)
        .with_argmax(vec![7, 8, 9])
}

#[test]
fn scores_hold_every_part_that_was_given() {
    let scores = scores();
    let after = [None, Some(0), Some(1)].map(|node| scores.argmax_after(node));
    assert_eq!(after, [7, 8, 9]);
    assert_eq!(scores.argmax, [7, 8, 9]);
    assert_eq!(scores.gathered.as_ref().unwrap().nodes, [0.25; 2]);
    assert_eq!(scores.top.as_ref().unwrap().row(1), [(8, 0.5)]);
    assert_eq!(scores.logits.as_ref().unwrap().rows(), 3);
    assert_eq!(scores.entropy.as_ref().unwrap(), &[0.1; 3]);
    assert_eq!(scores.hidden.of(HiddenLayer::Last).unwrap().columns(), 2);
    assert_eq!(scores.rows_computed, 5);
    // And each part can be taken away, without the others.
    let rows_computed = scores.rows_computed;
    let fewer = scores.clone().with_gathered(None).with_entropy(None);
    assert_eq!((&fewer.gathered, &fewer.entropy), (&None, &None));
    assert_eq!(
        (fewer.rows_computed, &fewer.top),
        (rows_computed, &scores.top)
    );
}

#[test]
fn estimates_are_those_of_the_nodes() {
    let tree = TokenTree::chain([3, 4]);
    let without = ScoredTree::from(tree.clone());
    assert_eq!((without.tree(), without.probability(0)), (&tree, None));
    let with = ScoredTree::estimated(tree, |node| [0.75, 0.25][node]);
    let found = [0, 1, 2].map(|node| with.probability(node));
    assert_eq!(found, [Some(0.75), Some(0.25), None]);
}

#[test]
fn every_node_keeps_what_it_was_drawn_from() {
    let q = Arc::new(Distribution::new(vec![1.0, 3.0]).unwrap());
    let drawn = || Proposal::Sampled(Arc::clone(&q));
    let mut proposed = ScoredTree::default();
    let first = proposed.push_estimated(1, None, 0.5);
    assert!(!proposed.is_drawn());
    let under = proposed.draw(1, Some(first), drawn());
    assert_eq!(proposed.draw(1, Some(first), drawn()), under, "drawn again");
    let last = proposed.push(0, Some(under));
    assert!(proposed.is_drawn());
    let of = |node, proposal| Candidate { node, proposal };
    let expected = [
        of(first, Proposal::PointMass),
        of(under, drawn()),
        of(under, drawn()),
        of(last, Proposal::PointMass),
    ];
    assert_eq!(proposed.candidates().collect::<Vec<_>>(), expected);
    let estimates = [first, under, last].map(|node| proposed.probability(node));
    assert_eq!(estimates, [Some(0.5), Some(0.75), None]);
    assert_eq!(proposed.into_tree(), TokenTree::chain([1, 1, 0]));
}

/// What a codec and a scorer need not say.
#[test]
fn a_codec_without_special_tokens_encodes_verbatim() {
    struct Bytes;
    impl TextCodec for Bytes {
        fn encode(&self, text: &str) -> Result<Vec<TokenId>> {
            Ok(text.bytes().map(TokenId::from).collect())
        }

        fn decoder(self: Arc<Self>) -> Box<dyn TextDecoder + Send> {
            unreachable!("nothing is decoded")
        }
    }
    assert_eq!(Bytes.encode_verbatim("ab").unwrap(), [97, 98]);
}

#[test]
fn a_scorer_scores_trees_of_any_size_unless_it_says_otherwise() {
    struct Unlimited;
    impl Scorer for Unlimited {
        fn info(&self) -> ScorerInfo {
            ScorerInfo::new(Architecture::DecoderOnly, 1)
        }

        fn set_source(&mut self, _source: &[TokenId]) -> Result<()> {
            Ok(())
        }

        fn score(&mut self, _: &[TokenId], _: &TokenTree, _: Want) -> Result<Scores> {
            Ok(scores())
        }
    }
    assert_eq!(Unlimited.info().max_nodes, None);
}
