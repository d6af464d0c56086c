//! Busy processes beside a measurement, as on a machine that does other things too.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use cascade_core::Scorer;
use cascade_eval::{ForwardBench, ForwardCost};

/// What `bench` has in place of a command in such a process.
pub(in crate::bench) const COMMAND: &str = "busy-until-stdin-ends";

/// The least time of all forwards of a number of rows: every process has its turns in it.
const SECONDS: f64 = 2.0;

/// Processes that compute until this is dropped, or this process ends in whatever way.
struct Busy(Vec<Child>);

impl Busy {
    fn start(count: usize) -> Result<Self> {
        let program = std::env::current_exe()?;
        let mut busy = Self(Vec::new());
        for _ in 0..count {
            let mut command = Command::new(&program);
            command.args(["bench", COMMAND]).stdin(Stdio::piped());
            let child = command.stdout(Stdio::null()).spawn();
            busy.0
                .push(child.with_context(|| format!("starting {}", program.display()))?);
        }
        Ok(busy)
    }

    /// Fails if one has ended, as where this program is not the one that a process starts with.
    fn check(&mut self) -> Result<()> {
        for child in &mut self.0 {
            if let Some(status) = child.try_wait()? {
                bail!("a busy process ended too early: {status}");
            }
        }
        Ok(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended needs no end.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Computes until standard input ends.
pub(in crate::bench) fn busy() {
    let waits = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    while !waits.is_finished() {
        std::hint::spin_loop();
    }
}

/// What forwards take beside so many busy processes, where they take `alone` without any.
pub(super) fn costs(
    count: usize,
    bench: &ForwardBench,
    alone: &[ForwardCost],
    scorer: &mut dyn Scorer,
) -> Result<Vec<ForwardCost>> {
    let times = alone.iter().map(|cost| cost.mean.as_secs_f64());
    let fastest = times.fold(f64::INFINITY, f64::min).max(1e-6);
    let bench = ForwardBench {
        repeats: bench.repeats.max((SECONDS / fastest) as usize),
        ..bench.clone()
    };
    let mut busy = Busy::start(count)?;
    let costs = bench.run(scorer)?;
    busy.check()?;
    Ok(costs)
}
