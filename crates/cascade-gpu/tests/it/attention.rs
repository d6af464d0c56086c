//! Attention, and heads on their way to it, against softmax in f64.
#![allow(clippy::unwrap_used)]

use crate::common::attention::{Scene, TOKENS};
use crate::common::batch::Batch;
use crate::common::{assert_close, on_numbers};
use cascade_gpu::{DType, Device, Heads};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn heads(queries: usize, kv: usize, size: usize) -> Heads {
    Heads { queries, kv, size }
}

fn random_token(rng: &mut StdRng) -> u32 {
    rng.random_range(0..TOKENS as u32)
}

/// Forwards one after the other on one cache, and what its slots hold before the first.
struct Story {
    before: Vec<(u32, u32)>,
    situations: Vec<Situation>,
    rng: StdRng,
    /// Tokens of all slots after the last.
    tokens: Vec<u32>,
}

/// The slots up to a forward's own, as tokens and positions, and its rows.
struct Situation {
    slots: Vec<(u32, u32)>,
    batch: Batch,
}

impl Story {
    /// `filled` slots are there already.
    fn new(seed: u64, filled: usize) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let tokens: Vec<u32> = (0..filled).map(|_| random_token(&mut rng)).collect();
        Self {
            before: tokens.iter().copied().zip(0..).collect(),
            situations: Vec::new(),
            rng,
            tokens,
        }
    }

    /// Adds `rows` rows behind `drafted` slots behind `past` slots that all rows see. Those behind
    /// the past are a tree, to whose nodes `parent` gives an earlier one, or none for the past.
    fn then(
        mut self,
        (past, drafted, rows): (usize, usize, usize),
        mut parent: impl FnMut(&mut StdRng, usize) -> Option<usize>,
    ) -> Self {
        let first = past + drafted;
        let rng = &mut self.rng;
        self.tokens.resize(self.tokens.len().max(first + rows), 0);
        let own = &mut self.tokens[first..first + rows];
        own.iter_mut().for_each(|token| *token = random_token(rng));
        let mut paths: Vec<Vec<usize>> = Vec::new();
        for node in 0..drafted + rows {
            let parent = parent(rng, node);
            let mut path = parent.map_or_else(Vec::new, |parent| paths[parent].clone());
            path.push(past + node);
            paths.push(path);
        }
        let depths = paths.iter().map(|path| past + path.len() - 1);
        let positions = (0..past).chain(depths).map(|at| at as u32);
        let slots: Vec<(u32, u32)> = self.tokens.iter().copied().zip(positions).collect();
        let batch = Batch {
            tokens: slots[first..].iter().map(|&(token, _)| token).collect(),
            positions: slots[first..].iter().map(|&(_, at)| at).collect(),
            past,
            first,
            paths: Some(paths.split_off(drafted)),
            ..Batch::default()
        };
        self.situations.push(Situation { slots, batch });
        self
    }

    /// A chain, told as one.
    fn then_chain(self, past: usize, rows: usize) -> Self {
        let mut story = self.then((past, 0, rows), |_, node| node.checked_sub(1));
        let last = story.situations.len() - 1;
        story.situations[last].batch.paths = None;
        story
    }

    /// A tree of any bushiness.
    fn then_any(self, sizes: (usize, usize, usize)) -> Self {
        self.then(sizes, |rng, node| match rng.random_range(0..3) {
            0 => rng.random_range(0..=node).checked_sub(1),
            _ => node.checked_sub(rng.random_range(1..=node.clamp(1, 6))),
        })
    }

    /// What attention gives, checked.
    fn check(&self, scene: &Scene, (device, dtype): (&Device, DType)) -> Vec<f32> {
        let model = scene.load(device, dtype);
        let cache = model.cache(self.tokens.len());
        model.fill(&cache, &self.before);
        let situations = self.situations.iter();
        let checked = situations.flat_map(|Situation { slots, batch }| {
            let got = model.attention(batch, &cache);
            let sizes = (batch.past, batch.first, batch.tokens.len());
            let want = scene.expect(&model, batch, slots);
            assert_close(&got, want, &(dtype, scene.heads, sizes));
            got
        });
        checked.collect()
    }
}

#[test]
fn heads_of_all_sizes_attend_to_a_chain() {
    let kinds_of_heads = [
        (heads(2, 2, 16), 3),
        (heads(4, 2, 16), 40),
        (heads(3, 1, 32), 17),
        (heads(6, 2, 48), 5),
        (heads(2, 2, 64), 9),
        (heads(5, 1, 80), 8),
        (heads(2, 1, 112), 12),
        (heads(2, 1, 128), 20),
    ];
    for (seed, (heads, rows)) in (0..).zip(kinds_of_heads) {
        let scene = Scene::new(seed, heads);
        let story = Story::new(seed, 10).then_chain(10, rows);
        on_numbers(|device, dtype| story.check(&scene, (device, dtype)));
    }
}

