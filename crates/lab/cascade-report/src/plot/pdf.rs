//! Plots as PDF.
//!
//! Written from the same tree as the PNG, so it is the same picture: paths, fills, strokes, the
//! patterns of bars, and text as outlines, which needs no font on the other side. That is all that
//! plots have, and a crate that converts any SVG would bring a second copy of the tree's.

use std::collections::BTreeSet;
use std::fmt::Write;

use resvg::tiny_skia::{PathSegment, Point, Transform};
use resvg::usvg::{
    Fill, FillRule, Group, LineCap, LineJoin, Node, Paint, Path, Pattern, Stroke, Tree,
};

use super::{png, Plot};
use crate::error::Result;

impl Plot {
    /// The picture of [`to_svg`](Self::to_svg) as a PDF of one page of its size, a unit being a
    /// point. Text is drawn with the embedded font's outlines: it cannot be searched.
    ///
    /// # Errors
    /// Those of [`Self::to_png`].
    pub fn to_pdf(&self) -> Result<Vec<u8>> {
        let tree = Tree::from_str(&self.to_svg(), &png::options()).map_err(|e| self.undrawn(e))?;
        let size = tree.size();
        // PDF counts upwards from the lower left corner.
        let flip = Transform::from_row(1.0, 0.0, 0.0, -1.0, 0.0, size.height());
        let mut page = Content::new(flip);
        page.group(tree.root())
            .map_err(|what| self.undrawn(format!("a PDF of it would need {what}")))?;
        Ok(document(&page, size.width(), size.height()))
    }
}

type Drawn<T> = std::result::Result<T, &'static str>;

/// The operators of a page, and what they name.
struct Content {
    operators: String,
    /// Opacities in thousandths, of fills and strokes.
    opacities: BTreeSet<u16>,
}

impl Content {
    fn new(to_page: Transform) -> Self {
        let mut content = Self {
            operators: String::new(),
            opacities: BTreeSet::new(),
        };
        let matrix = matrix(to_page);
        content.put(format_args!("{matrix} cm"));
        content
    }

