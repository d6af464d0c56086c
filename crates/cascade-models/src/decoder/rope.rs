//! Rotary positions (arXiv:2104.09864) and the ways to stretch them, as transformers computes them:
//! in f32 where it does, because angles are rounded more the farther the position.

use std::f64::consts::PI;

use serde_json::Value;

use crate::Result;
use crate::checks::bad;
use crate::settings::{Settings, not, unsupported};

/// Rotations by position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rope {
    /// Base of the frequencies.
    pub(crate) theta: f64,
    pub(crate) stretch: Stretch,
}

/// How positions are stretched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stretch {
    None,
    /// All frequencies are divided (arXiv:2306.15595).
    Linear {
        factor: f64,
    },
    /// The base grows with the length of the text once that is beyond the positions that were
    /// trained. Up to there, nothing is stretched.
    Dynamic {
        factor: f64,
    },
    /// Low frequencies are divided, high ones stay (LLaMA 3.1).
    Llama3 {
        factor: f64,
        low: f64,
        high: f64,
        original: usize,
    },
    /// Angles are stretched by the rule of arXiv:2309.00071, and scores are sharpened.
    Yarn {
        factor: f64,
        attention_factor: f64,
        beta_fast: f64,
        beta_slow: f64,
        truncate: bool,
        original: usize,
    },
    /// Each frequency is divided by a factor of its own (arXiv:2402.13753): `short` up to the
    /// original positions, others in longer texts.
    LongRope {
        short: Vec<f64>,
        attention_factor: f64,
        original: usize,
    },
}

impl Rope {
    /// What each frequency is divided by, of contexts no longer than [`context`](Self::context)
    /// says.
    pub(crate) fn divisors(&self, head_dim: usize) -> Vec<f32> {
        let powers = powers(self.theta as f32, head_dim);
        let pairs = powers.iter().zip(self.frequencies(head_dim));
        pairs.map(|(power, w)| 1.0 / power / w).collect()
    }

