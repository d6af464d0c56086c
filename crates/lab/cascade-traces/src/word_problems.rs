//! How good a model is at the project's word problems, and how good its drafters are there.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;

use cascade_config::{Assembly, Config, Drafter, ModelPool, PromptTemplate};
use cascade_core::TokenId;
use cascade_engine::{Cascade, Convention, KMatrix, Options};
use cascade_eval::problems::{ProblemKind, Split};
use cascade_eval::{Dataset, Ending, Endings, Marks, ProblemSet, Sample, Selection};
use cascade_models::{LoadedModel, Participant, Workers};
use serde::{Serialize, Serializer};
use statrs::distribution::{Beta, ContinuousCDF};

use crate::trace::{FirstToken, Header, Record, Recorder, Subject, Trace, TraceScorer};
use crate::{Result, error};

/// An evaluation of a configuration's target and of each of its drafters alone.
pub struct WordProblems<'a> {
    /// The models, and how many tokens an answer may have. Decoding must be greedy.
    pub config: &'a Config,
    /// What models come from.
    pub pool: &'a ModelPool,
    /// Problems of each set.
    pub limit: usize,
    /// Seed of the problems.
    pub seed: u64,
    /// How problems are asked, in place of the configuration's way.
    pub template: Option<PromptTemplate>,
    /// Problems that are answered at a time, which changes no answer
    /// ([`ModelPool::plain_texts_at_a_time`]).
    pub texts: NonZeroUsize,
}

/// What an evaluation found.
#[derive(Clone, Debug, PartialEq)]
pub struct WordProblemsReport {
    /// The target.
    pub target: String,
    /// The configuration.
    pub config: String,
    /// Seed of the problems.
    pub seed: u64,
    /// Tokens of an answer at most.
    pub max_new_tokens: usize,
    /// The drafters, largest first.
    pub drafters: Vec<String>,
    /// By set of problems.
    pub sets: Vec<SetReport>,
}

/// What was found on one set of problems.
#[derive(Clone, Debug, PartialEq)]
pub struct SetReport {
    /// The problems.
    pub set: ProblemSet,
    /// How they were asked.
    pub template: PromptTemplate,
    /// Whether answers were right.
    pub marks: Marks,
    /// How they ended.
    pub endings: Endings,
    /// By drafter: how often the target keeps the first token that it drafts.
    pub drafters: Vec<FirstToken>,
}

