//! Drafters with fewer rows than the target, with more, and with tokens that mean something else.

use std::sync::{Arc, Mutex};

use cascade_core::toy::{CallLog, ToyScorer};
use cascade_core::{
    Architecture, Budget, Decoding, Drafter, Prompt, Sampling, ScoredTree, TokenId, TokenTree,
};
use cascade_engine::{
    Branching, Cascade, CascadeBuilder, Convention, DraftVocabulary, Expand, KMatrix, Lenience,
    NeuralOptions, Options, Placement, Siblings, Step,
};
use proptest::prelude::*;

use crate::common::matrix;

const VOCABULARY: usize = 12;
const FAMILY: u64 = 42;

fn target(architecture: Architecture) -> ToyScorer {
    ToyScorer::target("target", VOCABULARY, FAMILY).with_architecture(architecture)
}

/// Repeats what is there, the target's last tokens included.
struct Echo;

impl Drafter for Echo {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        let tokens = context.iter().copied().chain([VOCABULARY as TokenId - 1]);
        TokenTree::chain(tokens.rev().take(budget.depth)).into()
    }
}

/// One drafter's rows and what it may draft, and how its drafts branch.
#[derive(Clone, Debug)]
struct Other {
    rows: usize,
    end: TokenId,
    except: Vec<TokenId>,
    branching: Branching,
}

fn other() -> impl Strategy<Value = Other> {
    let branching = (
        prop::collection::vec(1usize..15, 1..3),
        prop::sample::select(vec![Expand::MainPath, Expand::AllLeaves]),
    );
    let except = prop::collection::vec(0..VOCABULARY as TokenId, 0..4);
    (5usize..17, 5..17u32, except, branching).prop_map(|(rows, end, except, (widths, expand))| {
        Other {
            rows,
            end,
            except,
            branching: Branching {
                widths,
                expand,
                siblings: Siblings::TopK,
            },
        }
    })
}

fn cascade(
    architecture: Architecture,
    drafters: &[Other],
    k: Vec<Vec<usize>>,
    lenience: f32,
    log: &CallLog,
) -> CascadeBuilder {
    let lenience = Lenience::new(lenience).unwrap();
    let mut builder = Cascade::builder()
        .target("target", target(architecture).with_log(log))
        .placement(Placement::Sequential)
        .max_nodes(24)
        .lenience(lenience)
        .statistical_lenience(lenience)
        .k_matrix(KMatrix::new(k, Convention::Added).unwrap());
    for (j, other) in drafters.iter().enumerate() {
        let toy = ToyScorer::drafter("drafter", other.rows, FAMILY, j as u64, 230)
            .with_architecture(architecture)
            .with_log(log);
        let options = NeuralOptions {
            branching: other.branching.clone(),
            vocabulary: DraftVocabulary::below(other.end).without(other.except.clone()),
            ..NeuralOptions::default()
        };
        builder = builder.neural_with(format!("drafter-{j}"), toy, options);
    }
    builder.statistical("echo", Echo)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Answers are the target's, greedy or sampled, whatever K, trees, lenience, rows and
    /// exceptions.
    #[test]
    fn answers_are_the_targets(
        encoder in any::<bool>(),
        drafters in prop::collection::vec(other(), 1..3),
        quotas in prop::collection::vec(0usize..4, 9),
        lenience in prop::sample::select(vec![1.0f32, 2.0, 50.0]),
        tokens in prop::collection::vec(0..VOCABULARY as TokenId, 1..6),
    ) {
        let architecture = if encoder { Architecture::EncoderDecoder } else { Architecture::DecoderOnly };
        let n = drafters.len() + 1;
        let k = (0..n)
            .map(|row| (0..n).map(|j| if j < row { 0 } else { quotas[3 * row + j] }).collect())
            .collect();
        let log = CallLog::default();
        let mut cascade = cascade(architecture, &drafters, k, lenience, &log).build().unwrap();
        let mut plain = Cascade::builder().target("target", target(architecture)).build().unwrap();
        let prompt = Prompt::new(architecture, tokens);
        let greedy = Options::default().with_max_new_tokens(24);
        // Samples of coupled reviews are functions of the seed, as greedy answers are of nothing.
        let sampled = greedy.clone().with_decoding(Decoding::Sampled(Sampling::PLAIN)).with_seed(3);
        for options in [greedy, sampled] {
            let expected = plain.generate_tokens(&prompt, &options).unwrap();
            let found = cascade.generate_tokens(&prompt, &options).unwrap();
            prop_assert_eq!(found.tokens, expected.tokens);
        }
        // The target never sees a token that it has no row for (a toy would refuse it).
        let calls = log.lock().unwrap();
        prop_assert!(calls.iter().all(|call| call.draft.iter().all(|&t| (t as usize) < VOCABULARY)
            || call.model == "drafter"));
    }
}

