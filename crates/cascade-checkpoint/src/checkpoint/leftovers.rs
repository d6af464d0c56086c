//! Tensors that are left when a model has been read.

/// Tensors of a checkpoint that nothing is computed with.
#[derive(Debug)]
pub struct Leftovers<'a> {
    /// Tensors of layers that config.json does not describe.
    pub of_layers: Vec<&'a str>,
    /// Others, but those that are copies of what is read, or computed from settings.
    others: Vec<&'a str>,
}

impl<'a> Leftovers<'a> {
    /// Sorts the names of tensors that were not read.
    pub fn of(names: impl Iterator<Item = &'a str>) -> Self {
        const LAYERS: [&str; 3] = ["model.layers.", "encoder.block.", "decoder.block."];
        // Old checkpoints hold tables that are computed, and a bias in the cross-attention that T5
        // never uses.
        const USELESS: [&str; 2] = ["rotary_emb.inv_freq", "relative_attention_bias.weight"];
        const COPIES: [&str; 3] = [
            "lm_head.weight",
            "encoder.embed_tokens.weight",
            "decoder.embed_tokens.weight",
        ];
        // Layers that predict further tokens are a head's, and no part of a forward.
        const OF_HEADS: &str = "model.mtp_layers.";
        let useful = |name: &&str| {
            let useless = USELESS.iter().any(|end| name.ends_with(end));
            !COPIES.contains(name) && !useless && !name.starts_with(OF_HEADS)
        };
        let of_layer = |name: &&str| LAYERS.iter().any(|start| name.starts_with(start));
        let (of_layers, others) = names.filter(useful).partition(of_layer);
        Self { of_layers, others }
    }

    /// What the user should know of those that are of no layer: that they `are` so.
    pub fn warning(&self, are: &str) -> Option<String> {
        const NAMED: usize = 8;
        let named = self.others.iter().take(NAMED).copied().collect::<Vec<_>>();
        let more = match self.others.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!named.is_empty()).then(|| {
            format!(
                "tensors that no model of this kind computes with {are}: {}{more}",
                named.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_layers_from_tables() {
        let of = |name| {
            let left = Leftovers::of([name].into_iter());
            (left.of_layers.len(), left.others.len())
        };
        assert_eq!(of("model.layers.1.mlp.up_proj.weight"), (1, 0));
        let of_t5 = "decoder.block.4.layer.0.SelfAttention.q.weight";
        assert_eq!(of(of_t5), (1, 0));
        assert_eq!(of("model.layers.0.self_attn.rotary_emb.inv_freq"), (0, 0));
        assert_eq!(of("encoder.embed_tokens.weight"), (0, 0));
        assert_eq!(of("model.mtp_layers.0.input_proj.weight"), (0, 0));
        assert_eq!(of("lm_head.bias"), (0, 1));
    }

    #[test]
    fn tensors_that_nothing_is_computed_with_are_named_up_to_a_number() {
        let names: Vec<String> = (0..10).map(|i| format!("heads.{i}")).collect();
        let left = Leftovers::of(names.iter().map(String::as_str));
        let said = left.warning("are not read").unwrap();
        assert!(said.ends_with("are not read: heads.0, heads.1, heads.2, heads.3, heads.4, heads.5, heads.6, heads.7 and 2 more"), "{said}");
        assert_eq!(Leftovers::of([].into_iter()).warning("are not read"), None);
    }
}
