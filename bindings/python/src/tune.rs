//! Search for a K matrix and lenience.

use cascade::config::DrafterModel;
use cascade::ModelPool;
use cascade_traces::trace::Trace as Recorded;
use cascade_traces::tune::{Space, Times, Tuned, Tuner};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::config::Config;
use crate::error::to_python;
use crate::interrupt::Interrupt;
use crate::json::object;
use crate::trace::Trace;

/// What forwards take.
enum Costs {
    Measured,
    Parameters,
    Given(Vec<f64>),
}

fn costs_of(costs: &Bound<'_, PyAny>) -> PyResult<Costs> {
    match costs.extract::<String>().as_deref() {
        Ok("measured") => Ok(Costs::Measured),
        Ok("parameters") => Ok(Costs::Parameters),
        Ok(other) => Err(PyValueError::new_err(format!(
            "costs is {other:?}; give \"measured\", \"parameters\", or a number for the target and each neural drafter"
        ))),
        Err(_) => costs.extract().map(Costs::Given),
    }
}

/// See the stubs.
#[pyfunction]
#[pyo3(signature = (
    config, trace, *, costs, row_cost=0.02, limit=None, max_k=20, starts=8, seed=0, check=3, device=None
))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn tune<'py>(
    py: Python<'py>,
    config: &Config,
    trace: &Trace,
    costs: &Bound<'py, PyAny>,
    row_cost: f64,
    limit: Option<usize>,
    max_k: usize,
    starts: usize,
    seed: u64,
    check: usize,
    device: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    if !(row_cost.is_finite() && row_cost >= 0.0) {
        return Err(PyValueError::new_err(
            "row_cost: give a number of 0 or more",
        ));
    }
    let costs = costs_of(costs)?;
    let pool = config.pool(device)?;
    let space = Space {
        max_neural: max_k,
        starts,
        seed,
        ..Space::default()
    };
    let trace = Recorded::clone(&trace.0);
    let mut interrupt = Interrupt::default();
    let tuned = py.detach(|| -> cascade_eval::Result<Option<Tuned>> {
        let limit = limit.unwrap_or(usize::MAX);
        let times =
            |config: &cascade::Config,
             _: &Recorded,
             drafters: &[DrafterModel],
             pool: &ModelPool| { costs.times(config, drafters, pool, row_cost) };
        let tuner = Tuner::new(config.0.clone(), trace, limit, pool, times)?;
        tuner.run(&space, check, || interrupt.look())
    });
    interrupt.check()?;
    let tuned = tuned.map_err(to_python)?.map(|mut tuned| {
        tuned.measured = matches!(costs, Costs::Measured);
        tuned
    });
    object(py, &tuned)
}

impl Costs {
    fn times(
        &self,
        config: &cascade::Config,
        drafters: &[DrafterModel],
        pool: &ModelPool,
        row: f64,
    ) -> cascade_eval::Result<Times> {
        match self {
            Self::Given(costs) => Times::given(costs, drafters, row),
            Self::Parameters => Ok(Times::by_parameters(&*pool.target(config)?, drafters, row)),
            Self::Measured => Times::measured(&*pool.target(config)?, drafters),
        }
    }
}
