//! Writes an example of everything a report has. All its figures are made up: simulated, or
//! stand-ins for the paper's.
//!
//!     cargo run -p cascade-report --example demo_report -- results/demo-report

use std::path::PathBuf;

use cascade_core::LevelId;
use cascade_report::{
    Axis, Bars, Error, Evidence, Experiment, Figure, Figures, Line, Machine, Manifest, Plot,
    Record, Report, Results, Sample, Sha256, Table, Token, Weights,
};
use serde::{Deserialize, Serialize};

const ALGORITHMS: [&str; 5] = [
    "Autoregressive",
    "Speculative decoding (base)",
    "Speculative decoding (small)",
    "CS Drafting (base, Max-Gram)",
    "CS Drafting (base, small, Max-Gram)",
];
const INTERVALS: &str = "95 %, bootstrap over questions";

#[derive(Serialize, Deserialize)]
struct Answer {
    index: u64,
    id: String,
    tokens: u64,
    target_calls: u64,
}

impl Record for Answer {
    fn index(&self) -> u64 {
        self.index
    }

    fn id(&self) -> &str {
        &self.id
    }
}

fn main() -> Result<(), Error> {
    let folder = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from("results/demo-report"), PathBuf::from);
    answers(&folder)?;
    report()?.write(&folder)?;
    println!("{}", folder.join("report.html").display());
    Ok(())
}

fn answers(folder: &std::path::Path) -> Result<(), Error> {
    let experiment = Experiment::new("demo-report-1", 20);
    let mut results = Results::open(folder, &experiment)?;
    for index in 0..experiment.records {
        if !results.contains(index) {
            results.append(Answer {
                index,
                id: format!("made-up/{index}"),
                tokens: 64 + index,
                target_calls: 18 + index % 5,
            })?;
        }
    }
    Ok(())
}

fn report() -> Result<Report, Error> {
    let summary = "A page of made-up figures, to show what a report of Cascade looks like. Each column says where its \
        figures come from, ours stand beside the paper's, and every token of the samples shows which model drafted it \
        first.";
    Ok(Report::new("Cascade drafting on FLAN-T5: a demonstration", summary, manifest()?)
        .heading("Walltime improvement")
        .text("Standardized walltime improvement (SWI) counts forwards of each model at that model's cost; plain decoding \
            with the target is 1. The figures below are drawn by hand.")
        .table(table()?)
        .plot(bars()?, "Improvement by dataset. Bars of the paper are hollow, simulated ones are hatched.")
        .heading("How long to draft")
        .plot(lines()?, "Improvement by the length of drafts. The intervals are as wide as the author liked.")
        .plot(acceptance()?, "A log axis, and a curve that follows from a formula.")
        .heading("Who drafted what")
        .sample(sample()?)
        .sample(hostile()?))
}

fn manifest() -> Result<Manifest, Error> {
    let time = |text: &str| text.parse().unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let command = [
        "cascade",
        "reproduce",
        "gsm8k",
        "--limit",
        "20",
        "--note",
        "made up",
    ];
    let machine = Machine::this();
    let mut manifest = Manifest::new(
        command.map(str::to_owned).to_vec(),
        machine,
        time("2026-01-15T09:00:00Z"),
    );
    manifest.commit = Some("0123456789abcdef0123456789abcdef01234567".to_owned());
    manifest.finished = Some(time("2026-01-15T10:24:31Z"));
    manifest.versions = [("cascade", "0.1.0"), ("rustc", "1.89.0")]
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .into();
    manifest.seeds = [("sampling".to_owned(), 7), ("bootstrap".to_owned(), 11)].into();
    manifest.models = ["xxl", "base", "small"].map(weights).to_vec();
    Ok(manifest)
}

fn weights(size: &str) -> Weights {
    Weights {
        name: size.to_owned(),
        source: format!("flan-t5-{size} (made up)"),
        files: [("model.safetensors".to_owned(), Sha256::of(size.as_bytes()))].into(),
    }
}

fn with_interval(value: f64, half: f64) -> Option<Figure> {
    Some(Figure::with_interval(value, value - half, value + half))
}

fn table() -> Result<Table, Error> {
    let paper = [1.0, 2.99, 2.76, 3.27, 3.81].map(Figure::new);
    let ours = [1.0, 3.04, 2.7, 3.21, 3.88].map(Figure::new);
    let intervals = [0.0, 0.11, 0.09, 0.12, 0.14];
    let simulated = ours.iter().zip(intervals).map(|(figure, half)| match half {
        0.0 => Some(*figure),
        half => with_interval(figure.value, half),
    });
    let formula = [Some(1.0), Some(3.01), Some(2.74), None, None].map(|f| f.map(Figure::new));
    let calls = [412.0, 128.4, 141.9, 119.2, 97.6].map(|n| with_interval(n, n / 40.0));
    Table::new("Standardized walltime improvement, GSM8K (made up)")
        .labels("Algorithm", ALGORITHMS)?
        .figures(Figures::new("SWI", Evidence::Paper, paper))?
        .figures(Figures::new("SWI", Evidence::Simulated, simulated).intervals(INTERVALS))?
        .figures(Figures::new("SWI", Evidence::Computed, formula))
        .and_then(|table| {
            let calls = Figures::new("Target forwards", Evidence::Simulated, calls);
            table.figures(calls.decimals(1).intervals(INTERVALS))
        })
        .map(|table| table.note("Costs of models are those of the paper's Table 1. All figures of this table are made up."))
}

