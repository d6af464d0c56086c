//! Schedules, stop rules, steps, and models that violate their contracts.

use std::sync::{Arc, Mutex};

use cascade_core::toy::ToyScorer;
use cascade_core::{
    Architecture, Budget, Distribution, Drafter, LevelId, Matrix, Observation, Prompt, Proposal,
    ScoredTree, Scores, TokenId, TokenTree, Want,
};
use cascade_engine::{
    Cascade, CascadeBuilder, ConfidenceThreshold, DraftState, DraftedToken, Error, Finish,
    Judgement, Lenience, Outcome, Schedule, StopRule, Turn, TurnStart,
};

use crate::common::{Log, Scripted, Spoiled, matrix, options, prompt, scripted};

/// The calls of a generation from the context 0 1.
fn calls(builder: CascadeBuilder, tokens: usize, log: &Log) -> Vec<String> {
    let mut cascade = builder.build().unwrap();
    let output = cascade
        .generate_tokens(&prompt(), &options(tokens))
        .unwrap();
    let expected: Vec<TokenId> = (2..2 + tokens as TokenId).collect();
    assert_eq!(output.tokens, expected, "the output is the target's");
    std::mem::take(&mut *log.lock().unwrap())
}

/// Ends a turn after one of these tokens.
struct After(&'static [TokenId]);

impl StopRule for After {
    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        self.0.contains(&drafted.token)
    }
}

#[test]
fn what_a_stop_leaves_undrafted_is_not_handed_to_the_next_drafter() {
    let log = Log::default();
    let builder = scripted(&log)
        .neural("base", Scripted::new("base", &[], &log))
        .stop_rule(After(&[3]))
        .statistical("mag", Scripted::new("mag", &[], &log))
        .k_matrix(matrix(&[&[4, 2], &[0, 0]]));
    assert_eq!(
        calls(builder, 5, &log),
        [
            "base 0 1 |",
            "base 0 1 2 |", // drafts 3 and stops, two tokens early
            "mag 0 1 2 3 | 4 5",
            "target 0 1 | 2 3 4 5",
        ]
    );
}

#[test]
fn a_stop_within_a_review_drops_what_was_accepted_behind_it() {
    let log = Log::default();
    let builder = scripted(&log)
        .neural("base", Scripted::new("base", &[], &log))
        .stop_rule(After(&[3]))
        .statistical("mag", Scripted::new("mag", &[], &log))
        .k_matrix(matrix(&[&[5, 0], &[0, 3]]));
    assert_eq!(
        calls(builder, 6, &log)[..3],
        ["mag 0 1 | 2 3 4", "base 0 1 | 2 3 4", "target 0 1 | 2 3"]
    );
}

#[test]
fn statistical_drafters_stop_too() {
    let log = Log::default();
    let builder = scripted(&log)
        .statistical("mag", Scripted::new("mag", &[], &log))
        .stop_rule(After(&[3]))
        .k_matrix(matrix(&[&[4]]));
    assert_eq!(
        calls(builder, 3, &log),
        ["mag 0 1 | 2 3", "target 0 1 | 2 3"]
    );
    let builder = scripted(&log)
        .statistical("mag", Scripted::new("mag", &[], &log))
        .stop_rule(After(&[3]))
        .k_matrix(matrix(&[&[4]]));
    // The proposal was longer; the target sees what comes before the stop.
    let seen = calls(builder, 8, &log);
    assert_eq!(seen[..2], ["mag 0 1 | 2 3 4 5", "target 0 1 | 2 3"]);
}

/// A toy family with a rule for its drafter.
fn toys(rule: impl StopRule + 'static) -> CascadeBuilder {
    Cascade::builder()
        .target("target", ToyScorer::target("target", 24, 7))
        .neural("base", ToyScorer::drafter("base", 24, 7, 1, 180))
        .stop_rule(rule)
        .k_matrix(matrix(&[&[6]]))
}

