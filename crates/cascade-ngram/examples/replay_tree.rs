//! How many tokens a target forward gives when recorded outputs are drafted by the Max-Gram tree.
//!
//! ```text
//! cargo run --release -p cascade-ngram --example replay_tree -- \
//!     conversations.jsonl [--table table.safetensors] [--no-session] \
//!     [--no-learning | --rate R] [--chains] [--nodes N] [--eos TOKEN]
//! ```
//!
//! The conversations are in the form that `tests/fixtures/make_vicuna_spec_bench.py` writes, and
//! replayed in the order of the file. A recording has no answer to rejected tokens, so hints are
//! off. With `--eos`, that token is left out at the end of answers.

mod recorded;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cascade_core::{Budget, Drafter, Observation};
use cascade_ngram::{MaxGramTree, MaxGramTreeConfig, NgramTable};

use recorded::{Output, Result, accepted, read};

#[derive(Clone, Copy, Default)]
struct Tally {
    emitted: usize,
    forwards: usize,
    drafted: usize,
    /// The sum of the probabilities that the drafter gave to its nodes' paths.
    expected: f64,
    proposing: Duration,
    observing: Duration,
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let mut outputs = read(&args.next().ok_or("which conversations?")?)?;
    let mut options = MaxGramTreeConfig {
        hints: 0,
        ..MaxGramTreeConfig::default()
    };
    let (mut table, mut chains) = (None, false);
    let mut nodes: Option<usize> = None;
    while let Some(flag) = args.next() {
        match flag.as_str() {
            "--table" => {
                let file = args.next().ok_or("which table?")?;
                table = Some(Arc::new(NgramTable::open_any(file)?));
            }
            "--no-session" => options.session_tokens = 0,
            "--no-learning" => options.learning_rate = 0.0,
            "--rate" => options.learning_rate = args.next().ok_or("which rate?")?.parse()?,
            "--nodes" => nodes = Some(args.next().ok_or("how many nodes?")?.parse()?),
            "--eos" => {
                let eos: u32 = args.next().ok_or("which token?")?.parse()?;
                for output in &mut outputs {
                    while output.tokens.last() == Some(&eos) {
                        output.tokens.pop();
                    }
                }
            }
            "--chains" => chains = true,
            _ => return Err(format!("unknown argument {flag}").into()),
        }
    }
    let sizes = match (nodes, chains) {
        (Some(nodes), _) => vec![nodes],
        (None, true) => vec![4, 8, 10, 16],
        (None, false) => vec![8, 16, 32, 64],
    };
    for nodes in sizes {
        let depth = if chains { nodes } else { 24.min(nodes - 1) };
        let budget = Budget { depth, nodes };
        let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
        let mut drafter = MaxGramTree::new(options.clone(), table.clone());
        for output in &outputs {
            let tally = replay(&mut drafter, output, budget);
            for key in ["(all)", &output.category] {
                tallies.entry(key).or_default().add(tally);
            }
        }
        println!("{} nodes, {} deep", budget.nodes, budget.depth);
        for (category, tally) in tallies {
            println!("  {category:<16} {tally}");
        }
    }
    Ok(())
}

fn replay(drafter: &mut MaxGramTree, output: &Output, budget: Budget) -> Tally {
    let mut tally = Tally::default();
    let mut at = output.start;
    drafter.set_source(&[]);
    while at < output.tokens.len() {
        let (context, said) = output.tokens.split_at(at);
        let began = Instant::now();
        let draft = drafter.propose(context, budget);
        tally.proposing += began.elapsed();
        let accepted = accepted(draft.tree(), said);
        let emitted = &said[..said.len().min(accepted.len() + 1)];
        let mut paths: Vec<f64> = Vec::new();
        for node in 0..draft.tree().len() {
            let above = draft
                .tree()
                .parent(node)
                .map_or(1.0, |parent| paths[parent]);
            paths.push(above * f64::from(draft.probability(node).unwrap_or_default()));
        }
        tally.expected += paths.iter().sum::<f64>();
        let argmax = vec![u32::MAX; draft.tree().len() + 1];
        let observation = Observation::new(context, draft.tree(), &accepted, emitted, &argmax);
        let began = Instant::now();
        drafter.observe(&observation);
        tally.observing += began.elapsed();
        tally.forwards += 1;
        tally.drafted += draft.tree().len();
        tally.emitted += emitted.len();
        at += emitted.len();
    }
    tally
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.emitted += other.emitted;
        self.forwards += other.forwards;
        self.drafted += other.drafted;
        self.expected += other.expected;
        self.proposing += other.proposing;
        self.observing += other.observing;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let per_forward = |count: f64| count / self.forwards as f64;
        write!(
            f,
            "{:>6} tokens / {:>6} forwards = {:.3} ({:.2} expected; {:.1} drafted, {:.1} µs, {:.1} µs to observe)",
            self.emitted,
            self.forwards,
            per_forward(self.emitted as f64),
            1.0 + per_forward(self.expected),
            per_forward(self.drafted as f64),
            1e6 * per_forward(self.proposing.as_secs_f64()),
            1e6 * per_forward(self.observing.as_secs_f64()),
        )
    }
}
