//! `cascade check-lossless --certificate`: the same bits, however a text is computed.

use std::cell::RefCell;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cascade_config::ModelPool;
use cascade_core::fs::Existing;
use cascade_core::{Decoding, Penalties, Sampling};
use cascade_eval::lossless::{BitDifference, Certificate, Certifier};
use cascade_eval::{Dataset, Error, ErrorKind, ProblemSet};
use cascade_models::{LoadedModel, ModelFile, compute_threads, cpu_features};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{CheckLosslessArgs, VIOLATED};
use crate::columns::{row, table};
use crate::exit::ExitCode;
use crate::job::Job;
use crate::outputs::{self, Printed};
use crate::progress::Progress;
use crate::terminal::{self, grouped};
use crate::{doctor, interrupt};

/// Tokens of a text, unless somebody says how many.
const LENGTH: usize = 128;
/// The temperature of texts of seeds, unless somebody says at which.
const TEMPERATURE: f32 = 0.8;

pub(super) fn run(mut args: CheckLosslessArgs, file: Option<PathBuf>) -> Result<ExitCode> {
    check(&args)?;
    let prompts = prompt_source(&mut args);
    let job = Job::new(&args.job)?;
    let output = file.map(|file| outputs::check(file, Existing::Replace, job.files(&args.job)));
    let output = output.transpose()?;
    let pool = job.pool();
    let drafters = job.assemble(&pool)?.levels.into_iter().skip(1);
    let drafters: Vec<String> = drafters.map(|level| level.name).collect();
    let begun = Instant::now();
    let certificate = certified(&args, &job, &pool)?;
    let report = json!({
        "program": format!("cascade {}", doctor::version()),
        "machine": machine(&pool.device(&job.config.target)?.spec.to_string()),
        "model": model(&*pool.target(&job.config)?)?,
        "drafters": drafters,
        "prompts": prompts,
        "sampling": described_sampling(&sampling(&job)?),
        "penalties": described_penalties(job.config.generation.sampling.penalties()),
        "seed": job.config.generation.seed,
        "tokens": args.tokens,
        "seconds": begun.elapsed().as_secs_f64(),
        "seconds_at_most": args.seconds,
        "certificate": certificate,
    });
    let printed = output.as_ref().map(|output| Printed::begin(Some(output)));
    if let Some(printed) = printed.transpose()? {
        terminal::write_json(&mut printed.out()?, &report)?;
        printed.commit()?;
    }
    if args.json {
        terminal::write_json(&mut terminal::stdout(), &report)?;
    } else {
        show(&mut terminal::stdout(), &certificate, &report)?;
    }
    Ok(ExitCode::from(if certificate.holds { 0 } else { VIOLATED }))
}

/// Refuses what a certificate cannot follow.
fn check(args: &CheckLosslessArgs) -> Result<()> {
    if args.tokens == 0 {
        bail!("--tokens must be 1 or more");
    }
    if !args.job.decoding.stop.is_empty() {
        bail!("--stop has no effect on a certificate: its texts go on after their end");
    }
    Ok(())
}

/// Says where prompts come from: from word problems if none are given, as many as are needed.
fn prompt_source(args: &mut CheckLosslessArgs) -> String {
    let input = &mut args.job.input;
    if input.is_empty() {
        let texts = usize::try_from(args.tokens / LENGTH as u64).unwrap_or(usize::MAX);
        let most = texts.saturating_add(256).min(ProblemSet::MOST);
        input.dataset = Some(Dataset::Problems(ProblemSet::DEFAULT));
        input.limit = input.limit.or(Some(most));
    }
    match (&input.prompts, &input.dataset) {
        (Some(file), _) => file.display().to_string(),
        (None, Some(dataset)) => dataset.name().into_owned(),
        (None, None) => "command line".to_owned(),
    }
}

/// How texts of seeds are sampled: as the configuration says, if it does.
fn sampling(job: &Job) -> Result<Sampling> {
    match job.options().decoding {
        Decoding::Sampled(sampling) => Ok(sampling),
        Decoding::Greedy => Ok(Sampling::new(TEMPERATURE)?),
    }
}

fn described_sampling(sampling: &Sampling) -> Value {
    json!({
        "temperature": sampling.temperature(),
        "top_k": sampling.top_k(),
        "top_p": sampling.top_p(),
        "min_p": sampling.min_p(),
    })
}

fn described_penalties(penalties: Penalties) -> Value {
    json!({
        "repetition": penalties.repetition(),
        "presence": penalties.presence(),
        "frequency": penalties.frequency(),
    })
}

