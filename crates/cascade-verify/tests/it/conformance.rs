//! One suite for every sampled rule, strict and lenient: cases of (draft, rows, start) and the
//! possible verdicts.

use std::collections::BTreeSet;
use std::sync::Arc;

use cascade_core::toy::outcomes;
use cascade_core::{
    Distribution, Draft, LevelId, NodeId, Proposal, Proposed, RandomSource, Scores, SeededRandom,
    TokenId, TokenTree,
};
use cascade_verify::{Lenience, LeniencePolicy, ReviewRule, Rule, Verdict, greedy, sampled};
use proptest::prelude::*;

/// Where a node comes from.
#[derive(Clone, Copy)]
enum Origin {
    /// A point mass.
    Fixed,
    /// A neural drafter's most probable token.
    Pick,
    /// A draw from these weights.
    CandidateToken(&'static [f64]),
}

struct Case {
    name: &'static str,
    /// Token, parent, origin of each draw.
    draws: &'static [(TokenId, Option<NodeId>, Origin)],
    /// Weights of the row of the context, and then of each node.
    rows: &'static [&'static [f64]],
    start: Option<NodeId>,
    /// Accepted nodes and the token after them: all possible outcomes of a review.
    possible: &'static [(&'static [NodeId], TokenId)],
}

use Origin::{CandidateToken, Fixed, Pick};

const CASES: &[Case] = &[
    Case {
        name: "an empty draft gives one token",
        draws: &[],
        rows: &[&[0.2, 0.0, 0.8]],
        start: None,
        possible: &[(&[], 0), (&[], 2)],
    },
    Case {
        name: "a fixed chain is kept as far as it is drawn",
        draws: &[(1, None, Fixed), (0, Some(0), Fixed)],
        rows: &[&[0.5, 0.5], &[0.1, 0.9], &[0.6, 0.4]],
        start: None,
        possible: &[(&[], 0), (&[0], 1), (&[0, 1], 0), (&[0, 1], 1)],
    },
    Case {
        name: "a chain that the reviewer would never say is dropped",
        draws: &[
            (1, None, CandidateToken(&[0.5, 0.5, 0.0])),
            (2, Some(0), Fixed),
        ],
        rows: &[&[0.5, 0.0, 0.5], &[0.0, 0.0, 1.0], &[1.0, 0.0, 0.0]],
        start: None,
        possible: &[(&[], 0), (&[], 2)],
    },
    Case {
        name: "a chain that the reviewer is sure of is kept",
        draws: &[(1, None, CandidateToken(&[0.5, 0.5])), (0, Some(0), Pick)],
        rows: &[&[0.0, 1.0], &[1.0, 0.0], &[0.5, 0.5]],
        start: None,
        possible: &[(&[0, 1], 0), (&[0, 1], 1)],
    },
    Case {
        name: "siblings and what is below them",
        draws: &[
            (0, None, CandidateToken(&[0.6, 0.4, 0.0])),
            (1, None, CandidateToken(&[0.0, 1.0, 0.0])),
            (2, Some(0), Fixed),
            (2, Some(1), Fixed),
        ],
        rows: &[
            &[0.2, 0.3, 0.5],
            &[0.5, 0.0, 0.5],
            &[0.0, 0.0, 1.0],
            &[1.0, 0.0, 0.0],
            &[0.0, 1.0, 0.0],
        ],
        start: None,
        possible: &[(&[], 2), (&[0], 0), (&[0, 2], 0), (&[1, 3], 1)],
    },
    Case {
        name: "one token drawn twice is one node",
        draws: &[
            (1, None, CandidateToken(&[0.3, 0.7])),
            (1, None, CandidateToken(&[0.3, 0.7])),
        ],
        rows: &[&[0.9, 0.1], &[1.0, 0.0]],
        start: None,
        possible: &[(&[], 0), (&[0], 0)],
    },
    Case {
        name: "a lead and fixed siblings",
        draws: &[
            (2, None, CandidateToken(&[0.3, 0.3, 0.4])),
            (0, None, Fixed),
            (1, None, Fixed),
        ],
        rows: &[
            &[0.4, 0.5, 0.1],
            &[1.0, 0.0, 0.0],
            &[0.0, 1.0, 0.0],
            &[0.0, 0.0, 1.0],
        ],
        start: None,
        possible: &[(&[0], 0), (&[1], 1), (&[2], 2)],
    },
    Case {
        name: "a walk that starts at an inner node",
        draws: &[
            (0, None, Fixed),
            (1, None, Fixed),
            (0, Some(1), CandidateToken(&[0.5, 0.5])),
            (1, Some(2), Pick),
        ],
        rows: &[
            &[1.0, 0.0],
            &[1.0, 0.0],
            &[0.3, 0.7],
            &[0.4, 0.6],
            &[0.0, 1.0],
        ],
        start: Some(1),
        possible: &[(&[], 1), (&[2], 0), (&[2, 3], 1)],
    },
    Case {
        name: "a walk that starts at a leaf",
        draws: &[(0, None, Fixed), (1, Some(0), Fixed)],
        rows: &[&[1.0, 0.0], &[1.0, 0.0], &[0.5, 0.5]],
        start: Some(1),
        possible: &[(&[], 0), (&[], 1)],
    },
    Case {
        name: "a draw that its own proposal excludes",
        draws: &[(0, None, CandidateToken(&[0.0, 1.0, 0.0]))],
        rows: &[&[0.0, 0.5, 0.5], &[1.0, 0.0, 0.0]],
        start: None,
        possible: &[(&[], 1), (&[], 2)],
    },
];

