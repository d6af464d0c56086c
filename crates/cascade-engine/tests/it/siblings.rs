//! How many children a node gets, and from what: fixed before any of them is drawn, by widths,
//! siblings and the node budget.

use std::sync::{Arc, Mutex};

use cascade_core::toy::ToyScorer;
use cascade_core::{Decoding, Draft, LevelId, NodeId, Prompt, Proposal, Sampling};
use cascade_engine::{
    Branching, Cascade, DraftState, Expand, Lenience, LevelSpec, NeuralOptions, Options, Outcome,
    Plan, Result, Rule, Schedule, Siblings, StaticSchedule, Turn,
};

use crate::common::{Log, Scripted, matrix, prompt, scripted};

const VOCABULARY: usize = 24;

/// The K matrix's schedule, which keeps the drafts that the target reviewed.
struct Keeping {
    schedule: StaticSchedule,
    drafts: Arc<Mutex<Vec<Draft>>>,
}

impl Schedule for Keeping {
    fn next(&mut self, reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn> {
        self.schedule.next(reviewer, state)
    }

    fn prepare(&mut self, levels: &[LevelSpec<'_>]) -> Result<Plan> {
        self.schedule.prepare(levels)
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        if outcome.reviewer == LevelId::TARGET {
            self.drafts.lock().unwrap().push(outcome.draft.clone());
        }
    }
}

/// The target's drafts over a few generations, by one drafter that adds `quota` tokens.
fn drafts(branching: Branching, quota: usize, decoding: Decoding) -> Vec<Draft> {
    let drafts = Arc::default();
    let k = matrix(&[&[quota]]);
    let mut cascade = Cascade::builder()
        .target_with(
            "target",
            ToyScorer::target("target", VOCABULARY, 7),
            Rule::Iterated,
        )
        .neural_with(
            "base",
            ToyScorer::drafter("base", VOCABULARY, 7, 1, 200),
            NeuralOptions::new(Rule::Iterated, branching),
        )
        .schedule(Keeping {
            schedule: StaticSchedule::new(k),
            drafts: Arc::clone(&drafts),
        })
        .max_nodes(1000)
        .build()
        .unwrap();
    for seed in 0..8 {
        let prompt = Prompt {
            context: vec![seed, 3],
            ..Prompt::default()
        };
        let options = Options::default()
            .with_max_new_tokens(12)
            .with_decoding(decoding)
            .with_seed(seed.into());
        cascade.generate_tokens(&prompt, &options).unwrap();
    }
    let drafts = std::mem::take(&mut *drafts.lock().unwrap());
    // The last draft of a generation is as short as what remains of it.
    drafts
        .into_iter()
        .filter(|draft| draft.tree().height() == quota)
        .collect()
}

fn sampled() -> Decoding {
    Decoding::Sampled(Sampling::PLAIN)
}

fn branching(widths: &[usize], expand: Expand, siblings: Siblings) -> Branching {
    Branching {
        widths: widths.to_vec(),
        expand,
        siblings,
    }
}

/// Draws below `parent`: those from a distribution, and those of fixed tokens.
fn counts(draft: &Draft, parent: Option<NodeId>) -> (usize, usize) {
    let draws = || draft.sibling_candidates(parent);
    let sampled = |proposal: &Proposal| matches!(proposal, Proposal::Sampled(_));
    let random = draws().filter(|draw| sampled(&draw.proposal)).count();
    (random, draws().count() - random)
}

/// The nodes that the drafter expanded along the main path: the first children.
fn main_path(draft: &Draft, quota: usize) -> Vec<Option<NodeId>> {
    let first = |at: &Option<NodeId>| draft.tree().children(*at).next().map(Some);
    std::iter::successors(Some(None), first)
        .take(quota)
        .collect()
}

#[test]
fn every_node_of_the_main_path_has_as_many_draws_as_its_width() {
    for widths in [&[1][..], &[2], &[3, 1, 4]] {
        for siblings in [
            Siblings::TopK,
            Siblings::WithReplacement,
            Siblings::WithoutReplacement,
        ] {
            let all = drafts(branching(widths, Expand::MainPath, siblings), 3, sampled());
            assert!(all.len() > 8, "{}", all.len());
            for draft in &all {
                for (depth, node) in main_path(draft, 3).into_iter().enumerate() {
                    let width = widths[depth.min(widths.len() - 1)];
                    let expected = match siblings {
                        // The main path's token is a draw, which takes no place of the likeliest.
                        Siblings::TopK => (1, if width > 1 { width } else { 0 }),
                        _ => (width, 0),
                    };
                    assert_eq!(
                        counts(draft, node),
                        expected,
                        "{widths:?}, {siblings:?}, {depth}"
                    );
                }
            }
        }
    }
}

#[test]
fn siblings_without_replacement_are_different_tokens() {
    let without = branching(&[5], Expand::MainPath, Siblings::WithoutReplacement);
    for draft in drafts(without, 2, sampled()) {
        assert_eq!(draft.tree().children(None).count(), 5);
    }
}

/// SpecInfer: n sequences merged into a prefix tree. A node that was drawn twice continues two
/// sequences, so it has twice as many draws below.
#[test]
fn a_node_has_its_width_times_the_draws_that_led_to_it() {
    let all = drafts(
        branching(&[4, 2, 1], Expand::AllLeaves, Siblings::WithReplacement),
        3,
        sampled(),
    );
    let mut repeated = 0;
    for draft in &all {
        let tree = draft.tree();
        assert_eq!(counts(draft, None), (4, 0));
        for node in (0..tree.len()).filter(|&node| tree.depth(node) < 2) {
            let times = draft.multiplicity(node);
            let width = [2, 1][tree.depth(node)];
            assert_eq!(counts(draft, Some(node)), (width * times, 0));
            repeated += usize::from(times > 1);
        }
    }
    assert!(repeated > 0, "no draw was repeated, so nothing was tested");
}

#[test]
fn all_leaves_get_the_likeliest_tokens() {
    let all = drafts(
        branching(&[2, 3], Expand::AllLeaves, Siblings::TopK),
        2,
        sampled(),
    );
    for draft in &all {
        let first: Vec<NodeId> = draft.tree().children(None).collect();
        assert_eq!(counts(draft, None), (1, 2));
        for (place, &node) in first.iter().enumerate() {
            let expected = if place == 0 { (1, 3) } else { (0, 3) };
            assert_eq!(counts(draft, Some(node)), expected);
        }
    }
}

#[test]
fn greedy_drafts_have_as_many_children_as_their_width() {
    for siblings in [Siblings::TopK, Siblings::WithoutReplacement] {
        let all = drafts(
            branching(&[3, 2], Expand::AllLeaves, siblings),
            2,
            Decoding::Greedy,
        );
        for draft in &all {
            for node in std::iter::once(None).chain((0..3).map(Some)) {
                let expected = if node.is_none() { 3 } else { 2 };
                assert_eq!(draft.tree().children(node).count(), expected);
                assert_eq!(counts(draft, node), (0, expected));
            }
        }
    }
}

/// Draws at the root of the first draft, by the target's rule and seed, where nodes are short: a
/// statistical drafter drafts four tokens, of which the reviewing drafter keeps some, adds one of
/// its own, and branches within what is left of eight nodes.
fn draws_at_the_root(rule: Rule) -> Vec<usize> {
    let log = Log::default();
    let draws = |seed| {
        let drafts = Arc::default();
        let k = matrix(&[&[4, 0], &[0, 4]]);
        let six = branching(&[6, 1], Expand::MainPath, Siblings::WithReplacement);
        let mut cascade = Cascade::builder()
            .target_with("target", ToyScorer::target("target", VOCABULARY, 7), rule)
            .neural_with(
                "base",
                ToyScorer::drafter("base", VOCABULARY, 7, 1, 200),
                NeuralOptions::new(Rule::Iterated, six),
            )
            .statistical("mag", Scripted::new("mag", &[], &log))
            .statistical_lenience(Lenience::new(20.0).unwrap())
            .schedule(Keeping {
                schedule: StaticSchedule::new(k),
                drafts: Arc::clone(&drafts),
            })
            .max_nodes(8)
            .build()
            .unwrap();
        let prompt = Prompt {
            context: vec![5, 3],
            ..Prompt::default()
        };
        // Drafts are five tokens deep at most.
        let options = Options::default()
            .with_max_new_tokens(6)
            .with_decoding(sampled())
            .with_seed(seed);
        cascade.generate_tokens(&prompt, &options).unwrap();
        let drafts = drafts.lock().unwrap();
        counts(&drafts[0], None).0
    };
    (0..60).map(draws).collect()
}

/// How far the path got depends on its tokens. A rule that takes siblings in another order needs
/// their number to be independent of it; for the other rules the path's quota is enough.
#[test]
fn the_number_of_siblings_depends_on_the_path_only_where_it_may() {
    let reordered = draws_at_the_root(Rule::SpecInfer);
    assert!(
        reordered.iter().all(|&draws| draws == 1 + 3),
        "{reordered:?}"
    );
    let in_order = draws_at_the_root(Rule::Iterated);
    assert!(in_order.contains(&(1 + 4)), "{in_order:?}");
}

/// Nothing grows below a token that ends the text, beside the main path either.
#[test]
fn a_leaf_that_ends_the_text_has_no_children() {
    let log = Log::default();
    let mut cascade = scripted(&log)
        .neural_with(
            "small",
            Scripted::new("small", &[], &log),
            NeuralOptions::new(
                Rule::Iterated,
                branching(&[2], Expand::AllLeaves, Siblings::TopK),
            ),
        )
        .k_matrix(matrix(&[&[2]]))
        // What the drafter holds for the second likeliest token after 0 1.
        .eos([52])
        .build()
        .unwrap();
    let options = Options::default().with_max_new_tokens(3);
    cascade.generate_tokens(&prompt(), &options).unwrap();
    let log = log.lock().unwrap();
    assert_eq!(log[2], "target 0 1 | 2 52@. 3@0 53@0");
}

/// Branches leave the nodes that the main path still needs, in every round of a turn.
#[test]
fn the_main_path_keeps_its_nodes_in_every_round() {
    let log = Log::default();
    let mut cascade = scripted(&log)
        .neural_with(
            "small",
            Scripted::new("small", &[], &log),
            NeuralOptions::new(
                Rule::Iterated,
                branching(&[1, 6, 1], Expand::MainPath, Siblings::TopK),
            ),
        )
        .k_matrix(matrix(&[&[4]]))
        .max_nodes(6)
        .build()
        .unwrap();
    let options = Options::default().with_max_new_tokens(5);
    cascade.generate_tokens(&prompt(), &options).unwrap();
    let log = log.lock().unwrap();
    assert_eq!(log[4], "target 0 1 | 2 3 53@0 54@0 4@1 5");
}
