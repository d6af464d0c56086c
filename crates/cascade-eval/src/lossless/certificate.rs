//! A certificate of invariance: the token ids and the bits of log probabilities of a text, however
//! it is computed.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use cascade_config::{Assembly, Config, ModelPool};
use cascade_core::{Decoding, Prompt, Sampling, TokenId, seed_of};
use cascade_engine::{Cascade, Options, Rule};
use cascade_models::{Batcher, SharedPrefixes, compute_threads};
use rayon::ThreadPoolBuilder;
use serde::Serialize;

use super::{settings, with_random_settings};
use crate::{Error, ErrorKind, Result};

// What differs from a text that the target alone generates plainly, in a session that has seen
// nothing, with all threads. In every part the drafters of the configuration draft.
/// Nothing else differs.
const DRAFTS: &str = "drafts";
/// Other texts are generated in the same forwards.
const COMPANY: &str = "company";
/// The second half of a text is generated after the prompt and the first half, which are read at
/// once, found in the session's own cache, or taken from another session's.
const PREFIX: &str = "prefix";
/// Fewer threads compute.
const THREADS: &str = "threads";

/// Texts of a round: one, and those beside it.
const TEXTS: usize = 32;
/// Tokens of the texts of the first round; of each further one twice as many, up to a limit.
const FIRST_LENGTH: usize = 16;
/// Random settings that are tried until drafters draft.
const TRIES: u64 = 64;
/// Differences that are described; all are counted.
const DESCRIBED: usize = 20;

/// What one part compared, of greedy texts or of those of seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Checked {
    /// `drafts`, `company`, `prefix` or `threads`.
    pub part: &'static str,
    /// `greedy` or `seed`.
    pub decoding: &'static str,
    /// Texts.
    pub texts: u64,
    /// Tokens of them.
    pub tokens: u64,
    /// Bits of log probabilities, 64 for each token.
    pub bits: u64,
    /// Tokens that the target accepted of drafts.
    pub accepted: u64,
    /// Texts that differ.
    pub differences: u64,
}

/// The first place where a text differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BitDifference {
    /// The part that found it.
    pub part: &'static str,
    /// How the text was computed there.
    pub how: String,
    /// `greedy` or `seed`.
    pub decoding: &'static str,
    /// Index of the prompt, from 0.
    pub prompt: usize,
    /// The seed of the text.
    pub seed: u64,
    /// Index of the token in the answer, from 0.
    pub position: usize,
    /// What plain decoding has there: a token and the bits of its log probability, in hexadecimal;
    /// absent if its text has ended.
    pub expected: Option<(TokenId, String)>,
    /// What was found.
    pub found: Option<(TokenId, String)>,
    /// The settings of the drafters, in one line.
    pub settings: String,
}

/// What was compared, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Certificate {
    /// Whether something was compared and nothing differs.
    pub holds: bool,
    /// Tokens that were compared, over all parts.
    pub tokens: u64,
    /// Tokens that plain decoding generated to compare with.
    pub plain_tokens: u64,
    /// Prompts that were asked, of as many as there are.
    pub prompts: usize,
    /// Each part, greedy and by seed.
    pub parts: Vec<Checked>,
    /// Texts that were generated at a time in company.
    pub company: usize,
    /// How many of them a forward had rows of, on average.
    pub texts_per_forward: f64,
    /// Numbers of threads that texts were compared with, beside those of plain decoding.
    pub threads: BTreeSet<usize>,
    /// Positions that were read from the cache of the session itself.
    pub cached_positions: u64,
    /// Positions that were read from the cache of another session.
    pub shared_positions: u64,
    /// The first differences.
    pub differences: Vec<BitDifference>,
    /// What the certificate does not say, in sentences.
    pub not_covered: Vec<String>,
}

