//! A tokenizer in the keys of a GGUF file.
//!
//! tokenizer.json goes into the file as a whole, which this crate reads. For other programs it is
//! said in llama.cpp's keys too, if what they say reads texts as the tokenizer does.

use std::collections::{BTreeSet, HashMap};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cascade_core::TokenId;
use serde_json::Value as Json;

use super::convert::Original;
use crate::gguf::vocabulary::{
    self, ADD_BOS, ADD_EOS, ADD_PREFIX, BOS, CHARSMAP, EOS, EOT, MERGES, MODEL, PADDING, PRE,
    SCORES, STRIP, TEMPLATE, TEMPLATES, TOKENS, TYPES, UNKNOWN, WHOLE,
};
use crate::gguf::write::{ALIGNMENT, Entries, Target, write};
use crate::gguf::{Gguf, pre_tokenizers};
use crate::sentencepiece::PieceType;
use crate::{Result, Tokenizer};

/// Why llama.cpp's keys cannot say what a tokenizer does.
type Expressible<T> = std::result::Result<T, String>;

/// Texts whose tokens show how a tokenizer treats spaces, letters, numbers, and characters that it
/// may not know.
const PROBES: [&str; 9] = [
    "Hello, world!",
    "  two  spaces, a\ttab\n\n  and new lines \n",
    "naïve café, “quotes” … straße ÅNGSTRÖM",
    "北京 日本語 한국어 العربية हिन्दी 🙂👩‍👩‍👧",
    "for (int i = 0; i < 10_000; ++i) { x -= 3.14159e-5; } // 12345678",
    "I'LL say we've got it's 'quoted' don'T",
    "e\u{301}te\u{301} ﬁne Ⅷ ½ \u{a0}nbsp\u{200b}zero",
    "snake_case CamelCase kebab-case http://a.b/c?d=e&f=%20",
    "",
];

/// Writes a tokenizer, templates and special tokens. Returns what the user should know.
pub(super) fn put(
    original: &Original<'_>,
    conversations: &Json,
    entries: &mut Entries,
) -> Result<Vec<String>> {
    let text = original.tokenizer.to_json()?;
    let words = Words::read(original, conversations, &text)?;
    let mut warnings = Vec::new();
    let described = words.described().map(|described| words.tried(described));
    match described.unwrap_or_else(|reason| Ok(Err(reason)))? {
        Ok((described, difference)) => {
            entries.append(described);
            let told = |difference| format!("in other programs {difference} may be others");
            warnings.extend(difference.map(told));
        }
        Err(reason) => warnings.push(format!(
            "other programs cannot read the tokenizer from the file, and so do not load it: {reason}"
        )),
    }
    words.put_tokens(entries);
    warnings.extend(words.further_ends(entries)?);
    entries.text(WHOLE, &text);
    put_templates(conversations, entries);
    Ok(warnings)
}

/// What two tokenizers differ in: their vocabularies, or how they read one of the probes.
pub(super) fn difference(a: &Tokenizer, b: &Tokenizer) -> Result<Option<String>> {
    let plain = PROBES.map(str::to_owned);
    let all = plain.into_iter().chain(with_added_tokens(a)?);
    first_difference(a, b, all)
}

/// Texts with tokens that are found before all others.
fn with_added_tokens(tokenizer: &Tokenizer) -> Result<Vec<String>> {
    let json: Json = serde_json::from_str(&tokenizer.to_json()?).unwrap_or_default();
    let added = json["added_tokens"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|token| Some(format!("a{} b", token["content"].as_str()?)));
    Ok(added.take(64).collect())
}

fn first_difference(
    a: &Tokenizer,
    b: &Tokenizer,
    texts: impl IntoIterator<Item = String>,
) -> Result<Option<String>> {
    if a.fingerprint() != b.fingerprint() {
        return Ok(Some("the vocabulary".to_owned()));
    }
    for text in texts {
        let (of_a, of_b) = (a.encode_with(&text, true)?, b.encode_with(&text, true)?);
        if of_a != of_b || a.decode(&of_a)? != b.decode(&of_b)? {
            return Ok(Some(format!("the tokens of {text:?}")));
        }
    }
    Ok(None)
}

