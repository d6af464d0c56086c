//! Greedy review over chains and trees, strict and lenient.

use cascade_core::{Draft, GatheredProbs, LevelId, Proposal, Proposed, Scores, TokenId, TokenTree};
use cascade_verify::{Lenience, LeniencePolicy, greedy};
use proptest::prelude::*;

const STATISTICAL: Proposal = Proposal::PointMass;

fn pick(probability: f32) -> Proposal {
    Proposal::Pick { probability }
}

fn draft(nodes: &[(TokenId, Option<usize>, Proposal)]) -> Draft {
    let mut draft = Draft::new();
    for (token, parent, proposal) in nodes.iter().cloned() {
        draft.push(
            token,
            parent,
            Proposed {
                proposal,
                proposer: LevelId::drafter(0),
            },
        );
    }
    draft
}

fn scores(argmax: &[TokenId], nodes: &[f32]) -> Scores {
    Scores::default()
        .with_argmax(argmax.to_vec())
        .with_gathered(Some(GatheredProbs {
            argmax: vec![0.5; argmax.len()],
            nodes: nodes.to_vec(),
        }))
}

fn leniences(neural: f32, statistical: f32) -> LeniencePolicy {
    LeniencePolicy {
        neural: Lenience::new(neural).unwrap(),
        statistical: Lenience::new(statistical).unwrap(),
    }
}

#[test]
fn an_empty_draft_gives_the_reviewers_token() {
    let verdict = greedy::review(
        &Draft::new(),
        None,
        &scores(&[7], &[]),
        LeniencePolicy::STRICT,
    );
    assert_eq!((verdict.kept.len(), verdict.next), (0, 7));
}

#[test]
fn a_chain_is_kept_up_to_the_first_difference() {
    let chain = draft(&[
        (1, None, STATISTICAL),
        (2, Some(0), STATISTICAL),
        (3, Some(1), STATISTICAL),
    ]);
    let all = greedy::review(
        &chain,
        None,
        &scores(&[1, 2, 3, 4], &[0.5; 3]),
        LeniencePolicy::STRICT,
    );
    assert_eq!((all.kept, all.next), (vec![0, 1, 2], 4));
    let some = greedy::review(
        &chain,
        None,
        &scores(&[1, 9, 3, 4], &[0.5; 3]),
        LeniencePolicy::STRICT,
    );
    assert_eq!((some.kept, some.next), (vec![0], 9));
    let none = greedy::review(
        &chain,
        None,
        &scores(&[9, 2, 3, 4], &[0.5; 3]),
        LeniencePolicy::STRICT,
    );
    assert_eq!((none.kept, none.next), (vec![], 9));
}

#[test]
fn a_tree_is_descended_by_the_sibling_that_agrees() {
    // context ─ 0:1 ─ 1:2      rows: context 3, 0 -, 1 -, 2 5, 3 6
    //         └ 2:3 ─ 3:5
    let tree = draft(&[
        (1, None, STATISTICAL),
        (2, Some(0), STATISTICAL),
        (3, None, STATISTICAL),
        (5, Some(2), STATISTICAL),
    ]);
    let verdict = greedy::review(
        &tree,
        None,
        &scores(&[3, 0, 0, 5, 6], &[0.5; 4]),
        LeniencePolicy::STRICT,
    );
    assert_eq!((verdict.kept, verdict.next), (vec![2, 3], 6));
}

#[test]
fn lenience_compares_q_with_lambda_p() {
    let one = |proposal| draft(&[(1, None, proposal)]);
    // The reviewer prefers 9 and gives 1 the probability 0.2.
    let row = scores(&[9, 4], &[0.2]);
    let kept = |proposal, l| {
        !greedy::review(&one(proposal), None, &row, l)
            .kept
            .is_empty()
    };
    assert!(kept(pick(0.6), leniences(3.1, 1.0)), "0.6 <= 3.1 * 0.2");
    assert!(!kept(pick(0.7), leniences(3.1, 1.0)), "0.7 > 3.1 * 0.2");
    assert!(
        !kept(STATISTICAL, leniences(3.1, 1.0)),
        "statistical drafts have their own lenience"
    );
    assert!(kept(STATISTICAL, leniences(1.0, 5.1)), "1 <= 5.1 * 0.2");
    assert!(!kept(STATISTICAL, leniences(1.0, 4.9)), "1 > 4.9 * 0.2");
    assert!(
        !kept(pick(0.1), LeniencePolicy::STRICT),
        "strict: q <= p does not help"
    );
}

#[test]
fn agreement_beats_lenience_and_the_likeliest_excused_child_wins() {
    let siblings = draft(&[
        (1, None, pick(0.1)),
        (2, None, pick(0.1)),
        (3, None, pick(0.1)),
    ]);
    let agree = greedy::review(
        &siblings,
        None,
        &scores(&[3, 0, 0, 0], &[0.2, 0.3, 0.25]),
        leniences(3.0, 1.0),
    );
    assert_eq!(agree.kept, [2]);
    let excused = greedy::review(
        &siblings,
        None,
        &scores(&[9, 0, 0, 0], &[0.2, 0.3, 0.3]),
        leniences(3.0, 1.0),
    );
    assert_eq!(excused.kept, [1]);
}

#[test]
fn nothing_is_excused_without_a_number() {
    let one = draft(&[(1, None, pick(0.5))]);
    let nan = greedy::review(
        &one,
        None,
        &scores(&[9, 4], &[f32::NAN]),
        leniences(5.0, 5.0),
    );
    assert!(nan.kept.is_empty());
    let without = Scores::default().with_argmax(vec![9, 4]);
    assert!(
        greedy::review(&one, None, &without, leniences(5.0, 5.0))
            .kept
            .is_empty()
    );
}

proptest! {
    /// A strict review accepts a path on which every token is the argmax of its parent's row, and
    /// which cannot be continued.
    #[test]
    fn strict_review_is_greedy_decoding(
        nodes in prop::collection::vec((0u32..3, any::<prop::sample::Index>(), any::<bool>()), 0..20),
        rows in prop::collection::vec(0u32..3, 21),
    ) {
        let mut draft = Draft::new();
        for (i, (token, parent, root)) in nodes.iter().enumerate() {
            let parent = (i > 0 && !root).then(|| parent.index(draft.len()));
            draft.push(*token, parent, Proposed { proposal: STATISTICAL, proposer: LevelId::drafter(0) });
        }
        let scores = Scores::default().with_argmax(rows[..=draft.len()].to_vec());
        let verdict = greedy::review(&draft, None, &scores, LeniencePolicy::STRICT);
        let tree = draft.tree();
        let mut at = None;
        for &node in &verdict.kept {
            prop_assert_eq!(tree.parent(node), at);
            prop_assert_eq!(tree.token(node), scores.argmax[TokenTree::row(at)]);
            at = Some(node);
        }
        prop_assert_eq!(verdict.next, scores.argmax_after(at));
        prop_assert!(tree.children(at).all(|child| tree.token(child) != verdict.next));
    }
}
