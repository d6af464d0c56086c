//! How many tokens a target forward gives when recorded outputs are drafted by Max-Gram and by
//! prompt lookup.
//!
//! ```text
//! cargo run --release -p cascade-ngram --example replay -- \
//!     conversations.jsonl [--table table.safetensors]
//!     [--branches 2,4,8 --nodes 16,32,64] [--width 1]
//! ```
//!
//! The conversations are in the form that `tests/fixtures/make_vicuna_spec_bench.py` writes. Each
//! output is replayed: a draft of at most 10 tokens is compared with what the model said, the
//! common prefix and one token more are emitted, and that was one forward. Mean acceptance length
//! is emitted tokens by forwards. Of a tree, the longest path from its root that the model said
//! counts.
//!
//! Chains come first, by category. Then come the trees, for each number of branches and of nodes; a
//! width above 1 lets what comes from the bigram table branch, too.

mod recorded;

use std::collections::BTreeMap;
use std::sync::Arc;

use cascade_core::{Budget, Drafter};
use cascade_ngram::{Bigram, MaxGram, MaxGramConfig, NgramTable, Occurrence, PromptLookup};

use recorded::{Output, Result, Tally, read};

const DEPTH: usize = 10;
const USAGE: &str = "usage: replay CONVERSATIONS.jsonl [--table TABLE.safetensors] \
                     [--branches N,… --nodes N,…] [--width N]";

struct Args {
    conversations: String,
    table: Option<Arc<NgramTable>>,
    branches: Vec<usize>,
    nodes: Vec<usize>,
    width: usize,
}

fn main() -> Result<()> {
    let args = Args::parse()?;
    let outputs = read(&args.conversations)?;
    for (name, drafter) in &mut drafters(args.table.as_ref(), 1, 1) {
        println!("{name}");
        print_categories(drafter.as_mut(), &outputs);
    }
    for &branches in &args.branches {
        for (name, drafter) in &mut drafters(args.table.as_ref(), branches, args.width) {
            println!("{name}, branches {branches}, width {}", args.width);
            for &nodes in &args.nodes {
                let budget = Budget {
                    depth: DEPTH,
                    nodes,
                };
                let all = replay_all(drafter.as_mut(), &outputs, budget);
                println!("  {:<16} {all}", format!("{nodes} nodes"));
            }
        }
    }
    Ok(())
}

impl Args {
    fn parse() -> Result<Self> {
        let mut args = std::env::args().skip(1);
        let mut parsed = Self {
            conversations: args.next().ok_or(USAGE)?,
            table: None,
            branches: Vec::new(),
            nodes: Vec::new(),
            width: 1,
        };
        while let Some(flag) = args.next() {
            let value = args.next().ok_or(USAGE)?;
            match flag.as_str() {
                "--table" => parsed.table = Some(Arc::new(NgramTable::open_any(value)?)),
                "--branches" => parsed.branches = numbers(&value)?,
                "--nodes" => parsed.nodes = numbers(&value)?,
                "--width" => parsed.width = value.parse()?,
                _ => return Err(USAGE.into()),
            }
        }
        if parsed.branches.is_empty() != parsed.nodes.is_empty() {
            return Err(USAGE.into());
        }
        Ok(parsed)
    }
}

fn numbers(list: &str) -> Result<Vec<usize>> {
    Ok(list
        .split(',')
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?)
}

fn drafters(
    table: Option<&Arc<NgramTable>>,
    branches: usize,
    width: usize,
) -> Vec<(&'static str, Box<dyn Drafter>)> {
    let earliest = MaxGramConfig {
        branches,
        width,
        ..MaxGramConfig::default()
    };
    let latest = MaxGramConfig {
        occurrence: Occurrence::Latest,
        ..earliest.clone()
    };
    let max_gram = MaxGram::new().with_options(earliest);
    let lookup = PromptLookup::default().with_branches(branches);
    let mut drafters: Vec<(&str, Box<dyn Drafter>)> = vec![
        ("Prompt lookup, n ≤ 3", Box::new(lookup)),
        ("Max-Gram", Box::new(max_gram.clone())),
        (
            "Max-Gram, latest",
            Box::new(max_gram.clone().with_options(latest)),
        ),
    ];
    if let Some(table) = table {
        let both = max_gram.with_bigram(Arc::clone(table));
        let alone = Bigram::new(Arc::clone(table)).with_width(width);
        drafters.push(("Max-Gram and bigrams", Box::new(both)));
        drafters.push(("Bigrams", Box::new(alone)));
    }
    drafters
}

fn print_categories(drafter: &mut dyn Drafter, outputs: &[Output]) {
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    for output in outputs {
        let tally = replay(drafter, output, Budget::chain(DEPTH));
        for key in ["(all)", &output.category] {
            tallies.entry(key).or_default().add(tally);
        }
    }
    for (category, tally) in tallies {
        println!("  {category:<16} {tally}");
    }
}

fn replay_all(drafter: &mut dyn Drafter, outputs: &[Output], budget: Budget) -> Tally {
    let mut all = Tally::default();
    for output in outputs {
        all.add(replay(drafter, output, budget));
    }
    all
}

fn replay(drafter: &mut dyn Drafter, output: &Output, budget: Budget) -> Tally {
    drafter.set_source(&[]);
    Tally::of(output, |output, at| {
        drafter.propose(&output.tokens[..at], budget).into_tree()
    })
}
