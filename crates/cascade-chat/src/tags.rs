//! The tags of a template's source: what is rewritten, and what is refused, before it is compiled.

/// A tag that a chat template must not have, and its line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ForbiddenTag {
    pub(crate) name: String,
    pub(crate) line: usize,
}

/// Tags that ask for other files.
const OF_FILES: [&str; 4] = ["include", "import", "from", "extends"];

/// The source with `{% generation %}` as `{% with %}`: transformers marks answers by it, in a scope
/// of their own, and the text is the same.
pub(crate) fn prepare(source: &str) -> Result<String, ForbiddenTag> {
    let mut prepared = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        prepared.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = match rest.as_bytes().get(1) {
            Some(b'#') => rest.find("#}").map(|end| end + 2),
            Some(b'{') => Some(end_of_code(rest, "}}")),
            Some(b'%') => Some(end_of_code(rest, "%}")),
            _ => Some(1),
        };
        let (tag, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        let name = name(tag);
        if OF_FILES.contains(&name) {
            return Err(ForbiddenTag {
                name: name.to_owned(),
                line: 1 + prepared.matches('\n').count(),
            });
        }
        match name {
            "generation" => prepared.push_str(&tag.replacen("generation", "with", 1)),
            "endgeneration" => prepared.push_str(&tag.replacen("endgeneration", "endwith", 1)),
            "raw" => {
                let end = end_of_raw(rest);
                prepared.extend([tag, &rest[..end]]);
                rest = &rest[end..];
            }
            _ => prepared.push_str(tag),
        }
    }
    prepared.push_str(rest);
    Ok(prepared)
}

/// The name of a tag `{% name … %}`; empty for anything else.
fn name(tag: &str) -> &str {
    let Some(code) = tag.strip_prefix("{%") else {
        return "";
    };
    let code = code.trim_start_matches(['-', '+']).trim_start();
    let end = code.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    &code[..end.unwrap_or(code.len())]
}

/// Where code ends that is closed by `close`, which may also stand in its strings.
fn end_of_code(code: &str, close: &str) -> usize {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in code.char_indices().skip(2) {
        match quote {
            None if code[at..].starts_with(close) => return at + close.len(),
            None if matches!(c, '"' | '\'') => quote = Some(c),
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            _ => {}
        }
    }
    code.len()
}

/// Where the text of `{% raw %}` ends: before `{% endraw %}`.
fn end_of_raw(text: &str) -> usize {
    let mut tags = text.match_indices("{%");
    let end = tags.find(|(at, _)| name(&text[*at..]) == "endraw");
    end.map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_answers_become_scopes() {
        for (source, prepared) in [
            (
                "a{% generation %}b{% endgeneration %}",
                "a{% with %}b{% endwith %}",
            ),
            (
                "{%- generation -%}\n{%+endgeneration+%}",
                "{%- with -%}\n{%+endwith+%}",
            ),
            (
                "{# {% generation %} #}{{ '{% generation %}' }}",
                "{# {% generation %} #}{{ '{% generation %}' }}",
            ),
            (
                "{% raw %}{% generation %}{% endraw %}",
                "{% raw %}{% generation %}{% endraw %}",
            ),
            (
                "{% set generation = '%}{% generation %}' %}",
                "{% set generation = '%}{% generation %}' %}",
            ),
            ("{ {} }} {# open", "{ {} }} {# open"),
            (
                "é{{ \"\\\"}}\" }}{%generation%}",
                "é{{ \"\\\"}}\" }}{%with%}",
            ),
        ] {
            assert_eq!(prepare(source).unwrap(), prepared, "{source}");
        }
    }

    #[test]
    fn tags_that_ask_for_files_are_found() {
        for (source, name, line) in [
            ("{% include '/etc/passwd' %}", "include", 1),
            ("a\n\n{%- import 'x' as y %}", "import", 3),
            ("{%+ from 'x' import y %}", "from", 1),
            ("{#\n#}{% extends 'x' %}", "extends", 2),
        ] {
            let name = name.to_owned();
            assert_eq!(prepare(source).unwrap_err(), ForbiddenTag { name, line });
        }
        assert!(prepare("{# {% include 'x' %} #}{% raw %}{% include 'x' %}{% endraw %}").is_ok());
    }
}
