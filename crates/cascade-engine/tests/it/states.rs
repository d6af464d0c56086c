//! Levels that read the target's hidden states: what they are given, and that a fresh session
//! drafts as a warm one does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use cascade_core::toy::{ToyDrafter, ToyScorer};
use cascade_core::{
    Architecture, Budget, Decoding, Drafter, HiddenLayer, HiddenLayers, Observation, Prompt,
    Result, Sampling, ScoredTree, Scorer, ScorerInfo, Scores, TokenId, TokenTree, Want,
};
use cascade_engine::{Cascade, Options, Rule};

use crate::common::matrix;

const VOCABULARY: usize = 16;
const LAYER: HiddenLayer = HiddenLayer::Entering(1);

fn target() -> ToyScorer {
    ToyScorer::target("target", VOCABULARY, 7)
}

fn prompt(seed: TokenId) -> Prompt {
    Prompt::new(Architecture::DecoderOnly, vec![seed, 1, 4])
}

/// The states of verified text, by the text before them.
type States = HashMap<Vec<TokenId>, f32>;

/// Notes the states of the verified path.
fn read(states: &mut States, step: &Observation<'_>) {
    let hidden = step.hidden.expect("they were asked for");
    let rows = hidden.of(LAYER).expect("of this layer");
    let before = rows.rows() - step.draft.len() - 1;
    for (row, end) in (step.context.len() - before..=step.context.len()).enumerate() {
        states.insert(step.context[..end].to_vec(), rows.row(row)[0]);
    }
    for &node in step.accepted {
        let mut text = step.context.to_vec();
        text.extend(step.draft.path_tokens(Some(node)));
        let state = hidden.after(LAYER, Some(node), step.draft.len());
        states.insert(text, state.unwrap()[0]);
    }
}

/// A neural level: what it says is a function of the context and of the states observed of it.
#[derive(Clone)]
struct Level {
    model: ToyScorer,
    states: Arc<Mutex<States>>,
}

impl Level {
    fn new() -> Self {
        Self {
            model: ToyScorer::drafter("level", VOCABULARY, 7, 1, 200),
            states: Arc::default(),
        }
    }
}

impl Scorer for Level {
    fn info(&self) -> ScorerInfo {
        self.model.info().observing(HiddenLayers::NONE.with(LAYER))
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.model.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let known = self.states.lock().unwrap();
        let beginnings = (1..=context.len()).map(|end| &context[..end]);
        let sum: f32 = beginnings.filter_map(|text| known.get(text)).sum();
        let mut seen = context.to_vec();
        seen.push(sum as TokenId % VOCABULARY as TokenId);
        self.model.score(&seen, tree, want)
    }

    fn observe(&mut self, observation: &Observation<'_>) -> Result<()> {
        read(&mut self.states.lock().unwrap(), observation);
        Ok(())
    }
}

fn cascade(level: &Level) -> Cascade {
    Cascade::builder()
        .target("target", target())
        .neural("level", level.clone())
        .statistical("drawing", ToyDrafter::new(level.model.clone(), 1))
        .k_matrix(matrix(&[&[2, 1], &[0, 1]]))
        .build()
        .unwrap()
}

/// Texts and drafts of a generation.
fn steps(cascade: &mut Cascade, seed: TokenId) -> Vec<(Vec<TokenId>, Vec<TokenId>)> {
    let options = Options::default()
        .with_max_new_tokens(24)
        .with_drafts_reported(true);
    let steps = cascade.start_tokens(&prompt(seed), &options).unwrap();
    let report = steps.map(|step| {
        let step = step.unwrap();
        let draft = step.draft.iter().map(|node| node.token).collect();
        (step.tokens, draft)
    });
    report.collect()
}

/// Every state of the prompt and of the verified text is given, and is the target's own.
#[test]
fn a_level_is_given_the_states_of_all_verified_text() {
    let level = Level::new();
    let mut cascade = cascade(&level);
    let said: Vec<TokenId> = steps(&mut cascade, 2)
        .into_iter()
        .flat_map(|step| step.0)
        .collect();
    let text: Vec<TokenId> = [prompt(2).context, said].concat();
    let states = level.states.lock().unwrap();
    // The row after the last token was never computed.
    assert_eq!(states.len(), text.len() - 1);
    for end in 1..text.len() {
        let want = Want::ARGMAX.with_hidden(HiddenLayers::NONE.with(LAYER));
        let own = target()
            .score(&text[..end], &TokenTree::new(), want)
            .unwrap()
            .hidden
            .after(LAYER, None, 0)
            .unwrap()[0];
        assert_eq!(states.get(&text[..end]), Some(&own), "after {end} tokens");
    }
}