impl WordProblems<'_> {
    /// The sets: of each kind, problems of templates that were trained on, of others, and of none.
    pub fn sets(&self) -> impl Iterator<Item = ProblemSet> {
        let seed = self.seed;
        let splits = [Split::Test, Split::HeldOut, Split::Ordinary];
        let of_kind = move |kind| splits.map(|split| ProblemSet { kind, split, seed });
        ProblemKind::ALL.into_iter().flat_map(of_kind)
    }

    /// Problems of all sets.
    pub fn count(&self) -> usize {
        self.sets().map(|set| set.most().min(self.limit)).sum()
    }

    /// Answers all problems, and replays the answers with each drafter, which drafts one token a
    /// step. `on_problem` is called after each problem and before each replayed answer, and may end
    /// the evaluation; then there is no result, as half a set says little.
    ///
    /// # Errors
    /// Sampled decoding; models that cannot be loaded; a template that takes no such problems.
    pub fn run(
        &self,
        mut on_problem: impl FnMut(Phase) -> ControlFlow<()>,
    ) -> Result<Option<WordProblemsReport>> {
        if !self.options().decoding.is_greedy() {
            return Err(error::not_greedy().at(format!("{}: temperature", self.config.label)));
        }
        let target = self.pool.target(self.config)?;
        let mut recorders = Workers::new(self.texts, |text| self.recorder(&target, text))?;
        let mut sets = Vec::new();
        for set in self.sets() {
            match self.set(&target, &mut recorders, set, &mut on_problem)? {
                Some(found) => sets.push(found),
                None => return Ok(None),
            }
        }
        let drafters = self.config.drafters().iter();
        Ok(Some(WordProblemsReport {
            target: self.config.target.name.clone(),
            config: self.config.label.clone(),
            seed: self.seed,
            max_new_tokens: self.config.generation.max_new_tokens,
            drafters: drafters.map(|drafter| drafter.name().to_owned()).collect(),
            sets,
        }))
    }

    fn options(&self) -> Options {
        self.config.generation.options()
    }

    /// `None` if it was ended.
    fn set(
        &self,
        target: &LoadedModel,
        recorders: &mut Workers<Recorder>,
        set: ProblemSet,
        on_problem: &mut impl FnMut(Phase) -> ControlFlow<()>,
    ) -> Result<Option<SetReport>> {
        let made = Dataset::Problems(set).made(Selection::first(self.limit));
        let samples = made.transpose()?.unwrap_or_default();
        let own = || set.template(self.config.prompt());
        let mut found = SetReport {
            set,
            template: self.template.unwrap_or_else(own),
            marks: Marks::default(),
            endings: Endings::default(),
            drafters: Vec::new(),
        };
        let Some(answers) = answers(recorders, &samples, found.template, on_problem) else {
            return Ok(None);
        };
        let mut records = Vec::with_capacity(samples.len());
        for (sample, answer) in samples.iter().zip(answers) {
            let (record, text) = answer?;
            found.mark(sample, &record, text.as_deref().unwrap_or_default());
            records.push(record);
        }
        let trace = Arc::new(self.trace(target, records)?);
        for drafter in self.config.drafters() {
            match self.first_tokens(drafter, &trace, on_problem)? {
                Some(of_drafter) => found.drafters.push(of_drafter),
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }

    fn recorder(&self, target: &LoadedModel, text: &Participant) -> Result<Recorder> {
        let codec = Arc::new(target.tokenizer.clone());
        Recorder::new(
            &self.config.target.name,
            text.session(&target.model),
            self.eos(target),
            Some(codec),
            &self.options(),
        )
    }

    fn eos(&self, target: &LoadedModel) -> Vec<TokenId> {
        if self.config.generation.ignore_eos {
            Vec::new()
        } else {
            target.eos_token_ids.clone()
        }
    }

    /// The answers as a target.
    fn trace(&self, target: &LoadedModel, records: Vec<Record>) -> Result<Trace> {
        let info = target.info();
        let mut header = Header::measured(
            &self.config.target.name,
            info.architecture,
            &target.tokenizer.fingerprint(),
            info.vocab_size,
            &self.options(),
        );
        header.max_context = info.max_context;
        header.eos = self.eos(target);
        Trace::new("the target's answers", header, records)
    }

    fn first_tokens(
        &self,
        drafter: &Drafter,
        trace: &Arc<Trace>,
        on_problem: &mut impl FnMut(Phase) -> ControlFlow<()>,
    ) -> Result<Option<FirstToken>> {
        let mut cascade = self.alone(drafter, trace)?;
        let mut found = FirstToken::default();
        for record in &trace.records {
            if on_problem(Phase::Replay).is_break() {
                return Ok(None);
            }
            found.add(&mut cascade, record, &self.options())?;
        }
        Ok(Some(found))
    }

    /// A cascade of the recorded target and one drafter, which drafts one token at a time.
    fn alone(&self, drafter: &Drafter, trace: &Arc<Trace>) -> Result<Cascade> {
        let k =
            KMatrix::new(vec![vec![1]], Convention::Added).map_err(cascade_engine::Error::from)?;
        let mut config = self
            .config
            .clone()
            .with_drafters(vec![drafter.clone()], k)?;
        config.max_nodes = 1;
        let target = TraceScorer::target(trace)?;
        let assembly = Assembly::of(&config).target(target);
        Ok(self.pool.assemble(assembly)?.cascade)
    }
}

/// The target's answers to problems; `None` if that was ended.
fn answers(
    recorders: &mut Workers<Recorder>,
    samples: &[Sample],
    template: PromptTemplate,
    on_problem: &mut impl FnMut(Phase) -> ControlFlow<()>,
) -> Option<Vec<Result<RecordedAnswer>>> {
    let mut answers = Vec::with_capacity(samples.len());
    let mut ended = false;
    recorders.for_each(
        samples,
        |recorder, sample| answer(recorder, sample, template),
        |answer| {
            answers.push(answer);
            let goes_on = on_problem(Phase::Answer);
            ended = goes_on.is_break();
            goes_on
        },
    );
    (!ended).then_some(answers)
}

/// The record of the target's answer to a problem, and the text of it.
type RecordedAnswer = (Record, Option<String>);

/// The target's answer to a problem.
fn answer(
    recorder: &mut Recorder,
    sample: &Sample,
    template: PromptTemplate,
) -> Result<RecordedAnswer> {
    let prompt = recorder.encode(&sample.prompt(template)?)?;
    recorder.record(Subject::new(&sample.id), &prompt, |_| {})
}

/// What is done with a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The target answers it.
    Answer,
    /// A drafter drafts along the answer.
    Replay,
}