impl Case {
    fn draft(&self) -> Draft {
        let vocab_size = self.rows[0].len();
        let mut draft = Draft::new();
        for &(token, parent, from) in self.draws {
            draft.push(token, parent, proposed(from, vocab_size));
        }
        draft
    }

    fn rows(&self) -> Vec<Arc<Distribution>> {
        let rows = self.rows.iter();
        rows.map(|row| Arc::new(Distribution::new(row.to_vec()).unwrap()))
            .collect()
    }

    fn possible(&self) -> BTreeSet<(Vec<NodeId>, TokenId)> {
        let possible = self.possible.iter();
        possible
            .map(|&(kept, next)| (kept.to_vec(), next))
            .collect()
    }
}

fn proposed(from: Origin, vocab_size: usize) -> Proposed {
    let proposal = match from {
        Fixed => Proposal::PointMass,
        Pick => Proposal::Pick { probability: 0.5 },
        CandidateToken(weights) => {
            assert_eq!(weights.len(), vocab_size);
            Proposal::Sampled(Arc::new(Distribution::new(weights.to_vec()).unwrap()))
        }
    };
    Proposed {
        proposal,
        proposer: LevelId::drafter(0),
    }
}

/// Strict, and every kind of lenience.
fn all_leniences() -> [LeniencePolicy; 5] {
    [(1.0, 1.0), (1.5, 1.0), (1.0, 3.0), (3.0, 1.5), (1e30, 1e30)].map(|(neural, statistical)| {
        LeniencePolicy {
            neural: Lenience::new(neural).unwrap(),
            statistical: Lenience::new(statistical).unwrap(),
        }
    })
}

/// Requirements on a verdict, for any rule.
fn assert_well_formed(
    verdict: &Verdict,
    draft: &Draft,
    rows: &[Arc<Distribution>],
    start: Option<NodeId>,
    strict: bool,
    case: &str,
) {
    let tree = draft.tree();
    assert_eq!(verdict.emitted.len(), verdict.kept.len() + 1, "{case}");
    let mut at = start;
    for (i, emitted) in verdict.emitted.iter().enumerate() {
        let kept = verdict.kept.get(i).copied();
        let token = kept.map_or(verdict.next, |node| tree.token(node));
        let row = &rows[TokenTree::row(at)];
        assert!(row.probability(token) > 0.0, "{case}: impossible {token}");
        let Proposal::Sampled(r) = emitted else {
            panic!("{case}: {emitted:?} is no distribution");
        };
        assert!(r.probability(token) > 0.0, "{case}: {token} from {r:?}");
        assert!(!strict || Arc::ptr_eq(r, row), "{case}: not the row");
        match kept {
            Some(node) => assert_eq!(tree.parent(node), at, "{case}: no path"),
            None => assert_eq!(tree.child(at, token), None, "{case}: ended too early"),
        }
        at = kept;
    }
}

