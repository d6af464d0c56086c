//! Attention, and heads on their way to it, against softmax in f64.
#![allow(clippy::unwrap_used)]

mod common;

use cascade_gpu::{Device, Heads, Kind, Mask, WINDOW};
use common::attention::{Model, Scene, TOKENS};
use common::batch::{mask, Batch};
use common::{assert_close, on_both};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

fn heads(queries: usize, kv: usize, size: usize) -> Heads {
    Heads { queries, kv, size }
}

fn random_token(rng: &mut StdRng) -> u32 {
    rng.random_range(0..TOKENS as u32)
}

/// A cache's slots up to the rows' own, and rows behind them.
struct Situation {
    slots: Vec<(u32, u32)>,
    batch: Batch,
}

impl Situation {
    /// `past` slots that all rows see, `drafted` ones behind them, and `rows` rows. `masks` gives the slots behind the past that
    /// a row sees.
    fn new(
        rng: &mut StdRng,
        (past, drafted, rows): (usize, usize, usize),
        mut masks: impl FnMut(&mut StdRng, usize) -> Mask,
    ) -> Self {
        let mut slots: Vec<(u32, u32)> = (0..past as u32)
            .map(|slot| (random_token(rng), slot))
            .collect();
        let window = (0..drafted + rows).map(|_| {
            let position = past + rng.random_range(0..drafted + rows);
            (random_token(rng), position as u32)
        });
        slots.extend(window);
        let own = &slots[past + drafted..];
        let batch = Batch {
            tokens: own.iter().map(|&(token, _)| token).collect(),
            positions: own.iter().map(|&(_, position)| position).collect(),
            past,
            first: past + drafted,
            masks: (0..rows).map(|row| masks(rng, drafted + row)).collect(),
            window_positions: slots[past..].iter().map(|&(_, at)| at).collect(),
            ..Batch::default()
        };
        Self { slots, batch }
    }

    fn chain(rng: &mut StdRng, past: usize, rows: usize) -> Self {
        Self::new(rng, (past, 0, rows), |_, own| mask(0..=own))
    }

    /// Each row sees any of the slots up to its own.
    fn any(rng: &mut StdRng, sizes: (usize, usize, usize)) -> Self {
        Self::new(rng, sizes, |rng, own| {
            let density = [0.05, 0.5, 0.9].choose(rng).copied().unwrap();
            mask((0..=own).filter(|_| rng.random_bool(density)))
        })
    }

    fn run(&self, model: &Model) -> Vec<f32> {
        let cache = model.cache(self.slots.len());
        model.fill(&cache, &self.slots[..self.batch.first]);
        model.attention(&self.batch, &cache)
    }

    fn check(&self, scene: &Scene, (device, kind): (&Device, Kind)) -> Vec<f32> {
        let model = scene.load(device, kind);
        let got = self.run(&model);
        let sizes = (self.batch.past, self.batch.first, self.batch.tokens.len());
        let want = scene.expect(&model, &self.batch, &self.slots);
        assert_close(&got, want, &(kind, scene.heads, sizes));
        got
    }
}

#[test]
fn heads_of_all_sizes_attend_to_a_chain() {
    let mut rng = StdRng::seed_from_u64(1);
    let kinds_of_heads = [
        heads(2, 2, 16),
        heads(4, 2, 24),
        heads(3, 1, 32),
        heads(6, 2, 48),
        heads(2, 2, 64),
        heads(5, 1, 80),
        heads(2, 1, 128),
    ];
    for (seed, heads) in kinds_of_heads.into_iter().enumerate() {
        let scene = Scene::new(seed as u64, heads);
        let (past, rows) = (rng.random_range(0..80), rng.random_range(1..=40));
        let situation = Situation::chain(&mut rng, past, rows);
        on_both(|device, kind| situation.check(&scene, (device, kind)));
    }
}

#[test]
fn heads_are_rotated_by_position() {
    let mut rng = StdRng::seed_from_u64(2);
    for (seed, heads) in [heads(4, 2, 16), heads(2, 2, 80)].into_iter().enumerate() {
        let scene = Scene::new(seed as u64, heads).with_rotary();
        let situation = Situation::any(&mut rng, (20, 5, 19));
        on_both(|device, kind| situation.check(&scene, (device, kind)));
    }
}

#[test]
fn rows_attend_to_what_they_see_and_nothing_else() {
    let mut rng = StdRng::seed_from_u64(3);
    let scene = Scene::new(3, heads(4, 2, 24));
    let sizes = [
        (0, 0, 1),
        (0, 0, 64),
        (1, 3, 17),
        (250, 3, 9),
        (255, 1, 33),
        (256, 0, 2),
        (0, WINDOW - 8, 8),
        (300, 211, 50),
        (513, 300, 5),
    ];
    for sizes in sizes {
        let situation = Situation::any(&mut rng, sizes);
        on_both(|device, kind| situation.check(&scene, (device, kind)));
    }
}

#[test]
fn rows_that_see_nothing_get_nothing() {
    let mut rng = StdRng::seed_from_u64(4);
    let scene = Scene::new(4, heads(2, 2, 32));
    let situation = Situation::new(&mut rng, (0, 270, 6), |_, own| match own % 3 {
        0 => Mask::default(),
        _ => mask([own]),
    });
    on_both(|device, kind| {
        let got = situation.check(&scene, (device, kind));
        assert!(got[2 * 64..].iter().any(|&x| x != 0.0));
        assert!(got[..64].iter().all(|&x| x.to_bits() == 0));
        got
    });
}

#[test]
fn biases_depend_on_the_distance_up_to_their_reach() {
    let mut rng = StdRng::seed_from_u64(5);
    for (seed, reach) in [(5, 0), (6, 1), (7, 7), (8, 127)] {
        let scene = Scene::new(seed, heads(4, 2, 16)).with_bias(seed, reach);
        let situation = Situation::any(&mut rng, (150, 30, 20));
        on_both(|device, kind| situation.check(&scene, (device, kind)));
    }
}

#[test]
fn what_lies_in_unused_slots_does_not_matter() {
    let mut rng = StdRng::seed_from_u64(6);
    let scene = Scene::new(9, heads(2, 1, 64));
    let model_of = |device: &Device, kind| scene.load(device, kind);
    let situation = Situation::chain(&mut rng, 37, 3);
    on_both(|device, kind| {
        let model = model_of(device, kind);
        let fresh = situation.run(&model);
        let cache = model.cache(200);
        let longer: Vec<_> = (0..200)
            .map(|slot| (random_token(&mut rng.clone()), slot))
            .collect();
        model.fill(&cache, &longer);
        model.fill(&cache, &situation.slots[..37]);
        assert_eq!(model.attention(&situation.batch, &cache), fresh);
        fresh
    });
}
