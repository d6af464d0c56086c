//! The Max-Gram tree against a slow transcription of its definition, and what it depends on.

use std::collections::HashMap;
use std::sync::Arc;

use cascade_core::{
    Advice, Budget, Choice, Drafter, Guidance, NodeId, Observation, ScoredTree, TokenId, TokenTree,
    Top,
};
use cascade_ngram::{MaxGramTree, MaxGramTreeConfig, NgramLimits, NgramTable, Weights};
use proptest::prelude::*;
use serde_json::Value;

use crate::common::tables;

const ORDERS: [usize; 10] = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24];

/// Nothing but the text.
const ALONE: MaxGramTreeConfig = MaxGramTreeConfig {
    table: None,
    weights: None,
    min_probability: 0.0,
    session_tokens: 0,
    hints: 0,
    learning_rate: 0.0,
};

fn tree(nodes: usize) -> Budget {
    Budget {
        depth: nodes - 1,
        nodes,
    }
}

/// What followed each place of `text` that `matches`, by token.
fn followers(text: &[TokenId], matches: impl Fn(usize) -> bool) -> HashMap<TokenId, u64> {
    let mut counts = HashMap::new();
    for at in (0..text.len()).filter(|&at| matches(at)) {
        *counts.entry(text[at]).or_default() += 1;
    }
    counts
}

/// Everything that a drafter knows besides the text.
#[derive(Clone, Debug, Default)]
struct Known {
    /// What the static table was counted from.
    documents: Vec<Vec<TokenId>>,
    /// Earlier answers, each after the prompt's last tokens, with their number.
    answers: Vec<(Vec<TokenId>, usize)>,
    /// What the target said, and after what, oldest first.
    said: Vec<(Vec<TokenId>, Choices)>,
    /// The tree that a neural drafter scored, and what it said in each row; no rows, if none did.
    scored: TokenTree,
    advised: Vec<Choices>,
}

/// Tokens with their probabilities, the best first.
type Choices = Vec<(TokenId, f32)>;

impl Known {
    fn table(&self) -> Option<Arc<NgramTable>> {
        let limits = NgramLimits {
            top_k: 64,
            min_count: 1,
            min_context: 1,
        };
        let table = tables::table(2, 8, &self.documents, limits);
        (!self.documents.is_empty()).then(|| Arc::new(table))
    }

    fn advice(&self) -> Advice {
        let mut advice = Advice::default();
        if let Some(row) = self.advised.first() {
            let top = Top {
                width: row.len(),
                tokens: self.advised.concat(),
            };
            advice.add(&self.scored, &top);
        }
        advice
    }

    /// What the neural drafter said after the text and a path.
    fn advised_after(&self, path: &[TokenId]) -> Option<Evidence> {
        let mut node = None;
        for &token in path {
            node = Some(self.scored.child(node, token)?);
        }
        let choices = self.advised.get(TokenTree::row(node))?;
        Some(Evidence {
            kind: "neural",
            order: 0,
            bucket: (0, share_bucket(choices[0].1.into(), 0.95)),
            shares: choices
                .iter()
                .map(|&(token, p)| (token, p.into()))
                .collect(),
        })
    }

    /// A drafter that knows this.
    fn drafter(&self) -> MaxGramTree {
        let options = MaxGramTreeConfig {
            session_tokens: if self.answers.is_empty() { 0 } else { 1000 },
            hints: if self.said.is_empty() { 0 } else { 8 },
            ..ALONE
        };
        let mut drafter = MaxGramTree::new(options, self.table());
        let empty = TokenTree::new();
        for (answer, prompt) in &self.answers {
            let (prompt, said) = answer.split_at(*prompt);
            let none = [Observation::UNKNOWN];
            drafter.observe(&Observation::new(prompt, &empty, &[], said, &none));
        }
        for (context, choices) in &self.said {
            let top = Top {
                width: choices.len(),
                tokens: choices.clone(),
            };
            let observation = Observation::new(context, &empty, &[], &[], &[0]);
            drafter.observe(&observation.with_top(Some(&top)));
        }
        // Another text finishes the last answer.
        drafter.observe(&Observation::new(
            &[7],
            &empty,
            &[],
            &[],
            &[Observation::UNKNOWN],
        ));
        drafter
    }
}

