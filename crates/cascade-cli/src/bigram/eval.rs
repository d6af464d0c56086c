//! `cascade bigram eval`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use cascade_core::{Budget, Drafter};
use cascade_eval::ngram::{Forwards, NextTokens, TableDrafter};
use cascade_ngram::{MaxGramTree, MaxGramTreeOptions, NgramTable};
use clap::Args;
use serde_json::{json, Value};

use crate::ngram::traces::{TraceArgs, Traces};
use crate::progress::Progress;
use crate::{interrupt, ngram, terminal};

#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    trace: TraceArgs,

    /// The tables: bigram tables or n-gram tables, files or embedded:NAME.
    #[arg(value_name = "TABLE", required = true)]
    tables: Vec<String>,

    /// Weights of the Max-Gram tree [default: the shipped ones].
    #[arg(long, value_name = "FILE.json")]
    weights: Option<PathBuf>,

    /// Tokens of earlier outputs that the Max-Gram tree keeps to draft from; 0 keeps none.
    #[arg(long, value_name = "N", default_value_t = 0)]
    session_tokens: usize,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

/// Drafts that are tried, by name.
const CHAIN: usize = 10;
const TREES: [usize; 4] = [8, 16, 32, 64];

fn budgets() -> Vec<(String, Budget)> {
    let chain = (format!("chain {CHAIN}"), Budget::chain(CHAIN));
    let trees = TREES.map(|nodes| (format!("tree {nodes}"), ngram::tree(nodes)));
    std::iter::once(chain).chain(trees).collect()
}

/// Tokens per forward of one drafter: for each budget, of all records and by category.
struct Drafted {
    name: String,
    budgets: Vec<(Forwards, BTreeMap<String, Forwards>)>,
}

