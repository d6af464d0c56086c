//! Tables of `cascade bench model`.

use std::io::Write;

use anyhow::Result;

use super::{Forward, Measured};
use crate::columns::{row, table};

pub(super) fn show(out: &mut impl Write, measured: &Measured) -> Result<()> {
    show_model(out, measured)?;
    let mut rows = vec![row([
        "context",
        "rows",
        "median ms",
        "fastest to slowest ms",
        "rows/s",
        "× one row",
        "GB/s",
        "of memory",
    ])];
    rows.extend(measured.forwards.iter().map(cells));
    write!(out, "\n{}", table(">", &rows))?;
    match measured.beside {
        Some(busy) => show_beside(out, busy, &measured.forwards),
        None => Ok(()),
    }
}

fn show_beside(out: &mut impl Write, busy: usize, forwards: &[Forward]) -> Result<()> {
    let beside = format!("beside {busy} busy, ms");
    let head = ["context", "rows", "mean ms", &beside, "× alone"];
    let mut rows = vec![row(head)];
    for forward in forwards {
        let (beside, speed) = forward
            .beside_mean_seconds
            .zip(forward.beside_speed)
            .unzip();
        rows.push(vec![
            forward.context.to_string(),
            forward.rows.to_string(),
            format!("{:.3}", 1e3 * forward.mean_seconds),
            format!("{:.3}", 1e3 * beside.unwrap_or_default()),
            format!("{:.2}", speed.unwrap_or_default()),
        ]);
    }
    write!(out, "\n{}", table(">", &rows))?;
    Ok(())
}

fn show_model(out: &mut impl Write, measured: &Measured) -> Result<()> {
    let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
    writeln!(
        out,
        "{}{} on {} in {}: {} parameters; a forward reads {:.3} GiB of weights in {} layers",
        measured.model,
        if measured.random_weights {
            " with random weights"
        } else {
            ""
        },
        measured.device,
        measured.dtype,
        measured.parameters,
        gib(measured.bytes_per_forward),
        measured.layers
    )?;
    if let Some(source) = measured.source {
        writeln!(out, "the source has {source} tokens")?;
    }
    if measured.texts {
        writeln!(out, "each row is of another text with its own context")?;
    }
    if let Some(peak) = measured.peak_memory_bytes {
        writeln!(out, "peak memory: {:.2} GiB", gib(peak))?;
    }
    if let Some(read) = measured.memory_bytes_per_second {
        writeln!(
            out,
            "memory bandwidth: read {:.1} GB/s; data in caches is read faster",
            read / 1e9
        )?;
    }
    Ok(())
}

fn cells(forward: &Forward) -> Vec<String> {
    let relative = forward
        .cost_of_one_row
        .map_or_else(String::new, |cost| format!("{cost:.2}"));
    let share = forward
        .memory_share
        .map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", 100.0 * share));
    let [median, fastest, slowest] = [
        forward.median_seconds,
        forward.fastest_seconds,
        forward.slowest_seconds,
    ]
    .map(|seconds| format!("{:.3}", 1e3 * seconds));
    vec![
        forward.context.to_string(),
        forward.rows.to_string(),
        median,
        format!("{fastest} to {slowest}"),
        format!("{:.0}", forward.rows_per_second),
        relative,
        format!("{:.2}", forward.bytes_per_second / 1e9),
        share,
    ]
}