/// What one context says: of which kind and order, how surely, and the share of each token.
struct Evidence {
    kind: &'static str,
    order: usize,
    bucket: (usize, usize),
    shares: HashMap<TokenId, f64>,
}

fn count_bucket(total: u64) -> usize {
    match total {
        0 | 1 => 0,
        2 => 1,
        3 | 4 => 2,
        5..=9 => 3,
        _ => 4,
    }
}

fn share_bucket(share: f64, all: f64) -> usize {
    match share {
        share if share >= all => 0,
        share if share >= 0.6 => 1,
        share if share >= 0.3 => 2,
        _ => 3,
    }
}

/// The evidence of counts; `None` without any.
fn counted(kind: &'static str, order: usize, counts: HashMap<TokenId, u64>) -> Option<Evidence> {
    let total: u64 = counts.values().sum();
    let most = counts.values().copied().max()?;
    let share = |count: u64| count as f64 / total as f64;
    Some(Evidence {
        kind,
        order,
        bucket: (count_bucket(total), share_bucket(share(most), 1.0)),
        shares: counts
            .into_iter()
            .map(|(token, count)| (token, share(count)))
            .collect(),
    })
}

/// What followed the last `order` tokens of `context` in texts, from a place in each on.
fn continued<'a>(
    texts: impl Iterator<Item = (&'a [TokenId], usize)>,
    context: &[TokenId],
    order: usize,
) -> HashMap<TokenId, u64> {
    let mut all = HashMap::new();
    if context.len() < order {
        return all;
    }
    let end = &context[context.len() - order..];
    for (text, from) in texts {
        for (token, count) in followers(text, |at| at >= from && text[..at].ends_with(end)) {
            *all.entry(token).or_default() += count;
        }
    }
    all
}

/// What the target said of a context: the latest answer counts.
fn said(known: &Known, context: &[TokenId], order: usize) -> Option<Evidence> {
    let end = &context[context.len().checked_sub(order)?..];
    let asked: Vec<_> = known
        .said
        .iter()
        .filter(|(after, _)| after.ends_with(end))
        .collect();
    let (_, choices) = asked.last()?;
    let best = f64::from(choices[0].1);
    Some(Evidence {
        kind: "hint",
        order: order - 1,
        bucket: (count_bucket(asked.len() as u64), share_bucket(best, 0.95)),
        shares: choices
            .iter()
            .map(|&(token, p)| (token, p.into()))
            .collect(),
    })
}

/// The parts that the probability of each token after `text` and `path` is the sum of.
fn mixture(
    text: &[TokenId],
    path: &[TokenId],
    known: &Known,
    weights: &Value,
) -> HashMap<TokenId, Vec<f64>> {
    let context = [text, path].concat();
    let mut evidence = Vec::new();
    let ends_like = |at: usize, length: usize, skip: usize| {
        at >= length + skip
            && context.len() >= length + skip
            && text[at - skip - length..at - skip]
                == context[context.len() - skip - length..context.len() - skip]
    };
    for (order, &length) in ORDERS.iter().enumerate() {
        let found = followers(text, |at| ends_like(at, length, 0));
        evidence.push(counted("context", order, found));
    }
    for length in 1..=5 {
        let found = followers(text, |at| ends_like(at, length, 1));
        evidence.push(counted("skip", length - 1, found));
    }
    evidence.push(counted("unigram", 0, followers(text, |_| true)));
    for order in 1..=2 {
        let documents = known.documents.iter().map(|d| (d.as_slice(), 0));
        evidence.push(counted(
            "table",
            order - 1,
            continued(documents, &context, order),
        ));
    }
    let mut frequent = HashMap::new();
    for &token in known.documents.iter().flatten() {
        *frequent.entry(token).or_default() += 1;
    }
    evidence.push(counted("unigram", 1, frequent));
    for order in 1..=3 {
        let answers = known.answers.iter().map(|(answer, prompt)| {
            let reach = prompt.saturating_sub(3);
            (&answer[reach..], prompt - reach)
        });
        evidence.push(counted(
            "session",
            order - 1,
            continued(answers, &context, order),
        ));
        evidence.push(said(known, &context, order));
    }
    evidence.push(known.advised_after(path));
    let mut sum = 1.0;
    let mut parts: HashMap<TokenId, Vec<f64>> = HashMap::new();
    for Evidence {
        kind,
        order,
        bucket: (count, share),
        shares,
    } in evidence.into_iter().flatten()
    {
        let of = &weights[kind];
        let bucket = of["buckets"][count][share].as_f64().unwrap();
        let weight = (of["orders"][order].as_f64().unwrap() + bucket).exp();
        sum += weight;
        for (token, share) in shares {
            parts.entry(token).or_default().push(weight * share);
        }
    }
    parts
        .values_mut()
        .flatten()
        .for_each(|part: &mut f64| *part /= sum);
    parts
}

