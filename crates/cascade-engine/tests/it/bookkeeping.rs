//! What the engine reports of a generation: counts, costs, positions, pieces of text.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cascade_core::{
    Budget, Drafter, LevelId, Prompt, Result as CoreResult, ScoredTree, Scorer, ScorerInfo, Scores,
    TextCodec, TextDecoder, TokenId, TokenTree, Want,
};
use cascade_engine::{
    Branching, Cascade, CascadeBuilder, ConfidenceThreshold, DraftState, DraftedToken, Error,
    Event, Expand, Finish, LevelSpec, NeuralOptions, Outcome, Plan, Result, Rule, Schedule,
    Siblings, StaticSchedule, StepReport, StopRule, StopSequences, Turn, TurnStart,
};

use crate::common::{Log, Scripted, matrix, options, prompt, scripted};

fn steps(builder: CascadeBuilder, tokens: usize) -> Vec<StepReport> {
    let generation = builder
        .build()
        .unwrap()
        .into_generation(&prompt(), &options(tokens));
    let steps: Result<Vec<StepReport>> = generation.unwrap().collect();
    steps.unwrap()
}

/// Counts rows as a model with a cache does, and takes its time.
#[derive(Clone)]
struct Caching {
    model: Scripted,
    seen: usize,
    pause: Duration,
}

impl Caching {
    fn new(name: &'static str, log: &Log) -> Self {
        Self {
            model: Scripted::new(name, &[], log),
            seen: 0,
            pause: Duration::ZERO,
        }
    }

    fn slow(self) -> Self {
        Self {
            pause: Duration::from_millis(3),
            ..self
        }
    }
}

impl Scorer for Caching {
    fn info(&self) -> ScorerInfo {
        Scorer::info(&self.model)
    }

