//! The Max-Gram tree in whole generations: below, beside and without neural drafters.

use std::sync::{Arc, Mutex};

use cascade_core::toy::ToyScorer;
use cascade_core::{
    Architecture, Budget, Decoding, Drafter, GatheredProbs, LevelId, Observation, Prompt, Result,
    Sampling, ScoredTree, Scorer, ScorerInfo, Scores, TokenId, TokenTree, Top, Want,
};
use cascade_engine::{
    AssumedCosts, Branching, Cascade, CascadeBuilder, Convention, DraftedToken, Error, Expand,
    KMatrix, NeuralOptions, OnlineSchedule, Options, Outcome, Rule, StopRule,
};
use cascade_ngram::MaxGramTree;

use crate::common::matrix;

const VOCABULARY: usize = 12;

fn toy(architecture: Architecture) -> ToyScorer {
    ToyScorer::target("target", VOCABULARY, 42).with_architecture(architecture)
}

fn most_probable() -> NeuralOptions {
    let branching = Branching {
        expand: Expand::MostProbable,
        ..Branching::chain()
    };
    NeuralOptions::new(Rule::default(), branching)
}

/// By a rule that draws, a seed gives the same sample whatever was generated before, though the
/// tree learns.
#[test]
fn samples_do_not_depend_on_earlier_generations() {
    let cascade = || {
        Cascade::builder()
            .target_with("target", toy(Architecture::DecoderOnly), Rule::Iterated)
            .k_matrix(matrix(&[&[6]]))
            .statistical("tree", MaxGramTree::default())
            .build()
            .unwrap()
    };
    let sampled = Decoding::Sampled(Sampling::PLAIN);
    let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 2, 3]);
    let mut experienced = cascade();
    for seed in 0..20 {
        let options = Options::default()
            .with_max_new_tokens(40)
            .with_decoding(sampled)
            .with_seed(seed);
        let alone = cascade().generate_tokens(&prompt, &options).unwrap();
        let after_others = experienced.generate_tokens(&prompt, &options).unwrap();
        assert_eq!(after_others.tokens, alone.tokens);
        assert_eq!(after_others.steps, alone.steps);
        let greedy = Options::default().with_max_new_tokens(40);
        experienced.generate_tokens(&prompt, &greedy).unwrap();
    }
}

/// A text of period 7, and a model that has every fifth token wrong.
#[derive(Clone, Copy)]
struct Loop {
    is_right: bool,
}

impl Loop {
    fn says(self, position: usize) -> TokenId {
        let token = [1, 4, 2, 8, 5, 7, 3][position % 7];
        if self.is_right || !position.is_multiple_of(5) {
            token
        } else {
            9
        }
    }
}

impl Scorer for Loop {
    fn info(&self) -> ScorerInfo {
        ScorerInfo::new(Architecture::DecoderOnly, VOCABULARY)
    }

    fn set_source(&mut self, _source: &[TokenId]) -> Result<()> {
        Ok(())
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let depths = (0..tree.len()).map(|node| tree.depth(node) + 1);
        let rows = std::iter::once(0).chain(depths);
        let argmax: Vec<TokenId> = rows.map(|depth| self.says(context.len() + depth)).collect();
        let top = |&token: &TokenId| {
            let others = (0..).map(move |step| ((token + 1 + step) % VOCABULARY as TokenId, 0.01));
            std::iter::once((token, 0.8)).chain(others).take(want.top)
        };
        let top = Top {
            width: want.top,
            tokens: argmax.iter().flat_map(top).collect(),
        };
        let rows = argmax.len();
        let gathered = GatheredProbs {
            argmax: vec![0.8; rows],
            nodes: vec![0.8; rows - 1],
        };
        Ok(Scores::default()
            .with_argmax(argmax)
            .with_gathered(Some(gathered))
            .with_top((want.top > 0).then_some(top))
            .with_rows_computed(rows))
    }
}

