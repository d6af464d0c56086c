//! Several generations at once, whose forwards are shared.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use cascade_chat::ChatTemplate;
use cascade_core::Prompt;
use cascade_engine::{Cascade, GenerationOutput, Options};
use cascade_models::{BatchCounts, Workers};

use crate::{Assembled, Assembly, Config, LevelInfo, ModelPool, Result};

/// Cascades of one configuration on shared weights, one for each text that is generated at a time:
/// what they compute meets in forwards, so that weights are read once for all texts
/// ([`Batcher`](cascade_models::Batcher)). Each text is the one that a cascade alone gives, greedy
/// or sampled.
///
/// What changes is what is drafted, and with it counts and times: a cascade learns of acceptance
/// and of times from the texts that it has generated itself, and drafters that remember earlier
/// texts remember those alone. For schedules that go by times, a text pays for its own rows of
/// forwards ([`Participant::unpaid`](cascade_models::Participant::unpaid)).
///
/// ```
/// use cascade_config::{AssembleOptions, Config};
///
/// # cascade_demo::register();
/// let config = Config::open("embedded:demo-t5")?;
/// let options = config.generation.options().with_max_new_tokens(8);
/// let pool = config.pool(&AssembleOptions::default());
/// let mut batch = pool.assemble_batch(&config, None, 4.try_into()?)?;
/// let questions = ["Ann has 3 shells.", "Tom has 8 coins.", "Eva has 2 hats."];
/// let answers = batch.map(&questions, |cascade, question| {
///     cascade.generate(&format!("Question: {question} Answer:"), &options)
/// });
/// for answer in answers {
///     println!("{}", answer?.text.unwrap_or_default());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batch {
    cascades: Workers<Cascade>,
    /// The models and drafters of each cascade, the target first.
    pub levels: Vec<LevelInfo>,
    /// See [`Assembled::warnings`].
    pub warnings: Vec<String>,
    /// See [`Assembled::notes`].
    pub notes: Vec<String>,
}

impl ModelPool {
    /// `texts` cascades of a configuration, whose forwards are shared on a CPU. On a GPU they take
    /// turns, which a note says. With a template, they are for conversations in its form
    /// ([`Assembly::chat`]).
    ///
    /// # Errors
    /// As [`assemble`](Self::assemble).
    pub fn assemble_batch(
        &self,
        config: &Config,
        chat: Option<&ChatTemplate>,
        texts: NonZeroUsize,
    ) -> Result<Batch> {
        let mut first = None;
        let cascades = Workers::new(texts, |participant| {
            let assembly = Assembly::of(config).chat(chat).sharing(participant);
            let Assembled {
                cascade,
                levels,
                warnings,
                notes,
            } = self.assemble(assembly)?;
            first.get_or_insert((levels, warnings, notes));
            Result::Ok(cascade)
        })?;
        let (levels, warnings, mut notes) = first.unwrap_or_default();
        if texts.get() > 1 && !self.target(config)?.model.gathers() {
            let note = "on this device a forward computes one text: those of a batch take turns";
            notes.push(note.to_owned());
        }
        Ok(Batch {
            cascades,
            levels,
            warnings,
            notes,
        })
    }
}

impl Batch {
    /// Texts that are generated at a time.
    pub fn texts(&self) -> usize {
        self.cascades.count()
    }

    /// What has been computed so far, of models whose forwards are shared.
    pub fn counts(&self) -> BatchCounts {
        self.cascades.forwards()
    }

    /// Generates from tokenized prompts, each with the options that it comes with, and gives
    /// outputs in the order of the prompts. The error of one concerns it alone.
    pub fn generate_tokens(
        &mut self,
        prompts: &[(Prompt, Options)],
    ) -> Vec<cascade_engine::Result<GenerationOutput>> {
        self.map(prompts, |cascade, (prompt, options)| {
            cascade.generate_tokens(prompt, options)
        })
    }

    /// Does something with each item and a cascade, as many at a time as there are cascades, and
    /// gives results in the order of the items: as [`Workers::map`].
    pub fn map<T: Sync, R: Send>(
        &mut self,
        items: &[T],
        generate: impl Fn(&mut Cascade, &T) -> R + Sync,
    ) -> Vec<R> {
        self.cascades.map(items, generate)
    }

    /// Does what [`map`](Self::map) does, and hands each result to `take` as soon as it and all
    /// before it are there: as [`Workers::for_each`].
    ///
    /// # Panics
    /// If `generate` does, after the other items.
    pub fn for_each<T: Sync, R: Send>(
        &mut self,
        items: &[T],
        generate: impl Fn(&mut Cascade, &T) -> R + Sync,
        take: impl FnMut(R) -> ControlFlow<()>,
    ) {
        self.cascades.for_each(items, generate, take);
    }
}
