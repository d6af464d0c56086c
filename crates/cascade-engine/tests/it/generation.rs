//! Whole generations with toy models in integer arithmetic: outputs are compared exactly.

use std::ops::ControlFlow;
use std::sync::Arc;

use cascade_core::toy::ToyScorer;
use cascade_core::{
    Architecture, Budget, Drafter, Prompt, Result as CoreResult, ScoredTree, Scorer, TextCodec,
    TextDecoder, TokenId, TokenTree, Want,
};
use cascade_engine::{
    Branching, Cascade, CascadeBuilder, DraftVocabulary, Ends, Error, ErrorKind, Event, Finish,
    GenerationOutput, Lenience, NeuralOptions, Options, Rule, Siblings, StopSequences,
};

use crate::common::matrix;

const VOCABULARY: usize = 12;
const FAMILY: u64 = 42;

fn target() -> ToyScorer {
    ToyScorer::target("target", VOCABULARY, FAMILY)
}

/// Drafts trees like the target's output, with siblings and mistakes.
#[derive(Clone)]
struct Guesser {
    target: ToyScorer,
    siblings: u32,
}

impl Drafter for Guesser {
    fn set_source(&mut self, source: &[TokenId]) {
        self.target.set_source(source).unwrap();
    }

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        let mut tree = TokenTree::new();
        let (mut context, mut lead) = (context.to_vec(), None);
        for depth in 0..budget.depth {
            let scores = self
                .target
                .score(&context, &TokenTree::new(), Want::ARGMAX)
                .unwrap();
            // Every fifth guess has a mistake on the main path, and the correct token among the
            // siblings.
            let truth = scores.argmax[0];
            let mistake = u32::from(context.len() % 5 == 4);
            let guess = (truth + mistake) % VOCABULARY as u32;
            let parent = lead;
            lead = Some(tree.push(guess, parent));
            for sibling in 1..=self.siblings {
                if tree.len() + (budget.depth - depth - 1) < budget.nodes {
                    let token = (guess + VOCABULARY as u32 - sibling) % VOCABULARY as u32;
                    tree.push(token, parent);
                }
            }
            context.push(guess);
        }
        tree.into()
    }
}

fn prompt(tokens: &[TokenId]) -> Prompt {
    Prompt::new(Architecture::DecoderOnly, tokens.to_vec())
}

fn generate(cascade: &mut Cascade, prompt: &Prompt, options: &Options) -> GenerationOutput {
    cascade.generate_tokens(prompt, options).unwrap()
}

fn plainly(prompt: &Prompt, tokens: usize) -> GenerationOutput {
    let mut plain = Cascade::builder()
        .target("target", target())
        .build()
        .unwrap();
    let options = Options::default().with_max_new_tokens(tokens);
    generate(&mut plain, prompt, &options)
}

/// A cascade of `neural` toys of decreasing quality, and a statistical drafter at the end.
fn family(neural: usize, siblings: u32, k: &[&[usize]], eos: Option<TokenId>) -> Cascade {
    let mut builder = Cascade::builder()
        .target("target", target())
        .eos(eos)
        .k_matrix(matrix(k));
    for j in 0..neural as u64 {
        let toy = ToyScorer::drafter("drafter", VOCABULARY, FAMILY, j, 230 - 40 * j);
        builder = builder.neural(format!("drafter-{j}"), toy);
    }
    let guesser = Guesser {
        target: target(),
        siblings,
    };
    builder.statistical("guesser", guesser).build().unwrap()
}

#[test]
fn nothing_follows_eos_and_no_draft_runs_past_it() {
    let prompt = prompt(&[1, 2, 3]);
    let endless = plainly(&prompt, 60);
    // Take as EOS the token that first appears latest, so that something comes before it.
    let eos = (0..VOCABULARY as u32)
        .filter_map(|t| {
            endless
                .tokens
                .iter()
                .position(|&x| x == t)
                .map(|at| (at, t))
        })
        .max()
        .unwrap();
    let k: [&[usize]; 3] = [&[3, 2, 9], &[0, 2, 9], &[0, 0, 9]];
    let mut cascade = family(2, 2, &k, Some(eos.1));
    let generation = generate(&mut cascade, &prompt, &Options::default());
    assert_eq!(generation.tokens, endless.tokens[..=eos.0]);
    assert_eq!(generation.finish, Finish::Eos);
}

