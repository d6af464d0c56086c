//! `cascade verify`: whether a configuration is lossless.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use cascade_config::{Assembled, Config};
use cascade_core::{Decoding, Prompt, Sampling, TokenId};
use cascade_engine::{Cascade, Options};
use cascade_eval::lossless::{agreement, rescore, Agreement, Cells, Difference, Rescored};
use cascade_models::DType;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::args::JobArgs;
use crate::job::Job;

/// Exit status of a configuration that is not lossless.
const VIOLATED: u8 = 1;

/// Tokens that are generated beyond those that are compared, so that drafts are deep.
const FURTHER_TOKENS: usize = 5;

/// Violations and near-ties that are printed.
const SHOWN: usize = 10;

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    job: JobArgs,

    /// Generate so many times, going through the prompts again if they are fewer; each prompt once if not given.
    #[arg(long, value_name = "N")]
    generations: Option<usize>,

    /// Give each generation other settings at random: K matrix, lenience, rules, branches, budget, and, greedy, 64 to 128
    /// tokens whatever EOS says. The same seed gives the same settings.
    #[arg(long, value_name = "SEED")]
    random_settings: Option<u64>,

    /// Greedy: logits at most so far apart are a near-tie, which is counted but not held against the cascade. By default
    /// 0.001 in f32, 0.05 in f16 and 0.4 in bf16.
    #[arg(long, value_name = "GAP")]
    tolerance: Option<f32>,

    /// Sampled: samples per prompt.
    #[arg(long, value_name = "N", default_value_t = 5000)]
    samples: u64,

    /// Sampled: tokens of a sample that are compared, jointly.
    #[arg(long, value_name = "N", default_value_t = 3)]
    length: usize,

    /// Sampled: probability of calling a lossless configuration violated, over all prompts together.
    #[arg(long, value_name = "P", default_value_t = 0.001)]
    level: f64,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &VerifyArgs) -> Result<ExitCode> {
    check(args)?;
    let job = Job::new(&args.job)?;
    let assembled = job.assemble()?;
    let verifier = Verifier {
        args,
        job: &job,
        assembled: &assembled,
    };
    let lossless = match job.options.decoding {
        Decoding::Greedy => verifier.greedy()?,
        Decoding::Sampled(sampling) => verifier.sampled(&sampling)?,
    };
    Ok(if lossless {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(VIOLATED)
    })
}

fn check(args: &VerifyArgs) -> Result<()> {
    if args.generations == Some(0) || args.samples == 0 || args.length == 0 {
        bail!("--generations, --samples and --length must be 1 or more");
    }
    if args.tolerance.is_some_and(|gap| gap.is_nan() || gap < 0.0) {
        bail!("--tolerance must be 0 or more");
    }
    if !(args.level > 0.0 && args.level < 1.0) {
        bail!("--level is a probability between 0 and 1");
    }
    Ok(())
}

struct Verifier<'a> {
    args: &'a VerifyArgs,
    job: &'a Job,
    assembled: &'a Assembled,
}

/// One generation's prompt and settings.
struct Trial {
    number: usize,
    config: Config,
    prompt: Prompt,
    cascade: Cascade,
}