    /// Whether angles are the same but for the rounding of factors in f32.
    pub(crate) fn is_nearly(&self, other: &Self, head_dim: usize) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() <= 4e-7 * a.abs();
        let mut pairs = self
            .frequencies(head_dim)
            .into_iter()
            .zip(other.frequencies(head_dim));
        near(self.attention_factor(), other.attention_factor())
            && pairs.all(|(a, b)| near(a.into(), b.into()))
    }

    /// Reads the settings of transformers 4 (`rope_theta`, `rope_scaling`) and 5
    /// (`rope_parameters`), for a model of `trained` positions.
    ///
    /// # Errors
    /// Settings that contradict each other, or are not known.
    pub(super) fn read(
        settings: &mut Settings<'_>,
        absent_theta: f64,
        trained: usize,
        head_dim: usize,
    ) -> Result<Self> {
        let mut thetas = Vec::new();
        thetas.extend(settings.optional("rope_theta", "a number", Value::as_f64)?);
        let outer = settings.optional_size("original_max_position_embeddings")?;
        let mut stretches = Vec::new();
        for key in ["rope_scaling", "rope_parameters"] {
            let Some(value) = settings.value(key) else {
                continue;
            };
            if value.as_object().is_some_and(|entries| entries.is_empty()) {
                continue;
            }
            let mut rope = Settings::new(value).map_err(|_| not(key, value, "an object"))?;
            thetas.extend(rope.optional("rope_theta", "a number", Value::as_f64)?);
            let reader = Reader {
                trained,
                outer,
                head_dim,
            };
            stretches.push(reader.stretch(&mut rope)?);
        }
        let theta = checked_theta(&thetas, absent_theta)?;
        if let [a, b] = &stretches[..]
            && a != b
        {
            let problem = "rope_scaling and rope_parameters contradict each other";
            return Err(bad(problem));
        }
        Ok(Self {
            theta,
            stretch: stretches.pop().unwrap_or(Stretch::None),
        })
    }

    /// Positions that a context may have, of a model trained for so many.
    pub(super) fn context(&self, settings: &mut Settings<'_>, trained: usize) -> Result<usize> {
        let stated = settings.optional_size("max_sequence_length")?;
        let ends = |kind: &str, at: usize| {
            format!(
                "config.json stretches positions in the way \"{kind}\", by which the frequencies of \
                 all tokens change once a text is longer than {at}: a draft could not be verified \
                 as plain decoding would, so contexts end at {at}"
            )
        };
        Ok(match self.stretch {
            Stretch::None | Stretch::Llama3 { .. } => trained,
            // max_position_embeddings may be what there was before stretching.
            Stretch::Linear { .. } => trained.max(stated.unwrap_or(0)),
            Stretch::Yarn {
                factor, original, ..
            } => trained.max((original as f64 * factor) as usize),
            Stretch::Dynamic { .. } => {
                settings.warn(ends("dynamic", trained));
                trained
            }
            Stretch::LongRope { original, .. } if original < trained => {
                settings.warn(ends("longrope", original));
                original
            }
            Stretch::LongRope { .. } => trained,
        })
    }

    /// Cosines and sines by position, `[positions][head_dim / 2]`, times head_dim^-1/4: with that
    /// in queries and keys, scores have their 1/sqrt(head_dim).
    pub(crate) fn rotations(&self, positions: usize, head_dim: usize) -> (Vec<f32>, Vec<f32>) {
        let frequencies = self.frequencies(head_dim);
        let scale = scale(head_dim) * self.attention_factor() as f32;
        let table = |f: fn(f32) -> f32| {
            let angles = (0..positions).flat_map(|p| frequencies.iter().map(move |w| p as f32 * w));
            angles.map(|angle| f(angle) * scale).collect()
        };
        (table(f32::cos), table(f32::sin))
    }

    /// What scores are multiplied with apart from 1/sqrt(head_dim), its square root.
    fn attention_factor(&self) -> f64 {
        match self.stretch {
            Stretch::Yarn {
                attention_factor, ..
            }
            | Stretch::LongRope {
                attention_factor, ..
            } => attention_factor,
            _ => 1.0,
        }
    }

    /// Angle from position to position of each pair of a head's elements.
    fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        let powers = powers(self.theta as f32, head_dim);
        let inverse = powers.iter().map(|power| 1.0 / power);
        match &self.stretch {
            Stretch::None | Stretch::Dynamic { .. } => inverse.collect(),
            Stretch::Linear { factor } => inverse.map(|w| w / *factor as f32).collect(),
            &Stretch::Llama3 {
                factor,
                low,
                high,
                original,
            } => inverse
                .map(|w| llama3(w, factor as f32, low, high, original))
                .collect(),
            Stretch::LongRope { short, .. } => {
                let pairs = powers.iter().zip(short);
                pairs
                    .map(|(power, factor)| 1.0 / (*factor as f32 * power))
                    .collect()
            }
            Stretch::Yarn {
                factor,
                beta_fast,
                beta_slow,
                truncate,
                original,
                ..
            } => {
                let bounds = [beta_fast, beta_slow].map(|rotations| {
                    let turns = *original as f64 / (rotations * 2.0 * PI);
                    head_dim as f64 * turns.ln() / (2.0 * self.theta.ln())
                });
                yarn(&powers, *factor, bounds, *truncate)
            }
        }
    }
}

/// The one that is stated, or the default.
fn checked_theta(stated: &[f64], absent: f64) -> Result<f64> {
    let theta = stated.first().copied().unwrap_or(absent);
    if let Some(other) = stated.iter().find(|&&other| other != theta) {
        return Err(bad(format!(
            "rope_theta is {theta} in one place and {other} in another"
        )));
    }
    if theta.is_finite() && theta > 0.0 {
        Ok(theta)
    } else {
        Err(bad(format!(
            "rope_theta is {theta}, which is not a positive number"
        )))
    }
}

/// Rotations by nothing, for layers that know no positions: their scores are scaled all the same.
pub(super) fn unrotated(positions: usize, head_dim: usize) -> (Vec<f32>, Vec<f32>) {
    let count = positions * (head_dim / 2);
    (vec![scale(head_dim); count], vec![0.0; count])
}

