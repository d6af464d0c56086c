//! `cascade demo evaluate`.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use cascade_config::{
    AssembleOptions, Config, DeviceSpec, Drafter, ModelPool, PromptTemplate, Target,
};
use cascade_core::Scorer;
use cascade_data::problems::{Kind, Split};
use cascade_data::{Dataset, ProblemSet, Sample, Selection};
use cascade_engine::{Cascade, Convention, KMatrix, Options};
use cascade_eval::trace::{FirstToken, Header, Record, Recorder, Subject, Trace, TraceScorer};
use cascade_eval::{share_interval, Bootstrap, Ending, Endings, Marks};
use cascade_models::LoadedModel;
use cascade_report::{Evidence, Figure, Figures, Table};
use clap::Args;
use serde_json::{json, Value};

use crate::args::ModelArgs;
use crate::fold::{self, folded};
use crate::models::configuration;
use crate::progress::Progress;
use crate::{at_most, interrupt, job, terminal};

/// What is evaluated if nothing is named.
const DEFAULT_CONFIG: &str = "embedded:demo-t5";

#[derive(Debug, Args)]
pub(crate) struct EvaluateArgs {
    #[command(flatten)]
    models: ModelArgs,

    /// Problems of each kind, and as many of held-out templates.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = at_most(100_000))]
    limit: usize,

    /// Seed of the problems. 7 is the trainer's own evaluation.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,

    /// Prompt template [default: the configuration's if it takes the problems, else `problem`].
    #[arg(long, value_name = "NAME")]
    template: Option<PromptTemplate>,

    /// Maximum number of new tokens, overriding the configuration.
    #[arg(long, value_name = "N", value_parser = at_most(1 << 20))]
    max_new_tokens: Option<usize>,

    /// Device of all models, overriding the configuration: auto, cpu or cuda:N.
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceSpec>,

