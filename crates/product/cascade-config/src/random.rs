//! Random settings, to show that the output does not depend on them.

use std::fmt::Write;

use cascade_engine::{Branching, Convention, Expand, KMatrix, Placement, Rule, Siblings};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Config, Drafter};

/// Tokens of a random length: at least this many, at most twice as many.
const TOKENS: usize = 64;

impl Config {
    /// The same models with everything else at random, by a seed: the K matrix, leniences, rules, branches, placement and
    /// budget, and a length of 64 to 128 tokens that EOS does not cut short. None of it may change what comes out.
    pub fn with_random_settings(&self, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut config = self.clone();
        let siblings = *pick(
            &mut rng,
            &[
                Siblings::TopK,
                Siblings::WithReplacement,
                Siblings::WithoutReplacement,
            ],
        );
        // A rule that reorders would be refused for siblings that depend on each other.
        let rules = match siblings {
            Siblings::WithoutReplacement => &Rule::ALL[..3],
            _ => &Rule::ALL[..],
        };
        config.target.rule = *pick(&mut rng, rules);
        for drafter in &mut config.drafters {
            match drafter {
                Drafter::Neural { model, branching } => {
                    model.rule = *pick(&mut rng, rules);
                    *branching = random_branching(&mut rng, siblings);
                }
                Drafter::MaxGram { options, .. } => {
                    options.branches = rng.random_range(1..5);
                    options.width = rng.random_range(1..4);
                }
                Drafter::Bigram { width, .. } => *width = rng.random_range(1..4),
                Drafter::PromptLookup { branches, .. } => *branches = rng.random_range(1..4),
            }
        }
        config.k = random_matrix(&mut rng, config.drafters.len());
        config.lenience = rng.random_range(1.0..5.0);
        config.statistical_lenience = *pick(&mut rng, &[1.0, 1.0, 2.0, 4.0]);
        config.placement = *pick(&mut rng, &[Placement::Sequential, Placement::Merged]);
        config.max_nodes = rng.random_range(4..48);
        config.options.max_new_tokens = rng.random_range(TOKENS..=2 * TOKENS);
        config.ignore_eos = true;
        config
    }

    /// The settings that shape drafts and reviews, in one line.
    pub fn settings(&self) -> String {
        let rows = self.k.rows();
        let mut line = format!(
            "k {rows:?}, lenience {}, statistical_lenience {}, max_nodes {}, placement {:?}, \
             max_new_tokens {}, target rule {}",
            self.lenience,
            self.statistical_lenience,
            self.max_nodes,
            self.placement,
            self.options.max_new_tokens,
            self.target.rule
        );
        for drafter in &self.drafters {
            // Writing to a string cannot fail.
            let _ = match drafter {
                Drafter::Neural { model, branching } => write!(
                    line,
                    "; {}: rule {}, widths {:?}, parents {:?}, siblings {:?}",
                    model.name, model.rule, branching.widths, branching.expand, branching.siblings
                ),
                Drafter::MaxGram { name, options, .. } => write!(
                    line,
                    "; {name}: branches {}, width {}",
                    options.branches, options.width
                ),
                Drafter::Bigram { name, width, .. } => write!(line, "; {name}: width {width}"),
                Drafter::PromptLookup { name, branches, .. } => {
                    write!(line, "; {name}: branches {branches}")
                }
            };
        }
        line
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

fn random_matrix(rng: &mut ChaCha8Rng, n: usize) -> KMatrix {
    let rows = (0..n)
        .map(|r| {
            (0..n)
                .map(|c| if c < r { 0 } else { rng.random_range(0..6) })
                .collect()
        })
        .collect();
    KMatrix::new(rows, Convention::Added).unwrap_or_else(|_| unreachable!("upper triangular"))
}

fn pick<'t, T>(rng: &mut ChaCha8Rng, from: &'t [T]) -> &'t T {
    from.choose(rng).unwrap_or(&from[0])
}
