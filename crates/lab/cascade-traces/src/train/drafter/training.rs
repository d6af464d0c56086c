//! The training of a head.

use candle_core::{Device, Tensor};
use cascade_core::TokenId;
use cascade_models::HeadBasis;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::acceptance::DraftAcceptance;
use super::eagle::Eagle;
use super::layer::LayerShape;
use super::medusa::Medusa;
use super::{DrafterTexts, Text};
use crate::train::fit::{Fit, Network, Plan, check_counts, digits, mean_loss};
use crate::train::{Error, Result};

/// What kind of head is trained.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DrafterKind {
    /// EAGLE-1's layer.
    Eagle {
        /// Inner size of its feed-forward layer; 8/3 of the states' if none is said, as in LLaMA.
        inner: Option<usize>,
        /// Steps of a draft that the loss is of. In the paper 1: each row reads the target's
        /// states. Rows of further steps read what the ones before gave, as they do in drafts.
        steps: usize,
        /// The greatest noise that is added to the states that are read.
        noise: f64,
    },
    /// Medusa's heads.
    Medusa {
        /// How many: the longest draft.
        heads: usize,
    },
}

impl DrafterKind {
    /// EAGLE's layer, trained as in the paper.
    pub const EAGLE: Self = Self::Eagle {
        inner: None,
        steps: 1,
        noise: 0.1,
    };

    /// Medusa's heads, as many as in the paper.
    pub const MEDUSA: Self = Self::Medusa { heads: 5 };

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eagle { .. } => "EAGLE",
            Self::Medusa { .. } => "Medusa",
        }
    }
}

/// How to train a head that drafts.
#[derive(Clone, Debug, PartialEq)]
pub struct DrafterSettings {
    /// What is trained.
    pub kind: DrafterKind,
    /// How long and how fast; batches are of texts.
    pub plan: Plan,
}

impl DrafterSettings {
    /// The papers' number of epochs, and a learning rate for small targets.
    pub const fn new(kind: DrafterKind) -> Self {
        Self {
            kind,
            plan: Plan {
                epochs: 20,
                batch: 8,
                learning_rate: 1e-3,
                patience: 5,
                seed: 0,
                warm_up: 0.05,
                decay: 0.01,
            },
        }
    }

    fn check(&self) -> Result<()> {
        self.plan.check()?;
        let share = |what, value: f64| {
            if value.is_finite() && value >= 0.0 {
                Ok(())
            } else {
                Err(Error::setting(what, value, "give 0 or more"))
            }
        };
        share("the weight decay", self.plan.decay)?;
        match self.kind {
            DrafterKind::Eagle {
                inner,
                steps,
                noise,
            } => {
                share("the noise", noise)?;
                let inner = inner.unwrap_or(1);
                check_counts(&[
                    ("the number of steps", steps, 1, 16),
                    ("the inner size", inner, 1, 1 << 20),
                ])
            }
            DrafterKind::Medusa { heads } => check_counts(&[("the number of heads", heads, 1, 16)]),
        }
    }
}

/// A head that is being trained.
pub type DrafterTraining<'a> = Fit<Drafter<'a>>;

/// What is learned: a head, and what it shares with its target.
pub struct Drafter<'a> {
    texts: &'a DrafterTexts,
    shared: SharedWeights,
    head: Box<dyn HeadNetwork>,
    settings: DrafterSettings,
}

/// The weights that a head shares with its target, which training leaves as they are.
pub(super) struct SharedWeights {
    /// `[vocab_size, size]`.
    embedding: Tensor,
    /// The matrix from states to logits.
    pub(super) output: Tensor,
}

/// What kinds of heads differ in.
pub(super) trait HeadNetwork {
    /// Names and shapes of the weights, as files have them.
    fn parts(&self) -> Vec<(String, Vec<usize>)>;

    /// What training begins with.
    fn first_weights(&self, shared: &SharedWeights, random: &mut ChaCha8Rng)
    -> Result<Vec<Tensor>>;

    /// The mean loss of a batch, and over how many rows; `None` if there are none.
    fn loss(
        &self,
        shared: &SharedWeights,
        parameters: &[Tensor],
        batch: &[&Text],
        noise: Option<&mut ChaCha8Rng>,
    ) -> Result<Option<(Tensor, usize)>>;

    /// By place in drafts of `depth` tokens at most, the most probable token there, of drafts
    /// behind each state from that of the prompt's last token on. A draft goes on with the recorded
    /// tokens: what it says behind a wrong one does not matter.
    fn said(
        &self,
        shared: &SharedWeights,
        parameters: &[Tensor],
        text: &Text,
        depth: usize,
    ) -> Result<Vec<Vec<TokenId>>>;

    /// Its config.json.
    fn config(&self, shared: &SharedWeights) -> Value;

    /// The name of the file with its weights.
    fn file(&self) -> &'static str;
}

