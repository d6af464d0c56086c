//! Random settings of a configuration, to show that the output does not depend on them.

use std::fmt::Write;

use cascade_config::{Config, Drafter, SamplingSettings, ScheduleConfig, StopRuleConfig};
use cascade_core::StatedSampling;
use cascade_engine::{Branching, Convention, Expand, KMatrix, Lenience, Placement, Rule, Siblings};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Error, Result};

/// Tokens of a random length: at least this many, at most twice as many.
const TOKENS: usize = 64;

/// A configuration of the same models with everything else at random, by a seed: the K matrix,
/// leniences, rules (if they draw; where they are coupled and `of_sampling`, how samples are
/// drawn), branches, placement and budget, stop rules and schedule, and a length of 64 to 128
/// tokens that EOS does not cut short. None of it may change what comes out.
///
/// # Errors
/// Settings that do not fit together, which no seed should give.
pub fn with_random_settings(config: &Config, seed: u64, of_sampling: bool) -> Result<Config> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut config = config.clone();
    set_random_rules(&mut config, &mut rng, of_sampling)?;
    let k = random_matrix(&mut rng, config.drafters().len())?;
    let joint = joint_drafters(&config, &k);
    for drafter in joint {
        if let Drafter::Neural { branching, .. } = &mut config.drafters_mut()[drafter]
            && rng.random_bool(0.5)
        {
            branching.expand = Expand::MostProbable;
        }
    }
    config = config.with_schedule(k)?;
    config.lenience = Lenience::new(rng.random_range(1.0..5.0))?;
    config.statistical_lenience = Lenience::new(*pick(&mut rng, &[1.0, 1.0, 2.0, 4.0]))?;
    config.placement = *pick(&mut rng, &[Placement::Sequential, Placement::Merged]);
    config.max_nodes = rng.random_range(4..48);
    config.generation.max_new_tokens = rng.random_range(TOKENS..=2 * TOKENS);
    config.generation.ignore_eos = true;
    with_random_policies(config, &mut rng)
}

/// Rules, branches and the settings of statistical drafters.
fn set_random_rules(config: &mut Config, rng: &mut ChaCha8Rng, of_sampling: bool) -> Result<()> {
    let siblings = *pick(
        rng,
        &[
            Siblings::TopK,
            Siblings::WithReplacement,
            Siblings::WithoutReplacement,
        ],
    );
    // A rule that reorders would be refused for siblings that depend on each other.
    let rules = match (config.target.rule, siblings) {
        (Rule::Coupled, _) => &[Rule::Coupled][..],
        (_, Siblings::WithoutReplacement) => &Rule::DRAWN[..3],
        _ => &Rule::DRAWN[..],
    };
    let greedy = config.generation.sampling.decoding().is_greedy();
    if of_sampling && greedy {
        config.generation.sampling = SamplingSettings::try_from(random_penalties(rng))?;
    } else if of_sampling && config.target.rule == Rule::Coupled {
        config.generation.sampling = random_sampling(rng)?;
    }
    config.target.rule = *pick(rng, rules);
    for drafter in config.drafters_mut() {
        match drafter {
            Drafter::Neural {
                model, branching, ..
            } => {
                model.rule = *pick(rng, rules);
                *branching = random_branching(rng, siblings);
            }
            Drafter::Statistical { config, .. } => {
                let drawn = config.with_drawn_settings(&mut |range| rng.random_range(range));
                if let Some(drawn) = drawn {
                    *config = drawn;
                }
            }
        }
    }
    Ok(())
}

/// A configuration with a stop rule of every second drafter, and every fourth time with the
/// online schedule.
fn with_random_policies(mut config: Config, rng: &mut ChaCha8Rng) -> Result<Config> {
    let rules = [
        StopRuleConfig::Length(rng.random_range(1..6)),
        StopRuleConfig::Heuristic { start: 5 },
        StopRuleConfig::Confidence(rng.random_range(0.0..1.0)),
        StopRuleConfig::AdaptiveConfidence { start: 0.4 },
        StopRuleConfig::Mdp {
            cost: rng.random_range(0.01..1.0),
            delta: 0.0,
        },
    ];
    if !config.drafters().is_empty() && rng.random_bool(0.25) {
        config.placement = Placement::Sequential;
        // What two draft together is not planned by it.
        for drafter in config.drafters_mut() {
            match drafter {
                Drafter::Neural { branching, .. } if branching.expand == Expand::MostProbable => {
                    branching.expand = Expand::AllLeaves;
                }
                _ => {}
            }
        }
        config = config.with_schedule(ScheduleConfig::Online)?;
    }
    for drafter in config.drafters_mut() {
        let rule = pick(rng, &rules).clone();
        let stops = rng.random_bool(0.5) && !drafts_jointly(drafter);
        *drafter.stop_rule_mut() = stops.then_some(rule);
    }
    Ok(config)
}

