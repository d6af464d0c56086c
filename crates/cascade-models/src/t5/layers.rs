//! T5's layers.

use cascade_core::Architecture;

use super::config::{T5Config, relative_position_bucket};
use crate::Result;
use crate::backend::{
    Activation, AttentionSpan, Backend, Forward, Heads, Layers, LinearSpec, Loader, ModelInfo,
    RelativeBias, Vocabulary,
};

#[derive(Debug)]
struct T5<B: Backend> {
    activation: Activation,
    embedding: B::Table,
    encoder: Stack<B>,
    decoder: Stack<B>,
    head: B::Linear,
    /// What hidden states are multiplied with before the head: d_model^-0.5 in T5 v1.0.
    scale: Option<f64>,
}

/// The layers of the encoder, or of the decoder.
#[derive(Debug)]
struct Stack<B: Backend> {
    bias: B::RelativeBias,
    layers: Vec<Layer<B>>,
    norm: B::Norm,
}

#[derive(Debug)]
struct Layer<B: Backend> {
    norm: B::Norm,
    qkv: B::Linear,
    output: B::Linear,
    /// What a decoder has between self-attention and feed-forward.
    cross: Option<CrossAttention<B>>,
    feed_forward: FeedForward<B>,
}

#[derive(Debug)]
struct CrossAttention<B: Backend> {
    norm: B::Norm,
    queries: B::Linear,
    keys_values: B::Linear,
    output: B::Linear,
}

#[derive(Debug)]
struct FeedForward<B: Backend> {
    norm: B::Norm,
    input: B::Linear,
    output: B::Linear,
}

impl<B: Backend> Stack<B> {
    /// The norm after the layers before number `layer`.
    fn norm(&self, layer: usize) -> &B::Norm {
        let layer = self.layers.get(layer);
        layer.map_or(&self.norm, |layer| &layer.norm)
    }
}

impl<B: Backend> T5<B> {
    /// Takes tokens through a stack: as far as its last norm, or as the keys and values of all its
    /// layers.
    fn run(&self, stack: &Stack<B>, forward: &mut dyn Forward<B>, whole: bool) {
        forward.embed(&self.embedding, stack.norm(0));
        for (i, layer) in stack.layers.iter().enumerate() {
            let feed_forward = &layer.feed_forward;
            // An encoder keeps those of one layer.
            let at = if layer.cross.is_some() { i } else { 0 };
            forward.enter(i);
            forward.project(&layer.qkv, None, at);
            if !whole && i + 1 == stack.layers.len() {
                return;
            }
            let (window, bias) = (None, Some(&stack.bias));
            forward.attend(AttentionSpan { window, bias }, at);
            if let Some(cross) = &layer.cross {
                forward.add_attended(&layer.output, &cross.norm);
                forward.project_queries(&cross.queries);
                forward.attend_source(i);
                forward.add_attended(&cross.output, &feed_forward.norm);
            } else {
                forward.add_attended(&layer.output, &feed_forward.norm);
            }
            forward.activate(&feed_forward.input, self.activation);
            forward.add_inner(&feed_forward.output, stack.norm(i + 1));
        }
    }
}

impl<B: Backend> Layers<B> for T5<B> {
    fn decode(&self, forward: &mut dyn Forward<B>, logits: bool) {
        self.run(&self.decoder, forward, logits);
        if logits {
            forward.logits(&self.head, self.scale);
        }
    }

    fn vocabulary(&self) -> Vocabulary<'_, B> {
        Vocabulary {
            table: &self.embedding,
            head: &self.head,
            scale: self.scale,
        }
    }

    fn has_encoder(&self) -> bool {
        true
    }

    fn encode(&self, forward: &mut dyn Forward<B>) {
        self.run(&self.encoder, forward, true);
        let cross = self.decoder.layers.iter().flat_map(|layer| &layer.cross);
        for (i, cross) in cross.enumerate() {
            forward.project_source(&cross.keys_values, i);
        }
    }
}

impl T5Config {
    /// What follows from the settings.
    pub(crate) fn info(&self) -> ModelInfo {
        ModelInfo {
            architecture: Architecture::EncoderDecoder,
            vocab_size: self.vocab_size,
            size: self.d_model,
            epsilon: self.layer_norm_epsilon,
            heads: Heads {
                queries: self.num_heads,
                kv: self.num_heads,
                size: self.d_kv,
            },
            layers: self.decoder_layers(),
            parameters: self.parameters(),
            parameters_of_all_rows: self.parameters_per_forward(),
            max_context: None,
            start: Some(self.decoder_start()),
        }
    }