    fn set_source(&mut self, _source: &[TokenId]) -> CoreResult<()> {
        self.seen = 0;
        Ok(())
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> CoreResult<Scores> {
        std::thread::sleep(self.pause);
        // The last token of the context is always computed again.
        let fresh = (context.len() - self.seen.min(context.len())).max(1);
        self.seen = context.len();
        let scores = self.model.score(context, tree, want)?;
        Ok(scores.with_rows_computed(fresh + tree.len()))
    }
}

#[test]
fn the_usage_of_all_steps_is_that_of_the_generation() {
    let log = Log::default();
    let builder = || {
        Cascade::builder()
            .target("target", Caching::new("target", &log))
            .neural("base", Caching::new("base", &log))
            .statistical("mag", Scripted::new("mag", &[5, 9], &log))
            .k_matrix(matrix(&[&[2, 3], &[0, 2]]))
    };
    let whole = builder()
        .build()
        .unwrap()
        .generate_tokens(&prompt(), &options(30))
        .unwrap();
    let steps = steps(builder(), 30);
    assert!(steps.len() > 2);
    for (level, model) in whole.models.iter().enumerate() {
        let sum = |of: fn(&cascade_engine::Usage) -> u64| -> u64 {
            steps.iter().map(|step| of(&step.levels[level].usage)).sum()
        };
        let usage = &model.usage;
        assert_eq!(sum(|u| u.calls), usage.calls, "{}", model.name);
        assert_eq!(sum(|u| u.rows), usage.rows, "{}", model.name);
        assert_eq!(
            sum(|u| u.prefill_rows),
            usage.prefill_rows,
            "{}",
            model.name
        );
        assert_eq!(
            sum(|u| u.catch_up_rows),
            usage.catch_up_rows,
            "{}",
            model.name
        );
    }
    let rows: usize = whole.steps.iter().map(|step| step.drafted + 1).sum();
    assert_eq!(whole.models[0].usage.rows, rows as u64);
    assert_eq!(whole.models[0].usage.prefill_rows, 1, "0 of 0 1");
}

/// Where the time of a step goes: each phase has its own.
#[test]
fn a_step_tells_its_phases_apart() {
    let log = Log::default();
    let builder = Cascade::builder()
        .target("target", Caching::new("target", &log).slow())
        .neural("base", Caching::new("base", &log).slow())
        .k_matrix(matrix(&[&[2]]));
    for step in steps(builder, 6) {
        let timings = step.timings;
        // Sleeping takes at least as long as asked.
        let drafted = Duration::from_millis(3) * step.step.drafted as u32;
        assert!(timings.drafting >= drafted, "{timings:?}");
        assert!(timings.forward >= Duration::from_millis(3), "{timings:?}");
        let overhead = timings.drafting + timings.verification + timings.emission;
        assert_eq!(timings.overhead(), overhead);
        assert_eq!(timings.total(), overhead + timings.forward);
    }
}

/// The last step says why the generation ended.
#[test]
fn the_step_that_ends_a_generation_says_so() {
    let log = Log::default();
    let target = || scripted(&log);
    let last = |builder, tokens| {
        let finishes: Vec<_> = steps(builder, tokens)
            .into_iter()
            .map(|step| step.finish)
            .collect();
        let (last, before) = finishes.split_last().unwrap();
        assert!(before.iter().all(Option::is_none));
        last.clone()
    };
    assert_eq!(last(target(), 4), Some(Finish::MaxNewTokens));
    assert_eq!(last(target().eos([4]), 9), Some(Finish::Eos));
}

/// What became of a draft, by a schedule that listens.
#[derive(Default)]
struct Heard {
    /// Rows of the target's forwards.
    rows: Vec<usize>,
    /// Drafters of the turns in each draft for the target, and their tokens.
    turns: Vec<Vec<(usize, usize)>>,
    /// Position, level and acceptance of every judgement for the first drafter.
    judged: Vec<(usize, usize, bool)>,
}

struct Listening {
    schedule: StaticSchedule,
    heard: Arc<Mutex<Heard>>,
}

impl Schedule for Listening {
    fn next(&mut self, reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn> {
        self.schedule.next(reviewer, state)
    }

    fn prepare(&mut self, levels: &[LevelSpec<'_>]) -> Result<Plan> {
        self.schedule.prepare(levels)
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        let mut heard = self.heard.lock().unwrap();
        if outcome.reviewer == LevelId::TARGET {
            heard.rows.push(outcome.forward.rows);
            let turn =
                |record: &cascade_engine::TurnRecord| (record.turn.drafter.0, record.path.len());
            heard.turns.push(outcome.turns.iter().map(turn).collect());
        } else {
            let judged = outcome
                .judgements()
                .map(|j| (j.position, j.drafter.0, j.accepted));
            heard.judged.extend(judged);
        }
    }
}

#[test]
fn an_outcome_tells_rows_turns_and_positions() {
    let log = Log::default();
    let heard = Arc::new(Mutex::new(Heard::default()));
    let branching = Branching {
        widths: vec![2, 1],
        expand: Expand::AllLeaves,
        siblings: Siblings::TopK,
    };
    let builder = Cascade::builder()
        .target("target", Caching::new("target", &log))
        .neural_with(
            "small",
            Scripted::new("small", &[], &log),
            NeuralOptions::new(Rule::default(), branching),
        )
        .statistical("idle", Scripted::new("idle", &[], &log))
        .statistical("mag", Scripted::new("mag", &[5], &log))
        .schedule(Listening {
            schedule: StaticSchedule::new(matrix(&[&[4, 0, 1], &[0, 0, 2], &[0, 0, 0]])),
            heard: Arc::clone(&heard),
        });
    let steps = steps(builder, 6);
    let heard = heard.lock().unwrap();
    // Two tokens of prompt and draft; a context that has grown by what was emitted.
    let computed: Vec<u64> = steps
        .iter()
        .map(|step| step.levels[0].usage)
        .map(|usage| usage.rows + usage.prefill_rows + usage.catch_up_rows)
        .collect();
    assert_eq!(
        heard
            .rows
            .iter()
            .map(|&rows| rows as u64)
            .collect::<Vec<_>>(),
        computed
    );
    // Of the target's drafts: only drafters with an entry had a turn.
    assert_eq!(heard.turns[0], [(1, 4), (3, 1)]);
    // Small reviews 2 3 and then, below the chunk 2 3 4, the guess 105 for 5: positions count from
    // where the review began.
    assert_eq!(
        heard.judged,
        [(0, 3, true), (1, 3, true), (0, 3, false)],
        "{:?}",
        log.lock().unwrap()
    );
}

/// A drafter that proposes more than it was asked for, and a rule that notes what it is asked.
struct Eager;

impl Drafter for Eager {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], _budget: Budget) -> ScoredTree {
        let next = context.len() as TokenId;
        ScoredTree::estimated(TokenTree::chain(next..next + 9), |_| 0.5)
    }
}

#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<(usize, usize, TokenId)>>>);

impl StopRule for Asked {
    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        let place = (drafted.position, drafted.turn_position, drafted.token);
        self.0.lock().unwrap().push(place);
        false
    }
}

