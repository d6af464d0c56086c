//! Theorems against the engine.

use cascade_core::{
    Architecture, Decoding, Matrix, Prompt, Result, Sampling, Scorer, ScorerInfo, Scores, TokenId,
    TokenTree, Want,
};
use cascade_engine::{Cascade, Convention, KMatrix, Options, Rule};
use cascade_reproduce::theory::rejection::{Markov, Pair, expected_rejections};
use cascade_reproduce::theory::{Estimate, Tally};

use super::{pair_after, random_chain};

/// One side of a chain as a model: the position is the length of the context.
struct ChainModel {
    chain: Markov,
    side: fn((f64, f64)) -> f64,
}

impl ChainModel {
    fn row(&self, past: &[TokenId]) -> Vec<f32> {
        // The context begins with a prompt of one token.
        let past: Vec<usize> = past[1..].iter().map(|&token| token as usize).collect();
        let logits = |pair: &Pair| -> Vec<f32> {
            let probabilities = pair.tokens().map(self.side);
            probabilities.map(|p| p.ln() as f32).collect()
        };
        match pair_after(&self.chain, &past) {
            Some(pair) => logits(pair),
            None => vec![0.0; self.chain.states()],
        }
    }
}

impl Scorer for ChainModel {
    fn info(&self) -> ScorerInfo {
        ScorerInfo::new(Architecture::DecoderOnly, self.chain.states())
    }

    fn set_source(&mut self, _source: &[TokenId]) -> Result<()> {
        Ok(())
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, _want: Want) -> Result<Scores> {
        let mut logits = self.row(context);
        for node in 0..tree.len() {
            let path = tree.path_tokens(Some(node));
            logits.extend(self.row(&[context, &path].concat()));
        }
        Ok(Scores::default()
            .with_argmax(vec![0; tree.len() + 1])
            .with_logits(Matrix::new(self.chain.states(), logits))
            .with_rows_computed(tree.len() + 1))
    }
}

/// How often the engine rejects over the positions of a chain. It generates one token more, since
/// the last token of a generation is never drafted.
fn engine(chain: &Markov, rule: Rule, runs: u64) -> Estimate {
    let model = |side| ChainModel {
        chain: chain.clone(),
        side,
    };
    let horizon = chain.positions();
    let mut cascade = Cascade::builder()
        .target_with("target", model(|(q, _)| q), rule)
        .neural("drafter", model(|(_, p)| p))
        .k_matrix(KMatrix::new(vec![vec![horizon]], Convention::Added).unwrap())
        .max_nodes(horizon)
        .build()
        .unwrap();
    let prompt = Prompt {
        context: vec![0],
        ..Prompt::default()
    };
    let mut rejections = Tally::default();
    for seed in 0..runs {
        let options = Options::default()
            .with_max_new_tokens(horizon + 1)
            .with_decoding(Decoding::Sampled(Sampling::new(1.0).unwrap()))
            .with_seed(seed);
        let output = cascade.generate_tokens(&prompt, &options).unwrap();
        let rejected = output.steps.iter().filter(|s| s.accepted < s.drafted);
        rejections.add(rejected.count() as f64);
    }
    rejections.estimate().unwrap()
}

fn engine_agrees(chain: &Markov, runs: u64) {
    let exact = expected_rejections(chain).expected;
    for rule in [Rule::Speculative, Rule::Iterated, Rule::SpecInfer] {
        let off = engine(chain, rule, runs).deviation(exact);
        assert!(off.abs() < 3.0, "{rule}: {off} standard errors");
    }
    // Matching accepts less than any of them: Theorem 2.
    let matching = engine(chain, Rule::Match, runs);
    assert!(matching.deviation(exact) > 5.0, "{matching:?}");
}

#[test]
fn the_engine_rejects_as_often_as_the_theorems_say() {
    engine_agrees(&random_chain(5, 8, 0.0, 11), 600);
}

#[test]
#[ignore = "four cascades of 20,000 generations: 15 s optimized"]
fn the_engine_rejects_as_often_as_the_theorems_say_at_length() {
    engine_agrees(&random_chain(7, 12, 0.0, 12), 20_000);
}
