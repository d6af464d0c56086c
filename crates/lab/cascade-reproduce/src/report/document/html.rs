//! The report as one HTML file.

use base64::prelude::{BASE64_STANDARD, Engine};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::{Block, Report, provenance, samples};
use crate::error::Result;
use crate::report::plot::Plot;
use crate::report::table::badge;
use crate::report::text::{shown, shown_line};

const STYLE: &str = include_str!("style.css");

impl Report {
    /// The report as one HTML file that opens offline and needs no script. Its content security
    /// policy forbids every request, every script and every style but its own, so that it stays
    /// harmless whatever the models said.
    ///
    /// # Errors
    /// Plots that cannot be drawn.
    pub fn to_html(&self) -> Result<String> {
        let blocks = self.blocks.iter().map(block_markup);
        let blocks = blocks.collect::<Result<Vec<Markup>>>()?;
        Ok(self.document(&blocks).into_string() + "\n")
    }

    fn document(&self, blocks: &[Markup]) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(policy());
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="referrer" content="no-referrer";
                    title { (shown(&self.title)) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header {
                        h1 { (shown(&self.title)) }
                        p.abstract { (shown(&self.summary)) }
                        (provenance::line(&self.manifest))
                        (self.evidence_legend())
                    }
                    main { @for block in blocks { (block) } }
                    (provenance::section(&self.manifest))
                }
            }
        }
    }

    fn evidence_legend(&self) -> Markup {
        let kinds = self.evidence();
        html! {
            @if !kinds.is_empty() {
                dl.evidence aria-label="Where figures come from" {
                    @for kind in kinds { div { dt { (badge(kind)) } dd { (kind.meaning()) } } }
                }
            }
        }
    }
}

/// Nothing is loaded, nothing is run, and no style applies but the one with this hash.
fn policy() -> String {
    let hash = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    format!("default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'")
}

fn block_markup(block: &Block) -> Result<Markup> {
    Ok(match block {
        Block::Heading(text) => html! { h2 { (shown(text)) } },
        Block::Text(text) => html! { p { (shown(text)) } },
        Block::Table(table) => table.markup(),
        Block::Plot { plot, caption } => plot_markup(plot, caption)?,
        Block::Sample(sample) => samples::markup(sample),
    })
}

fn plot_markup(plot: &Plot, caption: &str) -> Result<Markup> {
    let svg = plot.to_svg()?;
    Ok(html! {
        figure.plot {
            div.scroll role="img" aria-label=(shown_line(plot.title())) { (PreEscaped(svg)) }
            figcaption { (shown(caption)) }
        }
    })
}