#[test]
fn a_fresh_session_drafts_as_a_warm_one() {
    let warm_level = Level::new();
    let mut warm = cascade(&warm_level);
    let mut drafted = Vec::new();
    for seed in 0..12 {
        let found = steps(&mut warm, seed);
        assert_eq!(
            found,
            steps(&mut cascade(&Level::new()), seed),
            "seed {seed}"
        );
        drafted.push(found);
    }
    // And they do read them: without states, other tokens are drafted.
    let mut blind = Cascade::builder()
        .target("target", target())
        .neural("level", Level::new().model)
        .statistical("drawing", ToyDrafter::new(Level::new().model, 1))
        .k_matrix(matrix(&[&[2, 1], &[0, 1]]))
        .build()
        .unwrap();
    let others: Vec<_> = (0..12).map(|seed| steps(&mut blind, seed)).collect();
    assert_ne!(others, drafted);
    let text = |steps: &[(Vec<TokenId>, Vec<TokenId>)]| -> Vec<TokenId> {
        steps.iter().flat_map(|step| step.0.clone()).collect()
    };
    let texts = |all: &[Vec<_>]| all.iter().map(|steps| text(steps)).collect::<Vec<_>>();
    assert_eq!(
        texts(&others),
        texts(&drafted),
        "the target's, whatever is drafted"
    );
}

/// A statistical drafter that asks, too.
struct Asking(HiddenLayers, Arc<Mutex<States>>);

impl Drafter for Asking {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], _budget: Budget) -> ScoredTree {
        let state = self
            .1
            .lock()
            .unwrap()
            .get(&context[..context.len() - 1])
            .copied();
        TokenTree::chain(state.map(|state| state as TokenId % VOCABULARY as TokenId)).into()
    }

    fn observe(&mut self, observation: &Observation<'_>) {
        read(&mut self.1.lock().unwrap(), observation);
    }

    fn observed_hidden(&self) -> HiddenLayers {
        self.0
    }
}

#[test]
fn a_target_that_does_not_give_them_is_refused_by_name() {
    let build = |layers, rule| {
        Cascade::builder()
            .target_with("the target", target(), rule)
            .statistical("asking", Asking(layers, Arc::default()))
            .k_matrix(matrix(&[&[1]]))
            .build()
    };
    let mut good = build(HiddenLayers::NONE.with(LAYER), Rule::Coupled).unwrap();
    assert!(!steps(&mut good, 3).is_empty());
    let missing = HiddenLayers::LAST.with(HiddenLayer::Entering(2));
    let error = build(missing, Rule::Coupled).err().unwrap().to_string();
    let expected =
        "drafter `asking` reads the hidden state that enters layer 2 of target `the target`";
    assert!(error.contains(expected), "{error}");
}

/// A level that drafts at most so many tokens behind what it has observed, and notes how far it was
/// asked to go.
struct Short {
    model: ToyScorer,
    reach: usize,
    verified: usize,
    asked: Arc<Mutex<Vec<usize>>>,
}

impl Scorer for Short {
    fn info(&self) -> ScorerInfo {
        self.model.info().observing(HiddenLayers::NONE.with(LAYER))
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.verified = 0;
        self.model.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        assert!(self.verified > 0, "nothing was observed");
        let behind = context.len() - self.verified + tree.height();
        self.asked.lock().unwrap().push(behind);
        self.model.score(context, tree, want)
    }

    fn reach(&self, context: &[TokenId]) -> Option<usize> {
        let verified = Some(self.verified).filter(|&verified| verified > 0)?;
        self.reach.checked_sub(context.len() - verified)
    }

    fn observe(&mut self, observation: &Observation<'_>) -> Result<()> {
        self.verified = observation.context.len() + observation.emitted.len();
        Ok(())
    }
}

