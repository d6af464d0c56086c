//! What `cascade check-lossless` prints.

use std::io::Write;

use cascade_eval::lossless::{Compared, Comparisons, Finding, Findings};

/// Near-ties and violations printed of each.
const SHOWN: usize = 10;

pub(super) fn findings(out: &mut dyn Write, of: &Findings) -> std::io::Result<()> {
    writeln!(
        out,
        "{}: {} generations, {} tokens re-scored by the target alone: {} agree, \
         {} near-ties (logits within {}), {} violations",
        of.mode,
        of.generations,
        of.tokens,
        of.agreements,
        of.near_ties.len(),
        of.tolerance,
        of.violations.len()
    )?;
    if let Some(equal) = of.equal_to_plain {
        writeln!(
            out,
            "{equal} of {} equal plain decoding of the same seed, token by token",
            of.generations
        )?;
    }
    writeln!(
        out,
        "smallest margin of a top logit over the runner-up: {:.1e}",
        of.smallest_lead
    )?;
    for (what, findings) in [("near-tie", &of.near_ties), ("violation", &of.violations)] {
        listed(out, what, findings)?;
    }
    writeln!(out, "{}", verdict(of.lossless))
}

/// The first of them, and how many there are besides.
fn listed(out: &mut dyn Write, what: &str, findings: &[Finding]) -> std::io::Result<()> {
    for finding in findings.iter().take(SHOWN) {
        let difference = finding.difference;
        writeln!(
            out,
            "{what}: generation {}, token {}: {} emitted, {} expected, gap {}; {}",
            finding.generation + 1,
            difference.position + 1,
            difference.emitted,
            difference.expected,
            difference.gap,
            finding.settings
        )?;
    }
    match findings.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "… and {more} more"),
    }
}

pub(super) fn comparisons(out: &mut dyn Write, of: &Comparisons) -> std::io::Result<()> {
    writeln!(
        out,
        "sampled: joint distribution of the first {} tokens against the target's, enumerated",
        of.length
    )?;
    for (number, prompt) in (1..).zip(&of.prompts) {
        comparison(out, number, prompt, of.length)?;
    }
    let without = of.prompts.len() - of.tested;
    if of.tested == 0 {
        return writeln!(
            out,
            "NO VERDICT: the test has no power for any prompt; raise --samples, --length or --temperature, or \
             give prompts with less certain answers"
        );
    }
    if without > 0 {
        writeln!(
            out,
            "{without} of {} prompts tested nothing",
            of.prompts.len()
        )?;
    }
    writeln!(out, "{}", verdict(of.lossless))
}

/// One of the prompts, which are numbered from 1.
fn comparison(
    out: &mut dyn Write,
    number: usize,
    prompt: &Compared,
    length: usize,
) -> std::io::Result<()> {
    let found = &prompt.agreement;
    let Some(p) = found.p_value else {
        return writeln!(
            out,
            "prompt {number}: {} samples in 1 cell, which tests nothing: no other text of {length} tokens is \
             expected 5 times",
            found.samples
        );
    };
    writeln!(
        out,
        "prompt {number}: {} samples in {} cells; chi-square {:.1}, {} degrees of freedom, p = {p:.3}; \
         total variation {:.4}, true distance {:.4} to {:.4} (95%)",
        found.samples,
        found.cells,
        found.chi_square,
        found.degrees_of_freedom,
        found.total_variation,
        found.total_variation_at_least,
        found.total_variation_at_most
    )?;
    if prompt.violated {
        writeln!(out, "violation: {}", prompt.settings)?;
    }
    if let Some(tokens) = &found.impossible {
        writeln!(out, "probability 0 under the target: {tokens:?}")?;
    }
    Ok(())
}

fn verdict(lossless: bool) -> &'static str {
    if lossless { "lossless" } else { "NOT LOSSLESS" }
}