/// The probability without the parts that are smaller than `cut`.
fn probability(parts: &[f64], cut: f64) -> f64 {
    let kept: f64 = parts.iter().filter(|&&part| part >= cut).sum();
    kept.min(0.999)
}

fn guided(advice: &Advice) -> Guidance<'_> {
    Guidance::new(Choice::Greedy).with_advice(advice)
}

/// A node's tokens from the root, and the probability of its path by the drafter's own estimates.
fn path(draft: &ScoredTree, node: Option<NodeId>) -> (Vec<TokenId>, f64) {
    let mut nodes: Vec<NodeId> =
        std::iter::successors(node, |&node| draft.tree().parent(node)).collect();
    nodes.reverse();
    let tokens = nodes.iter().map(|&node| draft.tree().token(node)).collect();
    let probabilities = nodes
        .iter()
        .map(|&node| f64::from(draft.probability(node).unwrap()));
    (tokens, probabilities.product())
}

/// Checks every node's probability, and that no better one was left out. A part of a probability
/// that would add less than 3e-4 to that of a path, more for trees of fewer than 64 nodes, is left
/// out; for chains, one that is below 1e-3.
fn check(text: &[TokenId], budget: Budget, known: &Known) {
    const CLOSE: f64 = 1e-5;
    let shipped = Weights::shipped(!known.documents.is_empty(), !known.answers.is_empty());
    let weights: Value = serde_json::from_str(&shipped.to_json().unwrap()).unwrap();
    let draft = known
        .drafter()
        .propose_with(text, budget, &mut guided(&known.advice()));
    assert!(draft.tree().len() <= budget.nodes && draft.tree().height() <= budget.depth);
    let chain = budget.nodes <= budget.depth;
    let parents = std::iter::once(None).chain((0..draft.tree().len()).map(Some));
    let (mut worst_drafted, mut best_left) = (f64::INFINITY, 0.0f64);
    for parent in parents {
        let (tokens, path_probability) = path(&draft, parent);
        let cut = if chain {
            1e-3
        } else {
            (3e-4 * (64.0 / budget.nodes as f64).max(1.0)).min(2e-3) / path_probability
        };
        let mut best_of_chain = 0.0f64;
        let drafted = draft.tree().children(parent).next();
        for (token, parts) in mixture(text, &tokens, known, &weights) {
            // What is as large as the cut may be on either side of it.
            let (least, most) = (
                probability(&parts, cut * 1.0001),
                probability(&parts, cut * 0.9999),
            );
            match draft.tree().child(parent, token) {
                Some(node) => {
                    let found = f64::from(draft.probability(node).unwrap());
                    assert!(
                        (least - CLOSE..=most + CLOSE).contains(&found),
                        "{found} {parts:?}"
                    );
                    worst_drafted = worst_drafted.min(path_probability * found);
                }
                None if chain => best_of_chain = best_of_chain.max(least),
                None if tokens.len() < budget.depth => {
                    best_left = best_left.max(path_probability * least);
                }
                None => {}
            }
        }
        if let Some(node) = drafted.filter(|_| chain) {
            assert!(best_of_chain <= f64::from(draft.probability(node).unwrap()) + CLOSE);
            assert_eq!(draft.tree().children(parent).count(), 1);
        } else if chain && tokens.len() < budget.depth {
            assert_eq!(best_of_chain, 0.0);
        }
    }
    match draft.tree().len() == budget.nodes {
        _ if chain => {}
        true => assert!(
            best_left <= worst_drafted + CLOSE,
            "{best_left} {worst_drafted}"
        ),
        false => assert_eq!(best_left, 0.0),
    }
}

/// Texts of few tokens, with `words` of them.
fn text(words: std::ops::Range<usize>) -> impl Strategy<Value = Vec<TokenId>> {
    prop::collection::vec(0u32..6, words)
}

