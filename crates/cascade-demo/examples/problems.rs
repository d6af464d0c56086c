//! Writes problems as JSON lines: `cargo run --example problems -- KIND SPLIT SEED COUNT`.

use std::io::{BufWriter, Write};

use cascade_demo::problems::problems;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, split, seed, count] = arguments.as_slice() else {
        return Err("usage: problems KIND SPLIT SEED COUNT".into());
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    for problem in problems(kind.parse()?, split.parse()?, seed.parse()?).take(count.parse()?) {
        let line = serde_json::json!({
            "template": problem.template,
            "question": problem.question,
            "choices": problem.choices,
            "answer": problem.solution,
        });
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}
