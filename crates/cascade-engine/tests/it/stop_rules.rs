//! Every stop rule and schedule, alone and with each other: lengths, exactness, reproducibility.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cascade_core::toy::{Exhaustive, ToyScorer, outcomes};
use cascade_core::{
    Architecture, Budget, Decoding, Distribution, Drafter, HiddenLayer, Prompt, RandomSource,
    Sampling, ScoredTree, Scorer, TokenId, TokenTree, Want,
};
use cascade_engine::{
    AcceptanceHead, AdaptiveConfidence, Branching, Cascade, CascadeBuilder, Clock,
    ConfidenceThreshold, DraftedToken, Expand, FixedLength, HeadWeights, LengthHeuristic, Lenience,
    MdpThreshold, NeuralOptions, OnlineSchedule, Options, Rule, Siblings, StopRule, VirtualClock,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::matrix;
use crate::replays::{Regime, Replay};

/// All rules, each with a name.
fn rules() -> Vec<(&'static str, Box<dyn StopRule>)> {
    vec![
        ("length", Box::new(FixedLength::new(2))),
        ("heuristic", Box::new(LengthHeuristic::new(2))),
        ("confidence", Box::new(ConfidenceThreshold::new(0.3))),
        (
            "adaptive confidence",
            Box::new(AdaptiveConfidence::new(0.3)),
        ),
        ("mdp", Box::new(MdpThreshold::new(0.4, 0.0))),
        ("head", Box::new(acceptance_head())),
    ]
}

/// A head for the toys' hidden states of one number, which finds about half of the tokens likely to
/// be rejected.
fn acceptance_head() -> AcceptanceHead {
    let mut toy = ToyScorer::drafter("base", VOCABULARY, FAMILY, 1, 150);
    let mut states: Vec<f32> = (0..64)
        .map(|text| {
            let context = [1, 2, text % 4, text / 4 % 4, text / 16].map(|t| t % VOCABULARY as u32);
            let want = Want::ARGMAX.with_last_hidden();
            let scores = toy.score(&context, &TokenTree::new(), want).unwrap();
            scores.hidden.of(HiddenLayer::Last).unwrap().row(0)[0]
        })
        .collect();
    states.sort_by(f32::total_cmp);
    let (low, middle, high) = (states[8], states[32], states[56]);
    let scale = 4.0 / (high - low);
    let weights = HeadWeights {
        layers: Vec::new(),
        output: vec![scale],
        output_bias: -scale * middle,
    };
    AcceptanceHead::new(Arc::new(weights), 0.5, 1, 20).unwrap()
}

/// Nodes that were drafted in each step.
fn drafted(acceptance: f64, rule: impl StopRule + 'static, tokens: usize) -> Vec<usize> {
    let replay = Replay::new(vec![Regime {
        positions: 0..usize::MAX,
        acceptance,
        forward: 1e-3,
        row: 0.0,
    }]);
    let builder = replay
        .builder()
        .neural("small", replay.drafter(5, 0.1))
        .stop_rule(rule)
        .k_matrix(matrix(&[&[64]]));
    let mut cascade = builder.build().unwrap();
    let prompt = Prompt::new(Architecture::DecoderOnly, vec![crate::replays::token(0)]);
    let options = Options::default().with_max_new_tokens(tokens);
    let output = cascade.generate_tokens(&prompt, &options).unwrap();
    output.steps.iter().map(|step| step.drafted).collect()
}

#[test]
fn a_fixed_length_is_fixed() {
    assert_eq!(drafted(1.0, FixedLength::new(3), 16), [3; 4]);
    assert_eq!(drafted(1.0, FixedLength::new(0), 4), [1; 2]);
}

#[test]
fn the_heuristic_adds_two_after_success_and_takes_one_after_a_rejection() {
    let rising = drafted(1.0, LengthHeuristic::default(), 60);
    assert_eq!(rising[..4], [5, 7, 9, 11]);
    let falling = drafted(0.0, LengthHeuristic::default(), 20);
    assert_eq!(falling[..6], [5, 4, 3, 2, 1, 1]);
}

/// All tokens have a probability of 0.7; the model's own forward costs a tenth of the target's.
#[test]
fn the_mdp_rule_stops_where_its_theorem_says() {
    let cheap = drafted(1.0, MdpThreshold::new(0.1, 0.0), 200);
    // 1 − Π p reaches 1 − 0.1 after more than six tokens of 0.7, and later the more is accepted.
    assert!(cheap[0] >= 6 && cheap[4] > cheap[0], "{cheap:?}");
    let never = drafted(0.0, MdpThreshold::new(0.1, 0.0), 40);
    assert!(never[0] > 5 && never[never.len() - 4] <= 2, "{never:?}");
    let patient = drafted(0.5, MdpThreshold::new(0.1, 5.0), 60);
    let eager = drafted(0.5, MdpThreshold::new(0.1, 0.0), 60);
    assert!(patient.iter().sum::<usize>() > eager.iter().sum::<usize>());
}

pub(crate) const VOCABULARY: usize = 3;
pub(crate) const FAMILY: u64 = 7;
pub(crate) const TOKENS: usize = 3;

pub(crate) fn target() -> ToyScorer {
    ToyScorer::target("target", VOCABULARY, FAMILY)
}

/// Guesses two siblings at each depth, fixed by the length of the context, and says how sure it is.
#[derive(Clone)]
struct Guesser;

impl Drafter for Guesser {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        let mut proposed = ScoredTree::default();
        let mut lead = None;
        for depth in 0..budget.depth.min(budget.nodes) {
            let first = ((context.len() + depth) % VOCABULARY) as TokenId;
            let parent = lead;
            lead = Some(proposed.push_estimated(first, parent, 0.6));
            if proposed.tree().len() + budget.depth - depth - 1 < budget.nodes {
                let other = (first + 1) % VOCABULARY as TokenId;
                proposed.push_estimated(other, parent, 0.3);
            }
        }
        proposed
    }
}

