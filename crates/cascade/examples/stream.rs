//! Streams text step by step, with the drafts of each level. A generation can be paused between
//! steps and dropped at any time.

use std::io::Write;

use cascade::AssembleOptions;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = cascade::demo::config()?;
    let mut cascade = config.assemble(&AssembleOptions::default())?.cascade;
    let names: Vec<String> = cascade
        .level_names()
        .into_iter()
        .map(str::to_owned)
        .collect();
    let options = config.generation.options().with_max_new_tokens(48);
    let question = "Ann has 12 shells. Tom has 3 times as many. How many shells have the two?";
    let mut generation = cascade.start(&format!("Question: {question} Answer:"), &options)?;
    while let Some(step) = generation.step()? {
        print!("{}", step.text());
        std::io::stdout().flush()?;
        let drafted = names.iter().zip(&step.levels).skip(1);
        let parts =
            drafted.map(|(name, level)| format!("{name} {} of {}", level.accepted, level.drafted));
        eprintln!(
            "  [{}; {:.1?} of {:.1?} in the target's forward]",
            parts.collect::<Vec<_>>().join(", "),
            step.timings.forward,
            step.timings.total()
        );
    }
    let output = generation.into_output();
    println!("\nended by {}", output.finish.as_str());
    Ok(())
}
