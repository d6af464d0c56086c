//! Samples in HTML.

use cascade_core::LevelId;
use maud::{Markup, html};

use crate::report::sample::Sample;
use crate::report::table::badge;
use crate::report::text::shown;

/// Styles of drafting levels that the style sheet has; levels beyond repeat them.
const STYLES: usize = 5;

/// The class of a level's tokens: the target's are plain, so that colour means saved work.
fn class(level: usize) -> String {
    match level {
        0 => "target".to_owned(),
        drafter => format!("drafter-{}", (drafter - 1) % STYLES + 1),
    }
}

pub(super) fn markup(sample: &Sample) -> Markup {
    html! {
        article.sample {
            h3 { (shown(&sample.title)) " " (badge(sample.evidence)) }
            h4 { "Prompt" }
            div.prompt { (shown(&sample.prompt)) }
            h4 { "Answer" }
            (legend(sample))
            div.answer {
                @for (i, step) in sample.steps.iter().enumerate() { (step_markup(sample, i, step)) }
            }
            p.counts { (counts(sample)) }
        }
    }
}

fn legend(sample: &Sample) -> Markup {
    html! {
        ul.legend aria-label="Who drafted which tokens" {
            @for (level, name) in sample.levels.iter().enumerate() {
                li {
                    span class={ "token " (class(level)) } { (shown(name)) }
                    span.count { (share(sample, level)) }
                }
            }
            li { span.boundary { "step" } span.count { "one forward of the target" } }
        }
    }
}

fn share(sample: &Sample, level: usize) -> String {
    let (tokens, all) = (sample.proposed_by(level), sample.tokens());
    let percent = 100.0 * tokens as f64 / all.max(1) as f64;
    format!("{tokens} · {percent:.0} %")
}

fn counts(sample: &Sample) -> String {
    let (tokens, steps) = (sample.tokens(), sample.steps.len());
    let mean = tokens as f64 / steps.max(1) as f64;
    format!("{tokens} tokens in {steps} steps, mean acceptance length {mean:.2}")
}

fn step_markup(sample: &Sample, i: usize, tokens: &[(String, LevelId)]) -> Markup {
    html! {
        span.step {
            @for (text, LevelId(level)) in tokens {
                span class={ "token " (class(*level)) }
                    title={ (shown(&sample.levels[*level])) ", step " (i + 1) } { (piece(text)) }
            }
        }
    }
}

/// The text of a token with its white space made visible by the style sheet, so that it is copied
/// as it is. A token without text of its own, such as a part of a character, is a mark.
fn piece(text: &str) -> Markup {
    let text = shown(text);
    html! {
        @if text.is_empty() { span.nothing {} }
        @for part in text.split_inclusive([' ', '\t', '\n']) {
            @let (word, space) = part.split_at(part.trim_end_matches([' ', '\t', '\n']).len());
            (word)
            @match space {
                "" => {}
                " " => span.blank { (space) },
                "\t" => span.tab { (space) },
                _ => span.line { (space) },
            }
        }
    }
}
