//! Running the variants of an experiment over its prompts.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use cascade_config::{AssembleOptions, Config, CostFile};
use cascade_core::{Decoding, TokenId};
use cascade_engine::{Cascade, GenerationOutput, Options};
use cascade_models::{Participant, Tokenizer, Workers};
use cascade_traces::trace::Trace;

use crate::models::Models;
use crate::plan::Plan;
use crate::prompts::{Choice, Prompts, Ready};
use crate::record::{Difference, Run, Walltime};
use crate::report::{Evidence, Sha256};
use crate::results::{COSTS, Lines, Results, refuse_others, write_forward_seconds};
use crate::sampled::SamplingSetting;
use crate::samples::{self, Sampled, Samples};
use crate::trained::TrainedRules;
use crate::variant::Variant;
use crate::{Definition, Error, ErrorKind, ExperimentKind, Result};

/// A part of an experiment's prompts: their numbers leave the remainder `part` when divided by
/// `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    part: usize,
    of: usize,
}

impl Default for Shard {
    /// All prompts.
    fn default() -> Self {
        Self { part: 0, of: 1 }
    }
}

impl Shard {
    fn has(self, prompt: usize) -> bool {
        prompt % self.of == self.part
    }
}

/// `i/n`, from 1.
impl FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            let problem = "is not a shard; give i/n with i from 1 to n, such as 1/4";
            Error::new(ErrorKind::Request, format!("`{text}` {problem}"))
        };
        let (part, of) = text.split_once('/').ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        let (part, of) = (number(part)?, number(of)?);
        if 1 <= part && part <= of {
            Ok(Self { part: part - 1, of })
        } else {
            Err(wrong())
        }
    }
}

/// An experiment with its models loaded and its prompts read.
pub struct Experiment {
    models: Models,
    plan: Plan,
    kind: ExperimentKind,
    decoding: Decoding,
    variants: Vec<Variant>,
    ready: Vec<Ready>,
}

/// A generation and the seconds that it took, whatever clock it read.
struct Timed {
    output: GenerationOutput,
    seconds: f64,
}

/// Generations by variant.
type Answers = BTreeMap<usize, Timed>;

/// What is left to do with a prompt.
struct Work {
    prompt: usize,
    /// Variants without a record.
    missing: Vec<usize>,
    /// Whether all answers are kept as a sample.
    sample: bool,
}

impl Work {
    fn is_left(&self) -> bool {
        self.sample || !self.missing.is_empty()
    }
}

impl Experiment {
    /// Loads the models of a configuration and reads the datasets.
    ///
    /// # Errors
    /// Models and datasets that cannot be read; datasets, drafters or a sampling that the
    /// experiment does not have.
    pub fn prepare(
        definition: &Definition,
        config: &Config,
        options: &AssembleOptions,
        choice: &Choice,
    ) -> Result<Self> {
        let sampling = choice.sampled.then(|| {
            definition.sampled.ok_or_else(|| {
                let problem = "decodes greedily, as its paper does; leave --sampled out";
                Error::request(&definition.name, problem)
            })
        });
        let sampling = sampling.transpose()?;
        let rules = TrainedRules::read(definition, choice.rules.as_deref())?;
        let models = Models::load(definition, config, options, None, rules.clone())?
            .with_costs(&choice.costs)?;
        let prompts = Prompts::read(definition, choice, &models)?;
        let (label, all) = (&config.label, (models, rules));
        Self::new(definition, label, (choice, sampling), all, prompts)
    }

