//! SpecDec++'s head: what it computes, and when it ends a turn.

use std::sync::Arc;

use cascade_core::{
    Architecture, Matrix, Prompt, Result, Scorer, ScorerInfo, Scores, TokenId, TokenTree, Want,
};
use cascade_engine::{AcceptanceHead, HeadLayer, HeadWeights, InvalidNetwork, Options};

use crate::common::matrix;
use crate::replays::{Regime, Replay, Said, token};

/// A drafter whose hidden states say at which position their token is.
struct WithPositions(Said);

impl Scorer for WithPositions {
    fn info(&self) -> ScorerInfo {
        self.0.info()
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.0.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let last = context.len() - 1;
        let nodes = (0..tree.len()).map(|node| last + tree.depth(node) + 1);
        let hidden = std::iter::once(last)
            .chain(nodes)
            .flat_map(|position| [position as f32, 1.0])
            .collect();
        let hidden = (!want.hidden.is_empty()).then(|| Matrix::new(2, hidden));
        Ok(self.0.score(context, tree, want)?.with_hidden(hidden))
    }
}

/// Tokens before this position are accepted for sure, and rejected from it on.
fn until(position: f32) -> HeadWeights {
    HeadWeights {
        layers: Vec::new(),
        output: vec![-100.0, 100.0 * (position - 0.5)],
        output_bias: 0.0,
    }
}

/// Nodes that were drafted in each step; drafted tokens are as often right as is said.
fn drafted(head: AcceptanceHead, acceptance: f64, tokens: usize) -> Vec<usize> {
    let replay = Replay::new(vec![Regime {
        positions: 0..usize::MAX,
        acceptance,
        forward: 1e-3,
        row: 0.0,
    }]);
    let mut cascade = replay
        .builder()
        .neural("small", WithPositions(replay.drafter(5, 0.1)))
        .stop_rule(head)
        .k_matrix(matrix(&[&[64]]))
        .build()
        .unwrap();
    let prompt = Prompt::new(Architecture::DecoderOnly, vec![token(0)]);
    let options = Options::default().with_max_new_tokens(tokens);
    let output = cascade.generate_tokens(&prompt, &options).unwrap();
    output.steps.iter().map(|step| step.drafted).collect()
}

fn head(weights: HeadWeights, threshold: f32, shortest: usize, longest: usize) -> AcceptanceHead {
    AcceptanceHead::new(Arc::new(weights), threshold, shortest, longest).unwrap()
}

#[test]
fn a_turn_ends_when_a_rejection_is_likely_and_the_first_token_counts_as_accepted() {
    // The tokens at positions 1 to 6 are rejected by none; after that at 7 the rule knows of the
    // one at 6, which is the first to be rejected.
    let steps = drafted(head(until(6.0), 0.7, 2, 20), 1.0, 60);
    assert_eq!(steps[0], 7);
    // The next steps begin behind it: whatever the state that the first token is drawn from says,
    // two tokens are drafted, as the second brings the estimate of the first.
    assert!(
        steps[1..steps.len() - 1].iter().all(|&tokens| tokens == 2),
        "{steps:?}"
    );
    let at_once = drafted(head(until(0.0), 0.7, 1, 20), 1.0, 30);
    assert_eq!(at_once[..3], [2, 2, 2]);
}

#[test]
fn a_turn_has_no_fewer_and_no_more_tokens_than_is_said() {
    let certain = || until(1e6);
    assert_eq!(
        drafted(head(certain(), 0.1, 2, 20), 1.0, 80)[..3],
        [20, 20, 20]
    );
    assert_eq!(
        drafted(head(until(0.0), 0.1, 5, 20), 0.0, 40)[..3],
        [5, 5, 5]
    );
    assert_eq!(drafted(head(certain(), 0.1, 1, 1), 1.0, 40)[..3], [1, 1, 1]);
    // A head of another drafter says nothing, and its turns are short.
    let other = HeadWeights {
        output: vec![0.0; 3],
        ..certain()
    };
    assert_eq!(drafted(head(other, 0.9, 3, 20), 1.0, 40)[..3], [3, 3, 3]);
}

/// p = 0.9 for each token: 1 − 0.9^n exceeds 0.5 from n = 7 on.
#[test]
fn probabilities_are_multiplied() {
    let even = HeadWeights {
        layers: Vec::new(),
        output: vec![0.0, (0.9f32 / 0.1).ln()],
        output_bias: 0.0,
    };
    assert_eq!(drafted(head(even.clone(), 0.5, 2, 20), 1.0, 60)[0], 8);
    assert_eq!(drafted(head(even, 0.3, 2, 20), 1.0, 60)[0], 5);
}

#[test]
fn the_network_is_residual_layers_with_silu_and_a_linear_one() {
    let layer = Arc::new(HeadLayer {
        weight: vec![0.5, -1.0, 0.25, 2.0],
        bias: vec![0.1, -0.2],
    });
    let weights = HeadWeights {
        layers: vec![Arc::clone(&layer), layer],
        output: vec![0.7, -0.3],
        output_bias: 0.05,
    };
    let silu = |x: f64| x / (1.0 + (-x).exp());
    let step = |x: [f64; 2]| {
        let first = x[0] + silu(0.5 * x[0] - x[1] + 0.1);
        [first, x[1] + silu(0.25 * x[0] + 2.0 * x[1] - 0.2)]
    };
    let x = step(step([0.3, -0.8]));
    let wanted = 1.0 / (1.0 + (-(0.7 * x[0] - 0.3 * x[1] + 0.05)).exp());
    let found = weights.probability(&[0.3, -0.8]).unwrap();
    assert!((f64::from(found) - wanted).abs() < 1e-6, "{found} {wanted}");
    assert_eq!(weights.probability(&[0.3]), None);
    // The dot product of long states is in parts.
    let long = HeadWeights {
        layers: Vec::new(),
        output: (0..37).map(|i| i as f32 / 37.0).collect(),
        output_bias: -1.0,
    };
    let state: Vec<f32> = (0..37).map(|i| ((i * 7) % 5) as f32 / 5.0 - 0.4).collect();
    let sum: f64 = (0..37)
        .map(|i| i as f64 / 37.0 * (((i * 7) % 5) as f64 / 5.0 - 0.4))
        .sum();
    let wanted = 1.0 / (1.0 + (1.0 - sum).exp());
    assert!((f64::from(long.probability(&state).unwrap()) - wanted).abs() < 1e-6);
}

#[test]
fn what_is_no_head_is_refused_by_name() {
    let new = |weights: HeadWeights, threshold, shortest, longest| {
        AcceptanceHead::new(Arc::new(weights), threshold, shortest, longest)
            .map(|_| ())
            .unwrap_err()
    };
    let odd = HeadWeights {
        layers: vec![Arc::new(HeadLayer {
            weight: vec![0.0; 3],
            bias: vec![0.0; 2],
        })],
        ..until(1.0)
    };
    assert!(
        new(odd, 0.5, 2, 20)
            .to_string()
            .contains("`weight` of layer 0")
    );
    let nan = HeadWeights {
        output_bias: f32::NAN,
        ..until(1.0)
    };
    assert!(matches!(
        new(nan, 0.5, 2, 20),
        InvalidNetwork::Number { .. }
    ));
    assert!(matches!(
        new(until(1.0), 1.5, 2, 20),
        InvalidNetwork::Threshold { .. }
    ));
    for (shortest, longest) in [(0, 3), (4, 3)] {
        assert!(matches!(
            new(until(1.0), 0.5, shortest, longest),
            InvalidNetwork::Lengths { .. }
        ));
    }
}
