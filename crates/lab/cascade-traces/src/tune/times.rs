//! What forwards cost in a prediction.

use std::sync::Arc;

use cascade_config::DrafterModel;
use cascade_core::RowTimes;
use cascade_engine::{AssumedTimes, VirtualClock, VirtualText};
use cascade_eval::{ForwardBench, ForwardClock, ForwardCost, steady_times};
use cascade_models::LoadedModel;

use crate::{Error, ErrorKind, Result};

/// Rows of the forwards that are measured.
const MEASURED_ROWS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Times of the forwards of a target and its drafters, by rows; statistical drafters take none.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Times of the target.
    pub target: RowTimes,
    /// Times of each drafter, largest first; `None` for statistical ones.
    pub drafters: Vec<Option<RowTimes>>,
}

impl Times {
    /// Costs of forwards of one row, the target's first and 0 for statistical drafters; each
    /// further row adds the share `row`.
    #[cfg(test)]
    pub(super) fn linear(costs: &[f64], row: f64) -> Self {
        let times = |cost: f64| RowTimes::linear(cost, row);
        let drafters = costs[1..].iter();
        Self {
            target: times(costs[0]),
            drafters: drafters
                .map(|&cost| (cost > 0.0).then(|| times(cost)))
                .collect(),
        }
    }

    /// What a forward costs if its rows cost nothing, of the target and each drafter: the costs of
    /// the standardized walltime improvement, which counts forwards.
    pub fn of_one_row(&self) -> Vec<f64> {
        let drafters = self
            .drafters
            .iter()
            .map(|times| times.as_ref().map_or(0.0, |times| times.seconds(1)));
        std::iter::once(self.target.seconds(1))
            .chain(drafters)
            .collect()
    }

    /// Times in proportion to parameters, in forwards of the target; each further row adds the
    /// share `row`.
    pub fn by_parameters(target: &LoadedModel, drafters: &[DrafterModel], row: f64) -> Self {
        let all = target.num_parameters() as f64;
        let of = |model: &LoadedModel| RowTimes::linear(model.num_parameters() as f64 / all, row);
        Self {
            target: of(target),
            drafters: neural(drafters)
                .map(|model| model.map(|model| of(model)))
                .collect(),
        }
    }

    /// Times that somebody knows, of the target and of each neural drafter, in any unit; each
    /// further row adds the share `row`.
    ///
    /// # Errors
    /// [`ErrorKind::Costs`] if there are not as many as neural models, or one is not above 0.
    pub fn given(costs: &[f64], drafters: &[DrafterModel], row: f64) -> Result<Self> {
        let models = 1 + neural(drafters).flatten().count();
        let valid = costs.iter().all(|cost| cost.is_finite() && *cost > 0.0);
        if costs.len() != models || !valid {
            let message = format!(
                "{} numbers for {models} neural models (the target and its neural drafters): \
                 {costs:?}; give one above 0 for each",
                costs.len()
            );
            return Err(Error::new(ErrorKind::Costs, message));
        }
        let linear = |cost: f64| RowTimes::linear(cost / costs[0], row);
        let mut given = costs[1..].iter();
        let drafters = neural(drafters).map(|model| {
            let cost = model.and_then(|_| given.next());
            cost.map(|&cost| linear(cost))
        });
        Ok(Self {
            target: linear(costs[0]),
            drafters: drafters.collect(),
        })
    }

    /// Times that are measured on this machine, in forwards of the target of one row, with so
    /// little noise left that the same settings come out. Cost: some hundred forwards of each
    /// model.
    ///
    /// # Errors
    /// [`ErrorKind::Costs`] if two measurements do not agree, or a model fails.
    pub fn measured(target: &LoadedModel, drafters: &[DrafterModel]) -> Result<Self> {
        let costs = measured(target)?;
        let unit = costs.first().map_or(1.0, |cost| cost.typical.as_secs_f64());
        let rounded = |model: &LoadedModel, costs: &[ForwardCost]| {
            rounded_times(costs, unit).ok_or_else(|| {
                let problem =
                    "the model has fewer positions than the forwards that are to be measured";
                Error::located(ErrorKind::Costs, &model.name, problem)
            })
        };
        let of = |model: &Arc<LoadedModel>| rounded(model, &measured(model)?);
        let drafters = neural(drafters).map(|model| model.map(of).transpose());
        Ok(Self {
            drafters: drafters.collect::<Result<_>>()?,
            target: rounded(target, &costs)?,
        })
    }

    /// These times for a cascade whose forwards move a clock, shared with other texts if `text` is
    /// one of several.
    pub fn assumed(&self, clock: &VirtualClock, text: Option<VirtualText>) -> AssumedTimes {
        AssumedTimes {
            clock: clock.clone(),
            target: self.target.clone(),
            drafters: self.drafters.iter().flatten().cloned().collect(),
            text,
        }
    }
}

/// The weights of each drafter that has some.
fn neural(drafters: &[DrafterModel]) -> impl Iterator<Item = Option<&Arc<LoadedModel>>> {
    drafters.iter().map(|drafter| match drafter {
        DrafterModel::Statistical(_) => None,
        DrafterModel::Neural { model, .. } => Some(model),
    })
}

/// Forwards by rows, the first of one row.
fn measured(model: &LoadedModel) -> Result<Vec<ForwardCost>> {
    let bench = ForwardBench {
        contexts: vec![128],
        rows: MEASURED_ROWS.to_vec(),
        clock: ForwardClock::of(&model.model),
        ..ForwardBench::default()
    };
    steady_times(&bench, &mut model.session()).map_err(|error| error.at(&model.name))
}

/// Times relative to a forward of one row, in steps of 5%: two measurements of one machine then
/// mostly lead to the same settings. A forward of one row keeps its time; `None` if there is no
/// forward.
fn rounded_times(costs: &[ForwardCost], unit: f64) -> Option<RowTimes> {
    const STEP: f64 = 1.05;
    let round = |seconds: f64| {
        let steps = ((seconds / unit).ln() / STEP.ln()).round();
        unit * STEP.powf(steps)
    };
    let times = costs
        .iter()
        .map(|cost| (cost.rows, round(cost.typical.as_secs_f64())));
    RowTimes::measured(times)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn cost(rows: usize, milliseconds: f64) -> ForwardCost {
        let time = Duration::from_secs_f64(1e-3 * milliseconds);
        ForwardCost {
            context: 128,
            rows,
            median: time,
            mean: time,
            typical: time,
            fastest: time,
            slowest: time,
        }
    }

    fn curve(times: &[(usize, f64)]) -> Vec<ForwardCost> {
        times.iter().map(|&(rows, time)| cost(rows, time)).collect()
    }

    /// Times that differ by little become the same curve.
    #[test]
    fn rounded_times_do_not_tell_two_measurements_apart() {
        let first = rounded_times(&curve(&[(1, 1.0), (9, 1.478)]), 1e-3).unwrap();
        let second = rounded_times(&curve(&[(1, 1.01), (9, 1.462)]), 1e-3).unwrap();
        assert_eq!(first, second);
        assert!((first.seconds(9) / 1.47e-3 - 1.0).abs() < 0.03);
    }
}