#[test]
fn heads_are_rotated_by_position() {
    for (seed, heads) in [(1, heads(4, 2, 16)), (2, heads(2, 2, 80))] {
        let scene = Scene::new(seed, heads).with_rotary();
        let story = Story::new(seed, 40).then_any((40, 0, 19));
        on_numbers(|device, dtype| story.check(&scene, (device, dtype)));
    }
}

#[test]
fn rows_attend_to_what_they_see_and_nothing_else() {
    let scene = Scene::new(3, heads(4, 2, 16));
    let sizes = [
        (1100, 20, 2),
        (513, 200, 5),
        (300, 111, 50),
        (0, 504, 8),
        (0, 0, 1),
        (0, 0, 64),
        (1, 3, 17),
        (250, 3, 9),
        (255, 1, 33),
        (256, 0, 2),
    ];
    let story = sizes.into_iter().fold(Story::new(3, 1130), Story::then_any);
    on_numbers(|device, dtype| story.check(&scene, (device, dtype)));
}

/// In bf16 each of these sizes of heads has a kernel of its own.
#[test]
fn heads_of_all_sizes_attend_to_trees() {
    for (seed, heads) in [
        (13, heads(2, 1, 32)),
        (14, heads(2, 2, 64)),
        (15, heads(3, 1, 128)),
    ] {
        let scene = Scene::new(seed, heads).with_bias(seed, 40);
        let sizes = [(130, 9, 20), (0, 0, 17), (530, 1, 3)];
        let story = sizes
            .into_iter()
            .fold(Story::new(seed, 540), Story::then_any)
            .then_chain(534, 2);
        on_numbers(|device, dtype| story.check(&scene, (device, dtype)));
    }
}

/// A chain told as a tree, whose nodes' slots are looked up, gives the very bits of a chain.
#[test]
fn trees_are_summed_as_chains_are() {
    let scene = Scene::new(4, heads(4, 2, 32));
    for past in [0, 7, 30, 250, 256] {
        let chain = Story::new(4, past).then_chain(past, 40);
        let tree = Story::new(4, past).then((past, 0, 40), |_, node| node.checked_sub(1));
        on_numbers(|device, dtype| {
            let got = tree.check(&scene, (device, dtype));
            assert_eq!(got, chain.check(&scene, (device, dtype)));
            got
        });
    }
}

/// Windows that end within a warp's keys, within a split, and in one before; and one of nothing but
/// the row itself.
#[test]
fn rows_see_no_farther_than_their_window() {
    for (seed, window, heads, sizes) in [
        (20, 1, heads(2, 1, 16), [(0, 0, 9), (40, 2, 3)]),
        (21, 7, heads(2, 2, 64), [(0, 0, 9), (40, 2, 3)]),
        (22, 40, heads(2, 1, 128), [(0, 0, 2), (60, 1, 3)]),
        (24, 131, heads(2, 1, 16), [(300, 0, 2), (138, 2, 5)]),
    ] {
        let scene = Scene::new(seed, heads).with_window(window);
        let filled = sizes[0].0.max(sizes[1].0) + 2;
        let story = sizes
            .into_iter()
            .fold(Story::new(seed, filled), Story::then_any)
            .then_chain(filled, 2);
        on_numbers(|device, dtype| story.check(&scene, (device, dtype)));
    }
}

/// A model that computes NaN must not pass for one with valid output.
#[test]
fn scores_that_are_no_numbers_give_none() {
    let heads = heads(2, 1, 16);
    let scene = Scene::new(12, heads).with_a_broken_head();
    let story = Story::new(12, 60).then_chain(60, 5);
    on_numbers(|device, dtype| {
        let model = scene.load(device, dtype);
        let cache = model.cache(65);
        model.fill(&cache, &story.before);
        let got = model.attention(&story.situations[0].batch, &cache);
        for row in got.chunks(2 * heads.size) {
            let (broken, whole) = row.split_at(heads.size);
            assert!(broken.iter().all(|x| x.is_nan()), "{dtype:?}");
            assert!(whole.iter().all(|x| x.is_finite()), "{dtype:?}");
        }
        Vec::new()
    });
}

#[test]
fn biases_depend_on_the_distance_up_to_their_reach() {
    for (seed, reach) in [(5, 0), (6, 1), (7, 7), (8, 127)] {
        let scene = Scene::new(seed, heads(2, 1, 16)).with_bias(seed, reach);
        let story = Story::new(seed, 130).then_any((100, 30, 20));
        on_numbers(|device, dtype| story.check(&scene, (device, dtype)));
    }
}

#[test]
fn what_lies_in_unused_slots_does_not_matter() {
    let scene = Scene::new(9, heads(2, 1, 48));
    // Memory that nobody wrote is NaN in the emulator; here are other slots' leftovers.
    let used = Story::new(10, 100);
    let story = Story::new(11, 37).then_chain(37, 3);
    on_numbers(|device, dtype| {
        let fresh = story.check(&scene, (device, dtype));
        let model = scene.load(device, dtype);
        let cache = model.cache(100);
        model.fill(&cache, &used.before);
        model.fill(&cache, &story.before);
        assert_eq!(model.attention(&story.situations[0].batch, &cache), fresh);
        fresh
    });
}
