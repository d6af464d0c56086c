//! What forwards of several texts cost: a row of each of N texts in one forward, beside N rows of
//! one text and a single row, by wall-clock and by CPU time of the same run, in turns.
//!
//! `cargo run --release --example texts -p cascade-eval -- SHAPE DTYPE CONTEXT TEXTS ROUNDS`, such
//! as `tinyllama-1.1b q8_0 256 16 9`.

use std::time::{Duration, Instant};

use cascade_core::{Architecture, Scorer, TokenId, TokenTree, Want};
use cascade_eval::cpu_time;
use cascade_models::{parse_dtype, random_model, score_together, shape, LoadOptions, ScoreCall};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg =
        |number: usize, default: &str| args.get(number).map_or(default, String::as_str).to_owned();
    let (name, dtype) = (arg(0, "tinyllama-1.1b"), arg(1, "q8_0"));
    let (context, texts): (usize, usize) = (arg(2, "256").parse()?, arg(3, "16").parse()?);
    let rounds: usize = arg(4, "9").parse()?;
    let options = LoadOptions {
        dtype: parse_dtype(&dtype)?,
        ..LoadOptions::default()
    };
    let config = shape(&name).ok_or("no such shape: see `cascade bench model --help`")?;
    let model = random_model(config, &options)?;
    let tokens = model.info().vocab_size as TokenId;
    let context: Vec<TokenId> = (0..context as TokenId)
        .map(|i| (7 * i + 1) % tokens)
        .collect();
    let mut sessions: Vec<_> = (0..texts).map(|_| model.session()).collect();
    if model.info().architecture == Architecture::EncoderDecoder {
        for session in &mut sessions {
            session.set_source(&context)?;
        }
    }
    let (single, chain) = (TokenTree::new(), TokenTree::chain(0..texts as TokenId - 1));
    let mut forward = |texts: usize, tree: &TokenTree| -> Result<[Duration; 2], Error> {
        let calls = sessions[..texts].iter_mut().map(|session| ScoreCall {
            session,
            context: &context,
            tree,
            want: Want::ARGMAX,
        });
        let calls = calls.collect();
        let (start, before) = (Instant::now(), cpu_time().unwrap_or_default());
        for scores in score_together(calls) {
            scores?;
        }
        let cpu = cpu_time().unwrap_or_default().saturating_sub(before);
        Ok([start.elapsed(), cpu])
    };
    // The contexts are read.
    forward(texts, &single)?;
    let kinds = [(1, &single), (1, &chain), (texts, &single)];
    let mut times = [(); 3].map(|()| Vec::new());
    for _ in 0..rounds {
        for ((texts, tree), times) in kinds.into_iter().zip(&mut times) {
            times.push(forward(texts, tree)?);
        }
    }
    let said = ["1 row", "all rows of one text", "a row of each text"];
    println!(
        "{name}, {dtype}, {texts} rows behind {} tokens, ms: wall, CPU",
        context.len()
    );
    let one = times[0].clone();
    for (said, times) in said.into_iter().zip(times) {
        let column = |times: &[[Duration; 2]], column: usize| {
            let mut times: Vec<f64> = times
                .iter()
                .map(|both| 1e3 * both[column].as_secs_f64())
                .collect();
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let [wall, cpu] = [0, 1].map(|number| column(&times, number));
        let [wall_of_one, cpu_of_one] = [0, 1].map(|number| column(&one, number));
        println!(
            "{said:22} {wall:8.1} ({:.2}) {cpu:8.1} ({:.2})",
            wall / wall_of_one,
            cpu / cpu_of_one
        );
    }
    Ok(())
}