#[test]
fn a_confidence_threshold_drafts_less_and_is_accepted_more() {
    let run = |threshold| {
        let mut cascade = toys(ConfidenceThreshold::new(threshold)).build().unwrap();
        cascade.generate_tokens(&prompt(), &options(200)).unwrap()
    };
    let (never, sometimes, always) = (run(0.0), run(0.12), run(1.1));
    assert_eq!(never.tokens, sometimes.tokens);
    assert_eq!(never.tokens, always.tokens);
    assert!(always.steps.iter().all(|step| step.drafted <= 1));
    assert!(sometimes.num_draft_tokens() < never.num_draft_tokens());
    assert!(sometimes.draft_acceptance_rate() > never.draft_acceptance_rate());
}

/// Reads everything that it requested.
struct Reads(Arc<Mutex<Vec<Judgement>>>);

impl StopRule for Reads {
    fn want(&self) -> Want {
        Want::LOGITS.with_top(3).with_entropy().with_last_hidden()
    }

    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        assert_eq!(drafted.drafter, LevelId(1));
        assert_eq!(drafted.reviewer, LevelId::TARGET);
        assert_eq!(drafted.position, drafted.turn_position);
        assert_eq!(
            drafted.top[0],
            (drafted.token, drafted.probability.unwrap())
        );
        assert_eq!(drafted.top.len(), 3);
        assert!(drafted.entropy.unwrap() > 0.0);
        assert_eq!(drafted.hidden.unwrap().len(), 1);
        false
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        assert!(outcome.forward.rows > 0);
        self.0.lock().unwrap().extend(outcome.judgements());
    }
}

#[test]
fn rules_read_what_they_want_and_learn_what_became_of_it() {
    let seen = Arc::default();
    let builder = toys(Reads(Arc::clone(&seen))).lenience(Lenience::new(2.0).unwrap());
    let mut cascade = builder.build().unwrap();
    let output = cascade.generate_tokens(&prompt(), &options(60)).unwrap();
    let seen = seen.lock().unwrap();
    let accepted = seen.iter().filter(|judgement| judgement.accepted).count();
    assert_eq!(accepted, output.num_accepted_draft_tokens());
    let rejected = output
        .steps
        .iter()
        .filter(|step| step.accepted < step.drafted);
    assert_eq!(seen.len() - accepted, rejected.count());
}

/// Uses the drafters in increasing order, more and more of them, and records what it observes.
struct SmallestFirst {
    reviews: Arc<Mutex<Vec<LevelId>>>,
}

