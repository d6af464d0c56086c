//! Runs a case: each text by the cascade in its company, and by the target alone in a session that
//! has seen nothing.

use std::iter::once;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;

use cascade_config::{Assembly, Target};
use cascade_core::{
    LevelId, Matrix, Result, RowTimes, Scorer, ScorerInfo, Scores, SharedForward, TokenId,
    TokenTree, Want,
};
use cascade_engine::{AssumedTimes, Cascade, Error, Finish, VirtualClock};
use cascade_models::{Batcher, Participant, SharedPrefixes};

use crate::case::{Case, Company, Text, has_head};
use crate::models::{Models, toy_target, toy_vocabulary};

/// What was generated for a text, or the error that there is in its place.
#[derive(Clone, Debug, Default, PartialEq)]
struct GeneratedText {
    tokens: Vec<TokenId>,
    /// The bits of the log probability of each token, and of the most probable ones beside it.
    logprobs: Vec<Vec<(TokenId, u64)>>,
    finish: Option<Finish>,
    error: Option<String>,
}

impl GeneratedText {
    /// Whether it is the other one, of which it may be the beginning if it was broken off.
    fn is(&self, expected: &Self, text: &Text) -> bool {
        if text.steps.is_none() {
            return self == expected;
        }
        expected.tokens.starts_with(&self.tokens) && expected.logprobs.starts_with(&self.logprobs)
    }
}

/// A way to break the promise, which must be found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spoil {
    /// Other tokens after the last node of a draft.
    Tokens,
    /// One bit of a logit after the last node of a draft.
    Bit,
}

/// Tokens that were emitted, drafted and accepted.
pub(crate) type Counts = [usize; 3];

/// Runs a case; the error says how the promise was broken.
pub(crate) fn run(case: &Case, models: &Models, spoil: Option<Spoil>) -> Outcome {
    let run = Run {
        case,
        models,
        spoil,
        wrong_rows: Arc::default(),
        counts: Mutex::default(),
    };
    let texts = catch_unwind(AssertUnwindSafe(|| run.texts()));
    texts.unwrap_or_else(|_| Err("it panicked".to_owned()))?;
    let wrong_rows = run.wrong_rows.lock().unwrap().take();
    let counts = *run.counts.lock().unwrap();
    wrong_rows.map_or(Ok(counts), Err)
}

pub(crate) type Outcome = std::result::Result<Counts, String>;

struct Run<'a> {
    case: &'a Case,
    models: &'a Models,
    spoil: Option<Spoil>,
    /// An answer of the target that is not that of a fresh session.
    wrong_rows: WrongRows,
    counts: Mutex<Counts>,
}

type WrongRows = Arc<Mutex<Option<String>>>;

