//! bzip2 in parallel: the streams of a multistream file are decompressed by several threads.
//!
//! Dumps of Wikipedia come as many bzip2 streams in one file, a hundred pages in each. A stream
//! starts at a byte, with a header and the magic number of its first block, ten bytes that
//! compressed data holds by chance once in 10^21 bytes. A splitter cuts the file there into pieces,
//! workers decompress pieces, and the reader takes their output in the order of the file. Where a
//! piece ends within a stream, because the stream is longer than a piece may be or because the ten
//! bytes were chance after all, the reader takes over the decoder as it stands and goes on by
//! itself; so a file of one stream is decompressed, correctly, by one thread.
//!
//! # Why not a crate that exists
//!
//! `bzip2` does the decoding; this module only divides the file. Crates that decode in parallel
//! (`parallel_bzip2_decoder`, `lbzip2`) are young, have one author each, and one of them needs a
//! memory map. Dumps are also read from pipes, hold the magic number by chance, and end where a
//! download was cut off; what was decoded before must then still be delivered.
//!
//! # Memory
//!
//! For each thread two pieces of at most 5 MiB, at work and waiting, and 16 blocks of
//! output of 256 KiB.

use std::io::{self, Read};
use std::sync::Arc;
use std::thread;

use bzip2::{Decompress, Status};
use crossbeam_channel::{Receiver, Sender, bounded};
use memchr::memmem::Finder;

use crate::corpus::read_once;

/// The start of every block: π in binary-coded decimals.
const BLOCK: [u8; 6] = [0x31, 0x41, 0x59, 0x26, 0x53, 0x59];
/// In place of a block: the end of a stream.
const END: [u8; 6] = [0x17, 0x72, 0x45, 0x38, 0x50, 0x90];
/// "BZh" and the size of blocks.
const HEADER: usize = 4;

/// Pieces are not cut shorter than this, ends of streams or not, to spare the hand-over.
const SHORTEST: usize = 256 << 10;
/// Pieces are cut here, end of a stream or not.
const LONGEST: usize = 4 << 20;
/// How much is read at a time.
const CHUNK: usize = 1 << 20;
/// How much is decompressed at a time.
const OUTPUT: usize = 256 << 10;
/// Outputs of a piece that may wait to be taken.
const WAITING: usize = 16;

/// Whether a file that starts like this is bzip2.
pub(crate) fn is_bzip2(start: &[u8]) -> bool {
    starts_stream(start) || (has_header(start) && start[HEADER..].starts_with(&END))
}

fn has_header(bytes: &[u8]) -> bool {
    matches!(bytes, [b'B', b'Z', b'h', b'1'..=b'9', ..])
}

fn starts_stream(bytes: &[u8]) -> bool {
    has_header(bytes) && bytes[HEADER..].starts_with(&BLOCK)
}

/// A part of the file.
struct Piece {
    bytes: Arc<Vec<u8>>,
    /// What a worker decompresses it to; `None` where it does not start with a stream.
    output: Option<Receiver<Output>>,
}

/// A worker's task.
struct Job {
    bytes: Arc<Vec<u8>>,
    output: Sender<Output>,
}

enum Output {
    Data(Vec<u8>),
    /// The piece is used up; the decoder is within a stream or between two.
    End(StreamDecoder),
    Failed(String),
}

/// Decompresses streams, one after the other.
struct StreamDecoder {
    decoder: Option<Decompress>,
    /// The last call filled its output: there may be more without further input.
    more: bool,
}

impl StreamDecoder {
    fn new() -> Self {
        Self {
            decoder: None,
            more: false,
        }
    }

    fn within_stream(&self) -> bool {
        self.decoder.is_some()
    }