prop_compose! {
    fn known()(
        documents in prop::collection::vec(text(1..30), 0..3),
        answers in prop::collection::vec((text(2..25), 0usize..6), 0..3),
        said in prop::collection::vec(
            (text(1..6), prop::collection::btree_set(0u32..6, 1..4), 0.2f32..1.0), 0..6
        ),
        scored in prop::collection::vec((any::<prop::sample::Index>(), 0u32..6), 0..12),
        advised in prop::collection::vec((0u32..6, 0.2f32..1.0), 0..13),
    ) -> Known {
        let answers = answers.into_iter().map(|(mut answer, prompt)| {
            // Answers that do not continue each other: prompts differ.
            answer.insert(0, 6);
            let prompt = 1 + prompt % (answer.len() - 1);
            (answer, prompt)
        });
        let choices = |tokens: std::collections::BTreeSet<TokenId>, best: f32| {
            let falling = (0..).map(|i| best / 2f32.powi(i));
            tokens.into_iter().zip(falling).collect()
        };
        let mut tree = TokenTree::new();
        // A row for the context, and one for each node: siblings of the same token share it.
        for (parent, token) in scored.into_iter().take(advised.len().saturating_sub(1)) {
            let parent = parent.index(tree.len() + 1).checked_sub(1);
            if tree.child(parent, token).is_none() {
                tree.push(token, parent);
            }
        }
        let row = |&(first, best): &(TokenId, f32)| -> Choices {
            (0..3).map(|i| ((first + i) % 6, best / 2f32.powi(i as i32))).collect()
        };
        let advised: Vec<Choices> = advised.iter().map(row).take(tree.len() + 1).collect();
        let said = said.into_iter().map(|(after, tokens, best)| (after, choices(tokens, best)));
        Known {
            documents,
            answers: answers.collect(),
            said: said.collect(),
            scored: tree,
            advised,
        }
    }
}

#[test]
fn a_match_that_was_always_followed_by_the_same_is_copied() {
    let text = [1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4];
    let draft = MaxGramTree::new(ALONE, None).propose(&text, Budget::chain(3));
    assert_eq!(*draft.tree(), TokenTree::chain([5, 6, 7]));
    assert!((0..3).all(|node| draft.probability(node).is_some_and(|p| 0.1 < p && p < 1.0)));
    assert!(
        MaxGramTree::default()
            .propose(&[], tree(8))
            .into_tree()
            .is_empty()
    );
}

#[test]
fn a_neural_drafter_is_believed_as_it_proves_right() {
    let text: Vec<TokenId> = (0..20).collect();
    let advice = |token| {
        let mut advice = Advice::default();
        let tokens = vec![(token, 0.9), (token + 1, 0.05)];
        advice.add(&TokenTree::new(), &Top { width: 2, tokens });
        advice
    };
    let options = MaxGramTreeConfig {
        learning_rate: 0.3,
        ..ALONE
    };
    let believed = |right: bool| {
        let mut drafter = MaxGramTree::new(options.clone(), None);
        let mut context = text.clone();
        for step in 0..20 {
            let said = 100 + step;
            drafter.propose_with(&context, tree(4), &mut guided(&advice(said)));
            let next = if right { said } else { 50 };
            drafter.observe(&Observation::new(
                &context,
                &TokenTree::new(),
                &[],
                &[next],
                &[next],
            ));
            context.push(next);
        }
        let draft = drafter.propose_with(&context, tree(4), &mut guided(&advice(7)));
        let node = draft.tree().child(None, 7);
        node.map_or(0.0, |node| draft.probability(node).unwrap())
    };
    let (after_right, after_wrong) = (believed(true), believed(false));
    assert!(after_right > 0.85, "{after_right}");
    assert!(after_wrong < 0.5 * after_right, "{after_wrong}");
    // Advice is for the context that it was given for.
    let mut drafter = MaxGramTree::new(ALONE, None);
    drafter.propose_with(&text, tree(4), &mut guided(&advice(7)));
    assert_eq!(
        drafter.propose(&text, tree(4)),
        MaxGramTree::new(ALONE, None).propose(&text, tree(4))
    );
}

