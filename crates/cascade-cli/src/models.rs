//! From the arguments that name models to a configuration.

use anyhow::{bail, ensure, Result};
use cascade_config::{
    model_source, AssembleOptions, Assembled, CascadeSpec, ChatTemplate, Config, DeviceSpec,
    Drafter, ModelPool, Neural, NgramTable, SamplingSettings, ScheduleConfig, StopRuleConfig,
    TextDrafter,
};
use cascade_engine::{Lenience, Placement, Rule, StopSequences};
use cascade_eval::trace::Trace;
use cascade_models::LoadedModel;

use crate::args::{DecodingArgs, ModelArgs, ScheduleName};

/// Refuses a model that the outputs of a trace say nothing about: of another vocabulary or another
/// architecture than the recorded target. `flag` is what named it.
pub(crate) fn refuse_another_kind(flag: &str, model: &LoadedModel, trace: &Trace) -> Result<()> {
    let (name, label) = (&model.name, &trace.label);
    ensure!(
        model.tokenizer.fingerprint() == trace.header.tokenizer(),
        "{flag} {name} has another tokenizer than the target of {label}: give a model of its family"
    );
    let (found, needed) = (model.info().architecture, trace.header.architecture);
    ensure!(
        found == needed,
        "{flag} {name} is {found}, and the target of {label} {needed}: give a model of its family"
    );
    Ok(())
}

/// What a cascade of a command line is called in messages.
const LABEL: &str = "command line";

/// The configuration that the arguments name, or `default`; a device of the arguments matters to
/// how large drafts are, and is not set.
pub(crate) fn configuration(
    args: &ModelArgs,
    device: Option<DeviceSpec>,
    default: &str,
) -> Result<Config> {
    let file = match (&args.config, &args.model) {
        (Some(file), _) => Config::open(file)?,
        (None, Some(model)) => return of_models(args, device, model),
        (None, None) if args.tree => with_tree(&Config::open(default)?)?,
        (None, None) => Config::open(default)?,
    };
    let mut config = with_schedule(file, args.schedule)?;
    set_stop_rule(&mut config, args.stop_rule.clone());
    set_types(&mut config, args);
    Ok(config)
}

/// A configuration whose neural drafters the Max-Gram tree follows, in place of what drafts from
/// the text by it.
fn with_tree(config: &Config) -> Result<Config> {
    let neural = config
        .drafters()
        .iter()
        .filter_map(|drafter| match drafter {
            Drafter::Neural { model, .. } => Some((**model).clone()),
            Drafter::Statistical { .. } => None,
        });
    let mut spec = CascadeSpec::new(config.target.clone(), neural.collect());
    spec.text = Some((TextDrafter::Tree, NgramTable::Fitting));
    let mut tree = spec.config(&config.label, &AssembleOptions::default())?;
    tree.prompt = config.prompt;
    tree.generation = config.generation.clone();
    Ok(tree)
}

/// Sets the types of all models that the arguments name.
fn set_types(config: &mut Config, args: &ModelArgs) {
    let set = |neural: &mut Neural| {
        neural.dtype = args.dtype.or(neural.dtype);
        neural.cache_dtype = args.cache_dtype.or(neural.cache_dtype);
    };
    set(&mut config.target);
    for drafter in config.drafters_mut() {
        if let Drafter::Neural { model, .. } = drafter {
            set(model);
        }
    }
}

/// The configuration with the schedule of the arguments, if they name one.
pub(crate) fn with_schedule(config: Config, name: Option<ScheduleName>) -> Result<Config> {
    match name {
        Some(ScheduleName::Online) if !config.drafters().is_empty() => {
            let mut config = config.with_schedule(ScheduleConfig::Online)?;
            config.placement = Placement::Sequential;
            Ok(config)
        }
        Some(ScheduleName::Static) if config.k().is_none() => bail!(
            "--schedule static: {} has no `k`, which would say how much is drafted; add one",
            config.label
        ),
        _ => Ok(config),
    }
}

