//! Reading files that others have written: bounded, and never from what has no end.

use std::fs::{self, File, FileType};
use std::io::{self, BufRead, Read};
use std::path::Path;

/// One mebibyte, for limits.
pub const MIB: u64 = 1 << 20;

/// Opens a file for reading. What is no file is refused before it is opened, because opening a
/// named pipe waits for its writer, and a device may have no end. The pipe that a shell makes of
/// `<(command)` is read like a file.
///
/// # Errors
/// Those of [`File::open`]; folders, named pipes, devices and sockets, by name and with the remedy.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    check_kind(path)?;
    File::open(path)
}

/// The content of a file of at most `limit` bytes.
///
/// # Errors
/// As [`open`]; a longer file, before it is in memory; memory that cannot be had.
pub fn read(path: impl AsRef<Path>, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    if length > limit {
        return Err(too_large(limit));
    }
    let mut bytes = Vec::new();
    let expected = usize::try_from(length).map_err(|_| too_large(limit))?;
    bytes.try_reserve_exact(expected)?;
    // Pipes have no length, and files may grow.
    let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if read as u64 > limit {
        Err(too_large(limit))
    } else {
        Ok(bytes)
    }
}

/// The content of a text file of at most `limit` bytes, as [`text`] reads it.
///
/// # Errors
/// As [`read`] and [`text`].
pub fn read_text(path: impl AsRef<Path>, limit: u64) -> io::Result<String> {
    let bytes = read(path, limit)?;
    let text = text(&bytes)?;
    if text.len() == bytes.len() {
        String::from_utf8(bytes).map_err(|error| invalid(error.to_string()))
    } else {
        Ok(text.to_owned())
    }
}

/// Bytes as text in UTF-8, without the byte order mark that some editors put before it.
///
/// # Errors
/// UTF-16 and UTF-32, which are named; bytes that are not UTF-8, with their line.
pub fn text(bytes: &[u8]) -> io::Result<&str> {
    if let Some(encoding) = wide_encoding(bytes) {
        let reason = format!("it is in {encoding}; save it as UTF-8");
        return Err(invalid(reason));
    }
    let bytes = bytes.strip_prefix(UTF8_MARK).unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let line = 1 + bytes[..at].iter().filter(|&&byte| byte == b'\n').count();
        let byte = bytes.get(at).copied().unwrap_or_default();
        invalid(format!(
            "line {line} is not UTF-8 (byte {byte:#04x}); save the file as UTF-8"
        ))
    })
}

/// The byte order mark of UTF-8.
pub const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// The encoding of text that is not UTF-8, by its byte order mark, or by the zeros that ASCII has
/// in it: no text in UTF-8 has any.
pub fn wide_encoding(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
        [0, 0, 0, 1..=255, ..] | [1..=255, 0, 0, 0, ..] => Some("UTF-32"),
        [0, 1..=255, ..] | [1..=255, 0, ..] => Some("UTF-16"),
        _ => None,
    }
}

/// Reads up to and including the next line feed, as [`BufRead::read_until`] does, but at most
/// `limit` bytes.
///
/// # Errors
/// The source's; a longer line, as [`io::ErrorKind::FileTooLarge`].
pub fn read_line(source: &mut impl BufRead, limit: u64, line: &mut Vec<u8>) -> io::Result<usize> {
    let read = source.by_ref().take(limit).read_until(b'\n', line)?;
    if read as u64 == limit && line.last() != Some(&b'\n') && !source.fill_buf()?.is_empty() {
        let limit = size(limit);
        let reason = format!("a line has more than {limit}, the most that is read of one");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(read)
}

/// Refuses what is there and no file, for files that are opened in another way than by [`open`].
///
/// # Errors
/// As [`open`], but for a path at which nothing is.
pub fn check_file(path: impl AsRef<Path>) -> io::Result<()> {
    match check_kind(path.as_ref()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        checked => checked,
    }
}

fn check_kind(path: &Path) -> io::Result<()> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        let reason = "it is a folder; name a file";
        return Err(io::Error::new(io::ErrorKind::IsADirectory, reason));
    }
    match special(kind) {
        // What a shell makes of `<(command)` has no name that could be resolved.
        Some(PIPE) if fs::canonicalize(path).is_err() => Ok(()),
        Some(PIPE) => Err(unsuitable(
            "a named pipe, which may never end; write what comes out of it to a file",
        )),
        Some(what) => Err(unsuitable(what)),
        None => Ok(()),
    }
}

const PIPE: &str = "a pipe";

#[cfg(unix)]
fn special(kind: FileType) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_fifo() {
        Some(PIPE)
    } else if kind.is_char_device() || kind.is_block_device() {
        Some("a device, not a file; name a file")
    } else if kind.is_socket() {
        Some("a socket, not a file; name a file")
    } else {
        None
    }
}

#[cfg(not(unix))]
fn special(_: FileType) -> Option<&'static str> {
    None
}

fn unsuitable(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}"))
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

fn too_large(limit: u64) -> io::Error {
    let limit = size(limit);
    let reason = format!("it has more than {limit}, the most that is read of such a file");
    io::Error::new(io::ErrorKind::FileTooLarge, reason)
}

/// A limit as people write it.
fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 => format!("{} GiB", bytes >> 30),
        bytes if bytes >= MIB => format!("{} MiB", bytes / MIB),
        bytes => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem<T: std::fmt::Debug>(result: io::Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn files_are_read_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "1234").unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"1234");
        assert!(problem(read(&path, 3)).contains("more than 3 bytes"));
    }

    #[test]
    fn what_is_no_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert!(problem(open(folder.path())).contains("a folder"));
        let missing = open(folder.path().join("none")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[cfg(unix)]
    #[test]
    fn what_has_no_end_is_refused() {
        assert!(problem(read("/dev/zero", 9)).contains("a device"));
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert!(problem(open(&pipe)).contains("named pipe"));
    }

    #[test]
    fn texts_are_utf8_with_or_without_a_mark() {
        assert_eq!(text(b"\xef\xbb\xbfk: 1").unwrap(), "k: 1");
        assert_eq!(text("ß".as_bytes()).unwrap(), "ß");
        assert_eq!(text(b"").unwrap(), "");
        for (bytes, encoding) in [
            (&b"\xff\xfek\0"[..], "UTF-16"),
            (b"\xfe\xff\0k", "UTF-16"),
            (b"k\0:\0", "UTF-16"),
            (b"\0k\0:", "UTF-16"),
            (b"\xff\xfe\0\0k\0\0\0", "UTF-32"),
            (b"k\0\0\0", "UTF-32"),
        ] {
            assert!(problem(text(bytes)).contains(encoding), "{bytes:?}");
        }
        let latin = problem(text(b"a\nb\xe9"));
        assert!(
            latin.contains("line 2") && latin.contains("0xe9"),
            "{latin}"
        );
    }

    #[test]
    fn lines_have_a_limit() {
        let mut source = io::Cursor::new(b"ab\nabc\n");
        let mut next = |limit| {
            let mut line = Vec::new();
            read_line(&mut source, limit, &mut line).map(|_| line)
        };
        assert_eq!(next(3).unwrap(), b"ab\n");
        assert!(problem(next(3)).contains("more than 3 bytes"));
        let mut last = io::Cursor::new(b"abc");
        assert_eq!(read_line(&mut last, 3, &mut Vec::new()).unwrap(), 3);
    }
}