impl Schedule for SmallestFirst {
    fn next(&mut self, reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn> {
        let last = reviewer.0 + state.drafters;
        let level = last.checked_sub(state.turns.len())?;
        (level > reviewer.0).then_some(Turn {
            drafter: LevelId(level),
            tokens: 1 + state.turns.len(),
            start: [TurnStart::Tip, TurnStart::Root][state.turns.len() % 2],
            reserved: 0,
            nodes: usize::MAX,
        })
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        self.reviews.lock().unwrap().push(outcome.reviewer);
    }
}

/// Drafts one token, and records which forwards of the target encoded a source.
struct Encodings(Arc<Mutex<Vec<bool>>>);

impl Schedule for Encodings {
    fn next(&mut self, reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn> {
        (reviewer == LevelId::TARGET && state.turns.is_empty()).then_some(Turn {
            drafter: LevelId(1),
            tokens: 1,
            start: TurnStart::Tip,
            reserved: 0,
            nodes: 1,
        })
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        if outcome.reviewer == LevelId::TARGET {
            self.0.lock().unwrap().push(outcome.forward.encoded);
        }
    }
}

#[test]
fn only_the_first_forward_after_a_prompt_encodes_and_only_of_an_encoder_decoder() {
    for architecture in [Architecture::EncoderDecoder, Architecture::DecoderOnly] {
        let encoder = architecture == Architecture::EncoderDecoder;
        let seen = Arc::default();
        let toy = |toy: ToyScorer| toy.with_architecture(architecture);
        let mut cascade = Cascade::builder()
            .target("target", toy(ToyScorer::target("target", 24, 7)))
            .neural("base", toy(ToyScorer::drafter("base", 24, 7, 1, 200)))
            .schedule(Encodings(Arc::clone(&seen)))
            .build()
            .unwrap();
        for token in [3, 4] {
            let prompt = Prompt::new(architecture, vec![token]);
            cascade.generate_tokens(&prompt, &options(20)).unwrap();
            let seen = std::mem::take(&mut *seen.lock().unwrap());
            assert!(seen.len() > 5);
            assert_eq!(seen[0], encoder);
            assert!(!seen[1..].contains(&true));
        }
    }
}

#[test]
fn any_schedule_gives_the_targets_output() {
    let reviews = Arc::default();
    let family = || {
        Cascade::builder()
            .target("target", ToyScorer::target("target", 24, 7))
            .neural("base", ToyScorer::drafter("base", 24, 7, 1, 200))
            .neural("small", ToyScorer::drafter("small", 24, 7, 2, 120))
    };
    let schedule = SmallestFirst {
        reviews: Arc::clone(&reviews),
    };
    let mut cascade = family().schedule(schedule).build().unwrap();
    let fast = cascade.generate_tokens(&prompt(), &options(80)).unwrap();
    let plain = options(80).with_speculation(false);
    let plain = cascade.generate_tokens(&prompt(), &plain).unwrap();
    assert_eq!(fast.tokens, plain.tokens);
    assert!(fast.steps.len() < plain.steps.len());
    let reviews = reviews.lock().unwrap();
    let of = |level: usize| reviews.iter().filter(|r| **r == LevelId(level)).count();
    assert_eq!(of(0), fast.steps.len());
    assert_eq!(of(1) as u64, fast.models[1].usage.calls);
    assert_eq!(of(2) as u64, fast.models[2].usage.calls);
}

/// Always requests the same turn of the same level.
struct Stubborn(LevelId, usize);

impl Schedule for Stubborn {
    fn next(&mut self, _reviewer: LevelId, _state: &DraftState<'_>) -> Option<Turn> {
        Some(Turn {
            drafter: self.0,
            tokens: self.1,
            start: TurnStart::Tip,
            reserved: 0,
            nodes: usize::MAX,
        })
    }
}

#[test]
fn schedules_that_ask_for_nonsense_are_refused_or_come_to_an_end() {
    let with = |schedule| {
        let builder = Cascade::builder()
            .target("target", ToyScorer::target("target", 24, 7))
            .neural("base", ToyScorer::drafter("base", 24, 7, 1, 200))
            .schedule(schedule);
        let mut cascade = builder.build().unwrap();
        cascade.generate_tokens(&prompt(), &options(20))
    };
    for level in [0, 2, 7] {
        let error = with(Stubborn(LevelId(level), 3)).unwrap_err();
        assert!(
            matches!(
                error,
                Error::ScheduledDrafter { reviewer: LevelId(0), drafter, last: LevelId(1) }
                    if drafter == LevelId(level)
            ),
            "{error}"
        );
    }
    assert_eq!(with(Stubborn(LevelId(1), 0)).unwrap().tokens.len(), 20);
    // It never ends a draft, so only the end of the generation bounds it; no level drafts for base.
    let schedule = SmallestFirst {
        reviews: Arc::default(),
    };
    assert!(with_one(schedule).is_ok());
}

fn with_one(schedule: impl Schedule + 'static) -> std::result::Result<(), Error> {
    let builder = Cascade::builder()
        .target("target", ToyScorer::target("target", 24, 7))
        .neural("base", ToyScorer::drafter("base", 24, 7, 1, 200))
        .schedule(schedule);
    let mut cascade = builder.build()?;
    cascade.generate_tokens(&prompt(), &options(20))?;
    Ok(())
}

#[test]
fn policies_without_a_place_are_refused() {
    let target = || Cascade::builder().target("target", ToyScorer::target("target", 24, 7));
    let early = target().stop_rule(After(&[])).build().map(|_| ());
    assert!(matches!(early, Err(Error::StopRuleWithoutDrafter)));
    let twice = target()
        .neural("base", ToyScorer::drafter("base", 24, 7, 1, 200))
        .k_matrix(matrix(&[&[1]]))
        .schedule(Stubborn(LevelId(1), 1));
    assert!(matches!(
        twice.build().map(|_| ()),
        Err(Error::TwoSchedules)
    ));
}

#[test]
fn steps_tell_what_the_output_tells() {
    let mut cascade = toys(After(&[])).build().unwrap();
    let whole = cascade.generate_tokens(&prompt(), &options(40)).unwrap();
    let mut generation = cascade.start_tokens(&prompt(), &options(40)).unwrap();
    let (mut tokens, mut steps, mut calls) = (Vec::new(), Vec::new(), [0, 0]);
    while let Some(report) = generation.step().unwrap() {
        let base = report.levels[1];
        assert_eq!(
            (base.drafted, base.accepted),
            (report.step.drafted, report.step.accepted)
        );
        assert_eq!(report.tokens.len(), report.proposers.len());
        assert_eq!(report.levels[0].usage.calls, 1);
        for (sum, level) in calls.iter_mut().zip(&report.levels) {
            *sum += level.usage.calls;
        }
        assert_eq!(report.finish.as_ref(), generation.finish());
        tokens.extend(report.tokens);
        steps.push(report.step);
    }
    assert_eq!((&tokens, &steps), (&whole.tokens, &whole.steps));
    assert_eq!(generation.step().unwrap(), None, "it has ended");
    let output = generation.into_output();
    assert_eq!(output.tokens, tokens);
    assert_eq!(output.finish, Finish::MaxNewTokens);
    assert_eq!(
        output
            .models
            .iter()
            .map(|m| m.usage.calls)
            .collect::<Vec<_>>(),
        calls
    );
}

#[test]
fn a_generation_can_be_dropped_or_given_up_at_any_step() {
    let mut cascade = toys(After(&[])).build().unwrap();
    let whole = cascade.generate_tokens(&prompt(), &options(40)).unwrap();
    for steps in 0..4 {
        let generation = cascade.start_tokens(&prompt(), &options(40)).unwrap();
        let taken = generation.take(steps).count();
        assert_eq!(taken, steps);
    }
    let mut generation = cascade.start_tokens(&prompt(), &options(40)).unwrap();
    generation.step().unwrap();
    let given_up = generation.into_output();
    assert_eq!(given_up.finish, Finish::Cancelled);
    assert!(whole.tokens.starts_with(&given_up.tokens));
    let again = cascade.generate_tokens(&prompt(), &options(40)).unwrap();
    assert_eq!(again.tokens, whole.tokens);
}

#[test]
fn two_generations_that_own_their_cascades_run_in_turns() {
    let whole = |seed| {
        let mut cascade = toys(After(&[])).build().unwrap();
        let prompt = Prompt::new(Architecture::DecoderOnly, vec![seed, 1]);
        cascade
            .generate_tokens(&prompt, &options(30))
            .unwrap()
            .tokens
    };
    let mut running: Vec<_> = [3, 5]
        .map(|seed| {
            let prompt = Prompt::new(Architecture::DecoderOnly, vec![seed, 1]);
            let cascade = toys(After(&[])).build().unwrap();
            cascade.into_generation(&prompt, &options(30)).unwrap()
        })
        .into();
    while running
        .iter_mut()
        .any(|generation| generation.step().unwrap().is_some())
    {}
    for generation in &mut running {
        while generation.step().unwrap().is_some() {}
    }
    let (second, first) = (running.pop().unwrap(), running.pop().unwrap());
    assert_eq!(first.into_output().tokens, whole(3));
    let (_, cascade) = second.into_output_and_cascade();
    assert_eq!(cascade.level_names(), ["target", "base"]);
}

/// Records what it observes and proposes what followed last time.
#[derive(Default)]
struct Learner {
    text: Vec<TokenId>,
    rejections: usize,
}

struct SharedLearner(Arc<Mutex<Learner>>);

impl Drafter for SharedLearner {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        let learner = self.0.lock().unwrap();
        let follows = learner.text.get(context.len()..).unwrap_or_default();
        TokenTree::chain(follows.iter().copied().take(budget.depth)).into()
    }