fn machine(device: &str) -> Value {
    json!({
        "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        "cpu": cascade_config::cpu_model(),
        "features": cpu_features(),
        "device": device,
        "threads": compute_threads(),
    })
}

/// The model, with the digest of its files of weights, one after the other.
fn model(target: &LoadedModel) -> Result<Value> {
    let mut digest = Sha256::new();
    for file in &target.files.weights {
        match file {
            ModelFile::Embedded { bytes, .. } => digest.update(bytes),
            ModelFile::Disk(path) => {
                let read = std::fs::File::open(path);
                let read = read.and_then(|mut file| std::io::copy(&mut file, &mut digest));
                read.with_context(|| file.to_string())?;
            }
        }
    }
    let digest = digest.finalize();
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(json!({
        "name": target.name,
        "sha256": digest,
        "dtype": target.dtype.as_str(),
        "parameters": target.num_parameters(),
    }))
}

fn certified(args: &CheckLosslessArgs, job: &Job, pool: &ModelPool) -> Result<Certificate> {
    let codec = pool.assemble(&job.config.plain())?.cascade;
    let prompt = |index: usize| {
        let text = job.inputs[index].prompt(&[]).map_err(|error| {
            let problem = format!("prompt {}: {error:#}", index + 1);
            Error::new(ErrorKind::Prompt, problem)
        });
        Ok(text?.encode(&codec)?)
    };
    let end = args
        .seconds
        .map(|n| Instant::now() + Duration::from_secs(n));
    let all = usize::try_from(args.tokens).unwrap_or(usize::MAX);
    let progress = RefCell::new(Progress::new(all, "tokens"));
    interrupt::cooperate();
    let watch = |tokens: u64| {
        (0..tokens).for_each(|_| progress.borrow_mut().step());
        !interrupt::requested() && end.is_none_or(|end| Instant::now() < end)
    };
    let certifier = Certifier {
        pool,
        config: &job.config,
        prompts: job.inputs.len(),
        prompt: &prompt,
        sampling: sampling(job)?,
        seed: job.config.generation.seed,
        tokens: args.tokens,
        length: args.job.decoding.max_new_tokens.unwrap_or(LENGTH),
        watch: &watch,
    };
    Ok(certifier.run()?)
}

fn show(out: &mut impl Write, of: &Certificate, report: &Value) -> std::io::Result<()> {
    let head = row(["", "texts", "tokens", "bits", "accepted", "differ"]);
    let mut rows = vec![head];
    let model = report["model"]["name"].as_str();
    writeln!(out, "{}\n", model.unwrap_or_default())?;
    for part in &of.parts {
        let (tokens, bits) = (part.tokens, part.bits);
        let numbers = [part.texts, tokens, bits, part.accepted, part.differences].map(grouped);
        let name = format!("{}, {}", part.part, part.decoding);
        rows.push([&[name][..], &numbers].concat());
    }
    writeln!(
        out,
        "{}\n{} tokens in {:.0} s, beside {} of plain decoding by {} threads; company: {} \
         texts, {:.1} in a forward; prefix: {} positions of the own cache, {} of another session's",
        table("<>", &rows),
        grouped(of.tokens),
        report["seconds"].as_f64().unwrap_or_default(),
        grouped(of.plain_tokens),
        compute_threads(),
        of.company,
        of.texts_per_forward,
        grouped(of.cached_positions),
        grouped(of.shared_positions)
    )?;
    for difference in &of.differences {
        writeln!(out, "{}", described(difference))?;
    }
    for left_out in &of.not_covered {
        writeln!(out, "not covered: {left_out}")?;
    }
    let verdict = match (of.holds, of.not_covered.is_empty()) {
        (true, true) => "certified",
        (true, false) => "certified, but for what is not covered",
        (false, _) => "NOT CERTIFIED",
    };
    writeln!(out, "{verdict}")
}

fn described(of: &BitDifference) -> String {
    let [found, expected] = [&of.found, &of.expected].map(|found| match found {
        Some((token, bits)) => format!("{token} with bits {bits}"),
        None => "no token".to_owned(),
    });
    format!(
        "difference: {} ({}), {}, prompt {}, seed {}, token {}: {found}, and plain decoding \
         {expected}; {}",
        of.part,
        of.how,
        of.decoding,
        of.prompt + 1,
        of.seed,
        of.position + 1,
        of.settings
    )
}
