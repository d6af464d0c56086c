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
    let mut screen = Screen {
        text: String::new(),
        // A line stays empty before the last.
        room: LINES - 1 - last.lines().count(),
    };
    let (overviews, others) = reported.tables.split_at(reported.overviews);
    let table = |table: &Table| table.rows_to_text(columns) + "\n";
    let mut notes: Vec<String> = Vec::new();
    for overview in overviews {
        if screen.took(&table(overview)) {
            let new = overview.text_notes().into_iter();
            let new: Vec<String> = new.filter(|note| !notes.contains(note)).collect();
            notes.extend(new);
        }
    }
    let notes: String = notes.iter().map(|note| lines(note)).collect();
    screen.took(&(notes + "\n"));
    for found in reported.summary.lines() {
        screen.took(&lines(found));
    }
    for other in others {
        screen.took(&format!("\n{}", table(other)));
    }
    format!("{}\n\n{last}", screen.text.trim())
}

/// What is shown so far, and lines that are left.
struct Screen {
    text: String,
    room: usize,
}

impl Screen {
    /// Whether there was room for a text, which is then shown.
    fn took(&mut self, text: &str) -> bool {
        let left = self.room.checked_sub(text.lines().count());
        if let Some(left) = left {
            self.room = left;
            self.text += text;
        }
        left.is_some()
    }
}

fn files(reported: &Reported, folder: &Path) -> String {
    format!(
        "written to {}: report.html with everything; the {} in table.md, table-*.csv and table-*.tex; plots in plot-*.svg; \
         manifest.json",
        folder.display(),
        match reported.tables.len() {
            1 => "table".to_owned(),
            tables => format!("{tables} tables"),
        },
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
                screen
                    .contains("written to results/x: report.html with everything; the 2 tables in"),
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
