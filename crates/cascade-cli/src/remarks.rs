//! What to say of an answer that is empty, repeats itself or is cut: what it is, and what to try.

use cascade_engine::{Finish, GenerationOutput};
use cascade_eval::Ending;

use crate::show;
use crate::templates::Template;

/// Where an answer was asked for, and so what can be done about it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// `cascade run`, with this template.
    Run(&'a Template),
    /// `cascade chat`.
    Chat,
}

impl Place<'_> {
    /// What to say of an answer of so many tokens that fills the context.
    fn full(self, tokens: usize) -> String {
        let cure = match self {
            Self::Run(_) => "give a shorter prompt",
            Self::Chat => "/reset begins a new conversation",
        };
        format!("cut at {tokens} tokens: the model's context is full; {cure}")
    }
}

/// What to say of an answer, if it is not as it should be.
pub(crate) fn remark(generation: &GenerationOutput, place: Place<'_>) -> Option<String> {
    let text = generation.text.as_deref().unwrap_or_default();
    let tokens = generation.tokens.len();
    let sampled = match place {
        Place::Run(_) => "--temperature 0.7",
        Place::Chat => "/temp 0.7",
    };
    if text.trim().is_empty() && generation.finish == Finish::Eos {
        let cure = match place {
            Place::Run(Template::Plain(_)) => {
                "a chat model wants its template (leave --raw out, or give --chat)"
            }
            _ => "ask in other words",
        };
        return Some(format!(
            "an empty answer: the model ended it at once; {cure}, or sample with {sampled}"
        ));
    }
    match (show::ending(generation), place) {
        (Ending::Loop, _) => Some(format!(
            "the answer repeats itself: sample with {sampled}, or begin with --repetition-penalty 1.1"
        )),
        (Ending::Limit, place) if generation.finish == Finish::ContextFull => {
            Some(place.full(tokens))
        }
        (Ending::Limit, _) if generation.finish != Finish::MaxNewTokens => None,
        (Ending::Limit, Place::Run(_)) => {
            let more = 2 * tokens;
            Some(format!(
                "cut at {tokens} tokens: -n {more} lets the answer go on"
            ))
        }
        (Ending::Limit, Place::Chat) => Some(format!(
            "cut at {tokens} tokens: say \"go on\", or begin with a higher --max-new-tokens (-n)"
        )),
        (Ending::Own, _) => None,
    }
}
