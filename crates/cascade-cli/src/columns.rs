//! Tables of text, whose columns never touch.

/// The lines of a table, whose columns are as wide as their widest cells, two blanks apart. `sides`
/// says of each column whether its cells stand at the left (`<`) or at the right (`>`); the last
/// sign holds for all further columns.
pub fn table(sides: &str, rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let last = sides.chars().next_back().unwrap_or('>');
    let mut text = String::new();
    for row in rows {
        let sides = sides.chars().chain(std::iter::repeat(last));
        let cells = row.iter().zip(&widths).zip(sides);
        let cells = cells.map(|((cell, width), side)| match side {
            '<' => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// A row of cells.
pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_apart_however_wide_their_cells_are() {
        let rows = [
            row(["", "records", "tokens", "drafted", "name"]),
            row(["multi-turn conversation", "80", "49,848", "1,092,504", "é"]),
            row(["a", "8"]),
        ];
        let expected = [
            "                         records  tokens    drafted  name",
            "multi-turn conversation       80  49,848  1,092,504  é",
            "a                              8",
            "",
        ];
        let expected = expected.join("\n");
        assert_eq!(table("<>>><", &rows), expected);
        assert_eq!(table("<>>><", &[]), "");
        assert_eq!(
            table(">", &[row(["a", "b"]), row(["cc", "dd"])]),
            " a   b\ncc  dd\n"
        );
    }
}
