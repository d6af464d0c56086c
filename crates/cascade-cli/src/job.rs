//! The common start of every command that generates: configuration, inputs, options.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Result, bail};
use cascade_config::{
    AssembleOptions, Assembled, Assembly, Batch, ChatTemplate, Config, ModelPool,
};
use cascade_core::TokenId;
use cascade_engine::Options;
use cascade_eval::DataSource;
use cascade_models::HubOptions;

use crate::args::JobArgs;
use crate::costs::with_costs;
use crate::inputs::{Input, cut_short, inputs};
use crate::models::configuration;
use crate::terminal;

/// What is generated with if nothing is named.
const DEFAULT_CONFIG: &str = "embedded:demo-t5";

/// A checked job; no model has been loaded yet.
pub struct Job {
    /// The configuration, its settings overridden by the arguments.
    pub config: Config,
    /// The form of conversations, if prompts are.
    template: Option<ChatTemplate>,
    pub inputs: Vec<Input>,
    /// How models are loaded: on which device, with which costs.
    assembly: AssembleOptions,
}

impl Job {
    pub fn new(args: &JobArgs) -> Result<Self> {
        Self::with_prompt(args, None)
    }

    /// A job with a prompt from standard input, if there is one.
    pub fn with_prompt(args: &JobArgs, piped: Option<String>) -> Result<Self> {
        if args.models.model.is_some() && args.input.is_empty() && piped.is_none() {
            bail!(
                "no prompt: give one at the end of the line, or --prompts FILE, --dataset NAME, or a \
                 pipe"
            );
        }
        let decoding = Some(&args.decoding);
        let config = configuration(&args.models, decoding, args.device, DEFAULT_CONFIG)?;
        let (inputs, template) = inputs(&args.input, &config, piped)?;
        warn_of_unasked_turns(&inputs);
        if config.generation.options().decoding.is_greedy() {
            let truncated = &args.decoding;
            if truncated.top_k.is_some() || truncated.top_p.is_some() || truncated.min_p.is_some() {
                bail!(
                    "--top-k, --top-p and --min-p have no effect at temperature 0 (greedy \
                     decoding); also give --temperature"
                );
            }
            let given = [
                ("--seed", args.decoding.seed.is_some()),
                ("--rule", args.decoding.rule.is_some()),
            ];
            for (name, _) in given.into_iter().filter(|(_, given)| *given) {
                terminal::warn(format_args!(
                    "{name} has no effect at temperature 0 (greedy decoding); also give --temperature"
                ));
            }
        }
        let assembly = AssembleOptions::default().with_device(args.device);
        Ok(Self {
            config,
            template,
            inputs,
            assembly: with_costs(assembly, &args.models)?,
        })
    }

    /// The files that it is read from, which no output may replace: prompts, templates, models and
    /// tables.
    pub fn files(&self, args: &JobArgs) -> Vec<PathBuf> {
        let input = &args.input;
        let data = input.data.as_ref().and_then(|data| match data {
            DataSource::Local(path) => Some(path.clone()),
            DataSource::Hub(_) => None,
        });
        let template = input.template.as_ref().map(PathBuf::from);
        let config = args.models.config.clone();
        let named = [config, input.prompts.clone(), data, template];
        let named = named
            .into_iter()
            .flatten()
            .chain(args.models.costs.iter().cloned());
        named
            .chain(self.config.files(&HubOptions::from_env()))
            .collect()
    }

    /// What is generated with.
    pub fn options(&self) -> Options {
        self.config.generation.options()
    }

    /// The models, to be loaded.
    pub fn pool(&self) -> ModelPool {
        self.config.pool(&self.assembly)
    }

    /// The cascade of this job's configuration with other drafters or settings.
    pub fn assemble_as(&self, pool: &ModelPool, config: &Config) -> Result<Assembled> {
        let assembly = Assembly::of(config).chat(self.template.as_ref());
        Ok(pool.assemble(assembly)?)
    }

    /// Loads the models for several texts at a time, and prints warnings as
    /// [`assemble`](Self::assemble) does.
    pub fn assemble_batch(&self, pool: &ModelPool, texts: NonZeroUsize) -> Result<Batch> {
        let batch = pool.assemble_batch(&self.config, self.template.as_ref(), texts)?;
        say_all(&batch.notes, &batch.warnings);
        Ok(batch)
    }

    /// How many texts of the target alone are generated at a time unless a number is given.
    pub fn texts_at_a_time(&self, pool: &ModelPool) -> Result<NonZeroUsize> {
        let of_answer = self.config.generation.max_new_tokens;
        let lengths = self.inputs.iter().map(|input| input.most_tokens(of_answer));
        let longest = lengths.max().unwrap_or_default();
        Ok(pool.plain_texts_at_a_time(&self.config, longest)?)
    }

    /// Says which sampling the model recommends where none was chosen: decoding is greedy then.
    pub fn say_recommended(&self, pool: &ModelPool) -> Result<()> {
        let recommended = pool.target(&self.config)?.recommended;
        if self.config.generation.sampling.stated().is_empty() && !recommended.is_empty() {
            terminal::note(format_args!(
                "note: the model recommends {recommended}, and this is greedy: give these as options, or \
                 --temperature 0"
            ));
        }
        Ok(())
    }

    /// The tokens that end an answer.
    pub fn end_tokens(&self, pool: &ModelPool, config: &Config) -> Result<Vec<TokenId>> {
        Ok(pool.end_tokens(config, self.template.as_ref())?)
    }

    /// Loads the models, and prints warnings about what is valid but probably unintended.
    pub fn assemble(&self, pool: &ModelPool) -> Result<Assembled> {
        let assembled = self.assemble_as(pool, &self.config)?;
        say(&assembled);
        Ok(assembled)
    }
}

/// Prints what should be known of an assembled cascade to standard error.
pub fn say(assembled: &Assembled) {
    say_all(&assembled.notes, &assembled.warnings);
}

fn say_all(notes: &[String], warnings: &[String]) {
    say_notes(notes);
    warnings.iter().for_each(terminal::warn);
}

/// Prints what was decided in the user's place to standard error.
pub fn say_notes(notes: &[String]) {
    for note in notes {
        terminal::note(format_args!("note: {note}"));
    }
}

fn warn_of_unasked_turns(inputs: &[Input]) {
    match cut_short(inputs) {
        0 => {}
        some => terminal::warn(format_args!(
            "{some} of {} samples have several turns; this prompt template asks only the \
             first (--template vicuna asks all)",
            inputs.len()
        )),
    }
}
