//! Results of experiments: records, tables, plots and reports that open offline.
//!
//! A report is made of [`Table`]s, [`Plot`]s and [`Sample`]s, records its provenance in a
//! [`Manifest`]. This module knows nothing of models, cascades or datasets: callers turn their
//! measurements into [`Figure`]s, values with confidence intervals.
//!
//! Every figure belongs to one kind of [`Evidence`]. A column of a table and a series of a plot
//! have one, and their figures have none, so that kinds cannot be mixed in a column.
//!
//! Output is a function of its input: no clock and no font is read, and the same report is the same
//! bytes on every run. (Only [`Machine::this`] reads its
//! environment.)
//!
//! ```
//! use cascade_reproduce::report::{Evidence, Figure, Figures, Table};
//!
//! let table = Table::new("Walltime improvement on GSM8K")
//!     .labels("Algorithm", ["Autoregressive", "CS Drafting"])?
//!     .figures(Figures::new("SWI", Evidence::Paper, [1.0, 3.88].map(Figure::new)).decimals(2))?
//!     .figures(
//!         Figures::new(
//!             "SWI",
//!             Evidence::Simulated,
//!             [Figure::new(1.0), Figure::with_interval(3.91, 3.8, 4.02)],
//!         )
//!         .decimals(2)
//!         .intervals("95 %, bootstrap over questions"),
//!     )?;
//! assert!(table.to_markdown().contains("| SWI (paper) |"));
//! # Ok::<(), cascade_reproduce::Error>(())
//! ```

mod document;
mod evidence;
mod figure;
mod manifest;
mod plot;
mod sample;
mod table;
mod text;

pub use document::Report;
pub(crate) use document::is_part;
pub use evidence::Evidence;
pub use figure::{Figure, Interval};
pub use manifest::{Machine, Manifest, Sha256, Weights};
pub use plot::{Axis, Bars, Line, Plot};
pub use sample::Sample;
pub use table::{Figures, Table};
pub use text::wrapped;

pub use crate::results::{is_result_file, refuse_foreign};
