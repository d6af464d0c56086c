//! `cascade check-lossless`: whether a configuration is lossless.

mod certificate;
mod show;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use anyhow::{Result, bail};
use cascade_config::ModelPool;
use cascade_core::{Decoding, Sampling, seed_of};
use cascade_engine::Rule;
use cascade_eval::lossless::{Comparisons, Findings, Tolerance, Trial, with_random_settings};
use cascade_models::LoadedModel;
use clap::Args;
use serde::Serialize;

use crate::args::JobArgs;
use crate::exit::ExitCode;
use crate::job::Job;
use crate::progress::Progress;
use crate::{interrupt, terminal};

/// Exit status of a configuration that is not lossless.
const VIOLATED: u8 = 1;

/// Samples per prompt.
const SAMPLES: u64 = 5000;

#[derive(Debug, Args)]
pub(crate) struct CheckLosslessArgs {
    #[command(flatten)]
    job: JobArgs,

    /// Number of generations, cycling through the prompts [default: one per prompt].
    #[arg(long, value_name = "N")]
    generations: Option<usize>,

    /// Randomise the settings of each generation: K matrix, lenience, rules that draw, branching,
    /// node budget, stop rules and schedule; if tokens are re-scored, also 64 to 128 new tokens,
    /// ignoring EOS, and if they are sampled, also a temperature from 0.3 to 1.5, top-k, top-p and
    /// min-p. The same seed gives the same settings.
    #[arg(long, value_name = "SEED")]
    random_settings: Option<u64>,

    /// Logits at most this far apart are a near-tie, which is counted but is not a violation, where
    /// tokens are re-scored [default: 0 on a CPU, where a row has the same bits beside any others;
    /// elsewhere 4 ε times the greatest absolute logit of the row, at least 0.001, where ε is 2⁻²³
    /// in f32, 2⁻¹⁰ in f16 and 2⁻⁷ in bf16].
    #[arg(long, value_name = "GAP", allow_negative_numbers = true)]
    tolerance: Option<f32>,

    /// Sampled: test the distribution of so many samples per prompt, instead of re-scoring tokens
    /// and comparing them with plain decoding of the same seed [default: 5000 for rules other than
    /// coupled, whose tokens differ from plain decoding].
    #[arg(long, value_name = "N")]
    samples: Option<u64>,

    /// With samples: tokens per sample, compared jointly.
    #[arg(long, value_name = "N", default_value_t = 3)]
    length: usize,

    /// With samples: significance level over all prompts together, the probability of reporting a
    /// violation for a lossless configuration.
    #[arg(long, value_name = "P", default_value_t = 0.001)]
    level: f64,

    /// Certify that token ids and the bits of log probabilities are those of plain decoding: with
    /// drafts, beside 31 others in shared forwards, after a prefix that is read, cached or another
    /// session's, by 1 to all threads, greedy and by seed. Written to FILE as JSON, if there is
    /// one. Without a prompt, asks word problems.
    #[arg(
        long,
        value_name = "FILE.json",
        num_args = 0..=1,
        conflicts_with_all = ["generations", "random_settings", "tolerance", "samples"]
    )]
    certificate: Option<Option<PathBuf>>,

    /// With --certificate: tokens to compare. Texts have up to 128, or --max-new-tokens.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 20_000,
        requires = "certificate"
    )]
    tokens: u64,

    /// With --certificate: begin nothing more after so many seconds [default: no limit].
    #[arg(long, value_name = "N", requires = "certificate")]
    seconds: Option<u64>,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(mut args: CheckLosslessArgs) -> Result<ExitCode> {
    if let Some(file) = args.certificate.take() {
        return certificate::run(args, file);
    }
    let args = &args;
    check(args)?;
    let job = Job::new(&args.job)?;
    let pool = job.pool();
    job.assemble(&pool)?;
    let checker = Checker {
        args,
        job: &job,
        target: pool.target(&job.config)?,
        pool,
    };
    let lossless = match (job.options().decoding, args.samples) {
        (Decoding::Greedy, Some(_)) => {
            bail!("--samples has no effect at temperature 0; also give --temperature")
        }
        (Decoding::Greedy, None) => checker.re_scored()?,
        (Decoding::Sampled(_), None) if job.config.target.rule == Rule::Coupled => {
            checker.re_scored()?
        }
        (Decoding::Sampled(sampling), samples) => {
            checker.sampled(&sampling, samples.unwrap_or(SAMPLES))?
        }
    };
    Ok(if lossless {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(VIOLATED)
    })
}

