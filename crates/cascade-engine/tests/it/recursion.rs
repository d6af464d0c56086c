//! The calls that a K matrix leads to: which model is called with what, in which order.
//!
//! Each line is `model context | draft`. For the statistical drafter `mag` the draft is what it
//! proposes.

use cascade_engine::{
    Branching, CascadeBuilder, Expand, GenerationOutput, Lenience, NeuralOptions, Options,
    Placement, Rule,
};

use crate::common::{Log, Scripted, matrix, prompt, scripted};

/// Generates from the context 0 1 and returns the calls.
fn calls(builder: CascadeBuilder, tokens: usize, log: &Log) -> (Vec<String>, GenerationOutput) {
    let mut cascade = builder.build().unwrap();
    let options = Options::default().with_max_new_tokens(tokens);
    let generation = cascade.generate_tokens(&prompt(), &options).unwrap();
    let expected: Vec<u32> = (2..2 + tokens as u32).collect();
    assert_eq!(generation.tokens, expected, "the output is the target's");
    (std::mem::take(&mut *log.lock().unwrap()), generation)
}

#[test]
fn no_drafter_is_plain_decoding() {
    let log = Log::default();
    let builder = scripted(&log);
    let (calls, generation) = calls(builder, 3, &log);
    assert_eq!(
        calls,
        ["target 0 1 |", "target 0 1 2 |", "target 0 1 2 3 |"]
    );
    assert_eq!(generation.mean_acceptance_length(), 1.0);
}

#[test]
fn a_lone_neural_drafter_drafts_one_token_per_forward() {
    let log = Log::default();
    let builder = scripted(&log)
        .neural("base", Scripted::new("base", &[4], &log))
        .k_matrix(matrix(&[&[3]]));
    let (calls, _) = calls(builder, 6, &log);
    assert_eq!(
        calls,
        [
            "base 0 1 |",
            "base 0 1 2 |",
            "base 0 1 2 3 |", // predicts 104
            "target 0 1 | 2 3 104",
            "base 0 1 2 3 4 |", // two tokens are missing: one drafted, one bonus token
            "base 0 1 2 3 4 5 |",
            "target 0 1 2 3 4 | 5 6",
        ]
    );
}

#[test]
fn vertical_the_statistical_drafter_drafts_for_the_neural_one() {
    let log = Log::default();
    // mag is wrong at 4 and 6, base at 6.
    let builder = scripted(&log)
        .neural("base", Scripted::new("base", &[6], &log))
        .statistical("mag", Scripted::new("mag", &[4, 6], &log))
        .k_matrix(matrix(&[&[4, 0], &[0, 3]]));
    let (calls, generation) = calls(builder, 8, &log);
    assert_eq!(
        calls,
        [
            "mag 0 1 | 2 3 104",
            "base 0 1 | 2 3 104", // accepts 2 3, adds 4: three tokens, one is still missing
            "mag 0 1 2 3 4 | 5 106 7",
            "base 0 1 2 3 4 | 5 106 7", // accepts all, since base predicts 106 too, and adds 8
            "target 0 1 | 2 3 4 5 106 7 8",
            // Three tokens are missing: the target adds one, base adds one, so mag drafts one.
            "mag 0 1 2 3 4 5 6 | 7",
            "base 0 1 2 3 4 5 6 | 7",
            "target 0 1 2 3 4 5 6 | 7 8",
        ]
    );
    assert_eq!(generation.steps.len(), 2);
}

#[test]
fn horizontal_the_smaller_drafter_writes_the_tail() {
    let log = Log::default();
    let builder = scripted(&log)
        .neural("base", Scripted::new("base", &[], &log))
        .statistical("mag", Scripted::new("mag", &[5], &log))
        .k_matrix(matrix(&[&[2, 3], &[0, 0]]));
    let (calls, generation) = calls(builder, 4, &log);
    assert_eq!(
        calls,
        [
            "base 0 1 |",
            "base 0 1 2 |",
            "mag 0 1 2 3 | 4",
            "target 0 1 | 2 3 4",
        ]
    );
    assert_eq!(generation.mean_acceptance_length(), 4.0);
}

