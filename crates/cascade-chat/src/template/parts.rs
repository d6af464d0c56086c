//! In which form a template reads the contents of messages: texts, lists of parts, or both.

use minijinja::value::{Serde, Value};
use serde_json::{Value as Json, json};

use super::ChatTemplate;
use crate::message::ContentForm;
use crate::{Message, Role};

/// The form of each role's contents.
pub(super) type Forms = [ContentForm; Role::ALL.len()];

/// A text that no template has.
const SAID: &str = "zq7said";
/// What a template shows of a part that it does not read, but writes out as data.
const DATA: &str = "zq7data";

impl ChatTemplate {
    /// In which form it reads the content of a message. Nothing is left out, and nothing is shown
    /// as data: found out by rendering probes, the first time that it matters.
    pub(super) fn content_form(&self, message: &Message) -> ContentForm {
        // What does not have the word cannot read a part's text.
        if !self.mentions("text") {
            return ContentForm::Text;
        }
        let forms = self
            .forms
            .get_or_init(|| Role::ALL.map(|role| self.probed(role)));
        forms[message.role() as usize]
    }

    fn probed(&self, role: Role) -> ContentForm {
        let parts = json!([{"type": "text", "text": SAID, "data": DATA}]);
        match (self.says(role, parts), self.says(role, SAID.into())) {
            (true, true) => ContentForm::AsGiven,
            (true, false) => ContentForm::Parts,
            (false, _) => ContentForm::Text,
        }
    }

    /// Whether what a role says is in the prompt, if its content is this.
    fn says(&self, role: Role, content: Json) -> bool {
        let message = |role: Role, content: Json| json!({"role": role.name(), "content": content});
        let user = || message(Role::User, "Hi".into());
        let conversation = match role {
            Role::System => vec![message(role, content), user()],
            Role::User => vec![message(role, content)],
            Role::Assistant => vec![user(), message(role, content), user()],
        };
        let messages = Value::from(Serde(conversation));
        let text = self.render_objects(messages, 0, true);
        text.is_ok_and(|text| text.contains(SAID) && !text.contains(DATA))
    }
}
