//! `cascade bigram build`, `count` and `reduce`.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{bail, Result};
use cascade_bigram::{Error, Job, Memory, Reduction, Status, Summary};
use cascade_corpus::Skip;
use cascade_ngram::BigramTable;

use super::args::{BuildArgs, CountArgs, InputArgs, ReduceArgs, TableArgs};
use super::{grouped, progress, tokenizer};

/// Bad pages reported individually.
const REPORTED: usize = 10;

pub(super) fn build(args: &BuildArgs) -> Result<()> {
    check(&args.table)?;
    let command = format!("build {}{}", on_record(&args.input), options(&args.table));
    let TableArgs {
        out,
        top_k,
        min_count,
    } = &args.table;
    let begin = Instant::now();
    let status = Status::default();
    let (table, summary) = counted(&args.input, out, &command, &status, |job| {
        cascade_bigram::build(job, *top_k, *min_count)
    })?;
    report_reading(&status, &summary)?;
    report_counts(&status, &summary, begin)?;
    report_table(out, &table)
}

pub(super) fn count(args: &CountArgs) -> Result<()> {
    let command = format!("count {}", on_record(&args.input));
    let begin = Instant::now();
    let status = Status::default();
    let summary = counted(
        &args.input,
        &args.out,
        &command,
        &status,
        cascade_bigram::count,
    )?;
    report_reading(&status, &summary)?;
    report_counts(&status, &summary, begin)?;
    let size = std::fs::metadata(&args.out)?.len();
    say(&format!("{}: {} bytes", args.out.display(), grouped(size)))
}

pub(super) fn reduce(args: &ReduceArgs) -> Result<()> {
    check(&args.table)?;
    let command = format!(
        "cascade bigram reduce {}{}",
        names(&args.parts),
        options(&args.table)
    );
    let begin = Instant::now();
    let (table, summary) = cascade_bigram::reduce(&Reduction {
        parts: &args.parts,
        summed: &args.summed,
        output: &args.table.out,
        top_k: args.table.top_k,
        min_count: args.table.min_count,
        command: &command,
    })?;
    report_counts(&Status::default(), &summary, begin)?;
    report_table(&args.table.out, &table)
}

fn check(table: &TableArgs) -> Result<()> {
    if table.top_k == 0 {
        bail!("--top-k 0 would keep no successors; give at least 1");
    }
    Ok(())
}

/// Runs a job with the given tokenizer and limits.
fn counted<T: Send>(
    args: &InputArgs,
    output: &Path,
    command: &str,
    status: &Status,
    work: impl FnOnce(&Job<'_>) -> cascade_bigram::Result<T> + Send,
) -> Result<T> {
    let tokenizer = tokenizer::load(&args.tokenizer)?;
    let command = format!("cascade bigram {command}");
    let job = Job {
        inputs: &args.inputs,
        output,
        encode: &|text| Ok(tokenizer.encode_plain(text)?),
        fingerprint: &tokenizer.fingerprint(),
        vocab_size: tokenizer.id_bound(),
        limit_pages: args.limit_pages,
        memory: Memory::Process(args.memory),
        threads: args.threads.unwrap_or_else(cpus),
        checkpoint: args.checkpoint,
        resume: args.resume,
        command: &command,
        status,
    };
    let result = progress::shown(status, || work(&job));
    result.map_err(|error| {
        let hint = hint(&error, output);
        anyhow::Error::from(error).context(hint)
    })
}

/// The message of an error, with advice on resuming if there is a checkpoint.
fn hint(error: &Error, output: &Path) -> String {
    let message = error.to_string();
    let mut folder = output.as_os_str().to_owned();
    folder.push(".checkpoint");
    let folder = PathBuf::from(folder);
    // These messages already contain advice.
    let has_advice = matches!(
        error,
        Error::Unfinished { .. }
            | Error::OtherCommand { .. }
            | Error::ChangedInputs { .. }
            | Error::Busy { .. }
            | Error::Damaged { .. }
            | Error::Output { .. }
    );
    if has_advice || !folder.join("manifest.json").exists() {
        return message;
    }
    format!(
        "{message} (counts so far are kept in {}; fix the cause, then continue with --resume)",
        folder.display()
    )
}

fn cpus() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// The part of the command that determines the counts.
fn on_record(args: &InputArgs) -> String {
    let mut text = names(&args.inputs);
    text += &format!(" --tokenizer {}", tokenizer::on_record(&args.tokenizer));
    if let Some(limit) = args.limit_pages {
        text += &format!(" --limit-pages {limit}");
    }
    text
}

fn options(args: &TableArgs) -> String {
    format!(" --top-k {} --min-count {}", args.top_k, args.min_count)
}

/// File names without their folders, sorted.
fn names(paths: &[PathBuf]) -> String {
    let mut names: Vec<String> = paths
        .iter()
        .map(|path| {
            path.file_name()
                .unwrap_or(path.as_os_str())
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names.join(" ")
}

fn say(line: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{line}")?;
    Ok(())
}

/// Reports pages and documents, and what was skipped and why.
fn report_reading(status: &Status, summary: &Summary) -> Result<()> {
    let Some(reading) = status.reading() else {
        return Ok(());
    };
    let mut line = format!(
        "{} bytes, {} pages, {} documents",
        grouped(reading.bytes_read()),
        grouped(reading.pages()),
        grouped(summary.documents)
    );
    for reason in Skip::ALL {
        let skipped = reading.skipped(reason);
        if skipped > 0 {
            line += &format!("; {} skipped: {reason}", grouped(skipped));
        }
    }
    say(&line)?;
    for page in reading.bad_pages().iter().take(REPORTED) {
        eprintln!("warning: {page}");
    }
    if let Some(bad) = &summary.bad_line {
        let lines = grouped(summary.bad_lines);
        eprintln!("warning: {lines} lines are not documents; the first: {bad}");
    }
    Ok(())
}

fn report_counts(status: &Status, summary: &Summary, begin: Instant) -> Result<()> {
    let seconds = begin.elapsed().as_secs_f64();
    let counted = summary.tokens.saturating_sub(status.resumed());
    say(&format!(
        "{} tokens, {} bigrams, {} different ones, in {seconds:.1} s ({} tokens/s)",
        grouped(summary.tokens),
        grouped(summary.bigrams),
        grouped(summary.distinct),
        grouped((counted as f64 / seconds.max(1e-3)) as u64)
    ))
}

fn report_table(path: &Path, table: &BigramTable) -> Result<()> {
    say(&format!(
        "{}: {} bytes, {} pairs kept for {} tokens",
        path.display(),
        grouped(table.as_bytes().len() as u64),
        grouped(table.pairs() as u64),
        grouped(table.vocab_size() as u64)
    ))
}
