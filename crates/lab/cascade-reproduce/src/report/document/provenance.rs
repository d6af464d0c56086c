//! The provenance of figures, in HTML.

use maud::{Markup, html};

use crate::report::manifest::{Machine, Manifest, Weights};
use crate::report::text::shown;

/// Digits that identify a commit.
const SHORT_COMMIT: usize = 10;

/// One line below the title.
pub(super) fn line(manifest: &Manifest) -> Markup {
    let commit = manifest.commit.as_deref().unwrap_or("unknown");
    let short: String = commit.chars().take(SHORT_COMMIT).collect();
    html! {
        p.provenance {
            (manifest.started.strftime("%-d %B %Y").to_string()) " · commit "
            code title=(shown(commit)) { (shown(&short)) } " · " (shown(&manifest.machine.cpu))
            @for accelerator in &manifest.machine.accelerators { " · " (shown(accelerator)) }
            " · " a href="#provenance" { "how this was made" }
        }
    }
}

/// All of it, at the end.
pub(super) fn section(manifest: &Manifest) -> Markup {
    html! {
        footer id="provenance" {
            h2 { "How this was made" }
            dl.facts {
                dt { "Command" } dd { code.command { (shown(&manifest.command_line())) } }
                dt { "Commit" } dd { code { (shown(manifest.commit.as_deref().unwrap_or("unknown"))) } }
                dt { "Run" } dd { (time(manifest)) }
                dt { "Machine" } dd { (shown(&machine(&manifest.machine))) }
                (pairs("Versions", manifest.versions.iter()))
                (pairs("Seeds", manifest.seeds.iter()))
                @for weights in &manifest.models { (model(weights)) }
            }
        }
    }
}

fn time(manifest: &Manifest) -> String {
    let Some(finished) = manifest.finished else {
        return format!("{}, not finished", manifest.started);
    };
    let seconds = manifest.started.duration_until(finished).as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let took = match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {} s", seconds % 60),
        _ => format!("{hours} h {minutes} min"),
    };
    format!("{} to {finished} ({took})", manifest.started)
}

fn machine(machine: &Machine) -> String {
    let memory = machine.memory as f64 / f64::from(1 << 30);
    let mut parts = vec![
        format!("{} ({} cores)", machine.cpu, machine.cores),
        format!("{memory:.0} GiB of memory"),
    ];
    parts.extend(machine.accelerators.iter().cloned());
    parts.push(machine.os.clone());
    parts.join("; ")
}

fn pairs<'a, V: ToString + 'a>(
    name: &str,
    pairs: impl Iterator<Item = (&'a String, &'a V)>,
) -> Markup {
    let pairs: Vec<String> = pairs
        .map(|(key, value)| format!("{key} {}", value.to_string()))
        .collect();
    html! {
        @if !pairs.is_empty() { dt { (name) } dd { (shown(&pairs.join(", "))) } }
    }
}

fn model(weights: &Weights) -> Markup {
    html! {
        dt { (shown(&weights.name)) }
        dd {
            (shown(&weights.source))
            @if !weights.files.is_empty() {
                ul.hashes {
                    @for (file, hash) in &weights.files {
                        li { (shown(file)) " " code title="SHA-256" { (hash.to_string()) } }
                    }
                }
            }
        }
    }
}
