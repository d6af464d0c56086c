//! Tables that fit a terminal.

use std::io::stdout;

use terminal_size::{terminal_size_of, Width};

/// The columns of the terminal that standard output is, if it is one.
pub(crate) fn width() -> Option<usize> {
    terminal_size_of(stdout()).map(|(Width(width), _)| width.into())
}

/// A text with Markdown tables, of which each that is wider than the terminal is cut into several,
/// one below the other, that begin with the same first column.
pub(crate) fn folded(markdown: &str, width: Option<usize>) -> String {
    let Some(width) = width else {
        return markdown.to_owned();
    };
    let mut text = String::new();
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        if !line.starts_with('|') {
            text += &format!("{line}\n");
            continue;
        }
        let mut table = vec![line];
        while let Some(line) = lines.next_if(|line| line.starts_with('|')) {
            table.push(line);
        }
        fold(&mut text, &table, width);
    }
    text
}

fn fold(text: &mut String, table: &[&str], width: usize) {
    if table.iter().all(|line| line.chars().count() <= width) {
        table.iter().for_each(|line| *text += &format!("{line}\n"));
        return;
    }
    let rows: Vec<Vec<&str>> = table.iter().map(|line| cells(line)).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width_of = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        3 + cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let mut next = 1;
    while next < columns {
        let (first, mut used) = (next, 1 + width_of(0));
        // At least one, however wide.
        while next < columns && (next == first || used + width_of(next) <= width) {
            used += width_of(next);
            next += 1;
        }
        if first > 1 {
            text.push('\n');
        }
        for row in &rows {
            let block = row.iter().take(1).chain(row.iter().take(next).skip(first));
            let block: Vec<&str> = block.copied().collect();
            *text += &format!("| {} |\n", block.join(" | "));
        }
    }
}

/// The cells of a row. A vertical bar within a cell is escaped.
fn cells(line: &str) -> Vec<&str> {
    let inner = line.strip_prefix('|').unwrap_or(line).trim_end();
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let mut cells = Vec::new();
    let mut begin = 0;
    let mut escaped = false;
    for (at, c) in inner.char_indices() {
        if c == '|' && !escaped {
            cells.push(cell(&inner[begin..at]));
            begin = at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    cells.push(cell(&inner[begin..]));
    cells
}

/// A cell without the spaces beside its bars; those that align it stay.
fn cell(text: &str) -> &str {
    let text = text.strip_prefix(' ').unwrap_or(text);
    text.strip_suffix(' ').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "A title\n\n| name | first | second | third |\n| --- | ---: | ---: | ---: |\n| a \\| b | 1.00 | 2.00 | 3.00 |\n\nA note\n";

    #[test]
    fn what_fits_and_what_is_no_terminal_stays_as_it_is() {
        assert_eq!(folded(TABLE, None), TABLE);
        assert_eq!(folded(TABLE, Some(80)), TABLE);
    }

    #[test]
    fn wide_tables_are_cut_between_columns() {
        let expected = "A title\n\n| name | first | second |\n| --- | ---: | ---: |\n\
            | a \\| b | 1.00 | 2.00 |\n\n| name | third |\n| --- | ---: |\n| a \\| b | 3.00 |\n\nA note\n";
        let folded_at_30 = folded(TABLE, Some(30));
        assert_eq!(folded_at_30, expected);
        assert!(folded_at_30.lines().all(|line| line.chars().count() <= 30));
        // One column at a time is the least.
        let narrow = folded(TABLE, Some(4));
        assert_eq!(narrow.matches("| name |").count(), 3);
    }
}
