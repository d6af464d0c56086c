//! Sampled output has the target's distribution: Monte Carlo through the whole engine, with toy models whose distributions
//! are known.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::ops::ControlFlow;

use cascade_core::toy::ToyScorer;
use cascade_core::{
    Architecture, Budget, Decoding, Drafter, Prompt, Sampling, Scorer, TokenId, TokenTree, Want,
};
use cascade_engine::{
    Branching, Cascade, CascadeBuilder, Convention, KMatrix, NeuralOptions, Options, Parents,
    Placement, Rule, Siblings,
};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use statrs::distribution::{ChiSquared, ContinuousCDF};

const VOCABULARY: usize = 4;
const FAMILY: u64 = 7;
/// Joint positions that are compared.
const POSITIONS: usize = 3;
/// More than are compared, so that drafts are deep.
const NEW_TOKENS: usize = 5;
const EOS: TokenId = 3;

fn target() -> ToyScorer {
    ToyScorer::target("target", VOCABULARY, FAMILY)
}

/// Guesses two siblings at each depth, fixed by the length of the context.
struct Guesser;

impl Drafter for Guesser {
    fn begin(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> TokenTree {
        let mut tree = TokenTree::new();
        let mut lead = None;
        for depth in 0..budget.depth {
            let first = ((context.len() + depth) % VOCABULARY) as TokenId;
            let parent = lead;
            lead = Some(tree.push(first, parent));
            if tree.len() + budget.depth - depth - 1 < budget.nodes {
                tree.push((first + 1) % VOCABULARY as TokenId, parent);
            }
        }
        tree
    }
}

/// Everything that a cascade may be set to, at random.
#[derive(Clone, Debug)]
struct Setting {
    k: Vec<Vec<usize>>,
    rules: [Rule; 3],
    branching: [Branching; 2],
    placement: Placement,
    max_nodes: usize,
    leniences: [f32; 2],
    sampling: Sampling,
    eos: Vec<TokenId>,
    prompt: Vec<TokenId>,
}

impl Setting {
    fn random(rng: &mut ChaCha8Rng, trees: bool) -> Self {
        let mut k = vec![vec![0; 3]; 3];
        for (r, row) in k.iter_mut().enumerate() {
            row[r..].fill_with(|| rng.random_range(0..4));
        }
        let siblings = *[
            Siblings::Top,
            Siblings::Sampled,
            Siblings::WithoutReplacement,
        ]
        .choose(rng)
        .unwrap();
        // A rule that reorders is refused for siblings that depend on each other.
        let rules = if siblings == Siblings::WithoutReplacement {
            &Rule::ALL[..3]
        } else {
            &Rule::ALL[..]
        };
        let rules = std::array::from_fn(|_| *rules.choose(rng).unwrap());
        let branching = std::array::from_fn(|_| {
            if !trees {
                return Branching::chain();
            }
            Branching {
                widths: (0..3).map(|_| rng.random_range(1..4)).collect(),
                parents: *[Parents::Lead, Parents::Every].choose(rng).unwrap(),
                siblings,
            }
        });
        let mut sampling = Sampling::new(*[0.7, 1.0, 1.6].choose(rng).unwrap()).unwrap();
        match rng.random_range(0..4) {
            0 => sampling = sampling.with_top_k(3).unwrap(),
            1 => sampling = sampling.with_top_p(0.9).unwrap(),
            2 => sampling = sampling.with_min_p(0.05).unwrap(),
            _ => {}
        }
        Self {
            k,
            rules,
            branching,
            placement: *[Placement::After, Placement::Beside].choose(rng).unwrap(),
            max_nodes: rng.random_range(3..24),
            leniences: std::array::from_fn(|_| *[1.0, 1.5, 3.0].choose(rng).unwrap()),
            sampling,
            eos: if rng.random() { vec![EOS] } else { Vec::new() },
            prompt: (0..3)
                .map(|_| rng.random_range(0..VOCABULARY as TokenId))
                .collect(),
        }
    }

    fn cascade(&self) -> Cascade {
        self.builder().build().unwrap()
    }

    fn builder(&self) -> CascadeBuilder {
        let options = |j: usize| NeuralOptions {
            rule: self.rules[j + 1],
            branching: self.branching[j].clone(),
        };
        let drafter =
            |j: u64, agreement| ToyScorer::drafter("drafter", VOCABULARY, FAMILY, j + 1, agreement);
        Cascade::builder()
            .target_with("target", target(), self.rules[0])
            .neural_with("base", drafter(0, 128), options(0))
            .neural_with("small", drafter(1, 64), options(1))
            .statistical("guesser", Guesser)
            .k_matrix(KMatrix::new(self.k.clone(), Convention::Added).unwrap())
            .lenience(self.leniences[0])
            .statistical_lenience(self.leniences[1])
            .placement(self.placement)
            .max_nodes(self.max_nodes)
            .eos(self.eos.iter().copied())
    }