    /// Decompresses some of `input`, moves it forward, and answers what came out; `None` when
    /// `input` is used up.
    fn step(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, String> {
        loop {
            if self.decoder.is_none() && input.iter().all(|&byte| byte == 0) {
                // Padding.
                *input = &[];
            }
            if input.is_empty() && !self.more {
                return Ok(None);
            }
            let decoder = self.decoder.get_or_insert_with(|| Decompress::new(false));
            let mut output = vec![0; OUTPUT];
            let (read, written) = (decoder.total_in(), decoder.total_out());
            let status = decoder
                .decompress(input, &mut output)
                .map_err(|error| error.to_string())?;
            let (read, written) = (
                to_usize(decoder.total_in() - read),
                to_usize(decoder.total_out() - written),
            );
            if read == 0 && written == 0 && status != Status::StreamEnd && !input.is_empty() {
                return Err("the decoder does not move on".to_string());
            }
            *input = &input[read.min(input.len())..];
            self.more = written == OUTPUT && status != Status::StreamEnd;
            if status == Status::StreamEnd {
                self.decoder = None;
            }
            if written > 0 {
                output.truncate(written);
                return Ok(Some(output));
            }
        }
    }
}

/// A length of a buffer in memory.
fn to_usize(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// Reads what a bzip2 file holds, decompressed by several threads.
pub(crate) struct Bz2Reader {
    pieces: Receiver<io::Result<Piece>>,
    /// What a worker makes of the current piece.
    output: Option<Receiver<Output>>,
    /// The current piece, if it is decompressed here, and how much of it is done.
    own: Option<(Arc<Vec<u8>>, usize)>,
    decoder: StreamDecoder,
    chunk: Vec<u8>,
    given: usize,
}

impl Bz2Reader {
    /// Starts `threads` workers, at least one, and a splitter. They end with the data, or when the
    /// reader is dropped.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn new(source: Box<dyn Read + Send>, threads: usize) -> io::Result<Self> {
        let threads = threads.max(1);
        let (jobs, work) = bounded::<Job>(threads);
        let (sender, pieces) = bounded(threads);
        for _ in 0..threads {
            let work = work.clone();
            thread::Builder::new()
                .name("bzip2".to_string())
                .spawn(move || work_on(&work))?;
        }
        let splitter = Splitter {
            source,
            buffer: Vec::new(),
            jobs,
            pieces: sender,
        };
        thread::Builder::new()
            .name("bzip2 splitter".to_string())
            .spawn(move || splitter.run())?;
        let decoder = StreamDecoder::new();
        Ok(Self {
            pieces,
            output: None,
            own: None,
            decoder,
            chunk: Vec::new(),
            given: 0,
        })
    }

    /// The next output, in the order of the file; `None` at its end.
    fn next_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(output) = &self.output {
                match output.recv() {
                    Ok(Output::Data(data)) => return Ok(Some(data)),
                    Ok(Output::End(decoder)) => self.decoder = decoder,
                    Ok(Output::Failed(reason)) => return Err(invalid(reason)),
                    Err(_) => return Err(invalid("a worker ended early".to_string())),
                }
                self.output = None;
            }
            if let Some((bytes, done)) = &mut self.own {
                let mut input = &bytes[*done..];
                let data = self.decoder.step(&mut input).map_err(invalid)?;
                *done = bytes.len() - input.len();
                if data.is_some() {
                    return Ok(data);
                }
                self.own = None;
            }
            match self.pieces.recv() {
                Ok(piece) => self.take(piece?),
                Err(_) if self.decoder.within_stream() => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Err(_) => return Ok(None),
            }
        }
    }

    /// Leaves a piece to its worker if it starts where the last one ended, or takes it over.
    fn take(&mut self, piece: Piece) {
        match piece.output {
            Some(output) if !self.decoder.within_stream() => self.output = Some(output),
            _ => self.own = Some((piece.bytes, 0)),
        }
    }
}

impl Read for Bz2Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.chunk.len() {
            let Some(chunk) = self.next_chunk()? else {
                return Ok(0);
            };
            (self.chunk, self.given) = (chunk, 0);
        }
        let length = into.len().min(self.chunk.len() - self.given);
        into[..length].copy_from_slice(&self.chunk[self.given..self.given + length]);
        self.given += length;
        Ok(length)
    }
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// A worker: takes jobs until there are no more. A job ends early if the reader is gone.
fn work_on(jobs: &Receiver<Job>) {
    for Job { bytes, output } in jobs {
        let mut decoder = StreamDecoder::new();
        let mut input = &bytes[..];
        loop {
            let (result, last) = match decoder.step(&mut input) {
                Ok(Some(data)) => (Output::Data(data), false),
                Ok(None) => (
                    Output::End(std::mem::replace(&mut decoder, StreamDecoder::new())),
                    true,
                ),
                Err(reason) => (Output::Failed(reason), true),
            };
            if output.send(result).is_err() || last {
                break;
            }
        }
    }
}

/// Cuts the file into pieces.
struct Splitter {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    jobs: Sender<Job>,
    pieces: Sender<io::Result<Piece>>,
}

impl Splitter {
    fn run(mut self) {
        let finder = Finder::new(&BLOCK);
        loop {
            match self.piece(&finder) {
                Ok(bytes) => {
                    if bytes.is_empty() || !self.send(bytes) {
                        return;
                    }
                }
                Err(error) => {
                    // Data from before the error goes first; a reader that is gone needs no error.
                    let rest = std::mem::take(&mut self.buffer);
                    let _ = (rest.is_empty() || self.send(rest))
                        && self.pieces.send(Err(error)).is_ok();
                    return;
                }
            }
        }
    }

    /// Hands a piece on; false if nobody waits for it.
    fn send(&self, bytes: Vec<u8>) -> bool {
        let bytes = Arc::new(bytes);
        if !starts_stream(&bytes) {
            return self
                .pieces
                .send(Ok(Piece {
                    bytes,
                    output: None,
                }))
                .is_ok();
        }
        let (output, receiver) = bounded(WAITING);
        // The reader keeps the bytes, too: it may have to take over.
        let piece = Piece {
            bytes: bytes.clone(),
            output: Some(receiver),
        };
        self.pieces.send(Ok(piece)).is_ok() && self.jobs.send(Job { bytes, output }).is_ok()
    }