impl SetReport {
    fn mark(&mut self, sample: &Sample, record: &Record, text: &str) {
        let complete = record.finish.ends_text();
        self.endings.add(Ending::of(&record.output, complete));
        if let Some(solution) = sample.solution() {
            self.marks.add(&solution.mark(text));
        }
    }

    fn object(&self, drafters: &[String]) -> serde_json::Value {
        let acceptance = drafters.iter().zip(&self.drafters).map(|(name, found)| {
            serde_json::json!({
                "drafter": name,
                "drafts": found.drafted(),
                "first_token_accepted": found.share(),
                "interval": found.interval(),
            })
        });
        let answers = self.marks.answers;
        serde_json::json!({
            "kind": self.set.kind.name(),
            "split": self.set.split.name(),
            "template": self.template.name(),
            "problems": answers,
            "right": self.marks.right,
            "exact": (answers > 0).then(|| self.marks.right as f64 / answers as f64),
            "interval": share_interval(self.marks.right, answers),
            "no_result": self.marks.missing,
            "loops": self.endings.loops,
            "at_limit": self.endings.at_limit,
            "drafters": acceptance.collect::<Vec<_>>(),
        })
    }
}

/// The 95 % interval of a share (Clopper and Pearson's, which holds for any number of trials);
/// `None` without trials.
pub fn share_interval(successes: usize, trials: usize) -> Option<(f64, f64)> {
    if trials == 0 || successes > trials {
        return None;
    }
    let quantile = |successes: usize, failures: usize, p: f64| {
        let beta = Beta::new(successes as f64, failures as f64).ok()?;
        Some(beta.inverse_cdf(p))
    };
    let failures = trials - successes;
    let low = match successes {
        0 => 0.0,
        _ => quantile(successes, failures + 1, 0.025)?,
    };
    let high = match failures {
        0 => 1.0,
        _ => quantile(successes + 1, failures, 0.975)?,
    };
    Some((low, high))
}

impl Serialize for WordProblemsReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let sets = self.sets.iter().map(|set| set.object(&self.drafters));
        serde_json::json!({
            "target": self.target,
            "config": self.config,
            "seed": self.seed,
            "max_new_tokens": self.max_new_tokens,
            "sets": sets.collect::<Vec<_>>(),
        })
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R's `binom.test(9, 10)$conf.int` and `binom.test(0, 20)$conf.int`.
    #[test]
    fn intervals_of_shares_are_clopper_and_pearsons() {
        let near = |found: Option<(f64, f64)>, low: f64, high: f64| {
            let found = found.unwrap();
            assert!((found.0 - low).abs() < 1e-6, "{found:?}");
            assert!((found.1 - high).abs() < 1e-6, "{found:?}");
        };
        near(share_interval(9, 10), 0.554_983_9, 0.997_471_4);
        near(share_interval(0, 20), 0.0, 0.168_433_5);
        near(share_interval(20, 20), 0.831_566_5, 1.0);
        assert_eq!(share_interval(0, 0), None);
        assert_eq!(share_interval(2, 1), None);
    }
}
