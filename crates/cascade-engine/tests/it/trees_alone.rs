//! Trees that a neural drafter grows alone: the most probable nodes, or those that pay.

use std::sync::{Arc, Mutex};

use cascade_core::toy::{ToyDrafter, ToyScorer};
use cascade_core::{
    Architecture, HiddenLayer, HiddenLayers, Observation, Prompt, Result, Scorer, ScorerInfo,
    Scores, TokenId, TokenTree, Want,
};
use cascade_engine::{
    AssumedCosts, Branching, Cascade, CascadeBuilder, Expand, KMatrix, NeuralOptions,
    OnlineSchedule, Options, Rule, Siblings,
};

use crate::common::matrix;
use crate::replays::{Regime, Replay};
use crate::stop_rules::VOCABULARY as FEW;
use crate::stop_rules::{FAMILY, difference, enumerated, expected, prompt, sampled, target};

const VOCABULARY: usize = 12;

fn most_probable(rule: Rule) -> NeuralOptions {
    let branching = Branching {
        expand: Expand::MostProbable,
        ..Branching::chain()
    };
    NeuralOptions::new(rule, branching)
}

fn toy() -> ToyScorer {
    ToyScorer::target("target", VOCABULARY, 42)
}

fn drafter(seed: u64) -> ToyScorer {
    ToyScorer::drafter("drafter", VOCABULARY, 42, seed, 200)
}

/// The paths of at most `depth` tokens after a context with their probabilities, of which each
/// token is among the ten most probable, the most probable path first.
fn all_paths(context: &[TokenId], depth: usize) -> Vec<(Vec<TokenId>, f64)> {
    let mut model = drafter(1);
    let mut found: Vec<(Vec<TokenId>, f64)> = Vec::new();
    let mut ends = vec![(Vec::new(), 1.0)];
    for _ in 0..depth {
        let mut longer = Vec::new();
        for (path, probability) in &ends {
            let text = [context, path].concat();
            let want = Want::ARGMAX.with_top(10);
            let scores = model.score(&text, &TokenTree::new(), want).unwrap();
            for &(token, p) in scores.top.unwrap().row(0) {
                let path = [&path[..], &[token]].concat();
                longer.push((path, probability * f64::from(p)));
            }
        }
        found.extend(longer.iter().cloned());
        ends = longer;
    }
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}

/// What EAGLE-2 drafts: of all paths the most probable ones, as many as there may be nodes.
#[test]
fn a_tree_has_the_most_probable_paths() {
    for (depth, nodes) in [(1, 4), (2, 7), (3, 12), (3, 40)] {
        let mut cascade = Cascade::builder()
            .target("target", toy())
            .neural_with("drafter", drafter(1), most_probable(Rule::default()))
            .max_nodes(nodes)
            .k_matrix(matrix(&[&[depth]]))
            .build()
            .unwrap();
        let options = Options::default()
            .with_max_new_tokens(14)
            .with_drafts_reported(true);
        let (mut text, mut steps) = (vec![1, 2], 0);
        let prompt = Prompt::new(Architecture::DecoderOnly, text.clone());
        for step in cascade.start_tokens(&prompt, &options).unwrap() {
            let step = step.unwrap();
            if text.len() + depth < 14 {
                let all = all_paths(&text, depth);
                let mut expected: Vec<Vec<TokenId>> =
                    all.into_iter().take(nodes).map(|(path, _)| path).collect();
                let mut found: Vec<Vec<TokenId>> = Vec::new();
                for node in &step.draft {
                    let before = node
                        .parent
                        .map_or(Vec::new(), |parent| found[parent].clone());
                    found.push([&before[..], &[node.token]].concat());
                }
                expected.sort();
                found.sort();
                assert_eq!(found, expected, "{depth} {nodes}");
            }
            text.extend(&step.tokens);
            steps += 1;
        }
        assert!((3..14).contains(&steps), "{steps}");
    }
}

/// A toy that reads states of its target: what it says is a function of the context and of the
/// states observed of it since the text began.
#[derive(Clone)]
struct ToyHead {
    model: ToyScorer,
    /// The text whose states were observed, and their sum after each token.
    observed: Arc<Mutex<Vec<ObservedText>>>,
}

/// A text, and the sum of its states after its last token.
type ObservedText = (Vec<TokenId>, f32);

const LAYER: HiddenLayer = HiddenLayer::Last;

