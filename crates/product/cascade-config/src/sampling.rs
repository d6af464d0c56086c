//! The settings of sampling, as they are written.

use std::fmt;

use cascade_core::{Decoding, InvalidSampling};

/// How tokens are chosen, as a configuration or a command line says it. The default is greedy decoding.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SamplingSettings {
    /// 0 is greedy decoding.
    pub temperature: f32,
    /// Keep so many of the most probable tokens.
    pub top_k: Option<usize>,
    /// Keep the fewest most probable tokens that sum to this probability.
    pub top_p: Option<f32>,
    /// Keep tokens with at least this share of the highest probability.
    pub min_p: Option<f32>,
}

impl SamplingSettings {
    /// The checked form.
    ///
    /// # Errors
    /// A number out of its range.
    pub fn decoding(self) -> Result<Decoding, InvalidSampling> {
        Decoding::new(self.temperature, self.top_k, self.top_p, self.min_p)
    }

    /// Whether there are truncations that greedy decoding does not use.
    pub fn truncates_in_vain(self) -> bool {
        self.temperature == 0.0
            && (self.top_k.is_some() || self.top_p.is_some() || self.min_p.is_some())
    }
}

impl fmt::Display for SamplingSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.temperature == 0.0 {
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