/// Whatever drafts: the tokens are those of plain decoding with the same ends.
#[test]
fn a_caller_says_which_tokens_end_a_generation() {
    let prompt = prompt(&[1, 2, 3]);
    let endless = plainly(&prompt, 60).tokens;
    let eos = endless[9];
    let first = endless.iter().position(|&token| token == eos).unwrap();
    let k: [&[usize]; 3] = [&[3, 2, 9], &[0, 2, 9], &[0, 0, 9]];
    let run = |ends: Ends| {
        let options = Options::default().with_max_new_tokens(60).with_ends(ends);
        let drafted = generate(&mut family(2, 2, &k, Some(eos)), &prompt, &options);
        let plain = options.with_speculation(false);
        let plain = generate(&mut family(2, 2, &k, Some(eos)), &prompt, &plain);
        assert_eq!(
            (&drafted.tokens, &drafted.finish),
            (&plain.tokens, &plain.finish)
        );
        (drafted.tokens, drafted.finish)
    };
    let all = Ends::default().with_eos(false);
    assert_eq!(run(all.clone()), (endless.clone(), Finish::MaxNewTokens));
    let other = endless[first + 3];
    let place = endless.iter().position(|&token| token == other).unwrap();
    let ends = Ends::at(vec![other, 0]).with_eos(false);
    let (tokens, finish) = run(ends);
    let zero = endless.iter().position(|&token| token == 0);
    let end = zero.map_or(place, |zero| zero.min(place));
    assert_eq!(tokens, endless[..=end]);
    assert_eq!(finish, Finish::StopToken(endless[end]));
    // The most probable token that is none of the ends, up to there.
    let (tokens, _) = run(Ends::at(vec![other]).after(20));
    assert_eq!(tokens[..first.min(place)], endless[..first.min(place)]);
    assert!(tokens.len() > 20);
    assert!(
        !tokens[..20]
            .iter()
            .any(|token| [eos, other].contains(token))
    );
}

#[test]
fn a_full_context_ends_the_generation_and_small_drafters_just_fall_silent() {
    let prompt = prompt(&[1, 2, 3]);
    let expected = plainly(&prompt, 18);
    let cascade = |target_limit, drafter_limit| {
        Cascade::builder()
            .target("target", target().with_max_context(target_limit))
            .neural(
                "drafter",
                ToyScorer::drafter("drafter", VOCABULARY, FAMILY, 1, 220)
                    .with_max_context(drafter_limit),
            )
            .k_matrix(matrix(&[&[4]]))
            .build()
            .unwrap()
    };
    // 20 positions: 3 of the prompt, 17 to feed, and one token more that is not fed.
    let full = generate(&mut cascade(20, 20), &prompt, &Options::default());
    assert_eq!(
        (full.tokens.len(), &full.finish),
        (18, &Finish::ContextFull)
    );
    assert_eq!(full.tokens, expected.tokens);
    let silent = generate(&mut cascade(20, 10), &prompt, &Options::default());
    assert_eq!(silent.tokens, expected.tokens);
    let long = vec![0; 21];
    let error = cascade(20, 20)
        .generate_tokens(
            &Prompt {
                context: long,
                ..Prompt::default()
            },
            &Options::default(),
        )
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::PromptTooLong {
                tokens: 21,
                limit: 20,
                ..
            }
        ),
        "{error}"
    );
}

/// Token `t` is the letter `a + t`; every third token holds its text back until the next one.
struct Letters;

struct LettersDecoder {
    held: String,
    count: usize,
}

impl TextCodec for Letters {
    fn encode(&self, text: &str) -> CoreResult<Vec<TokenId>> {
        Ok(text.bytes().map(|b| u32::from(b - b'a')).collect())
    }

