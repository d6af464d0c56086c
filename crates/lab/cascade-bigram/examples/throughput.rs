//! Counting against tokenizing alone: the same text, the same threads, one run.
//!
//! ```text
//! cargo run --release -p cascade-bigram --example throughput -- \
//!     tokenizer.json THREADS [--rounds N] INPUT…
//! ```
//!
//! Tokenizing alone is `encode_batch` of the `tokenizers` library, without special tokens, over the
//! documents' text, which lies in memory. Counting is all of `cascade-lab bigram build`: reading
//! the inputs, stripping, tokenizing, counting, and the table on the disk. Both are done by turns,
//! once to warm up and then so many rounds; medians are compared. Counting is shown for the inputs
//! as they are, and for their text as a plain file.

use std::error::Error;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cascade_bigram::corpus::{Corpus, Options};
use cascade_bigram::{Job, Memory, Status, build};
use cascade_core::Fingerprint;
use cascade_ngram::NgramLimits;
use tokenizers::Tokenizer;

type Anything<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Anything<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut rounds = 5;
    if let Some(at) = args.iter().position(|arg| arg == "--rounds") {
        rounds = args.remove(at + 1).parse()?;
        args.remove(at);
    }
    let [tokenizer, threads, inputs @ ..] = &args[..] else {
        return Err("usage: throughput tokenizer.json THREADS [--rounds N] INPUT…".into());
    };
    let threads: NonZeroUsize = threads.parse()?;
    // Read by the library's thread pool when it is first used.
    // SAFETY: no other thread runs yet.
    #[allow(unsafe_code)]
    unsafe {
        std::env::set_var("RAYON_NUM_THREADS", threads.to_string());
    }
    let tokenizer = Tokenizer::from_file(tokenizer)?;
    let inputs: Vec<PathBuf> = inputs.iter().map(PathBuf::from).collect();
    let texts = texts(&inputs)?;
    let folder = tempfile::tempdir()?;
    let plain = folder.path().join("text");
    std::fs::write(&plain, texts.join("\n\n"))?;
    let bytes: usize = texts.iter().map(String::len).sum();

    let (mut alone, mut from_inputs, mut from_text) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let begin = Instant::now();
        let encodings = tokenizer.encode_batch(texts.clone(), false)?;
        let times = [
            begin.elapsed(),
            count(&tokenizer, threads, &inputs, folder.path())?,
            count(
                &tokenizer,
                threads,
                std::slice::from_ref(&plain),
                folder.path(),
            )?,
        ];
        let tokens: usize = encodings.iter().map(|encoding| encoding.len()).sum();
        if round == 0 {
            println!(
                "{} documents, {bytes} bytes of text, {tokens} tokens, {threads} threads",
                texts.len()
            );
            continue;
        }
        alone.push(times[0]);
        from_inputs.push(times[1]);
        from_text.push(times[2]);
    }
    let base = median(&mut alone);
    for (what, time) in [
        ("encode_batch alone", base),
        ("build, from the inputs", median(&mut from_inputs)),
        ("build, from plain text", median(&mut from_text)),
    ] {
        println!(
            "{what:<24} {:>7.3} s, {:>6.2} MB of text/s, {:.2} of encode_batch",
            time.as_secs_f64(),
            bytes as f64 / 1e6 / time.as_secs_f64(),
            base.as_secs_f64() / time.as_secs_f64()
        );
    }
    Ok(())
}

fn texts(inputs: &[PathBuf]) -> Anything<Vec<String>> {
    let corpus = Corpus::open(inputs, Options::default())?;
    corpus.map(|document| Ok(document?.into_text())).collect()
}

fn count(
    tokenizer: &Tokenizer,
    threads: NonZeroUsize,
    inputs: &[PathBuf],
    folder: &Path,
) -> Anything<Duration> {
    let begin = Instant::now();
    let vocabulary = tokenizer.get_vocab(true);
    let job = Job {
        inputs,
        output: &cascade_core::fs::Output::replacing(folder.join("table")),
        encode: &|text| Ok(tokenizer.encode_fast(text, false)?.get_ids().to_vec()),
        fingerprint: &Fingerprint::from_stored("not asked for"),
        vocab_size: vocabulary.values().max().map_or(0, |&id| id as usize + 1),
        unique_sentences: false,
        limit_pages: None,
        memory: Memory::Process(2 << 30),
        threads,
        checkpoint: Duration::from_secs(300),
        resume: false,
        command: "throughput",
        status: &Status::default(),
    };
    build(&job, 1, NgramLimits::default())?;
    Ok(begin.elapsed())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}
