//! T(R) of a model on this machine: measured when it is first loaded, and kept in the user's cache.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cascade_core::{Fingerprint, ForwardTimes};
use cascade_engine::{Clock, SystemClock, ThreadClock};
use cascade_models::{Model, user_cache};

use crate::costs::CostClock::{self, Cpu, Wall};
use crate::costs::{CostFile, ForwardTime, Measured, machine};

/// What measuring takes at most.
const MOST: Duration = Duration::from_millis(500);
/// Loads of a model at which it is measured; the shortest times count.
const MEASURED: u32 = 3;
/// Measurements in one load, if times cannot be.
const ATTEMPTS: u32 = 2;
/// Seconds that some forward takes at least of a model whose times are kept: smaller ones are
/// measured at each load, which takes less than loading does.
const KEPT: f64 = 1e-3;
/// What more rows take at least, in forwards of fewer.
const LEAST: f64 = 0.8;
/// This program and its version, in files.
pub const PROGRAM: &str = concat!("cascade ", env!("CARGO_PKG_VERSION"));

/// The folder where times are kept: `cascade/forward-times` in `XDG_CACHE_HOME`, or in `.cache` of
/// the user's folder. `None` if there is none.
pub fn forward_times_folder() -> Option<PathBuf> {
    Some(user_cache()?.join("cascade").join("forward-times"))
}

/// T(R) as it was measured.
#[derive(Clone, Debug)]
pub(crate) struct MeasuredTimes {
    pub(crate) times: ForwardTimes,
    /// What cannot be in them, although they were measured again.
    pub(crate) impossible: Option<String>,
}

impl MeasuredTimes {
    fn of(file: &CostFile) -> Option<Self> {
        Some(Self {
            times: file.forward_times()?,
            impossible: impossible(&file.forwards).map(|(fewer, more)| {
                format!(
                    "rows were timed as T({}) = {:.2} ms and T({}) = {:.2} ms, also when timed \
                     again: more rows cannot take less time, so drafts may not pay",
                    fewer.rows,
                    1e3 * fewer.seconds,
                    more.rows,
                    1e3 * more.seconds,
                )
            }),
        })
    }
}

/// Times of a model's forwards on this machine, of threads that compute alone or not: those that
/// are kept, together with those of a new measurement as long as there were few. `None` if a
/// forward fails, as the next one then says.
pub(crate) fn forward_times(
    model: &Arc<Model>,
    of: Measured,
    is_alone: bool,
) -> Option<MeasuredTimes> {
    let of = Measured {
        model: described(model),
        ..of
    };
    let clock = if is_alone { Cpu } else { Wall };
    let file = forward_times_folder().map(|folder| folder.join(file_name(&of, clock)));
    // Its name says what was measured, and by what.
    let known = file.as_ref().and_then(|file| CostFile::open(file).ok());
    if let Some(known) = known.as_ref().filter(|it| it.measurements >= MEASURED) {
        return MeasuredTimes::of(known);
    }
    let forwards = measure(model, clock)?;
    let new = CostFile::new(PROGRAM.to_owned(), machine(), of, clock, None, forwards);
    let times = match known {
        None => new,
        Some(known) => known.and(new),
    };
    let is_kept = times.forwards.iter().any(|it| it.seconds >= KEPT);
    if let Some(file) = file.filter(|_| is_kept) {
        // Without a place to keep them, they are measured at each load.
        let folder = file.parent().map(std::fs::create_dir_all);
        let _unkept = folder.and_then(Result::ok).map(|()| times.save(&file));
    }
    MeasuredTimes::of(&times)
}

/// What times of forwards depend on, of a model.
fn described(model: &Model) -> String {
    format!(
        "{} parameters, {} layers of {}, {} tokens, {} bytes",
        model.num_parameters(),
        model.layers(),
        model.hidden_size(),
        model.info().vocab_size,
        model.bytes_per_forward(1),
    )
}

fn file_name(of: &Measured, clock: CostClock) -> String {
    let all = format!("{PROGRAM} {} {of:?} {clock:?}", machine());
    let hash = Fingerprint::of_vocabulary([(0, all)]).to_string();
    let hex = hash.trim_start_matches("sha256:");
    format!("{}.json", &hex[..hex.len().min(32)])
}

/// Measures, again if rows seem to take less time than fewer of them.
fn measure(model: &Arc<Model>, clock: CostClock) -> Option<Vec<ForwardTime>> {
    let now = || match clock {
        Wall => SystemClock.now(),
        Cpu => ThreadClock.now(),
    };
    let mut times: Vec<ForwardTime> = Vec::new();
    for _ in 0..ATTEMPTS {
        let timed = model.time_forwards(MOST, now).ok()?.into_iter();
        let new = timed.map(|((context, rows), seconds)| ForwardTime {
            context,
            rows,
            seconds,
            fastest: seconds,
            slowest: seconds,
        });
        times = fastest(times, new.collect());
        if impossible(&times).is_none() {
            break;
        }
    }
    Some(times)
}

/// Forwards of which one with more rows takes much less time than one with fewer.
fn impossible(times: &[ForwardTime]) -> Option<(ForwardTime, ForwardTime)> {
    let pairs = times.iter().flat_map(|fewer| {
        let more = times.iter().filter(|more| more.rows > fewer.rows);
        more.filter(|more| more.context == fewer.context)
            .map(|more| (*fewer, *more))
    });
    let mut pairs = pairs.into_iter();
    pairs.find(|(fewer, more)| more.seconds < LEAST * fewer.seconds)
}

/// The shorter times of two measurements.
pub(crate) fn fastest(mut known: Vec<ForwardTime>, new: Vec<ForwardTime>) -> Vec<ForwardTime> {
    known.extend(new);
    known.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    known.sort_by_key(|it| (it.context, it.rows));
    known.dedup_by_key(|it| (it.context, it.rows));
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_cannot_be_are_said() {
        let time = |rows, seconds| ForwardTime {
            context: 65,
            rows,
            seconds,
            fastest: seconds,
            slowest: seconds,
        };
        let said = |forwards: Vec<ForwardTime>| {
            let of = Measured {
                model: "model".into(),
                dtype: "q8_0".into(),
                cache_dtype: "f32".into(),
                device: "cpu".into(),
                threads: 1,
            };
            let file = CostFile::new(PROGRAM.into(), machine(), of, Wall, None, forwards);
            MeasuredTimes::of(&file).unwrap().impossible
        };
        // A tenth less is noise.
        assert_eq!(said(vec![time(1, 0.01), time(2, 0.009)]), None);
        let said = said(vec![time(1, 0.01), time(2, 0.012), time(8, 0.007)]).unwrap();
        assert!(
            said.contains("T(1) = 10.00 ms and T(8) = 7.00 ms"),
            "{said}"
        );
    }
}