/// By the online schedule a neural drafter and the tree grow one tree: before the text repeats
/// itself by the neural one's tokens, and then by the other's too, whose are right where its own
/// are wrong.
#[test]
fn one_tree_by_the_online_schedule() {
    let generate = |costs: [f64; 2]| {
        let schedule = OnlineSchedule::new(AssumedCosts {
            row: costs[0],
            drafters: vec![costs[1], 0.0],
            fixed: true,
            ..AssumedCosts::default()
        });
        let mut cascade = Cascade::builder()
            .target("target", Loop { is_right: true })
            .neural_with("drafter", Loop { is_right: false }, most_probable())
            .statistical("tree", MaxGramTree::default())
            .max_nodes(16)
            .schedule(schedule)
            .build()
            .unwrap();
        let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 4]);
        let options = Options::default().with_max_new_tokens(200);
        let found = cascade.generate_tokens(&prompt, &options).unwrap();
        let text: Vec<_> = (2..202)
            .map(|at| Loop { is_right: true }.says(at))
            .collect();
        assert_eq!(found.tokens, text);
        let kept = |level| {
            let of_level = |it: &&LevelId| **it == LevelId(level);
            found.proposers.iter().filter(of_level).count()
        };
        (
            kept(1),
            kept(2),
            found.steps.len(),
            found.models[1].usage.calls,
        )
    };
    let (neural, tree, steps, calls) = generate([0.02, 0.05]);
    assert!(
        neural > 10 && tree > 10 && steps < 50,
        "{neural} {tree} {steps}"
    );
    assert!(calls > 0);
    // A forward that costs as much as the target's does not pay, beside trials.
    let (_, tree, _, calls) = generate([0.02, 1.0]);
    assert!(tree > 100 && calls < 8, "{tree} {calls}");
}

/// What a target was asked for beside rows.
type Asked = Arc<Mutex<Vec<usize>>>;

/// Notes how many of the most probable tokens are wanted; a recording has none.
struct Asking {
    toy: ToyScorer,
    asked: Asked,
    recording: bool,
}

impl Scorer for Asking {
    fn info(&self) -> ScorerInfo {
        let info = self.toy.info();
        info.with_max_top(self.recording.then_some(0))
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.toy.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        self.asked.lock().unwrap().push(want.top);
        self.toy.score(context, tree, want)
    }
}

/// Notes how many of the most probable tokens it observed.
struct Observer {
    wants: usize,
    observed: Asked,
}

impl Drafter for Observer {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], _budget: Budget) -> ScoredTree {
        TokenTree::chain(context.last().copied()).into()
    }

    fn observed_top(&self) -> usize {
        self.wants
    }

    fn observe(&mut self, observation: &Observation<'_>) {
        let top = observation.top;
        if let Some(top) = top {
            for row in 0..=observation.draft.len() {
                assert_eq!(top.row(row)[0].0, observation.argmax[row]);
            }
        }
        self.observed
            .lock()
            .unwrap()
            .push(top.map_or(0, |top| top.width));
    }
}

/// What the target was asked for, and what each of two drafters observed, in one generation.
fn asked(wants: [usize; 2], recording: bool, speculate: bool) -> [Vec<usize>; 3] {
    let logs: [Asked; 3] = std::array::from_fn(|_| Asked::default());
    let target = Asking {
        toy: toy(Architecture::DecoderOnly),
        asked: logs[0].clone(),
        recording,
    };
    let observer = |j: usize| Observer {
        wants: wants[j],
        observed: logs[j + 1].clone(),
    };
    let k = matrix(&[&[1, 1], &[0, 0]]);
    let mut cascade = Cascade::builder()
        .target("target", target)
        .statistical("a", observer(0))
        .statistical("b", observer(1))
        .k_matrix(k)
        .build()
        .unwrap();
    let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 2]);
    let options = Options::default()
        .with_max_new_tokens(5)
        .with_speculation(speculate);
    cascade.generate_tokens(&prompt, &options).unwrap();
    logs.map(|log| {
        let mut log = log.lock().unwrap().clone();
        log.dedup();
        log
    })
}

#[test]
fn the_targets_best_tokens_are_computed_only_where_a_drafter_asks_for_them() {
    assert_eq!(asked([0, 0], false, true), [vec![0], vec![0], vec![0]]);
    assert_eq!(asked([2, 5], false, true), [vec![5], vec![5], vec![5]]);
    assert_eq!(asked([2, 5], false, false), [vec![0], vec![], vec![]]);
    // A recording is not asked for what it does not know.
    assert_eq!(asked([2, 5], true, true), [vec![0], vec![0], vec![0]]);
}

/// A neural drafter that agrees with the target in `agreement` of 256 rows, and the tree below it,
/// which draft jointly in so many forwards.
fn joint(agreement: u64, forwards: usize, nodes: usize) -> Cascade {
    let target = toy(Architecture::DecoderOnly);
    joint_of(target, Rule::default(), agreement, forwards, nodes)
}

fn joint_of(
    target: ToyScorer,
    rule: Rule,
    agreement: u64,
    forwards: usize,
    nodes: usize,
) -> Cascade {
    let drafter = ToyScorer::drafter("drafter", VOCABULARY, 42, 1, agreement);
    let k = vec![vec![forwards, 0], vec![0, 8]];
    Cascade::builder()
        .target_with("target", target, rule)
        .neural_with("drafter", drafter, most_probable())
        .statistical("tree", MaxGramTree::default())
        .max_nodes(nodes)
        .k_matrix(KMatrix::new(k, Convention::Added).unwrap())
        .build()
        .unwrap()
}

