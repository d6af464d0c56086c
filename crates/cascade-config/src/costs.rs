//! What forwards of a model cost, as a file: measured once for each machine and model.

use std::path::Path;

use cascade_core::{ForwardTimes, RowTimes};
use cascade_models::{CacheType, DType, Device, compute_threads};
use serde::{Deserialize, Serialize};

use crate::forward_times::fastest;

/// What the file says it is.
const FORMAT: &str = "cascade-costs";
const VERSION: u32 = 1;
/// Bytes of a file at most.
const MOST_BYTES: u64 = 1 << 20;

/// Times of forwards of one model, in one type, on one device of one machine: what `cascade bench
/// model --save` writes and schedules, `tune`, `replay` and `reproduce` read. `docs/schedules.md`
/// has the format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostFile {
    format: String,
    version: u32,
    /// The program that measured, with its version.
    pub program: String,
    /// Operating system and processor.
    pub machine: String,
    /// What was measured.
    pub of: Measured,
    /// What the times are of.
    pub clock: CostClock,
    /// Tokens of the source, of an encoder-decoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<usize>,
    /// How often these were measured, of times that the user's cache keeps.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub(crate) measurements: u32,
    /// The forwards.
    pub forwards: Vec<ForwardTime>,
}

const fn once() -> u32 {
    1
}

const fn is_once(number: &u32) -> bool {
    *number == once()
}

/// Operating system and CPU of this machine.
pub fn machine() -> String {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("{os} {arch}, {}", cpu_model())
}

/// The model of the CPU, the instruction sets that it has, and the one that is used.
pub fn cpu_model() -> String {
    let features = cascade_models::cpu_features();
    let model = std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| "unknown".to_owned());
    let used = match cascade_models::cpu_instructions() {
        Ok(used) => format!("uses {used}"),
        Err(error) => error.to_string(),
    };
    format!("{model} (has {}; {used})", features.join(" "))
}

/// A model and where it computes: times of one are not those of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The model, as reports name it.
    pub model: String,
    /// Data type of the weights.
    pub dtype: String,
    /// Data type of keys and values.
    pub cache_dtype: String,
    /// `cpu` or `cuda:N`.
    pub device: String,
    /// Threads that compute.
    pub threads: usize,
}

impl Measured {
    /// A model with weights, keys and values of these types on a device.
    pub fn new(
        model: String,
        dtype: DType,
        cache_dtype: Option<CacheType>,
        device: &Device,
    ) -> Self {
        let on_cpu = device.is_cpu();
        let cache_dtype = cache_dtype.or(on_cpu.then_some(CacheType::F32));
        Self {
            model,
            dtype: dtype.as_str().to_owned(),
            cache_dtype: cache_dtype.map_or("default", CacheType::as_str).to_owned(),
            device: device.spec().to_string(),
            threads: if on_cpu { compute_threads() } else { 1 },
        }
    }
}

/// What measured times are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CostClock {
    /// What passed while a forward was computed.
    Wall,
    /// The time of the CPU: a busy machine counts for little. Of a single thread alone.
    Cpu,
}

/// The time of forwards of so many rows after a context of so many tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardTime {
    /// Tokens of the context.
    pub context: usize,
    /// Rows.
    pub rows: usize,
    /// Seconds of a forward.
    pub seconds: f64,
    /// Seconds of the shortest forward.
    pub fastest: f64,
    /// Seconds of the longest forward.
    pub slowest: f64,
}

/// Why a file with costs cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CostError {
    /// It cannot be read or written.
    #[error("{file}: {source}")]
    File {
        /// The file.
        file: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is no file of costs.
    #[error("{file}: {problem}; write one with `cascade bench model MODEL --save FILE`")]
    Content {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// It is of something else.
    #[error(
        "{file}: costs of {what} {found}, and not of {expected}; measure them with `cascade bench \
         model {model} --save FILE` and the same --dtype, --device and --threads"
    )]
    Other {
        /// The file.
        file: String,
        /// What differs.
        what: &'static str,
        /// In the file.
        found: String,
        /// Where it is to be used.
        expected: String,
        /// The model that it is to be used for.
        model: String,
    },
}

