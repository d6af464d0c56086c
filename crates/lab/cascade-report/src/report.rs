//! The report, and the files around it.

mod html;
mod provenance;
mod samples;

use std::path::Path;

use crate::error::{Error, Result};
use crate::evidence::Evidence;
use crate::file::write_atomically;
use crate::manifest::{Manifest, MANIFEST};
use crate::plot::Plot;
use crate::sample::Sample;
use crate::table::Table;

/// The file to open.
const PAGE: &str = "report.html";

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

    /// Writes `report.html`, `manifest.json`, `table.md` with all tables, `table.csv`, `plot.svg`
    /// and `plot.png` to a folder, which is made if it is not there. Tables and plots after the
    /// first are numbered: `table-2.csv`, `plot-2.svg`. Each file is replaced as a whole.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Draw`] and [`Error::Json`] of the parts.
    pub fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(Error::io("make", folder))?;
        let write = |name: &str, bytes: &[u8]| write_atomically(&folder.join(name), bytes);
        for (i, table) in self.tables().enumerate() {
            write(&numbered("table", i, "csv"), table.to_csv().as_bytes())?;
        }
        for (i, plot) in self.plots().enumerate() {
            write(&numbered("plot", i, "svg"), plot.to_svg().as_bytes())?;
            write(&numbered("plot", i, "png"), &plot.to_png(2.0)?)?;
        }
        let tables: Vec<String> = self.tables().map(Table::to_markdown).collect();
        write("table.md", tables.join("\n").as_bytes())?;
        write(MANIFEST, self.manifest.to_json()?.as_bytes())?;
        write(PAGE, self.to_html().as_bytes())
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

/// Whether a report writes a file of this name.
pub(crate) fn is_part(name: &str) -> bool {
    let numbered = |stem: &str, extension: &str| {
        let middle = name
            .strip_prefix(stem)
            .and_then(|n| n.strip_suffix(extension));
        middle.is_some_and(|middle| match middle.strip_prefix('-') {
            Some(number) => number.parse::<usize>().is_ok(),
            None => middle.is_empty(),
        })
    };
    let parts = [
        ("table", ".md"),
        ("table", ".csv"),
        ("plot", ".svg"),
        ("plot", ".png"),
    ];
    name == MANIFEST || name == PAGE || parts.iter().any(|(stem, end)| numbered(stem, end))
}

fn numbered(stem: &str, i: usize, extension: &str) -> String {
    match i {
        0 => format!("{stem}.{extension}"),
        _ => format!("{stem}-{}.{extension}", i + 1),
    }
}