    /// Prepares a replay of a recording of the target. With its tokenizer, samples in reports have
    /// text; without, token ids.
    ///
    /// # Errors
    /// What [`prepare`](Self::prepare) fails with; a tokenizer that is not the recorded target's.
    pub fn prepare_replay(
        definition: &Definition,
        config: &Config,
        options: &AssembleOptions,
        choice: &Choice,
        recorded: (Arc<Trace>, Option<Tokenizer>),
    ) -> Result<Self> {
        let definition = &definition.clone().on_recording();
        let rules = TrainedRules::read(definition, choice.rules.as_deref())?;
        let trace = &recorded.0;
        let prompts = Prompts::of_trace(definition, choice, trace);
        let label = trace.label.clone();
        let sampling = trace.header.sampling();
        let sampling = sampling.map(SamplingSetting::of_recording).transpose()?;
        let models = Models::load(definition, config, options, Some(recorded), rules.clone())?
            .with_costs(&choice.costs)?;
        let all = (models, rules);
        Self::new(definition, &label, (choice, sampling), all, prompts)
    }

    fn new(
        definition: &Definition,
        label: &str,
        (choice, sampling): (&Choice, Option<SamplingSetting>),
        (models, rules): (Models, TrainedRules),
        prompts: Prompts,
    ) -> Result<Self> {
        let models = models.sampling(sampling.is_some());
        let decoding = decoding(label, sampling)?;
        let mut plan = Plan {
            name: definition.name.clone(),
            definition: definition.text.clone(),
            models_from: label.to_owned(),
            models: models.planned()?,
            max_gram: models.max_gram_options(),
            evidence: models.evidence(),
            suites: prompts.suites,
            left_out: prompts.left_out,
            cut: prompts.cut,
            seed: choice.seed,
            max_new_tokens: definition.max_new_tokens,
            sampling,
            rules: rules.planned,
            costs: choice.costs.iter().map(planned).collect(),
            variants: 0,
        };
        let variants = plan.variants_of(definition)?;
        plan.variants = variants.len();
        Ok(Self {
            kind: definition.kind,
            decoding,
            models,
            plan,
            variants,
            ready: prompts.ready,
        })
    }

    /// What the results depend on.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Number of prompts of a shard.
    pub fn prompts(&self, shard: Shard) -> usize {
        (0..self.ready.len())
            .filter(|&prompt| shard.has(prompt))
            .count()
    }

    /// Runs what is missing in a folder of results, and calls `on_prompt` after each prompt.
    ///
    /// All cascades answer a prompt one after the other, and each prompt starts with another of
    /// them, so that a drift of the machine's speed favours none. Of `texts` that are answered at a
    /// time no walltimes are kept: they would be those of shared forwards. All other results are
    /// the same.
    ///
    /// # Errors
    /// A folder that has records already, unless `resume`; another
    /// experiment's folder; models that fail; a folder that cannot be written.
    pub fn run(
        &self,
        folder: &Path,
        shard: Shard,
        resume: bool,
        texts: NonZeroUsize,
        mut on_prompt: impl FnMut(),
    ) -> Result<()> {
        let mut files = self.open(folder, resume)?;
        let work = self.work(shard, &files);
        let (work, done): (Vec<Work>, Vec<Work>) = work.into_iter().partition(Work::is_left);
        done.iter().for_each(|_| on_prompt());
        if texts.get() > 1 {
            return self.answer_together(&work, texts, &mut files, on_prompt);
        }
        if let Some(first) = work.first() {
            self.warm_up(first.prompt)?;
        }
        for work in &work {
            let generations = self.answer(work, None)?;
            self.keep_times(work, &generations, &mut files)?;
            self.keep(work, &generations, &mut files)?;
            on_prompt();
        }
        Ok(())
    }

    /// Opens a folder of results, which then has the plan and what forwards cost.
    fn open(&self, folder: &Path, resume: bool) -> Result<Files> {
        refuse_others(folder)?;
        let results = Results::open(folder, self.plan.contents())?;
        if !resume && !results.is_empty() {
            return Err(Error::not_resumed(folder));
        }
        self.plan.save(folder)?;
        self.measure_forwards(folder)?;
        Ok(Files {
            results,
            walltimes: Lines::of_times(folder)?,
            samples: Samples::open(folder)?,
        })
    }

