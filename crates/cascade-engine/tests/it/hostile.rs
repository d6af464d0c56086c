//! Models that violate their contracts.

use cascade_core::toy::ToyScorer;
use cascade_core::{
    Architecture, Budget, Decoding, Drafter, Matrix, Prompt, Sampling, ScoredTree, Scores, TokenId,
    TokenTree,
};
use cascade_engine::{Cascade, CascadeBuilder, Error, GenerationOutput, Options};

use crate::common::{Spoiled, matrix};

const VOCABULARY: usize = 8;

fn toy(seed: u64) -> ToyScorer {
    ToyScorer::drafter("toy", VOCABULARY, 3, seed, 200)
}

/// Proposes far more than the budget, in width and depth, and continues after EOS.
struct Excessive;

impl Drafter for Excessive {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, _context: &[TokenId], _budget: Budget) -> ScoredTree {
        let mut tree = TokenTree::new();
        let mut parents = vec![None];
        for depth in 0..6 {
            let parent = parents[depth];
            for token in 0..VOCABULARY as TokenId {
                let node = tree.push(token, parent);
                if token == 0 {
                    parents.push(Some(node));
                }
            }
        }
        tree.into()
    }
}

fn generate(
    builder: CascadeBuilder,
    sampled: bool,
) -> std::result::Result<GenerationOutput, Error> {
    let options = Options::default()
        .with_max_new_tokens(12)
        .with_decoding(if sampled {
            Decoding::Sampled(Sampling::new(1.0).unwrap())
        } else {
            Decoding::Greedy
        });
    let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 2]);
    let mut cascade = builder.build().unwrap();
    cascade.generate_tokens(&prompt, &options)
}

#[test]
fn logits_that_are_no_distribution_are_an_error_that_names_the_model() {
    for logit in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        // From a certain length of the context on.
        let broken = |from| Spoiled {
            model: toy(1),
            how: move |length, scores: &mut Scores| {
                let logits = scores.logits.as_ref().filter(|_| length >= from);
                if let Some(rows) = logits.map(Matrix::rows) {
                    scores.logits = Some(Matrix::new(VOCABULARY, vec![logit; rows * VOCABULARY]));
                }
            },
        };
        let target = Cascade::builder().target("the target", broken(5));
        let error = generate(target, true).unwrap_err().to_string();
        assert!(
            error.contains("`the target`") && error.contains("logit"),
            "{error}"
        );
        let drafter = Cascade::builder()
            .target("the target", toy(0))
            .neural("the drafter", broken(4))
            .k_matrix(matrix(&[&[2]]));
        let error = generate(drafter, true).unwrap_err().to_string();
        assert!(error.contains("`the drafter`"), "{error}");
    }
}

#[test]
fn a_drafter_that_ignores_its_budget_is_cut_to_it() {
    for sampled in [false, true] {
        for max_nodes in [1, 5, 20] {
            let builder = Cascade::builder()
                .target("target", toy(0))
                .neural("small", toy(1))
                .statistical("excessive", Excessive)
                .k_matrix(matrix(&[&[2, 3], &[0, 4]]))
                .max_nodes(max_nodes);
            let generation = generate(builder, sampled).unwrap();
            assert_eq!(generation.tokens.len(), 12);
            for step in &generation.steps {
                assert!(step.drafted <= max_nodes, "{} of {max_nodes}", step.drafted);
            }
        }
    }
}

#[test]
fn nothing_is_drafted_after_eos_even_if_it_is_proposed() {
    let builder = Cascade::builder()
        .target("target", toy(0))
        .statistical("excessive", Excessive)
        .k_matrix(matrix(&[&[4]]))
        .eos([0]);
    let generation = generate(builder, false).unwrap();
    // Every node that Excessive continues is a 0: only the first eight are left.
    assert!(
        generation
            .steps
            .iter()
            .all(|step| step.drafted <= VOCABULARY)
    );
}
