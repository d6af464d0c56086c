//! `cascade quantize`.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use cascade_config::{AssembleOptions, model_chat};
use cascade_core::fs::Existing;
use cascade_models::{
    DType, HubOptions, LoadOptions, ModelFile, Quantized, check_quantized, locate, quantize,
};
use clap::Args;
use serde_json::json;

use crate::exit::ExitCode;
use crate::{outputs, terminal};

#[derive(Debug, Args)]
pub(crate) struct QuantizeArgs {
    /// A folder or a model of the hub, or a GGUF file (of one that was split, the first part).
    model: String,

    /// The type that matrices are rounded to: q8_0, q4_0, f16, bf16 or f32.
    #[arg(long, value_name = "DTYPE")]
    dtype: DType,

    /// The GGUF file to write.
    #[arg(long, value_name = "FILE.gguf")]
    out: PathBuf,

    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &QuantizeArgs) -> Result<ExitCode> {
    let source = cascade_config::model_source(&args.model)?;
    let files = locate(&source, &LoadOptions::default())?;
    let chat = model_chat(&source, &AssembleOptions::default())?;
    let conversations = chat.as_tokenizer_config()?;
    let weights = files.weights.iter().filter_map(|file| match file {
        ModelFile::Disk(path) => Some(path.clone()),
        ModelFile::Embedded { .. } => None,
    });
    let inputs = weights.chain(source.present_files(&HubOptions::from_env()));
    let output = outputs::check(&args.out, Existing::replaced_if(args.force), inputs)?;
    let writing = || format!("cannot write {}", args.out.display());
    let file = output.begin().with_context(writing)?;
    let mut buffered = BufWriter::with_capacity(1 << 20, file.file());
    let mut warnings = Vec::new();
    let mut tell = |warning: &str| {
        terminal::note(format_args!("warning: {warning}"));
        warnings.push(warning.to_owned());
    };
    let done = quantize(&files, &conversations, args.dtype, &mut tell, &mut buffered)?;
    buffered.flush().with_context(writing)?;
    drop(buffered);
    check_quantized(&files, &ModelFile::Disk(file.temporary().to_owned()))?;
    file.commit().with_context(writing)?;
    report(args, done, &warnings)?;
    Ok(ExitCode::SUCCESS)
}

fn report(args: &QuantizeArgs, done: Quantized, warnings: &[String]) -> Result<()> {
    let mut out = terminal::stdout();
    let path = args.out.display();
    if args.json {
        let found = json!({
            "file": path.to_string(),
            "dtype": args.dtype.as_str(),
            "matrices": done.matrices,
            "bytes": done.bytes,
            "warnings": warnings,
        });
        writeln!(out, "{found}")?;
    } else {
        let (megabytes, dtype) = (done.bytes as f64 / 1e6, args.dtype);
        writeln!(
            out,
            "{path}: {} matrices in {dtype}, {megabytes:.1} MB",
            done.matrices
        )?;
    }
    Ok(())
}
