//! `cascade check-lossless`: whether a configuration is lossless.

mod greedy;
mod random_settings;
mod sampled;

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use cascade_config::{Config, ModelPool};
use cascade_core::{Decoding, Prompt, Sampling, TokenId};
use cascade_engine::{Cascade, Options};
use cascade_eval::lossless::{agreement, rescore, Cells, Tolerance};
use cascade_models::{DType, LoadedModel};
use clap::Args;
use serde::Serialize;

use self::greedy::Findings;
use self::random_settings::with_random_settings;
use self::sampled::{Compared, Comparisons};
use crate::args::JobArgs;
use crate::job::Job;
use crate::progress::Progress;
use crate::{interrupt, terminal};

/// Exit status of a configuration that is not lossless.
const VIOLATED: u8 = 1;

/// Tokens generated beyond those that are compared, so that drafts are deep.
const FURTHER_TOKENS: usize = 5;

#[derive(Debug, Args)]
pub(crate) struct CheckLosslessArgs {
    #[command(flatten)]
    job: JobArgs,

    /// Number of generations, cycling through the prompts [default: one per prompt].
    #[arg(long, value_name = "N")]
    generations: Option<usize>,

    /// Randomise the settings of each generation: K matrix, lenience, rules, branching and node
    /// budget; if greedy, also 64 to 128 new tokens, ignoring EOS. The same seed gives the same
    /// settings.
    #[arg(long, value_name = "SEED")]
    random_settings: Option<u64>,

    /// Greedy: logits at most this far apart are a near-tie, which is counted but is not a
    /// violation [default: 4 ε times the greatest absolute logit of the row, at least 0.001, where
    /// ε is 2⁻²³ in f32, 2⁻¹⁰ in f16 and 2⁻⁷ in bf16].
    #[arg(long, value_name = "GAP", allow_negative_numbers = true)]
    tolerance: Option<f32>,

    /// Sampled: samples per prompt.
    #[arg(long, value_name = "N", default_value_t = 5000)]
    samples: u64,

    /// Sampled: tokens per sample, compared jointly.
    #[arg(long, value_name = "N", default_value_t = 3)]
    length: usize,

    /// Sampled: significance level over all prompts together, the probability of reporting a
    /// violation for a lossless configuration.
    #[arg(long, value_name = "P", default_value_t = 0.001)]
    level: f64,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &CheckLosslessArgs) -> Result<ExitCode> {
    check(args)?;
    let job = Job::new(&args.job)?;
    refuse_lossy(&job)?;
    let pool = job.pool();
    job.assemble(&pool)?;
    let checker = Checker {
        args,
        job: &job,
        target: pool.target(&job.config)?,
        pool,
    };
    let lossless = match job.options().decoding {
        Decoding::Greedy => checker.greedy()?,
        Decoding::Sampled(sampling) => checker.sampled(&sampling)?,
    };
    Ok(if lossless {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(VIOLATED)
    })
}

fn check(args: &CheckLosslessArgs) -> Result<()> {
    if args.generations == Some(0) || args.samples == 0 || args.length == 0 {
        bail!("--generations, --samples and --length must be 1 or more");
    }
    if let Some(gap) = args.tolerance.filter(|gap| !gap.is_finite() || *gap < 0.0) {
        bail!("--tolerance {gap} is no gap between two logits; give a finite number of 0 or more");
    }
    if !(args.level > 0.0 && args.level < 1.0) {
        bail!("--level must be between 0 and 1");
    }
    Ok(())
}

/// What is lossy by its settings needs no check.
fn refuse_lossy(job: &Job) -> Result<()> {
    match job.config.generation.lossy {
        Some(budget) if !job.options().is_lossless() => bail!(
            "the output is lossy, as it was asked for: each token may be {budget} from the target's distribution, in \
             total variation; leave out `generation.lossy` and --lossy to check the rest"
        ),
        _ => Ok(()),
    }
}

struct Checker<'a> {
    args: &'a CheckLosslessArgs,
    job: &'a Job,
    target: Arc<LoadedModel>,
    pool: ModelPool,
}

/// The prompt and settings of one generation.
struct Trial {
    number: usize,
    config: Config,
    prompt: Prompt,
    cascade: Cascade,
    /// The tokens that end an answer.
    eos: Vec<TokenId>,
}

