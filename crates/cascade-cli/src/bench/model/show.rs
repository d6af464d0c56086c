//! Tables of `cascade bench model`.

use std::io::Write;

use anyhow::Result;

use super::{Forward, Measured, Profile};

pub(super) fn show(out: &mut impl Write, measured: &Measured) -> Result<()> {
    show_model(out, measured)?;
    writeln!(
        out,
        "\n{:>8} {:>5} {:>10} {:>21} {:>9} {:>10} {:>8} {:>8} {:>9}",
        "context",
        "rows",
        "median ms",
        "fastest to slowest",
        "rows/s",
        "x one row",
        "GB/s",
        "memory",
        "launches"
    )?;
    measured
        .forwards
        .iter()
        .try_for_each(|forward| show_forward(out, forward))?;
    measured
        .profiles
        .iter()
        .try_for_each(|profile| show_profile(out, profile))
}

fn show_profile(out: &mut impl Write, profile: &Profile) -> Result<()> {
    let microseconds = |seconds: f64| 1e6 * seconds;
    let all: f64 = profile.purposes.iter().map(|purpose| purpose.seconds).sum();
    let launches: usize = profile.purposes.iter().map(|p| p.launches).sum();
    writeln!(
        out,
        "\n{} rows after {} tokens: {:.1} us; its {launches} launches, by purpose: {:.1} us; as many empty launches: {:.1} us",
        profile.rows,
        profile.context,
        microseconds(profile.forward_seconds),
        microseconds(all),
        microseconds(profile.empty_launches_seconds)
    )?;
    writeln!(
        out,
        "{:>26} {:>8} {:>10} {:>9} {:>7} {:>8}",
        "", "launches", "us", "us each", "share", "GB/s"
    )?;
    for purpose in &profile.purposes {
        let speed = match purpose.weight_bytes {
            0 => "-".to_owned(),
            bytes => format!("{:.0}", bytes as f64 / purpose.seconds / 1e9),
        };
        writeln!(
            out,
            "{:>26} {:>8} {:>10.1} {:>9.2} {:>6.1}% {:>8}",
            purpose.purpose,
            purpose.launches,
            microseconds(purpose.seconds),
            microseconds(purpose.seconds) / purpose.launches as f64,
            100.0 * purpose.seconds / all,
            speed
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
    let copied = match measured.copy_bytes_per_second {
        Some(copy) => format!(", copy {:.1} GB/s", copy / 1e9),
        None => String::new(),
    };
    if let Some(read) = measured.memory_bytes_per_second {
        writeln!(
            out,
            "memory bandwidth: read {:.1} GB/s{copied}; data in caches is read faster",
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
    let launches = forward
        .launches
        .map_or_else(|| "-".to_owned(), |count| count.to_string());
    writeln!(
        out,
        "{:>8} {:>5} {:>10.3} {:>21} {:>9.0} {:>10} {:>8.2} {share:>8} {:>9}",
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
        forward.bytes_per_second / 1e9,
        launches
    )?;
    Ok(())
}