fn bars() -> Result<Plot, Error> {
    let paper = [3.81, 2.25, 1.93, 2.6];
    let plain = [3.04, 1.99, 1.7];
    let cascade = [3.88, 2.31, 1.9];
    let of = |values: [f64; 3]| {
        let missing = std::iter::once(None);
        values
            .into_iter()
            .map(|v| with_interval(v, 0.04 * v))
            .chain(missing)
    };
    Plot::bars(
        "Walltime improvement by dataset (made up)",
        ["GSM8K", "MMLU", "CNN/DailyMail", "WMT 2014 English–German"],
        Axis::new("SWI, times plain decoding"),
        vec![
            Bars::new("CS Drafting", Evidence::Paper, paper.map(Figure::new)),
            Bars::new("CS Drafting", Evidence::Simulated, of(cascade)),
            Bars::new("Speculative decoding", Evidence::Simulated, of(plain)),
        ],
    )?
    .reference("Plain decoding", Evidence::Computed, 1.0)
}

fn curve(height: f64, best: f64) -> impl Iterator<Item = (f64, Figure)> {
    (1..=12).map(move |k| {
        let k = f64::from(k);
        let value = 1.0 + height * (k / best) * (1.0 - k / best).exp();
        (
            k,
            Figure::with_interval(
                value,
                value - 0.05 * value.sqrt(),
                value + 0.05 * value.sqrt(),
            ),
        )
    })
}

fn lines() -> Result<Plot, Error> {
    let series = [
        ("base, small, Max-Gram", Evidence::Simulated, 2.8, 7.0),
        ("base, Max-Gram", Evidence::Simulated, 2.2, 6.0),
        ("base", Evidence::Simulated, 2.0, 5.0),
        ("small", Evidence::Simulated, 1.7, 6.5),
        ("Max-Gram", Evidence::Simulated, 0.6, 9.0),
    ];
    let lines =
        series.map(|(name, evidence, height, best)| Line::new(name, evidence, curve(height, best)));
    Plot::lines(
        "Walltime improvement by length of drafts (made up)",
        Axis::new("Drafted tokens per review, k"),
        Axis::new("SWI, times plain decoding"),
        lines.into(),
    )?
    .reference("CS Drafting", Evidence::Paper, 3.81)?
    .reference("Speculative decoding", Evidence::Paper, 2.99)
}

fn acceptance() -> Result<Plot, Error> {
    let formula = (1..=20).map(|i| {
        let k = f64::from(i);
        (k, Figure::new(0.75f64.powf(k)))
    });
    let simulated = [1.0, 2.0, 4.0, 8.0, 16.0].map(|k: f64| {
        let value = 0.75f64.powf(k) * (1.0 + 0.1 * k.sin());
        (k, Figure::with_interval(value, value * 0.8, value * 1.25))
    });
    Plot::lines(
        "Probability that a whole draft is kept (made up)",
        Axis::new("Drafted tokens, k"),
        Axis::new("Probability").log(),
        vec![
            Line::new("0.75 to the power of k", Evidence::Computed, formula),
            Line::new("random numbers", Evidence::Simulated, simulated),
        ],
    )
}

/// Words of a text; each step is a string of pairs of level and token.
fn steps(steps: &[&[(usize, &str)]]) -> Vec<Vec<Token>> {
    let step = |tokens: &&[(usize, &str)]| {
        let tokens = tokens.iter();
        tokens
            .map(|(level, text)| Token::new(*text, LevelId(*level)))
            .collect()
    };
    steps.iter().map(step).collect()
}

fn sample() -> Result<Sample, Error> {
    let prompt = "Q: Amalia sells 48 kites in April, and half as many in May. \
        How many kites does Amalia sell in both months?\nA:";
    Sample::new(
        "Made-up question 3",
        Evidence::Simulated,
        prompt,
        ["xxl", "base", "small", "max-gram"],
        steps(&[
            &[(1, "Amal"), (1, "ia"), (1, " sells"), (2, " "), (0, "48")],
            &[(3, "/"), (0, "2")],
            &[
                (1, " ="),
                (1, " "),
                (1, "24"),
                (2, " kites"),
                (3, " in"),
                (3, " May"),
                (0, "."),
            ],
            &[
                (1, "\n"),
                (1, "She"),
                (1, " sold"),
                (3, " "),
                (3, "48"),
                (0, "+"),
            ],
            &[(1, "24"), (1, " ="), (0, " ")],
            &[(0, "72")],
            &[
                (3, " kites"),
                (3, " al"),
                (3, "together"),
                (3, " in"),
                (3, " April"),
                (3, " and"),
                (3, " May"),
                (0, "."),
            ],
        ]),
    )
}

fn hostile() -> Result<Sample, Error> {
    Sample::new(
        "Made-up text that tries to break out",
        Evidence::Simulated,
        "</div></body><script>alert('prompt')</script> & \u{202e}backwards\u{202c} \u{0}\u{1b}[31m",
        ["target", "first", "second", "third", "fourth", "fifth"],
        steps(&[
            &[
                (0, "<b"),
                (1, ">not"),
                (2, " bold"),
                (3, "</"),
                (4, "b>"),
                (5, " either"),
            ],
            &[
                (0, "\n\tfn"),
                (1, " main"),
                (2, "() {"),
                (3, "\n\t\tif"),
                (4, " a < b"),
                (5, " && c"),
            ],
            &[
                (0, " \"quoted\""),
                (1, "\r\n"),
                (2, "</script>"),
                (3, "    four spaces"),
                (4, " 猫"),
                (5, " 👩‍🚀"),
            ],
        ]),
    )
}