#[test]
fn a_stop_rule_is_asked_about_each_drafted_token_and_no_other() {
    let log = Log::default();
    let (neural, eager) = (Asked::default(), Asked::default());
    let builder = scripted(&log)
        .neural("base", Scripted::new("base", &[], &log))
        .stop_rule(neural.clone())
        .statistical("eager", Eager)
        .stop_rule(eager.clone())
        .k_matrix(matrix(&[&[2, 2], &[0, 0]]));
    assert_eq!(steps(builder, 5).len(), 1);
    assert_eq!(*neural.0.lock().unwrap(), [(0, 0, 2), (1, 1, 3)]);
    assert_eq!(*eager.0.lock().unwrap(), [(2, 0, 4), (3, 1, 5)]);
}

#[test]
fn a_threshold_stops_below_it_and_not_at_it() {
    for (threshold, drafted) in [(0.5, 3), (0.500_001, 1)] {
        let log = Log::default();
        let builder = scripted(&log)
            // Its estimates are 0.5.
            .statistical("eager", Eager)
            .stop_rule(ConfidenceThreshold::new(threshold))
            .k_matrix(matrix(&[&[3]]));
        assert_eq!(steps(builder, 4)[0].step.drafted, drafted, "{threshold}");
    }
}

#[test]
fn a_statistical_drafter_is_continued_by_the_next() {
    let log = Log::default();
    let builder = scripted(&log)
        .statistical("one", Scripted::new("one", &[], &log))
        .statistical("two", Scripted::new("two", &[], &log))
        .k_matrix(matrix(&[&[2, 1], &[0, 0]]));
    steps(builder, 4);
    assert_eq!(
        *log.lock().unwrap(),
        ["one 0 1 | 2 3", "two 0 1 2 3 | 4", "target 0 1 | 2 3 4"]
    );
}