fn check(args: &CheckLosslessArgs) -> Result<()> {
    if args.generations == Some(0) || args.samples == Some(0) || args.length == 0 {
        bail!("--generations, --samples and --length must be 1 or more");
    }
    if let Some(gap) = args.tolerance.filter(|gap| !gap.is_finite() || *gap < 0.0) {
        bail!(
            "--tolerance {gap} is not a gap between two logits; give a finite number of 0 or more"
        );
    }
    if !(args.level > 0.0 && args.level < 1.0) {
        bail!("--level must be between 0 and 1");
    }
    Ok(())
}

struct Checker<'a> {
    args: &'a CheckLosslessArgs,
    job: &'a Job,
    target: Arc<LoadedModel>,
    pool: ModelPool,
}

impl Checker<'_> {
    fn trials(&self) -> usize {
        self.args.generations.unwrap_or(self.job.inputs.len())
    }

    fn trial(&self, number: usize) -> Result<Trial> {
        let mut config = self.job.config.clone();
        if let Some(seed) = self.args.random_settings {
            let of_sampling = self.args.samples.is_none();
            config = with_random_settings(&config, seed_of(seed, number as u64), of_sampling)?;
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

    /// Re-scores every token by the target alone.
    fn re_scored(&self) -> Result<bool> {
        let mut progress = Progress::new(self.trials(), "generations");
        let mut findings = Findings::new(self.job.options().decoding);
        let so_far = say_if_interrupted("generations", self.trials());
        let tolerance = match self.args.tolerance {
            Some(gap) => Tolerance::fixed(gap),
            None if self.target.model.is_row_invariant() => Tolerance::fixed(0.0),
            None => Tolerance::of_type(self.target.dtype),
        };
        for number in 0..self.trials() {
            let mut trial = self.trial(number)?;
            findings.check(&mut trial, || self.target.session(), tolerance)?;
            progress.step();
            so_far.done(findings.violations.len());
        }
        drop(progress);
        self.print(&findings, |out| show::findings(out, &findings))?;
        Ok(findings.lossless)
    }

    fn sampled(&self, sampling: &Sampling, samples: u64) -> Result<bool> {
        let trials = self.trials();
        let all = usize::try_from(samples).unwrap_or(usize::MAX);
        let mut progress = Progress::new(trials.saturating_mul(all), "samples");
        let so_far = say_if_interrupted("prompts", trials);
        let mut report = Comparisons::new(self.args.level, self.args.length);
        for number in 0..trials {
            let mut trial = self.trial(number)?;
            let mut target = self.target.session();
            let draws = (sampling, samples);
            report.check(&mut trial, &mut target, draws, trials, || progress.step())?;
            so_far.done(report.violations());
        }
        drop(progress);
        self.print(&report, |out| show::comparisons(out, &report))?;
        Ok(report.lossless)
    }

    fn print<T: Serialize>(
        &self,
        report: &T,
        show: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<()> {
        let mut out = terminal::stdout();
        if self.args.json {
            terminal::write_json(&mut out, report)?;
        } else {
            show(&mut out)?;
        }
        Ok(())
    }
}

/// How far a check is, for Ctrl-C: trials that are done, and violations.
#[derive(Clone, Default)]
struct SoFar(Arc<[AtomicUsize; 2]>);

impl SoFar {
    fn done(&self, violations: usize) {
        self.0[0].fetch_add(1, Relaxed);
        self.0[1].store(violations, Relaxed);
    }
}

fn say_if_interrupted(unit: &'static str, trials: usize) -> SoFar {
    let so_far = SoFar::default();
    let shown = so_far.clone();
    interrupt::on_interrupt(move || {
        let [done, violations] = shown.0.each_ref().map(|count| count.load(Relaxed));
        format!(
            "{done} of {trials} {unit} checked, {violations} violations so far; there is nothing \
             to resume, and no verdict"
        )
    });
    so_far
}
