//! How many tokens a target forward gives when recorded outputs are drafted by Max-Gram and by prompt lookup.
//!
//! ```text
//! cargo run --release -p cascade-ngram --example replay -- conversations.jsonl [table.safetensors]
//! ```
//!
//! The conversations are in the form that `tests/fixtures/make_vicuna_spec_bench.py` writes. Each output is replayed:
//! a draft of at most 10 tokens is compared with what the model said, the common prefix and one token more are emitted,
//! and that was one forward. Mean acceptance length is emitted tokens by forwards.

use std::{collections::BTreeMap, error::Error, fs, sync::Arc};

use cascade_core::Drafter;
use cascade_ngram::{Bigram, BigramTable, MaxGram, MaxGramOptions, Occurrence, PromptLookup};
use serde_json::Value;

const BUDGET: usize = 10;

struct Conversation {
    category: String,
    tokens: Vec<u32>,
    outputs: Vec<(usize, usize)>,
}

#[derive(Clone, Copy, Default)]
struct Tally {
    emitted: usize,
    forwards: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args
        .next()
        .ok_or("usage: replay CONVERSATIONS.jsonl [TABLE.safetensors]")?;
    let conversations = fs::read_to_string(path)?
        .lines()
        .map(parse)
        .collect::<Option<Vec<_>>>()
        .ok_or("not conversations: `category`, `tokens`, `outputs` are needed in each line")?;
    let latest = MaxGramOptions {
        occurrence: Occurrence::Latest,
        ..MaxGramOptions::default()
    };
    let mut drafters: Vec<(&str, Box<dyn Drafter>)> = vec![
        ("Prompt lookup, n ≤ 3", Box::new(PromptLookup::default())),
        ("Max-Gram", Box::new(MaxGram::new())),
        (
            "Max-Gram, latest",
            Box::new(MaxGram::new().with_options(latest)),
        ),
    ];
    if let Some(path) = args.next() {
        let table = Arc::new(BigramTable::open_any(path)?);
        let both = MaxGram::new().with_bigram(Arc::clone(&table));
        drafters.push(("Max-Gram and bigrams", Box::new(both)));
        drafters.push(("Bigrams", Box::new(Bigram::new(table))));
    }
    for (name, drafter) in &mut drafters {
        let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
        for conversation in &conversations {
            let tally = replay(drafter.as_mut(), conversation);
            for key in ["(all)", &conversation.category] {
                let sum = tallies.entry(key).or_default();
                sum.emitted += tally.emitted;
                sum.forwards += tally.forwards;
            }
        }
        println!("{name}");
        for (category, Tally { emitted, forwards }) in tallies {
            let mean = emitted as f64 / forwards as f64;
            println!("  {category:<16} {emitted:>6} tokens / {forwards:>6} forwards = {mean:.3}");
        }
    }
    Ok(())
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

fn replay(drafter: &mut dyn Drafter, conversation: &Conversation) -> Tally {
    let mut tally = Tally::default();
    drafter.begin(&[]);
    for &(start, end) in &conversation.outputs {
        let mut at = start;
        while at < end {
            let draft = drafter.propose(&conversation.tokens[..at], BUDGET);
            let accepted = draft
                .tokens()
                .zip(&conversation.tokens[at..end])
                .take_while(|(guess, said)| guess == *said)
                .count();
            at = end.min(at + accepted + 1);
            tally.forwards += 1;
        }
        tally.emitted += end - start;
    }
    tally
}
