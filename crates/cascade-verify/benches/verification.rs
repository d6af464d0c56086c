//! What verification costs besides the forward pass: building a draft, computing the distributions
//! of the rows that a review reads, and deciding.
//!
//! `cargo bench -p cascade-verify` ends with two tables, for one row and for one step. A step
//! builds the draft push by push and reviews it; each is one of eight with logits of their own. The
//! column `sum` is the time of a plain sum over the logits that were read, in the same run: the
//! cost of reading them alone. Times are medians.
//!
//! Logits are made like those of a language model: a Gaussian bulk with about a hundredth of the
//! mass, and a few dominant tokens. The drafter's are the same with noise.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cascade_core::{
    Distribution, Draft, GatheredProbs, LevelId, Matrix, NodeId, Noise, Proposal, Proposed,
    RandomSource, Sampling, Scores, SeededNoise, SeededRandom, TokenId,
};
use cascade_verify::{Lenience, LeniencePolicy, Rule, SampledRows, coupled, greedy, sampled};
use criterion::{BenchmarkId, Criterion};
use rand::{Rng, SeedableRng, rngs::StdRng};

const VOCABULARIES: [usize; 2] = [32_000, 151_936];
const CASES: usize = 8;
/// Children of the leading node of each depth.
const WIDTH: usize = 8;
const LENIENCE: f32 = 2.0;

/// A standard normal number (Box and Muller).
fn normal(rng: &mut StdRng) -> f32 {
    let radius = (-2.0 * (1.0 - rng.random::<f32>()).ln()).sqrt();
    radius * (std::f32::consts::TAU * rng.random::<f32>()).cos()
}

/// Logits of a reviewer and of its drafter.
fn logits(vocab_size: usize, rng: &mut StdRng) -> (Vec<f32>, Vec<f32>) {
    let mut p: Vec<f32> = (0..vocab_size).map(|_| 2.5 * normal(rng)).collect();
    let mut dominant = 18.0;
    for _ in 0..8 {
        p[rng.random_range(0..vocab_size)] = dominant;
        dominant += 1.3 * (1.0 - rng.random::<f32>()).ln();
    }
    let q = p.iter().map(|l| l + 0.6 * normal(rng)).collect();
    (p, q)
}

fn argmax(logits: &[f32]) -> TokenId {
    let order = |a: &(TokenId, f32), b: &(TokenId, f32)| a.1.total_cmp(&b.1);
    (0..)
        .zip(logits.iter().copied())
        .max_by(order)
        .map_or(0, |best| best.0)
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Chain,
    /// Eight draws after the leading node of each depth.
    CandidateToken,
    /// The eight most probable tokens there.
    Top,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::CandidateToken => "tree of draws",
            Self::Top => "tree of top 8",
        }
    }

    fn width(self) -> usize {
        match self {
            Self::Chain => 1,
            Self::CandidateToken | Self::Top => WIDTH,
        }
    }
}

/// A draft as it is pushed, and the rows of its tree.
struct Case {
    pushes: Vec<(TokenId, Option<NodeId>, Proposal)>,
    rows: Matrix,
    scores: Scores,
}

impl Case {
    /// `sampling` is that of the drafter; `None` drafts greedily.
    fn new(
        pool: &[(Vec<f32>, Vec<f32>)],
        sampling: Option<&Sampling>,
        shape: Shape,
        nodes: usize,
        seed: u64,
    ) -> Self {
        let mut chance = SeededRandom::new(seed);
        let mut draft = Draft::new();
        let mut pushes = Vec::new();
        let mut lead = None;
        let row = |node: Option<NodeId>| {
            let row = node.map_or(0, |node| node + 1);
            &pool[(row + 7 * seed as usize) % pool.len()]
        };
        while pushes.len() < nodes {
            let width = shape.width().min(nodes - pushes.len());
            let level = propose(&row(lead).1, sampling, shape, width, &mut chance);
            let parent = lead;
            for (place, (token, proposal)) in level.into_iter().enumerate() {
                let node = push(&mut draft, token, parent, proposal.clone());
                pushes.push((token, parent, proposal));
                if place == 0 {
                    lead = Some(node);
                }
            }
        }
        let rows: Vec<&[f32]> = std::iter::once(None)
            .chain((0..draft.len()).map(Some))
            .map(|node| row(node).0.as_slice())
            .collect();
        let scores = Scores::default()
            .with_argmax(rows.iter().map(|row| argmax(row)).collect())
            .with_gathered(Some(GatheredProbs {
                argmax: vec![0.7; rows.len()],
                nodes: vec![0.2; draft.len()],
            }));
        Self {
            rows: Matrix::new(rows[0].len(), rows.concat()),
            pushes,
            scores,
        }
    }

