//! Tables that fit a terminal.

use std::collections::HashSet;
use std::io::stdout;

use terminal_size::{Width, terminal_size_of};

/// The columns of the terminal that standard output is, if it is one.
pub(crate) fn width() -> Option<usize> {
    terminal_size_of(stdout()).map(|(Width(width), _)| width.into())
}

/// Columns that a printed table takes at most: those of the terminal, and 100 elsewhere.
pub(crate) fn fitting() -> usize {
    width().unwrap_or(100)
}

/// A text with Markdown tables, of which each that is wider than the terminal is cut into several,
/// one below the other, that begin with the same first columns: as many as tell the rows apart.
/// Other lines are broken at spaces.
pub(crate) fn folded(markdown: &str, width: Option<usize>) -> String {
    let Some(width) = width else {
        return markdown.to_owned();
    };
    let mut text = String::new();
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        if !line.starts_with('|') {
            wrap(&mut text, line, width);
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
    let numbers = numbers(rows.len());
    let fits = |columns: usize| {
        let widths = (0..columns).map(|column| 3 + widest(&rows, column));
        widths.sum::<usize>() < width / 2
    };
    let (rows, repeated) = match key_columns(&rows).filter(|&columns| fits(columns)) {
        Some(columns) => (rows, columns),
        None => (numbered(&rows, &numbers), 2),
    };
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width_of = |column: usize| 3 + widest(&rows, column);
    let mut next = repeated;
    while next < columns {
        let (first, mut used) = (next, 1 + (0..repeated).map(width_of).sum::<usize>());
        // At least one, however wide.
        while next < columns && (next == first || used + width_of(next) <= width) {
            used += width_of(next);
            next += 1;
        }
        if first > repeated {
            text.push('\n');
        }
        for row in &rows {
            let block: Vec<&str> = row
                .iter()
                .take(repeated)
                .chain(row.iter().take(next).skip(first))
                .copied()
                .collect();
            *text += &format!("| {} |\n", block.join(" | "));
        }
    }
}

/// The characters of the widest cell of a column.
fn widest(rows: &[Vec<&str>], column: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(column));
    let widths = cells.map(|cell| cell.chars().count());
    widths.max().unwrap_or_default()
}

/// How many of the first columns tell the rows apart, if any do.
fn key_columns(rows: &[Vec<&str>]) -> Option<usize> {
    let columns = rows.first().map_or(0, Vec::len);
    let distinct = |count: &usize| {
        let keys: HashSet<_> = rows.iter().filter_map(|row| row.get(..*count)).collect();
        keys.len() == rows.len()
    };
    (1..columns).find(distinct)
}

/// Header, rule and numbers of a column that distinguishes the rows.
fn numbers(rows: usize) -> Vec<String> {
    let last = rows.saturating_sub(2);
    let digits = last.to_string().len().max(3);
    let header = [
        format!("{:>digits$}", "#"),
        format!("{}:", "-".repeat(digits - 1)),
    ];
    let numbers = (1..=last).map(|number| format!("{number:>digits$}"));
    header.into_iter().chain(numbers).collect()
}

/// The rows with their numbers in front.
fn numbered<'a>(rows: &[Vec<&'a str>], numbers: &'a [String]) -> Vec<Vec<&'a str>> {
    let numbers = numbers.iter().map(String::as_str);
    let rows = numbers.zip(rows);
    rows.map(|(number, row)| std::iter::once(number).chain(row.iter().copied()).collect())
        .collect()
}

/// A line, broken at spaces; of an item of a list, what follows is indented.
fn wrap(text: &mut String, line: &str, width: usize) {
    let indent = if line.starts_with("- ") { "  " } else { "" };
    let mut used = 0;
    for word in line.split(' ') {
        let length = word.chars().count();
        if used > indent.len() && used + 1 + length > width {
            *text += &format!("\n{indent}{word}");
            used = indent.len() + length;
        } else {
            let space = if used > 0 { " " } else { "" };
            *text += &format!("{space}{word}");
            used += space.len() + length;
        }
    }
    text.push('\n');
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
    fn rows_keep_the_columns_that_tell_them_apart() {
        let table = "| a | b | first | second |\n| --- | --- | --- | --- |\n| x | y | 1.000000000000 | 2.00000000000 |\n\
            | x | z | 3.000000000000 | 4.00000000000 |\n";
        let folded = folded(table, Some(36));
        assert_eq!(folded.matches("| x | y |").count(), 2, "{folded}");
        assert!(folded.lines().all(|line| line.chars().count() <= 36));
    }

    #[test]
    fn rows_that_no_columns_tell_apart_are_numbered() {
        let table = "| name | first | second |\n| --- | --- | --- |\n| same | 1.000000000000 | 2.00000000000 |\n\
            | same | 3.000000000000 | 4.00000000000 |\n";
        let folded = folded(table, Some(36));
        assert_eq!(folded.matches("|   2 | same |").count(), 2, "{folded}");
        assert_eq!(folded.matches("|   # | name |").count(), 2, "{folded}");
        assert!(folded.lines().all(|line| line.chars().count() <= 36));
    }

    #[test]
    fn other_lines_are_broken_at_spaces() {
        let text = "# A title of a table\n\n- a note of several words\n- short\nunbreakable_word_that_is_long\n";
        let expected = "# A title of a\ntable\n\n- a note of\n  several words\n- short\nunbreakable_word_that_is_long\n";
        assert_eq!(folded(text, Some(15)), expected);
        assert_eq!(folded(text, Some(80)), text);
        assert_eq!(folded("", Some(10)), "");
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