#[test]
fn a_level_drafts_no_farther_than_it_reaches() {
    for reach in 0..4 {
        let asked = Arc::default();
        let level = Short {
            model: ToyScorer::drafter("level", VOCABULARY, 7, 1, 900),
            reach,
            verified: 0,
            asked: Arc::clone(&asked),
        };
        let below = ToyDrafter::new(ToyScorer::drafter("below", VOCABULARY, 7, 2, 700), 1);
        let mut cascade = Cascade::builder()
            .target("target", target())
            .neural("level", level)
            .statistical("below", below)
            .k_matrix(matrix(&[&[9, 1], &[0, 3]]))
            .build()
            .unwrap();
        let steps = steps(&mut cascade, 5);
        // Before anything is observed, the one behind it drafts alone.
        assert!(!steps[0].1.is_empty());
        assert!(steps.iter().any(|(_, draft)| draft.len() > 1));
        let asked = asked.lock().unwrap();
        assert!(asked.iter().all(|&tokens| tokens <= reach), "{asked:?}");
        assert!(asked.contains(&reach), "{asked:?}");
    }
}

/// A target that has so many rows of every context already.
struct Caching(ToyScorer, usize);

impl Scorer for Caching {
    fn info(&self) -> ScorerInfo {
        self.0.info()
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.0.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        self.0.score(context, tree, want)
    }

    fn cached(&mut self, context: &[TokenId]) -> usize {
        self.1.min(context.len() - 1)
    }
}

/// No row is computed for states alone, unless a seed's text depends on what is drafted: then not
/// even what is drafted depends on the cache.
#[test]
fn states_are_those_of_rows_that_are_computed_anyway() {
    let prompt = Prompt::new(Architecture::DecoderOnly, vec![2, 1, 4, 3, 5, 9]);
    let sampling = Decoding::Sampled(Sampling::new(0.9).unwrap());
    let sampled = |rule| (rule, Options::default().with_decoding(sampling));
    for (rule, options) in [
        (Rule::Coupled, Options::default()),
        sampled(Rule::Coupled),
        sampled(Rule::Speculative),
    ] {
        let options = options
            .with_seed(5)
            .with_max_new_tokens(24)
            .with_drafts_reported(true);
        let is_drawn = rule != Rule::Coupled;
        let observed = |cached: usize| {
            let level = Level::new();
            let mut cascade = Cascade::builder()
                .target_with("target", Caching(target(), cached), rule)
                .neural("level", level.clone())
                .k_matrix(matrix(&[&[2]]))
                .build()
                .unwrap();
            let steps = cascade.start_tokens(&prompt, &options).unwrap();
            let steps: Vec<_> = steps.map(|step| step.unwrap()).collect();
            let tokens: Vec<TokenId> = steps.iter().flat_map(|step| step.tokens.clone()).collect();
            let drafts: Vec<_> = steps.into_iter().map(|step| step.draft).collect();
            let shortest = level.states.lock().unwrap().keys().map(Vec::len).min();
            (tokens, drafts, shortest)
        };
        let (text, drafts, from) = observed(0);
        assert_eq!(from, Some(1));
        for cached in [1, 4, 9] {
            let (found, others, from) = observed(cached);
            assert_eq!(found, text, "{rule:?}, {cached} rows");
            assert_eq!(others == drafts, is_drawn, "{rule:?}, {cached} rows");
            let first = if is_drawn { 0 } else { cached.min(5) };
            assert_eq!(from, Some(first + 1), "{rule:?}, {cached} rows");
        }
    }
}

/// A target that notes whether states are wanted of it.
struct Wanted(ToyScorer, Arc<Mutex<HiddenLayers>>);

impl Scorer for Wanted {
    fn info(&self) -> ScorerInfo {
        self.0.info()
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.0.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        assert!(want.hidden_after.is_none() || !want.hidden.is_empty());
        let mut wanted = self.1.lock().unwrap();
        *wanted = wanted.union(want.hidden);
        self.0.score(context, tree, want)
    }
}

#[test]
fn no_states_are_wanted_where_nobody_reads_them() {
    let wanted = |level: Box<dyn Scorer + Send>| {
        let wanted = Arc::default();
        let mut cascade = Cascade::builder()
            .target("target", Wanted(target(), Arc::clone(&wanted)))
            .neural("level", level)
            .statistical("drawing", ToyDrafter::new(Level::new().model, 1))
            .k_matrix(matrix(&[&[2, 1], &[0, 1]]))
            .build()
            .unwrap();
        steps(&mut cascade, 3);
        let wanted = wanted.lock().unwrap();
        *wanted
    };
    assert_eq!(wanted(Box::new(Level::new().model)), HiddenLayers::NONE);
    assert_eq!(
        wanted(Box::new(Level::new())),
        HiddenLayers::NONE.with(LAYER)
    );
}