#[test]
fn both_cascades_with_three_drafters() {
    let log = Log::default();
    // The small model is wrong at 7, and base knows better.
    let builder = scripted(&log)
        .neural("base", Scripted::new("base", &[], &log))
        .neural("small", Scripted::new("small", &[7], &log))
        .statistical("mag", Scripted::new("mag", &[3, 9], &log))
        .k_matrix(matrix(&[&[2, 3, 2], &[0, 1, 2], &[0, 0, 2]]));
    let (calls, generation) = calls(builder, 20, &log);
    let first_step = [
        // base has a quota of 2 tokens. For it small drafts 1 and mag 2 more; for small, mag drafts
        // 2.
        "mag 0 1 | 2 103",
        "small 0 1 | 2 103", // accepts 2, adds 3: two tokens, with a quota of one
        "mag 0 1 2 3 | 4",   // so mag adds only the one that makes 1 + 2
        "base 0 1 | 2 3 4",  // accepts all, adds 5: four, with a quota of two
        // small drafts up to 2 + 3 = 5 tokens: one more.
        "mag 0 1 2 3 4 5 | 6 7",
        "small 0 1 2 3 4 5 | 6 7", // accepts 6, predicts 107 at 7
        // mag drafts up to 2 + 3 + 2 = 7 tokens: one more.
        "mag 0 1 2 3 4 5 6 107 | 8",
        "target 0 1 | 2 3 4 5 6 107 8",
    ];
    assert_eq!(calls[..first_step.len()], first_step);
    assert_eq!(
        (generation.steps[0].drafted, generation.steps[0].accepted),
        (7, 5)
    );
}

#[test]
fn lenience_keeps_what_is_nearly_as_likely() {
    let log = Log::default();
    // base predicts 104 at 4 with probability 0.5, and gives the correct token 0.25; small gives
    // the correct one 0.5.
    let strict = || {
        scripted(&log)
            .neural("base", Scripted::new("base", &[4], &log))
            .neural("small", Scripted::new("small", &[], &log))
            .k_matrix(matrix(&[&[4, 0], &[0, 3]]))
    };
    let (calls_strict, _) = calls(strict(), 5, &log);
    assert_eq!(
        calls_strict
            .iter()
            .find(|l| l.starts_with("target"))
            .unwrap(),
        "target 0 1 | 2 3 104 5"
    );
    let (calls_lenient, _) = calls(strict().lenience(Lenience::new(2.0).unwrap()), 5, &log);
    assert_eq!(
        calls_lenient
            .iter()
            .find(|l| l.starts_with("target"))
            .unwrap(),
        "target 0 1 | 2 3 4 5"
    );
}

fn branching(widths: &[usize], expand: Expand) -> NeuralOptions {
    let branching = Branching {
        widths: widths.to_vec(),
        expand,
        ..Branching::chain()
    };
    NeuralOptions::new(Rule::default(), branching)
}

/// The tree of Cascade Speculative Drafting, App. B, with three children in place of eight: K =
/// [[1, 3], [0, 1]].
#[test]
fn the_papers_tree_has_children_under_the_leading_nodes_and_costs_no_further_forward() {
    let log = Log::default();
    let builder = scripted(&log)
        .neural_with(
            "small",
            Scripted::new("small", &[], &log),
            branching(&[3], Expand::MainPath),
        )
        .statistical("mag", Scripted::new("mag", &[], &log))
        .k_matrix(matrix(&[&[1, 3], &[0, 1]]));
    let (calls, generation) = calls(builder, 6, &log);
    assert_eq!(
        calls,
        [
            "mag 0 1 | 2",
            "small 0 1 | 2",
            // Small accepts 2 and adds 3, one more than its quota, so Max-Gram adds two of its
            // three.
            "mag 0 1 2 3 | 4 5",
            "target 0 1 | 2 3 52@. 53@. 53@0 54@0 4@1 5",
            "target 0 1 2 3 4 5 6 |",
        ]
    );
    assert_eq!(generation.steps[0].drafted, 8);
    assert_eq!(generation.steps[0].accepted, 4);
}