/// Frequencies that go over from what they were to a part of it between two of them.
fn yarn(powers: &[f32], factor: f64, [mut low, mut high]: [f64; 2], truncate: bool) -> Vec<f32> {
    if truncate {
        (low, high) = (low.floor(), high.ceil());
    }
    let head_dim = 2 * powers.len();
    let (low, high) = (low.max(0.0), high.min(head_dim as f64 - 1.0));
    // Without a range, a step.
    let span = if low == high { 0.001 } else { high - low };
    let frequency = |(power, i): (&f32, u32)| {
        let ramp = ((i as f32 - low as f32) / span as f32).clamp(0.0, 1.0);
        let (near, far) = (1.0 / power, 1.0 / (factor as f32 * power));
        let stays = 1.0 - ramp;
        far * (1.0 - stays) + near * stays
    };
    powers.iter().zip(0..).map(frequency).collect()
}

fn scale(head_dim: usize) -> f32 {
    (head_dim as f32).powf(-0.25)
}

fn powers(theta: f32, head_dim: usize) -> Vec<f32> {
    let exponents = (0..head_dim).step_by(2);
    exponents
        .map(|i| theta.powf(i as f32 / head_dim as f32))
        .collect()
}

fn llama3(frequency: f32, factor: f32, low: f64, high: f64, original: usize) -> f32 {
    let original = original as f64;
    let wavelength = (2.0 * PI) as f32 / frequency;
    if wavelength > (original / low) as f32 {
        return frequency / factor;
    }
    if wavelength < (original / high) as f32 {
        return frequency;
    }
    let smooth = (original as f32 / wavelength - low as f32) / (high - low) as f32;
    (1.0 - smooth) * frequency / factor + smooth * frequency
}

/// What the stretching of positions is read with.
struct Reader {
    /// max_position_embeddings.
    trained: usize,
    /// original_max_position_embeddings beside the rotary settings, which counts more than that
    /// among them.
    outer: Option<usize>,
    head_dim: usize,
}

impl Reader {
    fn stretch(&self, rope: &mut Settings<'_>) -> Result<Stretch> {
        let newer = rope.optional("rope_type", "a text", Value::as_str)?;
        let older = rope.optional("type", "a text", Value::as_str)?;
        let kind = newer.or(older).unwrap_or("default");
        let stretch = match kind {
            "default" => Stretch::None,
            "linear" => Stretch::Linear {
                factor: self.factor(rope, kind)?,
            },
            "dynamic" => Stretch::Dynamic {
                factor: self.factor(rope, kind)?,
            },
            "llama3" => self.llama3(rope)?,
            "yarn" => self.yarn(rope)?,
            "longrope" | "su" => self.long_rope(rope)?,
            other => {
                return Err(unsupported(format!(
                    "rope_scaling of type {other:?} (\"default\", \"linear\", \"dynamic\", \
                     \"llama3\", \"yarn\" and \"longrope\" are)"
                )));
            }
        };
        let rotated = rope.number("partial_rotary_factor", 1.0)?;
        if rotated != 1.0 {
            return Err(unsupported(format!(
                "partial_rotary_factor {rotated} in the rotary settings"
            )));
        }
        // Who trained it so, and what it was before, where nothing follows from that.
        let says_nothing = |key: &&str| match *key {
            "finetuned" => kind == "yarn",
            "original_max_position_embeddings" => kind == "linear",
            _ => false,
        };
        match rope.unread().find(|key| !says_nothing(key)) {
            None => Ok(stretch),
            Some(key) => Err(unsupported(format!(
                "`{key}` in the rotary settings of type {kind:?}"
            ))),
        }
    }

    /// A factor that is there.
    fn factor(&self, rope: &mut Settings<'_>, kind: &str) -> Result<f64> {
        let factor = rope.optional("factor", "a number", Value::as_f64)?;
        positive(factor, &format!("{kind} rope_scaling"), "factor")
    }

    /// Positions before stretching.
    fn original(&self, rope: &mut Settings<'_>) -> Result<usize> {
        let inner = rope.optional_size("original_max_position_embeddings")?;
        match self.outer.or(inner).unwrap_or(self.trained) {
            0 => Err(bad("original_max_position_embeddings is 0")),
            original => Ok(original),
        }
    }

    /// The factor, or what the positions say.
    fn factor_of(&self, rope: &mut Settings<'_>, original: usize) -> Result<f64> {
        let ratio = self.trained as f64 / original as f64;
        rope.number("factor", ratio)
    }