    fn draft(&self) -> Draft {
        let mut draft = Draft::new();
        for (token, parent, proposal) in &self.pushes {
            push(&mut draft, *token, *parent, proposal.clone());
        }
        draft
    }
}

fn push(draft: &mut Draft, token: TokenId, parent: Option<NodeId>, proposal: Proposal) -> NodeId {
    let proposer = LevelId::drafter(0);
    draft.push(token, parent, Proposed { proposal, proposer })
}

fn propose(
    logits: &[f32],
    sampling: Option<&Sampling>,
    shape: Shape,
    width: usize,
    chance: &mut SeededRandom,
) -> Vec<(TokenId, Proposal)> {
    let softmax = Sampling::new(1.0).expect("a temperature");
    let q = sampling.unwrap_or(&softmax).distribution(logits);
    let q = Arc::new(q.expect("finite logits"));
    let pick = |token| {
        let probability = q.probability(token) as f32;
        (token, Proposal::Pick { probability })
    };
    match (sampling, shape) {
        (Some(_), Shape::Chain | Shape::CandidateToken) => (0..width)
            .map(|_| (chance.draw(&q), Proposal::Sampled(Arc::clone(&q))))
            .collect(),
        (Some(_), Shape::Top) => q
            .top(width)
            .into_iter()
            .map(|token| (token, Proposal::PointMass))
            .collect(),
        (None, _) => q.top(width).into_iter().map(pick).collect(),
    }
}

/// A plain sum, in as many partial sums as keep the adders busy.
fn sum(values: &[f32]) -> f32 {
    let mut lanes = [0.0; 64];
    for chunk in values.chunks_exact(lanes.len()) {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    lanes.iter().sum()
}

/// Medians of what Criterion measures, for the tables. What its command line leaves out is no line
/// of a table.
#[derive(Default)]
struct Table(RefCell<Vec<String>>);

impl Table {
    /// Measures `run`, called with 0, 1, 2, …, and gives the median in µs; `None` if it is left
    /// out.
    fn measure(
        &self,
        criterion: &mut Criterion,
        id: &BenchmarkId,
        mut run: impl FnMut(usize),
    ) -> Option<f64> {
        let mut samples = Vec::new();
        criterion.bench_with_input(id.clone(), &(), |bencher, ()| {
            bencher.iter_custom(|iterations| {
                let start = Instant::now();
                for i in 0..iterations {
                    run(i as usize);
                }
                let elapsed = start.elapsed();
                samples.push(elapsed.as_secs_f64() * 1e6 / iterations as f64);
                elapsed
            });
        });
        samples.sort_unstable_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied()
    }

    fn add(&self, line: String) {
        self.0.borrow_mut().push(line);
    }
}

fn modes() -> Vec<(&'static str, Sampling)> {
    let at = |temperature| Sampling::new(temperature).expect("a temperature");
    let nucleus = at(0.7).with_top_p(0.9).expect("a share");
    let top_k = at(1.0).with_top_k(50).expect("a number");
    vec![
        ("temperature 1", at(1.0)),
        ("temperature 0.7, top-p 0.9", nucleus),
        ("top-k 50", top_k),
    ]
}

/// One row: from logits to a distribution, and what is done with it.
fn rows(criterion: &mut Criterion, table: &Table, pool: &[(Vec<f32>, Vec<f32>)]) {
    let vocab_size = pool[0].0.len();
    let at = |i: usize| &pool[i % CASES];
    let mut line = |mode: &str, what: &str, run: &mut dyn FnMut(usize)| {
        let id = BenchmarkId::new(format!("row/{mode}/{what}"), vocab_size);
        if let Some(time) = table.measure(criterion, &id, run) {
            table.add(format!("| {mode} | {vocab_size} | {what} | {time:.2} |"));
        }
    };
    line("-", "plain sum", &mut |i| {
        black_box(sum(&at(i).0));
    });
    let noise = SeededNoise::new(0);
    let mut modes = modes();
    modes.push(("min-p 0.05", modes[0].1.with_min_p(0.05).expect("a share")));
    // As flat as it gets: nothing can be left out early.
    let flat = Sampling::new(100.0).and_then(|s| s.with_top_p(0.9));
    modes.push(("flat, top-p 0.9", flat.expect("a share")));
    for (mode, sampling) in modes {
        let of = |logits: &[f32]| sampling.distribution(logits).expect("finite logits");
        let made: Vec<[Distribution; 2]> =
            pool[..CASES].iter().map(|(p, q)| [of(p), of(q)]).collect();
        let made = |i: usize| &made[i % CASES];
        line(mode, "distribution", &mut |i| {
            black_box(of(&at(i).0));
        });
        line(mode, "at_quantile", &mut |i| {
            black_box(made(i)[0].at_quantile((i * 37 % 64) as f64 / 64.0));
        });
        line(mode, "winner of a race", &mut |i| {
            black_box(noise.winner(i as u64, &made(i)[0]));
        });
        line(mode, "first 8 of a race", &mut |i| {
            black_box(noise.first(i as u64, &made(i)[0], 8));
        });
        line(mode, "residual", &mut |i| {
            black_box(made(i)[0].residual(&made(i)[1]));
        });
        line(mode, "overlap", &mut |i| {
            black_box(made(i)[0].overlap(&made(i)[1]));
        });
        line(mode, "total_variation", &mut |i| {
            black_box(made(i)[0].total_variation(&made(i)[1]));
        });
        line(mode, "top(8)", &mut |i| {
            black_box(made(i)[0].top(8));
        });
    }
}

/// One step: the draft is built and reviewed.
struct Step<'a> {
    mode: &'a str,
    rule: &'a str,
    leniences: LeniencePolicy,
    shape: Shape,
    nodes: usize,
    cases: &'a [Case],
    /// What a plain sum over a row of logits takes, in µs.
    sum: Option<f64>,
}