    /// Print one JSON object and nothing else.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &EvaluateArgs) -> Result<ExitCode> {
    let mut config = configuration(&args.models, args.device, DEFAULT_CONFIG)?;
    if !config.generation.options().decoding.is_greedy() {
        bail!(
            "{}: temperature: problems are answered greedily; leave it 0",
            config.label
        );
    }
    if let Some(tokens) = args.max_new_tokens {
        config.generation.max_new_tokens = tokens;
    }
    let evaluation = Evaluation::new(args, config)?;
    interrupt::cooperate();
    let mut progress = Progress::new(4 * args.limit, "problems");
    let mut found = Vec::new();
    for set in sets(args.seed) {
        found.extend(evaluation.set(set, &mut progress)?);
        if interrupt::requested() {
            drop(progress);
            terminal::note(format_args!(
                "interrupted: nothing is shown, as half a set says little"
            ));
            return Ok(interrupt::status());
        }
    }
    drop(progress);
    let mut out = terminal::stdout();
    match args.json {
        true => writeln!(out, "{}", evaluation.object(&found))?,
        false => {
            let table = evaluation.table(&found)?.to_markdown();
            write!(out, "{}", folded(&table, Some(fold::fitting())))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Problems of templates that were trained on, and beside them those of others.
fn sets(seed: u64) -> impl Iterator<Item = ProblemSet> {
    let of_kind =
        move |kind| [Split::Test, Split::HeldOut].map(|split| ProblemSet { kind, split, seed });
    Kind::ALL.into_iter().flat_map(of_kind)
}

/// The models, loaded.
struct Evaluation<'a> {
    args: &'a EvaluateArgs,
    config: Config,
    pool: ModelPool,
    target: Arc<LoadedModel>,
}

/// What was found on one set of problems.
struct Found {
    set: ProblemSet,
    template: PromptTemplate,
    marks: Marks,
    endings: Endings,
    /// By drafter, in the order of the configuration.
    drafters: Vec<FirstToken>,
}

impl<'a> Evaluation<'a> {
    fn new(args: &'a EvaluateArgs, config: Config) -> Result<Self> {
        let pool = config.pool(&AssembleOptions::default().with_device(args.device));
        let target = pool.target(&config)?;
        job::say_notes(&pool.notes());
        Ok(Self {
            args,
            config,
            pool,
            target,
        })
    }

    fn options(&self) -> Options {
        self.config.generation.options()
    }

    /// `None` if it was interrupted.
    fn set(&self, set: ProblemSet, progress: &mut Progress) -> Result<Option<Found>> {
        let samples = Dataset::Problems(set)
            .made(Selection::first(self.args.limit))
            .context("problems are made by the program")??;
        let template = self
            .args
            .template
            .unwrap_or_else(|| set.template(self.config.prompt));
        let mut found = Found {
            set,
            template,
            marks: Marks::default(),
            endings: Endings::default(),
            drafters: Vec::new(),
        };
        let mut records = Vec::with_capacity(samples.len());
        let mut recorder = self.recorder()?;
        for sample in &samples {
            if interrupt::requested() {
                return Ok(None);
            }
            let prompt = recorder.encode(&sample.prompt(template)?)?;
            let subject = Subject::new(&sample.id);
            let (record, text) = recorder.record(subject, &prompt, |_| {})?;
            found.mark(sample, &record, text.as_deref().unwrap_or_default());
            records.push(record);
            progress.step();
        }
        found.drafters = self.first_tokens(records)?;
        Ok(Some(found))
    }

    fn recorder(&self) -> Result<Recorder> {
        let codec = Arc::new(self.target.tokenizer.clone());
        Ok(Recorder::new(
            &self.config.target.name,
            self.target.session(),
            self.eos(),
            Some(codec),
            &self.options(),
        )?)
    }

    fn eos(&self) -> Vec<u32> {
        match self.config.generation.ignore_eos {
            true => Vec::new(),
            false => self.target.eos_token_ids.clone(),
        }
    }

    /// How often the first token of each drafter is kept, with the recorded answers as the
    /// target's.
    fn first_tokens(&self, records: Vec<Record>) -> Result<Vec<FirstToken>> {
        let session = self.target.session();
        let mut header = Header::measured(
            &self.config.target.name,
            session.info().architecture,
            &self.target.tokenizer.fingerprint(),
            session.info().vocab_size,
            &self.options(),
        );
        header.max_context = session.info().max_context;
        header.eos = self.eos();
        let trace = Arc::new(Trace::new("the target's answers", header, records)?);
        let drafters = self.config.drafters().iter();
        drafters
            .map(|drafter| self.of_drafter(drafter, &trace))
            .collect()
    }

    fn of_drafter(&self, drafter: &Drafter, trace: &Arc<Trace>) -> Result<FirstToken> {
        let mut cascade = self.alone(drafter, trace)?;
        let mut found = FirstToken::default();
        for record in &trace.records {
            if interrupt::requested() {
                break;
            }
            found.add(&mut cascade, record, &self.options())?;
        }
        Ok(found)
    }

    /// A cascade of the recorded target and one drafter, which drafts one token at a time.
    fn alone(&self, drafter: &Drafter, trace: &Arc<Trace>) -> Result<Cascade> {
        let k = KMatrix::new(vec![vec![1]], Convention::Added)?;
        let mut config = self
            .config
            .clone()
            .with_drafters(vec![drafter.clone()], k)?;
        config.max_nodes = 1;
        let scorer = TraceScorer::new(trace.clone())?;
        let target = Target::new(scorer, &trace.label, trace.header.tokenizer())
            .with_eos(trace.header.eos.iter().copied());
        Ok(self.pool.assemble_with_target(&config, target)?.cascade)
    }

    fn drafter_names(&self) -> Vec<&str> {
        self.config.drafters().iter().map(Drafter::name).collect()
    }

    fn table(&self, found: &[Found]) -> Result<Table> {
        let title = format!("{} on word problems", self.config.target.name);
        let exact = found
            .iter()
            .map(|found| share(found.marks.right, found.marks.answers));
        let mut table = Table::new(title)
            .labels("Problems", found.iter().map(|found| name(found.set)))?
            .figures(percent("right", Evidence::Measured, exact).intervals(SHARES))?
            .figures(percent(
                "no result",
                Evidence::Measured,
                found
                    .iter()
                    .map(|found| whole(found.marks.missing, found.marks.answers)),
            ))?
            .figures(percent(
                "loops",
                Evidence::Measured,
                found
                    .iter()
                    .map(|found| whole(found.endings.loops, found.endings.answers)),
            ))?
            .figures(percent(
                "at limit",
                Evidence::Measured,
                found
                    .iter()
                    .map(|found| whole(found.endings.at_limit, found.endings.answers)),
            ))?;
        for (drafter, drafter_name) in self.drafter_names().into_iter().enumerate() {
            let kept = found
                .iter()
                .map(|found| first_token(&found.drafters[drafter]));
            table = table
                .figures(percent(drafter_name, Evidence::Replayed, kept).intervals(BOOTSTRAP))?;
        }
        let templates: Vec<&str> = found.iter().map(|found| found.template.name()).collect();
        let few = match self.args.limit < FEWEST {
            true => format!(" Too few for a verdict: give --limit {FEWEST} or more."),
            false => String::new(),
        };
        Ok(table
            .note(format!(
                "{} problems of each set, the first of seed {}, greedy, at most {} new tokens; asked \
                 with {}.{few}",
                self.args.limit,
                self.args.seed,
                self.config.generation.max_new_tokens,
                distinct(&templates).join(", "),
            ))
            .note(
                "right: share of answers with the known number or letter. loops: answers whose end \
                 repeats itself; at limit: others that did not end.",
            )
            .note(
                "Columns of drafters: share of steps in which the target keeps the first token that \
                 the drafter proposes, each drafter alone, one token a step, on the target's own \
                 answers.",
            ))
    }

    fn object(&self, found: &[Found]) -> Value {
        let names = self.drafter_names();
        let sets = found.iter().map(|found| found.object(&names));
        json!({
            "target": self.config.target.name,
            "config": self.config.label,
            "seed": self.args.seed,
            "max_new_tokens": self.config.generation.max_new_tokens,
            "sets": sets.collect::<Vec<_>>(),
        })
    }
}

/// Problems below which nothing is concluded.
const FEWEST: usize = 30;

const SHARES: &str = "95 %, Clopper and Pearson";
const BOOTSTRAP: &str = "95 %, percentile bootstrap over problems";

fn name(set: ProblemSet) -> String {
    let kind = match set.kind {
        Kind::WordProblem => "word problems",
        Kind::MultipleChoice => "multiple choice",
    };
    match set.split {
        Split::HeldOut => format!("{kind}, held-out templates"),
        split => format!("{kind}, {split}"),
    }
}

fn distinct<'t>(names: &[&'t str]) -> Vec<&'t str> {
    let mut distinct = names.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

