//! `cascade-lab trace record`.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use cascade_config::DeviceSpec;
use cascade_core::fs::{Existing, Output, OutputError};
use cascade_core::{Penalties, Prompt, TextCodec, TokenId};
use cascade_engine::Rule;
use cascade_eval::{Dataset, seed_of_turn};
use cascade_models::{BatchedSession, LoadedModel, Tokenizer, Workers};
use cascade_traces::error;
use cascade_traces::trace::{Header, NEAR_TIE, Record, Recorder, Subject, Summary, Writer};

use super::RecordArgs;
use crate::args::InputArgs;
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
    let texts = match args.batch {
        Some(texts) => texts,
        None => job.texts_at_a_time(&pool)?,
    };
    let recorders = Workers::new(texts, |participant| {
        let session = participant.session(&target.model);
        recorder(args, &job, session, &header.eos, target.tokenizer.clone())
    })?;
    let turns = job.inputs.iter().map(Input::turns).sum();
    let recording = Recording {
        writer,
        summary: Summary::default(),
        generating: Arc::new(Generating {
            progress: Mutex::new(Progress::new(turns, "records")),
            tokens: AtomicU64::new(0),
            recorded: AtomicUsize::new(0),
        }),
    };
    say_if_interrupted(&output, &recording.generating, turns);
    let conversations = conversations(&job.inputs, &done);
    let summary = recording.all(recorders, &conversations, options.seed)?;
    say(args, &summary, done.len(), options.decoding.is_greedy())
}

fn recorder(
    args: &RecordArgs,
    job: &Job,
    target: BatchedSession,
    eos: &[TokenId],
    codec: Tokenizer,
) -> Result<Recorder> {
    let (name, eos) = (&job.config.target.name, eos.iter().copied());
    let (codec, options): (Option<Arc<dyn TextCodec>>, _) = (Some(Arc::new(codec)), job.options());
    let top = args.top_probabilities;
    let recorder = Recorder::with_top_probabilities(top, name, target, eos, codec, &options);
    Ok(recorder?)
}

