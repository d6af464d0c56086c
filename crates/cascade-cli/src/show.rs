//! Human-readable output of a generation.

use std::borrow::Cow;
use std::io::Write;
use std::time::Duration;

use anstyle::{Ansi256Color, Style};
use anyhow::Result;
use cascade_core::LevelId;
use cascade_engine::{Finish, GenerationOutput, ModelUsage};
use cascade_eval::Mark;
use cascade_eval::{Ending, Endings, Marks};

use crate::comparison::{Comparison, Comparisons};
use crate::inputs::Question;
use crate::terminal::{Out, grouped};

/// Colours of the drafters. The target's own tokens are uncoloured, so colour means saved work.
/// They are of the fixed 256, which no terminal's theme changes, and each can be read on a light
/// background and on a dark one: green, magenta, blue, orange, teal.
const PALETTE: [Ansi256Color; 5] = [
    Ansi256Color(28),
    Ansi256Color(163),
    Ansi256Color(27),
    Ansi256Color(130),
    Ansi256Color(30),
];

/// The style of tokens first proposed by a level.
pub(crate) fn style(level: LevelId) -> Style {
    match level.0 {
        0 => Style::new(),
        drafter => Style::new().fg_color(Some(PALETTE[(drafter - 1) % PALETTE.len()].into())),
    }
}

/// A text, truncated to what fits above the answer.
pub(crate) fn beginning(text: &str) -> Cow<'_, str> {
    const CHARS: usize = 800;
    match text.char_indices().nth(CHARS) {
        None => text.into(),
        Some((end, _)) => format!("{} …", &text[..end]).into(),
    }
}

pub(crate) fn dimmed() -> Style {
    Style::new().dimmed()
}

/// The names of the levels, each in its style.
pub(crate) fn legend(out: &mut Out, names: &[&str]) -> Result<()> {
    out.styled(dimmed(), "first proposed by:")?;
    for (level, name) in names.iter().enumerate() {
        write!(out, " ")?;
        out.styled(style(LevelId(level)), name)?;
    }
    writeln!(out)?;
    Ok(())
}

/// Lines about an answer, below an empty one.
pub(crate) fn dim_lines(out: &mut Out, lines: &[String]) -> Result<()> {
    writeln!(out)?;
    for line in lines {
        out.styled(dimmed(), line)?;
        writeln!(out)?;
    }
    Ok(())
}

/// The lines about all answers, below an empty one.
pub(crate) fn total(out: &mut Out, totals: &Totals, several: bool) -> Result<()> {
    let total = if several { "total: " } else { "" };
    writeln!(out, "\n{total}{}", totals.lines().join("\n"))?;
    Ok(())
}

/// Whether an answer is right, if that is known.
pub(crate) fn mark(question: &Question<'_>, generation: &GenerationOutput) -> Option<String> {
    let solution = question.input.solution()?;
    let answer = generation.text.as_deref().unwrap_or_default();
    Some(match solution.mark(answer) {
        Mark::Right => format!("right: {solution}"),
        Mark::Wrong { found } => format!("WRONG: {found}, not {solution}"),
        Mark::Missing => format!("NO RESULT: {solution} is right"),
    })
}

/// How an answer ends.
pub(crate) fn ending(generation: &GenerationOutput) -> Ending {
    let complete = matches!(generation.finish, Finish::Eos | Finish::StopSequence(_));
    Ending::of(&generation.tokens, complete)
}

/// Sums over the generations of a run.
#[derive(Default)]
pub(crate) struct Totals {
    marks: Marks,
    endings: Endings,
    prompts: usize,
    tokens: usize,
    steps: usize,
    drafted: usize,
    accepted: usize,
    /// Tokens behind those of first steps, and the time that they took.
    later: (usize, Duration),
    /// Rows of prompts that were computed, and the time of first steps.
    read: (u64, Duration),
    calls: Vec<(String, u64)>,
    /// How the answers compare with plain decoding, if they were compared.
    pub(crate) compared: Option<Comparisons>,
}

impl Totals {
    pub(crate) fn of(generation: &GenerationOutput, comparison: Option<&Comparison>) -> Self {
        let mut totals = Self::default();
        totals.add(generation, comparison);
        totals
    }

    pub(crate) fn add(&mut self, generation: &GenerationOutput, comparison: Option<&Comparison>) {
        self.prompts += 1;
        self.tokens += generation.tokens.len();
        self.steps += generation.steps.len();
        self.drafted += generation.num_draft_tokens();
        self.accepted += generation.num_accepted_draft_tokens();
        let (tokens, time) = generation.after_first();
        self.later = (self.later.0 + tokens, self.later.1 + time);
        let rows = generation
            .models
            .first()
            .map_or(0, |target| target.usage.prefill_rows);
        self.read = (self.read.0 + rows, self.read.1 + generation.first);
        self.add_calls(&generation.models);
        if let Some(comparison) = comparison {
            let compared = self.compared.get_or_insert_default();
            compared.add(comparison);
        }
    }

