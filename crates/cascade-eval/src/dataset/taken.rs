//! Samples on their way through a selection.

use crate::{Error, ErrorKind, RandomSample, Result, Sample, Selection};

pub(super) struct Taken {
    selection: Selection,
    seen: usize,
    samples: Vec<Sample>,
}

impl Taken {
    pub(super) fn new(selection: Selection) -> Self {
        Self {
            selection,
            seen: 0,
            samples: Vec::new(),
        }
    }

    /// Number of samples that were pushed: the position of the next one in the dataset.
    pub(super) fn seen(&self) -> usize {
        self.seen
    }

    /// Whether no further sample will be taken. One is looked at even by a limit of 0, so that an
    /// empty file is found out.
    pub(super) fn is_complete(&self) -> bool {
        let full = |limit| self.samples.len() >= limit;
        self.seen > self.selection.offset && self.selection.limit.is_some_and(full)
    }

    pub(super) fn push(&mut self, sample: Sample) {
        self.seen += 1;
        if self.seen > self.selection.offset && self.selection.limit != Some(0) {
            self.samples.push(sample);
        }
    }

    /// What was selected. Messages call the dataset `label`.
    pub(super) fn finish(self, label: &str) -> Result<Vec<Sample>> {
        let offset = self.selection.offset;
        if self.seen == 0 {
            let problem = "there are no samples in it";
            return Err(Error::located(ErrorKind::Selection, label, problem));
        }
        if self.seen <= offset {
            return Err(Error::offset_past_end(label, offset, self.seen));
        }
        match self.selection.random {
            None => Ok(self.samples),
            Some(random) => chosen(self.samples, random, label),
        }
    }
}

fn chosen(samples: Vec<Sample>, random: RandomSample, label: &str) -> Result<Vec<Sample>> {
    let positions = random.positions(samples.len()).ok_or_else(|| {
        let problem = format!(
            "{} samples at random were asked for, but there are {} to choose from; ask for fewer",
            random.size,
            samples.len()
        );
        Error::located(ErrorKind::Selection, label, problem)
    })?;
    let mut wanted = positions.into_iter().peekable();
    let chosen = samples
        .into_iter()
        .enumerate()
        .filter(|(position, _)| wanted.next_if_eq(position).is_some());
    Ok(chosen.map(|(_, sample)| sample).collect())
}
