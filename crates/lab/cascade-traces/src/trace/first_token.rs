//! How often a drafter's first token is what the target says.

use cascade_engine::{Cascade, Options};
use cascade_eval::Bootstrap;

use super::{replay, Record};
use crate::Result;

/// Drafts and those whose first token the target kept, by record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstToken {
    drafted: Vec<usize>,
    accepted: Vec<usize>,
}

impl FirstToken {
    /// Replays a record with a cascade of one drafter, and adds what became of the first token of
    /// each of its drafts. With a K matrix of `[[1]]` that is all it drafts.
    ///
    /// # Errors
    /// As [`replay`](fn@replay).
    pub fn add(&mut self, cascade: &mut Cascade, record: &Record, options: &Options) -> Result<()> {
        let generation = replay(cascade, record, options)?;
        let steps = generation.steps.iter();
        let drafts: Vec<_> = steps.filter(|step| step.drafted > 0).collect();
        self.drafted.push(drafts.len());
        let kept = drafts.iter().filter(|step| step.accepted > 0);
        self.accepted.push(kept.count());
        Ok(())
    }

    /// All drafts.
    pub fn drafted(&self) -> usize {
        self.drafted.iter().sum()
    }

    /// The share of the drafts whose first token was kept; `None` if nothing was drafted.
    pub fn share(&self) -> Option<f64> {
        let all: Vec<usize> = (0..self.drafted.len()).collect();
        let share = self.share_of(&all);
        share.is_finite().then_some(share)
    }

    /// Its interval, by resampling records.
    pub fn interval(&self, bootstrap: Bootstrap) -> Option<(f64, f64)> {
        bootstrap.interval(self.drafted.len(), |chosen| self.share_of(chosen))
    }

    fn share_of(&self, chosen: &[usize]) -> f64 {
        let sum = |counts: &[usize]| chosen.iter().map(|&i| counts[i]).sum::<usize>() as f64;
        sum(&self.accepted) / sum(&self.drafted)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cascade_core::{toy::ToyScorer, Architecture, Fingerprint, Prompt};
    use cascade_engine::{Convention, KMatrix};

    use super::*;
    use crate::trace::{Header, Recorder, Subject, Trace, TraceScorer};

    fn first_token(drafter: ToyScorer) -> FirstToken {
        let options = Options::default().with_max_new_tokens(60);
        let vocabulary = Fingerprint::from_stored("a toy's");
        let header = Header::measured("toy", Architecture::DecoderOnly, &vocabulary, 16, &options);
        let target = ToyScorer::target("target", 16, 7);
        let mut recorder = Recorder::new("target", target, [], None, &options).unwrap();
        let prompt = Prompt {
            context: vec![1, 2, 3],
            ..Prompt::default()
        };
        let (record, _) = recorder.record(Subject::new("0"), &prompt, |_| {}).unwrap();
        let trace = Arc::new(Trace::new("toy", header, vec![record]).unwrap());
        let k = KMatrix::new(vec![vec![1]], Convention::Added).unwrap();
        let mut cascade = Cascade::builder()
            .target("target", TraceScorer::new(trace.clone()).unwrap())
            .neural("drafter", drafter)
            .k_matrix(k)
            .build()
            .unwrap();
        let mut found = FirstToken::default();
        let record = &trace.records[0];
        found.add(&mut cascade, record, &options).unwrap();
        found
    }

    #[test]
    fn the_target_itself_is_always_right_and_others_are_not() {
        let itself = first_token(ToyScorer::target("target", 16, 7));
        assert_eq!(itself.share(), Some(1.0));
        // Two tokens a step, and no draft for the last token.
        assert_eq!(itself.drafted(), 30);
        let other = first_token(ToyScorer::target("target", 16, 8));
        assert!(other.share().unwrap() < 0.5, "{other:?}");
        assert_eq!(FirstToken::default().share(), None);
    }
}
