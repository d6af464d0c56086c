//! Drafters that draw from their own distributions: the output is the target's under every rule,
//! and would not be if a token's proposal were another than what it was drawn from.

use std::sync::Arc;

use cascade_core::toy::{ToyDrafter, ToyScorer};
use cascade_core::{
    Budget, Distribution, Drafter, Guidance, LevelId, Proposal, ScoredTree, TokenId,
};
use cascade_engine::{
    Branching, Cascade, CascadeBuilder, NeuralOptions, OnlineSchedule, Rule, Siblings,
};

use crate::common::matrix;
use crate::stop_rules::{
    FAMILY, VOCABULARY, difference, enumerated, expected, prompt, sampled, target,
};

fn model(name: &'static str, seed: u64) -> ToyScorer {
    ToyScorer::drafter(name, VOCABULARY, FAMILY, seed, 100)
}

fn drawing(children: usize) -> ToyDrafter {
    ToyDrafter::new(model("drawing", 5), children)
}

fn alone(rule: Rule, drafter: impl Into<Box<dyn Drafter + Send>>) -> CascadeBuilder {
    let builder = Cascade::builder().target_with("target", target(), rule);
    builder.statistical("drawing", drafter)
}

fn below_another(rule: Rule, drafter: ToyDrafter) -> CascadeBuilder {
    let tree = Branching {
        siblings: Siblings::WithReplacement,
        ..Branching::main_path(2)
    };
    let builder = Cascade::builder()
        .target_with("target", target(), rule)
        .neural_with("base", model("base", 1), NeuralOptions::new(rule, tree));
    builder.statistical("drawing", drafter)
}

fn error_of(builder: CascadeBuilder, nodes: usize) -> f64 {
    let found = enumerated(&mut builder.max_nodes(nodes).build().unwrap());
    difference(&found, &expected())
}

/// Alone, under another drafter that reviews it, beside one, and with the online schedule.
#[test]
fn the_enumerated_output_is_the_targets_whatever_a_drafter_draws_from() {
    for rule in Rule::DRAWN {
        for children in [1, 2] {
            let independent = drawing(children).with_replacement();
            let mut drafters = vec![independent];
            if rule != Rule::SpecInfer {
                drafters.push(drawing(children));
            }
            for drafter in drafters {
                let what = format!("{rule:?}, {drafter:?}");
                let builder = alone(rule, drafter.clone()).k_matrix(matrix(&[&[2]]));
                assert!(error_of(builder, 4) < 1e-12, "{what}");
                let below = || below_another(rule, drafter.clone());
                let vertical = below().k_matrix(matrix(&[&[2, 0], &[0, 1]]));
                assert!(error_of(vertical, 4) < 1e-12, "{what}, vertical");
                let horizontal = below().k_matrix(matrix(&[&[1, 1], &[0, 0]]));
                assert!(error_of(horizontal, 4) < 1e-12, "{what}, horizontal");
                let online = alone(rule, drafter).schedule(OnlineSchedule::default());
                assert!(error_of(online, 2) < 1e-12, "{what}, online");
            }
        }
    }
}

/// Coupled texts are those of plain decoding, and a drafter that races with the same noise is right
/// more often than one that says its most probable token.
#[test]
fn coupled_texts_do_not_depend_on_what_is_drawn() {
    let mut accepted = [0; 2];
    for seed in 0..100 {
        let options = sampled().with_max_new_tokens(12).with_seed(seed);
        let mut plain = Cascade::builder()
            .target("target", target())
            .build()
            .unwrap();
        let said = plain.generate_tokens(&prompt(), &options).unwrap();
        let drawn: Box<dyn Drafter + Send> = Box::new(drawing(1));
        let greedy: Box<dyn Drafter + Send> = Box::new(Greedy(drawing(1)));
        for (drafter, accepted) in [drawn, greedy].into_iter().zip(&mut accepted) {
            let mut cascade = alone(Rule::Coupled, drafter)
                .k_matrix(matrix(&[&[3]]))
                .build()
                .unwrap();
            let found = cascade.generate_tokens(&prompt(), &options).unwrap();
            assert_eq!(found.tokens, said.tokens, "seed {seed}");
            *accepted += found.num_accepted_draft_tokens();
        }
    }
    let [drawn, greedy] = accepted;
    assert!(drawn > greedy, "{drawn} {greedy}");
}

/// Drafts by the most probable tokens.
struct Greedy(ToyDrafter);

impl Drafter for Greedy {
    fn set_source(&mut self, source: &[TokenId]) {
        self.0.set_source(source);
    }

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        self.0.propose(context, budget)
    }
}

/// Says of what it draws that it was drawn from an even distribution.
struct Lying(ToyDrafter);

impl Drafter for Lying {
    fn set_source(&mut self, source: &[TokenId]) {
        self.0.set_source(source);
    }

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        self.0.propose(context, budget)
    }

    fn propose_with(
        &mut self,
        context: &[TokenId],
        budget: Budget,
        guidance: &mut Guidance<'_>,
    ) -> ScoredTree {
        let honest = self.0.propose_with(context, budget, guidance);
        let even = Arc::new(Distribution::new(vec![1.0; VOCABULARY]).unwrap());
        let (tree, mut lie) = (honest.tree(), ScoredTree::default());
        for node in 0..tree.len() {
            let proposal = Proposal::Sampled(Arc::clone(&even));
            lie.draw(tree.token(node), tree.parent(node), proposal);
        }
        lie
    }
}

#[test]
fn a_proposal_that_was_not_drawn_from_is_caught() {
    let lying = Lying(drawing(1));
    let builder = alone(Rule::Speculative, lying).k_matrix(matrix(&[&[2]]));
    let error = error_of(builder, 4);
    assert!(error > 1e-3, "{error}");
}

/// A rule that considers siblings in random order may not see draws without replacement.
#[test]
fn dependent_siblings_are_refused_where_their_order_changes() {
    let builder = alone(Rule::SpecInfer, drawing(2)).k_matrix(matrix(&[&[2]]));
    let mut cascade = builder.build().unwrap();
    let error = cascade
        .generate_tokens(&prompt(), &sampled())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`drawing`") && error.contains("`iterated`"),
        "{error}"
    );
}

/// Greedily, the drafter's most probable tokens are drafted.
#[test]
fn greedy_texts_are_the_targets() {
    let mut cascade = alone(Rule::Coupled, drawing(2))
        .k_matrix(matrix(&[&[3]]))
        .build()
        .unwrap();
    let mut plain = Cascade::builder()
        .target("target", target())
        .build()
        .unwrap();
    let options = cascade_engine::Options::default().with_max_new_tokens(30);
    let found = cascade.generate_tokens(&prompt(), &options).unwrap();
    let said = plain.generate_tokens(&prompt(), &options).unwrap();
    assert_eq!(found.tokens, said.tokens);
    assert!(found.proposers.contains(&LevelId(1)));
}