    fn put(&mut self, operator: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.operators, "{operator}");
    }

    fn group(&mut self, group: &Group) -> Drawn<()> {
        if group.should_isolate() {
            return Err("groups of their own opacity, clips, masks or filters");
        }
        for node in group.children() {
            match node {
                Node::Group(group) => self.group(group)?,
                Node::Path(path) => self.path(path)?,
                Node::Text(text) => self.group(text.flattened())?,
                Node::Image(_) => return Err("images"),
            }
        }
        Ok(())
    }

    fn path(&mut self, path: &Path) -> Drawn<()> {
        if !path.is_visible() {
            return Ok(());
        }
        self.put(format_args!("q\n{} cm", matrix(path.abs_transform())));
        if let Some(Paint::Pattern(pattern)) = path.fill().map(Fill::paint) {
            self.pattern(path, pattern)?;
            self.painted(path, None, path.stroke(), &[(0.0, 0.0)])?;
        } else {
            self.painted(path, path.fill(), path.stroke(), &[(0.0, 0.0)])?;
        }
        self.put(format_args!("Q"));
        Ok(())
    }

    /// A path at some places, all of it painted at once: where parts of one path touch, no gap is
    /// seen between them.
    fn painted(
        &mut self,
        path: &Path,
        fill: Option<&Fill>,
        stroke: Option<&Stroke>,
        places: &[(f32, f32)],
    ) -> Drawn<()> {
        let even_odd = fill.is_some_and(|fill| fill.rule() == FillRule::EvenOdd);
        let paint = match (fill.is_some(), stroke.is_some(), even_odd) {
            (true, true, false) => "B",
            (true, true, true) => "B*",
            (true, false, false) => "f",
            (true, false, true) => "f*",
            (false, true, _) => "S",
            (false, false, _) => return Ok(()),
        };
        if let Some(fill) = fill {
            self.opacity(fill.opacity().get());
            self.colour(fill.paint(), "rg")?;
        }
        if let Some(stroke) = stroke {
            self.stroke(stroke)?;
        }
        for place in places {
            self.segments(path, *place);
        }
        self.put(format_args!("{paint}"));
        Ok(())
    }

    /// The cells of a pattern, within a path that it fills. They are written out: viewers leave
    /// gaps between the cells of a pattern of PDF's own.
    fn pattern(&mut self, path: &Path, pattern: &Pattern) -> Drawn<()> {
        let (cell, at) = (pattern.rect(), pattern.transform());
        let to_cells = at.invert().ok_or("a pattern without area")?;
        let covered = path
            .data()
            .clone()
            .transform(to_cells)
            .ok_or("a pattern without area")?
            .bounds();
        let numbers = |from: f32, to: f32, start: f32, step: f32| {
            let (first, last) = (
                ((from - start) / step).floor(),
                ((to - start) / step).ceil(),
            );
            (first as i32..last as i32).map(move |number| number as f32 * step)
        };
        let columns = numbers(covered.left(), covered.right(), cell.x(), cell.width());
        let places: Vec<(f32, f32)> = columns
            .flat_map(|x| {
                let rows = numbers(covered.top(), covered.bottom(), cell.y(), cell.height());
                rows.map(move |y| (x, y))
            })
            .collect();
        self.put(format_args!("q"));
        self.segments(path, (0.0, 0.0));
        self.put(format_args!("W n\n{} cm", matrix(at)));
        for node in pattern.root().children() {
            match node {
                Node::Path(path) => self.painted(path, path.fill(), path.stroke(), &places)?,
                _ => return Err("patterns of other things than paths"),
            }
        }
        self.put(format_args!("Q"));
        Ok(())
    }

    fn stroke(&mut self, stroke: &Stroke) -> Drawn<()> {
        self.opacity(stroke.opacity().get());
        self.colour(stroke.paint(), "RG")?;
        let cap = match stroke.linecap() {
            LineCap::Butt => 0,
            LineCap::Round => 1,
            LineCap::Square => 2,
        };
        let join = match stroke.linejoin() {
            LineJoin::Miter | LineJoin::MiterClip => 0,
            LineJoin::Round => 1,
            LineJoin::Bevel => 2,
        };
        self.put(format_args!(
            "{} w {cap} J {join} j",
            short(stroke.width().get())
        ));
        let dashes: Vec<String> = stroke
            .dasharray()
            .unwrap_or_default()
            .iter()
            .map(|dash| short(*dash))
            .collect();
        self.put(format_args!(
            "[{}] {} d",
            dashes.join(" "),
            short(stroke.dashoffset())
        ));
        Ok(())
    }

    fn colour(&mut self, paint: &Paint, operator: &str) -> Drawn<()> {
        let Paint::Color(colour) = paint else {
            return Err("gradients");
        };
        let parts = [colour.red, colour.green, colour.blue];
        let parts = parts.map(|part| short(f32::from(part) / 255.0));
        self.put(format_args!("{} {operator}", parts.join(" ")));
        Ok(())
    }

    fn opacity(&mut self, opacity: f32) {
        let thousandths = (opacity * 1000.0).round() as u16;
        self.opacities.insert(thousandths);
        self.put(format_args!("/G{thousandths} gs"));
    }

    fn segments(&mut self, path: &Path, (x, y): (f32, f32)) {
        let at = |point: Point| format!("{} {}", short(point.x + x), short(point.y + y));
        let mut last = Point::zero();
        for segment in path.data().segments() {
            match segment {
                PathSegment::MoveTo(to) => self.put(format_args!("{} m", at(to))),
                PathSegment::LineTo(to) => self.put(format_args!("{} l", at(to))),
                PathSegment::QuadTo(control, to) => {
                    // The cubic curve that is the same.
                    let towards = |from: Point| {
                        Point::from_xy(
                            from.x + (control.x - from.x) * 2.0 / 3.0,
                            from.y + (control.y - from.y) * 2.0 / 3.0,
                        )
                    };
                    let (a, b) = (towards(last), towards(to));
                    self.put(format_args!("{} {} {} c", at(a), at(b), at(to)));
                }
                PathSegment::CubicTo(a, b, to) => {
                    self.put(format_args!("{} {} {} c", at(a), at(b), at(to)));
                }
                PathSegment::Close => self.put(format_args!("h")),
            }
            if let PathSegment::MoveTo(to)
            | PathSegment::LineTo(to)
            | PathSegment::QuadTo(_, to)
            | PathSegment::CubicTo(_, _, to) = segment
            {
                last = to;
            }
        }
    }
}

/// The objects of a document of one page.
fn objects(page: &Content, width: f32, height: f32) -> [String; 4] {
    let states: String = page
        .opacities
        .iter()
        .map(|of| {
            let opacity = short(f32::from(*of) / 1000.0);
            format!("/G{of} << /ca {opacity} /CA {opacity} >> ")
        })
        .collect();
    [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {} {}] /Contents 4 0 R \
             /Resources << /ExtGState << {states}>> >> >>",
            short(width),
            short(height),
        ),
        format!(
            "<< /Length {} >>\nstream\n{}\nendstream",
            page.operators.len(),
            page.operators
        ),
    ]
}

/// A document of one page.
fn document(page: &Content, width: f32, height: f32) -> Vec<u8> {
    let objects = objects(page, width, height);
    let mut out = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        offsets.push(out.len());
        out.extend(format!("{} 0 obj\n{object}\nendobj\n", index + 1).bytes());
    }
    let table = out.len();
    out.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    for offset in offsets {
        out.extend(format!("{offset:010} 00000 n \n").bytes());
    }
    let trailer = format!(
        "trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n",
        objects.len() + 1
    );
    out.extend(trailer.bytes());
    out
}

fn matrix(of: Transform) -> String {
    let numbers = [of.sx, of.ky, of.kx, of.sy, of.tx, of.ty];
    numbers.map(fine).join(" ")
}

/// A coordinate to a hundredth.
fn short(number: f32) -> String {
    super::style::short(f64::from(number))
}

/// A part of a matrix, which is multiplied with coordinates.
fn fine(number: f32) -> String {
    let text = crate::figure::fixed(f64::from(number), 6);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
