//! The common start of every command that generates: configuration, inputs, options.

use anyhow::{bail, Result};
use cascade_config::{
    AssembleOptions, Assembled, Config, DeviceSpec, Drafter, ModelPool, Neural, SamplingSettings,
};
use cascade_engine::Options;
use cascade_models::DType;

use crate::args::{DecodingArgs, JobArgs};
use crate::inputs::{cut_short, inputs, Input};
use crate::terminal;

/// A checked job; no model has been loaded yet.
pub(crate) struct Job {
    /// The configuration, its settings overridden by the arguments.
    pub(crate) config: Config,
    pub(crate) inputs: Vec<Input>,
    /// The device of all models, if the arguments name one.
    device: Option<DeviceSpec>,
}

impl Job {
    pub(crate) fn new(args: &JobArgs) -> Result<Self> {
        let mut config = match &args.config {
            Some(file) => Config::open(file)?,
            None => Config::demo()?,
        };
        let inputs = inputs(&args.input, &config)?;
        warn_of_unasked_turns(&inputs);
        let generation = &mut config.generation;
        generation.sampling = sampling(&args.decoding, generation.sampling)?;
        if let Some(length) = args.decoding.max_new_tokens {
            generation.max_new_tokens = length;
        }
        if let Some(seed) = args.decoding.seed {
            generation.seed = seed;
        }
        if args.decoding.seed.is_some() && config.generation.options().decoding.is_greedy() {
            terminal::warn(
                "--seed has no effect at temperature 0 (greedy decoding); also give --temperature",
            );
        }
        Ok(Self {
            config,
            inputs,
            device: args.device,
        })
    }

    /// What is generated with.
    pub(crate) fn options(&self) -> Options {
        self.config.generation.options()
    }

    /// The models, to be loaded.
    pub(crate) fn pool(&self) -> ModelPool {
        self.config
            .pool(&AssembleOptions::default().with_device(self.device))
    }

    /// Our own kernels for CPUs compute in f32; other types take those of the tensor library.
    fn warn_of_slow_types(&self, pool: &ModelPool) {
        let slow = slow_types(&self.config, pool);
        if !slow.is_empty() {
            terminal::warn(format_args!(
                "in 16 bits a CPU is slower than in f32: {}; `dtype: f32` is faster, and takes \
                 twice the memory",
                slow.join(", ")
            ));
        }
    }

    /// Loads the models, and prints warnings about what is valid but probably unintended.
    pub(crate) fn assemble(&self, pool: &ModelPool) -> Result<Assembled> {
        let assembled = pool.assemble(&self.config)?;
        say(&assembled);
        self.warn_of_slow_types(pool);
        Ok(assembled)
    }
}

/// The models that are computed in 16 bits on a CPU, where f32 is faster.
fn slow_types(config: &Config, pool: &ModelPool) -> Vec<String> {
    let drafters = config
        .drafters()
        .iter()
        .filter_map(|drafter| match drafter {
            Drafter::Neural { model, .. } => Some(model),
            Drafter::Statistical { .. } => None,
        });
    let is_slow = |model: &&Neural| {
        let on_cpu = pool
            .device(model)
            .is_ok_and(|open| open.spec == DeviceSpec::Cpu);
        on_cpu && matches!(model.dtype, DType::BF16 | DType::F16)
    };
    let models = std::iter::once(&config.target).chain(drafters);
    models
        .filter(is_slow)
        .map(|model| format!("{} ({})", model.name, model.dtype.as_str()))
        .collect()
}

/// Prints what should be known of an assembled cascade to standard error.
pub(crate) fn say(assembled: &Assembled) {
    say_notes(&assembled.notes);
    for warning in &assembled.warnings {
        terminal::warn(warning);
    }
}

/// Prints what was decided in the user's place to standard error.
pub(crate) fn say_notes(notes: &[String]) {
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

/// The configuration's settings, overridden by the arguments.
fn sampling(args: &DecodingArgs, configured: SamplingSettings) -> Result<SamplingSettings> {
    let settings = SamplingSettings::new(
        args.temperature.unwrap_or(configured.temperature()),
        args.top_k.or(configured.top_k()),
        args.top_p.or(configured.top_p()),
        args.min_p.or(configured.min_p()),
    )?;
    let truncates = args.top_k.is_some() || args.top_p.is_some() || args.min_p.is_some();
    if truncates && settings.truncates_in_vain() {
        bail!(
            "--top-k, --top-p and --min-p have no effect at temperature 0 (greedy decoding); \
             also give --temperature"
        );
    }
    Ok(settings)
}
