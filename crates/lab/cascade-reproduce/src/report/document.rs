//! The report, and the files around it.

mod html;
mod provenance;
mod samples;

use std::path::Path;

use crate::error::{Error, Result};
use crate::report::evidence::Evidence;
use crate::report::manifest::{MANIFEST, Manifest};
use crate::report::plot::Plot;
use crate::report::sample::Sample;
use crate::report::table::Table;
use crate::results;

/// The file to open.
const PAGE: &str = "report.html";

/// All tables, to read.
const TABLES: &str = "table.md";

/// A part of a report.
#[derive(Clone, Debug)]
enum Block {
    Heading(String),
    Text(String),
    Table(Table),
    Plot { plot: Plot, caption: String },
    Sample(Sample),
}

/// The report of an experiment: one HTML file that opens offline, and the same tables and
/// plots as files.
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    summary: String,
    manifest: Manifest,
    blocks: Vec<Block>,
}

impl Report {
    /// A report with a title, a paragraph that says what was found, and how it came about.
    pub fn new(title: impl Into<String>, summary: impl Into<String>, manifest: Manifest) -> Self {
        Self {
            title: title.into(),
            summary: summary.into(),
            manifest,
            blocks: Vec::new(),
        }
    }

    /// Adds a heading.
    #[must_use]
    pub fn heading(self, heading: impl Into<String>) -> Self {
        self.with(Block::Heading(heading.into()))
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.with(Block::Text(text.into()))
    }

    /// Adds a table.
    #[must_use]
    pub fn table(self, table: Table) -> Self {
        self.with(Block::Table(table))
    }

    /// Adds a plot with a caption below it.
    #[must_use]
    pub fn plot(self, plot: Plot, caption: impl Into<String>) -> Self {
        self.with(Block::Plot {
            plot,
            caption: caption.into(),
        })
    }

    /// Adds a sample, whose tokens show which level drafted them.
    #[must_use]
    pub fn sample(self, sample: Sample) -> Self {
        self.with(Block::Sample(sample))
    }

    /// Writes a folder, which is made if it is not there: `report.html`, `manifest.json`,
    /// `table.md` with all tables, each table as CSV and LaTeX, and each plot as SVG.
    /// Files of tables and plots are numbered, and named after their titles:
    /// `table-2-walltime-gsm8k.csv`. Each file is replaced as a whole.
    ///
    /// # Errors
    /// What the system says, and what drawing a plot or writing JSON fails with.
    pub fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(Error::io("make", folder))?;
        let write = |name: &str, bytes: &[u8]| results::write(&folder.join(name), bytes);
        for (i, table) in self.tables().enumerate() {
            let stem = stem("table", i, table.title());
            write(&format!("{stem}.csv"), table.to_csv().as_bytes())?;
            write(&format!("{stem}.tex"), table.to_latex().as_bytes())?;
        }
        for (i, plot) in self.plots().enumerate() {
            let stem = stem("plot", i, plot.title());
            write(&format!("{stem}.svg"), plot.to_svg()?.as_bytes())?;
        }
        let tables: Vec<String> = self.tables().map(Table::to_markdown).collect();
        write(TABLES, tables.join("\n").as_bytes())?;
        write(MANIFEST, self.manifest.to_json()?.as_bytes())?;
        write(PAGE, self.to_html()?.as_bytes())
    }

    fn with(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }

    fn tables(&self) -> impl Iterator<Item = &Table> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        })
    }

    fn plots(&self) -> impl Iterator<Item = &Plot> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Plot { plot, .. } => Some(plot),
            _ => None,
        })
    }

    /// The kinds of evidence in the report, without repetition.
    fn evidence(&self) -> Vec<Evidence> {
        let of = |block: &Block| match block {
            Block::Heading(_) | Block::Text(_) => Vec::new(),
            Block::Table(table) => table.evidence(),
            Block::Plot { plot, .. } => plot.evidence(),
            Block::Sample(sample) => vec![sample.evidence],
        };
        let all: Vec<Evidence> = self.blocks.iter().flat_map(of).collect();
        let kinds = Evidence::ALL.into_iter();
        kinds.filter(|kind| all.contains(kind)).collect()
    }
}

/// Whether a report writes a file of this name, or did so in an earlier version.
pub(crate) fn is_part(name: &str) -> bool {
    let Some((stem, extension)) = name.rsplit_once('.') else {
        return false;
    };
    let is_numbered = |kind: &str| match stem.strip_prefix(kind).map(|rest| rest.strip_prefix('-'))
    {
        None => false,
        Some(None) => stem == kind,
        Some(Some(rest)) => {
            let number = rest.split('-').next().unwrap_or_default();
            !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit())
        }
    };
    let (table, plot) = (["csv", "tex"], ["svg", "pdf", "png"]);
    [MANIFEST, PAGE, TABLES].contains(&name)
        || (table.contains(&extension) && is_numbered("table"))
        || (plot.contains(&extension) && is_numbered("plot"))
}

/// `table-2-walltime-gsm8k`: what it is, its number, and the first words of its title.
fn stem(kind: &str, i: usize, title: &str) -> String {
    /// The most letters of a title: names of files are listed in columns.
    const MOST: usize = 48;
    let mut stem = format!("{kind}-{}", i + 1);
    let most = stem.len() + MOST;
    let title = title.to_lowercase();
    let words = title.split(|c: char| !c.is_ascii_alphanumeric());
    for word in words.filter(|word| !word.is_empty()) {
        if stem.len() + 1 + word.len() > most {
            break;
        }
        stem = format!("{stem}-{word}");
    }
    stem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_say_what_they_are() {
        assert_eq!(
            stem("table", 1, "Walltime × plain, gsm8k: α & β"),
            "table-2-walltime-plain-gsm8k"
        );
        assert_eq!(stem("plot", 0, "…"), "plot-1");
        assert!(stem("plot", 0, &"long ".repeat(40)).len() <= 55);
        for part in [
            "table-1-a.csv",
            "table-12.tex",
            "plot-1-x-y.pdf",
            "plot.png",
            "table.md",
        ] {
            assert!(is_part(part), "{part}");
        }
        for other in [
            "table-x.csv",
            "tables.csv",
            "plot-1.csv",
            "table-1.svg",
            "plotter.svg",
        ] {
            assert!(!is_part(other), "{other}");
        }
    }
}
