//! The models of a cascade, with their names, ledgers and drafting settings.

mod acceptance_watch;

use std::sync::Arc;
use std::time::Duration;

use cascade_core::{
    Architecture, Budget, Drafter, Guidance, HiddenLayers, LevelId, Observation, ScoredTree,
    Scorer, ScorerInfo, Scores, TokenId, TokenTree, Want,
};
use cascade_verify::{ReviewRule, Rule};

use crate::contract::check_proposal;
use crate::draft_settings::DraftSettings;
use crate::level_checks::{LevelSpec, NeuralSpec};
use crate::policy::{ForwardCost, Outcome, Schedule, StopRule};
use crate::shared_vocabulary::{BoxedScorer, SharedVocabulary};
use crate::{Branching, Clock, DraftVocabulary, Error, Metered, ModelUsage, Result, Role, Usage};

use acceptance_watch::AcceptanceWatch;

/// Where a cascade says what the user should know while it generates.
pub(crate) type NoticeSink = Arc<dyn Fn(&str) + Send + Sync>;
pub(crate) type BoxedDrafter = Box<dyn Drafter + Send>;

/// How a neural drafter reviews and drafts.
#[derive(Clone, Debug)]
pub struct NeuralOptions {
    /// The rule of its reviews when tokens are sampled, if the target's rule is one that draws;
    /// [`Rule::Coupled`] is [`Rule::Iterated`] then. If the target's is coupled, all reviews are.
    pub rule: Arc<dyn ReviewRule>,
    /// How its drafts branch.
    pub branching: Branching,
    /// Which tokens it drafts, at most.
    pub vocabulary: DraftVocabulary,
}

impl NeuralOptions {
    /// Options with this rule and this branching, and all tokens.
    pub fn new(rule: impl ReviewRule + 'static, branching: Branching) -> Self {
        Self {
            rule: Arc::new(rule),
            branching,
            vocabulary: DraftVocabulary::default(),
        }
    }

    /// The same with fewer tokens to draft.
    pub fn with_vocabulary(self, vocabulary: DraftVocabulary) -> Self {
        Self { vocabulary, ..self }
    }
}

impl Default for NeuralOptions {
    fn default() -> Self {
        Self::new(Rule::default(), Branching::default())
    }
}

/// A neural model and its name.
pub(crate) struct Neural {
    pub(crate) name: String,
    pub(crate) scorer: Metered<BoxedScorer>,
    /// What it reads and drafts, beside the target.
    vocabulary: DraftVocabulary,
    reading: Option<Reading>,
    /// Whether it is of use, if it is a head.
    watch: Option<AcceptanceWatch>,
    /// How it reviews when tokens are sampled.
    pub(crate) rule: Arc<dyn ReviewRule>,
    /// How its drafts branch.
    pub(crate) branching: Branching,
    /// When its turns end early.
    pub(crate) stop_rule: Option<Box<dyn StopRule>>,
}

impl Neural {
    pub(crate) fn new(name: String, scorer: BoxedScorer, options: NeuralOptions) -> Self {
        Self {
            name,
            scorer: Metered::new(scorer),
            vocabulary: options.vocabulary,
            reading: None,
            watch: None,
            rule: options.rule,
            branching: options.branching,
            stop_rule: None,
        }
    }

    pub(crate) fn info(&self) -> ScorerInfo {
        self.scorer.info()
    }

