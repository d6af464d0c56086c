//! Where a figure comes from.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a figure comes from. Figures of different kinds are never in one column or one series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Measured in a run with real weights.
    Measured,
    /// Calls counted in a run with real weights, times what a forward is taken to cost: no walltime
    /// was measured.
    Modelled,
    /// Drafting was run against recorded outputs of a real target.
    Replayed,
    /// Models were replaced by random numbers or toys.
    Simulated,
    /// Follows from a formula.
    Computed,
    /// Printed in the paper.
    Paper,
}

impl Evidence {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Measured,
        Self::Modelled,
        Self::Replayed,
        Self::Simulated,
        Self::Computed,
        Self::Paper,
    ];

    /// Its name in headers: one lower-case word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Modelled => "modelled",
            Self::Replayed => "replayed",
            Self::Simulated => "simulated",
            Self::Computed => "computed",
            Self::Paper => "paper",
        }
    }

    /// What the word means, for a legend.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Measured => "taken in a run of real weights",
            Self::Modelled => "measured calls × assumed costs of a forward",
            Self::Replayed => "drafted against recorded outputs of a real target",
            Self::Simulated => "models stood in for by random numbers or toys",
            Self::Computed => "follows from a formula",
            Self::Paper => "printed in the paper",
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