    /// Counts an answer to a question whose result is known.
    pub(crate) fn mark(&mut self, question: &Question<'_>, generation: &GenerationOutput) {
        if let Some(solution) = question.input.solution() {
            let answer = generation.text.as_deref().unwrap_or_default();
            self.marks.add(&solution.mark(answer));
            self.endings.add(ending(generation));
        }
    }

    fn add_calls(&mut self, models: &[ModelUsage]) {
        self.calls.resize_with(models.len(), || (String::new(), 0));
        for (sum, model) in self.calls.iter_mut().zip(models) {
            sum.0.clone_from(&model.name);
            sum.1 += model.usage.calls;
        }
    }

    /// Answers so far.
    pub(crate) fn prompts(&self) -> usize {
        self.prompts
    }

    /// What there is to say, in short lines: right answers, speed, the comparison with plain
    /// decoding, and what each model was called for.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.marked().into_iter().collect();
        lines.extend(self.short());
        lines.extend(self.compared.iter().flat_map(Comparisons::remarks));
        lines.push(self.reading());
        lines.push(self.call_list());
        lines
    }

    /// A line of totals without answers and calls.
    pub(crate) fn short(&self) -> Vec<String> {
        let compared = self.compared.as_ref().map(Comparisons::line);
        [self.speed()].into_iter().chain(compared).collect()
    }

    fn speed(&self) -> String {
        if self.tokens == 0 {
            return "0 tokens".to_owned();
        }
        let (tokens, drafted) = (self.tokens as f64, self.drafted as f64);
        let speed = format!(
            "{} tokens, {:.2} per forward, {}",
            self.tokens,
            per(tokens, self.steps as f64),
            speed(self.later),
        );
        match self.drafted {
            0 => speed,
            drafts => format!(
                "{speed}, {:.0}% of {drafts} drafted accepted",
                100.0 * per(self.accepted as f64, drafted)
            ),
        }
    }

    /// How long prompts took, up to the first tokens.
    fn reading(&self) -> String {
        let (rows, time) = self.read;
        let seconds = time.as_secs_f64();
        if rows == 0 {
            format!("prompts: read in {seconds:.1} s")
        } else {
            let rows = grouped(rows + self.prompts as u64);
            format!("prompts: {rows} tokens read in {seconds:.1} s")
        }
    }

    /// Right answers, and those that do not end.
    fn marked(&self) -> Option<String> {
        let Marks { answers, right, .. } = self.marks;
        let Endings {
            loops, at_limit, ..
        } = self.endings;
        let unfinished = match (loops, at_limit) {
            (0, 0) => String::new(),
            (loops, 0) => format!(" ({loops} in a loop)"),
            (0, limit) => format!(" ({limit} cut at the length limit)"),
            (loops, limit) => {
                format!(" ({loops} in a loop, {limit} others cut at the length limit)")
            }
        };
        (answers > 0).then(|| format!("{right} of {answers} answers right{unfinished}"))
    }

    fn call_list(&self) -> String {
        let calls: Vec<String> = self
            .calls
            .iter()
            .map(|(name, calls)| format!("{name} {calls}"))
            .collect();
        format!("calls: {}", calls.join(", "))
    }
}

/// How fast tokens were generated, if there were any but those that the prompt's reading gave.
pub(crate) fn speed((tokens, time): (usize, Duration)) -> String {
    match tokens {
        0 => "all at once".to_owned(),
        tokens => format!("{:.1} tokens/s", per(tokens as f64, time.as_secs_f64())),
    }
}

fn per(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::PALETTE;

    /// The relative luminance of an sRGB colour, as WCAG 2 defines it.
    fn luminance(rgb: [u8; 3]) -> f64 {
        let linear = rgb.map(|part| match f64::from(part) / 255.0 {
            dark if dark <= 0.04045 => dark / 12.92,
            light => ((light + 0.055) / 1.055).powf(2.4),
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    fn contrast(a: [u8; 3], b: [u8; 3]) -> f64 {
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        a.max(b) / a.min(b)
    }

    /// The colours 16 to 231 are a cube of six steps each.
    fn rgb(index: u8) -> [u8; 3] {
        const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
        let at = usize::from(index - 16);
        [STEPS[at / 36], STEPS[at / 6 % 6], STEPS[at % 6]]
    }

    #[test]
    fn colours_can_be_read_on_light_and_dark_backgrounds() {
        // White, Solarized light, black, and the dark grey of editors' terminals.
        let grounds = [
            ([0xff, 0xff, 0xff], 4.0),
            ([0xfd, 0xf6, 0xe3], 3.5),
            ([0, 0, 0], 4.0),
            ([0x1e, 0x1e, 0x1e], 3.0),
        ];
        for colour in PALETTE {
            for (ground, least) in grounds {
                let found = contrast(rgb(colour.0), ground);
                assert!(found >= least, "{} on {ground:?}: {found:.2}", colour.0);
            }
        }
    }
}