/// What there is to say of a tokenizer.
struct Words<'a> {
    original: &'a Original<'a>,
    json: Json,
    tokens: Vec<String>,
    types: Vec<PieceType>,
    begins: Vec<TokenId>,
    ends: Vec<TokenId>,
    /// Special tokens by the keys of the format.
    special: Vec<(&'static str, TokenId)>,
}

impl<'a> Words<'a> {
    fn read(original: &'a Original<'a>, conversations: &Json, text: &str) -> Result<Self> {
        let json: Json = serde_json::from_str(text).unwrap_or_default();
        let (begins, ends) = around(&original.tokenizer)?;
        let mut words = Self {
            original,
            tokens: Vec::new(),
            types: Vec::new(),
            special: Vec::new(),
            json,
            begins,
            ends,
        };
        words.list_tokens();
        words.special = words.special_tokens(conversations);
        Ok(words)
    }

    /// Lists as many tokens as the embedding has rows.
    fn list_tokens(&mut self) {
        let rows = self.original.description.vocab_size;
        let mut types = vec![PieceType::Unused; rows];
        self.tokens = (0..rows).map(|id| format!("[PAD{id}]")).collect();
        for (token, id) in vocabulary::entries(&self.json) {
            let id = id as usize;
            if types.get(id) == Some(&PieceType::Unused) {
                types[id] = PieceType::Normal;
                token.clone_into(&mut self.tokens[id]);
            }
        }
        if self.json["model"]["byte_fallback"] == true {
            for byte in 0..=255u8 {
                let token = self
                    .original
                    .tokenizer
                    .token_to_id(&format!("<0x{byte:02X}>"));
                if let Some(kind) = token.and_then(|id| types.get_mut(id as usize)) {
                    *kind = PieceType::Byte;
                }
            }
        }
        let added = self.json["added_tokens"].as_array().into_iter().flatten();
        for token in added {
            let id = token["id"].as_u64().and_then(|id| usize::try_from(id).ok());
            if let Some(place) = id.and_then(|id| types.get_mut(id)) {
                *place = if token["special"] == true {
                    PieceType::Control
                } else {
                    PieceType::UserDefined
                };
            }
        }
        let unknown = self.unknown().and_then(|id| types.get_mut(id as usize));
        if let Some(kind) = unknown {
            *kind = PieceType::Unknown;
        }
        self.types = types;
    }

    fn unknown(&self) -> Option<TokenId> {
        let model = &self.json["model"];
        let by_id = model["unk_id"].as_u64().map(|id| id as TokenId);
        let named = model["unk_token"].as_str();
        by_id.or_else(|| self.original.tokenizer.token_to_id(named?))
    }

    fn special_tokens(&self, conversations: &Json) -> Vec<(&'static str, TokenId)> {
        let named = |name: &str| {
            let entry = &conversations[name];
            let text = entry.as_str().or_else(|| entry["content"].as_str())?;
            self.original.tokenizer.token_to_id(text)
        };
        let ends = &self.original.ends;
        let eos = named("eos_token")
            .filter(|eos| ends.contains(eos))
            .or(ends.first().copied())
            .or(self.ends.first().copied());
        let other = ends.iter().copied().find(|&end| Some(end) != eos);
        let bos = self.begins.first().copied().or(named("bos_token"));
        let own = self.original.description.padding;
        let pad = own.or_else(|| named("pad_token"));
        let all = [
            (BOS, bos),
            (EOS, eos),
            (EOT, other),
            (UNKNOWN, self.unknown().or(named("unk_token"))),
            (PADDING, pad),
        ];
        let all = all.into_iter();
        all.filter_map(|(key, id)| Some((key, id?))).collect()
    }

    fn put_tokens(&self, entries: &mut Entries) {
        entries.texts(TOKENS, self.tokens.iter().map(String::as_str));
        entries.integers(TYPES, self.types.iter().map(|&kind| kind.into()));
        for (key, id) in &self.special {
            entries.unsigned(key, *id);
        }
    }