/// A turn of nothing asks nobody.
#[test]
fn a_drafter_without_nodes_is_not_asked() {
    struct Nothing(usize, usize);
    impl Schedule for Nothing {
        fn next(&mut self, _reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn> {
            state.turns.is_empty().then_some(Turn {
                drafter: LevelId(1),
                tokens: self.0,
                start: TurnStart::Tip,
                reserved: 0,
                nodes: self.1,
            })
        }
    }
    for (tokens, nodes, calls) in [(0, 9, 0), (3, 0, 0), (3, 9, 1)] {
        let log = Log::default();
        let mut cascade = scripted(&log)
            .statistical("mag", Scripted::new("mag", &[], &log))
            .schedule(Nothing(tokens, nodes))
            .build()
            .unwrap();
        let output = cascade.generate_tokens(&prompt(), &options(4)).unwrap();
        assert_eq!(
            output.models[1].usage.calls, calls,
            "{tokens} tokens, {nodes} nodes"
        );
    }
}

/// A draft goes on as long as its turns add something, however many they are.
#[test]
fn a_draft_may_have_more_turns_than_drafters() {
    struct OneByOne;
    impl Schedule for OneByOne {
        fn next(&mut self, _reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn> {
            (state.turns.len() < 5).then_some(Turn {
                drafter: LevelId(1),
                tokens: 1,
                start: TurnStart::Tip,
                reserved: 0,
                nodes: usize::MAX,
            })
        }
    }
    let log = Log::default();
    let builder = scripted(&log)
        .statistical("mag", Scripted::new("mag", &[], &log))
        .schedule(OneByOne);
    assert_eq!(steps(builder, 6)[0].step.drafted, 5);
}

#[test]
fn a_step_has_the_text_of_its_tokens() {
    let log = Log::default();
    let builder = scripted(&log)
        .statistical("mag", Scripted::new("mag", &[], &log))
        .k_matrix(matrix(&[&[1]]))
        .codec(Arc::new(Words));
    let texts: Vec<String> = steps(builder, 5).iter().map(StepReport::text).collect();
    assert_eq!(texts, ["w2 w3 ", "w4 w5 ", "w6 "]);
}

/// Token `t` is the word `w<t>`.
struct Words;

impl TextCodec for Words {
    fn encode(&self, _text: &str) -> CoreResult<Vec<TokenId>> {
        Ok(vec![0, 1])
    }

    fn special_token(&self, text: &str) -> Option<TokenId> {
        text.strip_prefix('<')?.strip_suffix('>')?.parse().ok()
    }

    fn decoder(self: Arc<Self>) -> Box<dyn TextDecoder + Send> {
        Box::new(Words)
    }

    fn decoder_after(self: Arc<Self>, context: &[TokenId]) -> Box<dyn TextDecoder + Send> {
        Box::new(Counted(context.len()))
    }
}

/// As [`Words`], with the number of tokens before each.
struct Counted(usize);

impl TextDecoder for Counted {
    fn push(&mut self, token: TokenId) -> CoreResult<String> {
        self.0 += 1;
        match self.0 {
            ..=9 => Words.push(token),
            before => Ok(format!("{before}:w{token} ")),
        }
    }

    fn finish(&mut self) -> CoreResult<String> {
        Words.finish()
    }
}

/// A stop sequence that is a special token ends the text at that token, which has no text; what was
/// held back for another one is shown.
#[test]
fn a_special_token_stops_by_itself() {
    let log = Log::default();
    let stops = StopSequences::new(["<5>", "w4 w9"]).unwrap();
    let mut cascade = scripted(&log).codec(Arc::new(Words)).build().unwrap();
    let output = cascade
        .generate("go", &options(9).with_stop(stops))
        .unwrap();
    assert_eq!(output.text.as_deref(), Some("w2 w3 w4 "));
    assert_eq!(output.finish, Finish::StopSequence("<5>".to_owned()));
    assert_eq!(output.tokens, [2, 3, 4, 5]);
}

/// A text that goes on is decoded behind the prompt's tokens, and an answer by itself.
#[test]
fn only_a_continuation_is_decoded_behind_its_prompt() {
    let log = Log::default();
    let mut cascade = scripted(&log).codec(Arc::new(Words)).build().unwrap();
    let mut text = |continues| {
        let options = options(8).with_continuation(continues);
        let text = cascade.generate("go", &options).unwrap().text.unwrap();
        text.split(' ').nth(7).unwrap().to_owned()
    };
    assert_eq!([text(false), text(true)], ["w9", "10:w9"]);
}

impl TextDecoder for Words {
    fn push(&mut self, token: TokenId) -> CoreResult<String> {
        Ok(format!("w{token} "))
    }

    fn finish(&mut self) -> CoreResult<String> {
        Ok(String::new())
    }
}

/// Stop sequences begin and end within tokens; only what surely is no part of one is shown, once.
#[test]
fn text_before_a_stop_sequence_is_shown_to_the_byte() {
    let log = Log::default();
    let cascade = || scripted(&log).codec(Arc::new(Words)).build().unwrap();
    for (stop, expected, last) in [
        ("4", "w2 w3 w", 3),
        ("3 w4", "w2 w", 3),
        ("2 w3 w4 w", "w", 4),
        ("3 w9", "w2 w3 w4 w5 w6 w7 ", 6),
        ("w2 ", "", 1),
    ] {
        let stops = StopSequences::new([stop]).unwrap();
        let options = options(6).with_stop(stops);
        let (mut shown, mut pieces) = (String::new(), 0);
        let output = cascade()
            .start("go", &options)
            .unwrap()
            .run_with(|event| {
                if let Event::Text { text, .. } = event {
                    assert!(!text.is_empty(), "{stop}: an empty piece");
                    shown.push_str(text);
                    pieces += 1;
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(
            (shown.as_str(), output.text.as_deref()),
            (expected, Some(expected))
        );
        assert_eq!(output.tokens.len(), last, "{stop}");
    }
}

/// The receiver of a piece of text ends the generation, as that of a token does.
#[test]
fn a_piece_of_text_can_be_the_last() {
    let log = Log::default();
    let mut cascade = scripted(&log).codec(Arc::new(Words)).build().unwrap();
    assert_eq!(cascade.encode_verbatim("go").unwrap(), prompt());
    let output = cascade
        .start("go", &options(9))
        .unwrap()
        .run_with(|event| match event {
            Event::Text { text: "w4 ", .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .unwrap();
    assert_eq!((output.tokens.len(), output.finish), (3, Finish::Cancelled));
}

/// Only siblings that depend on each other stand against a rule that reorders, and only those that
/// it reviews.
#[test]
fn a_reordering_rule_is_refused_only_where_it_would_not_be_exact() {
    struct Everyone(StaticSchedule);
    impl Schedule for Everyone {
        fn next(&mut self, reviewer: LevelId, state: &DraftState<'_>) -> Option<Turn> {
            self.0.next(reviewer, state)
        }
    }
    let log = Log::default();
    let build = |target: Rule, base: Rule, width: usize| {
        let branching = Branching {
            widths: vec![width],
            siblings: Siblings::WithoutReplacement,
            ..Branching::chain()
        };
        Cascade::builder()
            .target_with("target", Scripted::new("target", &[], &log), target)
            .neural_with(
                "base",
                Scripted::new("base", &[], &log),
                NeuralOptions::new(base, branching),
            )
            .schedule(Everyone(StaticSchedule::new(matrix(&[&[2]]))))
            .build()
            .map(|_| ())
    };
    let refused = build(Rule::SpecInfer, Rule::Iterated, 2).unwrap_err();
    assert!(matches!(refused, Error::InexactOrder { .. }), "{refused}");
    build(Rule::SpecInfer, Rule::Iterated, 1).unwrap();
    // Base does not review its own siblings.
    build(Rule::Iterated, Rule::SpecInfer, 2).unwrap();
}

/// A context that fills the target's positions exactly can still be continued by one token.
#[test]
fn a_prompt_may_fill_all_positions() {
    use cascade_core::toy::ToyScorer;
    let target = ToyScorer::target("target", 24, 7).with_max_context(3);
    let mut cascade = Cascade::builder().target("target", target).build().unwrap();
    let of = |len: u32| Prompt {
        context: (0..len).collect(),
        ..Prompt::default()
    };
    let full = cascade.generate_tokens(&of(3), &options(5)).unwrap();
    assert_eq!((full.tokens.len(), full.finish), (1, Finish::ContextFull));
    assert!(cascade.generate_tokens(&of(4), &options(5)).is_err());
}

/// A drafter with fewer positions than its context is not asked at all.
#[test]
fn a_small_drafter_is_never_given_more_than_it_holds() {
    use cascade_core::toy::ToyScorer;
    let limit = 9;
    let mut cascade = Cascade::builder()
        .target("target", ToyScorer::target("target", 24, 7))
        .neural(
            "small",
            ToyScorer::drafter("small", 24, 7, 1, 250).with_max_context(limit),
        )
        .k_matrix(matrix(&[&[4]]))
        .build()
        .unwrap();
    let long = Prompt {
        context: (0..12).collect(),
        ..Prompt::default()
    };
    let output = cascade.generate_tokens(&long, &options(6)).unwrap();
    assert_eq!((output.tokens.len(), output.models[1].usage.calls), (6, 0));
    let short = Prompt {
        context: (0..7).collect(),
        ..Prompt::default()
    };
    let output = cascade.generate_tokens(&short, &options(1 + 4)).unwrap();
    // It drafts while its positions last: after 7, 8 and 9 tokens.
    assert_eq!(output.steps[0].drafted, 3);
}
