//! Schedules and stop rules written in Python.

use cascade::{DraftedToken, LevelId, Outcome, Turn, TurnStart};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

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
#[pyclass(module = "cascade_decoding", frozen)]
pub struct Review {
    #[pyo3(get)]
    reviewer: usize,
    #[pyo3(get)]
    accepted: Vec<usize>,
    #[pyo3(get)]
    next: u32,
    #[pyo3(get)]
    rows: usize,
    #[pyo3(get)]
    seconds: f64,
    draft: Tree,
}

#[pymethods]
impl Review {
    #[getter]
    fn draft(&self) -> Tree {
        self.draft.clone()
    }
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

/// A Python object with an optional method `observe`.
struct Part {
    object: Py<PyAny>,
    observes: bool,
    fault: Fault,
}

impl Part {
    fn new(object: &Bound<'_, PyAny>, fault: Fault) -> Self {
        Self {
            object: object.clone().unbind(),
            observes: object.hasattr("observe").unwrap_or(false),
            fault,
        }
    }

    fn observe(&self, outcome: &Outcome<'_>) {
        if self.observes {
            let told = Python::attach(|py| {
                let review = Review::from(outcome);
                self.object
                    .bind(py)
                    .call_method1("observe", (review,))
                    .map(drop)
            });
            self.fault.keep(told, ());
        }
    }
}

/// A `cascade_decoding.StopRule`.
pub(crate) struct PyStopRule {
    part: Part,
    want: cascade::Want,
}

impl PyStopRule {
    /// Reads what it wants of each row.
    pub(crate) fn new(object: &Bound<'_, PyAny>, fault: Fault) -> PyResult<Self> {
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
            part: Part::new(object, fault),
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
        let stops = Python::attach(|py| {
            let drafted = Drafted::new(py, drafted);
            let stops = self.part.object.bind(py).call_method1("stop", (drafted,))?;
            stops.is_truthy()
        });
        self.part.fault.keep(stops, true)
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        self.part.observe(outcome);
    }
}

/// A `cascade_decoding.Schedule`.
pub(crate) struct PySchedule(Part);

impl PySchedule {
    pub(crate) fn new(object: &Bound<'_, PyAny>, fault: Fault) -> Self {
        Self(Part::new(object, fault))
    }
}

impl cascade::Schedule for PySchedule {
    fn next(&mut self, reviewer: LevelId, state: &cascade::DraftState<'_>) -> Option<Turn> {
        let nodes = state.budget.nodes;
        let turn = Python::attach(|py| {
            let arguments = (reviewer.0, DraftState::from(state));
            let turn = self.0.object.bind(py).call_method1("next", arguments)?;
            if turn.is_none() {
                Ok(None)
            } else {
                turn_of(&turn, reviewer, nodes).map(Some)
            }
        });
        self.0.fault.keep(turn, None)
    }

    fn may_pair(&self, reviewer: LevelId, drafter: LevelId) -> bool {
        let pairs = Python::attach(|py| {
            let arguments = (reviewer.0, drafter.0);
            let pairs = self.0.object.bind(py).call_method1("may_pair", arguments)?;
            pairs.is_truthy()
        });
        self.0.fault.keep(pairs, true)
    }

    fn plans_joint_drafts(&self) -> bool {
        false
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        self.0.observe(outcome);
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