    /// The tokenizer in llama.cpp's keys.
    fn described(&self) -> Expressible<Entries> {
        let one = |tokens: &[TokenId], key| match tokens {
            [] => Ok(false),
            [one] if self.special.contains(&(key, *one)) => Ok(true),
            [_] => Err("texts get tokens that neither begin nor end answers".to_owned()),
            several => Err(format!("texts get {} tokens on one side", several.len())),
        };
        let (begins, ends) = (one(&self.begins, BOS)?, one(&self.ends, EOS)?);
        let mut entries = Entries::default();
        match self.json["model"]["type"].as_str() {
            Some("Unigram") => self.unigram(&mut entries),
            Some("BPE") if self.is_byte_level() => self.byte_level(&mut entries),
            Some("BPE") => self.sentencepiece(&mut entries),
            other => Err(format!("it is of type {}", other.unwrap_or("unknown"))),
        }?;
        entries.flag(ADD_BOS, begins);
        entries.flag(ADD_EOS, ends);
        Ok(entries)
    }

    /// Steps of the pre-tokenizer.
    fn cuts(&self) -> Vec<&Json> {
        steps(&self.json["pre_tokenizer"], "pretokenizers")
    }

    fn is_byte_level(&self) -> bool {
        self.cuts().iter().any(|cut| cut["type"] == "ByteLevel")
    }

    fn merges(&self) -> Expressible<Vec<(&str, &str)>> {
        let merges = self.json["model"]["merges"]
            .as_array()
            .ok_or("it has no merges")?;
        let parts: Option<Vec<_>> = merges
            .iter()
            .map(|merge| match merge {
                Json::String(both) => both.split_once(' '),
                parts => Some((parts[0].as_str()?, parts[1].as_str()?)),
            })
            .collect();
        let parts = parts.ok_or("a merge has not two parts")?;
        Ok(parts)
    }

    fn byte_level(&self, entries: &mut Entries) -> Expressible<()> {
        let mut splits = Vec::new();
        for cut in self.cuts() {
            match cut["type"].as_str() {
                Some("Split") => splits.extend(cut["pattern"]["Regex"].as_str()),
                Some("Digits") if cut["individual_digits"] == true => splits.push(r"\p{N}"),
                Some("ByteLevel") if cut["use_regex"] == true => splits.push(pre_tokenizers::GPT2),
                Some("ByteLevel") => {}
                other => return Err(format!("it cuts texts by {}", other.unwrap_or("?"))),
            }
        }
        let whole = self.json["model"]["ignore_merges"] == true;
        let composed = self.json["normalizer"]["type"] == "NFC";
        let pre = pre_tokenizers::named(&splits, whole, composed)
            .ok_or("llama.cpp has no name for the way it cuts texts")?;
        let merges = self.merges()?;
        let merges: Vec<String> = merges.iter().map(|(a, b)| format!("{a} {b}")).collect();
        entries.text(MODEL, "gpt2");
        entries.text(PRE, pre);
        entries.texts(MERGES, merges.iter().map(String::as_str));
        Ok(())
    }

    /// SentencePiece's BPE merges what has the highest score: the earliest merge here.
    fn sentencepiece(&self, entries: &mut Entries) -> Expressible<()> {
        let merges = self.merges()?;
        let mut ranks: HashMap<String, usize> = HashMap::new();
        for (rank, (left, right)) in merges.iter().enumerate() {
            ranks.entry(format!("{left}{right}")).or_insert(rank);
        }
        let score = |token: &String| {
            ranks
                .get(token)
                .map_or(-(merges.len() as f32), |&r| -(r as f32))
        };
        let steps = steps(&self.json["normalizer"], "normalizers");
        let prepends = steps.iter().any(|step| step["type"] == "Prepend");
        let spaced = self
            .cuts()
            .iter()
            .any(|cut| cut["type"] == "Metaspace" && cut["prepend_scheme"] != "never");
        let scores: Vec<f32> = self.tokens.iter().map(score).collect();
        entries.text(MODEL, "llama");
        entries.numbers(SCORES, &scores);
        entries.flag(ADD_PREFIX, prepends || spaced);
        Ok(())
    }

    fn unigram(&self, entries: &mut Entries) -> Expressible<()> {
        let pieces = self.json["model"]["vocab"]
            .as_array()
            .ok_or("it has no pieces")?;
        let mut scores = vec![0.0; self.tokens.len()];
        for (score, piece) in scores.iter_mut().zip(pieces) {
            *score = piece[1].as_f64().ok_or("a piece has no score")? as f32;
        }
        let steps = steps(&self.json["normalizer"], "normalizers");
        let map = steps
            .iter()
            .find_map(|step| step["precompiled_charsmap"].as_str());
        let charsmap = map.map(|map| STANDARD.decode(map)).transpose();
        let charsmap = charsmap.map_err(|error| format!("its table of characters: {error}"))?;
        entries.text(MODEL, "t5");
        entries.numbers(SCORES, &scores);
        if let Some(charsmap) = charsmap {
            entries.bytes(CHARSMAP, &charsmap);
        }
        entries.flag(ADD_PREFIX, true);
        entries.flag(STRIP, true);
        Ok(())
    }

