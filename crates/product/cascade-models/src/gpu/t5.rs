//! T5's layers as kernels.

use std::sync::Mutex;

use cascade_core::{Architecture, TokenId};
use cascade_gpu::{
    padded, Cache, CacheShape, Device, Encoding, Forward, Heads, Kind, Linear, Loader, Looks, Norm,
    Projected, RelativeBias, Runner, Sizes, Table, Weights,
};

use super::{Facts, GpuNetwork, Layers};
use crate::{relative_position_bucket, FeedForwardProj, Result, T5Config};

#[derive(Debug)]
pub(super) struct T5Layers {
    heads: Heads,
    feed_forward: FeedForwardProj,
    kind: Kind,
    embedding: Table,
    encoder: Stack<()>,
    decoder: Stack<CrossAttention>,
    head: Linear,
    /// What logits are multiplied with: d_model^-0.5 if the head is tied.
    scale: f32,
}

/// A stack of layers; `C` is what there is between self-attention and feed-forward.
#[derive(Debug)]
struct Stack<C> {
    bias: RelativeBias,
    layers: Vec<Layer<C>>,
    norm: Norm,
}

#[derive(Debug)]
struct Layer<C> {
    norm: Norm,
    qkv: Linear,
    output: Linear,
    cross: C,
    feed_forward: FeedForward,
}

#[derive(Debug)]
struct CrossAttention {
    norm: Norm,
    queries: Linear,
    /// Keys and values of the source side by side.
    keys_values: Linear,
    output: Linear,
}

#[derive(Debug)]
struct FeedForward {
    norm: Norm,
    input: Linear,
    output: Linear,
}

/// Where the embedding of both stacks lies; some files have it under the name of one stack only.
pub(super) fn embedding_name(has: impl Fn(&str) -> bool) -> &'static str {
    let places = [
        "shared.weight",
        "decoder.embed_tokens.weight",
        "encoder.embed_tokens.weight",
    ];
    let found = places.into_iter().find(|place| has(place));
    found.unwrap_or(places[0])
}

pub(super) fn load(
    device: &Device,
    kind: Kind,
    config: &T5Config,
    embedding_name: &str,
    weights: &dyn Weights,
) -> Result<GpuNetwork<T5Layers>> {
    let heads = Heads {
        queries: config.num_heads,
        kv: config.num_heads,
        size: config.d_kv,
    };
    padded(heads.size)?;
    let loading = &mut Loading {
        loader: Loader::new(device, kind, weights),
        device,
        config,
    };
    let (vocabulary, size) = (config.vocab_size, config.d_model);
    let embedding = loading.loader.table(embedding_name, vocabulary, size)?;
    let encoder = loading.stack("encoder", config.num_layers, true, |_, _| Ok(()))?;
    let decoder = loading.stack("decoder", config.decoder_layers(), false, Loading::cross)?;
    let counted = loading.loader.parameters();
    let tied = config.tie_word_embeddings;
    let head_name = if tied {
        embedding_name
    } else {
        "lm_head.weight"
    };
    let head = loading.loader.head(size, head_name, vocabulary)?;
    let all = loading.loader.parameters();
    let facts = Facts {
        architecture: Architecture::EncoderDecoder,
        vocab_size: vocabulary,
        parameters: if tied { counted } else { all },
        parameters_per_forward: config.parameters_per_forward(),
        max_context: None,
        start: Some(config.decoder_start()),
    };
    let layers = T5Layers {
        heads,
        feed_forward: config.feed_forward_proj,
        kind,
        embedding,
        encoder,
        decoder,
        head,
        scale: if tied { (size as f32).powf(-0.5) } else { 1.0 },
    };
    let sizes = Sizes::new(size, config.layer_norm_epsilon, heads, vocabulary);
    let runner = Runner::new(device, kind, layers.sizes(sizes))?;
    Ok(GpuNetwork {
        device: device.clone(),
        kind,
        layers,
        runner: Mutex::new(runner),
        facts,
    })
}

struct Loading<'a> {
    loader: Loader<'a>,
    device: &'a Device,
    config: &'a T5Config,
}

