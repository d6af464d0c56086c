//! The chains that are simulated: random ones, or the user's own.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use cascade_reproduce::theory::AcceptanceRate;
use cascade_reproduce::theory::rejection::{LARGEST_CHAIN, Markov};
use clap::Args;

/// A random chain.
#[derive(Debug, Args)]
pub(crate) struct ChainArgs {
    /// Tokens of the vocabulary.
    #[arg(long, value_name = "N", default_value_t = 7)]
    states: usize,

    /// Tokens of the sequence.
    #[arg(long, value_name = "T", default_value_t = 50)]
    positions: usize,

    /// How much of the drafter is the target, from 0, where they are unrelated, to 1, where they
    /// are equal.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    likeness: f64,

    /// Seed of the chains and of the runs. Chain i has seed + i.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(super) seed: u64,
}

impl ChainArgs {
    fn chain(&self, i: u64) -> Result<Markov> {
        let likeness = AcceptanceRate::new(self.likeness)
            .with_context(|| format!("--likeness {} is not a share", self.likeness))?;
        let seed = self.seed.wrapping_add(i);
        Ok(Markov::random(self.states, self.positions, likeness, seed)?)
    }

    pub(super) fn print(&self, out: &mut impl Write) -> Result<()> {
        writeln!(out, "{}", self.chain(0)?.to_json()?)?;
        Ok(())
    }
}

/// Chains, and how often they are played.
#[derive(Debug, Args)]
pub(super) struct ChainsArgs {
    #[command(flatten)]
    random: ChainArgs,

    /// Random chains to simulate [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    chains: Option<u64>,

    /// Your own chain, in place of random ones: JSON as `cascade-lab theory chain` prints it.
    /// `steps` may have one matrix for all positions.
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["states", "positions", "likeness", "chains"])]
    chain: Option<PathBuf>,

    /// Sequences to generate with each chain.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(2..))]
    pub(super) runs: u64,
}

/// A chain, and what it is called.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) chain: Markov,
    /// Seed of the runs: not that of the chain, whose numbers they must not repeat.
    pub(super) seed: u64,
}

impl ChainsArgs {
    /// The chains, or the one.
    pub(super) fn chains(&self) -> Result<Vec<Named>> {
        let play = |i: u64| self.random.seed.wrapping_add(i) ^ 0x9e37_79b9_7f4a_7c15;
        if let Some(path) = &self.chain {
            let name = path.display().to_string();
            let text = cascade_core::fs::read_text(path, LARGEST_CHAIN).context(name.clone())?;
            let chain = Markov::from_json(&text).context(name.clone())?;
            let seed = play(0);
            return Ok(vec![Named { name, chain, seed }]);
        }
        let chains = 0..self.chains.unwrap_or(1);
        chains
            .map(|i| {
                Ok(Named {
                    name: format!("seed {}", self.random.seed.wrapping_add(i)),
                    chain: self.random.chain(i)?,
                    seed: play(i),
                })
            })
            .collect()
    }

    /// What was played, for titles.
    pub(super) fn described(&self, chains: &[Named]) -> String {
        let size = chains.first().map_or_else(String::new, |first| {
            let (states, positions) = (first.chain.states(), first.chain.positions());
            format!("{states} states, {positions} positions")
        });
        format!("{size}, {} runs", self.runs)
    }
}