/// The source that enumerates all draws, shared with a generation.
#[derive(Clone)]
struct SharedExhaustive(Arc<Mutex<Exhaustive>>);

impl RandomSource for SharedExhaustive {
    fn accept(&mut self, probability: f64) -> bool {
        self.0.lock().unwrap().accept(probability)
    }

    fn draw(&mut self, distribution: &Distribution) -> TokenId {
        self.0.lock().unwrap().draw(distribution)
    }

    fn below(&mut self, n: usize) -> usize {
        self.0.lock().unwrap().below(n)
    }
}

pub(crate) fn prompt() -> Prompt {
    Prompt::new(Architecture::DecoderOnly, vec![1, 2])
}

pub(crate) fn sampled() -> Options {
    let sampling = Sampling::new(1.3).unwrap();
    Options::default()
        .with_max_new_tokens(TOKENS)
        .with_decoding(Decoding::Sampled(sampling))
}

/// The probability of each text, by enumeration of all that may be drawn.
pub(crate) fn enumerated(cascade: &mut Cascade) -> BTreeMap<Vec<TokenId>, f64> {
    let mut texts = BTreeMap::new();
    let all = outcomes(|random| {
        let shared = SharedExhaustive(Arc::new(Mutex::new(std::mem::take(random))));
        let generation = cascade.start_tokens(&prompt(), &sampled()).unwrap();
        let output = generation.with_random(shared.clone()).run().unwrap();
        *random = std::mem::take(&mut *shared.0.lock().unwrap());
        output.tokens
    });
    for (tokens, probability) in all {
        *texts.entry(tokens).or_default() += probability;
    }
    texts
}

/// The probability of each text of the target alone.
pub(crate) fn expected() -> BTreeMap<Vec<TokenId>, f64> {
    let Decoding::Sampled(sampling) = sampled().decoding else {
        unreachable!("it samples");
    };
    let mut open = vec![(Vec::new(), 1.0)];
    let mut texts = BTreeMap::new();
    while let Some((tokens, probability)) = open.pop() {
        if tokens.len() == TOKENS {
            texts.insert(tokens, probability);
            continue;
        }
        let mut context = prompt().context;
        context.extend(&tokens);
        let scores = target()
            .score(&context, &TokenTree::new(), Want::LOGITS)
            .unwrap();
        let row = sampling
            .distribution(scores.logits.unwrap().row(0))
            .unwrap();
        row.for_each(|token, p| {
            let mut longer: Vec<TokenId> = tokens.clone();
            longer.push(token);
            open.push((longer, probability * p));
        });
    }
    texts
}

pub(crate) fn difference(a: &BTreeMap<Vec<TokenId>, f64>, b: &BTreeMap<Vec<TokenId>, f64>) -> f64 {
    let keys = a.keys().chain(b.keys());
    let of = |map: &BTreeMap<Vec<TokenId>, f64>, key| map.get(key).copied().unwrap_or(0.0);
    keys.map(|key| (of(a, key) - of(b, key)).abs())
        .fold(0.0, f64::max)
}

