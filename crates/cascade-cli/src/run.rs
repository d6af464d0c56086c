//! `cascade run`.

use std::io::Write;
use std::ops::ControlFlow;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use cascade_config::{AssembleOptions, Assembled, Config, SamplingSettings};
use cascade_core::Decoding;
use cascade_engine::{Cascade, Event, Finish, Generation, Options};

use crate::args::{Color, RunArgs};
use crate::inputs::{inputs, Input};
use crate::record::{with_carried_fields, Comparison, Record};
use crate::show::{self, Totals};

/// Exit status when the output differs from plain decoding.
const DIFFERENT: u8 = 1;

/// Tokens that both sides of a comparison generate before any is timed, so that neither pays for cold memory.
const WARM_UP_TOKENS: usize = 8;

pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    set_colors(args.color);
    let config = match &args.config {
        Some(file) => Config::open(file)?,
        None => Config::demo()?,
    };
    let inputs = inputs(args, &config)?;
    let assembled = config.assemble(&AssembleOptions {
        device: args.device.clone(),
        ..AssembleOptions::default()
    })?;
    for warning in &assembled.warnings {
        eprintln!("warning: {warning}");
    }
    let options = Options {
        max_new_tokens: args.max_new_tokens.unwrap_or(config.options.max_new_tokens),
        speculate: !args.no_speculation,
        decoding: decoding(args, config.sampling)?,
        seed: args.seed.unwrap_or(config.options.seed),
        ..config.options.clone()
    };
    let mut runner = Runner::new(assembled, options, args.compare)?;
    let totals = if args.json {
        runner.print_records(&inputs)
    } else {
        runner.print_text(&inputs)
    }?;
    Ok(match totals.unequal() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(DIFFERENT),
    })
}

/// The configuration's settings, where the arguments do not say otherwise.
fn decoding(args: &RunArgs, settings: SamplingSettings) -> Result<Decoding> {
    let settings = SamplingSettings {
        temperature: args.temperature.unwrap_or(settings.temperature),
        top_k: args.top_k.or(settings.top_k),
        top_p: args.top_p.or(settings.top_p),
        min_p: args.min_p.or(settings.min_p),
    };
    let truncates = args.top_k.is_some() || args.top_p.is_some() || args.min_p.is_some();
    if truncates && settings.truncates_in_vain() {
        bail!(
            "--top-k, --top-p and --min-p do nothing at temperature 0, which is greedy decoding; \
             give --temperature too"
        );
    }
    Ok(settings.decoding()?)
}

fn set_colors(color: Color) {
    match color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
}

struct Runner {
    cascade: Cascade,
    /// The target alone, with a session of its own: neither side profits from what the other has computed.
    plain: Option<Cascade>,
    options: Options,
    /// Of the first prompt.
    seed: u64,
}

impl Runner {
    fn new(assembled: Assembled, options: Options, compare: bool) -> Result<Self> {
        let plain = compare.then(|| assembled.plain()).transpose()?;
        let mut runner = Self {
            cascade: assembled.cascade,
            plain,
            seed: options.seed,
            options,
        };
        if runner.plain.is_some() {
            runner.warm_up()?;
        }
        Ok(runner)
    }

    fn warm_up(&mut self) -> Result<()> {
        let options = Options {
            max_new_tokens: WARM_UP_TOKENS,
            ..Options::default()
        };
        for cascade in std::iter::once(&mut self.cascade).chain(&mut self.plain) {
            cascade.generate("Hello", &options, |_| ControlFlow::Continue(()))?;
        }
        Ok(())
    }

    /// One JSON object per prompt, each as soon as it is there.
    fn print_records(&mut self, inputs: &[Input]) -> Result<Totals> {
        let mut out = std::io::stdout().lock();
        let mut totals = Totals::default();
        for (index, input) in inputs.iter().enumerate() {
            let (generation, comparison) =
                self.answer(index, input, &mut |_| ControlFlow::Continue(()))?;
            let record = Record::new(input, &generation, comparison.as_ref());
            serde_json::to_writer(&mut out, &with_carried_fields(input, &record)?)?;
            writeln!(out)?;
            out.flush()?;
            totals.add(&generation, comparison.as_ref());
        }
        Ok(totals)
    }

    /// Streaming text, and a line of statistics after each prompt and at the end.
    fn print_text(&mut self, inputs: &[Input]) -> Result<Totals> {
        let mut out = anstream::stdout().lock();
        let dim = show::dimmed();
        if self.options.speculate {
            show::legend(&mut out, &self.cascade.level_names())?;
        }
        let mut totals = Totals::default();
        for (index, input) in inputs.iter().enumerate() {
            let number = index + 1;
            writeln!(
                out,
                "\n{dim}[{number}/{}] {}{dim:#}\n",
                inputs.len(),
                input.title.trim()
            )?;
            let mut written = Ok(());
            let (generation, comparison) = self.answer(index, input, &mut |event| {
                written = show_event(&mut out, event);
                match written {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            })?;
            written?;
            writeln!(out, "{}", ending(&generation))?;
            if inputs.len() > 1 {
                let line = Totals::of(&generation, comparison.as_ref()).line();
                writeln!(out, "\n{dim}{line}{dim:#}")?;
            }
            totals.add(&generation, comparison.as_ref());
        }
        writeln!(
            out,
            "\n{}{}",
            if inputs.len() > 1 { "total: " } else { "" },
            totals.line()
        )?;
        Ok(totals)
    }

    /// Generates, and decodes plainly as well if that is wanted: before on odd prompts and after on even ones, so that a
    /// machine that changes its speed favours neither.
    fn answer(
        &mut self,
        index: usize,
        input: &Input,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<(Generation, Option<Comparison>)> {
        let plain_first = index % 2 == 1;
        self.options.seed = self.seed.wrapping_add(index as u64);
        let before = self.plainly(input, plain_first)?;
        let generation = self
            .cascade
            .generate(&input.prompt, &self.options, on_event)
            .with_context(|| format!("prompt {}", index + 1))?;
        let after = self.plainly(input, !plain_first)?;
        let comparison = before
            .or(after)
            .map(|plain| Comparison::new(&generation, plain, self.options.decoding));
        Ok((generation, comparison))
    }

    fn plainly(&mut self, input: &Input, now: bool) -> Result<Option<Generation>> {
        let Some(plain) = self.plain.as_mut().filter(|_| now) else {
            return Ok(None);
        };
        let generation =
            plain.generate(&input.prompt, &self.options, |_| ControlFlow::Continue(()))?;
        Ok(Some(generation))
    }
}

fn show_event(out: &mut impl Write, event: Event<'_>) -> std::io::Result<()> {
    if let Event::Text { text, proposer } = event {
        let style = show::style(proposer);
        write!(out, "{style}{text}{style:#}")?;
        out.flush()?;
    }
    Ok(())
}

/// Why the text ends where it does, unless the model ended it.
fn ending(generation: &Generation) -> &'static str {
    match generation.finish {
        Finish::Eos | Finish::StopSequence(_) | Finish::Cancelled => "",
        Finish::MaxNewTokens => " …",
        Finish::ContextFull => " … [the model has no position left]",
    }
}
