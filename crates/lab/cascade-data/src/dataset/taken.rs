//! Samples on their way through a selection.

use crate::{Error, RandomSample, Result, Sample, Selection};

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
            return Err(Error::NoSamples {
                label: label.to_owned(),
            });
        }
        if self.seen <= offset {
            return Err(Error::OffsetPastEnd {
                label: label.to_owned(),
                offset,
                samples: self.seen,
            });
        }
        match self.selection.random {
            None => Ok(self.samples),
            Some(random) => chosen(self.samples, random, label),
        }
    }
}

fn chosen(samples: Vec<Sample>, random: RandomSample, label: &str) -> Result<Vec<Sample>> {
    let positions = random
        .positions(samples.len())
        .ok_or_else(|| Error::SampleTooLarge {
            label: label.to_owned(),
            size: random.size,
            samples: samples.len(),
        })?;
    let mut wanted = positions.into_iter().peekable();
    let chosen = samples
        .into_iter()
        .enumerate()
        .filter(|(position, _)| wanted.next_if_eq(position).is_some());
    Ok(chosen.map(|(_, sample)| sample).collect())
}
