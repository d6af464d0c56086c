//! The common start of every command that generates: configuration, inputs, options.

use anyhow::{bail, Result};
use cascade_config::{AssembleOptions, Assembled, Config, SamplingSettings};
use cascade_core::Decoding;
use cascade_engine::Options;
use cascade_models::LoadedModel;

use crate::args::{DecodingArgs, JobArgs};
use crate::inputs::{cut_short, inputs, Input};

/// A checked job; no model has been loaded yet.
pub(crate) struct Job {
    pub(crate) config: Config,
    pub(crate) inputs: Vec<Input>,
    pub(crate) options: Options,
    device: Option<String>,
}

impl Job {
    pub(crate) fn new(args: &JobArgs) -> Result<Self> {
        let config = match &args.config {
            Some(file) => Config::open(file)?,
            None => Config::demo()?,
        };
        let inputs = inputs(&args.input, &config)?;
        warn_of_unasked_turns(&inputs);
        let defaults = config.options.clone();
        let (max_new_tokens, seed) = (defaults.max_new_tokens, defaults.seed);
        let options = defaults
            .with_max_new_tokens(args.decoding.max_new_tokens.unwrap_or(max_new_tokens))
            .with_decoding(decoding(&args.decoding, config.sampling)?)
            .with_seed(args.decoding.seed.unwrap_or(seed));
        Ok(Self {
            config,
            inputs,
            options,
            device: args.device.clone(),
        })
    }

    /// The device of the models.
    pub(crate) fn device(&self) -> &str {
        self.device.as_ref().unwrap_or(&self.config.device)
    }

    /// Loads the target alone.
    pub(crate) fn load_target(&self) -> Result<LoadedModel> {
        Ok(self.config.load_target(&self.assemble_options())?)
    }

    fn assemble_options(&self) -> AssembleOptions {
        AssembleOptions {
            device: self.device.clone(),
            ..AssembleOptions::default()
        }
    }

    /// Loads the models, and prints warnings about what is valid but probably unintended.
    pub(crate) fn assemble(&self) -> Result<Assembled> {
        let assembled = self.config.assemble(&self.assemble_options())?;
        for warning in &assembled.warnings {
            eprintln!("warning: {warning}");
        }
        Ok(assembled)
    }
}

fn warn_of_unasked_turns(inputs: &[Input]) {
    match cut_short(inputs) {
        0 => {}
        some => eprintln!(
            "warning: {some} of {} samples have several turns; this prompt template asks only the \
             first (--template vicuna asks all)",
            inputs.len()
        ),
    }
}

/// The configuration's settings, overridden by the arguments.
fn decoding(args: &DecodingArgs, settings: SamplingSettings) -> Result<Decoding> {
    let settings = SamplingSettings {
        temperature: args.temperature.unwrap_or(settings.temperature),
        top_k: args.top_k.or(settings.top_k),
        top_p: args.top_p.or(settings.top_p),
        min_p: args.min_p.or(settings.min_p),
    };
    let truncates = args.top_k.is_some() || args.top_p.is_some() || args.min_p.is_some();
    if truncates && settings.truncates_in_vain() {
        bail!(
            "--top-k, --top-p and --min-p have no effect at temperature 0 (greedy decoding); \
             also give --temperature"
        );
    }
    Ok(settings.decoding()?)
}
