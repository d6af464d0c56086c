//! The settings of sampling, as they are written.

use std::fmt;

use cascade_core::{Decoding, InvalidSampling};

/// How tokens are chosen, as a configuration or a command line writes it, and the [`Decoding`] that
/// it makes. The default is greedy decoding.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SamplingSettings {
    temperature: f32,
    top_k: Option<usize>,
    top_p: Option<f32>,
    min_p: Option<f32>,
    decoding: Decoding,
}

impl SamplingSettings {
    /// Greedy decoding at a temperature of 0, sampling above. Of the tokens, `top_k` keeps so many
    /// of the most probable, `top_p` the fewest most probable that sum to this probability, and
    /// `min_p` those with at least this share of the highest probability.
    ///
    /// # Errors
    /// A setting out of its range.
    pub fn new(
        temperature: f32,
        top_k: Option<usize>,
        top_p: Option<f32>,
        min_p: Option<f32>,
    ) -> Result<Self, InvalidSampling> {
        Ok(Self {
            temperature,
            top_k,
            top_p,
            min_p,
            decoding: Decoding::new(temperature, top_k, top_p, min_p)?,
        })
    }

    /// 0 is greedy decoding.
    pub fn temperature(self) -> f32 {
        self.temperature
    }

    /// How many of the most probable tokens are kept.
    pub fn top_k(self) -> Option<usize> {
        self.top_k
    }

    /// The probability to which the tokens that are kept sum up at least.
    pub fn top_p(self) -> Option<f32> {
        self.top_p
    }

    /// The share of the highest probability that tokens must have to be kept.
    pub fn min_p(self) -> Option<f32> {
        self.min_p
    }

    /// What the engine decodes by.
    pub fn decoding(self) -> Decoding {
        self.decoding
    }

    /// Whether there are truncations that greedy decoding does not use.
    pub(crate) fn truncates_in_vain(self) -> bool {
        self.decoding.is_greedy()
            && (self.top_k.is_some() || self.top_p.is_some() || self.min_p.is_some())
    }
}

impl fmt::Display for SamplingSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.decoding.is_greedy() {
            return f.write_str("greedy");
        }
        write!(f, "sampled at temperature {}", self.temperature)?;
        if let Some(k) = self.top_k {
            write!(f, ", top-k {k}")?;
        }
        if let Some(p) = self.top_p {
            write!(f, ", top-p {p}")?;
        }
        if let Some(p) = self.min_p {
            write!(f, ", min-p {p}")?;
        }
        Ok(())
    }
}
