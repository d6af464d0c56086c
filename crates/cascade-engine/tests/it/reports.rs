//! What steps report when they are asked to.

use cascade_core::toy::ToyScorer;
use cascade_core::{
    Architecture, Decoding, LevelId, Prompt, Sampling, Scorer, TokenId, TokenTree, Want,
};
use cascade_engine::{Branching, Cascade, NeuralOptions, Options, Rule};

use crate::common::matrix;

const VOCABULARY: usize = 12;
const FAMILY: u64 = 42;

fn cascade() -> Cascade {
    let tree = NeuralOptions::new(Rule::default(), Branching::main_path(2));
    Cascade::builder()
        .target("target", ToyScorer::target("target", VOCABULARY, FAMILY))
        .neural_with(
            "base",
            ToyScorer::drafter("base", VOCABULARY, FAMILY, 1, 200),
            tree,
        )
        .neural(
            "small",
            ToyScorer::drafter("small", VOCABULARY, FAMILY, 2, 150),
        )
        .k_matrix(matrix(&[&[3, 2], &[0, 1]]))
        .build()
        .unwrap()
}

fn prompt() -> Prompt {
    Prompt {
        context: vec![1, 2, 3],
        ..Prompt::default()
    }
}

/// The target's log softmax after a context, by itself.
fn log_softmax(context: &[TokenId]) -> Vec<f64> {
    let mut target = ToyScorer::target("target", VOCABULARY, FAMILY);
    let scores = target
        .score(context, &TokenTree::new(), Want::LOGITS)
        .unwrap();
    let logits = scores.logits.unwrap();
    let row: Vec<f64> = logits.row(0).iter().copied().map(f64::from).collect();
    let total: f64 = row.iter().map(|logit| logit.exp()).sum();
    row.iter().map(|logit| logit - total.ln()).collect()
}

#[test]
fn log_probabilities_are_the_targets_whoever_drafts() {
    let cool = Decoding::Sampled(Sampling::new(0.5).unwrap().with_top_k(3).unwrap());
    for decoding in [Decoding::Greedy, cool] {
        for speculate in [true, false] {
            let options = Options::default()
                .with_max_new_tokens(40)
                .with_decoding(decoding)
                .with_speculation(speculate)
                .with_logprobs(Some(4));
            let mut cascade = cascade();
            let mut context = prompt().context;
            let generation = cascade.start_tokens(&prompt(), &options).unwrap();
            for step in generation {
                let step = step.unwrap();
                assert_eq!(step.logprobs.len(), step.tokens.len());
                for (&token, found) in step.tokens.iter().zip(&step.logprobs) {
                    let expected = log_softmax(&context);
                    assert!((found.logprob - expected[token as usize]).abs() < 1e-9);
                    let mut ranked: Vec<TokenId> = (0..VOCABULARY as TokenId).collect();
                    ranked.sort_by(|a, b| expected[*b as usize].total_cmp(&expected[*a as usize]));
                    let top: Vec<TokenId> = found.top.iter().map(|top| top.0).collect();
                    assert_eq!(top, ranked[..4]);
                    for &(token, logprob) in &found.top {
                        assert!((logprob - expected[token as usize]).abs() < 1e-9);
                    }
                    context.push(token);
                }
            }
            assert_eq!(context.len(), 43);
        }
    }
}

#[test]
fn log_probabilities_of_a_text_are_those_of_its_steps() {
    let options = Options::default()
        .with_max_new_tokens(40)
        .with_logprobs(Some(3));
    let mut cascade = cascade();
    let mut generation = cascade.start_tokens(&prompt(), &options).unwrap();
    // Of the prompt: its first token follows nothing.
    let prompts = generation.logprobs_of(0..100, 3).unwrap();
    assert_eq!(prompts.len(), 2);
    assert!((prompts[1].logprob - log_softmax(&[1, 2])[3]).abs() < 1e-9);
    let mut emitted = Vec::new();
    while let Some(step) = generation.step().unwrap() {
        emitted.extend(step.logprobs);
    }
    // In parts, after the fact.
    let parts = [0..3, 3..20, 20..21, 21..43, 43..50];
    let parts = parts.map(|part| generation.logprobs_of(part, 3).unwrap());
    assert_eq!(parts.concat()[2..], emitted[..]);
}

