//! `cascade bench model --check`: do forwards say what they should?

use std::io::Write;

use anyhow::{Result, bail, ensure};
use cascade_config::model_source;
use cascade_eval::{CheckedForward, Compared, ForwardCheck};
use cascade_models::{DType, Device, LoadOptions, Session, load};
use serde::Serialize;

use super::super::options::layer_of_shape;
use super::{ModelArgs, check_scores};
use crate::columns::{row, table};

/// How far logits in bf16 may be from those of the CPU, root mean squares: sums of thousands of
/// products of numbers of 8 bits, in other orders.
const OF_BF16: f64 = 0.03;
const OF_F32: f64 = 1e-4;

#[derive(Serialize)]
struct Checked {
    model: String,
    device: String,
    dtype: String,
    /// The largest relative distance from the CPU that passes.
    tolerance: f64,
    passed: bool,
    forwards: Vec<Forward>,
}

#[derive(Serialize)]
struct Forward {
    #[serde(flatten)]
    checked: CheckedForward,
    passed: bool,
}

pub(super) fn check(args: &ModelArgs) -> Result<()> {
    check_scores(args)?;
    let options = args.load_options()?;
    let check = ForwardCheck {
        contexts: args.contexts.clone(),
        rows: args.rows.clone(),
        source: args.source,
        seed: 1,
    };
    let (model, mut session) = subject(args, &options)?;
    let mut other = on_cpu(args, &options)?;
    let other = other
        .as_mut()
        .map(|session| session as &mut dyn cascade_core::Scorer);
    let compared = check.run(&mut session, other)?;
    if compared.is_empty() {
        bail!("none of these contexts and rows fit into the model; use smaller ones");
    }
    let tolerance = match options.dtype {
        DType::F32 => OF_F32,
        _ => OF_BF16,
    };
    let invariant = session.model().is_row_invariant();
    let forward = |checked: CheckedForward| Forward {
        passed: checked.passes(tolerance, invariant),
        checked,
    };
    let forwards: Vec<_> = compared.into_iter().map(forward).collect();
    let checked = Checked {
        model,
        device: args.device.clone(),
        dtype: options.dtype.as_str().to_owned(),
        tolerance,
        passed: forwards.iter().all(|forward| forward.passed),
        forwards,
    };
    super::super::report(&checked, args.json, show)?;
    let Checked { model, device, .. } = &checked;
    ensure!(checked.passed, "forwards of {model} differ on {device}");
    Ok(())
}

/// The model on the CPU, to compare with; none if the CPU itself is checked.
fn on_cpu(args: &ModelArgs, options: &LoadOptions) -> Result<Option<Session>> {
    if options.device.is_cpu() {
        return Ok(None);
    }
    let on_cpu = LoadOptions {
        device: Device::Cpu,
        ..options.clone()
    };
    Ok(Some(subject(args, &on_cpu)?.1))
}

/// A layer of the shape, or the model, and its name.
fn subject(args: &ModelArgs, options: &LoadOptions) -> Result<(String, Session)> {
    if let Some(shape) = args.shape.shape()? {
        let session = layer_of_shape(shape, options)?.session();
        return Ok((format!("{shape}, one layer and the head"), session));
    }
    let model = args.model.as_deref().unwrap_or_default();
    let loaded = load(&model_source(model)?, options)?;
    Ok((loaded.name.clone(), loaded.session()))
}

fn show(out: &mut impl Write, checked: &Checked) -> Result<()> {
    writeln!(
        out,
        "{} in {} on {}",
        checked.model, checked.dtype, checked.device
    )?;
    let mut rows = vec![row(["context", "rows", "with", "difference"])];
    for Forward { checked, passed } in &checked.forwards {
        let percent = 100.0 * checked.distance;
        let said = match checked.differing {
            Some(0) => "none, bit for bit".to_owned(),
            Some(differing) => format!("{differing} logits, {percent:.5} %"),
            None => format!("{percent:.3} %"),
        };
        let verdict = if *passed { "" } else { "FAILS" };
        let with = match checked.compared {
            Compared::Chain => "chain",
            Compared::Tree => "tree",
            Compared::Cpu => "the CPU",
        };
        let (context, of) = (checked.context.to_string(), checked.rows.to_string());
        rows.push(row([&context, &of, with, &said, verdict]));
    }
    write!(out, "\n{}", table(">><>", &rows))?;
    Ok(())
}