#[test]
fn verdicts_are_possible() {
    for case in CASES {
        let (draft, mut rows) = (case.draft(), case.rows());
        for rule in Rule::DRAWN {
            for leniences in all_leniences() {
                let name = format!("{}: {rule}, {leniences:?}", case.name);
                let all = outcomes(|chance| {
                    sampled::review(&draft, case.start, &mut rows[..], &rule, leniences, chance)
                        .unwrap()
                });
                let mut seen = BTreeSet::new();
                for (verdict, _) in &all {
                    let strict = leniences.is_strict();
                    assert_well_formed(verdict, &draft, &rows, case.start, strict, &name);
                    seen.insert((verdict.kept.clone(), verdict.next));
                }
                let total: f64 = all.iter().map(|(_, probability)| probability).sum();
                assert!((total - 1.0).abs() < 1e-12, "{name}: {total}");
                let possible = case.possible();
                assert!(seen.is_subset(&possible), "{name}: {seen:?}");
                let looks = rule != Rule::Match || !leniences.is_strict();
                assert!(looks || seen == possible, "{name}: {seen:?}");
            }
        }
    }
}

/// Greedy decoding is the limit of sampling at temperature 0.
#[test]
fn one_hot_rows_give_the_greedy_verdict() {
    for case in CASES {
        let draft = case.draft();
        let argmax: Vec<TokenId> = case.rows().iter().map(|row| row.top(1)[0]).collect();
        let vocab_size = case.rows[0].len();
        let point = |&token: &TokenId| Arc::new(Distribution::point(vocab_size, token));
        let mut rows: Vec<_> = argmax.iter().map(point).collect();
        let scores = Scores::default().with_argmax(argmax);
        let expected = greedy::review(&draft, case.start, &scores, LeniencePolicy::STRICT);
        for rule in Rule::DRAWN {
            for leniences in all_leniences() {
                for (verdict, _) in outcomes(|chance| {
                    sampled::review(&draft, case.start, &mut rows[..], &rule, leniences, chance)
                        .unwrap()
                }) {
                    let found = (&verdict.kept, verdict.next);
                    let name = format!("{}: {rule}, {leniences:?}", case.name);
                    assert_eq!(found, (&expected.kept, expected.next), "{name}");
                }
            }
        }
    }
}

#[test]
fn an_empty_draft_gives_a_token_of_the_first_row() {
    let mut rows = [Arc::new(
        Distribution::new(vec![0.2, 0.3, 0.0, 0.5]).unwrap(),
    )];
    for rule in Rule::DRAWN {
        for leniences in all_leniences() {
            let mut mass = [0.0; 4];
            for (verdict, probability) in outcomes(|chance| {
                sampled::review(&Draft::new(), None, &mut rows[..], &rule, leniences, chance)
                    .unwrap()
            }) {
                mass[verdict.next as usize] += probability;
            }
            for (token, mass) in mass.iter().enumerate() {
                let p = rows[0].probability(token as TokenId);
                assert!((mass - p).abs() < 1e-15, "{rule}: {token} has {mass}");
            }
        }
    }
}

#[test]
fn rules_go_by_their_names() {
    for rule in Rule::ALL {
        assert_eq!(rule.to_string().parse(), Ok(rule));
        assert_eq!(name_and_order(&rule).0, rule.name());
    }
    let unknown = "Match".parse::<Rule>().unwrap_err().to_string();
    assert!(unknown.contains("`Match`"), "{unknown}");
    for rule in Rule::ALL {
        assert!(unknown.contains(rule.name()), "{unknown}");
    }
}

/// What messages call a rule, and whether it reorders draws, as code that takes any rule sees it.
fn name_and_order(rule: &dyn ReviewRule) -> (String, bool) {
    (rule.name().to_owned(), rule.reorders())
}

/// Which combinations are refused as inexact depends on it.
#[test]
fn only_spec_infer_considers_draws_in_another_order() {
    for rule in Rule::ALL {
        assert_eq!(name_and_order(&rule).1, rule == Rule::SpecInfer, "{rule}");
        assert_eq!(rule.is_coupled(), rule == Rule::Coupled);
    }
    assert_eq!(Rule::default(), Rule::Coupled);
}