/// SpecInfer's expansion: each forward of the drafter scores the whole tree, and every leaf grows.
#[test]
fn where_every_node_has_children_each_forward_grows_all_leaves() {
    let log = Log::default();
    let builder = scripted(&log)
        .neural_with(
            "small",
            Scripted::new("small", &[], &log),
            branching(&[2, 1], Expand::AllLeaves),
        )
        .k_matrix(matrix(&[&[3]]));
    let (calls, _) = calls(builder, 4, &log);
    assert_eq!(
        calls,
        [
            "small 0 1 |",
            "small 0 1 | 2 52@.",
            "small 0 1 | 2 52@. 3@0 3@1",
            "target 0 1 | 2 52@. 3@0 3@1 4@2 4@3",
        ]
    );
}

/// Drafts of smaller levels continue the main path, and are reviewed in the same forward that
/// expands the other leaves.
#[test]
fn the_vertical_cascade_goes_on_in_a_growing_tree() {
    let log = Log::default();
    let builder = scripted(&log)
        .neural_with(
            "small",
            Scripted::new("small", &[], &log),
            branching(&[2, 1], Expand::AllLeaves),
        )
        .statistical("mag", Scripted::new("mag", &[3], &log))
        .k_matrix(matrix(&[&[4, 0], &[0, 1]]));
    let (calls, _) = calls(builder, 6, &log);
    assert_eq!(
        calls,
        [
            "mag 0 1 | 2",
            "small 0 1 | 2",
            "mag 0 1 2 3 | 4",
            // 52 is the sibling of 2; 4 is what Max-Gram guesses after 3.
            "small 0 1 | 2 3 52@. 4@1",
            "target 0 1 | 2 3 52@. 4@1 5 3@2",
            "target 0 1 2 3 4 5 6 |",
        ]
    );
}

#[test]
fn drafters_beside_each_other_are_merged_into_one_tree() {
    let log = Log::default();
    let builder = scripted(&log)
        .neural("one", Scripted::new("one", &[3], &log))
        .neural("two", Scripted::new("two", &[], &log))
        .k_matrix(matrix(&[&[2, 3], &[0, 0]]))
        .placement(Placement::Merged);
    let (calls, _) = calls(builder, 5, &log);
    assert_eq!(
        calls,
        [
            "one 0 1 |",
            "one 0 1 2 |", // predicts 103
            "two 0 1 |",
            "two 0 1 2 |",
            "two 0 1 2 3 |",
            "target 0 1 | 2 103 3@0 4",
            "target 0 1 2 3 4 5 |",
        ]
    );
}

#[test]
fn the_leading_path_comes_first_and_branches_get_what_it_leaves() {
    let log = Log::default();
    let builder = scripted(&log)
        .neural_with(
            "small",
            Scripted::new("small", &[], &log),
            branching(&[4], Expand::MainPath),
        )
        .statistical("mag", Scripted::new("mag", &[], &log))
        .k_matrix(matrix(&[&[2, 2], &[0, 0]]))
        .max_nodes(6);
    let (calls, _) = calls(builder, 5, &log);
    assert_eq!(
        calls,
        [
            "small 0 1 |",
            "small 0 1 2 |",
            "mag 0 1 2 3 | 4 5",
            // Four of six nodes are on the main path; the two others went to the first depth with
            // branches.
            "target 0 1 | 2 52@. 53@. 3@0 4 5",
        ]
    );
}
