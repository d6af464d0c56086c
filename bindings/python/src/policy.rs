//! Schedules and stop rules written in Python.

use cascade::{DraftedToken, LevelId, Outcome, Turn, TurnStart};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::Fault;
use crate::tree::Tree;
use crate::view::{figures, view};

/// A drafted token, as stop rules see it.
fn drafted<'py>(py: Python<'py>, seen: &DraftedToken<'_>) -> PyResult<Bound<'py, PyAny>> {
    let hidden = seen.hidden.map(|hidden| PyArray1::from_slice(py, hidden));
    let own = figures! {
        py,
        reviewer: seen.reviewer.0,
        drafter: seen.drafter.0,
        position: seen.position,
        turn_position: seen.turn_position,
        generated: seen.generated,
        token: seen.token,
        probability: seen.probability,
        top: seen.top.to_vec(),
        entropy: seen.entropy,
        hidden: hidden,
    };
    view(py, "Drafted", own)
}

/// A draft in progress, as schedules see it.
fn draft_state<'py>(
    py: Python<'py>,
    state: &cascade::DraftState<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    let turns = state.turns.iter();
    let turns: Vec<_> = turns
        .map(|record| (record.turn.drafter.0, record.path.len(), record.stopped))
        .collect();
    let own = figures! {
        py,
        depth: state.depth,
        nodes: state.nodes,
        ended: state.ended,
        max_depth: state.budget.depth,
        max_nodes: state.budget.nodes,
        drafters: state.drafters,
        turns: turns,
    };
    view(py, "DraftState", own)
}

/// The outcome of a review, as schedules and stop rules learn of it.
fn review<'py>(py: Python<'py>, outcome: &Outcome<'_>) -> PyResult<Bound<'py, PyAny>> {
    let own = figures! {
        py,
        reviewer: outcome.reviewer.0,
        accepted: outcome.accepted.to_vec(),
        next: outcome.next,
        rows: outcome.forward.rows,
        seconds: outcome.forward.time.as_secs_f64(),
        draft: Tree::from(outcome.draft.tree()),
    };
    view(py, "Review", own)
}

/// A part of a cascade that is written in Python, a drafter, stop rule or schedule: an object whose
/// methods may fail, with an optional method `observe`.
pub(crate) struct PyPart {
    object: Py<PyAny>,
    observes: bool,
    fault: Fault,
}

impl PyPart {
    pub(crate) fn new(object: &Bound<'_, PyAny>, fault: &Fault) -> Self {
        Self {
            object: object.clone().unbind(),
            observes: object.hasattr("observe").unwrap_or(false),
            fault: fault.clone(),
        }
    }

    /// What the object says; `otherwise` after an exception, which is kept.
    pub(crate) fn call<T>(
        &self,
        otherwise: T,
        ask: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> T {
        let said = Python::attach(|py| ask(self.object.bind(py)));
        self.fault.keep(said, otherwise)
    }

    /// Passes an observation to the object, if it has the method.
    pub(crate) fn observe(
        &self,
        seen: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>>,
    ) {
        if self.observes {
            self.call((), |object| {
                let seen = seen(object.py())?;
                object.call_method1("observe", (seen,)).map(drop)
            });
        }
    }
}

/// A `cascade_decoding.StopRule`.
pub(crate) struct PyStopRule {
    part: PyPart,
    want: cascade::Want,
}

impl PyStopRule {
    /// Reads what it wants of each row.
    pub(crate) fn new(object: &Bound<'_, PyAny>, fault: &Fault) -> PyResult<Self> {
        let mut want = if object.getattr("probability")?.extract()? {
            cascade::Want::GATHERED
        } else {
            cascade::Want::ARGMAX
        };
        want = want.with_top(object.getattr("top")?.extract()?);
        if object.getattr("entropy")?.extract()? {
            want = want.with_entropy();
        }
        if object.getattr("hidden")?.extract()? {
            want = want.with_last_hidden();
        }
        Ok(Self {
            part: PyPart::new(object, fault),
            want,
        })
    }
}

impl cascade::StopRule for PyStopRule {
    fn want(&self) -> cascade::Want {
        self.want
    }

    /// After an exception it stops: the step ends soon, and raises it.
    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        self.part.call(true, |object| {
            let seen = self::drafted(object.py(), drafted)?;
            object.call_method1("stop", (seen,))?.is_truthy()
        })
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        self.part.observe(|py| review(py, outcome));
    }
}

/// A `cascade_decoding.Schedule`.
pub(crate) struct PySchedule(pub(crate) PyPart);

impl cascade::Schedule for PySchedule {
    fn next(&mut self, reviewer: LevelId, state: &cascade::DraftState<'_>) -> Option<Turn> {
        let nodes = state.budget.nodes;
        self.0.call(None, |object| {
            let arguments = (reviewer.0, draft_state(object.py(), state)?);
            let turn = object.call_method1("next", arguments)?;
            if turn.is_none() {
                Ok(None)
            } else {
                turn_of(&turn, reviewer, nodes).map(Some)
            }
        })
    }

    fn prepare(&mut self, levels: &[cascade::LevelSpec<'_>]) -> cascade::Result<cascade::Plan> {
        let may_pair = |reviewer: LevelId, drafter: LevelId| {
            self.0.call(true, |object| {
                let arguments = (reviewer.0, drafter.0);
                object.call_method1("may_pair", arguments)?.is_truthy()
            })
        };
        Ok(cascade::Plan::new(levels.len()).with_pairs(may_pair))
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        self.0.observe(|py| review(py, outcome));
    }
}

/// `(drafter, tokens)`.
fn turn_of(turn: &Bound<'_, PyAny>, reviewer: LevelId, nodes: usize) -> PyResult<Turn> {
    let (drafter, tokens): (usize, usize) = turn.extract()?;
    if drafter <= reviewer.0 {
        return Err(PyValueError::new_err(format!(
            "Schedule.next gave the turn to level {drafter} for reviewer {}; a drafter is a smaller level, with a \
             higher number",
            reviewer.0
        )));
    }
    Ok(Turn {
        drafter: LevelId(drafter),
        tokens,
        start: TurnStart::Tip,
        reserved: 0,
        nodes,
    })
}
