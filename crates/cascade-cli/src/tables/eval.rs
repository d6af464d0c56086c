//! `cascade bigram eval`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use cascade_ngram::NgramTable;
use cascade_traces::ngram::{budgets, Drafted, TableAlone, TableReport, TableValue, CHAIN, TREES};
use cascade_traces::trace::Traces;
use clap::Args;

use super::traces::{describe, TraceArgs};
use super::tree::{open, weights};
use crate::exit::ExitCode;
use crate::progress::Progress;
use crate::{interrupt, terminal};

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

pub(super) fn run(args: &EvalArgs) -> Result<ExitCode> {
    let traces = args.trace.open()?;
    let tokenizer = traces.tokenizer();
    let tables: Vec<Arc<NgramTable>> = args
        .tables
        .iter()
        .map(|table| open(table, &tokenizer))
        .collect::<Result<_>>()?;
    let weights = args.weights.as_deref().map(weights).transpose()?;
    let value = TableValue {
        traces: &traces,
        tables: &tables,
        weights: weights.as_ref(),
        session_tokens: args.session_tokens,
    };
    interrupt::cooperate();
    let mut progress = Progress::new(value.count(), "replays");
    let report = value.run(|| {
        progress.step();
        interrupt::unless_requested()
    });
    drop(progress);
    let Some(report) = report else {
        return Ok(interrupt::status());
    };
    if args.json {
        terminal::write_json(&mut terminal::stdout(), &report)?
    } else {
        print(&traces, &report)?
    }
    Ok(ExitCode::SUCCESS)
}

fn print(traces: &Traces, report: &TableReport) -> Result<()> {
    let mut out = terminal::stdout();
    writeln!(out, "{}\n", describe(traces))?;
    print_alone(&mut out, &report.tables)?;
    print_lengths(&mut out, &report.tokens_per_forward)?;
    writeln!(
        out,
        "\nknown: the table knows the last token, or the last two; chains of {CHAIN} tokens, trees of \
         {TREES:?} nodes; times are not measured"
    )?;
    Ok(())
}

fn print_alone(out: &mut impl Write, tables: &[TableAlone]) -> Result<()> {
    writeln!(
        out,
        "{:>5} {:>12} {:>13} {:>7} {:>7} {:>7} {:>11}   the table alone, of the next token",
        "order", "known token", "known 2", "top 1", "top 8", "top 16", "nats/token"
    )?;
    for alone in tables {
        let next = &alone.next;
        let percent = |number: usize| format!("{:.1}%", 100.0 * next.share(number));
        let pairs = match alone.order {
            1 => "-".to_owned(),
            _ => percent(next.after_known_pair),
        };
        writeln!(
            out,
            "{:>5} {:>12} {pairs:>13} {:>7} {:>7} {:>7} {:>11.3}   {}",
            alone.order,
            percent(next.after_known_token),
            percent(next.top_1),
            percent(next.top_8),
            percent(next.top_16),
            next.nats_per_token(),
            alone.table
        )?;
    }
    Ok(())
}

fn print_lengths(out: &mut impl Write, drafters: &[Drafted]) -> Result<()> {
    let names: String = budgets()
        .iter()
        .map(|(name, _)| format!("{name:>10}"))
        .collect();
    writeln!(out, "\n{names}   tokens per forward")?;
    for drafted in drafters {
        let lengths: String = drafted
            .budgets
            .iter()
            .map(|(all, _)| format!("{:>10.3}", all.tokens_per_forward()))
            .collect();
        writeln!(out, "{lengths}   {}", drafted.drafter)?;
    }
    Ok(())
}
