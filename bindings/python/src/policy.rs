//! Schedules and stop rules written in Python.

use cascade::{DraftedToken, LevelId, Outcome, Turn, TurnStart};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::{PyClass, PyClassInitializer};

use crate::error::Fault;
use crate::tree::Tree;

/// A drafted token, as stop rules see it; see the stubs.
#[pyclass(module = "cascade_decoding", frozen, get_all)]
pub(crate) struct Drafted {
    reviewer: usize,
    drafter: usize,
    position: usize,
    turn_position: usize,
    generated: usize,
    token: u32,
    probability: Option<f32>,
    top: Vec<(u32, f32)>,
    entropy: Option<f32>,
    hidden: Option<Py<PyArray1<f32>>>,
}

impl Drafted {
    fn new(py: Python<'_>, drafted: &DraftedToken<'_>) -> Self {
        Self {
            reviewer: drafted.reviewer.0,
            drafter: drafted.drafter.0,
            position: drafted.position,
            turn_position: drafted.turn_position,
            generated: drafted.generated,
            token: drafted.token,
            probability: drafted.probability,
            top: drafted.top.to_vec(),
            entropy: drafted.entropy,
            hidden: drafted
                .hidden
                .map(|hidden| PyArray1::from_slice(py, hidden).unbind()),
        }
    }
}

/// A draft in progress, as schedules see it; see the stubs.
#[pyclass(module = "cascade_decoding", frozen, get_all)]
pub(crate) struct DraftState {
    depth: usize,
    nodes: usize,
    ended: bool,
    max_depth: usize,
    max_nodes: usize,
    drafters: usize,
    turns: Vec<(usize, usize, bool)>,
}

impl From<&cascade::DraftState<'_>> for DraftState {
    fn from(state: &cascade::DraftState<'_>) -> Self {
        let turn = |record: &cascade::TurnRecord| {
            (record.turn.drafter.0, record.path.len(), record.stopped)
        };
        Self {
            depth: state.depth,
            nodes: state.nodes,
            ended: state.ended,
            max_depth: state.budget.depth,
            max_nodes: state.budget.nodes,
            drafters: state.drafters,
            turns: state.turns.iter().map(turn).collect(),
        }
    }
}

/// The outcome of a review, as schedules and stop rules learn of it; see the stubs.
#[pyclass(module = "cascade_decoding", frozen, get_all)]
pub(crate) struct Review {
    reviewer: usize,
    accepted: Vec<usize>,
    next: u32,
    rows: usize,
    seconds: f64,
    draft: Tree,
}

impl From<&Outcome<'_>> for Review {
    fn from(outcome: &Outcome<'_>) -> Self {
        Self {
            reviewer: outcome.reviewer.0,
            accepted: outcome.accepted.to_vec(),
            next: outcome.next,
            rows: outcome.forward.rows,
            seconds: outcome.forward.time.as_secs_f64(),
            draft: Tree::from(outcome.draft.tree()),
        }
    }
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
    pub(crate) fn observe<T: PyClass + Into<PyClassInitializer<T>>>(
        &self,
        seen: impl FnOnce(Python<'_>) -> T,
    ) {
        if self.observes {
            self.call((), |object| {
                let seen = Bound::new(object.py(), seen(object.py()))?;
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
            let drafted = Drafted::new(object.py(), drafted);
            object.call_method1("stop", (drafted,))?.is_truthy()
        })
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        self.part.observe(|_| Review::from(outcome));
    }
}

/// A `cascade_decoding.Schedule`.
pub(crate) struct PySchedule(pub(crate) PyPart);

impl cascade::Schedule for PySchedule {
    fn next(&mut self, reviewer: LevelId, state: &cascade::DraftState<'_>) -> Option<Turn> {
        let nodes = state.budget.nodes;
        self.0.call(None, |object| {
            let arguments = (reviewer.0, DraftState::from(state));
            let turn = object.call_method1("next", arguments)?;
            if turn.is_none() {
                Ok(None)
            } else {
                turn_of(&turn, reviewer, nodes).map(Some)
            }
        })
    }

    fn may_pair(&self, reviewer: LevelId, drafter: LevelId) -> bool {
        self.0.call(true, |object| {
            let arguments = (reviewer.0, drafter.0);
            object.call_method1("may_pair", arguments)?.is_truthy()
        })
    }

    fn plans_joint_drafts(&self) -> bool {
        false
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        self.0.observe(|_| Review::from(outcome));
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