/// What is recorded must be what any replay gives.
fn check_sampling(args: &RecordArgs, job: &Job) -> Result<()> {
    let rule = job.config.target.rule;
    let greedy = job.options().decoding.is_greedy();
    if !greedy && rule != Rule::Coupled {
        return Err(error::not_coupled(rule)).context(job.config.label.clone());
    }
    if job.options().penalties != Penalties::NONE {
        bail!(
            "{}: a recording is what the model says without penalties ({}); leave them out",
            job.config.label,
            job.config.generation.sampling
        );
    }
    match args.top_probabilities {
        Some(_) if greedy => Err(error::no_top()).context("--top-probabilities"),
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
fn say_if_interrupted(output: &Output, done: &Arc<Generating>, turns: usize) {
    let (file, done) = (output.path().display().to_string(), done.clone());
    interrupt::on_interrupt(move || {
        format!(
            "{file} has {} of {turns} records; go on with the same command and --resume",
            done.recorded.load(Relaxed)
        )
    });
}

fn header(args: &RecordArgs, job: &Job, target: &LoadedModel, device: DeviceSpec) -> Header {
    let mut header = Header::of_target(&job.config, target, device, &job.options());
    header.machine = Some(cascade_config::machine());
    header.program = Some(cascade_config::PROGRAM.to_owned());
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

/// An input, and what is recorded of it.
struct Conversation<'a> {
    input: &'a Input,
    index: usize,
    /// Turns of the inputs before it.
    at: usize,
    /// Its first turns.
    known: &'a [Record],
}

/// All inputs, of which `done` answers the first.
fn conversations<'a>(inputs: &'a [Input], done: &'a [Record]) -> Vec<Conversation<'a>> {
    let mut next = 0;
    let conversation = |(index, input): (usize, &'a Input)| {
        let at = next;
        next += input.turns();
        Conversation {
            input,
            index,
            at,
            known: done.get(at..next.min(done.len())).unwrap_or_default(),
        }
    };
    inputs.iter().enumerate().map(conversation).collect()
}

impl Conversation<'_> {
    /// Records all turns. A turn's prompt contains the earlier answers, so known ones are generated
    /// again if a turn is missing.
    fn records(
        &self,
        recorder: &mut Recorder,
        seed: u64,
        generating: &Generating,
    ) -> Result<Vec<Record>> {
        self.check(recorder)?;
        if self.known.len() == self.input.turns() {
            return Ok(self.known.to_vec());
        }
        let (mut answers, mut records) = (Vec::new(), Vec::new());
        for turn in 0..self.input.turns() {
            let prompt = encode(recorder, &self.input.prompt(&answers)?)?;
            recorder.set_seed(seed_of_turn(seed, self.index, turn));
            let token = |_| generating.token();
            let (record, text) = recorder.record(self.subject(turn), &prompt, token)?;
            if self.known.get(turn).is_some_and(|known| *known != record) {
                bail!(
                    "turn {}: the answer differs from the one in the file; if the model has changed, record anew",
                    turn + 1
                );
            }
            records.push(record);
            answers.push(text.unwrap_or_default().trim().to_owned());
        }
        Ok(records)
    }

    fn subject(&self, turn: usize) -> Subject {
        Subject {
            id: self.input.id().to_owned(),
            category: self.input.category().map(str::to_owned),
            turn: turn + 1,
        }
    }

    /// Checks that known records answer the input.
    fn check(&self, recorder: &Recorder) -> Result<()> {
        let Some(first) = self.known.first() else {
            return Ok(());
        };
        let other_id = |record: &Record| record.id != self.input.id();
        let other_id = self.known.iter().position(other_id);
        let other_prompt = first.prompt() != encode(recorder, &self.input.prompt(&[])?)?;
        match other_id.or(other_prompt.then_some(0)) {
            None => Ok(()),
            Some(turn) => {
                Err(
                    error::other_prompt(self.at + turn + 1, &self.known[turn].id, self.input.id())
                        .into(),
                )
            }
        }
    }
}

fn encode(recorder: &Recorder, prompt: &PromptText) -> Result<Prompt> {
    Ok(if prompt.verbatim {
        recorder.encode_verbatim(&prompt.text)?
    } else {
        recorder.encode(&prompt.text)?
    })
}

/// What the threads that generate have done.
struct Generating {
    progress: Mutex<Progress>,
    tokens: AtomicU64,
    /// Records in the file.
    recorded: AtomicUsize,
}

impl Generating {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn token(&self) {
        let tokens = self.tokens.fetch_add(1, Relaxed) + 1;
        self.progress().say(&format!("{} tokens", grouped(tokens)));
    }
}

struct Recording {
    writer: Writer,
    summary: Summary,
    generating: Arc<Generating>,
}

impl Recording {
    /// Records all conversations, in their order, and gives what is then in the file.
    fn all(
        mut self,
        mut recorders: Workers<Recorder>,
        conversations: &[Conversation<'_>],
        seed: u64,
    ) -> Result<Summary> {
        let generating = Arc::clone(&self.generating);
        let mut written = Ok(());
        recorders.for_each(
            conversations,
            |recorder, conversation| {
                let records = conversation.records(recorder, seed, &generating);
                let sample = || format!("sample {}", conversation.input.id());
                (conversation.known.len(), records.with_context(sample))
            },
            |(known, records)| {
                written = records.and_then(|records| self.write(&records, known));
                match written {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            },
        );
        written.map(|()| self.summary)
    }

    /// Writes what is new of the records of an input.
    fn write(&mut self, records: &[Record], known: usize) -> Result<()> {
        for (turn, record) in records.iter().enumerate() {
            if turn >= known {
                self.writer.write(record)?;
            }
            self.summary.add(record);
            self.generating.progress().step();
            self.generating.recorded.fetch_add(1, Relaxed);
        }
        Ok(())
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
        if greedy {
            format!(
                "output tokens, {} of them near-ties (top two logits within {NEAR_TIE})",
                summary.near_ties()
            )
        } else {
            "sampled tokens".to_owned()
        }
    )?;
    Ok(())
}