/// A rule that says nothing about the order of draws keeps it.
#[test]
fn rules_of_others_keep_the_order_unless_they_say_otherwise() {
    #[derive(Debug)]
    struct Own;
    impl ReviewRule for Own {
        fn name(&self) -> &str {
            "own"
        }

        fn token(
            &self,
            p: &Arc<Distribution>,
            _draws: &[cascade_verify::CandidateToken<'_>],
            chance: &mut dyn RandomSource,
        ) -> TokenId {
            chance.draw(p)
        }
    }
    assert_eq!(name_and_order(&Own), ("own".to_owned(), false));
}

/// Where nothing was sampled, `iterated` is one draw, as `match` is: the same seed gives the same
/// verdict.
#[test]
fn without_sampled_draws_iterated_is_match() {
    let nothing_sampled = |case: &&Case| {
        let mut origins = case.draws.iter().map(|&(_, _, origin)| origin);
        origins.all(|origin| !matches!(origin, CandidateToken(_)))
    };
    for case in CASES.iter().filter(nothing_sampled) {
        let (draft, mut rows) = (case.draft(), case.rows());
        for seed in 0..50 {
            let [iterated, matched] = [Rule::Iterated, Rule::Match].map(|rule| {
                let mut chance = SeededRandom::new(seed);
                let strict = LeniencePolicy::STRICT;
                sampled::review(
                    &draft,
                    case.start,
                    &mut rows[..],
                    &rule,
                    strict,
                    &mut chance,
                )
                .unwrap()
            });
            assert_eq!(iterated, matched, "{}, seed {seed}", case.name);
        }
    }
}

const VOCABULARY: usize = 5;

/// Weights of any magnitude, zeros included, at least one of them positive.
fn weights() -> impl Strategy<Value = Vec<f64>> {
    let weight = prop_oneof![
        Just(0.0),
        Just(1.0),
        0.0..1.0,
        1e-300..1e-290,
        1e290..1e300f64
    ];
    prop::collection::vec(weight, VOCABULARY).prop_filter("something to draw", |weights| {
        weights.iter().any(|&w| w > 0.0)
    })
}

fn distribution() -> impl Strategy<Value = Arc<Distribution>> {
    weights().prop_map(|weights| Arc::new(Distribution::new(weights).unwrap()))
}

fn proposal() -> impl Strategy<Value = Proposal> {
    prop_oneof![
        Just(Proposal::PointMass),
        Just(Proposal::Pick { probability: 0.5 }),
        distribution().prop_map(Proposal::Sampled),
    ]
}

proptest! {
    /// For any drafts and any claimed proposals, no review panics or emits a token of probability
    /// 0.
    #[test]
    fn verdicts_are_well_formed(
        draws in prop::collection::vec((0..VOCABULARY as TokenId, any::<prop::sample::Index>(), proposal()), 0..12),
        rows in prop::collection::vec(distribution(), 13),
        start in any::<prop::sample::Index>(),
        rule in prop::sample::select(&Rule::DRAWN[..]),
        leniences in prop::sample::select(all_leniences().to_vec()),
        seed in any::<u64>(),
    ) {
        let mut draft = Draft::new();
        for (token, parent, proposal) in draws {
            let parent = parent.index(draft.len() + 1).checked_sub(1);
            draft.push(token, parent, Proposed { proposal, proposer: LevelId::drafter(0) });
        }
        let start = start.index(draft.len() + 1).checked_sub(1);
        let mut rows = rows;
        let mut chance = SeededRandom::new(seed);
        let verdict = sampled::review(&draft, start, &mut rows[..], &rule, leniences, &mut chance).unwrap();
        assert_well_formed(&verdict, &draft, &rows, start, leniences.is_strict(), rule.name());
    }

    /// p(x) = min(p(x), q(x)) + (1 − Σ min(p, q)) · residual(x): the identity that makes a
    /// rejection exact.
    #[test]
    fn overlap_and_residual_make_up_a_distribution(p in distribution(), q in distribution()) {
        let overlap = p.overlap(&q);
        prop_assert!((overlap + p.total_variation(&q) - 1.0).abs() < 1e-12);
        let residual = p.residual(&q).unwrap_or_else(|| Distribution::clone(&p));
        for token in 0..VOCABULARY as TokenId {
            let accepted = p.probability(token).min(q.probability(token));
            let made_up = accepted + (1.0 - overlap).max(0.0) * residual.probability(token);
            prop_assert!((made_up - p.probability(token)).abs() < 1e-12);
        }
    }
}