    fn llama3(&self, rope: &mut Settings<'_>) -> Result<Stretch> {
        let mut number = |key| {
            let number = rope.optional(key, "a number", Value::as_f64)?;
            positive(number, "llama3 rope_scaling", key)
        };
        let (low, high) = (number("low_freq_factor")?, number("high_freq_factor")?);
        if low >= high {
            return Err(bad(format!(
                "low_freq_factor {low} of the rotary settings is not below high_freq_factor {high}"
            )));
        }
        Ok(Stretch::Llama3 {
            factor: self.factor(rope, "llama3")?,
            low,
            high,
            original: self.original(rope)?,
        })
    }

    fn yarn(&self, rope: &mut Settings<'_>) -> Result<Stretch> {
        let original = self.original(rope)?;
        let factor = Some(self.factor_of(rope, original)?);
        let factor = positive(factor, "yarn rope_scaling", "factor")?;
        let mut number = |key| rope.optional(key, "a number", Value::as_f64);
        let stated = number("attention_factor")?;
        let (some, all) = (number("mscale")?, number("mscale_all_dim")?);
        // What is 0 counts as absent.
        let or = |number: Option<f64>, absent| number.filter(|&n| n != 0.0).unwrap_or(absent);
        let beta_fast = or(number("beta_fast")?, 32.0);
        let beta_slow = or(number("beta_slow")?, 1.0);
        let sharper = |by: f64| {
            if factor <= 1.0 {
                1.0
            } else {
                0.1 * by * factor.ln() + 1.0
            }
        };
        let attention_factor = match (stated, some, all) {
            (Some(stated), ..) => stated,
            (None, Some(some), Some(all)) if some != 0.0 && all != 0.0 => {
                sharper(some) / sharper(all)
            }
            _ => sharper(1.0),
        };
        let positive_betas = beta_fast > 0.0 && beta_slow > 0.0;
        if !(attention_factor.is_finite() && positive_betas) {
            return Err(bad(format!(
                "yarn rope_scaling has an attention factor of {attention_factor}, beta_fast \
                 {beta_fast} and beta_slow {beta_slow}, of which no rotations can be made"
            )));
        }
        Ok(Stretch::Yarn {
            factor,
            attention_factor,
            beta_fast,
            beta_slow,
            truncate: rope.flag("truncate", true)?,
            original,
        })
    }

    fn long_rope(&self, rope: &mut Settings<'_>) -> Result<Stretch> {
        let original = self.original(rope)?;
        let factor = self.factor_of(rope, original)?;
        let numbers = |value: &Value| value.as_array()?.iter().map(Value::as_f64).collect();
        let mut list = |key: &'static str| {
            let list: Option<Vec<f64>> = rope.optional(key, "a list of numbers", numbers)?;
            match list {
                Some(list) if list.len() == self.head_dim / 2 => Ok(list),
                list => Err(bad(format!(
                    "{key} of the rotary settings has {} numbers, not the {} of half a head",
                    list.map_or(0, |list| list.len()),
                    self.head_dim / 2
                ))),
            }
        };
        // The long ones count where contexts have ended.
        let (short, _) = (list("short_factor")?, list("long_factor")?);
        let stated = rope.optional("attention_factor", "a number", Value::as_f64)?;
        let by_length = || (1.0 + factor.ln() / (original as f64).ln()).sqrt();
        Ok(Stretch::LongRope {
            short,
            attention_factor: match stated {
                Some(stated) => stated,
                None if factor <= 1.0 => 1.0,
                None => by_length(),
            },
            original,
        })
    }
}