    pub(crate) fn spec(&self) -> NeuralSpec<'_> {
        NeuralSpec {
            name: &self.name,
            rule: &*self.rule,
            branching: &self.branching,
            stops: self.stop_rule.is_some(),
        }
    }

    /// Whether the drafter has no token that it could draft for a target of so many rows.
    pub(crate) fn shares_nothing(&self, target_rows: usize) -> bool {
        let rows = self.info().vocab_size;
        self.vocabulary.is_empty(rows, target_rows)
    }

    /// The drafter with scores over the vocabulary of a target of so many rows.
    pub(crate) fn drafting_for(self, target_rows: usize, notices: &NoticeSink) -> Self {
        let rows = self.info().vocab_size;
        let scorer = self.scorer.into_inner();
        let scorer = SharedVocabulary::fit(scorer, target_rows, &self.vocabulary);
        let reading = (rows < target_rows).then(|| Reading {
            rows,
            source: None,
            notices: Some(Arc::clone(notices)),
        });
        let scorer = Metered::new(scorer);
        let is_head = !scorer.info().observes.is_empty();
        Self {
            watch: is_head.then(|| AcceptanceWatch::new(Arc::clone(notices))),
            scorer,
            reading,
            ..self
        }
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        if let Some(reading) = &mut self.reading {
            reading.source = reading.unread(source);
        }
        let set = self.scorer.set_source(source);
        set.map_err(|source| self.failed(source))
    }

    /// Runs one forward and returns its cost with the scores.
    pub(crate) fn score(
        &mut self,
        context: &[TokenId],
        tree: &TokenTree,
        want: Want,
    ) -> Result<(Scores, ForwardCost)> {
        let before = self.scorer.usage();
        let scores = self
            .scorer
            .score(context, tree, want)
            .map_err(|source| self.failed(source))?;
        let spent = self.scorer.usage().since(&before);
        let cost = ForwardCost {
            rows: spent.all_rows() as usize,
            time: spent.time,
            encoded: before.calls == 0 && self.encodes(),
            shared: self.scorer.shared_forward(),
        };
        Ok((scores, cost))
    }

    fn observe(&mut self, step: &Observation<'_>) -> Result<()> {
        let observed = self.scorer.observe(step);
        observed.map_err(|source| self.failed(source))
    }

    /// Whether the model's first forward after a prompt encodes it.
    fn encodes(&self) -> bool {
        self.info().architecture == Architecture::EncoderDecoder
    }

    pub(crate) fn failed(&self, source: cascade_core::Error) -> Error {
        failed(&self.name, source)
    }

    /// Tokens that may still follow a context and a path of its own before the drafter runs out of
    /// positions or of [reach](Scorer::reach); `None` also if it has no row for a token of them,
    /// which it says once.
    pub(crate) fn positions(&mut self, context: &[TokenId], path: &[TokenId]) -> Option<usize> {
        let reading = self.reading.as_mut();
        if let Some(reading) = reading {
            let unread = reading.source.or_else(|| reading.unread(context));
            if let Some(token) = unread.or_else(|| reading.unread(path)) {
                reading.say(&self.name, token);
                return None;
            }
        }
        let reach = self.scorer.reach(context)?.checked_sub(path.len())?;
        let room = self.room(context.len() + path.len())?;
        Some(room.min(reach))
    }

    /// Tokens that may still follow a context of `context_len` before the model runs out of
    /// positions.
    pub(crate) fn room(&self, context_len: usize) -> Option<usize> {
        match self.info().max_context {
            None => Some(usize::MAX),
            Some(limit) => limit.checked_sub(context_len),
        }
    }
}

/// What a drafter reads that has fewer rows than the target.
struct Reading {
    rows: usize,
    /// The first token of the source that it has no row for.
    source: Option<TokenId>,
    /// Until it has been said.
    notices: Option<NoticeSink>,
}

impl Reading {
    /// The first of some tokens that the drafter has no row for.
    fn unread(&self, tokens: &[TokenId]) -> Option<TokenId> {
        let mut tokens = tokens.iter().copied();
        tokens.find(|&token| token as usize >= self.rows)
    }

    fn say(&mut self, name: &str, token: TokenId) {
        if let Some(notices) = self.notices.take() {
            notices(&format!(
                "drafter `{name}` drafts nothing behind token {token}, which is not in its \
                 vocabulary of {} tokens; the answer is the same",
                self.rows
            ));
        }
    }
}

/// A statistical model and its name.
pub(crate) struct Statistical {
    pub(crate) name: String,
    drafter: Metered<BoxedDrafter>,
    pub(crate) stop_rule: Option<Box<dyn StopRule>>,
    untold: Untold,
}

/// Text that a resting drafter was not told yet.
#[derive(Default)]
struct Untold {
    /// The text before it, and it.
    text: Vec<TokenId>,
    /// Where it begins.
    start: usize,
}

impl Statistical {
    pub(crate) fn new(name: String, drafter: BoxedDrafter) -> Self {
        Self {
            name,
            drafter: Metered::new(drafter),
            stop_rule: None,
            untold: Untold::default(),
        }
    }

