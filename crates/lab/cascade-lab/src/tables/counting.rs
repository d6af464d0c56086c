//! `cascade-lab bigram build`.

use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use cascade_bigram::corpus::Skip;
use cascade_bigram::{Error, ErrorKind, Job, Memory, Status, Summary};
use cascade_core::Fingerprint;
use cascade_core::fs::{Existing, Output};
use cascade_ngram::{NgramLimits, NgramTable};

use super::args::{BuildArgs, InputArgs, TableArgs};
use super::progress;
use crate::terminal::{self, grouped};
use crate::{interrupt, outputs, tokenizer};

/// Bad pages reported individually.
const REPORTED: usize = 10;

pub(super) fn build(args: &BuildArgs, threads: Option<usize>) -> Result<()> {
    let (order, top_k) = (usize::from(args.order), args.table.top_k);
    if !(1..=255).contains(&top_k) {
        bail!("--top-k {top_k} cannot be kept; give at least 1 and at most 255");
    }
    let limits = NgramLimits {
        top_k,
        min_count: args.table.min_count,
        min_context: if order > 1 { args.min_context } else { 0 },
    };
    let counting = Counting {
        args: &args.input,
        table: &args.table,
        command: on_record(args),
        threads,
        begin: Instant::now(),
        status: Arc::default(),
    };
    let Some((table, summary)) = counting.run(order, limits)? else {
        return Ok(());
    };
    report_reading(&counting.status, &summary)?;
    report_counts(&counting.status, &summary, counting.begin)?;
    report_table(&args.table.out, &table)
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
    table: &'a TableArgs,
    command: String,
    threads: Option<usize>,
    begin: Instant,
    status: Arc<Status>,
}

impl Counting<'_> {
    /// Runs it, unless it is resumed and was finished.
    fn run(&self, order: usize, limits: NgramLimits) -> Result<Option<(NgramTable, Summary)>> {
        let args = self.args;
        // Before a tokenizer is downloaded.
        if !args.resume {
            self.new_output()?;
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
        let out = &self.table.out;
        say_if_interrupted(&self.status, out);
        let build = || cascade_bigram::build(&job, order, limits);
        let result = progress::shown(&self.status, build);
        result.map(Some).map_err(|error| {
            let hint = hint(&error, out);
            anyhow::Error::from(error).context(hint)
        })
    }

    /// The output that is to be written; `None` if a resumed job was finished already, which is
    /// said.
    fn output(&self, fingerprint: &Fingerprint) -> Result<Option<Output>> {
        let (args, out) = (self.args, &self.table.out);
        let finished = args.resume && !self.table.force && {
            // Whatever is there, it is no input.
            self.check(Existing::Continue)?;
            cascade_bigram::is_result_of(out, &self.command, fingerprint, &args.inputs)
        };
        if !finished {
            return self.new_output().map(Some);
        }
        if checkpoint(out).exists() {
            // The job was killed just before it would have removed its checkpoint.
            return self.check(Existing::Continue).map(Some);
        }
        say(&format!(
            "{}: complete already, by the same command on inputs of the same names and sizes; \
             --force counts anew",
            out.display()
        ))?;
        Ok(None)
    }

    fn new_output(&self) -> Result<Output> {
        self.check(Existing::replaced_if(self.table.force))
    }

    fn check(&self, existing: Existing) -> Result<Output> {
        let inputs = tokenizer::files(&self.args.tokenizer);
        let inputs = self.args.inputs.iter().cloned().chain(inputs);
        Ok(outputs::check(&self.table.out, existing, inputs)?)
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

/// The part of the command that determines the table.
fn on_record(args: &BuildArgs) -> String {
    let (input, table) = (&args.input, &args.table);
    let mut text = format!(
        "cascade-lab bigram build {} --tokenizer {}",
        names(&input.inputs),
        tokenizer::on_record(&input.tokenizer)
    );
    if input.unique_sentences {
        text += " --unique-sentences";
    }
    if let Some(limit) = input.limit_pages {
        text += &format!(" --limit-pages {limit}");
    }
    text += &format!(" --top-k {} --min-count {}", table.top_k, table.min_count);
    if args.order > 1 {
        text += &format!(" --order {} --min-context {}", args.order, args.min_context);
    }
    text
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

fn report_table(path: &Path, table: &NgramTable) -> Result<()> {
    let (path, of) = (path.display(), |number: usize| grouped(number as u64));
    let (bytes, tokens) = (of(table.as_bytes().len()), of(table.vocab_size()));
    let kept = of(table.continuations());
    say(&if table.order() == 1 {
        format!("{path}: {bytes} bytes, {kept} pairs kept for {tokens} tokens")
    } else {
        let pairs = of(table.pairs());
        format!(
            "{path}: {bytes} bytes, {kept} continuations kept of {tokens} tokens and {pairs} pairs"
        )
    })
}
