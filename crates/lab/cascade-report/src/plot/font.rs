//! The embedded font.

use skrifa::instance::{LocationRef, Size};
use skrifa::{FontRef, MetadataProvider};

/// What pictures are written in; files without it fall back to what the viewer has.
pub(super) const FAMILY: &str = "Inter, Helvetica Neue, Helvetica, Arial, sans-serif";

/// Inter, cut to Latin, Greek and some signs; see `font/LICENSE-OFL`.
pub(super) const REGULAR: &[u8] = include_bytes!("../../font/Inter-Regular.otf");

/// The same in semi-bold.
pub(super) const BOLD: &[u8] = include_bytes!("../../font/Inter-SemiBold.otf");

/// How wide a text is, in the unit of `size`. Characters that the font lacks count as wide ones.
pub(super) fn width(text: &str, size: f64, font: &[u8]) -> f64 {
    let Ok(font) = FontRef::new(font) else {
        return 0.6 * size * text.chars().count() as f64;
    };
    let charmap = font.charmap();
    // Advances per thousandth of an em, so that sums do not depend on the size.
    let metrics = font.glyph_metrics(Size::new(1000.0), LocationRef::default());
    let advance = |c: char| {
        let glyph = charmap
            .map(c)
            .and_then(|glyph| metrics.advance_width(glyph));
        f64::from(glyph.unwrap_or(1000.0))
    };
    text.chars().map(advance).sum::<f64>() * size / 1000.0
}

/// The text in lines of at most this width, broken at spaces; a longer word has a line of its own.
pub(super) fn wrapped(text: &str, size: f64, font: &[u8], limit: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match (longer, lines.last_mut()) {
            (Some(longer), Some(last)) if width(&longer, size, font) <= limit => *last = longer,
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_letters_are_wider() {
        assert!(width("mmm", 12.0, REGULAR) > 2.0 * width("iii", 12.0, REGULAR));
        assert!(width("cascade", 12.0, BOLD) > width("cascade", 12.0, REGULAR));
        assert!(width("猫", 12.0, REGULAR) >= 12.0);
    }

    #[test]
    fn lines_break_at_spaces() {
        let lines = wrapped("one two three", 10.0, REGULAR, 45.0);
        assert_eq!(lines, ["one two", "three"]);
        assert!(wrapped("", 10.0, REGULAR, 45.0).is_empty());
    }
}
