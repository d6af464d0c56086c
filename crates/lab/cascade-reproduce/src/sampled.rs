//! Sampling as a paper does it.

use std::fmt;

use cascade_core::{Decoding, Sampling};
use cascade_traces::trace::RecordedSampling;
use serde::{Deserialize, Serialize};

use crate::Result;

/// How tokens are drawn, by the target and by its drafters alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplingSetting {
    /// Above 0.
    pub temperature: f32,
    /// How many of the most probable tokens are kept; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<usize>,
    /// The probability to which the tokens that are kept sum up at least; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// The share of the highest probability that tokens must have to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_p: Option<f32>,
}

impl SamplingSetting {
    /// How the engine decodes by it.
    ///
    /// # Errors
    /// What is wrong, as a text, for settings out of range; greedy decoding is one of them.
    pub fn decoding(self) -> std::result::Result<Decoding, String> {
        let decoding = Decoding::new(self.temperature, self.top_k, self.top_p, self.min_p);
        match decoding {
            Ok(Decoding::Greedy) => Err("the temperature is 0, which does not sample".to_owned()),
            Ok(decoding) => Ok(decoding),
            Err(invalid) => Err(invalid.to_string()),
        }
    }

    /// The sampling of a recording.
    ///
    /// # Errors
    /// See [`RecordedSampling::sampling`].
    pub(crate) fn of_recording(recorded: &RecordedSampling) -> Result<Self> {
        let sampling: Sampling = recorded.sampling()?;
        Ok(Self {
            temperature: sampling.temperature(),
            top_k: sampling.top_k(),
            top_p: sampling.top_p(),
            min_p: sampling.min_p(),
        })
    }
}

impl fmt::Display for SamplingSetting {
    /// In one line: `temperature 1, top-k 50`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "temperature {}", self.temperature)?;
        if let Some(k) = self.top_k {
            write!(f, ", top-k {k}")?;
        }
        for (name, p) in [("top-p", self.top_p), ("min-p", self.min_p)] {
            if let Some(p) = p {
                write!(f, ", {name} {p}")?;
            }
        }
        Ok(())
    }
}