    fn observe(&mut self, seen: &Observation<'_>) {
        assert_eq!(seen.argmax.len(), seen.draft.len() + 1);
        let mut learner = self.0.lock().unwrap();
        let len = seen.context.len();
        if learner.text.len() < len {
            learner.text = seen.context.to_vec();
        }
        learner.text.truncate(len);
        learner.text.extend(seen.emitted);
        learner.rejections += seen.draft.len() - seen.accepted.len();
    }
}

#[test]
fn drafters_learn_from_what_was_emitted_and_never_change_the_answer() {
    let learner = Arc::new(Mutex::new(Learner::default()));
    let mut cascade = Cascade::builder()
        .target("target", ToyScorer::target("target", 24, 7))
        .statistical("learner", SharedLearner(Arc::clone(&learner)))
        .k_matrix(matrix(&[&[8]]))
        .build()
        .unwrap();
    let first = cascade.generate_tokens(&prompt(), &options(40)).unwrap();
    // What the text does not end with is not observed either.
    assert_eq!(learner.lock().unwrap().text[2..], first.tokens);
    let second = cascade.generate_tokens(&prompt(), &options(40)).unwrap();
    assert_eq!(second.tokens, first.tokens);
    assert!(second.steps.len() <= first.steps.len());
}

#[test]
fn broken_contracts_are_errors_that_name_the_model_and_the_part() {
    type Break = fn(&mut Scores);
    let ways: [(&str, Break); 8] = [
        ("argmax", |scores| scores.argmax.clear()),
        ("gathered.argmax", |scores| scores.gathered = None),
        ("gathered.nodes", |scores| {
            scores.gathered.as_mut().unwrap().nodes.push(0.5);
        }),
        ("top.width", |scores| scores.top = None),
        ("top.tokens", |scores| {
            scores.top.as_mut().unwrap().tokens.pop();
        }),
        ("entropy", |scores| scores.entropy = Some(Vec::new())),
        ("hidden.rows", |scores| {
            scores.hidden = Matrix::new(1, vec![0.0; 99]).into();
        }),
        ("argmax", |scores| scores.argmax.push(0)),
    ];
    for (part, how) in ways {
        let spoiled = Spoiled {
            model: ToyScorer::drafter("base", 24, 7, 1, 180),
            how: move |_, scores: &mut Scores| how(scores),
        };
        let mut cascade = Cascade::builder()
            .target("target", ToyScorer::target("target", 24, 7))
            .neural("the drafter", spoiled)
            .stop_rule(Reads(Arc::default()))
            .k_matrix(matrix(&[&[3]]))
            .lenience(Lenience::new(2.0).unwrap())
            .build()
            .unwrap();
        let error = cascade.generate_tokens(&prompt(), &options(9)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("`the drafter`") && text.contains(part) && text.contains("Scorer::score"),
            "{part}: {text}"
        );
    }
}

/// Proposes one fixed tree.
struct Fixed(ScoredTree);

impl Drafter for Fixed {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, _context: &[TokenId], _budget: Budget) -> ScoredTree {
        self.0.clone()
    }
}

