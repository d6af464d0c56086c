use std::io::{Cursor, Write as _};
use std::path::PathBuf;

use cascade_hub::WeightFormat;
use zip::unstable::write::FileOptionsExt;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::*;
use crate::{Checkpoint, FloatType};

fn fixture(name: &str) -> ModelFile {
    let here = std::env::var("CARGO_MANIFEST_DIR");
    let here = PathBuf::from(here.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR")));
    ModelFile::Disk(here.join("../../tests/lookalikes/pickles").join(name))
}

fn embedded(bytes: Vec<u8>) -> ModelFile {
    ModelFile::Embedded {
        name: "weights.bin".to_owned(),
        bytes: bytes.leak(),
    }
}

fn open(file: ModelFile) -> crate::Result<Checkpoint> {
    Checkpoint::open_file(WeightFormat::PyTorch, file)
}

/// The message with which a file is refused.
fn refusal(file: ModelFile) -> String {
    open(file).err().expect("the file is refused").to_string()
}

#[track_caller]
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "\"{part}\" is not in:\n{message}");
    }
}

/// Names, types, shapes and bytes of all tensors.
fn values(file: &Checkpoint) -> Vec<(String, FloatType, Vec<usize>, Vec<u8>)> {
    let tensors = file.infos().into_iter();
    tensors
        .map(|(name, info)| {
            let stored = file.load(&name, &info.shape).unwrap();
            (name, stored.dtype, info.shape, stored.bytes.into_owned())
        })
        .collect()
}

#[test]
fn tensors_are_those_that_were_saved() {
    let saved = fixture("values.safetensors");
    let expected = values(&Checkpoint::open_file(WeightFormat::Safetensors, saved).unwrap());
    assert!(expected.len() >= 16);
    for dtype in [
        FloatType::BF16,
        FloatType::F16,
        FloatType::F32,
        FloatType::F64,
    ] {
        assert!(expected.iter().any(|(_, other, ..)| *other == dtype));
    }
    for name in ["protocol-2.bin", "protocol-4.bin"] {
        assert_eq!(values(&open(fixture(name)).unwrap()), expected, "{name}");
    }
}

#[test]
fn tensors_that_lie_one_after_the_other_are_not_copied() {
    let file = open(fixture("protocol-2.bin")).unwrap();
    for (tensor, borrowed) in [
        ("f32", true),
        ("f16 offset", true),
        ("transposed", false),
        ("column", false),
    ] {
        let stored = file.load(tensor, &file.infos()[tensor].shape).unwrap();
        let found = matches!(stored.bytes, Cow::Borrowed(_));
        assert_eq!(found, borrowed, "{tensor}");
    }
}

#[test]
fn tensors_that_are_no_floats_are_listed_and_not_loaded() {
    let file = open(fixture("integers.bin")).unwrap();
    assert_eq!(file.infos()["a"].dtype, "F32");
    assert_eq!(file.infos()["ids"].dtype, "I64");
    let shape = &file.infos()["ids"].shape;
    let message = file.load("ids", shape).unwrap_err().to_string();
    assert_says(&message, &["tensor ids is stored as I64"]);
}

#[test]
fn files_that_hold_something_else_are_refused_by_name() {
    for (name, parts) in [
        (
            "before-1.6.bin",
            &["before version 1.6", "torch.save(torch.load("][..],
        ),
        (
            "nested.bin",
            &["\"state_dict\" is a dictionary", "state_dict() alone"],
        ),
        ("not-a-tensor.bin", &["\"epoch\" is a number"]),
        ("repeated.bin", &["[1048576, 1024]", "repeat"]),
    ] {
        let message = refusal(fixture(name));
        assert_says(&message, &[name, "is not a PyTorch file"]);
        assert_says(&message, parts);
    }
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    for (bytes, part) in [
        (pointer.to_vec(), "git lfs pull"),
        (tar, "before version 1.6"),
        (b"<!DOCTYPE html>".to_vec(), "<!DOCTYPE html>"),
        (Vec::new(), "not a zip archive"),
        (b"PK\x03\x04".to_vec(), "cut off"),
    ] {
        assert_says(&refusal(embedded(bytes)), &["weights.bin", part]);
    }
}

#[test]
fn files_that_are_cut_off_are_refused() {
    let ModelFile::Disk(path) = fixture("protocol-2.bin") else {
        unreachable!();
    };
    let whole = std::fs::read(path).unwrap();
    for length in [4, 100, whole.len() / 2, whole.len() - 23, whole.len() - 1] {
        assert_says(
            &refusal(embedded(whole[..length].to_vec())),
            &[
                "weights.bin is not a PyTorch file",
                "copy or download it again",
            ],
        );
    }
}

/// An archive with a pickle, and one storage of 24 bytes.
fn archive(pickle: &[u8]) -> Vec<u8> {
    archive_of(&[("data.pkl", pickle), ("data/0", &[0; 24])], stored())
}

fn stored() -> SimpleFileOptions {
    SimpleFileOptions::default().compression_method(CompressionMethod::Stored)
}

