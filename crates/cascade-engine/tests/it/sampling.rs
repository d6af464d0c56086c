//! Sampled output has the target's distribution: Monte Carlo through the whole engine, with toy
//! models whose distributions are known.

use std::collections::HashMap;
use std::sync::Arc;

use cascade_core::toy::ToyScorer;
use cascade_core::{
    Architecture, Budget, Decoding, Distribution, Drafter, Prompt, Proposal, RandomSource,
    Sampling, ScoredTree, Scorer, TokenId, TokenTree, Want,
};
use cascade_engine::{
    Branching, Cascade, CascadeBuilder, Convention, DraftVocabulary, DraftedToken, Expand, KMatrix,
    Lenience, NeuralOptions, Options, Outcome, Placement, ReviewRule, Rule, Siblings, StopRule,
};
use cascade_ngram::{MaxGramTree, MaxGramTreeConfig};
use cascade_verify::CandidateToken;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use statrs::distribution::{ChiSquared, ContinuousCDF};

const VOCABULARY: usize = 4;
const FAMILY: u64 = 7;
/// Joint positions that are compared.
const POSITIONS: usize = 3;
/// More than are compared, to allow deep drafts.
const NEW_TOKENS: usize = 5;
const EOS: TokenId = 3;

pub(crate) fn target() -> ToyScorer {
    ToyScorer::target("target", VOCABULARY, FAMILY)
}

/// Guesses two siblings at each depth, fixed by the length of the context.
struct Guesser;

impl Drafter for Guesser {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
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
        tree.into()
    }
}

/// Random settings of a cascade.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    k: Vec<Vec<usize>>,
    pub(crate) rules: [Rule; 3],
    branching: [Branching; 2],
    placement: Placement,
    max_nodes: usize,
    leniences: [f32; 2],
    pub(crate) sampling: Sampling,
    pub(crate) eos: Vec<TokenId>,
    pub(crate) prompt: Vec<TokenId>,
    stops: [Stops; 3],
    /// The rows of each neural drafter, and tokens that it may not draft.
    vocabularies: [(usize, Vec<TokenId>); 2],
}

/// Ends turns depending on everything that a rule may read: the token, its probability, its
/// position, the outcomes of earlier reviews. Half of them never do.
#[derive(Clone, Debug)]
pub(crate) struct Stops {
    tokens: Vec<TokenId>,
    below: f32,
    position: usize,
    after_rejections: usize,
    rejections: usize,
}

impl Stops {
    fn never() -> Self {
        Self {
            tokens: Vec::new(),
            below: 0.0,
            position: usize::MAX,
            after_rejections: usize::MAX,
            rejections: 0,
        }
    }

    fn random(rng: &mut ChaCha8Rng) -> Self {
        let active = rng.random::<bool>();
        Self {
            tokens: if active {
                vec![rng.random_range(0..VOCABULARY as TokenId)]
            } else {
                Vec::new()
            },
            below: if active { 0.15 } else { 0.0 },
            position: if active { rng.random_range(1..6) } else { 99 },
            after_rejections: if active {
                rng.random_range(1..9)
            } else {
                usize::MAX
            },
            rejections: 0,
        }
    }
}

impl StopRule for Stops {
    fn want(&self) -> Want {
        Want::GATHERED.with_top(2).with_entropy().with_last_hidden()
    }

    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        self.tokens.contains(&drafted.token)
            || drafted.probability.is_some_and(|p| p < self.below)
            || drafted.position >= self.position
            || self.rejections > 0 && self.rejections.is_multiple_of(self.after_rejections)
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        self.rejections += outcome.judgements().filter(|j| !j.accepted).count();
    }
}