/// Sets the stop rule of all drafters, if there is one.
pub(crate) fn set_stop_rule(config: &mut Config, rule: Option<StopRuleConfig>) {
    if rule.is_some() {
        for drafter in config.drafters_mut() {
            drafter.stop_rule_mut().clone_from(&rule);
        }
    }
}

/// Sets what the arguments say about decoding.
pub(crate) fn set_decoding(config: &mut Config, args: &DecodingArgs) -> Result<()> {
    let generation = &mut config.generation;
    generation.sampling = sampling(args, generation.sampling)?;
    if let Some(length) = args.max_new_tokens {
        generation.max_new_tokens = length;
    }
    if let Some(seed) = args.seed {
        generation.seed = seed;
    }
    if let Some(rule) = args.rule {
        set_rule(config, rule);
    }
    let generation = &mut config.generation;
    if !args.stop.is_empty() {
        generation.stop = Some(StopSequences::new(&args.stop)?);
    }
    Ok(())
}

/// The configuration's settings, overridden by the arguments.
fn sampling(args: &DecodingArgs, configured: SamplingSettings) -> Result<SamplingSettings> {
    let settings = SamplingSettings::new(
        args.temperature.unwrap_or(configured.temperature()),
        args.top_k.or(configured.top_k()),
        args.top_p.or(configured.top_p()),
        args.min_p.or(configured.min_p()),
    )?;
    let truncates = args.top_k.is_some() || args.top_p.is_some() || args.min_p.is_some();
    if truncates && settings.truncates_in_vain() {
        bail!(
            "--top-k, --top-p and --min-p have no effect at temperature 0 (greedy decoding); \
             also give --temperature"
        );
    }
    Ok(settings)
}

/// Sets the rule of all reviews.
fn set_rule(config: &mut Config, rule: Rule) {
    config.target.rule = rule;
    for drafter in config.drafters_mut() {
        if let Drafter::Neural { model, .. } = drafter {
            model.rule = rule;
        }
    }
}

/// The cascade of a configuration, for conversations if there is a chat template.
pub(crate) fn assemble(
    pool: &ModelPool,
    config: &Config,
    template: Option<&ChatTemplate>,
) -> Result<Assembled> {
    Ok(match template {
        Some(template) => pool.assemble_for_chat(config, template)?,
        None => pool.assemble(config)?,
    })
}

fn of_models(args: &ModelArgs, device: Option<DeviceSpec>, model: &str) -> Result<Config> {
    let target = neural(args, model)?;
    let drafters = args
        .drafters
        .iter()
        .map(|drafter| {
            let head = drafter.strip_prefix(HEAD);
            head.map_or_else(
                || neural(args, drafter),
                |head| head_over(&target, args, head),
            )
        })
        .collect::<Result<_>>()?;
    let mut spec = CascadeSpec::new(target, drafters);
    spec.text = text_drafter(args);
    spec.max_nodes = args.nodes;
    spec.draft_tokens.clone_from(&args.draft_tokens);
    spec.fixed = args.schedule == Some(ScheduleName::Static);
    if args.schedule == Some(ScheduleName::Online) && args.draft_tokens.is_some() {
        bail!("--schedule online decides how much is drafted: leave out --draft-tokens (-k)");
    }
    spec.stop_rule.clone_from(&args.stop_rule);
    spec.lenience = args.lenience.map(Lenience::new).transpose()?;
    let options = AssembleOptions::default().with_device(device);
    Ok(spec.config(LABEL, &options)?)
}

/// What drafts from the text: what the arguments ask for, or the tree if nothing else drafts.
fn text_drafter(args: &ModelArgs) -> Option<(TextDrafter, NgramTable)> {
    let alone = args.drafters.is_empty();
    let drafter = match (args.max_gram, args.tree) {
        (true, _) => TextDrafter::MaxGram,
        (false, true) => TextDrafter::Tree,
        (false, false) if alone => TextDrafter::Tree,
        (false, false) if args.ngram.is_some() => TextDrafter::MaxGram,
        (false, false) => return None,
    };
    let table = args.ngram.as_deref().map(NgramTable::parse);
    Some((drafter, table.unwrap_or(NgramTable::Fitting)))
}

