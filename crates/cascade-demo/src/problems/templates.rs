//! What problems are about, one file for each part of the world.

mod comparing;
mod farm;
mod kitchen;
mod savings;
mod school;
mod sharing;
mod shop;
mod trips;
mod working;

use super::story::Template;

/// What every file of templates uses.
mod prelude {
    pub(super) use crate::problems::draw::{say, Draw};
    pub(super) use crate::problems::story::{template, Story, Template};
    pub(super) use crate::problems::world::*;
}

/// All templates.
pub(super) fn all() -> impl Iterator<Item = &'static Template> {
    let parts: [&[Template]; 9] = [
        &shop::ALL,
        &farm::ALL,
        &trips::ALL,
        &savings::ALL,
        &kitchen::ALL,
        &sharing::ALL,
        &comparing::ALL,
        &working::ALL,
        &school::ALL,
    ];
    parts.into_iter().flatten()
}
