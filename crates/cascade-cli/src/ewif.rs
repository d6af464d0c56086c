//! `cascade ewif`: what drafting can gain, by formula and by simulation.

use std::io::Write;
use std::num::NonZeroU64;
use std::process::ExitCode;

use anyhow::{ensure, Result};
use cascade_theory::{
    best_horizontal, best_speculative, best_vertical, simulate, table1, AcceptanceRate, Best,
    CostCoefficient, Drafter, Horizontal, ModelSizes, Segment, Simulated, Speculative, System,
    Table1Row, Vertical,
};
use clap::{Args, Subcommand};
use serde::Serialize;

#[derive(Debug, Subcommand)]
pub(crate) enum EwifCommand {
    /// Speculative decoding with one drafter (Corollary 4.2 of the paper).
    Speculative(SpeculativeArgs),
    /// A vertical cascade: the drafter reviews what a smaller one, below it, drafts (Theorem 4.3).
    Vertical(VerticalArgs),
    /// A horizontal cascade: several drafters, one after the other (Theorem 4.5).
    ///
    /// Give --alpha, --cost and --k once for each drafter, in the order in which they draft. Without --k the best order and
    /// numbers are found.
    Horizontal(HorizontalArgs),
    /// Table 1 of Cascade Speculative Drafting beside our figures.
    Table1(Table1Args),
}

#[derive(Debug, Args)]
pub(crate) struct SpeculativeArgs {
    /// Rate at which the target accepts the drafter's tokens, from 0 to 1.
    #[arg(long, value_name = "RATE", value_parser = acceptance, allow_negative_numbers = true)]
    alpha: AcceptanceRate,

    /// Time of a forward of the drafter over that of the target.
    #[arg(long, value_name = "RATIO", value_parser = cost, allow_negative_numbers = true)]
    cost: CostCoefficient,

    /// Tokens to draft; the best number if not given.
    #[arg(long, value_name = "TOKENS", value_parser = length())]
    k: Option<u16>,

    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct VerticalArgs {
    /// Rate at which the target accepts the drafter's tokens, from 0 to 1.
    #[arg(long, value_name = "RATE", value_parser = acceptance, allow_negative_numbers = true)]
    alpha: AcceptanceRate,

    /// Time of a forward of the drafter over that of the target.
    #[arg(long, value_name = "RATIO", value_parser = cost, allow_negative_numbers = true)]
    cost: CostCoefficient,

    /// Rate at which the drafter accepts the tokens of the one below it, from 0 to 1.
    #[arg(long, value_name = "RATE", value_parser = acceptance, allow_negative_numbers = true)]
    alpha_below: AcceptanceRate,

    /// Time of a forward of the drafter below over that of the target; 0 for a statistical one.
    #[arg(long, value_name = "RATIO", value_parser = cost, allow_negative_numbers = true)]
    cost_below: CostCoefficient,

    /// Reviews by the drafter in each step of the target; the best number if neither this nor --k is given.
    #[arg(long, value_name = "REVIEWS", value_parser = length(), requires = "k")]
    n: Option<u16>,

    /// Tokens that the drafter below drafts for each of these reviews.
    #[arg(long, value_name = "TOKENS", value_parser = length(), requires = "n")]
    k: Option<u16>,

    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct HorizontalArgs {
    /// Rate at which the target accepts a drafter's tokens, from 0 to 1.
    #[arg(long, value_name = "RATE", value_parser = acceptance, allow_negative_numbers = true, required = true)]
    alpha: Vec<AcceptanceRate>,

    /// Time of a forward of a drafter over that of the target.
    #[arg(long, value_name = "RATIO", value_parser = cost, allow_negative_numbers = true, required = true)]
    cost: Vec<CostCoefficient>,

    /// Tokens that a drafter drafts.
    #[arg(long, value_name = "TOKENS", value_parser = length())]
    k: Vec<u16>,

    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Table1Args {
    /// Parameters of the target, from which the costs follow, as 11.3e9.
    #[arg(long, value_name = "N", value_parser = parameters, allow_negative_numbers = true)]
    target_parameters: Option<NonZeroU64>,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct SearchArgs {
    /// The longest lengths to try where the best are looked for.
    #[arg(long, value_name = "TOKENS", value_parser = length(), default_value = "64", conflicts_with = "k")]
    max_k: u16,
}

impl SearchArgs {
    fn limit(&self) -> usize {
        self.max_k.into()
    }
}

#[derive(Debug, Args)]
struct OutputArgs {
    /// Play so many steps as well, token by token.
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u64).range(2..))]
    simulate: Option<u64>,

    /// Seed of the simulation.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "simulate")]
    seed: u64,

    /// Print one JSON object per system and nothing else.
    #[arg(long)]
    json: bool,
}

impl OutputArgs {
    fn play(&self, system: &impl System) -> Result<Option<Played>> {
        let play = |steps| -> Result<Played> {
            let result = simulate(system, steps, self.seed)?;
            Ok(Played {
                result,
                seed: self.seed,
            })
        };
        self.simulate.map(play).transpose()
    }
}

fn acceptance(text: &str) -> Result<AcceptanceRate> {
    Ok(AcceptanceRate::new(text.parse()?)?)
}

fn cost(text: &str) -> Result<CostCoefficient> {
    Ok(CostCoefficient::new(text.parse()?)?)
}

fn length() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(0..=1000)
}