    /// Puts a step off, until the drafter proposes again in this generation: then it is given the
    /// text of all such steps at once.
    fn rest(&mut self, step: &Observation<'_>) {
        let Untold { text, start } = &mut self.untold;
        if text.is_empty() {
            text.extend_from_slice(step.context);
            *start = text.len();
        }
        text.extend_from_slice(step.emitted);
    }

    /// Gives the drafter what was put off.
    fn catch_up(&mut self) {
        let Untold { text, start } = &mut self.untold;
        if !text.is_empty() {
            let (context, emitted) = text.split_at(*start);
            self.drafter
                .observe(&Observation::of_text(context, emitted));
            text.clear();
        }
    }

    /// Lets the drafter learn from a step, and returns how long that took.
    fn observe(&mut self, step: &Observation<'_>) -> Duration {
        self.catch_up();
        let before = self.drafter.usage().time;
        self.drafter.observe(step);
        self.drafter.usage().time.saturating_sub(before)
    }

    fn set_source(&mut self, source: &[TokenId]) {
        // A drafter that rests to the end does not pay for this text either.
        self.untold.text.clear();
        self.drafter.set_source(source);
    }

    fn forget(&mut self) {
        self.untold.text.clear();
        self.drafter.forget();
    }

    /// Whether it mixes its estimates with a neural drafter's.
    pub(crate) fn takes_advice(&self) -> bool {
        self.drafter.takes_advice()
    }

    pub(crate) fn propose(
        &mut self,
        context: &[TokenId],
        budget: Budget,
        guidance: &mut Guidance<'_>,
        settings: &DraftSettings,
    ) -> Result<ScoredTree> {
        self.catch_up();
        let proposed = self.drafter.propose_with(context, budget, guidance);
        check_proposal(&proposed, budget, settings).map_err(|source| failed(&self.name, source))?;
        Ok(proposed)
    }
}

/// One drafter.
pub(crate) enum Level {
    /// It reviews what the levels below it draft, and adds a token of its own.
    Neural(Neural),
    /// It proposes directly.
    Statistical(Statistical),
}

impl Level {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Neural(neural) => &neural.name,
            Self::Statistical(statistical) => &statistical.name,
        }
    }

    pub(crate) fn spec(&self) -> LevelSpec<'_> {
        match self {
            Self::Neural(neural) => LevelSpec::Neural(neural.spec()),
            Self::Statistical(statistical) => LevelSpec::Statistical {
                name: &statistical.name,
                takes_advice: statistical.takes_advice(),
            },
        }
    }

    pub(crate) fn stop_rule_mut(&mut self) -> &mut Option<Box<dyn StopRule>> {
        match self {
            Self::Neural(neural) => &mut neural.stop_rule,
            Self::Statistical(statistical) => &mut statistical.stop_rule,
        }
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        match self {
            Self::Neural(neural) => neural.set_source(source),
            Self::Statistical(statistical) => {
                statistical.set_source(source);
                Ok(())
            }
        }
    }

    /// Lets the level's stop rule learn from a review of a draft to which it contributed, and
    /// watches a head.
    pub(crate) fn observe_outcome(&mut self, level: LevelId, outcome: &Outcome<'_>) {
        if let Self::Neural(Neural {
            name,
            watch: Some(watch),
            ..
        }) = self
        {
            watch.observe(name, level, outcome);
        }
        let contributed = outcome.turns.iter().any(|turn| turn.turn.drafter == level);
        if let Some(rule) = self.stop_rule_mut().as_mut().filter(|_| contributed) {
            rule.observe(outcome);
        }
    }

    pub(crate) fn observed_hidden(&self) -> HiddenLayers {
        match self {
            Self::Neural(neural) => neural.info().observes,
            Self::Statistical(statistical) => statistical.drafter.observed_hidden(),
        }
    }

    fn role(&self) -> Role {
        match self {
            Self::Neural(_) => Role::Drafter,
            Self::Statistical(_) => Role::Statistical,
        }
    }

    fn usage(&self) -> Usage {
        match self {
            Self::Neural(neural) => neural.scorer.usage(),
            Self::Statistical(statistical) => statistical.drafter.usage(),
        }
    }
}

