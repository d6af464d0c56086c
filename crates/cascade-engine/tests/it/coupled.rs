//! Coupled samples are those of plain decoding with the same seed, token by token, whatever drafts:
//! an equality, not a statistic.

use cascade_core::toy::ToyScorer;
use cascade_core::{
    Architecture, Decoding, Distribution, Noise, Prompt, Result, RowTimes, Sampling, Scorer,
    ScorerInfo, Scores, SeededNoise, TokenId, TokenTree, Want, seed_of,
};
use cascade_engine::{
    AssumedCosts, AssumedTime, Branching, Cascade, NeuralOptions, OnlineSchedule, Options, Rule,
    VirtualClock,
};
use cascade_ngram::MaxGram;

/// Plain decoding by the definition: no engine, no verification.
fn by_definition(
    mut target: ToyScorer,
    prompt: &[TokenId],
    sampling: &Sampling,
    seed: u64,
    (length, eos): (usize, &[TokenId]),
) -> Vec<TokenId> {
    let noise = SeededNoise::new(seed);
    let mut context = prompt.to_vec();
    while context.len() < prompt.len() + length {
        let scores = target.score(&context, &TokenTree::new(), Want::LOGITS);
        let logits = scores.unwrap().logits.unwrap();
        let p = sampling.distribution(logits.row(0)).unwrap();
        let token = noise.winner(context.len() as u64, &p);
        context.push(token);
        if eos.contains(&token) {
            break;
        }
    }
    context.split_off(prompt.len())
}

fn decoder(context: &[TokenId]) -> Prompt {
    Prompt::new(Architecture::DecoderOnly, context.to_vec())
}

/// Where nothing drafts, the text is what the definition says, with every truncation.
#[test]
fn plain_decoding_is_the_race_of_the_seed() {
    let mut cascade = Cascade::builder()
        .target("target", wide_target())
        .eos([7])
        .build()
        .unwrap();
    let plain = Sampling::PLAIN;
    for (seed, sampling) in [
        plain,
        Sampling::new(0.4).unwrap(),
        plain.with_top_k(3).unwrap(),
        plain.with_top_p(0.5).unwrap(),
        plain.with_min_p(0.1).unwrap(),
        plain.with_top_k(9).unwrap().with_top_p(0.9).unwrap(),
    ]
    .into_iter()
    .enumerate()
    {
        let options = Options::default()
            .with_decoding(Decoding::Sampled(sampling))
            .with_max_new_tokens(30)
            .with_seed(seed as u64);
        let found = cascade.generate_tokens(&decoder(&[1, 2]), &options);
        let end = (30, &[7][..]);
        let defined = by_definition(wide_target(), &[1, 2], &sampling, seed as u64, end);
        assert_eq!(found.unwrap().tokens, defined, "{sampling:?}");
    }
}

const VOCABULARY: usize = 40;
const FAMILY: u64 = 5;

/// Computes no row twice, as models with a cache.
struct Cached(ToyScorer);

impl Scorer for Cached {
    fn info(&self) -> ScorerInfo {
        self.0.info()
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.0.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let scores = self.0.score(context, tree, want)?;
        Ok(scores.with_rows_computed(tree.len() + 1))
    }
}

fn wide_target() -> ToyScorer {
    ToyScorer::target("target", VOCABULARY, FAMILY)
}

/// A cascade whose rows cost so much, as its schedule knows.
fn timed(row: f64, rule: Rule) -> Cascade {
    let clock = VirtualClock::default();
    let times = RowTimes::linear(0.02, row);
    let target = AssumedTime::new(Cached(wide_target()), clock.clone(), times.clone());
    let drafter = ToyScorer::drafter("drafter", VOCABULARY, FAMILY, 1, 250);
    let of_drafter = RowTimes::linear(0.0004, 0.0);
    let drafter = AssumedTime::new(Cached(drafter), clock.clone(), of_drafter);
    Cascade::builder()
        .target_with("target", target, rule)
        .neural_with(
            "drafter",
            drafter,
            NeuralOptions::new(rule, Branching::chain()),
        )
        .schedule(OnlineSchedule::new(AssumedCosts {
            measured: vec![Some(times.into())],
            ..AssumedCosts::default()
        }))
        .clock(clock)
        .build()
        .unwrap()
}