/// A file of a trained head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrafterFile {
    /// Its name.
    pub name: &'static str,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl<'a> DrafterTraining<'a> {
    /// Begins a training of a head for the target that `basis` is of, on texts of it.
    ///
    /// # Errors
    /// An invalid setting; texts of a target of another width.
    pub fn new(
        texts: &'a DrafterTexts,
        basis: &HeadBasis,
        settings: DrafterSettings,
    ) -> Result<Self> {
        settings.check()?;
        if texts.size() != basis.size {
            let cure = format!("give texts of the target, whose states have {}", basis.size);
            return Err(Error::setting(
                "the width of the texts' states",
                texts.size(),
                &cure,
            ));
        }
        let shape = (basis.vocab_size, basis.size);
        let matrix = |numbers: &[f32]| Tensor::from_slice(numbers, shape, &Device::Cpu);
        let shared = SharedWeights {
            embedding: matrix(&basis.embedding)?,
            output: matrix(&basis.output)?,
        };
        let head = head(&settings, basis);
        let mut random = ChaCha8Rng::seed_from_u64(settings.plan.seed);
        let weights = head.first_weights(&shared, &mut random)?;
        let plan = settings.plan;
        let network = Drafter {
            texts,
            shared,
            head,
            settings,
        };
        let fingerprint = network.fingerprint(basis);
        Self::start(network, plan, &weights, fingerprint)
    }

    /// The files of the best epoch's head, as a `head:` of a configuration reads them: config.json,
    /// and the weights in f32.
    ///
    /// # Errors
    /// Errors of the tensor library.
    pub fn files(&self) -> Result<Vec<DrafterFile>> {
        let head = &self.network.head;
        let config = serde_json::to_vec_pretty(&head.config(&self.network.shared));
        let problem = |error: &dyn std::fmt::Display| candle_core::Error::Msg(error.to_string());
        let names = head.parts().into_iter().map(|(name, _)| name);
        let weights = safetensors::serialize(names.zip(self.best()), None);
        Ok(vec![
            DrafterFile {
                name: "config.json",
                bytes: config.map_err(|error| problem(&error))?,
            },
            DrafterFile {
                name: head.file(),
                bytes: weights.map_err(|error| problem(&error))?,
            },
        ])
    }

    /// How much of the best epoch's drafts of `depth` tokens at most is right on the held-out
    /// texts. Those of Medusa are as long as there are heads.
    ///
    /// # Errors
    /// Errors of the tensor library.
    pub fn held_out(&self, depth: usize) -> Result<DraftAcceptance> {
        let network = &self.network;
        let depth = match network.settings.kind {
            DrafterKind::Eagle { .. } => depth,
            DrafterKind::Medusa { heads } => depth.min(heads),
        };
        let mut found = DraftAcceptance::new(depth);
        for text in &network.texts.split.held_out {
            let said = network
                .head
                .said(&network.shared, self.best(), text, depth)?;
            found.count(text, &said);
        }
        Ok(found)
    }
}

/// The head of these settings, not trained yet.
fn head(settings: &DrafterSettings, basis: &HeadBasis) -> Box<dyn HeadNetwork> {
    match settings.kind {
        DrafterKind::Medusa { heads } => Box::new(Medusa {
            heads,
            size: basis.size,
            vocab_size: basis.vocab_size,
        }),
        DrafterKind::Eagle {
            inner,
            steps,
            noise,
        } => {
            let (queries, kv) = basis.attention_heads;
            let usual = (basis.size * 8).div_ceil(3).next_multiple_of(32);
            Box::new(Eagle {
                shape: LayerShape {
                    size: basis.size,
                    inner: inner.unwrap_or(usual),
                    queries,
                    kv,
                    // Rotated in halves, which those of an encoder-decoder are not.
                    head: basis.head_size.next_multiple_of(2),
                    epsilon: basis.epsilon,
                },
                steps,
                noise,
                max_context: basis.max_context,
            })
        }
    }
}

impl SharedWeights {
    pub(super) fn vocab_size(&self) -> usize {
        self.output.dims()[0]
    }

    /// The embeddings of tokens, one below the other.
    pub(super) fn embedded(&self, tokens: impl Iterator<Item = TokenId>) -> Result<Tensor> {
        let tokens: Vec<TokenId> = tokens.collect();
        let count = tokens.len();
        let tokens = Tensor::from_vec(tokens, count, &Device::Cpu)?;
        Ok(self.embedding.index_select(&tokens, 0)?)
    }
}

impl Drafter<'_> {
    fn fingerprint(&self, basis: &HeadBasis) -> String {
        let mut hash = Sha256::new();
        let DrafterSettings { kind, plan } = &self.settings;
        hash.update(format!(
            "DrafterSettings {{ kind: {kind:?}, epochs: {}, batch: {}, learning_rate: {:?}, decay: {:?}, patience: {}, \
             seed: {} }} {}",
            plan.epochs, plan.batch, plan.learning_rate, plan.decay, plan.patience, plan.seed, self.texts.fingerprint
        ));
        let numbers = basis.output.iter().chain(&basis.embedding);
        numbers.for_each(|x| hash.update(x.to_le_bytes()));
        digits(hash)
    }
}

impl Network for Drafter<'_> {
    type Example = Text;

    fn examples(&self) -> &[Text] {
        &self.texts.split.training
    }

    fn loss(
        &self,
        parameters: &[Tensor],
        batch: &[&Text],
        step: usize,
    ) -> Result<Option<(Tensor, usize)>> {
        // A resumed training draws what an uninterrupted one does.
        let mut random = ChaCha8Rng::seed_from_u64(self.settings.plan.seed);
        random.set_stream(step as u64);
        self.head
            .loss(&self.shared, parameters, batch, Some(&mut random))
    }

    fn choice_loss(&self, parameters: &[Tensor]) -> Result<f64> {
        mean_loss(
            &self.texts.split.choice,
            self.settings.plan.batch,
            |batch| self.head.loss(&self.shared, parameters, batch, None),
        )
    }
}