    fn decoder(self: std::sync::Arc<Self>) -> Box<dyn TextDecoder + Send> {
        Box::new(LettersDecoder {
            held: String::new(),
            count: 0,
        })
    }
}

impl TextDecoder for LettersDecoder {
    fn push(&mut self, token: TokenId) -> CoreResult<String> {
        self.held.push(char::from(b'a' + token as u8));
        self.count += 1;
        Ok(if self.count.is_multiple_of(3) {
            String::new()
        } else {
            std::mem::take(&mut self.held)
        })
    }

    fn finish(&mut self) -> CoreResult<String> {
        Ok(std::mem::take(&mut self.held))
    }
}

fn with_text() -> CascadeBuilder {
    Cascade::builder()
        .target("target", target())
        .neural(
            "drafter",
            ToyScorer::drafter("drafter", VOCABULARY, FAMILY, 1, 200),
        )
        .k_matrix(matrix(&[&[4]]))
        .codec(Arc::new(Letters))
}

#[test]
fn events_tell_the_same_story_as_the_result() {
    let mut cascade = with_text().build().unwrap();
    let options = Options::default().with_max_new_tokens(20);
    let (mut tokens, mut text, mut steps) = (Vec::new(), String::new(), Vec::new());
    let generation = cascade
        .start("abc", &options)
        .unwrap()
        .run_with(|event| {
            match event {
                Event::Token { token, proposer } => tokens.push((token, proposer)),
                Event::Text { text: piece, .. } => text.push_str(piece),
                Event::Step(step) => steps.push(step),
                _ => {}
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    let paired = generation
        .tokens
        .iter()
        .copied()
        .zip(generation.proposers.iter().copied());
    assert_eq!(tokens, paired.collect::<Vec<_>>());
    assert_eq!(generation.text.as_deref(), Some(text.as_str()));
    assert_eq!(steps, generation.steps);
    let letters: String = generation
        .tokens
        .iter()
        .map(|&t| char::from(b'a' + t as u8))
        .collect();
    assert_eq!(text, letters, "nothing is lost at the end");
}

#[test]
fn stop_sequences_end_the_text_where_they_begin() {
    let mut cascade = with_text().build().unwrap();
    let whole = generate_text(&mut cascade, None).text.unwrap();
    let stop = &whole[7..10];
    let expected = &whole[..whole.find(stop).unwrap()];
    let stopped = generate_text(&mut cascade, Some(stop));
    assert_eq!(stopped.text.as_deref(), Some(expected));
    assert_eq!(stopped.finish, Finish::StopSequence(stop.to_owned()));
    assert!(stopped.tokens.len() < 40);
    let never = generate_text(&mut cascade, Some("zzz"));
    assert_eq!(never.text.as_deref(), Some(whole.as_str()));
}

fn generate_text(cascade: &mut Cascade, stop: Option<&str>) -> GenerationOutput {
    let options = Options::default()
        .with_max_new_tokens(40)
        .with_stop(stop.map(|stop| StopSequences::new([stop]).unwrap()));
    cascade.generate("abc", &options).unwrap()
}

#[test]
fn the_receiver_can_end_it() {
    let mut cascade = with_text().build().unwrap();
    let mut seen = 0;
    let generation = cascade
        .start("abc", &Options::default())
        .unwrap()
        .run_with(|event| {
            seen += usize::from(matches!(event, Event::Token { .. }));
            if seen == 5 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .unwrap();
    assert_eq!(
        (generation.tokens.len(), generation.finish),
        (5, Finish::Cancelled)
    );
}

#[test]
fn parts_that_do_not_fit_are_refused_by_name() {
    let drafter = || ToyScorer::drafter("drafter", VOCABULARY, FAMILY, 1, 200);
    let one = || matrix(&[&[4]]);
    let message = |builder: CascadeBuilder| match builder.build() {
        Ok(_) => panic!("this must not build"),
        Err(error) => error.to_string(),
    };
    let base = || Cascade::builder().target("big", target());
    assert!(message(Cascade::builder()).contains("needs a target"));
    // Without a K matrix, what pays is drafted.
    assert!(base().neural("small", drafter()).build().is_ok());
    let size = message(base().k_matrix(one()));
    assert!(
        size.contains("1 x 1") && size.contains("0 drafters"),
        "{size}"
    );
    let nothing =
        NeuralOptions::default().with_vocabulary(DraftVocabulary::below(2).without([1, 0]));
    let vocabulary = message(
        base()
            .neural_with("small", drafter(), nothing)
            .k_matrix(one()),
    );
    assert!(vocabulary.contains("`small`") && vocabulary.contains("`big`"));
    let architecture = message(
        base()
            .neural(
                "small",
                drafter().with_architecture(Architecture::EncoderDecoder),
            )
            .k_matrix(one()),
    );
    assert!(architecture.contains("encoder-decoder") && architecture.contains("decoder-only"));
    let lenience = Lenience::new(0.5).unwrap_err().to_string();
    assert!(lenience.contains("at least 1") && lenience.contains("0.5"));
    let nodes = message(
        base()
            .neural("small", drafter())
            .k_matrix(one())
            .max_nodes(0),
    );
    assert!(nodes.contains("0 nodes"), "{nodes}");
}

#[test]
fn a_rule_that_would_not_be_exact_is_refused_by_name() {
    let build = |siblings, rule| {
        let options = NeuralOptions {
            branching: Branching {
                siblings,
                ..Branching::main_path(3)
            },
            ..NeuralOptions::default()
        };
        Cascade::builder()
            .target_with("big", target(), rule)
            .neural_with(
                "small",
                ToyScorer::drafter("d", VOCABULARY, FAMILY, 1, 9),
                options,
            )
            .k_matrix(matrix(&[&[4]]))
            .build()
    };
    for siblings in [Siblings::TopK, Siblings::WithReplacement] {
        assert!(build(siblings, Rule::SpecInfer).is_ok());
    }
    for rule in [Rule::Match, Rule::Speculative, Rule::Iterated] {
        assert!(build(Siblings::WithoutReplacement, rule).is_ok());
    }
    let error = match build(Siblings::WithoutReplacement, Rule::SpecInfer) {
        Ok(_) => panic!("this must not build"),
        Err(error) => error.to_string(),
    };
    for part in ["`spec_infer`", "`big`", "`small`", "`iterated`"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn prompts_that_cannot_be_answered_are_refused() {
    let mut silent = Cascade::builder()
        .target("target", target())
        .build()
        .unwrap();
    let empty = silent.generate_tokens(&Prompt::default(), &Options::default());
    assert_eq!(empty.unwrap_err().kind(), ErrorKind::Request);
    assert!(matches!(
        silent.generate("a", &Options::default()),
        Err(Error::NoCodec)
    ));
    let stops = Options::default().with_stop(Some(StopSequences::new(["x"]).unwrap()));
    let no_codec = silent.generate_tokens(
        &Prompt {
            context: vec![1],
            ..Prompt::default()
        },
        &stops,
    );
    assert!(matches!(no_codec, Err(Error::NoCodec)));
    let strange = silent.generate_tokens(
        &Prompt {
            context: vec![99],
            ..Prompt::default()
        },
        &Options::default(),
    );
    let message = strange.unwrap_err().to_string();
    assert!(
        message.contains("`target`") && message.contains("token 99"),
        "{message}"
    );
    let mut speaking = with_text().build().unwrap();
    assert!(matches!(
        speaking.generate("  ", &Options::default()),
        Err(Error::EmptyPrompt)
    ));
}

#[test]
fn says_which_drafters_are_idle() {
    let idle = |k: [&[usize]; 2]| {
        let cascade = family(1, 0, &k, None);
        cascade
            .idle_drafters()
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(idle([&[0, 4], &[0, 4]]), ["drafter-0"]);
    assert!(idle([&[1, 4], &[0, 4]]).is_empty());
}