    /// Reads a description as a file would have it, and compares: the description and in what texts
    /// with special tokens differ, or how others do.
    fn tried(&self, described: Entries) -> Result<Expressible<(Entries, Option<String>)>> {
        let mut entries = described.clone();
        self.put_tokens(&mut entries);
        let read = match Tokenizer::described_by(&alone(entries)?) {
            Ok(read) => read,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let own = &self.original.tokenizer;
        if let Some(difference) = first_difference(own, &read, PROBES.map(str::to_owned))? {
            return Ok(Err(format!("llama.cpp's keys would change {difference}")));
        }
        let difference = first_difference(own, &read, with_added_tokens(own)?)?;
        Ok(Ok((described, difference)))
    }

    /// Tokens that end an answer in the file and not in the original: the format knows them by
    /// their texts, and takes one for granted in some kinds of tokenizers.
    fn further_ends(&self, entries: &Entries) -> Result<Option<String>> {
        let stated: BTreeSet<u64> = self.original.ends.iter().map(|&end| end.into()).collect();
        let further: Vec<&str> = vocabulary::ends(&alone(entries.clone())?)?
            .iter()
            .filter(|end| !stated.contains(end))
            .filter_map(|&end| self.tokens.get(end as usize))
            .map(String::as_str)
            .collect();
        Ok((!further.is_empty()).then(|| {
            format!(
                "answers also end at {}, as in every GGUF file with such tokens",
                further.join(", ")
            )
        }))
    }
}

/// A file of settings alone.
fn alone(entries: Entries) -> Result<Gguf> {
    let mut bytes = Vec::new();
    write(entries, &[], Target::F32, ALIGNMENT, &mut bytes)?;
    Gguf::of_bytes("the file to be written", bytes)
}

/// The steps of a sequence, or the one there is.
fn steps<'j>(json: &'j Json, list: &str) -> Vec<&'j Json> {
    match json[list].as_array() {
        Some(steps) => steps.iter().collect(),
        None if json.is_null() => Vec::new(),
        None => vec![json],
    }
}

/// The tokens that a prompt gets before and behind its own.
fn around(tokenizer: &Tokenizer) -> Result<(Vec<TokenId>, Vec<TokenId>)> {
    let (plain, whole) = (
        tokenizer.encode_with("a", false)?,
        tokenizer.encode_with("a", true)?,
    );
    let at = whole
        .windows(plain.len().max(1))
        .position(|own| own == plain)
        .unwrap_or(0);
    let (before, rest) = whole.split_at(at.min(whole.len()));
    let behind = rest.get(plain.len()..).unwrap_or_default();
    Ok((before.to_vec(), behind.to_vec()))
}

