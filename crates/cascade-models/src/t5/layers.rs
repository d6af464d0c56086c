//! T5's layers.

use cascade_core::Architecture;

use super::config::{relative_position_bucket, T5Config};
use crate::backend::{
    Activation, AttentionSpan, Backend, Forward, Heads, Layers, LinearSpec, Loader, ModelInfo,
    RelativeBias, Vocabulary,
};
use crate::Result;

#[derive(Debug)]
struct T5<B: Backend> {
    activation: Activation,
    embedding: B::Table,
    encoder: Stack<B, ()>,
    decoder: Stack<B, CrossAttention<B>>,
    head: B::Linear,
    /// What hidden states are multiplied with before the head: d_model^-0.5 in T5 v1.0.
    scale: Option<f64>,
}

/// A stack of layers; `C` is what there is between self-attention and feed-forward.
#[derive(Debug)]
struct Stack<B: Backend, C> {
    bias: B::RelativeBias,
    layers: Vec<Layer<B, C>>,
    norm: B::Norm,
}

#[derive(Debug)]
struct Layer<B: Backend, C> {
    norm: B::Norm,
    qkv: B::Linear,
    output: B::Linear,
    cross: C,
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

impl<B: Backend, C> Stack<B, C> {
    /// The norm after the layers before number `layer`.
    fn norm(&self, layer: usize) -> &B::Norm {
        let layer = self.layers.get(layer);
        layer.map_or(&self.norm, |layer| &layer.norm)
    }

    fn span(&self) -> AttentionSpan<'_, B> {
        AttentionSpan {
            window: None,
            bias: Some(&self.bias),
        }
    }
}

impl<B: Backend> T5<B> {
    fn feed_forward(&self, layer: &FeedForward<B>, next: &B::Norm, forward: &mut dyn Forward<B>) {
        forward.activate(&layer.input, self.activation);
        forward.add_inner(&layer.output, next);
    }

    /// Keys and values of every decoder layer's cross-attention, from the encoder's last norm.
    fn read_source(&self, forward: &mut dyn Forward<B>) {
        for (i, layer) in self.decoder.layers.iter().enumerate() {
            forward.project_source(&layer.cross.keys_values, i);
        }
    }
}

impl<B: Backend> Layers<B> for T5<B> {
    fn decode(&self, forward: &mut dyn Forward<B>, logits: bool) {
        let decoder = &self.decoder;
        forward.embed(&self.embedding, decoder.norm(0));
        for (i, layer) in decoder.layers.iter().enumerate() {
            let (cross, feed_forward) = (&layer.cross, &layer.feed_forward);
            forward.enter(i);
            forward.project(&layer.qkv, None, i);
            if !logits && i + 1 == decoder.layers.len() {
                // All keys and values are there.
                return;
            }
            forward.attend(decoder.span(), i);
            forward.add_attended(&layer.output, &cross.norm);
            forward.project_queries(&cross.queries);
            forward.attend_source(i);
            forward.add_attended(&cross.output, &feed_forward.norm);
            self.feed_forward(feed_forward, decoder.norm(i + 1), forward);
        }
        forward.logits(&self.head, self.scale);
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
        let encoder = &self.encoder;
        forward.embed(&self.embedding, encoder.norm(0));
        for (i, layer) in encoder.layers.iter().enumerate() {
            forward.project(&layer.qkv, None, 0);
            forward.attend(encoder.span(), 0);
            forward.add_attended(&layer.output, &layer.feed_forward.norm);
            self.feed_forward(&layer.feed_forward, encoder.norm(i + 1), forward);
        }
        self.read_source(forward);
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
        let encoder = self.stack(loader, "encoder", self.num_layers, |_, _| Ok(()))?;
        let cross = |loader: &mut Loader<'_, B>, at: &str| self.cross(loader, at);
        let decoder = self.stack(loader, "decoder", self.decoder_layers(), cross)?;
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

    fn stack<B: Backend, C>(
        &self,
        loader: &mut Loader<'_, B>,
        name: &str,
        layers: usize,
        cross: impl Fn(&mut Loader<'_, B>, &str) -> Result<C>,
    ) -> Result<Stack<B, C>> {
        // Cross-attention comes between self-attention and feed-forward; only decoders have it.
        let last = if name == "encoder" { 1 } else { 2 };
        let layer = |i| {
            let at = format!("{name}.block.{i}.layer");
            let attention = format!("{at}.0.SelfAttention");
            Ok(Layer {
                norm: loader.norm(&format!("{at}.0.layer_norm"))?,
                qkv: self.heads(loader, &attention, &["q", "k", "v"])?,
                output: self.output(loader, &attention)?,
                cross: cross(loader, &format!("{at}.1"))?,
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
