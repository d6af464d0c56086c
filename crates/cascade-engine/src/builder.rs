//! The builder of a cascade.

use std::sync::Arc;

use cascade_core::{Drafter, Scorer, TextCodec, TokenId};
use cascade_verify::{Lenience, LeniencePolicy};

use crate::draft_settings::DraftSettings;
use crate::level::{Level, Models, Neural, NoticeSink, Statistical};
use crate::level_checks::{LevelSpec, check_levels};
use crate::recursion::Recursion;
use crate::{
    Branching, Cascade, Clock, Error, KMatrix, NeuralOptions, OnlineSchedule, Placement, Result,
    ReviewRule, Rule, Schedule, StaticSchedule, StopRule, SystemClock,
};

/// Default for the maximum number of nodes of a draft: as many rows as this project's models
/// process in one piece.
pub const DEFAULT_MAX_NODES: usize = 64;

/// Builds a [`Cascade`]. Drafters are added largest first.
#[derive(Default)]
pub struct CascadeBuilder {
    target: Option<Neural>,
    drafters: Vec<Level>,
    k: Option<KMatrix>,
    placement: Placement,
    schedule: Option<Box<dyn Schedule>>,
    stop_rule_without_drafter: bool,
    lenience: LeniencePolicy,
    max_nodes: Option<usize>,
    eos: Vec<TokenId>,
    codec: Option<Arc<dyn TextCodec>>,
    clock: Option<Arc<dyn Clock>>,
    notices: Option<NoticeSink>,
    work_clock: Option<Arc<dyn Clock>>,
}

impl Cascade {
    /// Returns an empty builder.
    pub fn builder() -> CascadeBuilder {
        CascadeBuilder::default()
    }
}

impl CascadeBuilder {
    /// Sets the target.
    pub fn target(
        self,
        name: impl Into<String>,
        scorer: impl Into<Box<dyn Scorer + Send>>,
    ) -> Self {
        self.target_with(name, scorer, Rule::default())
    }

    /// Sets the target, and the rule of its reviews when tokens are sampled. With
    /// [`Rule::Coupled`], the default, the drafters' reviews are coupled too.
    pub fn target_with(
        mut self,
        name: impl Into<String>,
        scorer: impl Into<Box<dyn Scorer + Send>>,
        rule: impl ReviewRule + 'static,
    ) -> Self {
        let options = NeuralOptions::new(rule, Branching::default());
        self.target = Some(Neural::new(name.into(), scorer.into(), options));
        self
    }

    /// Adds a neural drafter below those already there. If it is the smallest level, it drafts one
    /// token per forward.
    pub fn neural(
        self,
        name: impl Into<String>,
        scorer: impl Into<Box<dyn Scorer + Send>>,
    ) -> Self {
        self.neural_with(name, scorer, NeuralOptions::default())
    }

    /// As [`neural`](Self::neural), with a rule for its reviews and branching for its drafts.
    pub fn neural_with(
        mut self,
        name: impl Into<String>,
        scorer: impl Into<Box<dyn Scorer + Send>>,
        options: NeuralOptions,
    ) -> Self {
        let neural = Neural::new(name.into(), scorer.into(), options);
        self.drafters.push(Level::Neural(neural));
        self
    }

    /// Adds a statistical drafter below those already there. It proposes directly and does not use
    /// levels below it.
    pub fn statistical(
        mut self,
        name: impl Into<String>,
        drafter: impl Into<Box<dyn Drafter + Send>>,
    ) -> Self {
        let statistical = Statistical::new(name.into(), drafter.into());
        self.drafters.push(Level::Statistical(statistical));
        self
    }

    /// Sets the stop rule of the drafter that was added last; without one, its turns never end
    /// early.
    pub fn stop_rule(mut self, rule: impl Into<Box<dyn StopRule>>) -> Self {
        match self.drafters.last_mut() {
            Some(level) => *level.stop_rule_mut() = Some(rule.into()),
            None => self.stop_rule_without_drafter = true,
        }
        self
    }

    /// Sets how many tokens each drafter adds for each reviewer: the static schedule of the papers.
    /// Without this and without a [`schedule`](Self::schedule), what pays is drafted
    /// ([`OnlineSchedule`]).
    pub fn k_matrix(mut self, k: KMatrix) -> Self {
        self.k = Some(k);
        self
    }

    /// Sets who drafts next and how much, in place of a K matrix and a placement.
    pub fn schedule(mut self, schedule: impl Into<Box<dyn Schedule>>) -> Self {
        self.schedule = Some(schedule.into());
        self
    }

    /// Sets λ of drafters' reviews for proposals of neural drafters; 1 if not set.
    pub fn lenience(mut self, lenience: Lenience) -> Self {
        self.lenience.neural = lenience;
        self
    }

    /// Sets λ of drafters' reviews for proposals of statistical drafters; 1 if not set, as in the
    /// paper.
    pub fn statistical_lenience(mut self, lenience: Lenience) -> Self {
        self.lenience.statistical = lenience;
        self
    }

    /// Sets where the drafters of one row of the K matrix draft; [`Placement::Sequential`] if not
    /// set.
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Sets the maximum number of nodes of a draft, for every reviewer; [`DEFAULT_MAX_NODES`] if
    /// not set. The main path has priority over branches.
    pub fn max_nodes(mut self, nodes: usize) -> Self {
        self.max_nodes = Some(nodes);
        self
    }

    /// Sets the tokens that end a text.
    pub fn eos(mut self, tokens: impl IntoIterator<Item = TokenId>) -> Self {
        self.eos = tokens.into_iter().collect();
        self
    }

