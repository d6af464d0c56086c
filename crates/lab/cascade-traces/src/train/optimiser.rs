//! Adam, or AdamW, with a cosine schedule.
//!
//! candle-nn has one, whose moments cannot be read: a training that is resumed from a checkpoint
//! without them is another training.

use candle_core::backprop::GradStore;
use candle_core::{Result, Tensor, Var};

const BETA_1: f64 = 0.9;
const BETA_2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// A parameter and its moments.
pub(crate) struct Parameter {
    pub(crate) value: Var,
    pub(crate) first: Tensor,
    pub(crate) second: Tensor,
}

impl Parameter {
    pub(crate) fn new(value: &Tensor) -> Result<Self> {
        Ok(Self {
            value: Var::from_tensor(value)?,
            first: value.zeros_like()?,
            second: value.zeros_like()?,
        })
    }

    /// Takes step number `step`, from 1. Without decay it is Adam's, else AdamW's.
    pub(crate) fn update(
        &mut self,
        gradients: &GradStore,
        step: usize,
        rate: f64,
        decay: f64,
    ) -> Result<()> {
        let Some(gradient) = gradients.get(&self.value) else {
            return Ok(());
        };
        self.first = ((&self.first * BETA_1)? + (gradient * (1.0 - BETA_1))?)?.detach();
        let square = gradient.sqr()?;
        self.second = ((&self.second * BETA_2)? + (square * (1.0 - BETA_2))?)?.detach();
        let unbiased = |moment: &Tensor, beta: f64| moment / (1.0 - beta.powf(step as f64));
        let root = (unbiased(&self.second, BETA_2)?.sqrt()? + EPSILON)?;
        let mut change = (unbiased(&self.first, BETA_1)?.div(&root)? * rate)?;
        if decay > 0.0 {
            change = (change + (self.value.as_tensor() * (rate * decay))?)?;
        }
        self.value
            .set(&self.value.as_tensor().sub(&change)?.detach())
    }
}

/// The learning rate of a step, from 1, of `steps`: up to `rate` in a share of them, then to nearly
/// 0 along a cosine.
pub(crate) fn cosine(rate: f64, step: usize, steps: usize, warm_up: f64) -> f64 {
    let done = (step - 1) as f64 / steps.max(1) as f64;
    let risen = step as f64 / (warm_up * steps as f64);
    rate * risen.min(1.0) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos())
}