impl ToyHead {
    fn new(seed: u64) -> Self {
        Self {
            model: ToyScorer::drafter("head", FEW, FAMILY, seed, 100),
            observed: Arc::default(),
        }
    }
}

impl Scorer for ToyHead {
    fn info(&self) -> ScorerInfo {
        self.model.info().observing(HiddenLayers::LAST)
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.observed.lock().unwrap().clear();
        self.model.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let known = self.observed.lock().unwrap();
        let states = known.iter().filter(|(text, _)| context.starts_with(text));
        let sum: f32 = states.map(|(_, state)| state).sum();
        let mut seen = vec![sum as TokenId % FEW as TokenId];
        seen.extend_from_slice(context);
        self.model.score(&seen, tree, want)
    }

    fn observe(&mut self, step: &Observation<'_>) -> Result<()> {
        let states = step.hidden.and_then(|hidden| hidden.of(LAYER)).unwrap();
        let mut known = self.observed.lock().unwrap();
        let rows = states.rows() - step.draft.len();
        for row in 0..rows {
            let end = step.context.len() + 1 + row - rows;
            known.push((step.context[..end].to_vec(), states.row(row)[0]));
        }
        for &node in step.accepted {
            let mut text = step.context.to_vec();
            text.extend(step.draft.path_tokens(Some(node)));
            known.push((text, states.row(rows + node)[0]));
        }
        Ok(())
    }
}

/// A head alone in all shapes, above and beside what draws, below a model, and another head beside
/// it; what comes out is the target's, to the last digit.
#[test]
fn the_enumerated_output_with_a_head_in_every_position_is_the_targets() {
    let tree = |siblings, expand| Branching {
        siblings,
        expand,
        ..Branching::main_path(2)
    };
    for rule in Rule::DRAWN {
        let head = |branching: Branching| NeuralOptions::new(rule, branching);
        let with = |branching: Branching| {
            let builder = Cascade::builder().target_with("target", target(), rule);
            builder.neural_with("head", ToyHead::new(1), head(branching))
        };
        let text = || ToyDrafter::new(ToyScorer::drafter("text", FEW, FAMILY, 5, 100), 1);
        let small = || ToyScorer::drafter("small", FEW, FAMILY, 3, 100);
        let mut cascades: Vec<(&str, CascadeBuilder, KMatrix)> = vec![
            ("a chain", with(Branching::chain()), matrix(&[&[2]])),
            (
                "a tree of those that pay",
                with(most_probable(rule).branching),
                matrix(&[&[2]]),
            ),
            (
                "it reviews",
                with(Branching::chain()).statistical("text", text()),
                matrix(&[&[2, 0], &[0, 1]]),
            ),
            (
                "it is followed",
                with(Branching::chain()).statistical("text", text()),
                matrix(&[&[1, 1], &[0, 0]]),
            ),
            (
                "it is reviewed",
                Cascade::builder()
                    .target_with("target", target(), rule)
                    .neural_with("small", small(), head(Branching::chain()))
                    .neural_with("head", ToyHead::new(1), head(Branching::chain())),
                matrix(&[&[2, 0], &[0, 1]]),
            ),
            (
                "two of them",
                with(Branching::chain()).neural_with(
                    "other",
                    ToyHead::new(2),
                    head(Branching::chain()),
                ),
                matrix(&[&[1, 1], &[0, 1]]),
            ),
        ];
        let mut siblings = vec![Siblings::TopK, Siblings::WithReplacement];
        if rule != Rule::SpecInfer {
            siblings.push(Siblings::WithoutReplacement);
        }
        for siblings in siblings {
            for expand in [Expand::MainPath, Expand::AllLeaves] {
                cascades.push(("siblings", with(tree(siblings, expand)), matrix(&[&[2]])));
            }
        }
        for (what, builder, k) in cascades {
            let mut cascade = builder.max_nodes(4).k_matrix(k).build().unwrap();
            let error = difference(&enumerated(&mut cascade), &expected());
            assert!(error < 1e-12, "{rule}, {what}: {error}");
            let one = cascade.generate_tokens(&prompt(), &sampled()).unwrap();
            let used = one.models.iter().all(|model| model.usage.calls > 0);
            assert!(used, "{rule}, {what}");
        }
        let online = with(most_probable(rule).branching).schedule(OnlineSchedule::default());
        let mut cascade = online.max_nodes(4).build().unwrap();
        let error = difference(&enumerated(&mut cascade), &expected());
        assert!(error < 1e-12, "{rule}, online: {error}");
    }
    // The head does read states: another sum is another draft.
    let options = sampled().with_max_new_tokens(4);
    let drafts = |head: ToyHead| {
        let builder = Cascade::builder()
            .target("target", target())
            .neural("head", head)
            .k_matrix(matrix(&[&[3]]));
        let mut cascade = builder.build().unwrap();
        let seeds = (0..40).map(|seed| {
            let options = options.clone().with_seed(seed);
            let found = cascade.generate_tokens(&prompt(), &options).unwrap();
            found.num_accepted_draft_tokens()
        });
        seeds.collect::<Vec<_>>()
    };
    assert_ne!(drafts(ToyHead::new(1)), drafts(ToyHead::new(2)));
}

