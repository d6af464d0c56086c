//! `cascade-lab bigram build`, `count` and `reduce`.

use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{bail, Result};
use cascade_bigram::{Error, ErrorKind, Job, Memory, Reduction, Status, Summary};
use cascade_core::fs::{Existing, Output};
use cascade_core::Fingerprint;
use cascade_corpus::Skip;
use cascade_ngram::{BigramTable, NgramLimits};

use super::args::{BuildArgs, CountArgs, InputArgs, ReduceArgs, TableArgs};
use super::progress;
use crate::terminal::{self, grouped};
use crate::{interrupt, outputs, tokenizer};

/// Bad pages reported individually.
const REPORTED: usize = 10;

pub(super) fn build(args: &BuildArgs, threads: Option<usize>) -> Result<()> {
    check(&args.table)?;
    if args.order > 1 {
        return build_ngrams(args, threads);
    }
    let command = format!("build {}{}", on_record(&args.input), options(&args.table));
    let TableArgs {
        out,
        top_k,
        min_count,
        force,
    } = &args.table;
    let place = Place { out, force: *force };
    let counting = Counting::new(&args.input, place, &command, threads);
    let counted = counting.run(|job| cascade_bigram::build(job, *top_k, *min_count))?;
    let Some((table, summary)) = counted else {
        return Ok(());
    };
    counting.report(&summary)?;
    report_table(out, &table)
}

fn build_ngrams(args: &BuildArgs, threads: Option<usize>) -> Result<()> {
    let BuildArgs {
        input,
        table,
        order,
        min_context,
    } = args;
    let TableArgs { out, top_k, .. } = table;
    if *top_k > 255 {
        bail!("--top-k {top_k} is more than an n-gram table holds; give at most 255");
    }
    let command = format!(
        "build {}{} --order {order} --min-context {min_context}",
        on_record(input),
        options(table)
    );
    let force = table.force;
    let limits = NgramLimits {
        top_k: *top_k,
        min_count: table.min_count,
        min_context: *min_context,
    };
    let counting = Counting::new(input, Place { out, force }, &command, threads);
    let counted = counting.run(|job| cascade_bigram::build_ngrams(job, (*order).into(), limits))?;
    let Some((made, summary)) = counted else {
        return Ok(());
    };
    counting.report(&summary)?;
    say(&format!(
        "{}: {} bytes, {} continuations kept of {} tokens and {} pairs",
        out.display(),
        grouped(made.as_bytes().len() as u64),
        grouped(made.continuations() as u64),
        grouped(made.vocab_size() as u64),
        grouped(made.pairs() as u64)
    ))
}

pub(super) fn count(args: &CountArgs, threads: Option<usize>) -> Result<()> {
    let command = format!("count {}", on_record(&args.input));
    let place = Place {
        out: &args.out,
        force: args.force,
    };
    let counting = Counting::new(&args.input, place, &command, threads);
    let Some(summary) = counting.run(cascade_bigram::count)? else {
        return Ok(());
    };
    counting.report(&summary)?;
    let size = std::fs::metadata(&args.out)?.len();
    say(&format!("{}: {} bytes", args.out.display(), grouped(size)))
}

pub(super) fn reduce(args: &ReduceArgs) -> Result<()> {
    check(&args.table)?;
    let existing = Existing::replaced_if(args.table.force);
    let inputs = args.parts.iter().chain(&args.summed);
    let output = outputs::check(&args.table.out, existing, inputs)?;
    let command = format!(
        "cascade bigram reduce {}{}",
        names(&args.parts),
        options(&args.table)
    );
    let begin = Instant::now();
    let (table, summary) = cascade_bigram::reduce(&Reduction {
        parts: &args.parts,
        summed: &args.summed,
        output: &output,
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

/// Where the result is to be written.
#[derive(Clone, Copy)]
struct Place<'a> {
    out: &'a Path,
    force: bool,
}

impl Place<'_> {
    fn check(self, args: &InputArgs, existing: Existing) -> Result<Output> {
        let inputs = tokenizer::files(&args.tokenizer);
        let inputs = args.inputs.iter().cloned().chain(inputs);
        Ok(outputs::check(self.out, existing, inputs)?)
    }

    /// The output that is to be written; `None` if a resumed job was finished already.
    fn resumed(self, args: &InputArgs, made: &dyn Fn(&Path) -> bool) -> Result<Option<Output>> {
        // Whatever is there, it is no input.
        let output = self.check(args, Existing::Continue)?;
        if self.force || !output.path().exists() || !made(self.out) {
            return self
                .check(args, Existing::replaced_if(self.force))
                .map(Some);
        }
        // A job that was killed just before it would have removed its checkpoint.
        Ok(checkpoint(self.out).exists().then_some(output))
    }
}

/// Warns of a file of text that begins as pages of Wikipedia do before their markup is removed: it
/// would be counted as text.
fn warn_of_markup(file: &Path) {
    const TOP: u64 = 16 << 10;
    let mut top = Vec::new();
    let opened = cascade_core::fs::check_file(file).and_then(|_| std::fs::File::open(file));
    if opened
        .and_then(|file| file.take(TOP).read_to_end(&mut top))
        .is_err()
    {
        return;
    }
    let top = String::from_utf8_lossy(&top);
    if is_wikitext(&top) {
        terminal::warn(format_args!(
            "{} begins with wikitext ([[…]], {{{{…}}}}), whose markup is counted as text; give the dump itself \
             (XML, also compressed), from which it is removed",
            file.display()
        ));
    }
}

fn is_wikitext(top: &str) -> bool {
    let has = |pair: [&str; 2]| pair.iter().all(|part| top.contains(part));
    let is_other = top.trim_start().starts_with(['<', '{']) && !top.trim_start().starts_with("{{");
    !is_other
        && has(["[[", "]]"])
        && (has(["{{", "}}"]) || top.contains("'''") || top.contains("\n=="))
}

/// A job over texts, with the given tokenizer and limits.
struct Counting<'a> {
    args: &'a InputArgs,
    place: Place<'a>,
    command: String,
    threads: Option<usize>,
    begin: Instant,
    status: Arc<Status>,
}