    /// Probability of each beginning that the target may give.
    fn expected(&self) -> HashMap<Vec<TokenId>, f64> {
        let mut target = target();
        let mut open = vec![(Vec::new(), 1.0)];
        let mut all = HashMap::new();
        while let Some((tokens, probability)) = open.pop() {
            let ended = tokens.last().is_some_and(|last| self.eos.contains(last));
            if ended || tokens.len() == POSITIONS {
                all.insert(tokens, probability);
                continue;
            }
            let mut context = self.prompt.clone();
            context.extend(&tokens);
            let scores = target
                .score(&context, &TokenTree::new(), Want::LOGITS)
                .unwrap();
            let row = self
                .sampling
                .distribution(scores.logits.unwrap().row(0))
                .unwrap();
            row.for_each(|token, p| {
                let mut longer = tokens.clone();
                longer.push(token);
                open.push((longer, probability * p));
            });
        }
        all
    }

    /// How often each beginning comes out.
    fn observed(&self, cascade: &mut Cascade, samples: u64) -> HashMap<Vec<TokenId>, u64> {
        let prompt = Prompt::new(Architecture::DecoderOnly, self.prompt.clone());
        let mut counts = HashMap::new();
        for seed in 0..samples {
            let options = Options {
                max_new_tokens: NEW_TOKENS,
                decoding: Decoding::Sampled(self.sampling),
                seed,
                ..Options::default()
            };
            let generation = cascade
                .generate_tokens(&prompt, &options, |_| ControlFlow::Continue(()))
                .unwrap();
            let mut tokens = generation.tokens;
            tokens.truncate(POSITIONS);
            *counts.entry(tokens).or_default() += 1;
        }
        counts
    }

    /// The chi-square test's p-value of what `cascade` gives against what the target would give.
    fn p_value(&self, cascade: &mut Cascade, samples: u64) -> f64 {
        let expected = self.expected();
        let mut observed = self.observed(cascade, samples);
        // Cells that expect fewer than five samples are one cell.
        let mut cells = Vec::new();
        let mut pooled = (0.0, 0);
        for (tokens, probability) in expected {
            let count = observed.remove(&tokens).unwrap_or(0);
            let cell = (probability * samples as f64, count);
            if cell.0 < 5.0 {
                pooled = (pooled.0 + cell.0, pooled.1 + cell.1);
            } else {
                cells.push(cell);
            }
        }
        if !observed.is_empty() {
            return 0.0; // Something that the target never says.
        }
        if pooled.0 > 0.0 {
            cells.push(pooled);
        }
        let statistic: f64 = cells
            .iter()
            .map(|&(expected, observed)| (observed as f64 - expected).powi(2) / expected)
            .sum();
        if cells.len() < 2 {
            return 1.0;
        }
        ChiSquared::new(cells.len() as f64 - 1.0)
            .unwrap()
            .sf(statistic)
    }
}

/// p-values of `settings` random settings.
fn p_values(settings: usize, samples: u64, trees: bool, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..settings)
        .map(|_| {
            let setting = Setting::random(&mut rng, trees);
            let p = setting.p_value(&mut setting.cascade(), samples);
            assert!(p > 1e-5, "p = {p:.1e} for {setting:?}");
            p
        })
        .collect()
}

/// If the output is exact, p-values are uniform: neither are small ones too many.
fn assert_uniform(p_values: &[f64]) {
    let small = p_values.iter().filter(|&&p| p < 0.05).count() as f64;
    let n = p_values.len() as f64;
    let limit = 0.05 * n + 4.0 * (0.05 * 0.95 * n).sqrt();
    assert!(small <= limit, "{small} of {n} p-values are below 0.05");
}

#[test]
fn sampled_chains_have_the_targets_distribution() {
    assert_uniform(&p_values(12, 3_000, false, 1));
}

#[test]
fn sampled_trees_have_the_targets_distribution() {
    assert_uniform(&p_values(24, 3_000, true, 2));
}

#[test]
#[ignore = "half a minute in release: run with --run-ignored all"]
fn half_a_million_sampled_chains_have_the_targets_distribution() {
    assert_uniform(&p_values(50, 10_000, false, 3));
}

#[test]
#[ignore = "a minute in release: run with --run-ignored all"]
fn a_million_sampled_trees_have_the_targets_distribution() {
    assert_uniform(&p_values(100, 10_000, true, 4));
}
