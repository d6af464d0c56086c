//! What the differences between Max-Gram as defined and as in the code of the paper's authors are
//! worth, replayed on recorded outputs: tokens per forward of the target (see
//! `docs/reproduce.md`).
//!
//! ```text
//! cargo run --release -p cascade-ngram --example authors_code -- \
//!     conversations.jsonl [--table table.safetensors]
//! ```
//!
//! The conversations are in the form that `tests/fixtures/make_vicuna_spec_bench.py` writes; each
//! output is replayed with all tokens before it as the prompt.

mod recorded;

use std::sync::Arc;

use cascade_core::{Budget, Drafter, TokenTree};
use cascade_ngram::{MaxGram, NgramTable};

use recorded::{Output, Result, Tally, read};

const USAGE: &str = "usage: authors_code CONVERSATIONS.jsonl [--table TABLE.safetensors]";
/// Tokens that the authors' code asks Max-Gram for, whatever the K matrix says.
const ASKED: usize = 10;

/// What follows the definition and what the authors' code.
#[derive(Clone, Copy)]
struct Variant {
    /// The prompt stands twice in the corpus, which the last token is not part of.
    doubled_corpus: bool,
    /// The second search is in the context alone, twice, and asks for a whole draft again.
    second_search: bool,
    /// Drafts are not cut to the tokens that were asked for.
    uncut: bool,
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let outputs = read(&args.next().ok_or(USAGE)?)?;
    let table = match (args.next().as_deref(), args.next()) {
        (None, None) => None,
        (Some("--table"), Some(file)) => Some(Arc::new(NgramTable::open_any(file)?)),
        _ => return Err(USAGE.into()),
    };
    for tokens in [ASKED, 3] {
        println!("{tokens} tokens asked for");
        report("as defined", &outputs, &mut defined(table.as_ref(), tokens));
        for (name, doubled_corpus, second_search, uncut) in [
            ("corpus as in the code", true, false, false),
            ("second search as in the code", false, true, false),
            ("both, cut to what was asked for", true, true, false),
            ("both, as many as the code drafts", true, true, true),
        ] {
            let variant = Variant {
                doubled_corpus,
                second_search,
                uncut,
            };
            let asked = if uncut { ASKED } else { tokens };
            report(name, &outputs, &mut |output, at| {
                variant.draft(output, at, asked, table.as_deref())
            });
        }
    }
    Ok(())
}

/// Max-Gram as this crate has it.
fn defined(
    table: Option<&Arc<NgramTable>>,
    tokens: usize,
) -> impl FnMut(&Output, usize) -> Vec<u32> {
    let mut drafter = match table {
        None => MaxGram::new(),
        Some(table) => MaxGram::new().with_bigram(Arc::clone(table)),
    };
    drafter.set_source(&[]);
    move |output, at| {
        let proposed = drafter.propose(&output.tokens[..at], Budget::chain(tokens));
        proposed.tree().tokens().collect()
    }
}

impl Variant {
    fn draft(
        self,
        output: &Output,
        at: usize,
        asked: usize,
        table: Option<&NgramTable>,
    ) -> Vec<u32> {
        let context = &output.tokens[..at];
        let mut draft = if self.doubled_corpus {
            let corpus = [&output.tokens[..output.start], &context[..at - 1]].concat();
            search(&corpus, context, asked)
        } else {
            search_own(context, asked)
        };
        if draft.len() < asked {
            let extended = [context, &draft].concat();
            let more = if self.second_search {
                let once = &extended[..extended.len() - 1];
                search(&[once, once].concat(), &extended, asked)
            } else if draft.is_empty() {
                Vec::new()
            } else {
                search_own(&extended, asked - draft.len())
            };
            draft.extend(more);
        }
        while let (Some(table), true) = (table, draft.len() < asked) {
            let last = draft.last().or(context.last()).copied();
            match last.and_then(|last| table.best(last)) {
                Some(next) => draft.push(next),
                None => break,
            }
        }
        if !self.uncut {
            draft.truncate(asked);
        }
        draft
    }
}

/// What follows the earliest occurrence in `corpus` of the longest suffix of `context`.
fn search(corpus: &[u32], context: &[u32], tokens: usize) -> Vec<u32> {
    let mut best = (0, 0);
    for end in 1..=corpus.len() {
        let pairs = corpus[..end].iter().rev().zip(context.iter().rev());
        let length = pairs.take_while(|(a, b)| a == b).count();
        if length > best.0 {
            best = (length, end);
        }
    }
    match best {
        (0, _) => Vec::new(),
        (_, end) => corpus[end..].iter().take(tokens).copied().collect(),
    }
}

/// The longest match in the context itself, before its end.
fn search_own(context: &[u32], tokens: usize) -> Vec<u32> {
    let mut best = (0, 0);
    for end in 1..context.len() {
        let pairs = context[..end].iter().rev().zip(context.iter().rev());
        let length = pairs.take_while(|(a, b)| a == b).count();
        if length > best.0 {
            best = (length, end);
        }
    }
    match best {
        (0, _) => Vec::new(),
        (_, end) => context[end..].iter().take(tokens).copied().collect(),
    }
}

fn report(name: &str, outputs: &[Output], draft: &mut dyn FnMut(&Output, usize) -> Vec<u32>) {
    let mut all = Tally::default();
    for output in outputs {
        all.add(Tally::of(output, |output, at| {
            TokenTree::chain(draft(output, at))
        }));
    }
    println!("  {name:<34} {all}");
}
