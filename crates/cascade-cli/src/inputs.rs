//! Inputs: what to generate from.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use cascade_config::{AssembleOptions, ChatTemplate, Config};
use cascade_eval::{
    Content, DataSource, Dataset, ErrorKind, ProblemSet, PromptTemplate, RandomSample, Sample,
    Selection, Solution, seed_of_turn,
};
use serde_json::{Map, Value};

use crate::args::InputArgs;
use crate::stdin;
use crate::templates::{Asked, PromptText, Template};

/// What a file of prompts is.
const PROMPTS_FORMAT: &str = "--prompts takes JSON lines, {\"prompt\": \"…\"} or {\"messages\": […]} on each; \
     a text as it is goes in by standard input: cascade run - < FILE";

/// Says what was expected where a file of prompts is not JSON.
fn of_prompts(error: cascade_eval::Error) -> anyhow::Error {
    let kind = error.kind();
    let error = anyhow::Error::from(error);
    match kind {
        ErrorKind::NotJson => error.context(PROMPTS_FORMAT),
        _ => error,
    }
}

/// Number of demo questions if no input is given, and what they are.
const DEMO_QUESTIONS: usize = 3;
const DEMO: Dataset = Dataset::Problems(ProblemSet::DEFAULT);

/// Tokens that a template may put around a turn.
const OF_TEMPLATE: usize = 256;

/// An input of one or several turns.
pub struct Input {
    sample: Sample,
    template: Arc<Template>,
    /// Fields copied to the output.
    pub fields: Map<String, Value>,
}

impl Input {
    /// An input whose first prompt can be formatted, and therefore all of them.
    fn new(sample: Sample, template: Arc<Template>, fields: Map<String, Value>) -> Result<Self> {
        // In a conversation, a blank message is one that the template puts words around.
        let is_blank = |turn: &&str| turn.trim().is_empty();
        let plain = matches!(*template, Template::Plain(_));
        if plain && sample.content.turns().iter().all(is_blank) {
            bail!(cascade_engine::Error::EmptyPrompt);
        }
        template.prompt(&sample, &[])?;
        Ok(Self {
            sample,
            template,
            fields,
        })
    }

    /// Number of turns asked.
    pub fn turns(&self) -> usize {
        self.template.turns(&self.sample.content)
    }

    /// Tokens that all turns may have with answers of so many: no token is shorter than a byte.
    pub fn most_tokens(&self, of_answer: usize) -> usize {
        let turns = self.sample.content.turns();
        let of_turn = |turn: &&str| turn.len() + OF_TEMPLATE + of_answer;
        turns.iter().map(of_turn).fold(0, usize::saturating_add)
    }

    /// The exact prompt after these answers.
    pub fn prompt(&self, answers: &[String]) -> Result<PromptText> {
        self.template.prompt(&self.sample, answers)
    }

    /// What makes its prompts.
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// Its id in the dataset.
    pub fn id(&self) -> &str {
        &self.sample.id
    }

    /// Its subject or category, if the dataset has one.
    pub fn category(&self) -> Option<&str> {
        self.sample.category.as_deref()
    }

    /// The text shown for a turn, from 0.
    pub fn title(&self, turn: usize) -> &str {
        let turns = self.sample.content.turns();
        turns.get(turn).map_or("", |title| title.trim())
    }

    /// The known result, if there is one: of questions, which are asked in one turn.
    pub fn solution(&self) -> Option<Solution> {
        self.sample.solution()
    }

    fn has_unasked_turns(&self) -> bool {
        self.sample.content.turns().len() > self.turns()
    }
}

/// One turn of an input.
pub struct Question<'a> {
    pub input: &'a Input,
    /// Index of the input, from 0.
    pub index: usize,
    /// Index of the turn, from 0.
    pub turn: usize,
    pub prompt: PromptText,
}

impl Question<'_> {
    /// Which one it is, for errors.
    pub fn place(&self) -> String {
        match self.input.turns() {
            1 => format!("prompt {}", self.index + 1),
            _ => format!("prompt {}, turn {}", self.index + 1, self.turn + 1),
        }
    }

    /// Its seed, by that of the first turn of the first input.
    pub fn seed(&self, first: u64) -> u64 {
        seed_of_turn(first, self.index, self.turn)
    }
}

/// Inputs, and the chat template of those that are conversations.
pub type Inputs = (Vec<Input>, Option<ChatTemplate>);

