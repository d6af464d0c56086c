//! Experiments, the sums behind their tables, reports, and theory.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod documents;
mod drafters;
mod experiments;
mod ledger;
mod lengths;
mod theory;

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use cascade_config::Config;
use cascade_reproduce::report::{Machine, Manifest};
use cascade_reproduce::{Error, Experiment, Reported, Run, report};

/// The configuration of the embedded T5 family.
fn demo() -> Config {
    cascade_demo::register();
    Config::open("embedded:demo-t5").unwrap()
}

/// Runs a shard, one prompt at a time.
fn run(experiment: &Experiment, folder: &Path, shard: &str, resume: bool) -> Result<(), Error> {
    experiment.run(
        folder,
        shard.parse().unwrap(),
        resume,
        NonZeroUsize::MIN,
        || (),
    )
}

/// The report on a folder, made on a machine without a name.
fn reported(folder: &Path) -> Reported {
    let machine = Machine {
        os: String::new(),
        cpu: String::new(),
        cores: 1,
        memory: 0,
        accelerators: Vec::new(),
    };
    let manifest = Manifest::new(Vec::new(), machine, Default::default());
    report(folder, manifest).unwrap()
}

/// The runs that a folder has.
fn runs(folder: &Path) -> Vec<Run> {
    let text = fs::read_to_string(folder.join("results.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