impl Run<'_> {
    fn texts(&self) -> std::result::Result<(), String> {
        let texts = &self.case.texts;
        let found: Vec<GeneratedText> = match self.case.company {
            Company::Alone(None) => self.alone(),
            Company::Alone(Some(pool)) => self.models.threads[pool].install(|| self.alone()),
            Company::Batch(cascades) => self.batch(cascades),
            Company::Threads => self.threads(),
        };
        for (number, (text, found)) in texts.iter().flatten().zip(found).enumerate() {
            let expected = self.plain(text);
            self.counts.lock().unwrap()[0] += found.tokens.len();
            if !found.is(&expected, text) {
                return Err(format!(
                    "text {number}: {found:?} is not {expected:?}: {text:?}"
                ));
            }
        }
        Ok(())
    }

    /// What the target alone says.
    fn plain(&self, text: &Text) -> GeneratedText {
        let config = self.case.config.plain();
        let mut assembly = Assembly::of(&config);
        if let Some(architecture) = self.case.family.toy {
            assembly = assembly.target(toy(toy_target(architecture)));
        }
        let mut cascade = self.models.pool.assemble(assembly).unwrap().cascade;
        let whole = Text {
            steps: None,
            ..text.clone()
        };
        self.say(&mut cascade, &whole)
    }

    fn alone(&self) -> Vec<GeneratedText> {
        let mut cascade = self.cascade(None);
        let texts = self.case.texts.iter().flatten();
        texts.map(|text| self.say(&mut cascade, text)).collect()
    }

    /// By the cascades of a batch, whichever is free.
    fn batch(&self, cascades: usize) -> Vec<GeneratedText> {
        let (pool, config) = (&self.models.pool, &self.case.config);
        let batch = pool.assemble_batch(config, None, cascades.try_into().unwrap());
        let texts = self.case.texts.concat();
        batch
            .unwrap()
            .map(&texts, |cascade, text| self.say(cascade, text))
    }

    /// By cascades of their own, which join, leave and break off while others go on.
    fn threads(&self) -> Vec<GeneratedText> {
        let batcher = Batcher::default();
        let scopes: [Arc<SharedPrefixes>; 2] = Default::default();
        let start = |texts| {
            let participant = batcher.join();
            let cascade = self.cascade(Some(&participant));
            (texts, cascade, participant)
        };
        let started: Vec<_> = self.case.texts.iter().map(start).collect();
        let one_after_another =
            |(texts, mut cascade, participant): (&Vec<Text>, Cascade, Participant)| {
                let answer = |text: &Text| {
                    thread::sleep(text.wait);
                    let _running = participant.running();
                    participant.share_prefixes(text.scope.map(|at| Arc::clone(&scopes[at])));
                    self.say(&mut cascade, text)
                };
                texts.iter().map(answer).collect::<Vec<_>>()
            };
        thread::scope(|scope| {
            let spawn = |texts| scope.spawn(|| one_after_another(texts));
            let threads: Vec<_> = started.into_iter().map(spawn).collect();
            let answers = threads.into_iter().map(|thread| thread.join());
            answers.flat_map(|answers| answers.unwrap()).collect()
        })
    }

    /// The cascade of the case, whose target is watched if need be.
    fn cascade(&self, participant: Option<&Participant>) -> Cascade {
        let config = &self.case.config;
        let mut assembly = Assembly::of(config).sharing(participant);
        let hidden = participant.is_some() && has_head(config);
        if let Some(architecture) = self.case.family.toy {
            let fresh = move || Box::new(toy_target(architecture)) as Box<_>;
            assembly = assembly.target(self.timed(toy(self.watched(fresh(), Box::new(fresh)))));
        } else if !hidden && (self.watches() || self.case.assumed_times.is_some()) {
            assembly = assembly.target(self.timed(self.model(participant)));
        }
        self.models.pool.assemble(assembly).unwrap().cascade
    }

    fn watches(&self) -> bool {
        self.spoil.is_some() || self.case.rows_compared
    }

    /// The configuration's target, watched.
    fn model(&self, participant: Option<&Participant>) -> Target {
        let (pool, config) = (&self.models.pool, &self.case.config);
        let loaded = pool.target(config).unwrap();
        let model = Arc::clone(&loaded.model);
        let session: BoxedScorer = match participant {
            None => Box::new(model.session()),
            Some(participant) => Box::new(participant.session(&model)),
        };
        let fresh = Box::new(move || Box::new(model.session()) as Box<_>);
        let scorer = self.watched(session, fresh);
        let target = Target::new(scorer, "watched", loaded.tokenizer.fingerprint())
            .with_eos(pool.end_tokens(config, None).unwrap());
        match participant {
            None => target.with_model(Arc::clone(&loaded.model)),
            Some(_) => target,
        }
    }

    fn timed(&self, target: Target) -> Target {
        match self.case.assumed_times {
            None => target,
            Some(row) => target.with_times(AssumedTimes {
                clock: VirtualClock::default(),
                target: RowTimes::linear(0.02, row),
                drafters: vec![RowTimes::linear(0.001, row)],
                text: None,
            }),
        }
    }

    fn watched(&self, scorer: BoxedScorer, fresh: Fresh) -> Watched {
        Watched {
            scorer,
            fresh: self.case.rows_compared.then_some(fresh),
            source: Vec::new(),
            spoil: self.spoil,
            wrong_rows: Arc::clone(&self.wrong_rows),
        }
    }

    fn say(&self, cascade: &mut Cascade, text: &Text) -> GeneratedText {
        let mut answer = GeneratedText::default();
        let error = self.generate(cascade, text, &mut answer).err();
        answer.error = error.map(|error| error.to_string());
        answer
    }

    fn generate(
        &self,
        cascade: &mut Cascade,
        text: &Text,
        answer: &mut GeneratedText,
    ) -> std::result::Result<(), Error> {
        let mut generation = cascade.start_tokens(&text.prompt, &text.options)?;
        for _ in 0..text.steps.unwrap_or(usize::MAX) {
            let Some(step) = generation.step()? else {
                break;
            };
            let [_, drafted, accepted] = &mut *self.counts.lock().unwrap();
            *drafted += step.step.drafted;
            *accepted += step.step.accepted;
            answer.tokens.extend(step.tokens);
            answer.finish = step.finish;
            for token in step.logprobs {
                let all = once((TokenId::MAX, token.logprob)).chain(token.top);
                let bits = all.map(|(token, logprob)| (token, logprob.to_bits()));
                answer.logprobs.push(bits.collect());
            }
        }
        let output = generation.into_output();
        let forwards = output.models[0].usage.calls;
        assert_eq!(output.tokens, answer.tokens);
        assert_eq!(
            forwards,
            output.steps.len() as u64,
            "a forward for each step"
        );
        let own = output
            .proposers
            .iter()
            .filter(|&&level| level == LevelId::TARGET);
        let accepted = output.num_accepted_draft_tokens();
        assert_eq!(
            own.count() + accepted,
            output.tokens.len(),
            "each token has a proposer"
        );
        Ok(())
    }
}