/// All inputs, read and checked before the first prompt is answered. `piped` is what stands on
/// standard input, if anything does: the prompt, or what a prompt that is given is about.
pub fn inputs(args: &InputArgs, config: &Config, piped: Option<String>) -> Result<Inputs> {
    let asked = Asked {
        config,
        template: args.template(),
        chat: args.chat,
        system: args.system.as_deref(),
        variables: args.chat_template_kwargs.as_ref(),
    };
    if let Some(prompt) = single(args, piped)? {
        let samples = vec![Sample::new("0", Content::Text(prompt.into()))];
        return with_templates(&asked, None, samples, |_| Map::new());
    }
    if let Some(file) = &args.prompts {
        let samples = Dataset::PROMPTS
            .read(file, selection(args))
            .map_err(of_prompts)?;
        return with_templates(&asked, None, samples, |sample| sample.fields.clone());
    }
    let template = match args.dataset.as_ref().unwrap_or(&DEMO) {
        Dataset::Problems(set) => set.template(config.prompt()),
        _ => config.prompt(),
    };
    let inputs = with_templates(&asked, Some(template), samples(args)?, Sample::carried);
    if args.chat || args.template().is_some() {
        inputs.context("--template")
    } else {
        inputs.with_context(|| format!("{}: prompt (or choose a --template)", config.label))
    }
}

/// The single prompt, if there is one.
fn single(args: &InputArgs, piped: Option<String>) -> Result<Option<String>> {
    match args.text() {
        Some("-") => stdin::prompt().map(Some),
        Some(prompt) => Ok(Some(match piped {
            Some(piped) => format!("{prompt}\n\n{piped}"),
            None => prompt.to_owned(),
        })),
        None => Ok(piped),
    }
}

/// Gives each sample its template: that of a dataset or of typed texts; conversations have one of
/// their own.
fn with_templates(
    asked: &Asked<'_>,
    of_dataset: Option<PromptTemplate>,
    samples: Vec<Sample>,
    fields: impl Fn(&Sample) -> Map<String, Value>,
) -> Result<Inputs> {
    let is_conversation = |sample: &Sample| matches!(sample.content, Content::Conversation(_));
    let any = |conversations: bool| {
        let mut samples = samples.iter();
        samples.any(|sample| is_conversation(sample) == conversations)
    };
    let of_texts = || match of_dataset {
        Some(template) => asked.template(template),
        None => asked.for_typed_texts(),
    };
    let texts = any(false).then(of_texts).transpose()?;
    let conversations = any(true).then(|| asked.for_conversations()).transpose()?;
    let chat = [&texts, &conversations]
        .into_iter()
        .flatten()
        .find_map(Template::chat);
    let chat = chat.cloned();
    let (texts, conversations) = (texts.map(Arc::new), conversations.map(Arc::new));
    let inputs = samples.into_iter().filter_map(|sample| {
        let template = if is_conversation(&sample) {
            &conversations
        } else {
            &texts
        };
        let fields = fields(&sample);
        Some(Input::new(sample, Arc::clone(template.as_ref()?), fields))
    });
    Ok((inputs.collect::<Result<_>>()?, chat))
}

/// Number of inputs with turns that their template does not ask.
pub fn cut_short(inputs: &[Input]) -> usize {
    inputs
        .iter()
        .filter(|input| input.has_unasked_turns())
        .count()
}

fn samples(args: &InputArgs) -> Result<Vec<Sample>> {
    let dataset = args.dataset.as_ref().unwrap_or(&DEMO);
    let mut selection = selection(args);
    if args.dataset.is_none() && selection.random.is_none() {
        selection.limit = selection.limit.or(Some(DEMO_QUESTIONS));
    }
    of_dataset(dataset, args.data.as_ref(), selection)
}

/// Samples of a dataset, of its file, folder or repository if it is not one that the program makes.
pub fn of_dataset(
    dataset: &Dataset,
    data: Option<&DataSource>,
    selection: Selection,
) -> Result<Vec<Sample>> {
    if let Some(data) = data {
        let AssembleOptions { hub, progress, .. } = AssembleOptions::default();
        return Ok(data.read(dataset, selection, &hub, progress)?);
    }
    match dataset.made(selection) {
        Some(samples) => Ok(samples?),
        None => bail!(
            "the dataset {dataset} is not part of the program; download it with --data hub, or give its \
             file with --data FILE (docs/datasets.md lists the sources)"
        ),
    }
}

fn selection(args: &InputArgs) -> Selection {
    let seed = args.sample_seed.unwrap_or_default();
    Selection {
        offset: args.offset,
        limit: args.limit,
        random: args.sample.map(|size| RandomSample { size, seed }),
    }
}