fn percent(
    header: &str,
    evidence: Evidence,
    shares: impl Iterator<Item = Option<Figure>>,
) -> Figures {
    Figures::new(header, evidence, shares.collect::<Vec<_>>())
        .unit("%")
        .decimals(1)
}

fn whole(part: usize, all: usize) -> Option<Figure> {
    (all > 0).then(|| Figure::new(100.0 * part as f64 / all as f64))
}

fn share(part: usize, all: usize) -> Option<Figure> {
    let (low, high) = share_interval(part, all)?;
    let value = 100.0 * part as f64 / all as f64;
    Some(Figure::with_interval(value, 100.0 * low, 100.0 * high))
}

fn first_token(found: &FirstToken) -> Option<Figure> {
    let value = 100.0 * found.share()?;
    Some(match found.interval(Bootstrap::default()) {
        None => Figure::new(value),
        Some((low, high)) => Figure::with_interval(value, 100.0 * low, 100.0 * high),
    })
}

impl Found {
    fn mark(&mut self, sample: &Sample, record: &Record, text: &str) {
        let complete = record.finish.ends_text();
        self.endings.add(Ending::of(&record.output, complete));
        if let Some(solution) = sample.solution() {
            self.marks.add(&solution.mark(text));
        }
    }

    fn object(&self, drafters: &[&str]) -> Value {
        let acceptance = drafters.iter().zip(&self.drafters).map(|(name, found)| {
            json!({
                "drafter": name,
                "drafts": found.drafted(),
                "first_token_accepted": found.share(),
                "interval": found.interval(Bootstrap::default()),
            })
        });
        let answers = self.marks.answers;
        json!({
            "kind": self.set.kind.name(),
            "split": self.set.split.name(),
            "template": self.template.name(),
            "problems": answers,
            "right": self.marks.right,
            "exact": (answers > 0).then(|| self.marks.right as f64 / answers as f64),
            "interval": share_interval(self.marks.right, answers),
            "no_result": self.marks.missing,
            "loops": self.endings.loops,
            "at_limit": self.endings.at_limit,
            "drafters": acceptance.collect::<Vec<_>>(),
        })
    }
}