impl Loading<'_> {
    fn norm(&mut self, name: &str) -> cascade_gpu::Result<Norm> {
        self.loader
            .norm(&format!("{name}.weight"), self.config.d_model)
    }

    /// The linear maps `parts` of the place `at`, side by side.
    fn linear(
        &mut self,
        at: &str,
        inputs: usize,
        parts: &[&str],
        outputs: usize,
    ) -> cascade_gpu::Result<Linear> {
        let names: Vec<String> = parts.iter().map(|p| format!("{at}.{p}.weight")).collect();
        let parts: Vec<_> = names.iter().map(|name| (name.as_str(), outputs)).collect();
        self.loader.linear(inputs, &parts)
    }

    fn stack<C>(
        &mut self,
        name: &str,
        layers: usize,
        bidirectional: bool,
        cross: impl Fn(&mut Self, &str) -> cascade_gpu::Result<C>,
    ) -> cascade_gpu::Result<Stack<C>> {
        // Cross-attention comes between self-attention and feed-forward, and only decoders have it.
        let last = if bidirectional { 1 } else { 2 };
        Ok(Stack {
            bias: self.bias(name, bidirectional)?,
            layers: (0..layers)
                .map(|i| self.layer(&format!("{name}.block.{i}.layer"), last, &cross))
                .collect::<cascade_gpu::Result<_>>()?,
            norm: self.norm(&format!("{name}.final_layer_norm"))?,
        })
    }

    /// The layer at `at`, whose feed-forward layer is number `last` there.
    fn layer<C>(
        &mut self,
        at: &str,
        last: usize,
        cross: impl Fn(&mut Self, &str) -> cascade_gpu::Result<C>,
    ) -> cascade_gpu::Result<Layer<C>> {
        let (size, inner) = (
            self.config.d_model,
            self.config.num_heads * self.config.d_kv,
        );
        let attention = format!("{at}.0.SelfAttention");
        let norm = self.norm(&format!("{at}.0.layer_norm"))?;
        let qkv = self.linear(&attention, size, &["q", "k", "v"], inner)?;
        let output = self.linear(&attention, inner, &["o"], size)?;
        let cross = cross(self, &format!("{at}.1"))?;
        let feed_forward = self.feed_forward(&format!("{at}.{last}"))?;
        Ok(Layer {
            norm,
            qkv,
            output,
            cross,
            feed_forward,
        })
    }

    fn cross(&mut self, at: &str) -> cascade_gpu::Result<CrossAttention> {
        let (size, inner) = (
            self.config.d_model,
            self.config.num_heads * self.config.d_kv,
        );
        let attention = format!("{at}.EncDecAttention");
        Ok(CrossAttention {
            norm: self.norm(&format!("{at}.layer_norm"))?,
            queries: self.linear(&attention, size, &["q"], inner)?,
            keys_values: self.linear(&attention, size, &["k", "v"], inner)?,
            output: self.linear(&attention, inner, &["o"], size)?,
        })
    }

    fn feed_forward(&mut self, at: &str) -> cascade_gpu::Result<FeedForward> {
        let (size, inner) = (self.config.d_model, self.config.d_ff);
        let dense = format!("{at}.DenseReluDense");
        let input = match self.config.feed_forward_proj {
            FeedForwardProj::Relu => self.linear(&dense, size, &["wi"], inner)?,
            FeedForwardProj::GatedGelu | FeedForwardProj::GatedSilu => self.loader.gated(
                size,
                &format!("{dense}.wi_0.weight"),
                &format!("{dense}.wi_1.weight"),
                inner,
            )?,
        };
        Ok(FeedForward {
            norm: self.norm(&format!("{at}.layer_norm"))?,
            input,
            output: self.linear(&dense, inner, &["wo"], size)?,
        })
    }

    /// The learned bias as a table by distance instead of bucket.
    fn bias(&mut self, stack: &str, bidirectional: bool) -> cascade_gpu::Result<RelativeBias> {
        let (buckets, heads) = (
            self.config.relative_attention_num_buckets,
            self.config.num_heads,
        );
        let name = format!("{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
        let learned = self.loader.on_host(&name, &[buckets, heads])?;
        let reach = self.config.relative_attention_max_distance;
        let of_distance = |head: usize, distance: i64| {
            let bucket = relative_position_bucket(-distance, bidirectional, buckets, reach);
            learned[bucket as usize * heads + head]
        };
        let reach_signed = reach as i64;
        let table: Vec<f32> = (0..heads)
            .flat_map(|head| (-reach_signed..=reach_signed).map(move |d| (head, d)))
            .map(|(head, distance)| of_distance(head, distance))
            .collect();
        RelativeBias::new(self.device, &table, reach)
    }
}

impl FeedForward {
    fn write_down(&self, form: FeedForwardProj, next_norm: &Norm, forward: &mut Forward<'_>) {
        use cascade_gpu::Activation;
        let activation = match form {
            FeedForwardProj::Relu => Activation::Relu,
            FeedForwardProj::GatedGelu => Activation::Gelu,
            FeedForwardProj::GatedSilu => Activation::Silu,
        };
        forward.activate(&self.input, activation);
        forward.add_inner(&self.output, next_norm);
    }
}

