//! From the arguments that name models to a configuration.

use anyhow::{Result, bail};
use cascade_config::{
    AssembleOptions, CascadeSpec, Config, DeviceSpec, Drafter, Neural, NgramTable, TextDrafter,
    model_source,
};
use cascade_engine::Lenience;

use crate::args::{DecodingArgs, ModelArgs, ScheduleArg};

/// What a cascade of a command line is called in messages.
const LABEL: &str = "command line";

/// The configuration that the arguments name, or `default`, with the settings of the arguments. A
/// device matters to how large drafts are, and is not set.
pub fn configuration(
    args: &ModelArgs,
    decoding: Option<&DecodingArgs>,
    device: Option<DeviceSpec>,
    default: &str,
) -> Result<Config> {
    let config = match (&args.config, &args.model) {
        (Some(file), _) => Config::open(file)?,
        (None, Some(model)) => of_models(args, device, model)?,
        (None, None) if args.tree => with_tree(&Config::open(default)?)?,
        (None, None) => Config::open(default)?,
    };
    Ok(config.with(&args.overrides(decoding))?)
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

fn of_models(args: &ModelArgs, device: Option<DeviceSpec>, model: &str) -> Result<Config> {
    let target = neural(args, model)?;
    let drafters = args
        .drafters
        .iter()
        .map(|drafter| match drafter.strip_prefix(HEAD) {
            None => neural(args, drafter),
            Some(head) => Ok(Neural::head(model_source(head)?, &target)),
        })
        .collect::<Result<_>>()?;
    let mut spec = CascadeSpec::new(target, drafters);
    spec.text = text_drafter(args);
    spec.max_nodes = args.nodes;
    spec.draft_tokens.clone_from(&args.draft_tokens);
    spec.fixed = matches!(args.schedule, Some(ScheduleArg::Static));
    if matches!(args.schedule, Some(ScheduleArg::Online)) && args.draft_tokens.is_some() {
        bail!("--schedule online decides how much is drafted: leave out --draft-tokens (-k)");
    }
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

fn neural(args: &ModelArgs, name: &str) -> Result<Neural> {
    let mut neural = Neural::new(model_source(name)?);
    neural.tokenizer = args.tokenizer.as_deref().map(model_source).transpose()?;
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
            let config = configuration(&args, None, None, "embedded:demo-llama").unwrap();
            let mut neural = vec![config.target.clone()];
            for drafter in config.drafters() {
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
        let config = configuration(&args, None, None, "embedded:demo-llama").unwrap();
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
        let config = configuration(&args, None, None, "embedded:demo-llama").unwrap();
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