#[test]
fn siblings_are_drafted_where_the_text_went_different_ways() {
    let text = [9, 1, 5, 9, 1, 5, 9, 1, 6, 8, 9, 1];
    let draft = MaxGramTree::new(ALONE, None)
        .propose(&text, tree(6))
        .into_tree();
    let roots: Vec<_> = (0..draft.len())
        .filter(|&n| draft.parent(n).is_none())
        .collect();
    assert_eq!(draft.token(roots[0]), 5);
    assert_eq!(draft.token(roots[1]), 6);
}

#[test]
fn improbable_paths_can_be_left_out() {
    let text: Vec<TokenId> = (0..50).chain(0..3).collect();
    let options = MaxGramTreeConfig {
        min_probability: 0.3,
        ..ALONE
    };
    let draft = MaxGramTree::new(options, None).propose(&text, tree(64));
    let all = MaxGramTree::new(ALONE, None).propose(&text, tree(64));
    assert!(
        (1..10).contains(&draft.tree().len()),
        "{}",
        draft.tree().len()
    );
    assert_eq!(all.tree().len(), 64);
    let smallest = (0..draft.tree().len()).map(|node| path(&draft, Some(node)).1);
    assert!(smallest.fold(1.0, f64::min) >= 0.3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn drafts_are_those_of_the_definition(
        text in text(1..60),
        nodes in 1usize..24,
        chain in prop::bool::weighted(0.2),
        known in prop_oneof![Just(Known::default()), known()],
    ) {
        let budget = if chain || nodes == 1 { Budget::chain(nodes) } else { tree(nodes) };
        check(&text, budget, &known);
    }

    /// Whatever was proposed before, and however texts were taken back, a draft is that of a new
    /// drafter which observed the same.
    #[test]
    fn drafts_depend_on_the_text_and_on_observations_only(
        texts in prop::collection::vec(
            (prop::collection::vec(0u32..4, 0..40), 0usize..40, any::<bool>()), 1..12
        ),
        source in prop::collection::vec(0u32..4, 0..6),
    ) {
        let options = MaxGramTreeConfig { session_tokens: 20, ..MaxGramTreeConfig::default() };
        let mut walked = MaxGramTree::new(options, None);
        let mut observer = walked.clone();
        walked.set_source(&source);
        observer.set_source(&source);
        let mut text: Vec<TokenId> = Vec::new();
        for (more, keep, observe) in texts {
            text.truncate(keep);
            text.extend(more);
            let draft = walked.propose(&text, tree(7));
            prop_assert_eq!(&observer.clone().propose(&text, tree(7)), &draft);
            if observe && !text.is_empty() {
                let argmax: Vec<TokenId> = (0..=draft.tree().len() as u32).map(|i| i % 4).collect();
                let observation = Observation::new(&text, draft.tree(), &[], &argmax[..1], &argmax);
                walked.observe(&observation);
                observer.observe(&observation);
                text.push(argmax[0]);
            }
        }
    }
}

/// One step in which the target rejects `drafted` and says `said` in its place, and `after` after
/// `drafted`.
fn step(drafter: &mut MaxGramTree, context: &[TokenId], drafted: TokenId, said: [TokenId; 2]) {
    let draft = TokenTree::chain([drafted]);
    drafter.observe(&Observation::new(context, &draft, &[], &said[..1], &said));
}

#[test]
fn what_the_target_said_after_rejected_tokens_is_drafted() {
    for hints in [1, 0] {
        let options = MaxGramTreeConfig { hints, ..ALONE };
        let mut drafter = MaxGramTree::new(options, None);
        step(&mut drafter, &[1, 2, 3], 50, [4, 60]);
        let draft = drafter.propose(&[7, 8, 50], tree(8)).into_tree();
        assert_eq!(draft.child(None, 60).is_some(), hints > 0);
    }
}

#[test]
fn earlier_answers_are_drafted_and_earlier_prompts_are_not() {
    let options = MaxGramTreeConfig {
        session_tokens: 100,
        ..ALONE
    };
    let mut drafter = MaxGramTree::new(options, None);
    let empty = TokenTree::new();
    for said in [[30], [31], [32]] {
        let context: Vec<TokenId> = [1, 2, 3].into_iter().chain(30..said[0]).collect();
        drafter.observe(&Observation::new(&context, &empty, &[], &said, &said));
    }
    // Another text: the answer is finished with its first observation.
    drafter.observe(&Observation::new(&[70], &empty, &[], &[71], &[71]));
    let after = |last: TokenId| -> Vec<TokenId> { (80..120).chain([last]).collect() };
    let draft = drafter.propose(&after(30), Budget::chain(2)).into_tree();
    assert_eq!(draft, TokenTree::chain([31, 32]));
    let draft = drafter.propose(&after(1), tree(60)).into_tree();
    assert_eq!(draft.child(None, 2), None);
}

#[test]
fn drafters_for_several_texts_share_earlier_answers_and_clones_do_not() {
    let options = MaxGramTreeConfig {
        session_tokens: 100,
        ..ALONE
    };
    let mut one = MaxGramTree::new(options, None);
    let mut another = one.for_another_text();
    let mut clone = one.clone();
    one.observe(&Observation::of_text(&[1, 2, 3], &[4, 5, 6]));
    // An answer is an earlier one when another begins.
    one.observe(&Observation::of_text(&[], &[]));
    let knows = |drafter: &mut MaxGramTree| {
        let draft = drafter.propose(&[1, 2, 3], tree(8));
        draft.tree().child(None, 4).is_some()
    };
    assert!(knows(&mut another));
    assert!(knows(&mut one.for_another_text()));
    assert!(!knows(&mut clone));
    another.forget();
    assert!(!knows(&mut one));
}

#[test]
fn drafters_for_texts_side_by_side_share_what_they_learn_at_once() {
    let one_and_another = |session_tokens| {
        let options = MaxGramTreeConfig {
            session_tokens,
            learning_rate: 0.1,
            ..ALONE
        };
        let first = MaxGramTree::new(options, None);
        let mut one = first.for_another_text();
        let draft = TokenTree::chain([4, 5]);
        let unknown = [Observation::UNKNOWN; 3];
        one.observe(&Observation::new(
            &[1, 2, 3],
            &draft,
            &[0, 1],
            &[4, 5, 6],
            &unknown,
        ));
        one.observe(&Observation::of_text(&[1, 2, 3, 4, 5, 6], &[7]));
        let mut another = first.for_another_text();
        // The text has not ended, and was observed in two pieces.
        let known = [(3, 4), (6, 7)].map(|(last, next)| {
            let draft = another.propose(&[9, last], tree(8));
            draft.tree().child(None, next).is_some()
        });
        assert_ne!(one.weights(), first.weights());
        (known, *one.weights() == *another.weights())
    };
    assert_eq!(one_and_another(100), ([true; 2], true));
    // Who keeps no answers shares nothing.
    assert_eq!(one_and_another(0), ([false; 2], false));
}

#[test]
fn weights_learn_what_to_trust() {
    let options = MaxGramTreeConfig {
        learning_rate: 0.1,
        ..ALONE
    };
    let mut drafter = MaxGramTree::new(options, None);
    let before = drafter.weights().clone();
    // Nothing repeats itself but the last token: only unigrams of the text are right.
    let text: Vec<TokenId> = (0..60).flat_map(|i| [i, 99]).collect();
    let probability = |drafter: &mut MaxGramTree| {
        let draft = drafter.propose(&[&text[..], &[200]].concat(), tree(4));
        let node = draft.tree().child(None, 99);
        node.map_or(0.0, |node| draft.probability(node).unwrap())
    };
    let untrained = probability(&mut drafter);
    let empty = TokenTree::new();
    for at in 1..text.len() {
        let said = &text[at..=at];
        drafter.observe(&Observation::new(&text[..at], &empty, &[], said, said));
    }
    assert_ne!(*drafter.weights(), before);
    assert!(probability(&mut drafter) > untrained);
}

#[test]
fn settings_are_checked() {
    let read = |text: &str| serde_json::from_str::<MaxGramTreeConfig>(text);
    assert_eq!(read("{}").unwrap(), MaxGramTreeConfig::default());
    let own = read(r#"{"table": "t.safetensors", "session_tokens": 0, "hints": 0}"#).unwrap();
    assert_eq!((own.session_tokens, own.hints), (0, 0));
    for (text, says) in [
        (r#"{"min_probability": 2}"#, "between 0 and 1"),
        (r#"{"learning_rate": -0.5}"#, "between 0 and 1"),
        (r#"{"hints": 9}"#, "at most 8"),
        (r#"{"branches": 4}"#, "unknown field"),
    ] {
        let message = read(text).unwrap_err().to_string();
        assert!(message.contains(says), "{message}");
    }
}