impl Setting {
    pub(crate) fn random(rng: &mut ChaCha8Rng, trees: bool) -> Self {
        let mut k = vec![vec![0; 3]; 3];
        for (r, row) in k.iter_mut().enumerate() {
            row[r..].fill_with(|| rng.random_range(0..4));
        }
        let siblings = *[
            Siblings::TopK,
            Siblings::WithReplacement,
            Siblings::WithoutReplacement,
        ]
        .choose(rng)
        .unwrap();
        // A rule that reorders is refused for siblings that depend on each other.
        let rules = if siblings == Siblings::WithoutReplacement {
            &Rule::DRAWN[..3]
        } else {
            &Rule::DRAWN[..]
        };
        let rules = std::array::from_fn(|_| *rules.choose(rng).unwrap());
        let branching = std::array::from_fn(|_| {
            if !trees {
                return Branching::chain();
            }
            Branching {
                widths: (0..3).map(|_| rng.random_range(1..4)).collect(),
                expand: *[Expand::MainPath, Expand::AllLeaves].choose(rng).unwrap(),
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
            placement: *[Placement::Sequential, Placement::Merged]
                .choose(rng)
                .unwrap(),
            max_nodes: rng.random_range(3..24),
            leniences: std::array::from_fn(|_| *[1.0, 1.5, 3.0].choose(rng).unwrap()),
            sampling,
            eos: if rng.random() { vec![EOS] } else { Vec::new() },
            prompt: (0..3)
                .map(|_| rng.random_range(0..VOCABULARY as TokenId))
                .collect(),
            stops: std::array::from_fn(|_| Stops::random(rng)),
            vocabularies: std::array::from_fn(|_| (VOCABULARY, Vec::new())),
        }
    }

    /// Gives the drafters fewer rows than the target, or more, and forbids them to draft some.
    fn with_other_rows(self, rng: &mut ChaCha8Rng) -> Self {
        let vocabularies = std::array::from_fn(|_| {
            let except = (0..2).filter(|_| rng.random_bool(0.3)).collect();
            (rng.random_range(VOCABULARY - 1..VOCABULARY + 3), except)
        });
        Self {
            vocabularies,
            ..self
        }
    }

    fn cascade(&self) -> Cascade {
        self.builder().build().unwrap()
    }

    pub(crate) fn builder(&self) -> CascadeBuilder {
        self.builder_with(Guesser)
    }

    pub(crate) fn builder_with(
        &self,
        statistical: impl Drafter + Send + 'static,
    ) -> CascadeBuilder {
        let options = |j: usize| {
            let except = self.vocabularies[j].1.iter().copied();
            NeuralOptions::new(self.rules[j + 1], self.branching[j].clone())
                .with_vocabulary(DraftVocabulary::default().without(except))
        };
        let drafter = |j: usize, agreement| {
            let rows = self.vocabularies[j].0;
            ToyScorer::drafter("drafter", rows, FAMILY, j as u64 + 1, agreement)
        };
        Cascade::builder()
            .target_with("target", target(), self.rules[0])
            .neural_with("base", drafter(0, 128), options(0))
            .stop_rule(self.stops[0].clone())
            .neural_with("small", drafter(1, 64), options(1))
            .stop_rule(self.stops[1].clone())
            .statistical("statistical", statistical)
            .stop_rule(self.stops[2].clone())
            .k_matrix(KMatrix::new(self.k.clone(), Convention::Added).unwrap())
            .lenience(Lenience::new(self.leniences[0]).unwrap())
            .statistical_lenience(Lenience::new(self.leniences[1]).unwrap())
            .placement(self.placement)
            .max_nodes(self.max_nodes)
            .eos(self.eos.iter().copied())
    }

    /// Probability of each prefix that the target can generate.
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

    /// Number of occurrences of each prefix.
    fn observed(&self, cascade: &mut Cascade, samples: u64) -> HashMap<Vec<TokenId>, u64> {
        let prompt = Prompt::new(Architecture::DecoderOnly, self.prompt.clone());
        let mut counts = HashMap::new();
        for seed in 0..samples {
            let options = Options::default()
                .with_max_new_tokens(NEW_TOKENS)
                .with_decoding(Decoding::Sampled(self.sampling))
                .with_seed(seed);
            let generation = cascade.generate_tokens(&prompt, &options).unwrap();
            let mut tokens = generation.tokens;
            tokens.truncate(POSITIONS);
            *counts.entry(tokens).or_default() += 1;
        }
        counts
    }

    /// The chi-square test's p-value of the output of `cascade` under the target's distribution.
    fn p_value(&self, cascade: &mut Cascade, samples: u64) -> f64 {
        let expected = self.expected();
        let mut observed = self.observed(cascade, samples);
        // The rarest prefixes share a cell that expects at least five samples.
        let mut outcomes: Vec<(f64, u64)> = expected
            .into_iter()
            .map(|(tokens, probability)| {
                let count = observed.remove(&tokens).unwrap_or(0);
                (probability * samples as f64, count)
            })
            .collect();
        outcomes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut cells: Vec<(f64, u64)> = Vec::new();
        for outcome in outcomes {
            match cells.last_mut() {
                Some(cell) if cell.0 < 5.0 => *cell = (cell.0 + outcome.0, cell.1 + outcome.1),
                _ => cells.push(outcome),
            }
        }
        if !observed.is_empty() {
            return 0.0; // A text that the target never generates.
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

/// If the output is exact, p-values are uniform: there are not too many small ones.
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

/// The Max-Gram tree learns from one sample to the next, so what it drafts depends on the samples
/// before; the next one is the target's all the same, with every rule of the target.
#[test]
fn samples_that_a_learning_tree_drafts_have_the_targets_distribution() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let p_values: Vec<f64> = (0..12)
        .map(|i| {
            let mut setting = Setting::random(&mut rng, true);
            setting.rules[0] = Rule::DRAWN[i % Rule::DRAWN.len()];
            // The tree drafts alone, or below neural drafters.
            if i % 3 == 0 {
                setting.k = vec![vec![0, 0, 4], vec![0; 3], vec![0; 3]];
            }
            let options = MaxGramTreeConfig {
                hints: [0, 1, 3][i % 3],
                session_tokens: 50,
                learning_rate: 0.1,
                ..MaxGramTreeConfig::default()
            };
            let tree = MaxGramTree::new(options, None);
            let mut cascade = setting.builder_with(tree).build().unwrap();
            let p = setting.p_value(&mut cascade, 3_000);
            assert!(p > 1e-5, "p = {p:.1e} for {setting:?}");
            p
        })
        .collect();
    assert_uniform(&p_values);
}

#[test]
fn samples_have_the_targets_distribution_whatever_rows_drafters_have() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let p_values: Vec<f64> = (0..20)
        .map(|i| {
            let setting = Setting::random(&mut rng, i % 4 > 0).with_other_rows(&mut rng);
            let p = setting.p_value(&mut setting.cascade(), 3_000);
            assert!(p > 1e-5, "p = {p:.1e} for {setting:?}");
            p
        })
        .collect();
    assert_uniform(&p_values);
}

#[test]
#[ignore = "a quarter of a minute in release: run with --run-ignored all"]
fn a_quarter_of_a_million_sampled_chains_have_the_targets_distribution() {
    assert_uniform(&p_values(25, 10_000, false, 3));
}

#[test]
#[ignore = "half a minute in release: run with --run-ignored all"]
fn half_a_million_sampled_trees_have_the_targets_distribution() {
    assert_uniform(&p_values(50, 10_000, true, 4));
}

/// Rules that are wrong, each in its own way.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    AlwaysAccept,
    /// A rejected draw is replaced by one from p, not from the residual.
    ResidualForgotten,
    /// Reviews leniently, but reports p as the distribution it emitted from.
    LenientInSecret,
    /// Considers a token that was drawn twice only once.
    OneChancePerNode,
}

impl ReviewRule for Wrong {
    fn name(&self) -> &str {
        "wrong"
    }

    fn token(
        &self,
        p: &Arc<Distribution>,
        draws: &[CandidateToken<'_>],
        chance: &mut dyn RandomSource,
    ) -> TokenId {
        let Some(first) = draws.first() else {
            return chance.draw(p);
        };
        let q = |drawn: &CandidateToken<'_>| match drawn.proposal {
            Proposal::Sampled(q) => q.probability(drawn.token),
            _ => 1.0,
        };
        let ratio = p.probability(first.token) / q(first);
        match self {
            Self::AlwaysAccept => first.token,
            Self::ResidualForgotten if chance.accept(ratio) => first.token,
            Self::ResidualForgotten => chance.draw(p),
            Self::LenientInSecret if chance.accept(3.0 * ratio) => first.token,
            Self::LenientInSecret => Rule::Iterated.token(p, draws, chance),
            Self::OneChancePerNode => {
                let mut merged: Vec<CandidateToken<'_>> = Vec::new();
                for drawn in draws {
                    if merged.iter().all(|m| m.token != drawn.token) {
                        merged.push(*drawn);
                    }
                }
                Rule::Iterated.token(p, &merged, chance)
            }
        }
    }
}

/// The p-value with `target` as the target's rule and `drafter` as that of the drafter above the
/// other.
fn controlled(target_rule: impl ReviewRule + 'static, base: impl ReviewRule + 'static) -> f64 {
    let branching = Branching {
        siblings: Siblings::WithReplacement,
        ..Branching::main_path(3)
    };
    let setting = Setting {
        k: vec![vec![2, 0], vec![0, 2]],
        rules: [Rule::Iterated; 3],
        branching: [branching.clone(), branching.clone()],
        placement: Placement::Sequential,
        max_nodes: 24,
        leniences: [1.0, 1.0],
        sampling: Sampling::new(1.6).unwrap(),
        eos: Vec::new(),
        prompt: vec![1, 2],
        vocabularies: std::array::from_fn(|_| (VOCABULARY, Vec::new())),
        stops: std::array::from_fn(|_| Stops::never()),
    };
    let drafter =
        |seed, agreement| ToyScorer::drafter("drafter", VOCABULARY, FAMILY, seed, agreement);
    let mut cascade = Cascade::builder()
        .target_with("target", target(), target_rule)
        .neural_with(
            "base",
            drafter(1, 100),
            NeuralOptions::new(base, branching.clone()),
        )
        .neural_with(
            "small",
            drafter(2, 60),
            NeuralOptions::new(Rule::Iterated, branching),
        )
        .k_matrix(KMatrix::new(setting.k.clone(), Convention::Added).unwrap())
        .build()
        .unwrap();
    setting.p_value(&mut cascade, 4_000)
}

#[test]
fn wrong_rules_are_caught() {
    let fine = controlled(Rule::Iterated, Rule::Iterated);
    assert!(fine > 1e-3, "p = {fine:.1e} without anything wrong");
    for wrong in [
        Wrong::AlwaysAccept,
        Wrong::ResidualForgotten,
        Wrong::OneChancePerNode,
    ] {
        let p = controlled(wrong, Rule::Iterated);
        assert!(p < 1e-9, "{wrong:?} went through with p = {p:.1e}");
    }
    let p = controlled(Rule::Iterated, Wrong::LenientInSecret);
    assert!(
        p < 1e-9,
        "p passed up after a lenient review went through with p = {p:.1e}"
    );
}