impl Verifier<'_> {
    fn trials(&self) -> usize {
        self.args.generations.unwrap_or(self.job.inputs.len())
    }

    fn trial(&self, number: usize) -> Result<Trial> {
        let mut config = self.job.config.clone();
        config.options = self.job.options.clone();
        if let Some(seed) = self.args.random_settings {
            config = config.with_random_settings(seed.wrapping_add(number as u64));
        }
        let cascade = self.assembled.cascade_with(&config)?;
        let input = &self.job.inputs[number % self.job.inputs.len()];
        let prompt = cascade.encode(&input.prompt(&[])?)?;
        Ok(Trial {
            number,
            config,
            prompt,
            cascade,
        })
    }

    fn greedy(&self) -> Result<bool> {
        let tolerance = self
            .args
            .tolerance
            .unwrap_or_else(|| self.default_tolerance());
        let progress = progress(self.trials() as u64);
        let mut findings = Findings::new(tolerance);
        for number in 0..self.trials() {
            let mut trial = self.trial(number)?;
            let tokens = trial
                .generate(&trial.config.options.clone())
                .with_context(|| format!("prompt {}", number + 1))?;
            let mut target = self.assembled.target_session();
            let found = rescore(&mut target, &trial.prompt, &tokens, tolerance)?;
            findings.book(&trial, found);
            progress.inc(1);
        }
        progress.finish_and_clear();
        self.print(&findings, |out| findings.show(out))?;
        Ok(findings.violations.is_empty())
    }

    fn sampled(&self, sampling: &Sampling) -> Result<bool> {
        let trials = self.trials();
        let progress = progress(trials as u64 * self.args.samples);
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
                &mut self.assembled.target_session(),
                &trial.prompt,
                sampling,
                trial.eos(self.assembled),
                self.args.length,
                self.args.samples,
            )?;
            let samples = self.samples(&mut trial, &progress)?;
            let found = agreement(&cells, samples.iter().map(Vec::as_slice));
            // Bonferroni: the level is one for all prompts together.
            let violated = found.p_value < self.args.level / trials as f64;
            report.lossless &= !violated;
            report
                .prompts
                .push(Compared::new(&trial, &cells, found, violated));
        }
        progress.finish_and_clear();
        self.print(&report, |out| report.show(out))?;
        Ok(report.lossless)
    }

    fn samples(&self, trial: &mut Trial, progress: &ProgressBar) -> Result<Vec<Vec<TokenId>>> {
        let first = trial
            .config
            .options
            .seed
            .wrapping_add((trial.number as u64) << 32);
        (0..self.args.samples)
            .map(|i| {
                let options = trial
                    .config
                    .options
                    .clone()
                    .with_max_new_tokens(self.args.length + FURTHER_TOKENS)
                    .with_seed(first.wrapping_add(i))
                    .with_stop(None);
                progress.inc(1);
                let mut tokens = trial.generate(&options)?;
                tokens.truncate(self.args.length);
                Ok(tokens)
            })
            .collect()
    }

    /// From the spacing of logits of about 30, a few roundings apart.
    fn default_tolerance(&self) -> f32 {
        match self.job.config.target.dtype {
            DType::BF16 => 0.4,
            DType::F16 => 0.05,
            _ => 1e-3,
        }
    }

    fn print<T: Serialize>(
        &self,
        report: &T,
        show: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<()> {
        let mut out = std::io::stdout().lock();
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

    fn eos<'e>(&self, assembled: &'e Assembled) -> &'e [TokenId] {
        if self.config.ignore_eos {
            &[]
        } else {
            assembled.eos()
        }
    }
}

