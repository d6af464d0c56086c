//! What the engine itself costs: drafting by Max-Gram, review, bookkeeping and decoding of text,
//! per step, beside the target's forward of the same steps, on the embedded demo families (real
//! weights, CPU).
//!
//! `cargo bench -p cascade-config --bench engine`. The last line of each family is the share that
//! the README quotes.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::Duration;

use cascade_config::{AssembleOptions, Config, Content};
use cascade_demo::problems::{Problem, ProblemKind, Split, problems};
use cascade_engine::{Cascade, GenerationOutput, Options, Role};
use criterion::{Criterion, criterion_group, criterion_main};

const PROMPTS: usize = 4;
const MAX_NEW_TOKENS: usize = 96;

/// Sums over steps.
#[derive(Clone, Copy, Default)]
struct Spent {
    steps: u32,
    own: Duration,
    target: Duration,
}

impl Spent {
    fn add(&mut self, generation: &GenerationOutput) {
        let neural: Duration = generation
            .models
            .iter()
            .filter(|model| model.role != Role::Statistical)
            .map(|model| model.usage.time)
            .sum();
        self.steps += generation.steps.len() as u32;
        self.own += generation.wall.saturating_sub(neural);
        self.target += generation.models[0].usage.time;
    }

    fn share(self) -> f64 {
        self.own.as_secs_f64() / self.target.as_secs_f64()
    }
}

fn prompts(config: &Config) -> Vec<String> {
    let apply = |problem: Problem| {
        config
            .prompt()
            .apply(&Content::Question(problem.question))
            .expect("the templates are for questions")
    };
    let problems = problems(ProblemKind::WordProblem, Split::Test, 0);
    problems.take(PROMPTS).map(apply).collect()
}

fn generate(cascade: &mut Cascade, prompts: &[String]) -> Spent {
    let options = Options::default().with_max_new_tokens(MAX_NEW_TOKENS);
    let mut spent = Spent::default();
    for prompt in prompts {
        let started = cascade.start(prompt, &options).expect("the demo answers");
        let generation = started.run_with(|event| {
            black_box(event);
            ControlFlow::Continue(())
        });
        spent.add(&generation.expect("the demo answers"));
    }
    spent
}

fn engine(c: &mut Criterion) {
    for family in ["embedded:demo-t5", "embedded:demo-llama"] {
        cascade_demo::register();
        let config = Config::open(family).expect("embedded");
        let options = AssembleOptions::default();
        let mut cascade = config.assemble(&options).expect("embedded").cascade;
        let prompts = prompts(&config);
        let mut shares = Vec::new();
        let mut group = c.benchmark_group(family.trim_start_matches("embedded:"));
        group
            .sample_size(10)
            .measurement_time(Duration::from_secs(8));
        group.bench_function("engine's own time per step", |b| {
            b.iter_custom(|iterations| {
                let spent = (0..iterations).map(|_| generate(&mut cascade, &prompts));
                spent.fold(Duration::ZERO, |sum, spent| {
                    shares.push(spent.share());
                    sum + spent.own / spent.steps
                })
            });
        });
        group.bench_function("target's forward per step", |b| {
            b.iter_custom(|iterations| {
                let spent = (0..iterations).map(|_| generate(&mut cascade, &prompts));
                spent.fold(Duration::ZERO, |sum, spent| {
                    sum + spent.target / spent.steps
                })
            });
        });
        group.finish();
        shares.sort_by(f64::total_cmp);
        let median = shares[shares.len() / 2];
        println!(
            "{family}: the engine's own time is {:.2}% of the target's (median of {} runs)",
            100.0 * median,
            shares.len()
        );
    }
}

criterion_group!(benches, engine);
criterion_main!(benches);