#[test]
fn each_forward_of_a_joint_draft_makes_it_better() {
    let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 2, 3]);
    let options = Options::default().with_max_new_tokens(200);
    let mut forwards = Vec::new();
    for rounds in [0, 1, 2, 4] {
        let mut cascade = joint(250, rounds, 12);
        let found = cascade.generate_tokens(&prompt, &options).unwrap();
        let calls = |level: usize| found.models[level].usage.calls as usize;
        // One forward of the drafter in each round, and none where it could change nothing.
        assert!(calls(1) <= rounds * found.steps.len());
        assert!(found.steps.iter().all(|step| step.drafted <= 12));
        forwards.push(calls(0));
    }
    // The text of a toy does not repeat itself: what is known is what the drafter says.
    assert!(forwards.is_sorted_by(|a, b| a > b), "{forwards:?}");
    assert!(forwards[3] * 2 < forwards[0], "{forwards:?}");
}

/// What is drafted jointly is reviewed by every rule as what it is: tokens that were chosen.
#[test]
fn joint_drafts_keep_the_targets_distribution() {
    const SAMPLES: u64 = 2000;
    let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 2, 3]);
    let sampled = Options::default()
        .with_max_new_tokens(3)
        .with_decoding(Decoding::Sampled(Sampling::PLAIN));
    // Of the first and the third token, for other seeds with speculation than without.
    let counts = |rule: Rule, speculate: bool| {
        let target = toy(Architecture::DecoderOnly);
        let mut cascade = joint_of(target, rule, 128, 2, 10);
        let mut counts = vec![0usize; VOCABULARY * VOCABULARY];
        for seed in 0..SAMPLES {
            let options = sampled
                .clone()
                .with_seed(2 * seed + u64::from(speculate))
                .with_speculation(speculate);
            let found = cascade.generate_tokens(&prompt, &options).unwrap().tokens;
            counts[found[0] as usize * VOCABULARY + found[2] as usize] += 1;
        }
        counts
    };
    let plain = counts(Rule::default(), false);
    for rule in Rule::DRAWN {
        let found = counts(rule, true);
        // Both are samples: a squared difference has the variance of the sum.
        let (mut statistic, mut cells) = (0.0, 0.0);
        for (a, b) in plain.iter().zip(&found).filter(|(a, b)| *a + *b > 9) {
            statistic += (*a as f64 - *b as f64).powi(2) / (a + b) as f64;
            cells += 1.0;
        }
        // Five standard deviations of a chi-squared variable.
        let limit = cells + 5.0 * (2.0f64 * cells).sqrt();
        assert!(
            cells > 50.0 && statistic < limit,
            "{rule}: {statistic} of {cells} cells"
        );
    }
}

/// Never stops anything.
#[derive(Clone)]
struct Patient;

impl StopRule for Patient {
    fn stop(&mut self, _drafted: &DraftedToken<'_>) -> bool {
        false
    }

    fn observe(&mut self, _outcome: &Outcome<'_>) {}
}

#[test]
fn a_joint_drafter_needs_a_fitting_partner_and_no_stop_rule() {
    let problem = |builder: CascadeBuilder| builder.build().err().unwrap();
    let alone = |k: Vec<Vec<usize>>| {
        let k = KMatrix::new(k, Convention::Added).unwrap();
        joint_builder(Some(Observer {
            wants: 0,
            observed: Asked::default(),
        }))
        .k_matrix(k)
    };
    // It grows alone if nobody drafts for it.
    assert!(alone(vec![vec![1, 0], vec![0, 0]]).build().is_ok());
    let error = problem(alone(vec![vec![1, 0], vec![0, 2]]));
    assert!(matches!(&error, Error::NotJoint { .. }), "{error}");
    let says = "`observer` does not mix probabilities";
    assert!(error.to_string().contains(says), "{error}");

    let k = matrix(&[&[1, 0], &[0, 2]]);
    let stopped = joint_builder(None)
        .stop_rule(Patient)
        .statistical("tree", MaxGramTree::default())
        .k_matrix(k);
    let error = problem(stopped);
    assert!(matches!(error, Error::StopRuleOfJoint { .. }), "{error}");
}

/// A target and a drafter of the most probable nodes, and an observer below it, if there is one.
fn joint_builder(observer: Option<Observer>) -> CascadeBuilder {
    let builder = Cascade::builder()
        .target("target", toy(Architecture::DecoderOnly))
        .neural_with("drafter", toy(Architecture::DecoderOnly), most_probable());
    match observer {
        None => builder,
        Some(observer) => builder.statistical("observer", observer),
    }
}
