//! Answers many prompts, several at a time, whose forwards are shared:
//! `cargo run --release --example batch [CONFIG] [TEXTS]`.

use std::num::NonZeroUsize;
use std::time::Instant;

use cascade::{AssembleOptions, Config};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    cascade::demo::register();
    let name = std::env::args().nth(1);
    let config = Config::open(name.as_deref().unwrap_or("embedded:demo-t5"))?;
    let texts: NonZeroUsize = match std::env::args().nth(2) {
        Some(texts) => texts.parse()?,
        None => NonZeroUsize::MIN.saturating_add(7),
    };
    let pool = config.pool(&AssembleOptions::default());
    let options = config.generation.options().with_max_new_tokens(48);
    let questions: Vec<String> = (2..34)
        .map(|shells| {
            format!(
                "Question: Ann has {shells} shells. Tom has 3 times as many. How many shells have \
                 the two? Answer:"
            )
        })
        .collect();
    let mut batch = pool.assemble_batch(&config, None, texts)?;
    for note in &batch.notes {
        eprintln!("note: {note}");
    }
    let start = Instant::now();
    let answers = batch.map(&questions, |cascade, question| {
        cascade.generate(question, &options)
    });
    let mut tokens = 0;
    for answer in answers {
        let answer = answer?;
        tokens += answer.tokens.len();
        println!("{}", answer.text.as_deref().unwrap_or_default().trim());
    }
    let (seconds, counts) = (start.elapsed().as_secs_f64(), batch.counts());
    eprintln!(
        "{:.0} tokens a second; {:.1} calls and {:.1} rows in a forward",
        tokens as f64 / seconds,
        counts.calls as f64 / counts.forwards.max(1) as f64,
        counts.rows as f64 / counts.forwards.max(1) as f64,
    );
    Ok(())
}
