//! The settings of sampling, as they are written.

use std::fmt;

use cascade_core::{Decoding, InvalidSampling, Penalties, StatedSampling};

/// How tokens are chosen, as a configuration or a command line writes it, with the [`Decoding`] and
/// the [`Penalties`] that it makes. The default is greedy decoding.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SamplingSettings {
    stated: StatedSampling,
    decoding: Decoding,
    penalties: Penalties,
}

impl TryFrom<StatedSampling> for SamplingSettings {
    type Error = InvalidSampling;

    fn try_from(stated: StatedSampling) -> Result<Self, InvalidSampling> {
        Ok(Self {
            stated,
            decoding: stated.decoding()?,
            penalties: stated.penalties()?,
        })
    }
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
        Self::try_from(StatedSampling {
            temperature: Some(temperature),
            top_k,
            top_p,
            min_p,
            ..StatedSampling::default()
        })
    }

    /// These settings, and those that a model recommends where nothing else is stated. Where greedy
    /// decoding is stated, only its penalties are of use.
    ///
    /// # Errors
    /// A setting out of its range.
    pub fn completed_by(self, recommended: StatedSampling) -> Result<Self, InvalidSampling> {
        let recommended = match self.stated.temperature {
            Some(0.0) => StatedSampling {
                repetition_penalty: recommended.repetition_penalty,
                ..StatedSampling::default()
            },
            _ => recommended,
        };
        Self::try_from(self.stated.or(recommended))
    }

    /// What was said of them.
    pub fn stated(self) -> StatedSampling {
        self.stated
    }

    /// 0 is greedy decoding.
    pub fn temperature(self) -> f32 {
        self.stated.temperature.unwrap_or(0.0)
    }

    /// How many of the most probable tokens are kept.
    pub fn top_k(self) -> Option<usize> {
        self.stated.top_k
    }

    /// The probability to which the tokens that are kept sum up at least.
    pub fn top_p(self) -> Option<f32> {
        self.stated.top_p
    }

    /// The share of the highest probability that tokens must have to be kept.
    pub fn min_p(self) -> Option<f32> {
        self.stated.min_p
    }

    /// What the engine decodes by.
    pub fn decoding(self) -> Decoding {
        self.decoding
    }

    /// What tokens lose that the text has already.
    pub fn penalties(self) -> Penalties {
        self.penalties
    }

    /// Whether there are truncations that greedy decoding does not use.
    pub(crate) fn truncates_in_vain(self) -> bool {
        let stated = self.stated;
        self.decoding.is_greedy()
            && (stated.top_k.is_some() || stated.top_p.is_some() || stated.min_p.is_some())
    }
}

impl fmt::Display for SamplingSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut further = self.stated;
        if self.decoding.is_greedy() {
            f.write_str("greedy")?;
            (further.top_k, further.top_p, further.min_p) = (None, None, None);
        } else {
            write!(f, "sampled at temperature {}", self.temperature())?;
        }
        further.temperature = None;
        if further.is_empty() {
            return Ok(());
        }
        write!(f, ", {further}")
    }
}