/// Whether a drafter drafts the most probable nodes together with statistical ones.
fn drafts_jointly(drafter: &Drafter) -> bool {
    matches!(drafter, Drafter::Neural { branching, .. } if branching.expand == Expand::MostProbable)
}

/// Neural drafters for which only statistical ones draft, that mix probabilities.
fn joint_drafters(config: &Config, k: &KMatrix) -> Vec<usize> {
    let mixes = |drafter: &Drafter| match drafter {
        Drafter::Neural { .. } => false,
        Drafter::Statistical { config, .. } => config.takes_advice(),
    };
    let joins = |&index: &usize| {
        let row = k.rows()[index + 1..].first();
        let mut drafters = row
            .into_iter()
            .flatten()
            .zip(config.drafters())
            .filter(|&(&entry, _)| entry > 0)
            .peekable();
        drafters.peek().is_some() && drafters.all(|(_, drafter)| mixes(drafter))
    };
    (0..config.drafters().len()).filter(joins).collect()
}

/// The settings that shape drafts and their verification, in one line.
pub fn settings(config: &Config) -> String {
    let schedule = match config.k() {
        Some(k) => format!("k {:?}", k.rows()),
        None => format!("schedule {}", config.schedule().name()),
    };
    let mut line = format!(
        "{schedule}, lenience {}, statistical_lenience {}, max_nodes {}, placement {:?}, \
         max_new_tokens {}, {}, target rule {}",
        config.lenience.get(),
        config.statistical_lenience.get(),
        config.max_nodes,
        config.placement,
        config.generation.max_new_tokens,
        config.generation.sampling,
        config.target.rule
    );
    for drafter in config.drafters() {
        // Writing to a string cannot fail.
        let _ = match drafter {
            Drafter::Neural {
                model, branching, ..
            } => write!(
                line,
                "; {}: rule {}, widths {:?}, expand {:?}, siblings {:?}",
                model.name, model.rule, branching.widths, branching.expand, branching.siblings
            ),
            Drafter::Statistical { name, config, .. } => {
                write!(line, "; {name}: {}", config.settings())
            }
        };
        if let Some(rule) = drafter.stop_rule() {
            let _ = write!(line, ", stop rule {rule}");
        }
    }
    line
}

fn random_sampling(rng: &mut ChaCha8Rng) -> Result<SamplingSettings> {
    let one_in = |rng: &mut ChaCha8Rng, n: u32| rng.random_ratio(1, n);
    let top_k = one_in(rng, 3).then(|| rng.random_range(1..200));
    let top_p = one_in(rng, 3).then(|| rng.random_range(0.5..1.0));
    let min_p = one_in(rng, 4).then(|| rng.random_range(0.0..0.2));
    let temperature = rng.random_range(0.3..1.5);
    let stated = StatedSampling {
        temperature: Some(temperature),
        top_k,
        top_p,
        min_p,
        ..random_penalties(rng)
    };
    SamplingSettings::try_from(stated).map_err(Error::from)
}

/// Penalties, of every second text.
fn random_penalties(rng: &mut ChaCha8Rng) -> StatedSampling {
    let mut one_of = |of: &[f32]| rng.random_ratio(1, 4).then(|| *pick(rng, of));
    StatedSampling {
        repetition_penalty: one_of(&[0.9, 1.05, 1.3, 2.0]),
        presence_penalty: one_of(&[-0.5, 0.5, 2.0]),
        frequency_penalty: one_of(&[-0.2, 0.3, 1.5]),
        ..StatedSampling::default()
    }
}

fn random_branching(rng: &mut ChaCha8Rng, siblings: Siblings) -> Branching {
    if rng.random_bool(0.3) {
        return Branching::chain();
    }
    let depths = rng.random_range(1..4);
    Branching {
        widths: (0..depths).map(|_| rng.random_range(1..5)).collect(),
        expand: *pick(rng, &[Expand::MainPath, Expand::AllLeaves]),
        siblings,
    }
}

fn random_matrix(rng: &mut ChaCha8Rng, n: usize) -> Result<KMatrix> {
    let rows = (0..n)
        .map(|r| {
            (0..n)
                .map(|c| if c < r { 0 } else { rng.random_range(0..6) })
                .collect()
        })
        .collect();
    let k = KMatrix::new(rows, Convention::Added);
    k.map_err(|error| Error::from(cascade_engine::Error::from(error)))
}

fn pick<'t, T>(rng: &mut ChaCha8Rng, from: &'t [T]) -> &'t T {
    from.choose(rng).unwrap_or(&from[0])
}
