//! `cascade trace record`.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use cascade_config::DeviceSpec;
use cascade_core::Prompt;
use cascade_data::Dataset;
use cascade_engine::Rule;
use cascade_eval::trace::{
    seed_of_turn, Header, Record, Recorder, Subject, Summary, Writer, NEAR_TIE,
};
use cascade_eval::Error;
use cascade_fs::{Existing, Output, OutputError};
use cascade_models::LoadedModel;

use super::RecordArgs;
use crate::args::InputArgs;
use crate::costs;
use crate::inputs::Input;
use crate::job::{self, Job};
use crate::progress::Progress;
use crate::templates::PromptText;
use crate::terminal::grouped;
use crate::{interrupt, outputs, terminal};

pub(super) fn record(args: &RecordArgs) -> Result<()> {
    if args.job.input.is_empty() {
        bail!("nothing to record: give --dataset, --prompts or --prompt");
    }
    let job = Job::new(&args.job)?;
    let options = job.options();
    check_sampling(args, &job)?;
    // Fail before loading a model; the writer checks again.
    let output = output(args, &job)?;
    let pool = job.pool();
    let target = pool.target(&job.config)?;
    job::say_notes(&pool.notes());
    let device = pool.device(&job.config.target)?.spec;
    let mut header = header(args, &job, &target, device);
    header.eos = job.end_tokens(&pool, &job.config)?;
    let (writer, done) = writer(&output, &header)?;
    let name = &job.config.target.name;
    let codec = Arc::new(target.tokenizer.clone());
    let (target, eos) = (target.session(), header.eos);
    let recorder = match args.top_probabilities {
        None => Recorder::new(name, target, eos, Some(codec), &options)?,
        Some(tokens) => {
            Recorder::with_top_probabilities(tokens, name, target, eos, Some(codec), &options)?
        }
    };
    let turns = job.inputs.iter().map(Input::turns).sum();
    let mut recording = Recording {
        recorder,
        seed: options.seed,
        writer,
        progress: Progress::new(turns, "records"),
        summary: Summary::default(),
        tokens: 0,
        recorded: Arc::default(),
    };
    say_if_interrupted(&output, &recording.recorded, turns);
    recording.all(&job.inputs, &done)?;
    let summary = recording.summary;
    say(args, &summary, done.len(), options.decoding.is_greedy())
}

/// What is recorded must be what any replay gives.
fn check_sampling(args: &RecordArgs, job: &Job) -> Result<()> {
    let rule = job.config.target.rule;
    let greedy = job.options().decoding.is_greedy();
    if !greedy && rule != Rule::Coupled {
        let rule = rule.to_string();
        return Err(Error::NotCoupled { rule }).context(job.config.label.clone());
    }
    match args.top_probabilities {
        Some(_) if greedy => Err(Error::NoTop).context("--top-probabilities"),
        _ => Ok(()),
    }
}

/// Where to write: not over an input, and not over another file, unless it is resumed or replaced.
fn output(args: &RecordArgs, job: &Job) -> Result<Output> {
    let inputs = job.files(&args.job);
    let existing = match (args.resume, args.force) {
        (true, _) => Existing::Continue,
        (false, force) => Existing::replaced_if(force),
    };
    let output = outputs::check(&args.output, existing, inputs);
    output.map_err(|error| match error {
        OutputError::Exists { .. } => {
            anyhow::Error::from(error).context("--resume continues a recording")
        }
        other => other.into(),
    })
}

/// The trace, and the records that it has already.
fn writer(output: &Output, header: &Header) -> Result<(Writer, Vec<Record>)> {
    let path = output.path();
    match output.existing() {
        Existing::Keep => Ok((Writer::create(path, header)?, Vec::new())),
        Existing::Continue => Ok(Writer::resume(path, header)?),
        Existing::Replace => Ok((Writer::replace(path, header)?, Vec::new())),
    }
}

/// What was recorded, and how to go on, for Ctrl-C.
fn say_if_interrupted(output: &Output, recorded: &Arc<AtomicUsize>, turns: usize) {
    let (file, recorded) = (output.path().display().to_string(), recorded.clone());
    interrupt::on_interrupt(move || {
        format!(
            "{file} has {} of {turns} records; go on with the same command and --resume",
            recorded.load(Relaxed)
        )
    });
}

fn header(args: &RecordArgs, job: &Job, target: &LoadedModel, device: DeviceSpec) -> Header {
    let mut header = Header::of_target(&job.config, target, device, &job.options());
    header.machine = Some(costs::machine());
    header.program = Some(costs::PROGRAM.to_owned());
    header.dataset = dataset(&args.job.input);
    if let Some(tokens) = args.top_probabilities {
        header = header.with_top_probabilities(tokens);
    }
    header.template = job
        .inputs
        .first()
        .map(|input| input.template().name().to_owned());
    header
}