/// Tokens that are drafted for a text of 300, and the text.
fn drafted(cascade: &mut Cascade, decoding: Decoding) -> (usize, Vec<TokenId>) {
    let options = Options::default()
        .with_decoding(decoding)
        .with_max_new_tokens(300);
    let output = cascade
        .generate_tokens(&decoder(&[1, 2]), &options)
        .unwrap();
    let drafted = output.steps.iter().map(|step| step.drafted).sum();
    (drafted, output.tokens)
}

/// In coupled samples a schedule sees times and keeps what it learned, since neither changes them:
/// where rows cost as much as forwards, it drafts less.
#[test]
fn schedules_see_times_in_coupled_samples() {
    let sampled = Decoding::Sampled(Sampling::new(0.5).unwrap());
    let forwards = |row: f64, rule: Rule| drafted(&mut timed(row, rule), sampled);
    let (cheap, text) = forwards(0.001, Rule::Coupled);
    let (dear, same) = forwards(2.0, Rule::Coupled);
    assert!(cheap > 3 * dear, "{cheap} and {dear} tokens drafted");
    assert_eq!(text, same);
    // Otherwise a seed's text would depend on the machine.
    assert_eq!(
        forwards(0.001, Rule::Iterated),
        forwards(2.0, Rule::Iterated)
    );
    // That is over with the text.
    let mut cascade = timed(2.0, Rule::Iterated);
    let greedy = drafted(&mut cascade, Decoding::Greedy);
    drafted(&mut cascade, sampled);
    assert_eq!(drafted(&mut cascade, Decoding::Greedy), greedy);
}

/// A text that is cut and continued as a longer prompt goes on as it would have.
#[test]
fn a_continuation_with_the_same_seed_is_the_rest_of_the_text() {
    let mut cascade = Cascade::builder()
        .target("target", wide_target())
        .statistical("max-gram", MaxGram::new())
        .build()
        .unwrap();
    let options = Options::default()
        .with_decoding(Decoding::Sampled(Sampling::PLAIN))
        .with_seed(3);
    let mut text = |prompt: &[TokenId], length| {
        let options = options.clone().with_max_new_tokens(length);
        let prompt = decoder(prompt);
        cascade.generate_tokens(&prompt, &options).unwrap().tokens
    };
    let whole = text(&[1, 2, 3], 40);
    let longer = [&[1, 2, 3], &whole[..25]].concat();
    assert_eq!(text(&longer, 15), whole[25..]);
}

/// Noise of which the first token always wins, to show that it is asked.
struct First;

impl Noise for First {
    fn exponential(&self, position: u64, token: TokenId) -> f64 {
        (1 + u64::from(token) * 1_000_000 + position) as f64
    }
}

#[test]
fn noise_decides_and_its_source_may_be_replaced() {
    let mut cascade = Cascade::builder()
        .target("target", wide_target())
        .build()
        .unwrap();
    let options = Options::default()
        .with_decoding(Decoding::Sampled(Sampling::PLAIN))
        .with_max_new_tokens(5);
    let generation = cascade.start_tokens(&decoder(&[1, 2]), &options).unwrap();
    let found = generation.with_noise(First).run().unwrap().tokens;
    let mut context = vec![1, 2];
    for &token in &found {
        let scores = wide_target().score(&context, &TokenTree::new(), Want::LOGITS);
        let logits = scores.unwrap().logits.unwrap();
        let p: Distribution = Sampling::PLAIN.distribution(logits.row(0)).unwrap();
        assert_eq!(First.winner(context.len() as u64, &p), token);
        context.push(token);
    }
}

/// Neighbouring seeds, and the samples of one, give texts that have no more in common than any.
#[test]
fn seeds_give_different_texts() {
    let mut cascade = Cascade::builder()
        .target("target", wide_target())
        .build()
        .unwrap();
    let mut seen = std::collections::HashSet::new();
    for seed in 0..40 {
        for index in 0..5 {
            let options = Options::default()
                .with_decoding(Decoding::Sampled(Sampling::PLAIN))
                .with_max_new_tokens(16)
                .with_seed(seed_of(seed, index));
            let output = cascade.generate_tokens(&decoder(&[1, 2]), &options);
            assert!(seen.insert(output.unwrap().tokens));
        }
    }
}