impl Step<'_> {
    /// `review` gives the number of rows that it looked at.
    fn measure(
        &self,
        criterion: &mut Criterion,
        table: &Table,
        mut review: impl FnMut(&Case, &Draft) -> usize,
    ) {
        let Self {
            mode,
            rule,
            shape,
            nodes,
            sum,
            ..
        } = *self;
        let shape = shape.name();
        let vocab_size = self.cases[0].rows.columns();
        let strict = if self.leniences.is_strict() {
            "strict"
        } else {
            "lenient"
        };
        let name = format!("step/{mode}/{rule}/{strict}/{shape}/{nodes}");
        let id = BenchmarkId::new(name, vocab_size);
        let (mut rows, mut steps) = (0, 0);
        let time = table.measure(criterion, &id, |i| {
            let case = &self.cases[i % CASES];
            rows += review(case, &case.draft());
            steps += 1;
        });
        let Some(time) = time else { return };
        let rows = rows as f64 / f64::from(steps);
        let sum = sum.map_or("-".to_owned(), |sum| format!("{:.2}", rows * sum));
        table.add(format!(
            "| {mode} | {rule} | {strict} | {vocab_size} | {shape} | {nodes} | {rows:.2} | {time:.2} | {sum} |"
        ));
    }
}

/// The time of a plain sum over one row of the cases, in turn the first, the second, … of each.
fn plain_sum(
    criterion: &mut Criterion,
    table: &Table,
    mode: &str,
    shape: Shape,
    cases: &[Case],
) -> Option<f64> {
    let rows = cases[0].rows.rows();
    let name = format!("sum/{mode}/{}/{rows} rows", shape.name());
    let id = BenchmarkId::new(name, cases[0].rows.columns());
    table.measure(criterion, &id, |i| {
        let rows = &cases[i % CASES].rows;
        black_box(sum(rows.row(i / CASES % rows.rows().min(4))));
    })
}

fn leniences(lenience: f32) -> LeniencePolicy {
    let lenience = Lenience::new(lenience).expect("at least 1");
    LeniencePolicy {
        neural: lenience,
        statistical: lenience,
    }
}

