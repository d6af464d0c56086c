//! The conversation of Vicuna v1.1.

const SYSTEM: &str = "A chat between a curious user and an artificial intelligence assistant. \
    The assistant gives helpful, detailed, and polite answers to the user's questions.";

/// The conversation up to the answer that is wanted next: FastChat's template `vicuna_v1.1`
/// (separator style ADD_COLON_TWO with `" "` and `"</s>"`), which puts neither a space nor a
/// separator after an assistant that said nothing.
///
/// There must be more messages than answers; those after the next answer are left out.
pub(super) fn conversation(messages: &[String], answers: &[String]) -> String {
    let mut text = format!("{SYSTEM} ");
    for (turn, message) in messages.iter().take(answers.len() + 1).enumerate() {
        text.extend(["USER: ", message.as_str(), " ASSISTANT:"]);
        if let Some(answer) = answers.get(turn).filter(|answer| !answer.is_empty()) {
            text.extend([" ", answer, "</s>"]);
        }
    }
    text
}