fn dataset(input: &InputArgs) -> Option<String> {
    let name = |dataset: &Dataset| dataset.name().into_owned();
    let prompts = input.prompts.as_ref().map(|_| name(&Dataset::PROMPTS));
    input.dataset.as_ref().map(name).or(prompts)
}

struct Recording {
    recorder: Recorder,
    /// Of the first turn of the first input.
    seed: u64,
    writer: Writer,
    progress: Progress,
    summary: Summary,
    /// Tokens generated by this process.
    tokens: u64,
    /// Records in the file, for another thread.
    recorded: Arc<AtomicUsize>,
}

impl Recording {
    /// Records all inputs after those answered by `done`, which must be answers to the first
    /// inputs.
    fn all(&mut self, inputs: &[Input], done: &[Record]) -> Result<()> {
        let mut at = 0;
        for (index, input) in inputs.iter().enumerate() {
            let whole = at + input.turns();
            let known = done.get(at..whole.min(done.len())).unwrap_or_default();
            self.conversation((index, input), at, known)
                .with_context(|| format!("sample {}", input.id()))?;
            at = whole;
        }
        Ok(())
    }

    /// Records all turns of an input, of which the first `known` are recorded. A turn's prompt
    /// contains the earlier answers, so those are generated again if a turn is missing.
    fn conversation(
        &mut self,
        (index, input): (usize, &Input),
        at: usize,
        known: &[Record],
    ) -> Result<()> {
        self.check(input, at, known)?;
        if known.len() == input.turns() {
            known.iter().for_each(|record| self.note(record));
            return Ok(());
        }
        let mut answers = Vec::new();
        for turn in 0..input.turns() {
            let prompt = self.encode(&input.prompt(&answers)?)?;
            self.recorder.set_seed(seed_of_turn(self.seed, index, turn));
            let (record, text) = self.answer(input, turn, &prompt)?;
            match known.get(turn) {
                None => self.writer.write(&record)?,
                Some(known) if *known == record => {}
                Some(_) => bail!(
                    "turn {}: the answer differs from the one in the file; if the model has changed, record anew",
                    turn + 1
                ),
            }
            self.note(&record);
            answers.push(text.trim().to_owned());
        }
        Ok(())
    }

    /// Checks that known records answer an input.
    fn check(&self, input: &Input, at: usize, known: &[Record]) -> Result<()> {
        let Some(first) = known.first() else {
            return Ok(());
        };
        let other_id = known.iter().position(|record| record.id != input.id());
        let other_prompt = first.prompt() != self.encode(&input.prompt(&[])?)?;
        match other_id.or(other_prompt.then_some(0)) {
            None => Ok(()),
            Some(turn) => Err(Error::OtherPrompt {
                index: at + turn + 1,
                found: known[turn].id.clone(),
                expected: input.id().to_owned(),
            }
            .into()),
        }
    }

    fn encode(&self, prompt: &PromptText) -> Result<Prompt> {
        Ok(match prompt.verbatim {
            true => self.recorder.encode_verbatim(&prompt.text)?,
            false => self.recorder.encode(&prompt.text)?,
        })
    }

    fn answer(&mut self, input: &Input, turn: usize, prompt: &Prompt) -> Result<(Record, String)> {
        let subject = Subject {
            id: input.id().to_owned(),
            category: input.category().map(str::to_owned),
            turn: turn + 1,
        };
        let Self {
            recorder,
            progress,
            tokens,
            ..
        } = self;
        let (record, text) = recorder.record(subject, prompt, |_| {
            *tokens += 1;
            progress.say(&format!("{} tokens", grouped(*tokens)));
        })?;
        Ok((record, text.unwrap_or_default()))
    }

    fn note(&mut self, record: &Record) {
        self.summary.add(record);
        self.progress.step();
        self.recorded.fetch_add(1, Relaxed);
    }
}

fn say(args: &RecordArgs, summary: &Summary, done: usize, greedy: bool) -> Result<()> {
    let mut out = terminal::stdout();
    let resumed = match done {
        0 => String::new(),
        done => format!(" ({done} of them recorded earlier)"),
    };
    writeln!(
        out,
        "{}: {} records{resumed}, {} {}",
        args.output.display(),
        grouped(summary.records as u64),
        grouped(summary.output_tokens.iter().sum::<usize>() as u64),
        match greedy {
            true => format!(
                "output tokens, {} of them near-ties (top two logits within {NEAR_TIE})",
                summary.near_ties()
            ),
            false => "sampled tokens".to_owned(),
        }
    )?;
    Ok(())
}
