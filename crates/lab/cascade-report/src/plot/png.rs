//! Plots as PNG.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{fontdb, Options, Tree};

use super::{font, Plot};
use crate::error::{Error, ErrorKind, Result};

impl Plot {
    /// The picture of [`to_svg`](Self::to_svg) as PNG, with `scale` pixels per unit of the SVG (2
    /// for sharp print; it is kept between 0.25 and 8). Drawn with the embedded font, whatever
    /// fonts the machine has.
    ///
    /// # Errors
    /// What the library that draws says; no plot is known to cause it.
    pub fn to_png(&self, scale: f32) -> Result<Vec<u8>> {
        let scale = scale.clamp(0.25, 8.0);
        let tree = Tree::from_str(&self.to_svg(), &options()).map_err(|e| self.undrawn(e))?;
        let size = tree.size().to_int_size().scale_by(scale);
        let mut pixmap = size
            .and_then(|size| Pixmap::new(size.width(), size.height()))
            .ok_or_else(|| self.undrawn("it has no size"))?;
        resvg::render(
            &tree,
            Transform::from_scale(scale, scale),
            &mut pixmap.as_mut(),
        );
        pixmap.encode_png().map_err(|e| self.undrawn(e))
    }

    pub(super) fn undrawn(&self, message: impl ToString) -> Error {
        let message = format!("cannot draw \"{}\": {}", self.title, message.to_string());
        Error::new(ErrorKind::Drawing, message)
    }
}

/// Only the embedded font, whatever family is asked for.
pub(super) fn options() -> Options<'static> {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(font::REGULAR.to_vec());
    fonts.load_font_data(font::BOLD.to_vec());
    Options {
        font_family: "Inter".to_owned(),
        fontdb: Arc::new(fonts),
        ..Options::default()
    }
}
