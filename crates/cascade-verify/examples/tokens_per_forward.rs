//! Simulated tokens per forward by acceptance rule, of chains and trees, with 95% intervals.
//!
//! `cargo run --release -p cascade-verify --example tokens_per_forward`
//!
//! Logits are made like those of a language model: a Gaussian bulk, and a few dominant tokens. The
//! drafter's are the same with noise, of which there is little, some or much. Every node of a draft
//! has a row of its own, by the tokens above it. All rules see the same rows.

use std::sync::Arc;

use cascade_core::{
    Distribution, Draft, LevelId, NodeId, Noise, Proposal, Proposed, RandomSource, Sampling,
    SeededNoise, SeededRandom, TokenId, seed_of,
};
use cascade_verify::{LeniencePolicy, Rule, coupled, sampled};

const VOCABULARY: usize = 2_000;
/// Rows of either model; a node's is chosen by the tokens above it.
const POOL: usize = 400;
const STEPS: u64 = 6_000;
const DEPTH: usize = 4;

/// Distributions of the target and of the drafter.
type Pool = Vec<(Arc<Distribution>, Arc<Distribution>)>;

/// A standard normal number (Box and Muller).
fn normal(random: &mut SeededRandom) -> f32 {
    let mut unit = || (1 + random.below(1 << 24)) as f32 / (1 << 24) as f32;
    let radius = (-2.0 * unit().ln()).sqrt();
    radius * (std::f32::consts::TAU * unit()).cos()
}

fn pool(temperature: f32, noise: f32) -> Pool {
    let mut random = SeededRandom::new(1);
    let sampling = Sampling::new(temperature).expect("a temperature");
    let row = |logits: &[f32]| Arc::new(sampling.distribution(logits).expect("finite logits"));
    (0..POOL)
        .map(|_| {
            let mut p: Vec<f32> = (0..VOCABULARY).map(|_| 1.5 * normal(&mut random)).collect();
            let mut dominant = 11.0;
            for _ in 0..8 {
                p[random.below(VOCABULARY)] = dominant;
                dominant -= 1.5 * normal(&mut random).abs();
            }
            let q: Vec<f32> = p.iter().map(|l| l + noise * normal(&mut random)).collect();
            (row(&p), row(&q))
        })
        .collect()
}

/// A way to draft and to verify.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Winners of races, and the next to arrive.
    Coupled,
    /// Draws, and further ones without replacement, reviewed in turn.
    Iterated,
    /// The most probable tokens, which `match` takes best.
    Match,
}

/// One step: a draft of `width` children beside each other at each depth, below the first, and its
/// review. Returns the tokens that it yields.
fn step(pool: &Pool, way: Way, width: usize, number: u64) -> f64 {
    let noise = SeededNoise::new(5);
    let mut chance = SeededRandom::new(number);
    let context = number as usize * (DEPTH + 1);
    let place = |path: &[TokenId]| {
        let number = path
            .iter()
            .fold(number, |n, &token| seed_of(n, 1 + u64::from(token)));
        (seed_of(number, 1) % POOL as u64) as usize
    };
    let mut draft = Draft::new();
    let mut lead: Option<NodeId> = None;
    for depth in 0..DEPTH {
        let path: Vec<TokenId> = draft.tree().path_tokens(lead);
        let q = &pool[place(&path)].1;
        let parent = lead;
        let drawn: Vec<(TokenId, Proposal)> = match way {
            Way::Coupled => {
                let first = noise.first((context + depth) as u64, q, width);
                first
                    .into_iter()
                    .map(|t| (t, Proposal::PointMass))
                    .collect()
            }
            Way::Match => q
                .top(width)
                .into_iter()
                .map(|t| (t, Proposal::PointMass))
                .collect(),
            Way::Iterated => {
                let mut left = Some(Arc::clone(q));
                let mut drawn = Vec::new();
                while let Some(from) = left.filter(|_| drawn.len() < width) {
                    let token = chance.draw(&from);
                    left = from.without(&[token]).map(Arc::new);
                    drawn.push((token, Proposal::Sampled(from)));
                }
                drawn
            }
        };
        for (place, (token, proposal)) in drawn.into_iter().enumerate() {
            let proposer = LevelId::drafter(0);
            let node = draft.push(token, parent, Proposed { proposal, proposer });
            if place == 0 {
                lead = Some(node);
            }
        }
    }
    let nodes = std::iter::once(None).chain((0..draft.len()).map(Some));
    let mut rows: Vec<_> = nodes
        .map(|node| Arc::clone(&pool[place(&draft.tree().path_tokens(node))].0))
        .collect();
    let strict = LeniencePolicy::STRICT;
    let verdict = match way {
        Way::Coupled => coupled::review(&draft, None, &mut rows[..], &noise, context, strict),
        Way::Iterated | Way::Match => {
            let rule = if way == Way::Match {
                Rule::Match
            } else {
                Rule::Iterated
            };
            sampled::review(&draft, None, &mut rows[..], &rule, strict, &mut chance)
        }
    };
    verdict.expect("proper rows").kept.len() as f64 + 1.0
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The ratio of two means of the same steps, and half of its 95% interval (delta method).
fn ratio(a: &[f64], b: &[f64]) -> (f64, f64) {
    let ratio = mean(a) / mean(b);
    let squares = a.iter().zip(b).map(|(a, b)| (a - ratio * b).powi(2));
    let n = a.len() as f64;
    let deviation = (squares.sum::<f64>() / n).sqrt() / mean(b);
    (ratio, 1.96 * deviation / n.sqrt())
}

fn main() {
    println!(
        "| noise of the drafter | temperature | 1 − TV | draft | coupled | iterated | match | coupled / iterated |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for noise in [0.3, 1.0, 2.0] {
        for temperature in [0.5, 0.7, 1.0, 1.3] {
            let pool = pool(temperature, noise);
            let overlaps: Vec<f64> = pool.iter().map(|(p, q)| p.overlap(q)).collect();
            for (shape, width) in [("chain of 4", 1), ("tree of 16", 4)] {
                let found = [Way::Coupled, Way::Iterated, Way::Match].map(|way| {
                    (0..STEPS)
                        .map(|n| step(&pool, way, width, n))
                        .collect::<Vec<_>>()
                });
                let (ratio, half) = ratio(&found[0], &found[1]);
                println!(
                    "| {noise} | {temperature} | {:.3} | {shape} | {:.3} | {:.3} | {:.3} | {ratio:.3} ± {half:.3} |",
                    mean(&overlaps),
                    mean(&found[0]),
                    mean(&found[1]),
                    mean(&found[2])
                );
            }
        }
    }
}