fn positive(number: Option<f64>, of: &str, key: &str) -> Result<f64> {
    let number = number.filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| bad(format!("{of} without a positive {key}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(config: &Value) -> Result<(Rope, usize, Vec<String>)> {
        let mut settings = Settings::new(config)?;
        let rope = Rope::read(&mut settings, 10_000.0, 100, 8)?;
        let context = rope.context(&mut settings, 100)?;
        Ok((rope, context, settings.finish(&crate::settings::DECODER)?))
    }

    #[test]
    fn settings_of_both_versions_are_the_same() {
        let five = json!({"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}});
        let older = json!({"rope_scaling": {"rope_theta": 5e5, "rope_type": "default"}});
        let four = json!({"rope_theta": 500_000, "rope_scaling": null});
        let both = json!({"rope_theta": 5e5, "rope_parameters": {"rope_theta": 500_000}});
        for config in [five, older, four, both] {
            let (rope, context, warnings) = read(&config).unwrap();
            assert_eq!(
                (rope.theta, rope.stretch, context),
                (5e5, Stretch::None, 100)
            );
            assert!(warnings.is_empty());
        }
        assert_eq!(read(&json!({})).unwrap().0.theta, 10_000.0);
        for name in ["type", "rope_type"] {
            let scaling = json!({"rope_scaling": {name: "linear", "factor": 4}});
            let stretch = read(&scaling).unwrap().0.stretch;
            assert_eq!(stretch, Stretch::Linear { factor: 4.0 });
        }
    }

    #[test]
    fn contexts_end_where_frequencies_would_follow_the_length() {
        let dynamic = json!({"rope_scaling": {"type": "dynamic", "factor": 2.0}});
        let (rope, context, warnings) = read(&dynamic).unwrap();
        assert_eq!(context, 100);
        assert!(warnings[0].contains("dynamic") && warnings[0].contains("end at 100"));
        assert_eq!(
            rope.frequencies(8),
            powers(10_000.0, 8)
                .iter()
                .map(|p| 1.0 / p)
                .collect::<Vec<_>>()
        );

        let factors = json!([1.0, 1.5, 2.0, 3.0]);
        let long = json!({"original_max_position_embeddings": 25, "rope_scaling":
            {"type": "longrope", "short_factor": factors, "long_factor": factors}});
        let (rope, context, warnings) = read(&long).unwrap();
        assert_eq!((context, warnings.len()), (25, 1));
        let expected = (1.0 + 4f64.ln() / 25f64.ln()).sqrt();
        assert!((rope.attention_factor() - expected).abs() < 1e-12);
    }

    #[test]
    fn stretched_contexts_may_be_longer_than_what_was_trained() {
        let yarn = json!({"rope_scaling": {"type": "yarn", "factor": 4.0}});
        let (rope, context, _) = read(&yarn).unwrap();
        assert_eq!(context, 400);
        assert!((rope.attention_factor() - (0.1 * 4f64.ln() + 1.0)).abs() < 1e-12);
        let linear =
            json!({"rope_scaling": {"type": "linear", "factor": 4.0}, "max_sequence_length": 400});
        assert_eq!(read(&linear).unwrap().1, 400);
    }

    #[test]
    fn refuses_what_contradicts_itself_or_is_not_known() {
        for (config, word) in [
            (json!({"rope_scaling": {"type": "linear"}}), "factor"),
            (
                json!({"rope_scaling": {"type": "linear", "factor": -1}}),
                "positive factor",
            ),
            (
                json!({"rope_scaling": {"type": "proportional", "factor": 2.0}}),
                "proportional",
            ),
            (json!({"rope_scaling": {"factor": 2.0}}), "`factor`"),
            (
                json!({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}),
                "low_freq_factor",
            ),
            (
                json!({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4,
                    "high_freq_factor": 4}}),
                "not below",
            ),
            (
                json!({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}),
                "partial_rotary_factor 0.5",
            ),
            (
                json!({"rope_parameters": {"rope_type": "default", "mrope_section": [1]}}),
                "mrope_section",
            ),
            (
                json!({"rope_parameters": {"full_attention": {"rope_type": "default"}}}),
                "full_attention",
            ),
            (
                json!({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5}}),
                "500000 in another",
            ),
            (
                json!({"rope_scaling": {"type": "linear", "factor": 2.0},
                    "rope_parameters": {"rope_type": "default"}}),
                "contradict",
            ),
            (
                json!({"rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1]}}),
                "1 numbers, not the 4",
            ),
            (
                json!({"rope_scaling": "linear"}),
                "rope_scaling is \"linear\"",
            ),
            (json!({"rope_theta": 0}), "rope_theta is 0"),
        ] {
            let message = read(&config).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
