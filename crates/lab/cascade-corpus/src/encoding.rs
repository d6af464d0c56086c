//! Text in any encoding, as UTF-8.

use std::io::{self, Read};

use encoding_rs::{CoderResult, Decoder, DecoderResult, Encoding, UTF_16BE, UTF_16LE, UTF_8};

/// Bytes of a file that are examined to detect its type.
pub(crate) const SNIFF: usize = 4096;

/// The encoding of a text that starts with `start`, and the length of its byte order mark.
///
/// A byte order mark decides, then the zero bytes of UTF-16, then an XML declaration; otherwise it
/// is UTF-8. The error is the declared name, if it is unknown.
pub(crate) fn detect(start: &[u8]) -> Result<(&'static Encoding, usize), String> {
    if let Some(found) = Encoding::for_bom(start) {
        return Ok(found);
    }
    match start {
        [b'<', 0, ..] => return Ok((UTF_16LE, 0)),
        [0, b'<', ..] => return Ok((UTF_16BE, 0)),
        _ => {}
    }
    let Some(label) = declared(start) else {
        return Ok((UTF_8, 0));
    };
    match Encoding::for_label(label) {
        // A declaration that is readable byte by byte is not UTF-16.
        Some(found) if found == UTF_16LE || found == UTF_16BE => Ok((UTF_8, 0)),
        Some(found) => Ok((found, 0)),
        None => Err(String::from_utf8_lossy(label).into_owned()),
    }
}

/// The name in `<?xml … encoding="name"?>`.
fn declared(start: &[u8]) -> Option<&[u8]> {
    let declaration = start.strip_prefix(b"<?xml")?;
    let declaration = &declaration[..memchr::memchr(b'>', declaration)?];
    let at = memchr::memmem::find(declaration, b"encoding")? + b"encoding".len();
    let value = declaration[at..]
        .trim_ascii_start()
        .strip_prefix(b"=")?
        .trim_ascii_start();
    let (quote, value) = value
        .split_first()
        .filter(|(quote, _)| matches!(quote, b'"' | b'\''))?;
    Some(&value[..memchr::memchr(*quote, value)?])
}

/// Reads a text of another encoding as UTF-8.
///
/// Invalid input becomes the byte 0xFF, which is invalid in UTF-8 too: so it is detected and
/// handled where invalid UTF-8 is.
pub(crate) struct Utf8Reader<R> {
    source: R,
    decoder: Decoder,
    input: Vec<u8>,
    /// What of `input` is still to be decoded.
    used: usize,
    output: Vec<u8>,
    given: usize,
    end: bool,
}

const BUFFER: usize = 64 << 10;

impl<R: Read> Utf8Reader<R> {
    pub(crate) fn new(source: R, encoding: &'static Encoding) -> Self {
        let decoder = encoding.new_decoder_without_bom_handling();
        Self {
            source,
            decoder,
            input: Vec::new(),
            used: 0,
            output: Vec::new(),
            given: 0,
            end: false,
        }
    }

    fn read_input(&mut self) -> io::Result<()> {
        self.input.resize(BUFFER, 0);
        self.used = 0;
        let length = read_once(&mut self.source, &mut self.input)?;
        self.input.truncate(length);
        self.end = length == 0;
        Ok(())
    }

    fn decode(&mut self) {
        self.output.resize(BUFFER, 0);
        self.given = 0;
        let input = &self.input[self.used..];
        let (result, read, mut written) = self.decoder.decode_to_utf8_without_replacement(
            input,
            &mut self.output[..BUFFER - 1],
            self.end,
        );
        self.used += read;
        if let DecoderResult::Malformed(..) = result {
            self.output[written] = 0xff;
            written += 1;
        }
        self.output.truncate(written);
        if self.end && result == DecoderResult::InputEmpty {
            self.used = usize::MAX;
        }
    }
}

impl<R: Read> Read for Utf8Reader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.output.len() {
            if self.used == usize::MAX {
                return Ok(0);
            }
            if self.used == self.input.len() && !self.end {
                self.read_input()?;
            }
            self.decode();
        }
        let length = into.len().min(self.output.len() - self.given);
        into[..length].copy_from_slice(&self.output[self.given..self.given + length]);
        self.given += length;
        Ok(length)
    }
}

/// Reads once, again if interrupted.
pub(crate) fn read_once(source: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The start of a text as UTF-8, for format detection.
pub(crate) fn preview(start: &[u8], encoding: &'static Encoding) -> String {
    let mut text = String::with_capacity(start.len() * 3 + 16);
    let (result, _, _) = encoding
        .new_decoder_with_bom_removal()
        .decode_to_string(start, &mut text, false);
    debug_assert!(result == CoderResult::InputEmpty);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> Vec<u8> {
        let (encoding, mark) = detect(bytes).unwrap();
        let mut out = Vec::new();
        Utf8Reader::new(&bytes[mark..], encoding)
            .read_to_end(&mut out)
            .unwrap();
        out
    }

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn encodings_are_told_by_mark_zeros_and_declaration() {
        assert_eq!(detect(b"\xef\xbb\xbf<a>"), Ok((UTF_8, 3)));
        assert_eq!(detect(b"\xff\xfe<\0"), Ok((UTF_16LE, 2)));
        assert_eq!(detect(b"<\0a\0"), Ok((UTF_16LE, 0)));
        assert_eq!(detect(b"\0<\0a"), Ok((UTF_16BE, 0)));
        assert_eq!(
            detect(b"<?xml version='1.0' encoding = 'koi8-r' ?>"),
            Ok((encoding_rs::KOI8_R, 0))
        );
        assert_eq!(
            detect(b"<?xml version='1.0' encoding='utf-16'?>"),
            Ok((UTF_8, 0))
        );
        assert_eq!(
            detect(b"<?xml encoding=\"martian\"?>"),
            Err("martian".to_string())
        );
        assert_eq!(detect(b"text"), Ok((UTF_8, 0)));
    }

    #[test]
    fn long_texts_come_through_whole() {
        let text = "<деĩ\u{1f600}a>".repeat(40_000);
        assert!(decode(&utf16(&text)) == text.as_bytes());
    }

    #[test]
    fn what_is_invalid_stays_invalid() {
        let mut bytes = utf16("<ab");
        bytes.extend_from_slice(&0xd800_u16.to_le_bytes());
        bytes.extend(utf16("c"));
        assert_eq!(decode(&bytes), b"<ab\xffc");
        bytes.push(b'x');
        assert_eq!(decode(&bytes), b"<ab\xffc\xff");
    }
}