/// What stands before the folder of a head, where a drafter is named.
const HEAD: &str = "head:";

fn head_over(target: &Neural, args: &ModelArgs, name: &str) -> Result<Neural> {
    let mut head = Neural::head(model_source(name)?, target);
    head.dtype = args.dtype;
    head.cache_dtype = args.cache_dtype;
    Ok(head)
}

fn neural(args: &ModelArgs, name: &str) -> Result<Neural> {
    let mut neural = Neural::new(model_source(name)?);
    if let Some(tokenizer) = &args.tokenizer {
        neural.tokenizer = Some(model_source(tokenizer)?);
    }
    neural.dtype = args.dtype;
    neural.cache_dtype = args.cache_dtype;
    Ok(neural)
}

#[cfg(test)]
mod tests {
    use cascade_models::{CacheType, DType};
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        models: ModelArgs,
    }

    fn parsed(line: &str) -> Result<ModelArgs, clap::Error> {
        let words = std::iter::once("cascade").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.models)
    }

    #[test]
    fn types_override_those_of_a_configuration() {
        cascade_demo::register();
        for line in ["", "--config embedded:demo-t5"] {
            let args = parsed(&format!("{line} --dtype q8_0 --cache-dtype bf16")).unwrap();
            let mut config = configuration(&args, None, "embedded:demo-llama").unwrap();
            let mut neural = vec![config.target.clone()];
            for drafter in config.drafters_mut() {
                if let Drafter::Neural { model, .. } = drafter {
                    neural.push((**model).clone());
                }
            }
            assert!(neural.len() > 1);
            for model in neural {
                assert_eq!(model.dtype, Some(DType::Q8_0));
                assert_eq!(model.cache_dtype, Some(CacheType::BF16));
            }
        }
    }

    #[test]
    fn a_head_has_the_tokenizer_of_its_target() {
        cascade_demo::register();
        let line = "--model embedded:demo-llama-target --drafter head:./eagle --dtype q8_0";
        let args = parsed(line).unwrap();
        let config = configuration(&args, None, "embedded:demo-llama").unwrap();
        let Drafter::Neural { model, .. } = &config.drafters()[0] else {
            panic!("a head is a neural drafter");
        };
        assert!(model.is_head);
        assert_eq!(model.name, "eagle");
        assert_eq!(model.dtype, Some(DType::Q8_0));
        assert_eq!(model.tokenizer.as_ref(), Some(&config.target.source));
        let yaml = config.to_yaml().unwrap();
        assert!(
            yaml.contains("  head: ") && yaml.contains("/eagle\n"),
            "{yaml}"
        );
    }

    #[test]
    fn the_tree_follows_the_drafters_of_the_demo() {
        cascade_demo::register();
        let args = parsed("--tree").unwrap();
        let config = configuration(&args, None, "embedded:demo-llama").unwrap();
        let names: Vec<_> = config.drafters().iter().map(Drafter::name).collect();
        assert_eq!(
            names,
            ["demo-llama-base", "demo-llama-small", "max-gram-tree"]
        );
        assert_eq!(config.generation.max_new_tokens, 160);
    }

    #[test]
    fn what_a_configuration_says_itself_is_refused_beside_one() {
        for option in [
            "--drafter embedded:demo-t5-small",
            "--max-gram",
            "--tree",
            "--ngram none",
            "-k 5",
            "--nodes 3",
            "--lenience 2",
            "--tokenizer somewhere",
        ] {
            let message = parsed(&format!("--config a.yaml {option}")).unwrap_err();
            assert!(message.to_string().contains("cannot be used"), "{message}");
            // The demo drafts by the tree if that is asked for.
            if option != "--tree" {
                let message = parsed(option).unwrap_err();
                assert!(message.to_string().contains("--model"), "{message}");
            }
        }
    }
}