    /// Sets the tokenizer, for text prompts, text events and stop sequences.
    pub fn codec(mut self, codec: Arc<dyn TextCodec>) -> Self {
        self.codec = Some(codec);
        self
    }

    /// Sets the clock of ledgers, timings and policies; the machine's clock if not set.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Sets where notices go, such as that a drafter stops drafting because the text has a token
    /// that only the target has; each is given once. Nowhere if not set.
    pub fn notices(mut self, notice: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.notices = Some(Arc::new(notice));
        self
    }

    /// Sets another clock for what models and policies take time for, where the time that passes
    /// is to be that of [`clock`](Self::clock): [`ThreadClock`](crate::ThreadClock), where the
    /// thread that generates computes alone.
    pub fn work_clock(mut self, clock: impl Clock + 'static) -> Self {
        self.work_clock = Some(Arc::new(clock));
        self
    }

    /// Checks that the parts fit together and builds the cascade.
    ///
    /// # Errors
    /// No target; a schedule that is given twice or made for another number of drafters; a stop
    /// rule before any drafter; a drafter of another architecture than the target's, or that shares
    /// no token with it; no nodes to draft, or more than a model scores; a rule that would not be
    /// exact for what it reviews.
    pub fn build(self) -> Result<Cascade> {
        let target = self.target.ok_or(Error::NoTarget)?;
        if self.stop_rule_without_drafter {
            return Err(Error::StopRuleWithoutDrafter);
        }
        if self.max_nodes == Some(0) {
            return Err(Error::NoNodes);
        }
        let nodes = self.max_nodes.unwrap_or(DEFAULT_MAX_NODES);
        let notices = self.notices.unwrap_or_else(|| Arc::new(|_: &str| ()));
        let drafters = fitting(self.drafters, &target, nodes, &notices)?;
        let mut schedule = one_schedule(self.schedule, self.k, self.placement, drafters.len())?;
        let levels: Vec<_> = std::iter::once(LevelSpec::Neural(target.spec()))
            .chain(drafters.iter().map(Level::spec))
            .collect();
        let plan = check_levels(&levels, &mut *schedule)?;
        let settings = DraftSettings {
            lenience: self.lenience,
            max_nodes: nodes,
            eos: self.eos,
            reorders: levels.iter().any(LevelSpec::reorders),
            vocab_size: target.info().vocab_size,
        };
        let wall = self.clock.unwrap_or_else(|| Arc::new(SystemClock));
        let clock = self.work_clock.unwrap_or_else(|| Arc::clone(&wall));
        let mut models = Models { target, drafters };
        models.set_clock(&clock);
        Ok(Cascade {
            models,
            recursion: Recursion::new(settings, schedule, plan, clock),
            wall,
            codec: self.codec,
        })
    }
}

/// The drafters of a target, if they fit it and drafts of so many nodes fit all models.
fn fitting(
    drafters: Vec<Level>,
    target: &Neural,
    nodes: usize,
    notices: &NoticeSink,
) -> Result<Vec<Level>> {
    for level in &drafters {
        if let Level::Neural(neural) = level {
            check_fits(neural, target)?;
        }
    }
    drafters
        .iter()
        .try_for_each(|level| check_hidden(level, target))?;
    let target_rows = target.info().vocab_size;
    let drafters: Vec<Level> = drafters
        .into_iter()
        .map(|level| match level {
            Level::Neural(neural) => Level::Neural(neural.drafting_for(target_rows, notices)),
            statistical => statistical,
        })
        .collect();
    let neural = drafters.iter().filter_map(|level| match level {
        Level::Neural(neural) => Some(neural),
        Level::Statistical(_) => None,
    });
    if !drafters.is_empty() {
        std::iter::once(target)
            .chain(neural)
            .try_for_each(|model| check_nodes(model, nodes))?;
    }
    Ok(drafters)
}

fn one_schedule(
    schedule: Option<Box<dyn Schedule>>,
    k: Option<KMatrix>,
    placement: Placement,
    drafters: usize,
) -> Result<Box<dyn Schedule>> {
    let k = match (schedule, k) {
        (Some(_), Some(_)) => return Err(Error::TwoSchedules),
        (Some(schedule), None) => return Ok(schedule),
        (None, Some(k)) => k,
        (None, None) if drafters == 0 => KMatrix::default(),
        (None, None) => return Ok(Box::new(OnlineSchedule::default())),
    };
    Ok(Box::new(StaticSchedule::new(k).with_placement(placement)))
}

/// Refuses drafts for whose scores there would be no memory, before any is allocated.
fn check_nodes(model: &Neural, nodes: usize) -> Result<()> {
    match model.info().max_nodes {
        Some(limit) if nodes > limit => Err(Error::TooManyNodes {
            nodes,
            model: model.name.clone(),
            limit,
        }),
        _ => Ok(()),
    }
}

fn check_hidden(level: &Level, target: &Neural) -> Result<()> {
    let given = target.info().hidden;
    match level.observed_hidden().lacking_in(given) {
        None => Ok(()),
        Some(layer) => Err(Error::NoHiddenState {
            drafter: level.name().to_owned(),
            target: target.name.clone(),
            layer,
        }),
    }
}

fn check_fits(drafter: &Neural, target: &Neural) -> Result<()> {
    let (found, expected) = (drafter.info().architecture, target.info().architecture);
    if found != expected {
        return Err(Error::ArchitectureMismatch {
            drafter: drafter.name.clone(),
            found,
            target: target.name.clone(),
            expected,
        });
    }
    if drafter.shares_nothing(target.info().vocab_size) {
        return Err(Error::NoSharedToken {
            drafter: drafter.name.clone(),
            target: target.name.clone(),
        });
    }
    Ok(())
}