/// A neural drafter and one below it, with a rule each.
fn family(rule: Option<usize>, branching: &Branching) -> CascadeBuilder {
    let options = NeuralOptions::new(Rule::Iterated, branching.clone());
    let mut builder = Cascade::builder().target("target", target()).neural_with(
        "base",
        ToyScorer::drafter("base", VOCABULARY, FAMILY, 1, 150),
        options,
    );
    if let Some(rule) = rule {
        builder = builder.stop_rule(rules().swap_remove(rule).1);
    }
    builder = builder.statistical("guesser", Guesser);
    if let Some(rule) = rule {
        builder = builder.stop_rule(rules().swap_remove(rule).1);
    }
    builder
}

/// Every rule with a K matrix, horizontal and vertical, chains and trees, and the online schedule:
/// the distribution of the output is the target's to the last digit.
#[test]
fn whatever_ends_drafts_the_enumerated_output_is_the_targets() {
    let expected = expected();
    let all = (0..rules().len()).map(Some).chain([None]);
    let tree = Branching {
        siblings: Siblings::WithReplacement,
        ..Branching::main_path(2)
    };
    for rule in all {
        let name = rule.map_or("none", |rule| rules()[rule].0);
        for (k, branching) in [
            (&[&[2, 1], &[0, 0]], Branching::chain()),
            (&[&[1, 0], &[0, 1]], Branching::chain()),
            (&[&[1, 0], &[0, 0]], tree.clone()),
        ] {
            let builder = family(rule, &branching).k_matrix(matrix(&[k[0], k[1]]));
            let found = enumerated(&mut builder.max_nodes(4).build().unwrap());
            let error = difference(&found, &expected);
            assert!(error < 1e-12, "{name}, {k:?}, {branching:?}: {error}");
        }
        let builder = family(rule, &Branching::chain()).schedule(OnlineSchedule::default());
        let found = enumerated(&mut builder.max_nodes(2).build().unwrap());
        let error = difference(&found, &expected);
        assert!(error < 1e-12, "{name}, online: {error}");
    }
}

/// Random numbers that a rule may look at ahead of the review.
#[derive(Clone)]
struct Open(Arc<Mutex<(Vec<f64>, ChaCha8Rng)>>);

impl Open {
    fn ahead(&self, count: usize) -> f64 {
        let (numbers, rng) = &mut *self.0.lock().unwrap();
        while numbers.len() <= count {
            numbers.push(rng.random());
        }
        numbers[count]
    }

    fn take(&self) -> f64 {
        self.ahead(0);
        self.0.lock().unwrap().0.remove(0)
    }
}

impl RandomSource for Open {
    fn accept(&mut self, probability: f64) -> bool {
        // High numbers accept.
        self.take() >= 1.0 - probability
    }

    fn draw(&mut self, distribution: &Distribution) -> TokenId {
        distribution.at_quantile(self.take())
    }

    fn below(&mut self, n: usize) -> usize {
        (self.take() * n as f64) as usize
    }
}

/// Ends a draft where the next number is high: it then decides on the token that was just drafted,
/// and accepts it. What no rule may look at.
struct Peeks(Open);

impl StopRule for Peeks {
    fn stop(&mut self, _drafted: &DraftedToken<'_>) -> bool {
        self.0.ahead(0) > 0.5
    }
}

/// Does as much by a number that decides on nothing.
struct Honest(Open);

impl StopRule for Honest {
    fn stop(&mut self, _drafted: &DraftedToken<'_>) -> bool {
        self.0.ahead(99) > 0.5
    }
}

/// The greatest difference of a text's frequency from its probability, in standard errors.
fn greatest_error(rule: impl Fn(Open) -> Box<dyn StopRule>) -> f64 {
    const SAMPLES: u64 = 4_000;
    let mut counts: BTreeMap<Vec<TokenId>, f64> = BTreeMap::new();
    for seed in 0..SAMPLES {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let open = Open(Arc::new(Mutex::new((Vec::new(), rng))));
        let mut cascade = Cascade::builder()
            .target("target", target())
            .neural(
                "base",
                ToyScorer::drafter("base", VOCABULARY, FAMILY, 1, 40),
            )
            .stop_rule(rule(open.clone()))
            .k_matrix(matrix(&[&[2]]))
            .build()
            .unwrap();
        let generation = cascade.start_tokens(&prompt(), &sampled()).unwrap();
        let output = generation.with_random(open).run().unwrap();
        *counts.entry(output.tokens).or_default() += 1.0;
    }
    let errors = expected().into_iter().map(|(text, p)| {
        let n = SAMPLES as f64;
        let found = counts.get(&text).copied().unwrap_or(0.0);
        (found - n * p).abs() / (n * p * (1.0 - p)).sqrt().max(1.0)
    });
    errors.fold(0.0, f64::max)
}