fn toy(scorer: impl Scorer + Send + 'static) -> Target {
    Target::new(scorer, "a toy", toy_vocabulary()).with_eos([3])
}

type BoxedScorer = Box<dyn Scorer + Send>;

/// Makes sessions that have seen nothing.
type Fresh = Box<dyn Fn() -> BoxedScorer + Send>;

/// A target whose answers are spoiled, or compared with those of sessions that have seen nothing,
/// bit by bit.
struct Watched {
    scorer: BoxedScorer,
    fresh: Option<Fresh>,
    source: Vec<TokenId>,
    spoil: Option<Spoil>,
    wrong_rows: WrongRows,
}

impl Scorer for Watched {
    fn info(&self) -> ScorerInfo {
        self.scorer.info()
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.source = source.to_vec();
        self.scorer.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let mut found = self.scorer.score(context, tree, want)?;
        if let Some(spoil) = self.spoil.filter(|_| !tree.is_empty()) {
            found = spoiled(found, spoil);
        }
        if let Some(fresh) = &self.fresh {
            let mut session = fresh();
            session.set_source(&self.source)?;
            let expected = session.score(context, tree, want)?;
            let same_rows = found.clone().with_rows_computed(expected.rows_computed);
            if found.rows_computed > expected.rows_computed || same_rows != expected {
                let wrong = format!("wrong rows of {context:?}, {tree:?}, {want:?}");
                *self.wrong_rows.lock().unwrap() = Some(wrong);
            }
        }
        Ok(found)
    }

    fn shared_forward(&self) -> Option<SharedForward> {
        self.scorer.shared_forward()
    }
}

fn spoiled(mut scores: Scores, spoil: Spoil) -> Scores {
    let last = scores.argmax.len() - 1;
    if let Some(logits) = &mut scores.logits {
        let mut values = logits.as_slice().to_vec();
        let row = &mut values[last * logits.columns()..];
        match spoil {
            Spoil::Tokens => row.rotate_left(1),
            Spoil::Bit => row[0] = f32::from_bits(row[0].to_bits() ^ 1),
        }
        *logits = Matrix::new(logits.columns(), values);
    }
    if matches!(spoil, Spoil::Tokens) {
        scores.argmax[last] = scores.argmax[last].saturating_sub(1);
    }
    scores
}
