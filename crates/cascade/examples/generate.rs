//! Generates text with a configured cascade: `cargo run --example generate [CONFIG]`.

use cascade::{AssembleOptions, Config};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = match std::env::args().nth(1) {
        Some(file) => Config::open(file)?,
        None => cascade::demo::config()?,
    };
    let mut cascade = config.assemble(&AssembleOptions::default())?.cascade;
    let options = config.generation.options().with_max_new_tokens(48);
    let question = "Ann has 12 shells. Tom has 3 times as many. How many shells have the two?";
    let output = cascade.generate(&format!("Question: {question} Answer:"), &options)?;
    println!("{}", output.text.as_deref().unwrap_or_default());
    println!(
        "{} tokens, {:.2} per forward of the target, {:.0}% of drafted tokens accepted",
        output.tokens.len(),
        output.mean_acceptance_length(),
        100.0 * output.draft_acceptance_rate()
    );
    Ok(())
}