#[test]
fn drafts_are_those_that_were_counted() {
    let options = Options::default()
        .with_max_new_tokens(40)
        .with_drafts_reported(true);
    let mut cascade = cascade();
    for step in cascade.start_tokens(&prompt(), &options).unwrap() {
        let step = step.unwrap();
        assert_eq!(step.draft.len(), step.step.drafted);
        for (level, counted) in step.levels.iter().enumerate() {
            let own = || {
                step.draft
                    .iter()
                    .filter(|node| node.proposer == LevelId(level))
            };
            assert_eq!(own().count(), counted.drafted);
            assert_eq!(own().filter(|node| node.accepted).count(), counted.accepted);
        }
        // What was accepted is a path from the context, and begins what was emitted.
        let kept = (0..step.draft.len()).filter(|&node| step.draft[node].accepted);
        let mut before = None;
        for (node, emitted) in kept.zip(&step.tokens) {
            assert_eq!(
                (step.draft[node].parent, step.draft[node].token),
                (before, *emitted)
            );
            before = Some(node);
        }
        assert!(step.logprobs.is_empty());
    }
}

#[test]
fn reports_change_nothing() {
    let plain = Options::default().with_max_new_tokens(40).with_seed(5);
    let sampled = plain
        .clone()
        .with_decoding(Decoding::Sampled(Sampling::PLAIN));
    for options in [plain, sampled] {
        let asked = options
            .clone()
            .with_logprobs(Some(0))
            .with_drafts_reported(true);
        let tokens = |options: &Options| {
            cascade()
                .generate_tokens(&prompt(), options)
                .unwrap()
                .tokens
        };
        assert_eq!(tokens(&options), tokens(&asked));
        let mut cascade = cascade();
        for step in cascade.start_tokens(&prompt(), &options).unwrap() {
            let step = step.unwrap();
            assert!(step.logprobs.is_empty() && step.draft.is_empty());
        }
    }
}

#[test]
fn output_and_cascade_come_apart() {
    let options = Options::default().with_max_new_tokens(8);
    let expected = cascade().generate_tokens(&prompt(), &options).unwrap();
    let mut generation = cascade().into_generation(&prompt(), &options).unwrap();
    while generation.step().unwrap().is_some() {}
    let (output, mut again) = generation.into_output_and_cascade();
    assert_eq!(output.tokens, expected.tokens);
    assert_eq!(
        again.generate_tokens(&prompt(), &options).unwrap().tokens,
        expected.tokens
    );
}

/// The keys that the program's and the server's JSON are made of, in their order.
#[test]
fn results_are_one_json() {
    let mut cascade = Cascade::builder()
        .target("target", ToyScorer::target("target", 24, 7))
        .neural("base", ToyScorer::drafter("base", 24, 7, 1, 180))
        .build()
        .unwrap();
    let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 2]);
    let options = Options::default().with_max_new_tokens(9);
    let mut generation = cascade.start_tokens(&prompt, &options).unwrap();
    let step = generation.step().unwrap().unwrap();
    let output = generation.run().unwrap();
    let json = serde_json::to_string(&output).unwrap();
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    let keys: Vec<&String> = found.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "text",
            "token_ids",
            "token_origins",
            "finish_reason",
            "num_tokens",
            "wall_seconds",
            "first_token_seconds",
            "tokens_per_second",
            "mean_acceptance_length",
            "draft_acceptance_rate",
            "num_spec_steps",
            "num_draft_tokens",
            "num_accepted_draft_tokens",
            "acceptance_histogram",
            "per_step_accepted",
            "per_step_drafted",
            "models",
        ]
    );
    assert_eq!(found["finish_reason"], "length");
    assert_eq!(found["token_ids"].as_array().unwrap().len(), 9);
    assert_eq!(found["models"][1]["role"], "drafter");
    assert_eq!(found["models"][1]["calls"], output.models[1].usage.calls);
    let step = serde_json::to_value(&step).unwrap();
    assert_eq!(step["token_ids"][0], output.tokens[0]);
    assert_eq!(step["finish_reason"], serde_json::Value::Null);
    assert_eq!(step["levels"].as_array().unwrap().len(), 2);
}