impl Checker<'_> {
    fn trials(&self) -> usize {
        self.args.generations.unwrap_or(self.job.inputs.len())
    }

    fn trial(&self, number: usize) -> Result<Trial> {
        let mut config = self.job.config.clone();
        if let Some(seed) = self.args.random_settings {
            config = with_random_settings(&config, seed.wrapping_add(number as u64))?;
        }
        let cascade = self.job.assemble_as(&self.pool, &config)?.cascade;
        let eos = self.job.end_tokens(&self.pool, &config)?;
        let input = &self.job.inputs[number % self.job.inputs.len()];
        let prompt = input.prompt(&[])?.encode(&cascade)?;
        Ok(Trial {
            number,
            config,
            prompt,
            cascade,
            eos,
        })
    }

    fn greedy(&self) -> Result<bool> {
        let tolerance = match self.args.tolerance {
            Some(gap) => Tolerance::fixed(gap),
            None => Tolerance::of_rounding(epsilon(self.target.dtype)),
        };
        let mut progress = Progress::new(self.trials(), "generations");
        let mut findings = Findings::default();
        let so_far = say_if_interrupted("generations", self.trials());
        for number in 0..self.trials() {
            let mut trial = self.trial(number)?;
            let tokens = trial
                .generate(&trial.config.generation.options())
                .with_context(|| format!("prompt {}", number + 1))?;
            let mut target = self.target.session();
            let found = rescore(&mut target, &trial.prompt, &tokens, tolerance)?;
            findings.add(&trial, found);
            progress.step();
            so_far.done(findings.violations.len());
        }
        drop(progress);
        self.print(&findings, |out| findings.show(out))?;
        Ok(findings.violations.is_empty())
    }

    fn sampled(&self, sampling: &Sampling) -> Result<bool> {
        let trials = self.trials();
        let samples = usize::try_from(self.args.samples).unwrap_or(usize::MAX);
        let mut progress = Progress::new(trials.saturating_mul(samples), "samples");
        let so_far = say_if_interrupted("prompts", trials);
        let mut report = Comparisons {
            mode: "sampled",
            lossless: true,
            level: self.args.level,
            length: self.args.length,
            prompts: Vec::with_capacity(trials),
        };
        for number in 0..trials {
            let mut trial = self.trial(number)?;
            let cells = Cells::new(
                &mut self.target.session(),
                &trial.prompt,
                sampling,
                &trial.eos,
                self.args.length,
                self.args.samples,
            )?;
            let samples = self.samples(&mut trial, &mut progress)?;
            let found = agreement(&cells, samples.iter().map(Vec::as_slice));
            // Bonferroni correction: the level holds for all prompts together.
            let violated = found.p_value < self.args.level / trials as f64;
            report.lossless &= !violated;
            report
                .prompts
                .push(Compared::new(&trial, &cells, found, violated));
            so_far.done(
                report
                    .prompts
                    .iter()
                    .filter(|prompt| prompt.violated)
                    .count(),
            );
        }
        drop(progress);
        self.print(&report, |out| report.show(out))?;
        Ok(report.lossless)
    }

    fn samples(&self, trial: &mut Trial, progress: &mut Progress) -> Result<Vec<Vec<TokenId>>> {
        let first = trial
            .config
            .generation
            .seed
            .wrapping_add((trial.number as u64) << 32);
        (0..self.args.samples)
            .map(|i| {
                let options = trial
                    .config
                    .generation
                    .options()
                    .with_max_new_tokens(self.args.length + FURTHER_TOKENS)
                    .with_seed(first.wrapping_add(i))
                    .with_stop(None);
                progress.step();
                let mut tokens = trial.generate(&options)?;
                tokens.truncate(self.args.length);
                Ok(tokens)
            })
            .collect()
    }

    fn print<T: Serialize>(
        &self,
        report: &T,
        show: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<()> {
        let mut out = terminal::stdout();
        if self.args.json {
            serde_json::to_writer(&mut out, report)?;
            writeln!(out)?;
        } else {
            show(&mut out)?;
        }
        Ok(())
    }
}

impl Trial {
    fn generate(&mut self, options: &Options) -> Result<Vec<TokenId>> {
        let generation = self.cascade.generate_tokens(&self.prompt, options)?;
        Ok(generation.tokens)
    }
}

/// The distance from 1 to the next number of a data type.
fn epsilon(dtype: DType) -> f32 {
    match dtype {
        DType::BF16 => 0.5_f32.powi(7),
        DType::F16 => 0.5_f32.powi(10),
        _ => f32::EPSILON,
    }
}

/// How far a check is, for Ctrl-C.
#[derive(Clone, Default)]
struct SoFar {
    done: Arc<AtomicUsize>,
    violations: Arc<AtomicUsize>,
}

impl SoFar {
    fn done(&self, violations: usize) {
        self.done.fetch_add(1, Relaxed);
        self.violations.store(violations, Relaxed);
    }
}

fn say_if_interrupted(unit: &'static str, trials: usize) -> SoFar {
    let so_far = SoFar::default();
    let shown = so_far.clone();
    interrupt::on_interrupt(move || {
        format!(
            "{} of {trials} {unit} checked, {} violations so far; there is nothing to resume, and \
             no verdict",
            shown.done.load(Relaxed),
            shown.violations.load(Relaxed)
        )
    });
    so_far
}

fn verdict(lossless: bool) -> &'static str {
    if lossless {
        "lossless"
    } else {
        "NOT LOSSLESS"
    }
}