fn archive_of(entries: &[(&str, &[u8])], options: SimpleFileOptions) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in entries {
        zip.start_file(format!("model/{name}"), options).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A pickle of a dictionary with one tensor, from the instructions that describe it.
fn tensor(offset: u8, sizes: &[u8], strides: &[u8]) -> Vec<u8> {
    storage_and(b"ctorch\nFloatStorage\n", b"0", 6, offset, sizes, strides)
}

fn storage_and(
    class: &[u8],
    key: &[u8],
    elements: u8,
    offset: u8,
    sizes: &[u8],
    strides: &[u8],
) -> Vec<u8> {
    let text = |text: &[u8]| [&[0x8c, text.len() as u8], text].concat();
    let tuple = |numbers: &[u8]| {
        let numbers = numbers.iter().flat_map(|&n| [b'K', n]);
        [vec![b'('], numbers.collect(), vec![b't']].concat()
    };
    let storage = [
        b"(".to_vec(),
        text(b"storage"),
        class.to_vec(),
        text(key),
        text(b"cpu"),
    ];
    let storage = [storage.concat(), vec![b'K', elements], b"tQ".to_vec()].concat();
    [
        b"\x80\x02}".to_vec(),
        text(b"a"),
        b"ctorch._utils\n_rebuild_tensor_v2\n(".to_vec(),
        storage,
        vec![b'K', offset],
        tuple(sizes),
        tuple(strides),
        b"\x89NtRs.".to_vec(),
    ]
    .concat()
}

#[test]
fn tensors_stay_in_their_storages() {
    let good = open(embedded(archive(&tensor(0, &[2, 3], &[3, 1])))).unwrap();
    assert_eq!(good.infos()["a"].shape, [2, 3]);
    let refused = |pickle: Vec<u8>, parts: &[&str]| {
        assert_says(&refusal(embedded(archive(&pickle))), parts);
    };
    let leaves = "leave its storage of 6 elements";
    refused(tensor(1, &[2, 3], &[3, 1]), &["tensor a", leaves]);
    refused(tensor(0, &[2, 3], &[4, 1]), &[leaves]);
    refused(tensor(0, &[255; 8], &[0; 8]), &["tensor a"]);
    refused(tensor(0, &[255; 9], &[255; 9]), &["9, more than 8"]);
    refused(tensor(0, &[2, 3], &[1]), &["sizes [2, 3] and strides [1]"]);
    refused(tensor(0, &[7], &[0]), &["repeat"]);
    let storage = |class: &str, key: &[u8], elements| {
        let class = format!("ctorch\n{class}\n");
        storage_and(class.as_bytes(), key, elements, 0, &[2], &[1])
    };
    refused(storage("FloatStorage", b"0", 5), &["24 bytes, not 5"]);
    refused(storage("HalfStorage", b"0", 6), &["24 bytes", "F16"]);
    refused(storage("FloatStorage", b"1", 6), &["no entry model/data/1"]);
    refused(storage("FloatStorage", b"../x", 6), &["no entry"]);
    refused(storage("FloatStorage", &[b'0'; 99], 6), &["in a way"]);
    let complex = storage("ComplexFloatStorage", b"0", 6);
    refused(complex, &["torch.ComplexFloatStorage"]);
}

#[test]
fn code_is_never_run_and_named() {
    let call = |module: &str, name: &str| {
        format!("\x02c{module}\n{name}\nX\x04\0\0\0true\u{1}R.").into_bytes()
    };
    for (module, name) in [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("__builtin__", "exec"),
        ("subprocess", "Popen"),
        ("torch", "load"),
        ("torch.storage", "_load_from_bytes"),
        ("torch._utils", "_rebuild_tensor_v2.__globals__"),
        ("collections", "defaultdict"),
    ] {
        // A protocol, then a function by its name, called with a text.
        let mut pickle = vec![0x80];
        pickle.extend(call(module, name));
        let message = refusal(embedded(archive(&pickle)));
        assert_says(
            &message,
            &[
                &format!("asks for {module}.{name}"),
                "is ever run",
                "safetensors",
            ],
        );
        // The same with the names on the stack.
        let text = |text: &str| [&[0x8c, text.len() as u8], text.as_bytes()].concat();
        let pickle = [
            b"\x80\x04".to_vec(),
            text(module),
            text(name),
            b"\x93.".to_vec(),
        ]
        .concat();
        assert_says(
            &refusal(embedded(archive(&pickle))),
            &[&format!("{module}.{name}")],
        );
    }
    // Instructions that import, call or build in other ways.
    for code in [
        b'i', b'o', 0x81, 0x92, 0x82, 0x83, 0x84, b'P', b'S', b'I', b'V', 0x8f, 0x96, 0x97,
    ] {
        let message = refusal(embedded(archive(&[0x80, 2, code, b'.'])));
        assert_says(&message, &[&format!("instruction {code:#04x}")]);
    }
}

#[test]
fn pickles_that_make_no_sense_are_refused() {
    let deep = [vec![b')'], vec![0x85; 100], vec![b'.']].concat();
    let many = vec![b'N'; (1 << 20) + 1];
    let own = |rest: &[u8]| [&b"\x80\x02"[..], rest].concat();
    for (pickle, part) in [
        (own(b""), "middle of an instruction"),
        (own(b"."), "stack is empty"),
        (own(b"N."), "it is None"),
        (own(b"(."), "stack is empty"),
        (own(b"t."), "no mark"),
        (own(b"}K\x01N."), "it is None"),
        (own(b"}(K\x01u."), "no value"),
        (own(b"}K\x01Ns."), "keys is a number"),
        (own(b"NK\x01Ns."), "items into None"),
        (own(b"h\x07."), "recalls 7"),
        (own(b"q\x07."), "stack is empty"),
        (own(b"NNR."), "calls None"),
        (own(b"NQ."), "None"),
        (own(b"N}b."), "attributes to None"),
        (own(b"X\xff\xff\xff\xffshort"), "middle of an instruction"),
        (
            own(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffshort"),
            "middle of an instruction",
        ),
        (own(b"\x8a\xff"), "middle of an instruction"),
        (own(b"\x8a\x09123456789."), "number of 9 bytes"),
        (own(b"X\x02\0\0\0\xff\xff."), "UTF-8"),
        (own(b"cos"), "middle of an instruction"),
        (own(&deep), "more than 8 tuples"),
        (own(&many), "more than 1048576 values"),
        (b"\x80\x07}.".to_vec(), "protocol 7"),
    ] {
        let message = refusal(embedded(archive(&pickle)));
        assert_says(&message, &["weights.bin", part]);
    }
    // Values that share each other do not grow when they are written out.
    let doubled = [
        b"\x80\x02)q\0".to_vec(),
        b"h\0h\0\x86q\0".repeat(60),
        b".".to_vec(),
    ]
    .concat();
    assert_says(&refusal(embedded(archive(&doubled))), &["tuples"]);
}

#[test]
fn archives_that_torch_does_not_write_are_refused() {
    let pickle = tensor(0, &[2, 3], &[3, 1]);
    let entries: [(&str, &[u8]); 2] = [("data.pkl", &pickle), ("data/0", &[0; 24])];
    let with = |more: (&'static str, &'static [u8])| {
        archive_of(&[&entries[..], &[more]].concat(), stored())
    };
    let encrypted = stored().with_deprecated_encryption(b"secret").unwrap();
    let mut flipped = archive(&pickle);
    let zeros = flipped
        .windows(24)
        .position(|window| window == [0; 24])
        .unwrap();
    flipped[zeros + 5] = 1;
    let mut broken = archive(&pickle);
    let at = broken
        .windows(9)
        .position(|window| window == b"_tensor_v")
        .unwrap();
    broken[at] = b'-';
    let mut twice = with(("data/1", &[0; 24]));
    let other = b"model/data/1";
    while let Some(at) = twice
        .windows(other.len())
        .position(|window| window == other)
    {
        twice[at + other.len() - 1] = b'0';
    }
    for (bytes, parts) in [
        (twice, &["two entries of one name", "download it again"][..]),
        (
            archive_of(&entries, encrypted),
            &["model/data.pkl is encrypted", "password"][..],
        ),
        (archive_of(&entries[1..], stored()), &["no entry data.pkl"]),
        (with(("more/data.pkl", b"")), &["2 entries data.pkl"]),
        (with(("constants.pkl", b"")), &["TorchScript"]),
        (with(("byteorder", b"big")), &["little-endian"]),
        (broken, &["checksum of its pickle"]),
    ] {
        assert_says(&refusal(embedded(bytes)), parts);
    }
    // A storage is looked at when it is loaded.
    let file = open(embedded(flipped)).unwrap();
    assert_says(
        &file.load("a", &[2, 3]).unwrap_err().to_string(),
        &["checksum of its entry model/data/0"],
    );
}

/// Any damaged byte is an error, or a file that loads.
#[test]
fn damage_never_panics() {
    use rand::{Rng, SeedableRng, rngs::StdRng};
    let mut rng = StdRng::seed_from_u64(11);
    let ModelFile::Disk(path) = fixture("protocol-4.bin") else {
        unreachable!();
    };
    let whole = std::fs::read(path).unwrap();
    for round in 0..2000 {
        let mut damaged = whole.clone();
        for _ in 0..1 + round % 3 {
            let at = rng.random_range(0..whole.len());
            damaged[at] = rng.random();
        }
        if let Ok(file) = open(embedded(damaged)) {
            for (name, info) in file.infos() {
                let _ = file.load(&name, &info.shape);
            }
        }
    }
    // Past the checksum, which would notice most of it.
    let ModelFile::Disk(path) = fixture("integers.bin") else {
        unreachable!();
    };
    let pickle = std::fs::read(path).unwrap();
    let archive = Archive::open(&pickle).ok().unwrap();
    let pickle = archive.pickle(&pickle).ok().unwrap().to_vec();
    for _ in 0..20_000 {
        let mut damaged = pickle.clone();
        for _ in 0..rng.random_range(1..5) {
            let at = rng.random_range(0..pickle.len());
            damaged[at] = rng.random();
        }
        let _ = unpickle::state_dict(&damaged);
    }
}