fn drafts() -> impl Iterator<Item = (Shape, usize)> {
    let trees = [4, 16, 64];
    let chains = [1, 4, 16, 64].map(|nodes| (Shape::Chain, nodes));
    let drawn = trees.map(|nodes| (Shape::CandidateToken, nodes));
    let top = trees.map(|nodes| (Shape::Top, nodes));
    chains.into_iter().chain(drawn).chain(top)
}

fn cases(
    pool: &[(Vec<f32>, Vec<f32>)],
    sampling: Option<&Sampling>,
    shape: Shape,
    nodes: usize,
) -> Vec<Case> {
    (0..CASES as u64)
        .map(|seed| Case::new(pool, sampling, shape, nodes, seed))
        .collect()
}

fn greedy_steps(criterion: &mut Criterion, table: &Table, pool: &[(Vec<f32>, Vec<f32>)]) {
    for (shape, nodes) in drafts().filter(|draft| draft.0 != Shape::CandidateToken) {
        let cases = cases(pool, None, shape, nodes);
        for leniences in [LeniencePolicy::STRICT, leniences(LENIENCE)] {
            let step = Step {
                mode: "greedy",
                rule: "-",
                leniences,
                shape,
                nodes,
                cases: &cases,
                sum: None,
            };
            step.measure(criterion, table, |case, draft| {
                greedy::review(draft, None, &case.scores, leniences)
                    .emitted
                    .len()
            });
        }
    }
}

fn sampled_steps(criterion: &mut Criterion, table: &Table, pool: &[(Vec<f32>, Vec<f32>)]) {
    for (mode, sampling) in modes() {
        for (shape, nodes) in drafts() {
            let cases = cases(pool, Some(&sampling), shape, nodes);
            let sum = plain_sum(criterion, table, mode, shape, &cases);
            for leniences in [LeniencePolicy::STRICT, leniences(LENIENCE)] {
                let step = Step {
                    mode,
                    rule: Rule::Coupled.name(),
                    leniences,
                    shape,
                    nodes,
                    cases: &cases,
                    sum,
                };
                let noise = SeededNoise::new(0);
                let mut context = 0;
                step.measure(criterion, table, |case, draft| {
                    context += nodes + 1;
                    let rows = &mut SampledRows::new(&case.rows, &sampling);
                    coupled::review(draft, None, rows, &noise, context, leniences)
                        .expect("finite logits")
                        .emitted
                        .len()
                });
            }
            for rule in Rule::DRAWN {
                for leniences in [LeniencePolicy::STRICT, leniences(LENIENCE)] {
                    let step = Step {
                        mode,
                        rule: rule.name(),
                        leniences,
                        shape,
                        nodes,
                        cases: &cases,
                        sum,
                    };
                    let mut chance = SeededRandom::new(0);
                    step.measure(criterion, table, |case, draft| {
                        let rows = &mut SampledRows::new(&case.rows, &sampling);
                        sampled::review(draft, None, rows, &rule, leniences, &mut chance)
                            .expect("finite logits")
                            .emitted
                            .len()
                    });
                }
            }
        }
    }
}

fn main() {
    let criterion = &mut Criterion::default()
        .warm_up_time(Duration::from_millis(20))
        .measurement_time(Duration::from_millis(100))
        .sample_size(15)
        .nresamples(1000)
        .without_plots()
        .configure_from_args();
    let [of_rows, of_steps] = [Table::default(), Table::default()];
    for vocab_size in VOCABULARIES {
        let rng = &mut StdRng::seed_from_u64(0);
        let pool: Vec<_> = (0..80).map(|_| logits(vocab_size, rng)).collect();
        rows(criterion, &of_rows, &pool);
        greedy_steps(criterion, &of_steps, &pool);
        sampled_steps(criterion, &of_steps, &pool);
    }
    println!("\n| mode | vocabulary | of one row | µs |\n|---|---|---|---|");
    println!("{}", of_rows.0.borrow().join("\n"));
    println!(
        "\n| mode | rule | review | vocabulary | draft | nodes | rows looked at | µs per step | sum |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    println!("{}", of_steps.0.borrow().join("\n"));
}