/// What a certificate is made of.
pub struct Certifier<'a> {
    /// The models.
    pub pool: &'a ModelPool,
    /// The cascade; answers go on after their end.
    pub config: &'a Config,
    /// How many prompts there are. If texts are more, they begin anew, with other seeds.
    pub prompts: usize,
    /// The tokens of a prompt, by its index.
    pub prompt: &'a dyn Fn(usize) -> Result<Prompt>,
    /// How texts of seeds are sampled.
    pub sampling: Sampling,
    /// The seed of the first text.
    pub seed: u64,
    /// Tokens to compare.
    pub tokens: u64,
    /// Tokens of a text at most.
    pub length: usize,
    /// Takes note of how many more tokens have been compared, and says whether to go on.
    pub watch: &'a dyn Fn(u64) -> bool,
}

/// A token, and the bits of its log probability.
type TokenBits = (TokenId, u64);

/// A text, or the end of it, as plain decoding has it.
struct Text {
    prompt_index: usize,
    prompt: Prompt,
    options: Options,
    /// Tokens of the answer before these.
    before: usize,
    tokens: Vec<TokenBits>,
}

impl Text {
    fn second_half(&self) -> Self {
        let (first, rest) = self.tokens.split_at(self.tokens.len() / 2);
        let mut prompt = self.prompt.clone();
        prompt.context.extend(first.iter().map(|&(token, _)| token));
        Self {
            prompt_index: self.prompt_index,
            prompt,
            options: self.options.clone().with_max_new_tokens(rest.len()),
            before: first.len(),
            tokens: rest.to_vec(),
        }
    }

    fn generate(&self, cascade: &mut Cascade) -> Result<Found> {
        let mut found = Found::default();
        let mut generation = cascade.start_tokens(&self.prompt, &self.options)?;
        while let Some(step) = generation.step()? {
            found.accepted += step.step.accepted as u64;
            let bits = step.logprobs.iter().map(|of| of.logprob.to_bits());
            found.tokens.extend(step.tokens.into_iter().zip(bits));
        }
        let models = generation.into_output().models;
        found.prompt_rows = models.first().map_or(0, |target| target.usage.prefill_rows);
        Ok(found)
    }
}

/// A text as a cascade generated it.
#[derive(Default)]
struct Found {
    tokens: Vec<TokenBits>,
    accepted: u64,
    /// Rows that the prompt took.
    prompt_rows: u64,
}

const fn name(decoding: Decoding) -> &'static str {
    match decoding {
        Decoding::Greedy => "greedy",
        Decoding::Sampled(_) => "seed",
    }
}

impl Certifier<'_> {
    /// Compares texts until enough tokens have been compared or `watch` says so: in each round as
    /// many as stand beside each other in company, every second one by a seed, each in every part.
    ///
    /// # Errors
    /// Errors of the models; settings that do not fit together.
    pub fn run(&self) -> Result<Certificate> {
        let mut run = Run {
            of: self,
            certificate: self.begin()?,
            forwards: (0, 0),
            settings: String::new(),
            stopped: false,
        };
        for round in 0.. {
            if run.stopped || run.certificate.tokens >= self.tokens {
                break;
            }
            run.round(round)?;
        }
        Ok(run.end())
    }

    /// Whether the text of a seed is that of plain decoding.
    fn by_seed(&self) -> bool {
        self.config.target.rule == Rule::Coupled
    }

    /// A certificate with nothing but the parts that are possible.
    fn begin(&self) -> Result<Certificate> {
        let mut company = 1;
        if self.pool.target(self.config)?.model.gathers() {
            let context = (self.prompt)(0)?.len() + self.length;
            let fit = self.pool.sessions_that_fit(self.config, context)?;
            company = fit.unwrap_or(TEXTS).clamp(1, TEXTS);
        }
        let possible = |part: &&str| match *part {
            COMPANY => company > 1,
            THREADS => compute_threads() > 1,
            _ => true,
        };
        let decodings = ["greedy", "seed"].into_iter();
        let decodings = decodings.take(1 + usize::from(self.by_seed()));
        let parts = [DRAFTS, COMPANY, PREFIX, THREADS].into_iter();
        let parts = parts.filter(possible).flat_map(|part| {
            decodings.clone().map(move |decoding| Checked {
                part,
                decoding,
                ..Checked::default()
            })
        });
        Ok(Certificate {
            parts: parts.collect(),
            company,
            ..Certificate::default()
        })
    }

    /// The configuration of a round: in every third one the own, which may draft little if little
    /// pays, and else random settings by which drafters draft.
    fn config(&self, round: usize) -> Result<Config> {
        let mut config = self.config.clone();
        let tries = if round % 3 == 2 { 0 } else { TRIES };
        for number in 0..tries {
            let seed = seed_of(self.seed, round as u64 * TRIES + number);
            config = with_random_settings(self.config, seed, true)?;
            let for_target = config.k().and_then(|k| k.rows().first());
            if for_target.is_some_and(|row| row.iter().any(|&tokens| tokens > 0)) {
                break;
            }
        }
        config.generation.ignore_eos = true;
        Ok(config)
    }

    /// The options of a text, by its number.
    fn options(&self, number: usize, round: usize) -> Options {
        let (pass, prompt) = (number / self.prompts, number % self.prompts);
        let decoding = if self.by_seed() && (pass + prompt) % 2 == 1 {
            Decoding::Sampled(self.sampling)
        } else {
            Decoding::Greedy
        };
        Options::default()
            .with_max_new_tokens(self.length.min(FIRST_LENGTH << round.min(16)))
            .with_decoding(decoding)
            .with_penalties(self.config.generation.sampling.penalties())
            .with_seed(seed_of(self.seed, number as u64))
            .with_logprobs(Some(0))
    }
}