impl<'a> Counting<'a> {
    fn new(args: &'a InputArgs, place: Place<'a>, command: &str, threads: Option<usize>) -> Self {
        Self {
            args,
            place,
            command: format!("cascade bigram {command}"),
            threads,
            begin: Instant::now(),
            status: Arc::default(),
        }
    }

    /// Runs it, unless it is resumed and was finished.
    fn run<T: Send>(
        &self,
        work: impl FnOnce(&Job<'_>) -> cascade_bigram::Result<T> + Send,
    ) -> Result<Option<T>> {
        let (args, place) = (self.args, self.place);
        // Before a tokenizer is downloaded.
        if !args.resume {
            place.check(args, Existing::replaced_if(place.force))?;
        }
        args.inputs.iter().for_each(|file| warn_of_markup(file));
        let tokenizer = tokenizer::load(&args.tokenizer)?;
        let fingerprint = tokenizer.fingerprint();
        let Some(output) = self.output(&fingerprint)? else {
            return Ok(None);
        };
        let job = Job {
            inputs: &args.inputs,
            output: &output,
            encode: &|text| Ok(tokenizer.encode_plain(text)?),
            fingerprint: &fingerprint,
            vocab_size: tokenizer.id_bound(),
            unique_sentences: args.unique_sentences,
            limit_pages: args.limit_pages,
            memory: Memory::Process(args.memory),
            threads: self
                .threads
                .and_then(NonZeroUsize::new)
                .unwrap_or_else(cpus),
            checkpoint: args.checkpoint,
            resume: args.resume,
            command: &self.command,
            status: &self.status,
        };
        say_if_interrupted(&self.status, place.out);
        let result = progress::shown(&self.status, || work(&job));
        result.map(Some).map_err(|error| {
            let hint = hint(&error, place.out);
            anyhow::Error::from(error).context(hint)
        })
    }

    /// The output that is to be written; `None` if a resumed job was finished already, which is
    /// said.
    fn output(&self, fingerprint: &Fingerprint) -> Result<Option<Output>> {
        let (args, place) = (self.args, self.place);
        if !args.resume {
            return place
                .check(args, Existing::replaced_if(place.force))
                .map(Some);
        }
        let made = |path: &Path| {
            cascade_bigram::is_result_of(path, &self.command, fingerprint, &args.inputs)
        };
        let output = place.resumed(args, &made)?;
        if output.is_none() {
            say(&format!(
                "{}: complete already, by the same command on inputs of the same names and sizes; \
                 --force counts anew",
                place.out.display()
            ))?;
        }
        Ok(output)
    }

    fn report(&self, summary: &Summary) -> Result<()> {
        report_reading(&self.status, summary)?;
        report_counts(&self.status, summary, self.begin)
    }
}

/// What was counted, and how to go on, for Ctrl-C.
fn say_if_interrupted(status: &Arc<Status>, output: &Path) {
    let (status, output) = (status.clone(), output.to_owned());
    interrupt::on_interrupt(move || {
        let pages = status.reading().map_or(0, |reading| reading.pages());
        let so_far = format!(
            "{} pages and {} tokens counted so far",
            grouped(pages),
            grouped(status.tokens())
        );
        if checkpoint(&output).join("manifest.json").exists() {
            format!("{so_far}; go on from the last checkpoint with the same command and --resume")
        } else {
            format!("{so_far}; no checkpoint was written yet, so begin anew (--checkpoint SECONDS)")
        }
    });
}

/// The folder of an unfinished job.
fn checkpoint(output: &Path) -> PathBuf {
    let mut folder = output.as_os_str().to_owned();
    folder.push(".checkpoint");
    PathBuf::from(folder)
}

/// The message of an error, with advice on resuming if there is a checkpoint.
fn hint(error: &Error, output: &Path) -> String {
    let message = error.to_string();
    let folder = checkpoint(output);
    // These messages already contain advice.
    let has_advice = matches!(error.kind(), ErrorKind::Checkpoint | ErrorKind::Output);
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
    if args.unique_sentences {
        text += " --unique-sentences";
    }
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
    writeln!(terminal::stdout(), "{line}")?;
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
    if summary.repeated_sentences > 0 {
        let repeated = grouped(summary.repeated_sentences);
        line += &format!("; {repeated} sentences left out that were read before");
    }
    say(&line)?;
    for page in reading.bad_pages().iter().take(REPORTED) {
        terminal::warn(page);
    }
    if let Some(bad) = &summary.bad_line {
        let lines = grouped(summary.bad_lines);
        terminal::warn(format_args!(
            "{lines} lines are not documents; the first: {bad}"
        ));
    }
    Ok(())
}

fn report_counts(status: &Status, summary: &Summary, begin: Instant) -> Result<()> {
    let seconds = begin.elapsed().as_secs_f64();
    let counted = summary.tokens.saturating_sub(status.resumed());
    let trigrams = match summary.trigrams {
        0 => String::new(),
        trigrams => format!(
            "{} trigrams, {} different ones, ",
            grouped(trigrams),
            grouped(summary.distinct_trigrams)
        ),
    };
    say(&format!(
        "{} tokens, {} bigrams, {} different ones, {trigrams}in {seconds:.1} s ({} tokens/s)",
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
