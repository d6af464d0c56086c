//! White space and what is left behind when markup has gone.

/// Puts the lines of a page in order, in one pass.
///
/// Runs of blanks become one space, runs of blank lines one blank line; parentheses that hold
/// nothing go, and blanks before a comma, a full stop or a closing parenthesis. Lines that begin
/// with a bar are rows of tables whose start or end comes from a template: they go; so do header
/// rows from `open_table` on, where a table was left open.
pub(super) fn tidy(text: &str, open_table: Option<usize>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut offset = 0;
    let mut blank_before = false;
    for line in text.split('\n') {
        let in_table = open_table.is_some_and(|start| offset >= start);
        offset += line.len() + 1;
        if is_table_row(line, in_table) {
            continue;
        }
        let before = out.len();
        if before > 0 {
            out.push_str(if blank_before { "\n\n" } else { "\n" });
        }
        let start = out.len();
        tidy_line(line, &mut out);
        if out.len() == start {
            out.truncate(before);
            blank_before = true;
        } else {
            blank_before = false;
        }
    }
    out
}

fn is_table_row(line: &str, in_table: bool) -> bool {
    let line = line.trim_start_matches([' ', '\t']);
    line.starts_with('|') || line.starts_with("{|") || (in_table && line.starts_with('!'))
}

/// The bytes at which a line may need a change.
fn is_seam(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\t' | b'\r' | b'(' | b')' | b',' | b';' | b'.'
    )
}

/// Appends a line to `out`, tidied. The line starts where `out` ends.
fn tidy_line(line: &str, out: &mut String) {
    let start = out.len();
    let bytes = line.as_bytes();
    let mut at = 0;
    let mut space = false;
    while at < bytes.len() {
        let byte = bytes[at];
        if matches!(byte, b' ' | b'\t' | b'\r') {
            space = true;
            at += 1;
            continue;
        }
        let after_open = out.len() > start && out.ends_with('(');
        if after_open && matches!(byte, b',' | b';') {
            at += 1;
            continue;
        }
        if byte == b')' && after_open && close_empty(out, start) {
            at += 1;
            space = space || at < bytes.len();
            continue;
        }
        if std::mem::take(&mut space) && out.len() > start && !after_open && !hugs(bytes, at) {
            out.push(' ');
        }
        let length = 1 + bytes[at + 1..]
            .iter()
            .position(|&byte| is_seam(byte))
            .unwrap_or(bytes.len() - at - 1);
        out.push_str(&line[at..at + length]);
        at += length;
    }
}

/// Whether the mark at `at` stands against the word before it.
fn hugs(bytes: &[u8], at: usize) -> bool {
    let ends = bytes.get(at + 1).is_none_or(u8::is_ascii_whitespace);
    match bytes[at] {
        b')' => true,
        b',' | b'.' => ends,
        _ => false,
    }
}

/// Takes back the parenthesis that was just opened, unless it belongs to the word before it, as in
/// "main()".
fn close_empty(out: &mut String, start: usize) -> bool {
    let before = &out[start..out.len() - 1];
    if !before.is_empty() && !before.ends_with(' ') {
        return false;
    }
    let length = start + before.trim_end().len();
    out.truncate(length);
    true
}