pub(super) fn run(args: &EvalArgs) -> Result<ExitCode> {
    let traces = Traces::open(&args.trace)?;
    let tokenizer = traces.tokenizer();
    let tables = args
        .tables
        .iter()
        .map(|table| ngram::open(table, &tokenizer));
    let tables: Vec<Arc<NgramTable>> = tables.collect::<Result<_>>()?;
    let weights = args.weights.as_deref().map(ngram::weights).transpose()?;
    let tree = |table: Option<&Arc<NgramTable>>| -> Box<dyn Drafter> {
        let options = MaxGramTreeOptions {
            session_tokens: args.session_tokens,
            hints: 0,
            learning_rate: 0.0,
            ..MaxGramTreeOptions::default()
        };
        let drafter = MaxGramTree::new(options, table.cloned());
        Box::new(match &weights {
            Some(weights) => drafter.with_weights(weights.clone()),
            None => drafter,
        })
    };
    // For each name, how its drafters begin.
    type Begin<'a> = Box<dyn Fn() -> Box<dyn Drafter> + 'a>;
    let mut drafters: Vec<(String, Begin<'_>)> = Vec::new();
    for table in &tables {
        let begin = move || -> Box<dyn Drafter> { Box::new(TableDrafter::new(Arc::clone(table))) };
        drafters.push((format!("{} alone", table.file()), Box::new(begin)));
    }
    drafters.push(("Max-Gram tree".to_owned(), Box::new(|| tree(None))));
    for table in &tables {
        let begin = || tree(Some(table));
        drafters.push((
            format!("Max-Gram tree with {}", table.file()),
            Box::new(begin),
        ));
    }

    let steps = drafters.len() * budgets().len() * traces.records().count();
    let mut progress = Progress::new(steps, "replays");
    let mut results = Vec::new();
    interrupt::cooperate();
    for (name, begin) in drafters {
        let mut drafted = Drafted {
            name,
            budgets: Vec::new(),
        };
        for (_, budget) in budgets() {
            let Some(sums) = replay(&traces, begin().as_mut(), budget, &mut progress) else {
                return Ok(interrupt::status());
            };
            drafted.budgets.push(sums);
        }
        results.push(drafted);
    }
    drop(progress);
    let next: Vec<NextTokens> = tables
        .iter()
        .map(|table| NextTokens::of(table, traces.records()))
        .collect();
    match args.json {
        true => writeln!(
            terminal::stdout(),
            "{}",
            object(&traces, &tables, &next, &results)
        )?,
        false => print(&traces, &tables, &next, &results)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The sum over all records, and by category; `None` after Ctrl-C.
fn replay(
    traces: &Traces,
    drafter: &mut dyn Drafter,
    budget: Budget,
    progress: &mut Progress,
) -> Option<(Forwards, BTreeMap<String, Forwards>)> {
    let mut all = Forwards::default();
    let mut categories: BTreeMap<String, Forwards> = BTreeMap::new();
    for record in traces.records() {
        if interrupt::requested() {
            return None;
        }
        let forwards = Forwards::of(drafter, record, budget);
        all += forwards;
        if let Some(category) = &record.category {
            *categories.entry(category.clone()).or_default() += forwards;
        }
        progress.step();
    }
    Some((all, categories))
}

fn print(
    traces: &Traces,
    tables: &[Arc<NgramTable>],
    next: &[NextTokens],
    results: &[Drafted],
) -> Result<()> {
    let mut out = terminal::stdout();
    writeln!(out, "{}\n", traces.describe())?;
    writeln!(
        out,
        "{:>5} {:>12} {:>13} {:>7} {:>7} {:>7} {:>11}   the table alone, of the next token",
        "order", "known token", "known 2", "top 1", "top 8", "top 16", "nats/token"
    )?;
    for (table, next) in tables.iter().zip(next) {
        let percent = |number: usize| format!("{:.1}%", 100.0 * next.share(number));
        let pairs = match table.order() {
            1 => "-".to_owned(),
            _ => percent(next.after_known_pair),
        };
        writeln!(
            out,
            "{:>5} {:>12} {pairs:>13} {:>7} {:>7} {:>7} {:>11.3}   {}",
            table.order(),
            percent(next.after_known_token),
            percent(next.top_1),
            percent(next.top_8),
            percent(next.top_16),
            next.nats_per_token(),
            table.file()
        )?;
    }
    let names: String = budgets()
        .iter()
        .map(|(name, _)| format!("{name:>10}"))
        .collect();
    writeln!(out, "\n{names}   tokens per forward")?;
    for drafted in results {
        let lengths = drafted
            .budgets
            .iter()
            .map(|(all, _)| all.tokens_per_forward());
        let lengths: String = lengths.map(|length| format!("{length:>10.3}")).collect();
        writeln!(out, "{lengths}   {}", drafted.name)?;
    }
    writeln!(
        out,
        "\nknown: the table knows the last token, or the last two; chains of {CHAIN} tokens, trees of \
         {TREES:?} nodes; times are not measured"
    )?;
    Ok(())
}

fn object(
    traces: &Traces,
    tables: &[Arc<NgramTable>],
    next: &[NextTokens],
    results: &[Drafted],
) -> Value {
    let tables = tables.iter().zip(next).map(|(table, next)| {
        json!({
            "table": table.file(),
            "order": table.order(),
            "bytes": table.as_bytes().len(),
            "after_known_token": next.share(next.after_known_token),
            "after_known_pair": next.share(next.after_known_pair),
            "top_1": next.share(next.top_1),
            "top_8": next.share(next.top_8),
            "top_16": next.share(next.top_16),
            "nats_per_token": next.nats_per_token(),
        })
    });
    let forwards = |forwards: &Forwards| {
        json!({
            "tokens": forwards.tokens,
            "forwards": forwards.forwards,
            "drafted": forwards.drafted,
            "accepted": forwards.accepted,
            "tokens_per_forward": forwards.tokens_per_forward(),
        })
    };
    let drafters = results.iter().map(|drafted| {
        let budgets = budgets().into_iter().zip(&drafted.budgets);
        let budgets = budgets.map(|((name, _), (all, categories))| {
            let categories = categories
                .iter()
                .map(|(name, of)| (name.clone(), forwards(of)));
            let mut object = forwards(all);
            object["categories"] = categories.collect();
            (name, object)
        });
        json!({ "drafter": drafted.name, "budgets": budgets.collect::<Value>() })
    });
    json!({
        "replayed": traces.labels(),
        "records": traces.records().count(),
        "tables": tables.collect::<Value>(),
        "tokens_per_forward": drafters.collect::<Value>(),
    })
}