fn cascade(pool: &ModelPool, config: &Config) -> Result<Cascade> {
    Ok(pool.assemble(config)?.cascade)
}

/// A certificate on its way.
struct Run<'a> {
    of: &'a Certifier<'a>,
    certificate: Certificate,
    /// Shared forwards of the target and its drafters, and the calls that they answered.
    forwards: (u64, u64),
    /// The settings of the drafters in this round.
    settings: String,
    stopped: bool,
}

impl Run<'_> {
    fn round(&mut self, round: usize) -> Result<()> {
        let config = self.of.config(round)?;
        self.settings = settings(&config);
        let texts = self.texts(&config.plain(), round)?;
        self.company(&config, &texts)?;
        let mut alone = cascade(self.of.pool, &config)?;
        for (index, text) in texts.iter().enumerate() {
            if self.stopped {
                break;
            }
            let found = text.generate(&mut alone)?;
            self.compare((DRAFTS, "alone"), text, &found);
            self.prefix(&config, &text.second_half())?;
            // Every second text is greedy, and both kinds meet all numbers.
            let fewer = compute_threads() - 1;
            if fewer > 0 {
                self.threads(&config, text, 1 + (index / 2 + round) % fewer)?;
            }
        }
        Ok(())
    }

    /// What plain decoding says.
    fn texts(&mut self, plain: &Config, round: usize) -> Result<Vec<Text>> {
        let mut texts = Vec::new();
        for number in TEXTS * round..TEXTS * (round + 1) {
            if !self.goes_on(0) {
                break;
            }
            let prompt_index = number % self.of.prompts;
            let mut text = Text {
                prompt_index,
                prompt: (self.of.prompt)(prompt_index)?,
                options: self.of.options(number, round),
                before: 0,
                tokens: Vec::new(),
            };
            text.tokens = text.generate(&mut cascade(self.of.pool, plain)?)?.tokens;
            self.certificate.plain_tokens += text.tokens.len() as u64;
            self.certificate.prompts = self.of.prompts.min(number + 1);
            texts.push(text);
        }
        Ok(texts)
    }

    fn company(&mut self, config: &Config, texts: &[Text]) -> Result<()> {
        let company = NonZeroUsize::new(self.certificate.company);
        let Some(company) = company.filter(|all| all.get() > 1 && !self.stopped) else {
            return Ok(());
        };
        let mut batch = self.of.pool.assemble_batch(config, None, company)?;
        let answers = batch.map(texts, |cascade, text| text.generate(cascade));
        let counts = batch.counts();
        self.forwards.0 += counts.forwards;
        self.forwards.1 += counts.calls;
        let how = format!("with {} others", company.get() - 1);
        for (text, found) in texts.iter().zip(answers) {
            self.compare((COMPANY, &how), text, &found?);
        }
        Ok(())
    }

    /// Two sessions that share what they read: the first reads all, and again what it then has; the
    /// second takes what the first has.
    fn prefix(&mut self, config: &Config, text: &Text) -> Result<()> {
        let (batcher, scope) = (Batcher::default(), Arc::new(SharedPrefixes::default()));
        let session = || {
            let participant = batcher.join();
            participant.share_prefixes(Some(Arc::clone(&scope)));
            let assembly = Assembly::of(config).sharing(&participant);
            Result::Ok((self.of.pool.assemble(assembly)?.cascade, participant))
        };
        let ((mut first, _seat), (mut second, _other)) = (session()?, session()?);
        let cold = text.generate(&mut first)?;
        let shared = text.generate(&mut second)?;
        let cached = text.generate(&mut first)?;
        let saved = |found: &Found| cold.prompt_rows.saturating_sub(found.prompt_rows);
        self.certificate.shared_positions += saved(&shared);
        self.certificate.cached_positions += saved(&cached);
        self.compare((PREFIX, "nothing cached"), text, &cold);
        self.compare((PREFIX, "another session's cache"), text, &shared);
        self.compare((PREFIX, "the own cache"), text, &cached);
        Ok(())
    }

    fn threads(&mut self, config: &Config, text: &Text, threads: usize) -> Result<()> {
        let workers = ThreadPoolBuilder::new().num_threads(threads).build();
        let workers = workers.map_err(|error| {
            Error::new(ErrorKind::Generation, format!("{threads} threads: {error}"))
        })?;
        let pool = self.of.pool;
        let (found, threads) = workers.install(|| {
            let found = cascade(pool, config).and_then(|mut cascade| text.generate(&mut cascade));
            (found, compute_threads())
        });
        self.certificate.threads.insert(threads);
        self.compare((THREADS, &format!("{threads} threads")), text, &found?);
        Ok(())
    }

    fn compare(&mut self, (part, how): (&'static str, &str), text: &Text, of: &Found) {
        let (expected, found) = (&text.tokens, &of.tokens);
        let same = expected.iter().zip(found).take_while(|(a, b)| a == b);
        let same = same.count();
        let differs = same < expected.len().max(found.len());
        let (tokens, decoding) = (
            same as u64 + u64::from(differs),
            name(text.options.decoding),
        );
        let certificate = &mut self.certificate;
        certificate.tokens += tokens;
        let mut parts = certificate.parts.iter_mut();
        if let Some(checked) = parts.find(|of| (of.part, of.decoding) == (part, decoding)) {
            checked.texts += 1;
            checked.tokens += tokens;
            checked.bits += 64 * tokens;
            checked.accepted += of.accepted;
            checked.differences += u64::from(differs);
        }
        if differs && certificate.differences.len() < DESCRIBED {
            let hexadecimal = |&(token, bits): &TokenBits| (token, format!("{bits:#018x}"));
            certificate.differences.push(BitDifference {
                part,
                how: how.to_owned(),
                decoding,
                prompt: text.prompt_index,
                seed: text.options.seed,
                position: text.before + same,
                expected: expected.get(same).map(hexadecimal),
                found: found.get(same).map(hexadecimal),
                settings: self.settings.clone(),
            });
        }
        self.goes_on(tokens);
    }

    /// Takes note of tokens that were compared, or of time that has passed.
    fn goes_on(&mut self, tokens: u64) -> bool {
        self.stopped |= !(self.of.watch)(tokens);
        !self.stopped
    }

    /// Says what was not compared.
    fn end(self) -> Certificate {
        let (of, mut certificate) = (self.of, self.certificate);
        let (all, others) = (of.tokens, certificate.company - 1);
        let left = all.saturating_sub(certificate.tokens);
        let accepted: u64 = certificate.parts.iter().map(|of| of.accepted).sum();
        let empty = certificate.parts.iter().filter(|of| of.tokens == 0);
        let empty = empty.map(|of| format!("{}, {}: not begun", of.part, of.decoding));
        let rule = of.config.target.rule;
        let mut not_covered: Vec<String> = empty.collect();
        for (lacks, what) in [
            (left > 0, format!("{left} of {all} tokens: it was stopped")),
            (accepted == 0, "drafts: none was accepted".to_owned()),
            (
                others + 1 < TEXTS,
                format!("company: {others} others, not 31, share forwards here"),
            ),
            (
                certificate.cached_positions == 0,
                "prefix: no own cache was read".to_owned(),
            ),
            (
                certificate.shared_positions == 0,
                "prefix: no page of 64 tokens of another session was read".to_owned(),
            ),
            (
                compute_threads() == 1,
                "threads: one computes (--threads)".to_owned(),
            ),
            (
                !of.by_seed(),
                format!("seed: texts depend on drafts by the rule {rule}"),
            ),
        ] {
            not_covered.extend(lacks.then_some(what));
        }
        certificate.not_covered = not_covered;
        certificate.holds = certificate.tokens > 0 && certificate.differences.is_empty();
        certificate.texts_per_forward = self.forwards.1 as f64 / self.forwards.0.max(1) as f64;
        certificate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cascade_config::AssembleOptions;

    /// What differs is counted, and told with its place, tokens and bits.
    #[test]
    fn a_difference_is_named() {
        cascade_demo::register();
        let config = Config::open("embedded:demo-llama").unwrap();
        let pool = config.pool(&AssembleOptions::default());
        let certifier = Certifier {
            pool: &pool,
            config: &config,
            prompts: 3,
            prompt: &|_| Ok(Prompt::default()),
            sampling: Sampling::PLAIN,
            seed: 5,
            tokens: 100,
            length: 9,
            watch: &|_| true,
        };
        let mut run = Run {
            of: &certifier,
            certificate: certifier.begin().unwrap(),
            forwards: (0, 0),
            settings: String::new(),
            stopped: false,
        };
        let text = Text {
            prompt_index: 2,
            prompt: Prompt::default(),
            options: certifier.options(1, 0),
            before: 0,
            tokens: vec![(1, 10), (2, 20), (3, 30), (4, 40)],
        };
        for (part, text, tokens) in [
            (DRAFTS, &text, vec![(1, 10), (2, 20), (3, 30), (4, 40)]),
            (COMPANY, &text, vec![(1, 10), (2, 21), (3, 30), (4, 40)]),
            (PREFIX, &text.second_half(), vec![(3, 30), (5, 40)]),
            (PREFIX, &text, vec![(1, 10)]),
        ] {
            let found = Found {
                tokens,
                ..Found::default()
            };
            run.compare((part, "so"), text, &found);
        }
        let found = run.end();
        assert!(!found.holds);
        let places = |of: &BitDifference| (of.part, of.decoding, of.position, of.prompt, of.seed);
        let seed = seed_of(5, 1);
        assert_eq!(
            found.differences.iter().map(places).collect::<Vec<_>>(),
            [
                (COMPANY, "seed", 1, 2, seed),
                (PREFIX, "seed", 3, 2, seed),
                (PREFIX, "seed", 1, 2, seed)
            ]
        );
        let at = |bits: &str| Some((2, bits.to_owned()));
        assert_eq!(found.differences[0].expected, at("0x0000000000000014"));
        assert_eq!(found.differences[0].found, at("0x0000000000000015"));
        assert_eq!(found.differences[2].found, None);
        let begun = found.parts.iter().filter(|of| of.texts > 0);
        let counted = begun.map(|of| (of.part, of.tokens, of.bits, of.differences));
        assert_eq!(
            counted.collect::<Vec<_>>(),
            [
                (DRAFTS, 4, 256, 0),
                (COMPANY, 2, 128, 1),
                (PREFIX, 4, 256, 2)
            ]
        );
        let left_out = found.not_covered.join("\n");
        assert!(left_out.contains("drafts, greedy: not begun"), "{left_out}");
        assert!(left_out.contains("90 of 100 tokens"), "{left_out}");
    }
}