/// Templates by their names, as llama.cpp has them.
fn put_templates(conversations: &Json, entries: &mut Entries) {
    match &conversations["chat_template"] {
        Json::String(template) => entries.text(TEMPLATE, template),
        Json::Array(templates) => {
            let mut names = Vec::new();
            for template in templates {
                let (name, text) = (template["name"].as_str(), template["template"].as_str());
                if let (Some(name), Some(text)) = (name, text) {
                    match name {
                        "default" => entries.text(TEMPLATE, text),
                        _ => {
                            names.push(name);
                            entries.text(&format!("{TEMPLATE}.{name}"), text);
                        }
                    }
                }
            }
            entries.texts(TEMPLATES, names.into_iter());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cascade_hub::{HubOptions, ModelFile, ModelFiles, ModelSource};
    use serde_json::json;

    use super::*;
    use crate::quantize::{Description, Family};

    fn golden(name: &str) -> std::path::PathBuf {
        let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/goldens/gguf");
        goldens.join(name)
    }

    /// The tokenizer.json of the tokenizer in a file.
    fn json_of(gguf: &Gguf) -> Json {
        let json = Tokenizer::of_gguf(gguf).unwrap().to_json().unwrap();
        serde_json::from_str(&json).unwrap()
    }

    fn some_files() -> ModelFiles {
        let source = ModelSource::File(golden("llama-f32.gguf"));
        source.files(&HubOptions::new("", ""), false).unwrap()
    }

    fn original<'a>(files: &'a ModelFiles, json: &Json, ends: &[TokenId]) -> Original<'a> {
        let tokenizer = Tokenizer::from_bytes("", json.to_string().as_bytes()).unwrap();
        let description = Description {
            family: Family::Llama,
            // Rows that no token has are usual.
            vocab_size: tokenizer.id_bound() + 5,
            padding: None,
            layers: (1, 0),
            heads: (4, 4),
            ungated: false,
            tied: false,
            scale: None,
            fused: None,
            window: None,
            keys: Vec::new(),
            factors: None,
            parameters: (0, 0),
        };
        Original {
            files,
            description,
            tokenizer,
            ends: ends.to_vec(),
            recommended: cascade_core::StatedSampling::default(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn all_kinds_are_said_in_the_keys_of_others() {
        let files = some_files();
        for (name, kind, eos) in [
            ("vocabulary-llama.gguf", "llama", 2),
            ("vocabulary-bytes.gguf", "gpt2", 0),
            ("vocabulary-t5.gguf", "t5", 1),
        ] {
            let given = Gguf::open(&[ModelFile::Disk(golden(name))]).unwrap();
            let json = json_of(&given);
            let mut chat = vocabulary::tokenizer_config(&given).unwrap();
            chat["chat_template"] = json!("{{ messages }}");
            let eos = chat["eos_token"].as_str().map_or(eos, |eos| {
                let tokenizer = Tokenizer::from_bytes("", json.to_string().as_bytes());
                tokenizer.unwrap().token_to_id(eos).unwrap()
            });
            let original = original(&files, &json, &[eos]);
            let mut entries = Entries::default();
            let warnings = put(&original, &chat, &mut entries).unwrap();
            assert!(
                !warnings.iter().any(|w| w.contains("cannot read")),
                "{warnings:?}"
            );
            let written = alone(entries).unwrap();
            assert_eq!(written.text(MODEL).unwrap(), Some(kind));
            let theirs = Tokenizer::described_by(&written).unwrap();
            let probes = PROBES.map(str::to_owned);
            let found = first_difference(&original.tokenizer, &theirs, probes).unwrap();
            assert_eq!(found, None, "{name}");
            let told = vocabulary::tokenizer_config(&written).unwrap();
            assert_eq!(told["chat_template"], chat["chat_template"]);
            assert_eq!(told["eos_token"], chat["eos_token"], "{name}");
            assert!(vocabulary::ends(&written).unwrap().contains(&eos.into()));
        }
    }

    #[test]
    fn what_others_would_read_differently_is_not_said_to_them() {
        let files = some_files();
        let given = Gguf::open(&[ModelFile::Disk(golden("vocabulary-llama.gguf"))]).unwrap();
        let mut json = json_of(&given);
        // SentencePiece keeps spaces.
        json["pre_tokenizer"] = json!({"type": "WhitespaceSplit"});
        let original = original(&files, &json, &[2]);
        let mut entries = Entries::default();
        let warnings = put(&original, &Json::Null, &mut entries).unwrap();
        assert!(warnings[0].contains("two  spaces"), "{warnings:?}");
        let written = alone(entries).unwrap();
        assert_eq!(written.text(MODEL).unwrap(), None);
        let whole = Tokenizer::of_gguf(&written).unwrap();
        assert_eq!(difference(&original.tokenizer, &whole).unwrap(), None);
    }

    #[test]
    fn two_vocabularies_in_one_file_are_refused() {
        let files = some_files();
        let given = Gguf::open(&[ModelFile::Disk(golden("vocabulary-llama.gguf"))]).unwrap();
        let json = json_of(&given);
        let original = original(&files, &json, &[2]);
        let mut words = Words::read(&original, &Json::Null, &json.to_string()).unwrap();
        words.tokens.swap(300, 301);
        let mut entries = Entries::default();
        words.put_tokens(&mut entries);
        entries.text(WHOLE, &json.to_string());
        let message = Tokenizer::of_gguf(&alone(entries).unwrap())
            .unwrap_err()
            .to_string();
        assert!(message.contains("token 300 is"), "{message}");
    }
}
