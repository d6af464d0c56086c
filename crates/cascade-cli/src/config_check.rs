//! `cascade config check` and `cascade config init`.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use cascade_config::{
    AssembleOptions, Config, DeviceSpec, Drafter, LevelInfo, Neural, Overrides, PromptTemplate,
};
use cascade_engine::{Branching, Expand, Siblings};
use clap::{Args, Subcommand};

use crate::args::{DecodingArgs, ModelArgs};
use crate::exit::ExitCode;
use crate::models::configuration;
use crate::terminal;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a configuration and describe its cascade.
    Check {
        /// The configuration.
        file: PathBuf,
        /// Also load the models, downloading them if needed, and check that they fit together.
        #[arg(long)]
        load: bool,
    },
    /// Print the configuration that a command line means.
    ///
    /// `cascade config init -m TARGET -d DRAFTER > my.yaml`, and `--config my.yaml` is the same
    /// cascade. Only tokenizers are loaded.
    Init(Box<InitArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    models: ModelArgs,

    /// Prompt template for datasets.
    #[arg(long, value_name = "NAME")]
    template: Option<PromptTemplate>,

    #[command(flatten)]
    decoding: DecodingArgs,

    /// Device of all models: auto, cpu, cuda:N or metal:N.
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceSpec>,
}

pub(crate) fn run(command: &ConfigCommand) -> Result<ExitCode> {
    match command {
        ConfigCommand::Check { file, load } => check(file, *load),
        ConfigCommand::Init(args) => init(args),
    }
}

fn init(args: &InitArgs) -> Result<ExitCode> {
    let decoding = Some(&args.decoding);
    let config = configuration(&args.models, decoding, args.device, "embedded:demo-t5")?;
    let config = config.with(&Overrides {
        device: args.device,
        prompt: args.template,
        ..Overrides::default()
    })?;
    let mut out = terminal::stdout();
    writeln!(out, "# configs/demo-t5.yaml explains every key.")?;
    out.write_all(config.to_yaml()?.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn check(file: &Path, load: bool) -> Result<ExitCode> {
    let config = Config::open(file)?;
    let mut out = terminal::stdout();
    describe(&mut out, &config)?;
    let warnings = config.warnings();
    for warning in &warnings {
        writeln!(out, "warning: {warning}")?;
    }
    if !load {
        writeln!(out, "{}: ok (models not loaded; use --load)", config.label)?;
        return Ok(ExitCode::SUCCESS);
    }
    let assembled = config.assemble(&AssembleOptions::default())?;
    for level in &assembled.levels {
        writeln!(out, "{}", loaded(level))?;
    }
    for note in &assembled.notes {
        writeln!(out, "note: {note}")?;
    }
    let of_models = assembled.warnings.iter();
    for warning in of_models.filter(|warning| !warnings.contains(warning)) {
        writeln!(out, "warning: {warning}")?;
    }
    writeln!(out, "{}: ok", config.label)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(out: &mut impl Write, config: &Config) -> Result<()> {
    writeln!(out, "target     {}", neural(&config.target))?;
    for drafter in config.drafters() {
        let stops = drafter
            .stop_rule()
            .map_or_else(String::new, |rule| format!(", stop rule {rule}"));
        writeln!(out, "drafter    {}{stops}", drafter_line(drafter))?;
    }
    schedule(out, config)?;
    let (sampling, tokens) = (config.generation.sampling, config.generation.max_new_tokens);
    let prompt = match config.prompt {
        Some(prompt) => prompt.name(),
        None => "by the model's chat template, if it has one",
    };
    writeln!(
        out,
        "lenience   {} for neural, {} for statistical drafts; the target's is 1\n\
         decoding   {sampling}\n\
         drafts     at most {} nodes; the target's acceptance rule is {}\n\
         prompt     {}; at most {tokens} new tokens; device {}",
        config.lenience.get(),
        config.statistical_lenience.get(),
        config.max_nodes,
        config.target.rule,
        prompt,
        config.device
    )?;
    Ok(())
}

/// What is drafted: by the K matrix, a line for each reviewer, or by what pays.
fn schedule(out: &mut impl Write, config: &Config) -> Result<()> {
    let Some(k) = config.k() else {
        let what = "online: what pays is drafted, by acceptance and costs of late";
        return Ok(writeln!(out, "schedule   {what}")?);
    };
    let names: Vec<&str> = std::iter::once(config.target.name.as_str())
        .chain(config.drafters().iter().map(Drafter::name))
        .collect();
    for (reviewer, entries) in names.iter().zip(k.rows()) {
        let adds: Vec<String> = entries
            .iter()
            .zip(&names[1..])
            .filter(|&(&tokens, _)| tokens > 0)
            .map(|(tokens, drafter)| format!("{tokens} from {drafter}"))
            .collect();
        let adds = if adds.is_empty() {
            "nothing".to_owned()
        } else {
            adds.join(", then ")
        };
        writeln!(out, "{reviewer} reviews {adds}")?;
    }
    Ok(())
}

fn neural(neural: &Neural) -> String {
    let kind = if neural.is_head {
        "head over the target, "
    } else {
        ""
    };
    format!(
        "{} ({kind}{}, {})",
        neural.name,
        neural.source,
        dtype(neural)
    )
}

/// What it computes in; what that is on a GPU too, if it follows from the device.
fn dtype(neural: &Neural) -> String {
    match neural.dtype {
        Some(dtype) => dtype.to_string(),
        None => {
            let [cpu, gpu] = [true, false].map(|cpu| neural.dtype_on(cpu));
            if cpu == gpu {
                cpu.to_string()
            } else {
                format!("{cpu}, on a GPU {gpu}")
            }
        }
    }
}

fn drafter_line(drafter: &Drafter) -> String {
    match drafter {
        Drafter::Neural {
            model, branching, ..
        } => format!("{}{}", neural(model), branches(branching)),
        statistical => format!("{} (statistical)", statistical.name()),
    }
}

fn branches(branching: &Branching) -> String {
    if branching.expand == Expand::MostProbable {
        return "; a tree of the most probable nodes".to_owned();
    }
    if branching.widths.iter().all(|&width| width == 1) {
        return String::new();
    }
    let parents = match branching.expand {
        Expand::MainPath | Expand::MostProbable => "the main path node",
        Expand::AllLeaves => "every leaf",
    };
    let siblings = match branching.siblings {
        Siblings::TopK => "the most probable",
        Siblings::WithReplacement => "sampled",
        Siblings::WithoutReplacement => "sampled without replacement",
    };
    format!(
        "; {parents} at each depth has {:?} children, {siblings}",
        branching.widths
    )
}

fn loaded(level: &LevelInfo) -> String {
    match level.parameters {
        0 => format!("loaded     {} from {}", level.name, level.source),
        parameters => format!(
            "loaded     {} from {}: {:.1} M parameters",
            level.name,
            level.source,
            parameters as f64 / 1e6
        ),
    }
}
