//! Random generations in random company against each of them alone: texts that join, leave and are
//! broken off while others are generated beside them.
//!
//! `CASCADE_TEST_GENERATIONS` is how many there are at least, `CASCADE_TEST_SEED` another choice:
//!
//! ```sh
//! CASCADE_TEST_GENERATIONS=10000 cargo nextest run --cargo-profile ci --workspace --test cli \
//!     --run-ignored only -E 'test(together::)'
//! ```

use std::thread;
use std::time::Duration;

use cascade_config::{AssembleOptions, Assembly, Config, DeviceSpec, ModelPool};
use cascade_core::{Decoding, Prompt, Sampling, TokenId};
use cascade_engine::{Cascade, Options};
use cascade_eval::lossless::{settings, with_random_settings};
use cascade_models::Batcher;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::coupled::{generations, seed, Group};

/// Without the variable.
const GENERATIONS: usize = 120;
const MOST_TEXTS: usize = 32;

/// A generation of a text.
struct Task {
    prompt: Prompt,
    options: Options,
    /// Steps after which it is broken off.
    steps: Option<usize>,
    /// Before it begins, while others go on.
    wait: Duration,
    /// What it says alone.
    alone: Vec<TokenId>,
}

/// A configuration of random models, drafters, types and settings, and how tokens are chosen.
fn random_config(rng: &mut ChaCha8Rng) -> (Config, Decoding) {
    let family = ["t5", "llama"].choose(rng).unwrap();
    let yaml = Group::demo(family).random(rng);
    let config = Config::parse(&yaml, "random", "").unwrap();
    let config = with_random_settings(&config, rng.random(), false).unwrap();
    let temperature = *[0.0, 0.7, 1.0, 1.3].choose(rng).unwrap();
    let decoding = if temperature > 0.0 {
        Decoding::Sampled(Sampling::new(temperature).unwrap())
    } else {
        Decoding::Greedy
    };
    (config, decoding)
}

fn random_task(rng: &mut ChaCha8Rng, plain: &mut Cascade, decoding: Decoding) -> Task {
    let who = ["Ann", "Tom", "Eva", "Ben"].choose(rng).unwrap();
    let shells = rng.random_range(2..90);
    let sentences = *[0, 1, 1, 2, 4, 12].choose(rng).unwrap();
    let more = format!("{who} has {shells} shells and finds 3. ").repeat(sentences);
    let prompt = format!("Question: {more}How many shells has {who}? Answer:");
    let prompt = plain.encode(&prompt).unwrap();
    let options = Options::default()
        .with_decoding(decoding)
        .with_seed(rng.random())
        .with_max_new_tokens(rng.random_range(1..40));
    let alone = plain.generate_tokens(&prompt, &options).unwrap().tokens;
    Task {
        prompt,
        options,
        steps: rng.random_bool(0.15).then(|| rng.random_range(0..6)),
        wait: Duration::from_micros(*[0, 0, 300, 2000].choose(rng).unwrap()),
        alone,
    }
}

/// Generates beside the others.
fn check(cascade: &mut Cascade, task: &Task) -> bool {
    let mut generation = cascade.start_tokens(&task.prompt, &task.options).unwrap();
    let mut steps = 0;
    while task.steps != Some(steps) && generation.step().unwrap().is_some() {
        steps += 1;
    }
    let said = generation.into_output().tokens;
    match task.steps {
        None => said == task.alone,
        Some(_) => task.alone.starts_with(&said),
    }
}

/// Some generations of one configuration, and how many there were.
fn round(rng: &mut ChaCha8Rng) -> usize {
    let (config, decoding) = random_config(rng);
    let options = AssembleOptions::default().with_device(Some(DeviceSpec::Cpu));
    let pool: ModelPool = config.pool(&options);
    let mut plain = pool.assemble(&config.plain()).unwrap().cascade;
    let batcher = Batcher::default();
    let texts = rng.random_range(1..=MOST_TEXTS);
    let texts: Vec<_> = (0..texts)
        .map(|_| {
            let tasks: Vec<Task> = (0..rng.random_range(1..=3))
                .map(|_| random_task(rng, &mut plain, decoding))
                .collect();
            let participant = batcher.join();
            let assembled = pool.assemble(Assembly::of(&config).sharing(&participant));
            // Some are there from the first forward on.
            let running = (tasks[0].wait.is_zero()).then(|| participant.running());
            (assembled.unwrap().cascade, participant, running, tasks)
        })
        .collect();
    let count = texts.iter().map(|(.., tasks)| tasks.len()).sum();
    thread::scope(|scope| {
        for (mut cascade, participant, mut running, tasks) in texts {
            let config = &config;
            scope.spawn(move || {
                for (number, task) in tasks.iter().enumerate() {
                    thread::sleep(task.wait);
                    let _running = running.take().unwrap_or_else(|| participant.running());
                    let is_equal = check(&mut cascade, task);
                    assert!(
                        is_equal,
                        "{number}: {:?}: {}",
                        task.options,
                        settings(config)
                    );
                }
            });
        }
    });
    count
}

#[test]
#[ignore = "slow: hundreds of generations; run with --run-ignored all"]
fn random_generations_in_random_company_are_those_alone() {
    cascade_demo::register();
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    let mut compared = 0;
    while compared < generations(GENERATIONS) {
        compared += round(&mut rng);
    }
    println!("{compared} generations");
}