    /// Loads the layers.
    pub(crate) fn layers<B: Backend>(
        &self,
        loader: &mut Loader<'_, B>,
    ) -> Result<Box<dyn Layers<B>>> {
        // Some files have the embedding of both stacks under the name of one stack only.
        let places = ["shared", "decoder.embed_tokens", "encoder.embed_tokens"];
        let found = places.into_iter().find(|place| loader.has(place));
        let embedding_name = found.unwrap_or(places[0]);
        // transformers 5 calls all embeddings tied, and keeps heads that are not.
        let own_head = self.scale_decoder_outputs.is_some() && loader.has("lm_head");
        let tied = self.tie_word_embeddings && !own_head;
        let embedding = loader.table(embedding_name, tied)?;
        let encoder = self.stack(loader, "encoder", self.num_layers)?;
        let decoder = self.stack(loader, "decoder", self.decoder_layers())?;
        let head = (if tied {
            loader.head(embedding_name, Some(&embedding))
        } else {
            loader.head("lm_head", None)
        })?;
        Ok(Box::new(T5 {
            activation: self.feed_forward_proj.activation,
            embedding,
            encoder,
            decoder,
            head,
            scale: self.output_scale(),
        }))
    }

    fn stack<B: Backend>(
        &self,
        loader: &mut Loader<'_, B>,
        name: &str,
        layers: usize,
    ) -> Result<Stack<B>> {
        // Cross-attention comes between self-attention and feed-forward; only decoders have it.
        let last = if name == "encoder" { 1 } else { 2 };
        let layer = |i| {
            let at = format!("{name}.block.{i}.layer");
            let attention = format!("{at}.0.SelfAttention");
            Ok(Layer {
                norm: loader.norm(&format!("{at}.0.layer_norm"))?,
                qkv: self.heads(loader, &attention, &["q", "k", "v"])?,
                output: self.output(loader, &attention)?,
                cross: match last {
                    1 => None,
                    _ => Some(self.cross(loader, &format!("{at}.1"))?),
                },
                feed_forward: self.feed_forward(loader, &format!("{at}.{last}"))?,
            })
        };
        Ok(Stack {
            layers: (0..layers).map(layer).collect::<Result<_>>()?,
            bias: self.bias(loader, name)?,
            norm: loader.norm(&format!("{name}.final_layer_norm"))?,
        })
    }

    /// Linear maps to heads, side by side.
    fn heads<B: Backend>(
        &self,
        loader: &mut Loader<'_, B>,
        at: &str,
        parts: &[&str],
    ) -> Result<B::Linear> {
        let parts = parts
            .iter()
            .map(|part| (format!("{at}.{part}"), self.inner()));
        loader.linear(LinearSpec::new(self.d_model, parts.collect::<Vec<_>>()))
    }

    /// The linear map of what attention gave.
    fn output<B: Backend>(&self, loader: &mut Loader<'_, B>, at: &str) -> Result<B::Linear> {
        let parts = [(format!("{at}.o"), self.d_model)];
        loader.linear(LinearSpec::new(self.inner(), parts))
    }

    fn cross<B: Backend>(&self, loader: &mut Loader<'_, B>, at: &str) -> Result<CrossAttention<B>> {
        let attention = format!("{at}.EncDecAttention");
        Ok(CrossAttention {
            norm: loader.norm(&format!("{at}.layer_norm"))?,
            queries: self.heads(loader, &attention, &["q"])?,
            keys_values: self.heads(loader, &attention, &["k", "v"])?,
            output: self.output(loader, &attention)?,
        })
    }

    fn feed_forward<B: Backend>(
        &self,
        loader: &mut Loader<'_, B>,
        at: &str,
    ) -> Result<FeedForward<B>> {
        let dense = |part: &str, outputs| (format!("{at}.DenseReluDense.{part}"), outputs);
        let gated = self.feed_forward_proj.gated;
        let parts: &[&str] = if gated { &["wi_0", "wi_1"] } else { &["wi"] };
        let parts: Vec<_> = parts.iter().map(|part| dense(part, self.d_ff)).collect();
        let input = LinearSpec {
            gated,
            ..LinearSpec::new(self.d_model, parts)
        };
        Ok(FeedForward {
            norm: loader.norm(&format!("{at}.layer_norm"))?,
            input: loader.linear(input)?,
            output: loader.linear(LinearSpec::new(self.d_ff, [dense("wo", self.d_model)]))?,
        })
    }

    /// The learned bias, the same in all layers of a stack, by distance instead of bucket.
    fn bias<B: Backend>(&self, loader: &mut Loader<'_, B>, stack: &str) -> Result<B::RelativeBias> {
        let (buckets, heads) = (self.relative_attention_num_buckets, self.num_heads);
        let name = format!("{stack}.block.0.layer.0.SelfAttention.relative_attention_bias");
        let learned = loader.on_host(&name, &[buckets, heads])?;
        let reach = self.relative_attention_max_distance;
        let bidirectional = stack == "encoder";
        let of_distance = |head: usize, distance: i64| {
            let bucket = relative_position_bucket(-distance, bidirectional, buckets, reach);
            learned[bucket as usize * heads + head]
        };
        let distances = -(reach as i64)..=reach as i64;
        let values: Vec<f32> = (0..heads)
            .flat_map(|head| distances.clone().map(move |distance| (head, distance)))
            .map(|(head, distance)| of_distance(head, distance))
            .collect();
        loader
            .backend
            .relative_bias(RelativeBias::new(&values, reach))
    }
}