impl CostFile {
    /// Costs that were just measured.
    pub fn new(
        program: String,
        machine: String,
        of: Measured,
        clock: CostClock,
        source: Option<usize>,
        forwards: Vec<ForwardTime>,
    ) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            program,
            machine,
            of,
            clock,
            source,
            measurements: 1,
            forwards,
        }
    }

    /// These times and new ones of the same forwards: the shorter of each.
    pub(crate) fn and(self, new: Self) -> Self {
        Self {
            measurements: self.measurements + new.measurements,
            forwards: fastest(self.forwards, new.forwards),
            ..new
        }
    }

    /// Times by rows and context.
    pub fn forward_times(&self) -> Option<ForwardTimes> {
        let times = self.forwards.iter();
        ForwardTimes::measured(times.map(|it| (it.context, it.rows, it.seconds)))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// One that cannot be read, or holds anything else.
    pub fn open(path: &Path) -> Result<Self, CostError> {
        let file = path.display().to_string();
        let text =
            cascade_core::fs::read_text(path, MOST_BYTES).map_err(|source| CostError::File {
                file: file.clone(),
                source,
            })?;
        Self::parse(&text).map_err(|problem| CostError::Content { file, problem })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let costs: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if costs.format != FORMAT || costs.version != VERSION {
            return Err(format!(
                "format {} {}, where {FORMAT} {VERSION} is known",
                costs.format, costs.version
            ));
        }
        let is_time = |seconds: f64| seconds.is_finite() && seconds > 0.0;
        let good = |f: &ForwardTime| {
            f.rows > 0 && [f.seconds, f.fastest, f.slowest].into_iter().all(is_time)
        };
        if let Some(bad) = costs.forwards.iter().find(|forward| !good(forward)) {
            return Err(format!("{bad:?} is not a forward"));
        }
        if costs.forwards.iter().any(|forward| forward.rows == 1) {
            Ok(costs)
        } else {
            Err("no forward of one row, which others are compared with".to_owned())
        }
    }

    /// Writes the file, in place of what is there.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn save(&self, path: &Path) -> Result<(), CostError> {
        let failed = |source| CostError::File {
            file: path.display().to_string(),
            source,
        };
        let mut text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        text.push('\n');
        cascade_core::fs::write(path, text.as_bytes()).map_err(failed)
    }

    /// Checks that these are costs of `used`, which is about to be computed or to be modelled.
    /// `file` names the file in errors.
    ///
    /// # Errors
    /// What differs: [`CostError::Other`].
    pub fn check(&self, file: &str, used: &Measured) -> Result<(), CostError> {
        let Measured {
            model,
            dtype,
            cache_dtype,
            device,
            threads,
        } = &self.of;
        let pairs = [
            ("the model", model.clone(), used.model.clone()),
            ("the type", dtype.clone(), used.dtype.clone()),
            (
                "the type of keys and values",
                cache_dtype.clone(),
                used.cache_dtype.clone(),
            ),
            ("the device", device.clone(), used.device.clone()),
            (
                "the number of threads",
                threads.to_string(),
                used.threads.to_string(),
            ),
        ];
        match pairs.into_iter().find(|(_, found, used)| found != used) {
            None => Ok(()),
            Some((what, found, expected)) => Err(CostError::Other {
                file: file.to_owned(),
                what,
                found,
                expected,
                model: used.model.clone(),
            }),
        }
    }

    /// Describes whose costs the file of this name has.
    pub fn describe(&self, file: &str) -> String {
        let of = &self.of;
        format!(
            "costs: {file}: {} in {} on {}, threads: {}, {}",
            of.model, of.dtype, of.device, of.threads, self.machine
        )
    }

    /// Context lengths, rising.
    pub fn contexts(&self) -> Vec<usize> {
        let mut contexts: Vec<usize> = self.forwards.iter().map(|f| f.context).collect();
        contexts.sort_unstable();
        contexts.dedup();
        contexts
    }

    /// Seconds by rows at the measured context nearest to this one at which a forward of one row
    /// was measured.
    pub fn times(&self, context: usize) -> RowTimes {
        let single = self.forwards.iter().filter(|forward| forward.rows == 1);
        let nearest = single
            .map(|forward| forward.context)
            .min_by_key(|&known| (known.abs_diff(context), known));
        let at = self.forwards.iter().filter(|f| Some(f.context) == nearest);
        let times = RowTimes::measured(at.map(|forward| (forward.rows, forward.seconds)));
        // Files without a forward of one row are refused.
        times.unwrap_or_else(|| RowTimes::linear(1.0, 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> CostFile {
        let of = Measured {
            model: "org/name".into(),
            dtype: "q8_0".into(),
            cache_dtype: "f32".into(),
            device: "cpu".into(),
            threads: 2,
        };
        let forward = |context, rows, seconds| ForwardTime {
            context,
            rows,
            seconds,
            fastest: 0.9 * seconds,
            slowest: 1.5 * seconds,
        };
        CostFile::new(
            "cascade 0.1.0".into(),
            "linux".into(),
            of,
            CostClock::Wall,
            None,
            vec![
                forward(128, 1, 2.0),
                forward(128, 9, 3.0),
                forward(1024, 1, 4.0),
            ],
        )
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("costs.json");
        costs().save(&file).unwrap();
        let read = CostFile::open(&file).unwrap();
        assert_eq!(read, costs());
        assert_eq!(read.contexts(), [128, 1024]);
        assert_eq!(read.times(200).seconds(5), 2.5);
        assert_eq!(read.times(5000).seconds(1), 4.0);
    }

    #[test]
    fn costs_of_something_else_are_refused_by_what_differs() {
        let costs = costs();
        costs.check("costs.json", &costs.of).unwrap();
        for (used, named) in [
            (
                Measured {
                    model: "org/other".into(),
                    ..costs.of.clone()
                },
                "org/other",
            ),
            (
                Measured {
                    dtype: "f32".into(),
                    ..costs.of.clone()
                },
                "the type q8_0, and not of f32",
            ),
            (
                Measured {
                    device: "cuda:0".into(),
                    ..costs.of.clone()
                },
                "cuda:0",
            ),
            (
                Measured {
                    threads: 8,
                    ..costs.of.clone()
                },
                "number of threads 2",
            ),
        ] {
            let error = costs.check("costs.json", &used).unwrap_err().to_string();
            assert!(
                error.contains(named) && error.contains("costs.json"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_no_cost_is_refused() {
        let good = serde_json::to_string(&costs()).unwrap();
        CostFile::parse(&good).unwrap();
        for (from, to) in [
            ("\"version\":1", "\"version\":2"),
            ("cascade-costs", "other"),
            ("\"seconds\":3.0", "\"seconds\":-3.0"),
            ("\"rows\":1,", "\"rows\":2,"),
            ("\"machine\"", "\"machines\""),
        ] {
            assert_ne!(good.replace(from, to), good);
            CostFile::parse(&good.replace(from, to)).unwrap_err();
        }
    }
}
