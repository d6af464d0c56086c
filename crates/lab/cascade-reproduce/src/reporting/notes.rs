//! Notes below tables.

use cascade_eval::Dataset;

use super::data::{Data, Sheet};
use crate::report::{Evidence, Interval};
use crate::{PlannedModel, Suite};

/// The experiment's title, which names the paper's models, with those that ran here.
pub(super) fn title(data: &Data) -> String {
    format!("{}, with {}", data.definition.title, models(data))
}

/// What the models are called.
pub(super) fn models(data: &Data) -> &str {
    let from = &data.plan.models_from;
    from.strip_prefix("embedded:").unwrap_or(from)
}

/// Where figures come from.
pub(super) fn provenance(data: &Data) -> String {
    let plan = &data.plan;
    let models: Vec<String> = plan.models.iter().map(model).collect();
    let prompts: Vec<String> = plan
        .suites
        .iter()
        .map(|suite| prompts(suite, plan.seed))
        .collect();
    let costs: String = plan.costs.iter().map(|file| format!(" {file}.")).collect();
    let drawn = match plan.sampling {
        None => "greedy".to_owned(),
        Some(sampling) => format!("sampled ({sampling})"),
    };
    format!(
        "Models of {}: {}. Prompts: {}, of which all cascades answered {}. At most {} new tokens, {drawn}.{costs}",
        self::models(data),
        models.join("; "),
        prompts.join("; "),
        data.answered(),
        plan.max_new_tokens,
    )
}

fn model(model: &PlannedModel) -> String {
    let name = format!("{} {}", model.place, model.weights.source);
    match model.parameters {
        0 => name,
        parameters => format!("{name} ({:.2} M parameters)", parameters as f64 / 1e6),
    }
}

fn prompts(suite: &Suite, seed: u64) -> String {
    let how = match suite.dataset.parse() {
        Ok(Dataset::Problems(_)) => "made",
        _ => "drawn at random",
    };
    format!(
        "{} of {} ({}), {how} by seed {seed}",
        suite.prompts.len(),
        suite.dataset,
        suite.template,
    )
}

/// What the interval of a ratio of speeds says of the first.
pub(super) fn verdict(ratio: Interval) -> &'static str {
    match (ratio.low > 1.0, ratio.high < 1.0) {
        (true, _) => "beats",
        (_, true) => "is slower than",
        _ => "is not clearly different from",
    }
}

/// Each item once, in the order in which they come up.
pub(super) fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for item in items {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct
}

/// Prompts below which nothing is concluded.
pub(super) const FEWEST: usize = 30;

/// Why no verdict is given, after a sentence; empty where there are enough prompts.
pub(super) fn few(prompts: usize) -> String {
    if prompts < FEWEST {
        format!(" Fewer than {FEWEST}: no verdict.")
    } else {
        String::new()
    }
}

/// How answers end: those that do not are artefacts of a model, in which drafters gain most.
pub(super) fn endings(sheet: &Sheet<'_>) -> String {
    match sheet.endings() {
        Some(endings) => format!("Endings: {endings}."),
        None => {
            "How answers end was not recorded: these results are of an earlier version.".to_owned()
        }
    }
}

/// Whether outputs equal plain decoding's, what is missing, and what was left out.
pub(super) fn all(data: &Data) -> Vec<String> {
    let mut notes = Vec::new();
    match (data.unequal(), data.near_ties()) {
        (0, 0) => notes.push("Every output equals plain decoding's, token by token.".to_owned()),
        (0, ties) => notes.push(format!(
            "Outputs equal plain decoding's but in {ties} runs, which leave it where the target's two best logits are within {}.",
            crate::NEAR_TIE
        )),
        _ => notes.extend((0..data.variants.len()).filter_map(|variant| data.failure(variant))),
    }
    if let Some(sampling) = data.plan.sampling {
        notes.push(format!(
            "Sampled: {sampling}, by the rule coupled, with a seed for each prompt, so that all cascades say plain decoding's \
             sample. It keeps a drafted token at most as often as the rules that draw anew, by which the paper sampled."
        ));
    }
    let (cut, prompts) = (data.plan.cut, data.plan.prompts());
    if cut > 0 {
        let most = data.plan.max_new_tokens;
        notes.push(format!(
            "{cut} of {prompts} recorded answers are longer than {most} tokens, and are replayed up to there."
        ));
    }
    let missing = prompts - data.answered();
    if missing > 0 {
        notes.push(format!(
            "{missing} of {prompts} prompts are not answered yet: a shard, or a run that was stopped."
        ));
    }
    notes.extend(data.plan.left_out.iter().map(|dataset| {
        format!("{dataset} was left out: give its files with --data {dataset}=PATH.")
    }));
    if data.plan.evidence == Evidence::Replayed {
        for note in &mut notes {
            *note = note.replace("plain decoding's", "the recorded one");
        }
    }
    notes
}
