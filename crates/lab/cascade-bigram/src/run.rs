//! Sorted counts in a file.
//!
//! A run is a list of (key, count) by rising key: the distance from the key before, at least 1 but
//! for the first, and the count, both as LEB128: seven bits in a byte, the lowest first. That is
//! about three bytes for each pair. Their number and their sum are in the manifest, so that a run
//! which was cut off or changed is detected.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::grams::Count;
use crate::{Error, Result};

const BUFFER: usize = 128 << 10;

/// A run, as the manifest records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The name of its file.
    pub(crate) file: String,
    entries: u64,
    /// Sum of the counts, modulo 2⁶⁴.
    sum: u64,
}

/// Writes a run.
pub(crate) struct RunWriter {
    path: PathBuf,
    out: BufWriter<File>,
    last: u64,
    run: Run,
}

impl RunWriter {
    pub(crate) fn create(folder: &Path, name: String) -> Result<Self> {
        let path = folder.join(&name);
        let file = File::create(&path).map_err(Error::write(&path))?;
        Ok(Self {
            path,
            out: BufWriter::with_capacity(BUFFER, file),
            last: 0,
            run: Run {
                file: name,
                entries: 0,
                sum: 0,
            },
        })
    }

    /// Adds a count, whose key must be above the one before.
    pub(crate) fn push(&mut self, (key, count): Count) -> Result<()> {
        let distance = key.wrapping_sub(self.last);
        write_number(&mut self.out, distance)
            .and_then(|()| write_number(&mut self.out, count))
            .map_err(Error::write(&self.path))?;
        self.last = key;
        self.run.entries += 1;
        self.run.sum = self.run.sum.wrapping_add(count);
        Ok(())
    }

    /// Flushes everything to disk.
    pub(crate) fn finish(mut self) -> Result<Run> {
        self.out
            .flush()
            .and_then(|()| self.out.get_ref().sync_all())
            .map_err(Error::write(&self.path))?;
        Ok(self.run)
    }
}

fn write_number(out: &mut impl Write, mut number: u64) -> io::Result<()> {
    let mut bytes = [0; 10];
    let mut length = 0;
    loop {
        bytes[length] = number as u8 & 0x7f;
        number >>= 7;
        if number == 0 {
            return out.write_all(&bytes[..=length]);
        }
        bytes[length] |= 0x80;
        length += 1;
    }
}

/// Reads a run, and checks it.
pub(crate) struct RunReader {
    path: PathBuf,
    source: BufReader<File>,
    last: Option<u64>,
    left: Run,
}

impl RunReader {
    pub(crate) fn open(folder: &Path, run: &Run) -> Result<Self> {
        let path = folder.join(&run.file);
        let file = File::open(&path).map_err(Error::read(&path))?;
        Ok(Self {
            path,
            source: BufReader::with_capacity(BUFFER, file),
            last: None,
            left: run.clone(),
        })
    }

    fn damaged(&self, reason: &str) -> Error {
        Error::damaged(&self.path, reason)
    }

    fn number(&mut self) -> Result<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            match self.source.read_exact(&mut byte) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(self.damaged("it is cut off"));
                }
                result => result.map_err(Error::read(&self.path))?,
            }
            number |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.damaged("it holds a number of more than 64 bits"))
    }

    fn count(&mut self) -> Result<Option<Count>> {
        if self.left.entries == 0 {
            return match self.left.sum {
                0 => Ok(None),
                _ => Err(self.damaged("it does not sum up to what was written")),
            };
        }
        let distance = self.number()?;
        let key = match self.last {
            None => Some(distance),
            Some(_) if distance == 0 => None,
            Some(last) => last.checked_add(distance),
        };
        let key = key.ok_or_else(|| self.damaged("it is not sorted"))?;
        let count = self.number()?;
        self.last = Some(key);
        self.left.entries -= 1;
        self.left.sum = self.left.sum.wrapping_sub(count);
        Ok(Some((key, count)))
    }
}

impl Iterator for RunReader {
    type Item = Result<Count>;

    fn next(&mut self) -> Option<Self::Item> {
        self.count().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn come_back_as_written_and_notice_damage() {
        let folder = tempfile::tempdir().unwrap();
        let counts = [(0, 1), (1, u64::MAX), (1 << 40, 127), (u64::MAX - 1, 128)];
        let mut writer = RunWriter::create(folder.path(), "run".to_owned()).unwrap();
        for count in counts {
            writer.push(count).unwrap();
        }
        let run = writer.finish().unwrap();
        let read = || RunReader::open(folder.path(), &run).unwrap();
        let found: Result<Vec<_>> = read().collect();
        assert_eq!(found.unwrap(), counts);

        let path = folder.path().join("run");
        let bytes = std::fs::read(&path).unwrap();
        for (broken, reason) in [
            (&bytes[..bytes.len() - 1], "cut off"),
            (&[&[0, 2], &bytes[2..]].concat()[..], "sum up"),
            (&[&[0, 1, 0], &bytes[3..]].concat()[..], "not sorted"),
            (&[0xff; 40][..], "64 bits"),
        ] {
            std::fs::write(&path, broken).unwrap();
            let error = read().find_map(Result::err).unwrap().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
