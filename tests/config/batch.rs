//! Texts that are generated together are those that are generated alone.

use std::ops::ControlFlow;

use cascade_config::{AssembleOptions, Config, DeviceSpec, ModelPool};
use cascade_core::{Decoding, Prompt, Sampling, TokenId};
use cascade_engine::Options;
use cascade_models::DType;

const PEOPLE: [&str; 4] = ["Ann", "Tom", "Eva", "Ben"];

fn config(name: &str, dtype: DType) -> Config {
    cascade_demo::register();
    let mut config = Config::open(name).unwrap();
    config.target.dtype = Some(dtype);
    config
}

fn pool(config: &Config) -> ModelPool {
    config.pool(&AssembleOptions::default().with_device(Some(DeviceSpec::Cpu)))
}

/// Prompts of many lengths, with numbers of tokens and seeds of their own.
fn prompts(
    pool: &ModelPool,
    config: &Config,
    count: usize,
    options: &Options,
) -> Vec<(Prompt, Options)> {
    let cascade = pool.assemble(config).unwrap().cascade;
    (0..count)
        .map(|number| {
            let who = PEOPLE[number % 4];
            let more = format!("{who} has {number} shells. ").repeat(1 + number % 5 * (number % 3));
            let question = format!("Question: {more}How many shells has {who}? Answer:");
            let options = options
                .clone()
                .with_seed(number as u64)
                .with_max_new_tokens(5 + 7 * (number % 6));
            (cascade.encode(&question).unwrap(), options)
        })
        .collect()
}

/// Returns how many calls a forward answered.
fn together_as_alone(config: &Config, count: usize, texts: usize, options: &Options) -> f64 {
    let pool = pool(config);
    let prompts = prompts(&pool, config, count, options);
    let mut alone = pool.assemble(config).unwrap().cascade;
    let expected: Vec<Vec<TokenId>> = prompts
        .iter()
        .map(|(prompt, options)| alone.generate_tokens(prompt, options).unwrap().tokens)
        .collect();
    let mut batch = pool
        .assemble_batch(config, None, texts.try_into().unwrap())
        .unwrap();
    assert_eq!(batch.texts(), texts);
    let found: Vec<Vec<TokenId>> = batch
        .generate_tokens(&prompts)
        .into_iter()
        .map(|output| output.unwrap().tokens)
        .collect();
    assert_eq!(found, expected, "{}", config.label);
    let counts = batch.counts();
    assert!(counts.forwards < counts.calls, "{counts:?}");
    counts.calls as f64 / counts.forwards as f64
}

fn sampled() -> Options {
    Options::default().with_decoding(Decoding::Sampled(Sampling::new(1.0).unwrap()))
}

#[test]
fn texts_are_those_of_cascades_alone() {
    for name in ["embedded:demo-t5", "embedded:demo-llama"] {
        let config = config(name, DType::F32);
        together_as_alone(&config, 12, 4, &Options::default());
        together_as_alone(&config, 12, 5, &sampled());
        // Of drafts, how many calls share a forward follows from times, by the online schedule. A
        // text that decodes plainly waits for all others that are running.
        let plain = Options::default().with_speculation(false);
        let shared = together_as_alone(&config, 12, 4, &plain);
        assert!(shared > 2.0, "{shared} calls in a forward of 4 texts");
    }
}

#[test]
#[ignore = "slow: hundreds of generations in every type"]
fn texts_are_those_of_cascades_alone_in_every_type() {
    for name in ["embedded:demo-t5", "embedded:demo-llama"] {
        for dtype in [DType::F32, DType::BF16, DType::Q8_0, DType::Q4_0] {
            let config = config(name, dtype);
            together_as_alone(&config, 32, 16, &Options::default());
            together_as_alone(&config, 32, 7, &sampled());
        }
    }
}

#[test]
fn results_come_in_order_and_errors_are_those_of_one() {
    let config = config("embedded:demo-llama", DType::F32);
    let pool = pool(&config);
    let options = Options::default().with_max_new_tokens(6);
    let mut batch = pool
        .assemble_batch(&config, None, 3.try_into().unwrap())
        .unwrap();
    let questions = ["Ann has 3 hats.", "", "Tom has 5 hats.", "Eva has 7 hats."];
    let answers = batch.map(&questions, |cascade, question| {
        cascade.generate(question, &options)
    });
    let mut alone = pool.assemble(&config).unwrap().cascade;
    for (answer, question) in answers.into_iter().zip(questions) {
        match alone.generate(question, &options) {
            Ok(alone) => assert_eq!(answer.unwrap().tokens, alone.tokens),
            Err(error) => assert_eq!(answer.unwrap_err().to_string(), error.to_string()),
        }
    }
    // What is broken off begins nothing more.
    let many = ["Ann has 3 hats."; 50];
    let mut taken = 0;
    batch.for_each(
        &many,
        |cascade, question| cascade.generate(question, &options).is_ok(),
        |is_ok| {
            assert!(is_ok);
            taken += 1;
            match taken {
                5 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        },
    );
    assert_eq!(taken, 5);
    assert!(batch.map(&[0; 0], |_, item| *item).is_empty());
}
