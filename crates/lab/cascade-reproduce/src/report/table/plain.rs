//! Tables as text, for terminals.

use super::{Column, Table, groups};
use crate::report::text::{shown_line, wrapped};

/// Between columns.
const GAP: usize = 2;

impl Table {
    /// The table as text of at most so many columns, where its cells allow that, with its notes
    /// below. A wider table comes in pieces, one below the other.
    pub fn to_text(&self, width: usize) -> String {
        let notes = self.text_notes().into_iter();
        let notes = notes.map(|note| wrapped(&note, width - 2).join("\n  "));
        let notes: Vec<String> = notes.map(|note| format!("- {note}\n")).collect();
        format!("{}\n{}", self.rows_to_text(width), notes.concat())
    }

    /// What [`to_text`](Self::to_text) has above the notes.
    pub fn rows_to_text(&self, width: usize) -> String {
        let pieces = self.pieces(width + GAP, self::width).into_iter();
        let pieces: Vec<String> = pieces.map(|piece| self.piece(&piece)).collect();
        let title = wrapped(&self.title, width).join("\n");
        format!("{title}\n{}", pieces.join("\n"))
    }

    /// The notes below the text, and what the kinds of evidence are.
    pub fn text_notes(&self) -> Vec<String> {
        let kinds = self.evidence().into_iter();
        let legend: Vec<String> = kinds
            .map(|kind| format!("{kind}: {}", kind.meaning()))
            .collect();
        let mut notes = self.all_notes();
        if !legend.is_empty() {
            notes.push(format!("{}.", legend.join("; ")));
        }
        notes
    }

    fn piece(&self, columns: &[Column]) -> String {
        let blocks: Vec<Block> = groups(columns).map(Block::of).collect();
        let height = blocks
            .iter()
            .map(|block| block.head.len())
            .max()
            .unwrap_or(0);
        let line = |cells: Vec<String>| cells.join(&" ".repeat(GAP)).trim_end().to_owned() + "\n";
        let heads = (0..height).map(|row| {
            line(
                blocks
                    .iter()
                    .map(|block| block.head_line(row + block.head.len(), height))
                    .collect(),
            )
        });
        let rule = line(blocks.iter().map(|block| "-".repeat(block.width)).collect());
        let rows =
            (0..self.rows()).map(|row| line(blocks.iter().map(|b| b.rows[row].clone()).collect()));
        heads.chain([rule]).chain(rows).collect()
    }
}

/// A group of columns as lines of one width.
struct Block {
    width: usize,
    head: Vec<String>,
    rows: Vec<String>,
    right: bool,
}

impl Block {
    fn of(group: &[Column]) -> Self {
        let columns: Vec<Vec<String>> = group.iter().map(lines).collect();
        let widths = columns
            .iter()
            .map(|lines| longest(lines.iter().map(String::as_str)));
        let widths: Vec<usize> = widths.collect();
        let title = shown_line(&group[0].title());
        let own = widths.iter().sum::<usize>() + GAP * (group.len() - 1);
        let mut head = wrapped(&title, own.max(longest(title.split(' '))));
        let width = longest(head.iter().map(String::as_str)).max(own);
        let right = group[0].figures().is_some();
        let joined = |row: usize| {
            let cells = columns.iter().zip(&widths);
            let cells: Vec<String> = cells
                .map(|(lines, &width)| padded(&lines[row], width, right))
                .collect();
            padded(&cells.join(&" ".repeat(GAP)), width, right)
        };
        let mut rows: Vec<String> = (0..columns[0].len()).map(joined).collect();
        if right {
            head.push(rows.remove(0));
        }
        Self {
            width,
            head,
            rows,
            right,
        }
    }

    /// A line of the header, which stands at the bottom of one of so many lines.
    fn head_line(&self, at: usize, height: usize) -> String {
        let line = at.checked_sub(height).and_then(|row| self.head.get(row));
        padded(line.map_or("", String::as_str), self.width, self.right)
    }
}

/// The evidence of a column of figures, and the cells.
fn lines(column: &Column) -> Vec<String> {
    let cells = column.cells(shown_line, |figure| {
        figure.unwrap_or_else(|| "–".to_owned())
    });
    let evidence = column.figures().map(|figures| figures.evidence.to_string());
    evidence.into_iter().chain(cells).collect()
}

/// The characters that a group takes, with the gap.
fn width(group: &[Column]) -> usize {
    GAP + Block::of(group).width
}

fn longest<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

fn padded(text: &str, width: usize, right: bool) -> String {
    if right {
        format!("{text:>width$}")
    } else {
        format!("{text:<width$}")
    }
}
