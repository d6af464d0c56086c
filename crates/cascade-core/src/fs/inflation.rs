//! Decompression that cannot be made to run forever by a small file.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many times its compressed size a file may take. Texts shrink by 3 to 30; gzip can be made
/// to reach 1,032, bzip2 and zstd far more.
pub const MAX_INFLATION: u64 = 200;

/// Bytes that decompressed content may always have: small files of blanks are no attack.
pub const FREE_INFLATION: u64 = 256 << 20;

/// Bytes read of the compressed content, shared with who counts them.
#[derive(Clone, Debug, Default)]
pub struct Compressed(Arc<AtomicU64>);

impl Compressed {
    /// Counts what is read of a compressed source.
    pub fn count<R: Read>(&self, source: R) -> CountedReader<R> {
        CountedReader {
            source,
            read: self.clone(),
        }
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A reader of a compressed source that counts the bytes that it reads.
#[derive(Debug)]
pub struct CountedReader<R> {
    source: R,
    read: Compressed,
}

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(into)?;
        self.read.0.fetch_add(length as u64, Relaxed);
        Ok(length)
    }
}

/// Decompressed content, which ends in an error if it is more than [`MAX_INFLATION`] times what was
/// read to get it.
#[derive(Debug)]
pub struct Inflated<R> {
    source: R,
    compressed: Compressed,
    given: Inflation,
}

impl<R> Inflated<R> {
    /// Guards what a decoder gives, which reads a source that `compressed` counts.
    pub fn new(source: R, compressed: Compressed) -> Self {
        Self {
            source,
            compressed,
            given: Inflation::default(),
        }
    }
}

impl<R: Read> Read for Inflated<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(into)?;
        self.given.add(length, self.compressed.bytes())?;
        Ok(length)
    }
}

/// Bytes that came out of a decoder.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inflation(u64);

impl Inflation {
    /// Adds bytes that came out after so many went in.
    ///
    /// # Errors
    /// If they are more than they may be.
    pub fn add(&mut self, length: usize, compressed: u64) -> io::Result<()> {
        self.0 += length as u64;
        let most = compressed.saturating_mul(MAX_INFLATION).max(FREE_INFLATION);
        if self.0 <= most {
            return Ok(());
        }
        let reason = format!(
            "it decompresses to more than {MAX_INFLATION} times its size, as files do that are \
             made to fill a memory; if it is meant so, decompress it and give the result"
        );
        Err(io::Error::new(io::ErrorKind::InvalidData, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bombs_are_stopped_and_texts_are_not() {
        let compressed = Compressed::default();
        let mut source = compressed.count(&[0u8; 1000][..]);
        io::copy(&mut source, &mut io::sink()).unwrap();
        assert_eq!(compressed.bytes(), 1000);
        let inflate = |bytes: u64| {
            let content = io::repeat(0).take(bytes);
            io::copy(
                &mut Inflated::new(content, compressed.clone()),
                &mut io::sink(),
            )
        };
        assert_eq!(inflate(FREE_INFLATION).unwrap(), FREE_INFLATION);
        let error = inflate(FREE_INFLATION + 1).unwrap_err().to_string();
        assert!(error.contains("200 times"), "{error}");
        let mut large = Inflation::default();
        large.add(199 << 30, 1 << 30).unwrap();
        large.add(2 << 30, 1 << 30).unwrap_err();
    }
}