impl<C> Stack<C> {
    /// The norm after the layers before number `layer`.
    fn norm(&self, layer: usize) -> &Norm {
        self.layers
            .get(layer)
            .map_or(&self.norm, |layer| &layer.norm)
    }
}

impl T5Layers {
    fn sizes(&self, mut sizes: Sizes) -> Sizes {
        fn cover<C>(sizes: &mut Sizes, layer: &Layer<C>) {
            let feed_forward = &layer.feed_forward;
            let maps = [
                &layer.qkv,
                &layer.output,
                &feed_forward.input,
                &feed_forward.output,
            ];
            maps.into_iter().for_each(|map| sizes.cover(map));
        }
        self.encoder
            .layers
            .iter()
            .for_each(|l| cover(&mut sizes, l));
        for layer in &self.decoder.layers {
            cover(&mut sizes, layer);
            let cross = &layer.cross;
            let maps = [&cross.queries, &cross.keys_values, &cross.output];
            maps.into_iter().for_each(|map| sizes.cover(map));
        }
        sizes.cover(&self.head);
        sizes
    }

    /// Runs the encoder, whose layers' keys and values lie in turns in the two layers of `scratch`: rows of a layer still read one
    /// while others already write the other.
    fn run_encoder(&self, runner: &Runner, encoding: &Encoding) -> cascade_gpu::Result<()> {
        let layers = &self.encoder.layers;
        let looks = Looks::AtSequence(Some(&self.encoder.bias));
        for chunk in 0..encoding.chunks() {
            runner.run_chunk(encoding, chunk, |forward| {
                forward.embed(&self.embedding, self.encoder.norm(0));
                forward.project(&layers[0].qkv, Projected::All(None), 0);
            })?;
        }
        for (i, layer) in layers.iter().enumerate() {
            for chunk in 0..encoding.chunks() {
                runner.run_chunk(encoding, chunk, |forward| {
                    let feed_forward = &layer.feed_forward;
                    forward.attention(looks, i % 2);
                    forward.add_attended(&layer.output, &feed_forward.norm);
                    feed_forward.write_down(self.feed_forward, self.encoder.norm(i + 1), forward);
                    match layers.get(i + 1) {
                        Some(next) => forward.project(&next.qkv, Projected::All(None), (i + 1) % 2),
                        None => self.read_source(forward),
                    }
                })?;
            }
        }
        Ok(())
    }

    /// Keys and values of every decoder layer's cross-attention, from the encoder's last norm.
    fn read_source(&self, forward: &mut Forward<'_>) {
        for (i, layer) in self.decoder.layers.iter().enumerate() {
            forward.project(&layer.cross.keys_values, Projected::SourceKeysValues, i);
        }
    }
}

impl Layers for T5Layers {
    fn cache_shape(&self) -> CacheShape {
        CacheShape {
            layers: self.decoder.layers.len(),
            kv_heads: self.heads.kv,
            head_dim: self.heads.size,
        }
    }

    fn decode(&self, forward: &mut Forward<'_>, logits: bool) {
        let decoder = &self.decoder;
        forward.embed(&self.embedding, decoder.norm(0));
        for (i, layer) in decoder.layers.iter().enumerate() {
            let (cross, feed_forward) = (&layer.cross, &layer.feed_forward);
            forward.project(&layer.qkv, Projected::All(None), i);
            if !logits && i + 1 == decoder.layers.len() {
                // All keys and values are there.
                return;
            }
            forward.attention(Looks::AtSequence(Some(&decoder.bias)), i);
            forward.add_attended(&layer.output, &cross.norm);
            forward.project(&cross.queries, Projected::Queries, i);
            forward.attention(Looks::AtSource, i);
            forward.add_attended(&cross.output, &feed_forward.norm);
            feed_forward.write_down(self.feed_forward, decoder.norm(i + 1), forward);
        }
        forward.logits(&self.head, self.scale);
    }

    fn encode(
        &self,
        device: &Device,
        runner: &mut Runner,
        source: &[TokenId],
    ) -> cascade_gpu::Result<Option<Cache>> {
        let shape = self.cache_shape();
        let mut scratch = Cache::new(device, CacheShape { layers: 2, ..shape }, self.kind)?;
        let mut keys_values = Cache::new(device, shape, self.kind)?;
        scratch.reserve(source.len())?;
        keys_values.reserve(source.len())?;
        let encoding = runner.encode(source, &scratch, &keys_values)?;
        self.run_encoder(runner, &encoding)?;
        keys_values.commit(source.len());
        // What the encoder used is freed only when it is done.
        device.synchronize()?;
        Ok(Some(keys_values))
    }
}
