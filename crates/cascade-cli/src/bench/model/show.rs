//! Tables of `cascade bench model`.

use std::io::Write;

use anyhow::Result;

use super::{Forward, Measured};

pub(super) fn show(out: &mut impl Write, measured: &Measured) -> Result<()> {
    show_model(out, measured)?;
    writeln!(
        out,
        "\n{:>8} {:>5} {:>10} {:>21} {:>9} {:>10} {:>8} {:>8}",
        "context",
        "rows",
        "median ms",
        "fastest to slowest",
        "rows/s",
        "x one row",
        "GB/s",
        "memory"
    )?;
    let mut forwards = measured.forwards.iter();
    forwards.try_for_each(|forward| show_forward(out, forward))?;
    match measured.beside {
        Some(busy) => show_beside(out, busy, &measured.forwards),
        None => Ok(()),
    }
}

fn show_beside(out: &mut impl Write, busy: usize, forwards: &[Forward]) -> Result<()> {
    writeln!(
        out,
        "\n{:>8} {:>5} {:>10} {:>21} {:>9}",
        "context",
        "rows",
        "mean ms",
        format!("beside {busy} busy"),
        "speed"
    )?;
    for forward in forwards {
        let (beside, speed) = forward
            .beside_mean_seconds
            .zip(forward.beside_speed)
            .unzip();
        writeln!(
            out,
            "{:>8} {:>5} {:>10.3} {:>21.3} {:>9.2}",
            forward.context,
            forward.rows,
            1e3 * forward.mean_seconds,
            1e3 * beside.unwrap_or_default(),
            speed.unwrap_or_default()
        )?;
    }
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

fn show_forward(out: &mut impl Write, forward: &Forward) -> Result<()> {
    let relative = forward
        .cost_of_one_row
        .map_or_else(String::new, |cost| format!("{cost:.2}"));
    let share = forward
        .memory_share
        .map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", 100.0 * share));
    writeln!(
        out,
        "{:>8} {:>5} {:>10.3} {:>21} {:>9.0} {:>10} {:>8.2} {share:>8}",
        forward.context,
        forward.rows,
        1e3 * forward.median_seconds,
        format!(
            "{:.3} to {:.3}",
            1e3 * forward.fastest_seconds,
            1e3 * forward.slowest_seconds
        ),
        forward.rows_per_second,
        relative,
        forward.bytes_per_second / 1e9
    )?;
    Ok(())
}
