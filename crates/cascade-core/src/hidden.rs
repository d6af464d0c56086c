//! Hidden states: which of them a caller wants, and what a model gives.

use std::fmt;

use crate::{Matrix, NodeId, TokenTree};

/// A place between the layers of a model, where every row has a hidden state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HiddenLayer {
    /// The input of the output head: after the last layer and the final norm.
    Last,
    /// The residual stream as it enters this layer, of those from 0 on that a forward goes through
    /// (the decoder's): before the layer's norm. Layer 0 is entered by the embedding.
    Entering(usize),
}

impl fmt::Display for HiddenLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Last => f.write_str("the last hidden state"),
            Self::Entering(layer) => write!(f, "the hidden state that enters layer {layer}"),
        }
    }
}

/// A set of [`HiddenLayer`]s; empty by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HiddenLayers {
    last: bool,
    /// A bit for each layer.
    entering: [u64; 4],
}

impl HiddenLayers {
    /// Layers of a model that can be named.
    pub const MOST: usize = 256;

    /// None.
    pub const NONE: Self = Self {
        last: false,
        entering: [0; 4],
    };

    /// The last hidden state.
    pub const LAST: Self = Self {
        last: true,
        ..Self::NONE
    };

    /// The last hidden state and those that enter the first `layers` layers, 256 at most.
    pub fn up_to(layers: usize) -> Self {
        let all = (0..layers.min(Self::MOST)).map(HiddenLayer::Entering);
        all.fold(Self::LAST, Self::with)
    }

    /// Adds a layer to the set.
    ///
    /// # Panics
    /// If it enters a layer from number [`MOST`](Self::MOST) on.
    pub const fn with(mut self, layer: HiddenLayer) -> Self {
        match layer {
            HiddenLayer::Last => self.last = true,
            HiddenLayer::Entering(layer) => {
                assert!(layer < Self::MOST, "models have fewer layers");
                self.entering[layer / 64] |= 1 << (layer % 64);
            }
        }
        self
    }

    /// Everything that is in either of the two.
    pub fn union(mut self, other: Self) -> Self {
        self.last |= other.last;
        for (mine, others) in self.entering.iter_mut().zip(other.entering) {
            *mine |= others;
        }
        self
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Whether this one is among them.
    pub fn contains(self, layer: HiddenLayer) -> bool {
        match layer {
            HiddenLayer::Last => self.last,
            HiddenLayer::Entering(layer) => {
                layer < Self::MOST && self.entering[layer / 64] >> (layer % 64) & 1 == 1
            }
        }
    }

    /// All of them: the last one, then the others by layer.
    pub fn iter(self) -> impl Iterator<Item = HiddenLayer> {
        let entering = (0..Self::MOST).map(HiddenLayer::Entering);
        let all = std::iter::once(HiddenLayer::Last).chain(entering);
        all.filter(move |&layer| self.contains(layer))
    }

    /// The first of these that `other` lacks.
    pub fn lacking_in(self, other: Self) -> Option<HiddenLayer> {
        self.iter().find(|&layer| !other.contains(layer))
    }
}

/// Hidden states of a forward, by layer: a matrix each, all of the same rows. Empty if none were
/// wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HiddenStates {
    layers: Vec<(HiddenLayer, Matrix)>,
}

impl HiddenStates {
    /// Adds the states of a layer: rows of the context, if some [were
    /// wanted](crate::Want::hidden_after), the last of which is the row after the context, then one
    /// for each node.
    pub fn with(mut self, layer: HiddenLayer, states: Matrix) -> Self {
        self.layers.push((layer, states));
        self
    }

    /// The states of a layer.
    pub fn of(&self, layer: HiddenLayer) -> Option<&Matrix> {
        let mut layers = self.layers.iter();
        layers
            .find(|(of, _)| *of == layer)
            .map(|(_, states)| states)
    }

    /// The state of a layer after a node of a tree of so many nodes, or after the context if
    /// `None`.
    pub fn after(&self, layer: HiddenLayer, node: Option<NodeId>, nodes: usize) -> Option<&[f32]> {
        let states = self.of(layer)?;
        let context = states.rows().checked_sub(nodes + 1)?;
        let row = context + TokenTree::row(node);
        (row < states.rows()).then(|| states.row(row))
    }

    /// These rows and then those of `more`, of the layers that both have or, if these are none, of
    /// all that `more` has.
    pub fn followed_by(self, more: &Self) -> Self {
        if self.is_empty() {
            return more.clone();
        }
        let both = self.layers.into_iter().filter_map(|(layer, states)| {
            let behind = more.of(layer)?;
            Some((layer, states.followed_by(behind)))
        });
        Self {
            layers: both.collect(),
        }
    }

    /// The layers that there are.
    pub fn layers(&self) -> HiddenLayers {
        let layers = self.layers.iter().map(|(layer, _)| *layer);
        layers.fold(HiddenLayers::NONE, HiddenLayers::with)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }
}

/// Last hidden states.
impl From<Option<Matrix>> for HiddenStates {
    fn from(last: Option<Matrix>) -> Self {
        match last {
            None => Self::default(),
            Some(states) => Self::default().with(HiddenLayer::Last, states),
        }
    }
}

/// Last hidden states.
impl From<Matrix> for HiddenStates {
    fn from(last: Matrix) -> Self {
        Some(last).into()
    }
}
