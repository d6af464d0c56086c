//! Tables in LaTeX.

use super::{Column, Table, row};
use crate::report::text::shown_line;

/// The characters of a line of LaTeX's `article` in the size of footnotes.
const LINE: usize = 80;

impl Table {
    /// The table as a LaTeX `table` with rules of booktabs: title as caption, headers with unit,
    /// the evidence on a line of its own, figures with the decimals that are displayed, intervals
    /// in brackets, and the notes below. One that is wider than a page is several `tabular`s. A
    /// document needs `\usepackage{booktabs}`, and a font that has the letters of the table's
    /// texts; symbols are written as commands.
    pub fn to_latex(&self) -> String {
        let mut out = format!(
            "% \\usepackage{{booktabs}}\n\\begin{{table}}\n\\centering\\footnotesize\n\\caption{{{}}}\n",
            escaped(&self.title)
        );
        let pieces = self.pieces(LINE, width);
        let tabulars: Vec<String> = pieces.iter().map(|piece| self.tabular(piece)).collect();
        out += &tabulars.join("\\par\\medskip\n");
        for note in self.all_notes() {
            out += &format!("\n\\par\\smallskip{{{}}}\n", escaped(&note));
        }
        out + "\\end{table}\n"
    }

    fn tabular(&self, piece: &[Column]) -> String {
        let columns: Vec<Vec<String>> = piece.iter().map(lines).collect();
        let aligned = |column: &Column| if column.figures().is_some() { 'r' } else { 'l' };
        let align: String = piece.iter().map(aligned).collect();
        let rows = (0..self.rows() + 2).map(|line| row(&columns, line, " & ") + " \\\\\n");
        let mut rows: Vec<String> = rows.collect();
        rows.insert(2, "\\midrule\n".to_owned());
        let rows = rows.concat();
        format!("\\begin{{tabular}}{{{align}}}\n\\toprule\n{rows}\\bottomrule\n\\end{{tabular}}\n")
    }
}

/// The characters that a group takes, with the space beside each column.
fn width(group: &[Column]) -> usize {
    let shown = |column: &Column| {
        let mut texts = column.cells(str::to_owned, Option::unwrap_or_default);
        texts.push(column.title());
        texts
            .iter()
            .map(|text| 3 + text.chars().count())
            .max()
            .unwrap_or(0)
    };
    group.iter().map(shown).sum()
}

/// Header, evidence, and cells.
fn lines(column: &Column) -> Vec<String> {
    let title = column.title();
    let (header, evidence) = match column.figures() {
        Some(figures) => (escaped(&title), format!("\\emph{{{}}}", figures.evidence)),
        None => (protected(&title), String::new()),
    };
    let figure = |figure: Option<String>| match figure {
        Some(figure) => figure
            .replace('-', "$-$")
            .replace('%', "\\%")
            .replace('≠', "$\\neq$"),
        None => "--".to_owned(),
    };
    [vec![header, evidence], column.cells(protected, figure)].concat()
}

/// [`escaped`], as a cell: one that begins with a bracket or an asterisk would be taken for an
/// argument of the `\\` before it.
fn protected(text: &str) -> String {
    let text = escaped(text);
    if text.starts_with(['[', '*']) {
        format!("{{}}{text}")
    } else {
        text
    }
}

/// Text that LaTeX sets as it is, on one line.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in shown_line(text).chars() {
        match c {
            '\\' => out += "\\textbackslash{}",
            '~' => out += "\\textasciitilde{}",
            '^' => out += "\\textasciicircum{}",
            '<' => out += "\\textless{}",
            '>' => out += "\\textgreater{}",
            '|' => out += "\\textbar{}",
            '"' => out += "\\char34{}",
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            // A hyphen is no minus, and two of them would be a dash.
            '-' => out += "-{}",
            '`' | '\'' => out.extend([c, '{', '}']),
            _ => match symbol(c) {
                Some(symbol) => out += symbol,
                None => out.push(c),
            },
        }
    }
    out
}

/// Symbols of our titles and headers that the fonts of LaTeX have in math alone.
fn symbol(c: char) -> Option<&'static str> {
    Some(match c {
        '×' => "$\\times$",
        '±' => "$\\pm$",
        '≤' => "$\\leq$",
        '≠' => "$\\neq$",
        '≥' => "$\\geq$",
        '≈' => "$\\approx$",
        '−' => "$-$",
        '→' => "$\\to$",
        '·' => "$\\cdot$",
        '–' => "--",
        '…' => "\\dots{}",
        'α' => "$\\alpha$",
        'β' => "$\\beta$",
        'γ' => "$\\gamma$",
        'δ' => "$\\delta$",
        'Δ' => "$\\Delta$",
        'ε' => "$\\varepsilon$",
        'λ' => "$\\lambda$",
        'Σ' => "$\\Sigma$",
        'τ' => "$\\tau$",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Evidence, Figure, Figures};

    #[test]
    fn nothing_in_a_text_is_a_command() {
        assert_eq!(
            escaped("50% of a_b & #1 {x} $y \\z ~^ <|im|>"),
            "50\\% of a\\_b \\& \\#1 \\{x\\} \\$y \\textbackslash{}z \\textasciitilde{}\\textasciicircum{} \
             \\textless{}\\textbar{}im\\textbar{}\\textgreater{}"
        );
        assert_eq!(escaped("a--b ``c''"), "a-{}-{}b `{}`{}c'{}'{}");
        assert_eq!(
            escaped("2.58 × α\n≤ –"),
            "2.58 $\\times$ $\\alpha$ $\\leq$ --"
        );
        assert_eq!(protected("[8, 5]"), "{}[8, 5]");
        // What is active in some position is escaped in all: these are all of TeX's characters.
        for c in "\\{}$&#^_~%".chars() {
            assert_ne!(escaped(&c.to_string()), c.to_string());
        }
    }

    #[test]
    fn a_table_has_a_line_for_each_row_and_a_cell_for_each_column() {
        let table = Table::new("Speed & cost")
            .labels("K", ["[8]", "2_10"])
            .unwrap()
            .figures(
                Figures::new(
                    "× plain",
                    Evidence::Measured,
                    [Some(Figure::with_interval(2.5, -2.25, 2.75)), None],
                )
                .intervals("95 %"),
            )
            .unwrap();
        let expected = "% \\usepackage{booktabs}\n\\begin{table}\n\\centering\\footnotesize\n\\caption{Speed \\& cost}\n\
                        \\begin{tabular}{lr}\n\\toprule\nK & $\\times$ plain \\\\\n & \\emph{measured} \\\\\n\\midrule\n\
                        {}[8] & 2.50 [$-$2.25, 2.75] \\\\\n2\\_10 & -- \\\\\n\\bottomrule\n\\end{tabular}\n\n\
                        \\par\\smallskip{Intervals: 95 \\%.}\n\\end{table}\n";
        assert_eq!(table.to_latex(), expected);
    }
}
