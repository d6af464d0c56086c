//! What a terminal shows of a report.

use std::path::Path;

use cascade_reproduce::Reported;
use cascade_reproduce::report::{Table, wrapped};

/// Lines of a screen, and the columns of a line at most.
const LINES: usize = 40;
const COLUMNS: usize = 100;

/// A screen of the tables that sum up the others, of what was found, and of the other tables: as
/// much as there is room for, and where all of it is.
pub(super) fn of(reported: &Reported, folder: &Path, columns: usize) -> String {
    let columns = columns.min(COLUMNS);
    let lines = |text: &str| wrapped(text, columns).join("\n") + "\n";
    let last = lines(&files(reported, folder));
    let (overviews, others) = reported.tables.split_at(reported.overviews);
    let table = |table: &Table| table.rows_to_text(columns) + "\n";
    let found = reported.summary.lines().map(lines);
    let blocks = overviews.iter().map(table).chain([notes(overviews, lines)]);
    let blocks = blocks
        .chain(found)
        .chain(others.iter().map(|one| format!("\n{}", table(one))));
    // A line stays empty before the last.
    let mut room = LINES - 1 - last.lines().count();
    let mut text = String::new();
    for block in blocks {
        if let Some(left) = room.checked_sub(block.lines().count()) {
            room = left;
            text += &block;
        }
    }
    format!("{}\n\n{last}", text.trim_end())
}

/// The notes of some tables, each once.
fn notes(tables: &[Table], lines: impl Fn(&str) -> String) -> String {
    let mut notes: Vec<String> = Vec::new();
    for note in tables.iter().flat_map(Table::text_notes) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let notes: Vec<String> = notes.iter().map(|note| lines(note)).collect();
    if notes.is_empty() {
        String::new()
    } else {
        notes.concat() + "\n"
    }
}

fn files(reported: &Reported, folder: &Path) -> String {
    format!(
        "written to {}: report.html with all {} tables, plots and samples; the tables alone in table.md, table-*.csv and \
         table-*.tex; the plots in plot-*.svg; manifest.json",
        folder.display(),
        reported.tables.len(),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use cascade_reproduce::report::{Evidence, Figure, Figures, Machine, Manifest, Report};

    fn reported(rows: usize, sentences: usize) -> Reported {
        let names = (0..rows).map(|row| format!("row_{row}"));
        let figures =
            |header: &str| Figures::new(header, Evidence::Measured, vec![Figure::new(1.0); rows]);
        let table = Table::new("A table").labels("Name", names).unwrap();
        let table = table.figures(figures("first")).unwrap().note("A *note*.");
        let manifest = Manifest::new(Vec::new(), Machine::this(), jiff::Timestamp::UNIX_EPOCH);
        Reported {
            report: Report::new("", "", manifest),
            tables: vec![table.clone(), table],
            overviews: 1,
            summary: "something was found. ".repeat(9).trim_end().to_owned()
                + &"\nAnd this.".repeat(sentences),
            unequal: 0,
        }
    }

    #[test]
    fn a_screen_has_what_there_is_room_for_and_names_the_files() {
        for (rows, sentences) in [(1, 0), (5, 3), (20, 60), (60, 2), (1000, 1000)] {
            let screen = of(&reported(rows, sentences), Path::new("results/x"), 300);
            assert!(screen.lines().count() <= LINES, "{screen}");
            assert!(
                screen.lines().all(|line| line.chars().count() <= COLUMNS),
                "{screen}"
            );
            assert!(
                screen.contains("written to results/x: report.html with all 2 tables"),
                "{screen}"
            );
            assert_eq!(screen.contains("row_0"), rows < 40, "{screen}");
            assert!(screen.contains("something was found."), "{screen}");
        }
        let screen = of(&reported(2, 1), Path::new("x"), 60);
        assert_eq!(screen.matches("row_1 ").count(), 2, "{screen}");
        assert_eq!(screen.matches("A *note*.").count(), 1, "{screen}");
    }
}