    /// The next piece; empty at the end.
    fn piece(&mut self, finder: &Finder) -> io::Result<Vec<u8>> {
        let mut from = 1;
        loop {
            if let Some(at) = next_stream(&self.buffer, from, finder) {
                let rest = self.buffer.split_off(at);
                return Ok(std::mem::replace(&mut self.buffer, rest));
            }
            if self.buffer.len() >= LONGEST {
                // A stream may start in the last bytes.
                let rest = self
                    .buffer
                    .split_off(self.buffer.len() - HEADER - BLOCK.len());
                return Ok(std::mem::replace(&mut self.buffer, rest));
            }
            from = self
                .buffer
                .len()
                .saturating_sub(HEADER + BLOCK.len())
                .max(1);
            let length = self.buffer.len();
            self.buffer.resize(length + CHUNK, 0);
            let read = read_once(&mut self.source, &mut self.buffer[length..]);
            self.buffer
                .truncate(length + read.as_ref().map_or(0, |read| *read));
            if read? == 0 {
                return Ok(std::mem::take(&mut self.buffer));
            }
        }
    }
}

/// Where a stream starts, at `from` or later, and not too early for a piece.
fn next_stream(buffer: &[u8], from: usize, finder: &Finder) -> Option<usize> {
    let start = from.max(SHORTEST.min(LONGEST));
    let blocks = finder.find_iter(buffer.get(start..)?);
    blocks
        .map(|at| start + at)
        .filter(|&at| at >= start + HEADER)
        .map(|at| at - HEADER)
        .find(|&at| starts_stream(&buffer[at..]))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn noise(length: usize, mut seed: u64) -> Vec<u8> {
        let mut next = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 56) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    fn compress(data: &[u8]) -> Vec<u8> {
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn read(compressed: Vec<u8>, threads: usize) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        Bz2Reader::new(Box::new(io::Cursor::new(compressed)), threads)?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn streams_come_out_in_their_order() {
        let parts: Vec<_> = (0..40)
            .map(|seed| noise(60_000 + 1000 * seed, seed as u64))
            .collect();
        let compressed = parts
            .iter()
            .flat_map(|part| compress(part))
            .collect::<Vec<_>>();
        for threads in [1, 2, 5] {
            assert!(read(compressed.clone(), threads).unwrap() == parts.concat());
        }
    }

    #[test]
    fn one_long_stream_and_then_others() {
        let long = noise(11 << 20, 1);
        let short = noise(700_000, 2);
        let compressed = [
            compress(&long),
            compress(&[]),
            compress(&short),
            compress(&short),
            vec![0; 100],
        ]
        .concat();
        assert!(read(compressed, 2).unwrap() == [long, short.clone(), short].concat());
    }

    /// As if the ten bytes of a start were inside a stream: a worker decodes from there, but the
    /// reader must continue by itself.
    #[test]
    fn a_start_that_is_chance_does_no_harm() {
        let data = noise(500_000, 3);
        let compressed = compress(&data);
        let (first, second) = compressed.split_at(300_000);
        let (sender, pieces) = bounded(2);
        let (_worker, output) = bounded(1);
        sender
            .send(Ok(Piece {
                bytes: Arc::new(first.to_vec()),
                output: None,
            }))
            .unwrap();
        sender
            .send(Ok(Piece {
                bytes: Arc::new(second.to_vec()),
                output: Some(output),
            }))
            .unwrap();
        drop(sender);
        let decoder = StreamDecoder::new();
        let mut reader = Bz2Reader {
            pieces,
            output: None,
            own: None,
            decoder,
            chunk: Vec::new(),
            given: 0,
        };
        let mut out = Vec::new();
        reader.read_to_end(&mut out).unwrap();
        assert!(out == data);
    }

    #[test]
    fn a_cut_or_damaged_file_is_an_error_after_what_came_before() {
        let parts = [noise(400_000, 1), noise(400_000, 2), noise(400_000, 3)];
        let mut compressed = parts
            .iter()
            .flat_map(|part| compress(part))
            .collect::<Vec<_>>();
        let mut reader = Bz2Reader::new(
            Box::new(io::Cursor::new(
                compressed[..compressed.len() - 1000].to_vec(),
            )),
            2,
        )
        .unwrap();
        let mut out = vec![0; 800_000];
        reader.read_exact(&mut out).unwrap();
        assert!(out == parts[..2].concat());
        let error = reader.read_to_end(&mut out).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);

        let middle = compressed.len() / 2;
        compressed[middle] ^= 0x55;
        assert_eq!(
            read(compressed, 2).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        assert!(read(b"BZh9garbage".to_vec(), 1).is_err());
    }

    #[test]
    fn a_reader_may_be_dropped_early() {
        let compressed = (0..60)
            .flat_map(|seed| compress(&noise(300_000, seed)))
            .collect::<Vec<_>>();
        let mut reader = Bz2Reader::new(Box::new(io::Cursor::new(compressed)), 2).unwrap();
        reader.read_exact(&mut [0; 10]).unwrap();
    }
}