fn parameters(text: &str) -> Result<NonZeroU64> {
    let number: f64 = text.parse()?;
    // Beyond the largest u64 the conversion stays there, and below 1 it is 0.
    let whole = NonZeroU64::new(number as u64).filter(|_| number.is_finite());
    whole.ok_or_else(|| anyhow::anyhow!("a number of parameters is at least 1, not {text}"))
}

pub(crate) fn run(command: EwifCommand) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match command {
        EwifCommand::Speculative(args) => speculative(&args)?.print(&mut out, args.output.json)?,
        EwifCommand::Vertical(args) => vertical(&args)?.print(&mut out, args.output.json)?,
        EwifCommand::Horizontal(args) => horizontal(&args)?.print(&mut out, args.output.json)?,
        EwifCommand::Table1(args) => print_table1(&mut out, &args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn speculative(args: &SpeculativeArgs) -> Result<Report> {
    let drafter = Drafter {
        acceptance: args.alpha,
        cost: args.cost,
    };
    let found = match args.k {
        Some(k) => Lengths::given(Speculative {
            drafter,
            tokens: k.into(),
        }),
        None => Lengths::best(best_speculative(drafter, args.search.limit()), &args.search),
    };
    let tokens = found.system.tokens;
    let drafters = vec![DrafterRecord::new(drafter, tokens)];
    Report::new(
        ("speculative decoding", "Corollary 4.2"),
        drafters,
        found,
        &args.output,
    )
}

fn vertical(args: &VerticalArgs) -> Result<Report> {
    let drafter = Drafter {
        acceptance: args.alpha,
        cost: args.cost,
    };
    let below = Drafter {
        acceptance: args.alpha_below,
        cost: args.cost_below,
    };
    let found = match (args.n, args.k) {
        (Some(n), Some(k)) => Lengths::given(Vertical {
            drafter,
            below,
            rounds: n.into(),
            tokens: k.into(),
        }),
        _ => Lengths::best(
            best_vertical(drafter, below, args.search.limit()),
            &args.search,
        ),
    };
    let reviewer = DrafterRecord {
        reviews: Some(found.system.rounds),
        tokens: None,
        ..DrafterRecord::new(drafter, 0)
    };
    let below = DrafterRecord {
        role: "below",
        ..DrafterRecord::new(below, found.system.tokens)
    };
    let drafters = vec![reviewer, below];
    Report::new(
        ("vertical cascade", "Theorem 4.3"),
        drafters,
        found,
        &args.output,
    )
}

fn horizontal(args: &HorizontalArgs) -> Result<Report> {
    let (rates, costs, lengths) = (args.alpha.len(), args.cost.len(), args.k.len());
    ensure!(
        rates == costs && (lengths == 0 || lengths == rates),
        "--alpha was given {rates} times, --cost {costs} times and --k {lengths} times; \
         give each once for every drafter, or no --k at all to find the best"
    );
    let drafters = args.alpha.iter().zip(&args.cost);
    let drafters = drafters.map(|(&acceptance, &cost)| Drafter { acceptance, cost });
    let found = if lengths == 0 {
        let drafters: Vec<Drafter> = drafters.collect();
        Lengths::best(
            best_horizontal(&drafters, args.search.limit()),
            &args.search,
        )
    } else {
        let segments = drafters.zip(&args.k).map(|(drafter, &k)| Segment {
            drafter,
            tokens: k.into(),
        });
        Lengths::given(Horizontal {
            segments: segments.collect(),
        })
    };
    let segments = found.system.segments.iter();
    let drafters = segments.map(|s| DrafterRecord::new(s.drafter, s.tokens));
    Report::new(
        ("horizontal cascade", "Theorem 4.5"),
        drafters.collect(),
        found,
        &args.output,
    )
}

/// A system and where its lengths come from.
struct Lengths<S> {
    system: S,
    search: Option<SearchRecord>,
}

impl<S> Lengths<S> {
    fn given(system: S) -> Self {
        Self {
            system,
            search: None,
        }
    }

    fn best(best: Best<S>, search: &SearchArgs) -> Self {
        Self {
            system: best.system,
            search: Some(SearchRecord {
                max_k: search.limit(),
                at_limit: best.at_limit,
            }),
        }
    }
}

/// What is said of one system; the fields are those of --json.
#[derive(Serialize)]
struct Report {
    system: &'static str,
    /// Where the paper has the formula.
    formula: &'static str,
    drafters: Vec<DrafterRecord>,
    /// How the best lengths were looked for, if they were.
    search: Option<SearchRecord>,
    computed: Computed,
    simulated: Option<Played>,
}

#[derive(Serialize)]
struct DrafterRecord {
    /// `drafter`, or `below` for one that drafts for a drafter.
    role: &'static str,
    alpha: f64,
    cost: f64,
    /// Reviews per step, of a drafter that reviews.
    #[serde(skip_serializing_if = "Option::is_none")]
    reviews: Option<usize>,
    /// Tokens that it drafts in one go.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<usize>,
}

impl DrafterRecord {
    fn new(drafter: Drafter, tokens: usize) -> Self {
        Self {
            role: "drafter",
            alpha: drafter.acceptance.get(),
            cost: drafter.cost.get(),
            reviews: None,
            tokens: Some(tokens),
        }
    }
}

#[derive(Serialize)]
struct SearchRecord {
    max_k: usize,
    at_limit: bool,
}

#[derive(Serialize)]
struct Computed {
    ewif: f64,
    tokens_per_step: f64,
    walltime_per_step: f64,
}

/// A simulation and its seed.
struct Played {
    result: Simulated,
    seed: u64,
}

impl Serialize for Played {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Simulated {
            ewif,
            standard_error,
            tokens_per_step,
            steps,
        } = self.result;
        serde_json::json!({
            "ewif": ewif,
            "standard_error": standard_error,
            "tokens_per_step": tokens_per_step,
            "steps": steps,
            "seed": self.seed,
        })
        .serialize(serializer)
    }
}

impl Report {
    fn new<S: System>(
        (system_name, formula): (&'static str, &'static str),
        drafters: Vec<DrafterRecord>,
        found: Lengths<S>,
        output: &OutputArgs,
    ) -> Result<Self> {
        let system = found.system;
        Ok(Self {
            system: system_name,
            formula,
            drafters,
            search: found.search,
            computed: Computed {
                ewif: system.ewif(),
                tokens_per_step: system.expected_tokens(),
                walltime_per_step: system.walltime(),
            },
            simulated: output.play(&system)?,
        })
    }

    fn print(&self, out: &mut impl Write, json: bool) -> Result<()> {
        if json {
            writeln!(out, "{}", serde_json::to_string(self)?)?;
            return Ok(());
        }
        writeln!(out, "{} ({})", self.system, self.formula)?;
        for drafter in &self.drafters {
            drafter.print(out)?;
        }
        if let Some(search) = &self.search {
            writeln!(out, "lengths    the best up to {}", search.max_k)?;
        }
        let Computed {
            ewif,
            tokens_per_step,
            walltime_per_step,
        } = self.computed;
        writeln!(out, "tokens     {tokens_per_step:.4} per step, computed")?;
        writeln!(
            out,
            "walltime   {walltime_per_step:.4} forwards of the target per step, computed"
        )?;
        writeln!(out, "EWIF       {ewif:.4} computed")?;
        if let Some(played) = &self.simulated {
            let (result, seed) = (&played.result, played.seed);
            let steps = result.steps;
            writeln!(
                out,
                "EWIF       {} simulated, {steps} steps, seed {seed}",
                with_error(result)
            )?;
        }
        self.warn(out)
    }

    fn warn(&self, out: &mut impl Write) -> Result<()> {
        let ewif = self.computed.ewif;
        match &self.search {
            Some(search) if search.at_limit && search.max_k > 0 => writeln!(
                out,
                "note: the limit of {} is reached, and longer may be faster; see --max-k",
                search.max_k
            )?,
            Some(_) if ewif == 1.0 => writeln!(out, "note: no draft pays; plain decoding is best")?,
            None if ewif < 1.0 => writeln!(out, "note: slower than plain decoding")?,
            _ => {}
        }
        Ok(())
    }
}

impl DrafterRecord {
    fn print(&self, out: &mut impl Write) -> Result<()> {
        let Self {
            role, alpha, cost, ..
        } = self;
        write!(out, "{role:<10} alpha {alpha}, cost {cost}: ")?;
        match (self.reviews, self.tokens) {
            (Some(reviews), _) => writeln!(out, "n = {reviews} reviews per step")?,
            (None, tokens) => writeln!(out, "k = {} tokens", tokens.unwrap_or_default())?,
        }
        Ok(())
    }
}

fn with_error(simulated: &Simulated) -> String {
    format!("{:.4} ± {:.4}", simulated.ewif, simulated.standard_error)
}

fn print_table1(out: &mut impl Write, args: &Table1Args) -> Result<()> {
    let mut sizes = ModelSizes::FLAN_T5;
    sizes.target = args.target_parameters.unwrap_or(sizes.target);
    let rows = table1(&sizes);
    if args.output.json {
        for row in &rows {
            writeln!(out, "{}", table1_json(row, &args.output)?)?;
        }
        return Ok(());
    }
    writeln!(
        out,
        "EWIF of Table 1, costs from {}, {} and {} parameters; ± is the standard error",
        millions(sizes.small),
        millions(sizes.base),
        millions(sizes.target)
    )?;
    writeln!(
        out,
        "{:<8} {:<11} {:>7} {:>6} {:>9} {:>16} {:>17}",
        "dataset", "drafters", "k", "paper", "computed", "simulated", "best k, computed"
    )?;
    for row in &rows {
        let simulated = match args.output.play(&row.system)? {
            Some(played) => with_error(&played.result),
            None => "-".to_owned(),
        };
        let best = format!("{}: {:.4}", lengths(&row.best.system), row.best.ewif);
        writeln!(
            out,
            "{:<8} {:<11} {:>7} {:>6.2} {:>9.4} {simulated:>16} {best:>17}",
            row.dataset,
            row.drafters.join(", "),
            lengths(&row.system),
            row.paper,
            row.ewif(),
        )?;
    }
    Ok(())
}

/// As `248M`.
fn millions(parameters: NonZeroU64) -> String {
    format!("{}M", parameters.get() as f64 / 1e6)
}

/// As `5, 3`.
fn lengths(system: &Horizontal) -> String {
    let lengths = system.segments.iter().map(|s| s.tokens.to_string());
    lengths.collect::<Vec<_>>().join(", ")
}

fn table1_json(row: &Table1Row, output: &OutputArgs) -> Result<String> {
    let tokens =
        |system: &Horizontal| -> Vec<usize> { system.segments.iter().map(|s| s.tokens).collect() };
    let record = serde_json::json!({
        "dataset": row.dataset,
        "drafters": row.drafters,
        "tokens": tokens(&row.system),
        "paper": { "ewif": row.paper },
        "computed": { "ewif": row.ewif() },
        "simulated": output.play(&row.system)?,
        "best": { "tokens": tokens(&row.best.system), "ewif": row.best.ewif },
    });
    Ok(serde_json::to_string(&record)?)
}