#[test]
fn a_rule_that_looks_at_what_it_must_not_is_caught() {
    let honest = greatest_error(|open| Box::new(Honest(open)));
    assert!(
        honest < 5.0,
        "{honest} standard errors without anything wrong"
    );
    let peeking = greatest_error(|open| Box::new(Peeks(open)));
    assert!(
        peeking > 8.0,
        "peeking went through with {peeking} standard errors"
    );
}

/// A clock that runs ahead differently each time.
#[derive(Clone, Debug)]
struct Erratic(VirtualClock, Arc<Mutex<u64>>);

impl Clock for Erratic {
    fn now(&self) -> Duration {
        let mut state = self.1.lock().unwrap();
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.0.advance(Duration::from_micros(*state >> 50));
        self.0.now()
    }
}

/// A seed's answer depends neither on the machine's speed nor on what was generated before.
#[test]
fn a_seed_gives_the_same_sample_whatever_was_generated_before_and_however_fast() {
    let all = (0..rules().len()).map(Some).chain([None]);
    for rule in all {
        for online in [false, true] {
            let cascade = |speed: u64| {
                let clock = Erratic(VirtualClock::default(), Arc::new(Mutex::new(speed)));
                let builder = family(rule, &Branching::chain()).clock(clock);
                (if online {
                    builder.schedule(OnlineSchedule::default())
                } else {
                    builder.k_matrix(matrix(&[&[4, 2], &[0, 2]]))
                })
                .build()
                .unwrap()
            };
            let options = |seed| sampled().with_max_new_tokens(24).with_seed(seed);
            let mut first = cascade(1);
            let wanted: Vec<_> = (0..6)
                .map(|seed| {
                    first
                        .generate_tokens(&prompt(), &options(seed))
                        .unwrap()
                        .tokens
                })
                .collect();
            let mut other = cascade(77);
            let greedy = Options::default().with_max_new_tokens(40);
            for (seed, wanted) in wanted.iter().enumerate().rev() {
                other.generate_tokens(&prompt(), &greedy).unwrap();
                let found = other
                    .generate_tokens(&prompt(), &options(seed as u64))
                    .unwrap();
                assert_eq!(
                    &found.tokens, wanted,
                    "{rule:?}, online {online}, seed {seed}"
                );
            }
        }
    }
}

/// Greedy answers are the target's, with every rule and schedule, chains and trees.
#[test]
fn greedy_answers_are_the_targets_with_every_rule_and_schedule() {
    let vocabulary = 24;
    let options = Options::default().with_max_new_tokens(60);
    let every = Branching {
        expand: Expand::AllLeaves,
        ..Branching::main_path(2)
    };
    let plain = Cascade::builder()
        .target("target", ToyScorer::target("target", vocabulary, 7))
        .build()
        .unwrap()
        .generate_tokens(&prompt(), &options)
        .unwrap();
    for rule in 0..rules().len() {
        for branching in [Branching::chain(), Branching::main_path(3), every.clone()] {
            for online in [false, true] {
                let mut builder =
                    Cascade::builder().target("target", ToyScorer::target("target", vocabulary, 7));
                for (seed, agreement) in [(1, 220), (2, 150)] {
                    let toy = ToyScorer::drafter("toy", vocabulary, 7, seed, agreement);
                    let neural = NeuralOptions::new(Rule::Iterated, branching.clone());
                    builder = builder
                        .neural_with(format!("toy {seed}"), toy, neural)
                        .stop_rule(rules().swap_remove(rule).1);
                }
                builder = builder
                    .statistical("guesser", Guesser)
                    .stop_rule(rules().swap_remove(rule).1)
                    .lenience(Lenience::new(2.0).unwrap());
                let builder = if online {
                    builder
                } else {
                    builder.k_matrix(matrix(&[&[5, 2, 2], &[0, 2, 2], &[0, 0, 2]]))
                };
                let mut cascade = builder.build().unwrap();
                let fast = cascade.generate_tokens(&prompt(), &options).unwrap();
                let name = rules()[rule].0;
                assert_eq!(fast.tokens, plain.tokens, "{name}, {branching:?}, {online}");
                if !online {
                    assert!(
                        fast.steps.len() < plain.steps.len(),
                        "{name}, {branching:?}"
                    );
                }
            }
        }
    }
}