#[test]
fn proposals_that_break_the_contract_name_the_drafter() {
    let estimated = |estimates: [f32; 2]| {
        ScoredTree::estimated(TokenTree::chain([3, 4]), |node| estimates[node])
    };
    let drawn = |token, weights: Vec<f64>, times| {
        let q = Arc::new(Distribution::new(weights).unwrap());
        let mut proposed = ScoredTree::default();
        for _ in 0..times {
            proposed.draw(token, None, Proposal::Sampled(Arc::clone(&q)));
        }
        proposed
    };
    let even = || vec![1.0; 24];
    let mut never = even();
    never[3] = 0.0;
    let ways = [
        (estimated([0.5, 1.5]), "1.5 is not a probability"),
        (estimated([f32::NAN, 0.5]), "NaN is not a probability"),
        (TokenTree::chain([24]).into(), "token 24 is outside"),
        (
            drawn(3, vec![1.0; 9], 1),
            "over 9 tokens, and the target has 24",
        ),
        (
            drawn(3, never, 1),
            "token 3 was drawn, and its probability is 0",
        ),
        (drawn(3, even(), 70), "70 draws, 1 tokens deep"),
    ];
    for (proposal, part) in ways {
        let mut cascade = Cascade::builder()
            .target("target", ToyScorer::target("target", 24, 7))
            .statistical("the guesser", Fixed(proposal))
            .k_matrix(matrix(&[&[3]]))
            .build()
            .unwrap();
        let error = cascade.generate_tokens(&prompt(), &options(9)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("`the guesser`") && text.contains(part),
            "{text}"
        );
    }
}