/// The target and its drafters, largest first.
pub(crate) struct Models {
    pub(crate) target: Neural,
    pub(crate) drafters: Vec<Level>,
}

impl Models {
    /// Names of all levels; the index is the [`LevelId`].
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let drafters = self.drafters.iter().map(Level::name);
        std::iter::once(self.target.name.as_str()).chain(drafters)
    }

    pub(crate) fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.target.set_source(source)?;
        let mut drafters = self.drafters.iter_mut();
        drafters.try_for_each(|level| level.set_source(source))
    }

    /// How many of the target's most probable tokens statistical drafters observe, as far as the
    /// target can tell. Those that rest observe none.
    pub(crate) fn observed_top(&self, schedule: &dyn Schedule) -> usize {
        let wanted = self.drafters.iter().zip(1..).map(|level| match level {
            (Level::Statistical(statistical), level) if !schedule.rests(LevelId(level)) => {
                statistical.drafter.observed_top()
            }
            _ => 0,
        });
        let most = self.target.info().max_top.unwrap_or(usize::MAX);
        wanted.max().unwrap_or(0).min(most)
    }

    /// Which hidden states of the target the levels observe.
    pub(crate) fn observed_hidden(&self) -> HiddenLayers {
        let levels = self.drafters.iter().map(Level::observed_hidden);
        levels.fold(HiddenLayers::NONE, HiddenLayers::union)
    }

    /// Lets statistical drafters and stop rules forget what they have learned.
    pub(crate) fn forget(&mut self) {
        for level in &mut self.drafters {
            if let Some(rule) = level.stop_rule_mut() {
                rule.forget();
            }
            if let Level::Statistical(statistical) = level {
                statistical.forget();
            }
        }
    }

    /// Lets statistical drafters forget the texts that they have observed.
    pub(crate) fn forget_texts(&mut self) {
        for level in &mut self.drafters {
            if let Level::Statistical(statistical) = level {
                statistical.drafter.forget();
            }
        }
    }

    /// Lets all ledgers read a clock.
    pub(crate) fn set_clock(&mut self, clock: &Arc<dyn Clock>) {
        self.target.scorer.set_clock(Arc::clone(clock));
        for level in &mut self.drafters {
            match level {
                Level::Neural(neural) => neural.scorer.set_clock(Arc::clone(clock)),
                Level::Statistical(statistical) => {
                    statistical.drafter.set_clock(Arc::clone(clock));
                }
            }
        }
    }

    /// What each level is, the target first.
    pub(crate) fn roles(&self) -> Vec<Role> {
        let drafters = self.drafters.iter().map(Level::role);
        std::iter::once(Role::Target).chain(drafters).collect()
    }

    /// Lets drafters learn from a step of the target, statistical ones unless the schedule lets
    /// them rest. The schedule learns how long that took, if it may see times.
    pub(crate) fn observe_step(
        &mut self,
        step: &Observation<'_>,
        schedule: &mut dyn Schedule,
        timed: bool,
    ) -> Result<()> {
        for (level, id) in self.drafters.iter_mut().zip(1..) {
            let statistical = match level {
                Level::Neural(neural) => {
                    neural.observe(step)?;
                    continue;
                }
                Level::Statistical(statistical) => statistical,
            };
            if schedule.rests(LevelId(id)) {
                statistical.rest(step);
                continue;
            }
            let time = statistical.observe(step);
            if timed {
                schedule.learned(LevelId(id), time);
            }
        }
        Ok(())
    }

    /// What each model has done, by level.
    pub(crate) fn usage(&self) -> Vec<Usage> {
        let drafters = self.drafters.iter().map(Level::usage);
        std::iter::once(self.target.scorer.usage())
            .chain(drafters)
            .collect()
    }

    /// The usage of each model with its name and role.
    pub(crate) fn named_usage(&self) -> Vec<ModelUsage> {
        let named = self.names().zip(self.roles()).zip(self.usage());
        named
            .map(|((name, role), usage)| ModelUsage {
                name: name.to_owned(),
                role,
                usage,
            })
            .collect()
    }
}

fn failed(model: &str, source: cascade_core::Error) -> Error {
    Error::Model {
        model: model.to_owned(),
        source,
    }
}