fn progress(length: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {elapsed} (about {eta} left)");
    ProgressBar::new(length).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// What re-scoring found, over all generations.
#[derive(Serialize)]
struct Findings {
    mode: &'static str,
    lossless: bool,
    generations: usize,
    tokens: usize,
    agreements: usize,
    /// Logits at most so far apart are a near-tie.
    tolerance: f32,
    /// The smallest lead of a greatest logit over the next.
    smallest_lead: f32,
    near_ties: Vec<Finding>,
    violations: Vec<Finding>,
}

#[derive(Serialize)]
struct Finding {
    /// Number of the generation, from 0.
    generation: usize,
    position: usize,
    emitted: TokenId,
    expected: TokenId,
    gap: f32,
    settings: String,
}

impl Findings {
    fn new(tolerance: f32) -> Self {
        Self {
            mode: "greedy",
            lossless: true,
            generations: 0,
            tokens: 0,
            agreements: 0,
            tolerance,
            smallest_lead: f32::INFINITY,
            near_ties: Vec::new(),
            violations: Vec::new(),
        }
    }

    fn book(&mut self, trial: &Trial, found: Rescored) {
        let finding = |difference: Difference| Finding {
            generation: trial.number,
            position: difference.position,
            emitted: difference.emitted,
            expected: difference.expected,
            gap: difference.gap,
            settings: trial.config.settings(),
        };
        self.generations += 1;
        self.tokens += found.tokens;
        self.agreements += found.agreements;
        self.smallest_lead = self.smallest_lead.min(found.smallest_lead);
        self.near_ties
            .extend(found.near_ties.into_iter().map(finding));
        self.violations
            .extend(found.violations.into_iter().map(finding));
        self.lossless = self.violations.is_empty();
    }

    fn show(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(
            out,
            "greedy: {} generations, {} tokens re-scored by the plain target: {} agree, {} near-ties (logits at most {} \
             apart), {} violations",
            self.generations,
            self.tokens,
            self.agreements,
            self.near_ties.len(),
            self.tolerance,
            self.violations.len()
        )?;
        writeln!(
            out,
            "the smallest lead of a most probable token over the next was {:.1e}",
            self.smallest_lead
        )?;
        for (what, findings) in [
            ("near-tie", &self.near_ties),
            ("violation", &self.violations),
        ] {
            for finding in findings.iter().take(SHOWN) {
                writeln!(
                    out,
                    "{what}: generation {}, token {}: {} emitted, {} expected, gap {}; {}",
                    finding.generation + 1,
                    finding.position + 1,
                    finding.emitted,
                    finding.expected,
                    finding.gap,
                    finding.settings
                )?;
            }
            if findings.len() > SHOWN {
                writeln!(out, "… and {} more", findings.len() - SHOWN)?;
            }
        }
        writeln!(out, "{}", verdict(self.lossless))
    }
}

/// What comparing samples found, prompt by prompt.
#[derive(Serialize)]
struct Comparisons {
    mode: &'static str,
    lossless: bool,
    /// Over all prompts together.
    level: f64,
    /// Tokens compared jointly.
    length: usize,
    prompts: Vec<Compared>,
}

#[derive(Serialize)]
struct Compared {
    violated: bool,
    samples: u64,
    cells: usize,
    /// Of the target, to enumerate its distribution.
    forwards: usize,
    chi_square: f64,
    degrees_of_freedom: usize,
    p_value: f64,
    total_variation: f64,
    /// Limits of the true distance over the cells, at a confidence of 95%.
    total_variation_at_least: f64,
    total_variation_at_most: f64,
    /// A sample that the target never gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    impossible: Option<Vec<TokenId>>,
    settings: String,
}

impl Compared {
    fn new(trial: &Trial, cells: &Cells, found: Agreement, violated: bool) -> Self {
        Self {
            violated,
            samples: found.samples,
            cells: found.cells,
            forwards: cells.forwards(),
            chi_square: found.statistic,
            degrees_of_freedom: found.degrees_of_freedom,
            p_value: found.p_value,
            total_variation: found.total_variation,
            total_variation_at_least: found.at_least,
            total_variation_at_most: found.at_most,
            impossible: found.impossible,
            settings: trial.config.settings(),
        }
    }
}

impl Comparisons {
    fn show(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(
            out,
            "sampled: the first {} tokens, jointly, against the target's enumerated distribution",
            self.length
        )?;
        for (number, prompt) in self.prompts.iter().enumerate() {
            writeln!(
                out,
                "prompt {}: {} samples in {} cells; chi-square {:.1} with {} degrees of freedom, p = {:.3}; total variation \
                 {:.4}, true distance {:.4} to {:.4} (95%)",
                number + 1,
                prompt.samples,
                prompt.cells,
                prompt.chi_square,
                prompt.degrees_of_freedom,
                prompt.p_value,
                prompt.total_variation,
                prompt.total_variation_at_least,
                prompt.total_variation_at_most
            )?;
            if prompt.violated {
                writeln!(out, "violation: {}", prompt.settings)?;
            }
            if let Some(tokens) = &prompt.impossible {
                writeln!(out, "the target never says {tokens:?}")?;
            }
        }
        writeln!(out, "{}", verdict(self.lossless))
    }
}

fn verdict(lossless: bool) -> &'static str {
    if lossless {
        "lossless"
    } else {
        "NOT LOSSLESS"
    }
}