    /// The prompts of a shard, with what is left to do.
    fn work(&self, shard: Shard, files: &Files) -> Vec<Work> {
        let kept = samples::kept(&self.plan);
        let prompts = (0..self.ready.len()).filter(|&prompt| shard.has(prompt));
        let work = prompts.map(|prompt| Work {
            prompt,
            missing: self.missing(&files.results, prompt),
            sample: kept.contains(&prompt) && !files.samples.contains(prompt),
        });
        work.collect()
    }

    /// Answers so many prompts at a time, and keeps answers in the order of the prompts.
    fn answer_together(
        &self,
        work: &[Work],
        texts: NonZeroUsize,
        files: &mut Files,
        mut on_prompt: impl FnMut(),
    ) -> Result<()> {
        let mut workers = Workers::new(texts, |with| Result::Ok(with.clone()))?;
        let mut kept = Ok(());
        workers.for_each(
            work,
            |with, work| (work.prompt, self.answer(work, Some(&*with))),
            |(prompt, generations)| {
                let of_prompt = work.iter().find(|work| work.prompt == prompt);
                kept = generations.and_then(|generations| match of_prompt {
                    Some(work) => self.keep(work, &generations, files),
                    None => Ok(()),
                });
                on_prompt();
                match kept {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            },
        );
        kept
    }

    /// Variants that have no record of a prompt yet.
    fn missing(&self, results: &Results, prompt: usize) -> Vec<usize> {
        let index = |variant: usize| (prompt * self.variants.len() + variant) as u64;
        (0..self.variants.len())
            .filter(|&variant| !results.contains(index(variant)))
            .collect()
    }

    /// Plain decoding and the last variant, untimed: caches and clocks.
    fn warm_up(&self, prompt: usize) -> Result<()> {
        // An oracle needs the answer.
        let drafts = self.variants.iter().rfind(|variant| !variant.is_oracle());
        for variant in [self.variants.first(), drafts].into_iter().flatten() {
            self.generate(prompt, variant, None, None)?;
        }
        Ok(())
    }

    /// Keeps how long answers took, if there is one of each variant. A replay has no target to
    /// time.
    fn keep_times(&self, work: &Work, answers: &Answers, files: &mut Files) -> Result<()> {
        let all = answers.len() == self.variants.len();
        if !all || self.plan.evidence != Evidence::Measured {
            return Ok(());
        }
        let seconds = answers.values().map(|timed| timed.seconds);
        files.walltimes.append(&Walltime {
            prompt: work.prompt as u64,
            seconds: seconds.collect(),
        })
    }

    /// Keeps what is missing of the answers to a prompt.
    fn keep(&self, work: &Work, generations: &Answers, files: &mut Files) -> Result<()> {
        let Work {
            prompt,
            ref missing,
            sample,
        } = *work;
        let ready = &self.ready[prompt];
        let recorded = ready.recorded.as_ref().map(|recorded| &recorded.tokens);
        let plain = recorded.unwrap_or(&generations[&0].output.tokens);
        for &variant in missing {
            let run = self.record(prompt, variant, &generations[&variant].output, plain)?;
            files.results.append(run)?;
        }
        if sample {
            let all: Vec<&GenerationOutput> = generations.values().map(|t| &t.output).collect();
            let tokenizer = self.models.tokenizer();
            let sampled = Sampled::new(prompt, ready, plain, &all, tokenizer)?;
            files.samples.insert(sampled)?;
        }
        Ok(())
    }

    /// The record of a variant's answer.
    fn record(
        &self,
        prompt: usize,
        variant: usize,
        generation: &GenerationOutput,
        plain: &[TokenId],
    ) -> Result<Run> {
        let mut run = Run::new(
            &self.plan,
            prompt,
            (variant, &self.variants[variant]),
            (generation, self.ready[prompt].is_complete(generation)),
        );
        if self.kind == ExperimentKind::Lengths {
            run = run.with_lengths(generation);
        }
        run.differs = self.difference(prompt, plain, &generation.tokens)?;
        Ok(run)
    }

    /// What the variants say that are missing, or all if a sample is to be kept, and always the
    /// first, which the others are compared with.
    fn answer(&self, work: &Work, with: Option<&Participant>) -> Result<Answers> {
        let (count, prompt) = (self.variants.len(), work.prompt);
        let turns = (0..count).map(|turn| (turn + prompt) % count);
        let wanted = |variant: &usize| work.sample || work.missing.contains(variant);
        let turns = turns.filter(|variant| *variant == 0 || wanted(variant));
        // What knows the answer comes when there is one.
        let (oracles, others): (Vec<usize>, Vec<usize>) =
            turns.partition(|&variant| self.variants[variant].is_oracle());
        let mut generations = Answers::new();
        for variant in others.into_iter().chain(oracles) {
            let plain = generations.get(&0).map(|plain| plain.output.tokens.clone());
            let variant_of = &self.variants[variant];
            let generation = self.generate(prompt, variant_of, plain.as_deref(), with)?;
            generations.insert(variant, generation);
        }
        Ok(generations)
    }

    /// Answers a prompt; `plain` is plain decoding's answer, which only an oracle looks at.
    fn generate(
        &self,
        prompt: usize,
        variant: &Variant,
        plain: Option<&[TokenId]>,
        with: Option<&Participant>,
    ) -> Result<Timed> {
        let ready = &self.ready[prompt];
        let options = Options::default()
            .with_max_new_tokens(ready.max_new_tokens)
            .with_decoding(self.decoding)
            .with_seed(ready.seed);
        let generate = |cascade: &mut Cascade| {
            let generation = cascade.generate_tokens(&ready.prompt, &options);
            generation.map_err(|source| {
                let asked = self.plan.asked(prompt).1;
                Error::caused(format!("{}, prompt {}", variant.id, asked.id), source)
            })
        };
        let mut cascade = if variant.is_oracle() {
            let recorded = ready.recorded.as_ref();
            let said = recorded
                .map(|recorded| recorded.tokens.as_slice())
                .or(plain);
            self.models
                .oracle(variant, said.unwrap_or_default(), generate)?
        } else {
            self.models.cascade(variant, with)?
        };
        let started = Instant::now();
        let output = generate(&mut cascade)?;
        let seconds = started.elapsed().as_secs_f64();
        Ok(Timed { output, seconds })
    }

    fn difference(
        &self,
        prompt: usize,
        plain: &[TokenId],
        other: &[TokenId],
    ) -> Result<Option<Difference>> {
        let at = plain.iter().zip(other).take_while(|(a, b)| a == b).count();
        let gap = match (plain.get(at), other.get(at)) {
            (None, None) => return Ok(None),
            (Some(&said), Some(&instead)) => {
                self.models
                    .gap(&self.ready[prompt].prompt, &plain[..at], said, instead)?
            }
            _ => None,
        };
        Ok(Some(Difference { at: at as u64, gap }))
    }

    /// Measures what forwards cost, unless the folder knows.
    fn measure_forwards(&self, folder: &Path) -> Result<()> {
        if folder.join(COSTS).exists() {
            return Ok(());
        }
        let times = self.models.forward_times()?.into_iter();
        let seconds = times.map(|(place, time)| (place, time.as_secs_f64()));
        write_forward_seconds(folder, &seconds.collect())
    }
}

/// Greedy unless it is sampled.
fn decoding(label: &str, sampling: Option<SamplingSetting>) -> Result<Decoding> {
    let decoding = sampling
        .map(SamplingSetting::decoding)
        .transpose()
        .map_err(|problem| {
            let problem = format!("{problem}; give other settings");
            Error::at(ErrorKind::Definition, label, problem)
        })?;
    Ok(decoding.unwrap_or_default())
}

/// A file with costs as a plan records it: what was measured, and a hash of the contents.
fn planned((name, file): &(String, CostFile)) -> String {
    let json = serde_json::to_vec(file).unwrap_or_default();
    let hash = Sha256::of(&json).to_string();
    format!("{}; sha256 {}", file.describe(name), &hash[..16])
}

/// The files that a run adds to.
struct Files {
    results: Results,
    walltimes: Lines,
    samples: Samples,
}