/// Seconds that 500 tokens take with a drafter that costs a twentieth of its target.
fn time(acceptance: f64, row: f64, expand: Expand, k: Option<(usize, usize)>) -> f64 {
    let replay = Replay::new(vec![Regime {
        positions: 0..usize::MAX,
        acceptance,
        forward: 1e-3,
        row,
    }]);
    let branching = Branching {
        expand,
        ..Branching::chain()
    };
    let options = NeuralOptions::new(Rule::default(), branching);
    let builder = replay
        .builder()
        .neural_with("small", replay.drafter(5, 0.05), options);
    let builder = match k {
        Some((height, nodes)) => builder.max_nodes(nodes).k_matrix(matrix(&[&[height]])),
        None => builder.schedule(OnlineSchedule::new(AssumedCosts {
            row,
            ..AssumedCosts::default()
        })),
    };
    let times = replay.times(builder, 500);
    times[499] - times[0]
}

#[test]
fn trees_of_what_pays_are_nearly_as_good_as_the_best_in_hindsight() {
    for (acceptance, row) in [(0.5, 0.01), (0.7, 0.02), (0.8, 0.05), (0.7, 0.2)] {
        let found = time(acceptance, row, Expand::MostProbable, None);
        let shapes = [1, 2, 4, 6, 9]
            .into_iter()
            .flat_map(|height| [1, 2, 4].map(|nodes| (height, height * nodes)));
        let best = shapes
            .map(|shape| time(acceptance, row, Expand::MostProbable, Some(shape)))
            .fold(f64::INFINITY, f64::min);
        let chain = time(acceptance, row, Expand::MainPath, None);
        assert!(
            found < best / 0.93,
            "{acceptance} {row}: {found} against {best}"
        );
        // Where rows are dear, a tree is little more than a chain.
        let most = if row < 0.03 { 0.95 } else { 1.06 };
        assert!(
            found < most * chain,
            "{acceptance} {row}: {found} against a chain's {chain}"
        );
    }
}

#[test]
fn trees_that_do_not_pay_are_not_grown() {
    for (acceptance, row) in [(0.0, 0.02), (0.03, 0.2)] {
        let found = time(acceptance, row, Expand::MostProbable, None);
        let plain = 499.0 * 1e-3;
        assert!(found < (plain + 5e-3) / 0.97, "{acceptance} {row}: {found}");
    }
}

/// A head of another target drafts in vain, and that is said once.
#[test]
fn a_head_that_is_never_right_is_named() {
    let told = |agreement: u64, reads: bool| {
        let said = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&said);
        let model = ToyScorer::drafter("head", VOCABULARY, 42, 1, agreement);
        let head = ToyHead {
            model: model.clone(),
            observed: Arc::default(),
        };
        let builder = Cascade::builder()
            .target("target", toy())
            .notices(move |notice| sink.lock().unwrap().push(notice.to_owned()))
            .k_matrix(matrix(&[&[1]]));
        let mut cascade = (if reads {
            builder.neural("eagle", head)
        } else {
            builder.neural("eagle", model)
        })
        .build()
        .unwrap();
        let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 2]);
        let options = Options::default().with_max_new_tokens(150);
        for _ in 0..2 {
            cascade.generate_tokens(&prompt, &options).unwrap();
        }

        std::mem::take(&mut *said.lock().unwrap())
    };
    let said = told(0, true);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("head `eagle`") && said[0].contains("kept"),
        "{said:?}"
    );
    // A model that is no head may be as bad as it likes.
    assert_eq!(told(0, false), [""; 0]);
}