/// A drafter alone, with as many tokens as it is asked for.
fn alone(toy: ToyScorer, vocabulary: DraftVocabulary) -> CascadeBuilder {
    let options = NeuralOptions::default().with_vocabulary(vocabulary);
    Cascade::builder()
        .target("target", target(Architecture::DecoderOnly))
        .neural_with("small", toy, options)
        .k_matrix(matrix(&[&[4]]))
}

fn steps(builder: CascadeBuilder, prompt: &[TokenId]) -> (Vec<TokenId>, Vec<Step>) {
    let prompt = Prompt::new(Architecture::DecoderOnly, prompt.to_vec());
    let options = Options::default().with_max_new_tokens(30);
    let output = builder
        .build()
        .unwrap()
        .generate_tokens(&prompt, &options)
        .unwrap();
    (output.tokens, output.steps)
}

/// A toy with more rows, whose additional tokens are the most probable ones at times.
#[test]
fn a_drafter_with_more_rows_drafts_the_best_token_that_the_target_has() {
    let toy = ToyScorer::drafter("drafter", 4 * VOCABULARY, FAMILY, 1, 256);
    let (tokens, steps) = steps(alone(toy, DraftVocabulary::default()), &[3, 1]);
    // The toys' weights of the tokens that both have are equal: everything is accepted.
    assert!(steps.iter().all(|step| step.accepted == step.drafted));
    assert_eq!(tokens.len(), 30);
    assert_eq!(steps.len(), 6);
}

#[test]
fn what_may_not_be_drafted_is_not() {
    let log = CallLog::default();
    let toy = target(Architecture::DecoderOnly).with_log(&log);
    let (tokens, _) = steps(
        alone(toy.clone(), DraftVocabulary::below(9).without([2, 4])),
        &[3, 1],
    );
    assert!(tokens.iter().any(|token| [2, 4, 9, 10, 11].contains(token)));
    let calls = log.lock().unwrap();
    let mut drafted = calls.iter().flat_map(|call| &call.context).skip(2);
    assert!(drafted.any(|_| true));
    drop(calls);
    let (_, steps) = steps(alone(toy, DraftVocabulary::below(1)), &[3, 1]);
    assert!(steps.iter().all(|step| step.drafted <= 4));
}

#[test]
fn a_drafter_stops_behind_a_token_that_it_has_no_row_for_and_says_so_once() {
    let said = Arc::new(Mutex::new(Vec::new()));
    let toy = ToyScorer::drafter("drafter", VOCABULARY - 1, FAMILY, 1, 256);
    let heard = Arc::clone(&said);
    let builder = alone(toy, DraftVocabulary::default())
        .notices(move |notice| heard.lock().unwrap().push(notice.to_owned()));
    let last = VOCABULARY as TokenId - 1;
    let mut cascade = builder.build().unwrap();
    let options = Options::default().with_max_new_tokens(10);
    for tokens in [vec![3, 1], vec![last, 1], vec![1, last]] {
        let prompt = Prompt::new(Architecture::DecoderOnly, tokens);
        let output = cascade.generate_tokens(&prompt, &options).unwrap();
        assert_eq!(output.tokens.len(), 10);
        if prompt.context.contains(&last) {
            assert!(output.steps.iter().all(|step| step.drafted == 0));
            assert_eq!(output.models[1].usage.calls, 0);
        }
    }
    let said = said.lock().unwrap();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("`small`")
            && said[0].contains("token 11")
            && said[0].contains("11 tokens")
    );
}
