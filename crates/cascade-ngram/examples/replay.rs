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

use std::{collections::BTreeMap, error::Error, fs, sync::Arc};

use cascade_core::{Budget, Drafter, TokenTree};
use cascade_ngram::{Bigram, MaxGram, MaxGramConfig, NgramTable, Occurrence, PromptLookup};
use serde_json::Value;

const DEPTH: usize = 10;
const USAGE: &str = "usage: replay CONVERSATIONS.jsonl [--table TABLE.safetensors] \
                     [--branches N,… --nodes N,…] [--width N]";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Args {
    conversations: String,
    table: Option<Arc<NgramTable>>,
    branches: Vec<usize>,
    nodes: Vec<usize>,
    width: usize,
}

struct Conversation {
    category: String,
    tokens: Vec<u32>,
    outputs: Vec<(usize, usize)>,
}

#[derive(Clone, Copy, Default)]
struct Tally {
    emitted: usize,
    forwards: usize,
    drafted: usize,
}

fn main() -> Result<()> {
    let args = Args::parse()?;
    let conversations = fs::read_to_string(&args.conversations)?
        .lines()
        .map(parse)
        .collect::<Option<Vec<_>>>()
        .ok_or("not conversations: `category`, `tokens`, `outputs` are needed in each line")?;
    for (name, drafter) in &mut drafters(args.table.as_ref(), 1, 1) {
        println!("{name}");
        print_categories(drafter.as_mut(), &conversations);
    }
    for &branches in &args.branches {
        for (name, drafter) in &mut drafters(args.table.as_ref(), branches, args.width) {
            println!("{name}, branches {branches}, width {}", args.width);
            for &nodes in &args.nodes {
                let budget = Budget {
                    depth: DEPTH,
                    nodes,
                };
                let all = replay_all(drafter.as_mut(), &conversations, budget);
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

fn parse(line: &str) -> Option<Conversation> {
    let value: Value = serde_json::from_str(line).ok()?;
    let number = |value: &Value| Some(value.as_u64()? as usize);
    Some(Conversation {
        category: value["category"].as_str()?.to_owned(),
        tokens: value["tokens"]
            .as_array()?
            .iter()
            .map(|token| Some(number(token)? as u32))
            .collect::<Option<_>>()?,
        outputs: value["outputs"]
            .as_array()?
            .iter()
            .map(|range| Some((number(&range[0])?, number(&range[1])?)))
            .collect::<Option<_>>()?,
    })
}

fn print_categories(drafter: &mut dyn Drafter, conversations: &[Conversation]) {
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    for conversation in conversations {
        let tally = replay(drafter, conversation, Budget::chain(DEPTH));
        for key in ["(all)", &conversation.category] {
            tallies.entry(key).or_default().add(tally);
        }
    }
    for (category, tally) in tallies {
        println!("  {category:<16} {tally}");
    }
}

fn replay_all(drafter: &mut dyn Drafter, conversations: &[Conversation], budget: Budget) -> Tally {
    let mut all = Tally::default();
    for conversation in conversations {
        all.add(replay(drafter, conversation, budget));
    }
    all
}

fn replay(drafter: &mut dyn Drafter, conversation: &Conversation, budget: Budget) -> Tally {
    let mut tally = Tally::default();
    drafter.set_source(&[]);
    for &(start, end) in &conversation.outputs {
        let mut at = start;
        while at < end {
            let draft = drafter
                .propose(&conversation.tokens[..at], budget)
                .into_tree();
            at = end.min(at + accepted(&draft, &conversation.tokens[at..end]) + 1);
            tally.forwards += 1;
            tally.drafted += draft.len();
        }
        tally.emitted += end - start;
    }
    tally
}

/// Length of the longest path from the root that begins `said`. Siblings differ, so there is one
/// path to follow.
fn accepted(draft: &TokenTree, said: &[u32]) -> usize {
    let mut node = None;
    said.iter()
        .take_while(|&&token| {
            let next = draft.child(node, token);
            node = next.or(node);
            next.is_some()
        })
        .count()
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.emitted += other.emitted;
        self.forwards += other.forwards;
        self.drafted += other.drafted;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            emitted,
            forwards,
            drafted,
        } = *self;
        let per_forward = |count: usize| count as f64 / forwards as f64;
        write!(
            f,
            "{emitted:>6} tokens / {forwards:>6} forwards = {:.3}  ({:.1} drafted each)",
            per_forward(emitted),
            per_forward(drafted)
        )
    }
}
