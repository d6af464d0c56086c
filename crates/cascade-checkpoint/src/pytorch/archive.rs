//! The zip archive of a PyTorch file: which bytes are which entry.

use std::collections::HashMap;
use std::io::Cursor;
use std::ops::Range;

use zip::{CompressionMethod, ZipArchive};

use crate::error::Fault;

/// Pickles of real models have some hundred kilobytes; what is read from one takes a multiple of
/// its size.
const MAX_PICKLE: usize = 8 << 20;

/// The entries of an archive, all of them stored as they are.
pub(super) struct Archive {
    /// The folder that all entries are in.
    root: String,
    entries: HashMap<String, ArchiveEntry>,
}

/// An entry of an archive: where its bytes lie in the file, and their checksum.
pub(super) struct ArchiveEntry {
    pub(super) bytes: Range<usize>,
    pub(super) crc32: u32,
}

impl Archive {
    /// Reads the list of entries, and checks that they lie in the file.
    pub(super) fn open(bytes: &[u8]) -> Result<Self, Fault> {
        let mut zip = ZipArchive::new(Cursor::new(bytes)).map_err(|error| {
            format!(
                "its list of entries, at the end, cannot be read, as if it was cut off ({error})"
            )
        })?;
        // The library keeps the last of several entries of one name.
        if zip.has_duplicate_names() {
            return Err("it has two entries of one name".to_owned().into());
        }
        let mut entries = HashMap::with_capacity(zip.len());
        for index in 0..zip.len() {
            let (name, place) = entry(&mut zip, index, bytes.len())?;
            if entries.insert(name.clone(), place).is_some() {
                return Err(format!("it has two entries {name}").into());
            }
        }
        let mut archive = Self {
            root: String::new(),
            entries,
        };
        archive.root = archive.find_root()?;
        archive.refuse_big_endian(bytes)?;
        Ok(archive)
    }

    /// The pickle of all but the values of tensors.
    pub(super) fn pickle<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], Fault> {
        let place = self.place(&self.in_root("data.pkl"))?;
        let pickle = &bytes[place.bytes.clone()];
        if pickle.len() > MAX_PICKLE {
            let length = pickle.len();
            return Err(format!("its pickle has {length} bytes, more than {MAX_PICKLE}").into());
        }
        if place.crc32 == 0 || crc32fast::hash(pickle) == place.crc32 {
            Ok(pickle)
        } else {
            Err("the checksum of its pickle is wrong".to_owned().into())
        }
    }

    /// The name of the entry that is the storage `key`, and where it lies.
    pub(super) fn storage(&self, key: &str) -> Result<(String, &ArchiveEntry), String> {
        let entry = self.in_root(&format!("data/{key}"));
        let place = self.place(&entry)?;
        Ok((entry, place))
    }

    fn place(&self, entry: &str) -> Result<&ArchiveEntry, String> {
        let place = self.entries.get(entry);
        place.ok_or_else(|| format!("it has no entry {entry}"))
    }

    fn in_root(&self, name: &str) -> String {
        format!("{}{name}", self.root)
    }

    /// The folder of the one entry called data.pkl.
    fn find_root(&self) -> Result<String, Fault> {
        let mut roots = self
            .entries
            .keys()
            .filter_map(|name| {
                let root = name.strip_suffix("data.pkl")?;
                (root.is_empty() || root.ends_with('/')).then_some(root)
            })
            .collect::<Vec<_>>();
        roots.sort_unstable();
        let Some(root) = roots.first() else {
            return Err("it has no entry data.pkl, which torch.save writes"
                .to_owned()
                .into());
        };
        if roots.len() > 1 {
            return Err(format!("it has {} entries data.pkl", roots.len()).into());
        }
        if self.entries.contains_key(&format!("{root}constants.pkl")) {
            return Err(Fault {
                problem: "it is a program (TorchScript), not weights".to_owned(),
                cure: "take the model's weights, in safetensors or pytorch_model.bin",
            });
        }
        Ok((*root).to_owned())
    }

    fn refuse_big_endian(&self, bytes: &[u8]) -> Result<(), Fault> {
        match self.entries.get(&self.in_root("byteorder")) {
            Some(place) if &bytes[place.bytes.clone()] != b"little" => Err(Fault {
                problem: "its numbers are not little-endian".to_owned(),
                cure: "save it again with torch on a little-endian machine",
            }),
            _ => Ok(()),
        }
    }
}

fn entry(
    zip: &mut ZipArchive<Cursor<&[u8]>>,
    index: usize,
    length: usize,
) -> Result<(String, ArchiveEntry), Fault> {
    let unreadable = |error: zip::result::ZipError| format!("entry {index} of it: {error}");
    let file = zip.by_index_raw(index).map_err(unreadable)?;
    let name = file.name().map_err(unreadable)?.into_owned();
    if file.encrypted() {
        return Err(Fault {
            problem: format!("its entry {name} is encrypted"),
            cure: "unpack it with its password, and save it again with torch.save",
        });
    }
    if file.compression() != CompressionMethod::Stored || file.size() != file.compressed_size() {
        return Err(Fault {
            problem: format!("its entry {name} is compressed, which torch never does"),
            cure: "save it again with torch.save",
        });
    }
    let place = || {
        let start = usize::try_from(file.data_start()?).ok()?;
        let end = start.checked_add(usize::try_from(file.size()).ok()?)?;
        (end <= length).then_some(start..end)
    };
    match place() {
        None => Err(format!("its entry {name} ends behind the end of the file").into()),
        Some(bytes) => {
            let crc32 = file.crc32();
            Ok((name, ArchiveEntry { bytes, crc32 }))
        }
    }
}
