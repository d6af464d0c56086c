//! Batches: who shares forwards, and in which order results come.

use std::ops::ControlFlow;

use cascade_config::{AssembleOptions, Config, DeviceSpec, ModelPool};
use cascade_core::{Architecture, Prompt};
use cascade_engine::Options;

fn config() -> Config {
    cascade_demo::register();
    let yaml = "target: { model: embedded:demo-llama-small }\ndrafters: [ { max_gram: {} } ]";
    Config::parse(yaml, "batch", "").unwrap()
}

fn pool(config: &Config) -> ModelPool {
    config.pool(&AssembleOptions::default().with_device(Some(DeviceSpec::Cpu)))
}

/// A text that decodes plainly waits for all others that are running. Of drafts, how many calls
/// share a forward follows from times.
#[test]
fn texts_share_forwards() {
    let config = config();
    let mut batch = pool(&config)
        .assemble_batch(&config, None, 4.try_into().unwrap())
        .unwrap();
    assert_eq!(batch.texts(), 4);
    let options = Options::default().with_speculation(false);
    let prompts = [5, 9, 12, 7, 11, 14, 10, 8].map(|tokens| {
        let prompt = Prompt::new(Architecture::DecoderOnly, vec![tokens, 2]);
        (prompt, options.clone().with_max_new_tokens(tokens as usize))
    });
    let texts = batch.generate_tokens(&prompts);
    assert!(texts.iter().all(Result::is_ok));
    let counts = batch.counts();
    assert!(counts.calls > 2 * counts.forwards, "{counts:?}");
}

#[test]
fn results_come_in_order_and_errors_are_those_of_one() {
    let config = config();
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
