//! Traces of toy models: the file, the recorded target, and replays that equal the real runs.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use cascade_core::toy::ToyScorer;
use cascade_core::{
    Architecture, Budget, Decoding, Drafter, Fingerprint, Prompt, Scorer, TokenId, TokenTree, Want,
    seed_of,
};
use cascade_engine::{Cascade, Convention, KMatrix, Lenience, Options};
use cascade_eval::{Error, ErrorKind};
use cascade_ngram::{MaxGram, PromptLookup};
use cascade_traces::trace::{
    Bounds, ExpectedAcceptance, Finish, FirstPicks, Header, NO_TOKEN, Reader, Record, Recorder,
    Subject, Tallies, Trace, TraceScorer, Writer, replay,
};
use proptest::prelude::*;
use serde_json::Value;

const VOCABULARY: usize = 12;
const EOS: TokenId = 3;
const ARCHITECTURES: [Architecture; 2] = [Architecture::DecoderOnly, Architecture::EncoderDecoder];

fn options(max_new_tokens: usize) -> Options {
    Options::default().with_max_new_tokens(max_new_tokens)
}

fn toy(architecture: Architecture) -> ToyScorer {
    ToyScorer::target("target", VOCABULARY, 7).with_architecture(architecture)
}

fn prompts() -> [Vec<TokenId>; 4] {
    [vec![1, 2], vec![1], vec![4, 5, 6], vec![1, 2, 8]]
}

fn record(architecture: Architecture, max_new_tokens: usize) -> Arc<Trace> {
    let options = options(max_new_tokens);
    let mut header = Header::measured(
        "toy",
        architecture,
        &Fingerprint::from_stored("toy"),
        VOCABULARY,
        &options,
    );
    header.eos = vec![EOS];
    let mut recorder = Recorder::new("toy", toy(architecture), [EOS], None, &options).unwrap();
    let records = prompts().into_iter().enumerate().map(|(index, tokens)| {
        let prompt = Prompt::new(architecture, tokens);
        let subject = Subject::new(index.to_string());
        recorder.record(subject, &prompt, |_| {}).unwrap().0
    });
    Arc::new(Trace::new("toys", header.clone(), records.collect()).unwrap())
}

/// The trace in the format of a file.
fn lines(trace: &Trace) -> Vec<String> {
    let header = serde_json::to_string(&trace.header).unwrap();
    let records = trace
        .records
        .iter()
        .map(|record| serde_json::to_string(record).unwrap());
    std::iter::once(header).chain(records).collect()
}

fn read(text: impl Into<Vec<u8>>) -> Result<Trace, Error> {
    Trace::collect(Reader::new("t.jsonl", Cursor::new(text.into()))?)
}

#[test]
fn a_record_is_what_the_target_says_and_how_surely() {
    for architecture in ARCHITECTURES {
        let trace = record(architecture, 30);
        for record in &trace.records {
            let mut target = toy(architecture);
            target.set_source(&record.source).unwrap();
            let mut context = record.context.clone();
            let margins = record.margins.as_ref().unwrap();
            assert_eq!(margins.len(), record.output.len());
            for (&token, &margin) in record.output.iter().zip(margins) {
                let scores = target
                    .score(&context, &TokenTree::new(), Want::LOGITS)
                    .unwrap();
                assert_eq!(scores.argmax[0], token);
                let mut logits = scores.logits.unwrap().row(0).to_vec();
                logits.sort_by(f32::total_cmp);
                assert_eq!(margin, logits[VOCABULARY - 1] - logits[VOCABULARY - 2]);
                context.push(token);
            }
            let ended = record.output.last() == Some(&EOS);
            let finish = if ended { Finish::Eos } else { Finish::Length };
            assert_eq!(record.finish, finish);
        }
    }
}

#[test]
fn a_file_gives_back_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    for architecture in ARCHITECTURES {
        let trace = record(architecture, 20);
        let path = folder.path().join(format!("{architecture:?}.jsonl"));
        let mut writer = Writer::create(&path, &trace.header).unwrap();
        for record in &trace.records {
            writer.write(record).unwrap();
        }
        drop(writer);
        let found = Trace::open(&path).unwrap();
        assert_eq!(
            (&found.header, &found.records),
            (&trace.header, &trace.records)
        );
        let exists = Writer::create(&path, &trace.header).unwrap_err();
        assert_eq!(exists.kind(), ErrorKind::Exists);

        let packed = path.with_extension("jsonl.gz");
        let mut gzip = flate2::write::GzEncoder::new(
            std::fs::File::create(&packed).unwrap(),
            flate2::Compression::default(),
        );
        std::io::Write::write_all(&mut gzip, &std::fs::read(&path).unwrap()).unwrap();
        gzip.finish().unwrap();
        assert_eq!(Trace::open(&packed).unwrap().records, trace.records);
        let compressed = Writer::resume(&packed, &trace.header).unwrap_err();
        assert_eq!(compressed.kind(), ErrorKind::Compressed);
    }
}

#[test]
fn records_are_spread_over_a_trace() {
    let trace = record(Architecture::DecoderOnly, 4);
    let places = |limit| -> Vec<usize> {
        let taken = trace.spread(limit).map(|taken| {
            let mut records = trace.records.iter();
            records.position(|record| record == taken).unwrap()
        });
        taken.collect()
    };
    assert!(places(0).is_empty());
    assert_eq!(places(1), [0]);
    assert_eq!(places(2), [0, 2]);
    assert_eq!(places(3), [0, 1, 2]);
    assert_eq!(places(4), [0, 1, 2, 3]);
    assert_eq!(places(usize::MAX), [0, 1, 2, 3]);
}

#[test]
fn wherever_a_recording_is_cut_it_resumes_to_the_same_bytes() {
    let trace = record(Architecture::DecoderOnly, 6);
    let whole = lines(&trace).join("\n") + "\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.jsonl");
    for cut in 0..=whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let (mut writer, done) = Writer::resume(&path, &trace.header).unwrap();
        assert_eq!(done, trace.records[..done.len()]);
        for record in &trace.records[done.len()..] {
            writer.write(record).unwrap();
        }
        drop(writer);
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            whole,
            "cut at {cut}"
        );
    }
}

#[test]
fn resuming_touches_nothing_that_it_did_not_write() {
    let trace = record(Architecture::DecoderOnly, 6);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    let mut other = trace.header.clone();
    other.max_new_tokens = 7;
    let all = lines(&trace).join("\n");
    for (content, expected) in [
        ("my only notes", "not a trace"),
        ("{\"a\": 1}\n", "not a trace"),
        (
            &all.replacen("\"toy\"", "\"other\"", 1),
            "recorded with model \"other\", not \"toy\"",
        ),
        (&(all.replacen("\"turn\":1", "\"turn\":", 1)), "t.jsonl:2"),
    ] {
        std::fs::write(&path, content).unwrap();
        let error = Writer::resume(&path, &trace.header)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    }
    let (writer, _) = {
        std::fs::write(&path, &all).unwrap();
        Writer::resume(&path, &trace.header).unwrap()
    };
    let busy = Writer::resume(&path, &trace.header).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy);
    drop(writer);
    let error = Writer::resume(&path, &other).unwrap_err().to_string();
    assert!(error.contains("max_new_tokens 6, not 7"), "{error}");
}

#[test]
fn damaged_files_are_refused_by_line() {
    let trace = record(Architecture::DecoderOnly, 6);
    let all = lines(&trace);
    let damaged = |line: usize, from: &str, to: &str| {
        let mut lines = all.clone();
        assert!(lines[line].contains(from), "{from}: {}", lines[line]);
        lines[line] = lines[line].replacen(from, to, 1);
        lines.join("\n") + "\n"
    };
    for (text, expected) in [
        (String::new(), "t.jsonl: not a trace: it is empty"),
        ("\n".into(), "the first line is not JSON"),
        ("[1]\n".into(), "\"format\" is null"),
        (
            damaged(0, "\"version\":1", "\"version\":2"),
            "format version 2 is not supported, only 1",
        ),
        (
            damaged(0, "greedy", "sampled"),
            "\"decoding\" is \"sampled\"",
        ),
        (
            damaged(0, "decoder-only", "bidirectional"),
            "neither \"encoder-decoder\" nor",
        ),
        (
            damaged(0, "\"eos\":[3]", "\"eos\":[99]"),
            "end token 99 is outside the vocabulary of 12",
        ),
        (
            damaged(0, "\"vocab_size\"", "\"colour\":1,\"vocab_size\""),
            "colour",
        ),
        (all[0].clone() + "\n", "t.jsonl: there are no records"),
        (
            damaged(2, "\"context\":[1]", "\"context\":[1,"),
            "t.jsonl:3: not a record",
        ),
        (
            damaged(2, "\"context\":[1]", "\"context\":[12]"),
            "t.jsonl:3: token 12 is outside the vocabulary of 12",
        ),
        (
            damaged(2, "\"context\":[1],", ""),
            "t.jsonl:3: a decoder-only model reads its prompt from",
        ),
        (
            damaged(2, "\"gaps\":[", "\"gaps\":[0.5,"),
            "margins (\"gaps\") for",
        ),
        (
            damaged(0, "\"max_new_tokens\":6", "\"max_new_tokens\":1"),
            "but at most 1 according to the header",
        ),
        (
            damaged(1, "\"finish\":\"length\"", "\"finish\":\"eos\""),
            "has no end token",
        ),
        (
            damaged(
                0,
                "\"eos\":[3]",
                &format!("\"eos\":[{}]", trace.records[0].output[0]),
            ),
            "continues after it",
        ),
        (
            all.join("\n")[..all.join("\n").len() - 9].into(),
            "t.jsonl:5: the last line is cut off",
        ),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, not {expected}");
    }
    // Only the last newline is missing; the record itself is complete.
    assert!(read(all.join("\n")).is_ok());
}

#[test]
fn the_recorded_target_refuses_what_was_not_recorded() {
    let trace = record(Architecture::DecoderOnly, 6);
    let mut scorer = TraceScorer::new(trace.clone()).unwrap();
    let first = &trace.records[0];
    let context = |tokens: usize| [&first.context[..], &first.output[..tokens]].concat();
    let mut error = |context: &[TokenId], tree: &[TokenId], want: Want| {
        let tree = TokenTree::chain(tree.iter().copied());
        scorer.score(context, &tree, want).unwrap_err().to_string()
    };
    let unrecorded = (0..VOCABULARY as TokenId)
        .find(|t| *t != first.output[0] && *t != 8)
        .unwrap();
    for (found, expected) in [
        (error(&[9, 9], &[], Want::ARGMAX), "no record of the trace"),
        (
            error(&[1, 2, unrecorded], &[], Want::ARGMAX),
            "no record of the trace",
        ),
        (error(&[], &[], Want::ARGMAX), "the prompt is empty"),
        (error(&[1, 2], &[12], Want::ARGMAX), "token 12 is outside"),
        (
            error(&context(6), &[], Want::ARGMAX),
            "record 0 ends after 6 tokens",
        ),
        (
            error(&context(4), &first.output[4..], Want::ARGMAX),
            "record 0 ends after 6 tokens",
        ),
        (error(&[1, 2], &[], Want::GATHERED), "no probabilities"),
        (
            error(&[1, 2], &[], Want::ARGMAX.with_top(2)),
            "no probabilities",
        ),
        (error(&[1, 2], &[], Want::LOGITS), "no logits"),
        (
            error(&[1, 2], &[], Want::ARGMAX.with_last_hidden()),
            "no hidden states",
        ),
    ] {
        assert!(found.contains(expected), "{found}, not {expected}");
    }
    assert!(scorer.set_source(&[1]).is_err());
    assert!(
        TraceScorer::new(record(Architecture::EncoderDecoder, 6))
            .unwrap()
            .set_source(&[])
            .is_err()
    );
}

#[test]
fn two_answers_to_one_prompt_are_a_contradiction() {
    let trace = record(Architecture::DecoderOnly, 6);
    let with = |change: fn(&mut Record)| {
        let mut records = trace.records.clone();
        let mut second = records[0].clone();
        second.id = "again".into();
        change(&mut second);
        records.push(second);
        TraceScorer::new(Arc::new(
            Trace::new("t", trace.header.clone(), records).unwrap(),
        ))
    };
    assert!(with(|_| {}).is_ok());
    assert!(
        with(|record| {
            record.output.pop();
            record.margins = None;
        })
        .is_ok()
    );
    let error = with(|record| record.output[2] = (record.output[2] + 1) % 2).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("0 and again have the same prompt"),
        "{error}"
    );
}

fn matrix(rows: Vec<Vec<usize>>) -> KMatrix {
    KMatrix::new(rows, Convention::Added).unwrap()
}

fn around(target: impl Scorer + Send + 'static, k: &KMatrix, lenience: f32) -> Cascade {
    let architecture = target.info().architecture;
    let drafter = |seed, agreement| {
        let toy = ToyScorer::drafter("drafter", VOCABULARY, 7, seed, agreement);
        toy.with_architecture(architecture)
    };
    Cascade::builder()
        .target("target", target)
        .neural("base", drafter(1, 200))
        .neural("small", drafter(2, 150))
        .statistical("max-gram", MaxGram::new())
        .k_matrix(k.clone())
        .lenience(Lenience::new(lenience).unwrap())
        .eos([EOS])
        .build()
        .unwrap()
}

/// Settings with every truncation.
fn sampled(temperature: f32, truncation: usize, seed: u64) -> Options {
    let decoding = match truncation {
        0 => Decoding::new(temperature, Some(4), None, None),
        1 => Decoding::new(temperature, None, Some(0.8), None),
        2 => Decoding::new(temperature, None, None, Some(0.1)),
        _ => Decoding::new(temperature, None, None, None),
    };
    let options = options(30).with_decoding(decoding.unwrap());
    options.with_seed(seed)
}

/// Samples of all prompts, each with a seed of its own, with so many probabilities.
fn sampled_trace(architecture: Architecture, options: &Options, top: Option<usize>) -> Arc<Trace> {
    let name = Fingerprint::from_stored("toy");
    let mut header = Header::measured("toy", architecture, &name, VOCABULARY, options);
    header.eos = vec![EOS];
    let target = toy(architecture);
    if let Some(most) = top {
        header = header.with_top_probabilities(most);
    }
    let recorder = Recorder::with_top_probabilities(top, "toy", target, [EOS], None, options);
    let mut recorder = recorder.unwrap();
    let records = prompts().into_iter().enumerate().map(|(index, tokens)| {
        let prompt = Prompt::new(architecture, tokens);
        recorder.set_seed(seed_of(options.seed, index as u64));
        let subject = Subject::new(index.to_string());
        recorder.record(subject, &prompt, |_| {}).unwrap().0
    });
    let trace = Trace::new("toys", header.clone(), records.collect()).unwrap();
    let again = read(lines(&trace).join("\n") + "\n").unwrap();
    assert_eq!(
        (&again.header, &again.records),
        (&trace.header, &trace.records)
    );
    Arc::new(trace)
}

#[test]
fn replays_of_samples_sample_as_the_recording_did() {
    let options = sampled(0.7, 1, 3);
    let trace = sampled_trace(Architecture::DecoderOnly, &options, None);
    let asked = |options: Options| trace.header.replay_options(options);
    assert_eq!(asked(self::options(5)).unwrap().decoding, options.decoding);
    assert_eq!(asked(options.clone()).unwrap().decoding, options.decoding);
    let error = asked(sampled(0.8, 1, 3)).unwrap_err().to_string();
    for named in ["temperature 0.7, top_p 0.8", "temperature 0.8, top_p 0.8"] {
        assert!(error.contains(named), "{error}");
    }
    let k = matrix(vec![vec![1; 3], vec![0, 1, 1], vec![0, 0, 1]]);
    let mut cascade = around(TraceScorer::new(trace.clone()).unwrap(), &k, 1.0);
    let error = replay(&mut cascade, &trace.records[0], &self::options(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Sampling);
    assert!(
        error.to_string().contains("the outputs are samples"),
        "{error}"
    );
    let (target, plain) = (toy(Architecture::DecoderOnly), self::options(5));
    let greedy = Recorder::with_top_probabilities(Some(3), "toy", target, [], None, &plain);
    let greedy = greedy.map(|_| ()).unwrap_err();
    assert_eq!(greedy.kind(), ErrorKind::Sampling);
    assert!(
        greedy.to_string().contains("greedy outputs are not drawn"),
        "{greedy}"
    );
}

#[test]
fn sampled_recordings_that_are_not_whole_are_refused() {
    let trace = sampled_trace(Architecture::DecoderOnly, &sampled(1.0, 3, 5), Some(3));
    let lines = lines(&trace);
    let changed = |line: usize, change: &dyn Fn(&mut Value)| {
        let mut lines = lines.clone();
        let mut value: Value = serde_json::from_str(&lines[line]).unwrap();
        change(&mut value);
        lines[line] = value.to_string();
        read(lines.join("\n") + "\n").unwrap_err().to_string()
    };
    let said = |found: String, expected: &str| assert!(found.contains(expected), "{found}");
    said(changed(0, &|h| h["sampling"] = Value::Null), "\"sampling\"");
    said(
        changed(0, &|h| h["decoding"] = "greedy".into()),
        "\"sampling\"",
    );
    said(changed(0, &|h| h["decoding"] = "beam".into()), "neither");
    said(
        changed(0, &|h| h["sampling"]["rule"] = "iterated".into()),
        "iterated",
    );
    said(
        changed(0, &|h| h["sampling"]["temperature"] = 0.into()),
        "temperature",
    );
    said(changed(0, &|h| h["sampling"]["seeds"] = 0.into()), "seeds");
    said(changed(1, &|r| r["seed"] = Value::Null), "\"seed\"");
    said(changed(1, &|r| r["top"] = Value::Null), "\"top\"");
    said(
        changed(2, &|r| r["top"][0] = serde_json::json!([])),
        "row 0",
    );
    said(changed(2, &|r| r["top"][0][0][1] = 1.5.into()), "row 0");
    said(
        changed(2, &|r| r["top"][0][0][0] = VOCABULARY.into()),
        "row 0",
    );
    said(
        changed(3, &|r| drop(r["top"].as_array_mut().unwrap().pop())),
        "rows of \"top\"",
    );
}

/// What is expected is what comes out over many samples: the only thing that the recorded
/// probabilities are for.
#[test]
fn expected_acceptance_is_the_mean_of_what_is_kept() {
    let (mut picks, mut all) = (FirstPicks::default(), ExpectedAcceptance::default());
    let (mut kept, mut drafted) = (0, 0);
    let options = sampled(1.0, 3, 0);
    let Decoding::Sampled(sampling) = options.decoding else {
        unreachable!();
    };
    for seed in 0..60 {
        let options = options.clone().with_seed(seed);
        let trace = sampled_trace(Architecture::DecoderOnly, &options, Some(VOCABULARY));
        let recorded = || TraceScorer::new(trace.clone()).unwrap();
        let mut table = Cascade::builder()
            .target("target", recorded())
            .statistical("max-gram", MaxGram::new())
            .k_matrix(matrix(vec![vec![2]]))
            .eos([EOS])
            .build()
            .unwrap();
        let drafter = || ToyScorer::drafter("drafter", VOCABULARY, 7, 1, 200);
        let mut neural = Cascade::builder()
            .target("target", recorded())
            .neural("drafter", drafter())
            .k_matrix(matrix(vec![vec![1]]))
            .eos([EOS])
            .build()
            .unwrap();
        for record in &trace.records {
            picks
                .add(&mut table, record, (&options, VOCABULARY))
                .unwrap();
            all.add(&mut drafter(), record, (&sampling, VOCABULARY))
                .unwrap();
            let generation = replay(&mut neural, record, &options).unwrap();
            drafted += generation.num_draft_tokens();
            kept += generation.num_accepted_draft_tokens();
        }
    }
    let near = |found: f64, expected: Bounds, count: usize| {
        assert!(expected.is_known(6), "{expected:?}");
        // Four standard deviations.
        let spread = 4.0 * 0.5 / (count as f64).sqrt();
        assert!(
            (found - expected.low).abs() < spread,
            "{found} for {expected}, of {count}"
        );
    };
    assert!(picks.drafts > 1000 && drafted > 1000);
    near(
        picks.kept as f64 / picks.drafts as f64,
        picks.expected().unwrap(),
        picks.drafts,
    );
    near(
        kept as f64 / drafted as f64,
        all.coupled().unwrap(),
        drafted,
    );
    assert!(all.drawn().unwrap().low >= all.coupled().unwrap().high);
    let (low, high) = all.interval().unwrap();
    assert!(low < all.coupled().unwrap().low && all.coupled().unwrap().low < high);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// So has one of samples by the rule `coupled`, whose drafters draw with the same noise.
    #[test]
    fn replays_of_samples_equal_runs(
        decoder_only in any::<bool>(),
        entries in prop::collection::vec(0usize..5, 9),
        lenience in 1f32..4.0,
        temperature in 0.3f32..1.5,
        truncation in 0usize..4,
        seed in any::<u64>(),
        top in prop::option::of(1usize..20),
    ) {
        let architecture = ARCHITECTURES[usize::from(!decoder_only)];
        let rows = (0..3).map(|r| (0..3).map(|c| if c < r { 0 } else { entries[3 * r + c] }).collect());
        let k = matrix(rows.collect());
        let options = sampled(temperature, truncation, seed);
        let trace = sampled_trace(architecture, &options, top);
        let mut real = around(toy(architecture), &k, lenience);
        let mut replayed = around(TraceScorer::new(trace.clone()).unwrap(), &k, lenience);
        for record in &trace.records {
            let own = options.clone().with_seed(record.seed.unwrap());
            let run = real.generate_tokens(&record.prompt(), &own).unwrap();
            let found = replay(&mut replayed, record, &options).unwrap();
            prop_assert_eq!(&run.tokens, &record.output);
            prop_assert_eq!((&found.tokens, &found.steps), (&run.tokens, &run.steps));
            prop_assert_eq!(&found.proposers, &run.proposers);
        }
    }

    /// A replay has the tokens, the steps and the calls of the real run, for any drafters.
    #[test]
    fn replays_equal_runs(
        decoder_only in any::<bool>(),
        entries in prop::collection::vec(0usize..5, 9),
        lenience in 1f32..4.0,
        recorded in 1usize..40,
    ) {
        let architecture = ARCHITECTURES[usize::from(!decoder_only)];
        let rows = (0..3).map(|r| (0..3).map(|c| if c < r { 0 } else { entries[3 * r + c] }).collect());
        let k = matrix(rows.collect());
        let trace = record(architecture, recorded);
        let mut real = around(toy(architecture), &k, lenience);
        let mut replayed = around(TraceScorer::new(trace.clone()).unwrap(), &k, lenience);
        for record in &trace.records {
            let run = real.generate_tokens(&record.prompt(), &options(recorded)).unwrap();
            let found = replay(&mut replayed, record, &options(recorded)).unwrap();
            prop_assert_eq!(&run.tokens, &record.output);
            prop_assert_eq!((&found.tokens, &found.steps), (&run.tokens, &run.steps));
            prop_assert_eq!(&found.proposers, &run.proposers);
            let calls = |g: &cascade_engine::GenerationOutput| -> Vec<_> {
                g.models.iter().map(|m| (m.name.clone(), m.usage.calls, m.usage.rows)).collect()
            };
            prop_assert_eq!(calls(&found), calls(&run));
        }
    }

    /// Along a record the argmax tokens are the target's own, for every tree and in any order;
    /// elsewhere they are [`NO_TOKEN`].
    #[test]
    fn the_recorded_target_is_pure(
        decoder_only in any::<bool>(),
        calls in prop::collection::vec((0usize..4, 0usize..20, prop::collection::vec((any::<bool>(), 0u32..12, any::<prop::sample::Index>()), 0..6)), 1..12),
    ) {
        let architecture = ARCHITECTURES[usize::from(!decoder_only)];
        let trace = record(architecture, 20);
        let mut warm = TraceScorer::new(trace.clone()).unwrap();
        for (which, done, nodes) in calls {
            let record = &trace.records[which];
            let done = done % record.output.len();
            let context = [&record.context[..], &record.output[..done]].concat();
            let ahead = &record.output[done..];
            let mut tree = TokenTree::new();
            for (follows, token, parent) in nodes {
                let parent = (!tree.is_empty()).then(|| parent.index(tree.len() + 1)).filter(|&p| p < tree.len());
                let depth = parent.map_or(0, |p| tree.depth(p) + 1);
                // At least one token of a record must remain undrafted.
                if depth + 1 >= ahead.len() {
                    continue;
                }
                tree.push(if follows { ahead[depth] } else { token }, parent);
            }
            let mut target = toy(architecture);
            for scorer in [&mut target as &mut dyn Scorer, &mut warm] {
                scorer.set_source(&record.source).unwrap();
            }
            let said = target.score(&context, &tree, Want::ARGMAX).unwrap().argmax;
            let found = warm.score(&context, &tree, Want::ARGMAX).unwrap().argmax;
            for row in 0..=tree.len() {
                let path = tree.path_tokens(row.checked_sub(1));
                let expected = if ahead.starts_with(&path) { said[row] } else { NO_TOKEN };
                prop_assert_eq!(found[row], expected);
            }
        }
    }
}

/// The recorded Vicuna conversations that cascade-ngram's `tests/fixtures/README.md` describes, as
/// a trace.
fn vicuna(folder: &Path) -> Arc<Trace> {
    let text = std::fs::read_to_string(folder.join("vicuna_spec_bench.jsonl")).unwrap();
    let ids = |value: &Value| -> Vec<TokenId> {
        let ids = value.as_array().unwrap().iter();
        ids.map(|id| id.as_u64().unwrap() as TokenId).collect()
    };
    let mut header = Header::measured(
        "lmsys/vicuna-7b-v1.3",
        Architecture::DecoderOnly,
        &Fingerprint::from_stored("LLaMA's"),
        32_000,
        &options(1024),
    );
    header.eos = vec![2];
    let mut records = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let tokens = ids(&line["tokens"]);
        for (turn, range) in line["outputs"].as_array().unwrap().iter().enumerate() {
            let range = ids(range);
            let output = tokens[range[0] as usize..range[1] as usize].to_vec();
            let finish = match output.last() {
                Some(2) => Finish::Eos,
                _ => Finish::Length,
            };
            records.push(Record {
                id: line["id"].to_string(),
                category: Some(line["category"].as_str().unwrap().to_owned()),
                turn: turn + 1,
                source: Vec::new(),
                context: tokens[..range[0] as usize].to_vec(),
                output,
                margins: None,
                seed: None,
                top: None,
                yields: Default::default(),
                finish,
            });
        }
    }
    Arc::new(Trace::new("vicuna", header, records).unwrap())
}

/// The counts of `cargo run --example replay` of cascade-ngram on the same fixture without an
/// engine.
fn forwards(drafter: &mut dyn Drafter, trace: &Trace) -> usize {
    drafter.set_source(&[]);
    let forwards = trace.records.iter().map(|record| {
        let tokens = [&record.context[..], &record.output].concat();
        let (mut at, mut forwards) = (record.context.len(), 0);
        while at < tokens.len() {
            let draft = drafter
                .propose(&tokens[..at], Budget::chain(10))
                .into_tree();
            let kept = draft
                .tokens()
                .zip(&tokens[at..])
                .take_while(|(a, b)| a == *b);
            at += kept.count() + 1;
            forwards += 1;
        }
        forwards
    });
    forwards.sum()
}

type Statistical = fn() -> Box<dyn Drafter + Send>;

const STATISTICAL: [Statistical; 2] = [
    || Box::new(MaxGram::new()),
    || Box::new(PromptLookup::default()),
];

#[test]
fn recorded_vicuna_conversations_take_the_forwards_that_were_counted() {
    let Some(folder) = std::env::var_os("CASCADE_VICUNA") else {
        println!("skipped: CASCADE_VICUNA names no folder with recorded conversations");
        return;
    };
    let trace = vicuna(Path::new(&folder));
    assert_eq!(replays_as_counted_by_hand(&trace), [8457, 8603]);
    assert_eq!(
        trace.records.iter().map(|r| r.output.len()).sum::<usize>(),
        14_552
    );
    let categories: BTreeSet<_> = trace.records.iter().map(|r| &r.category).collect();
    assert_eq!(categories.len(), 13);
}

#[test]
fn recorded_answers_of_the_demo_replay_as_they_are_counted_by_hand() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../traces");
    let trace = Trace::open(path.join("demo-llama-problems.jsonl")).unwrap();
    let [max_gram, lookup] = replays_as_counted_by_hand(&Arc::new(trace));
    assert!(max_gram > 50 && lookup > 50);
}

/// Replays with an engine, and counts without one: forwards by drafter.
fn replays_as_counted_by_hand(trace: &Arc<Trace>) -> [usize; 2] {
    let eos = trace.header.eos.clone();
    STATISTICAL.map(|drafter| {
        let mut cascade = Cascade::builder()
            .target("vicuna", TraceScorer::new(trace.clone()).unwrap())
            .statistical("drafter", drafter())
            .k_matrix(matrix(vec![vec![10]]))
            .eos(eos.iter().copied())
            .build()
            .unwrap();
        let mut tallies = Tallies::default();
        for record in &trace.records {
            let generation = replay(&mut cascade, record, &options(1024)).unwrap();
            assert_eq!(generation.tokens, record.output);
            tallies.add(record.category.as_deref(), &generation);
        }
        assert_eq!(forwards(&mut *drafter(), trace), tallies.total.steps);
        let sum: usize = tallies
            .categories
            .iter()
            .map(|(_, tally)| tally.tokens)
            .sum();
        assert_eq!(sum, tallies.total.tokens);
        tallies.total.steps
    })
}

#[test]
fn replays_are_greedy_and_leave_no_difference_unsaid() {
    let trace = record(Architecture::DecoderOnly, 10);
    let mut cascade = around(
        TraceScorer::new(trace.clone()).unwrap(),
        &matrix(vec![vec![1; 3], vec![0, 1, 1], vec![0, 0, 1]]),
        1.0,
    );
    let sampled =
        options(10).with_decoding(cascade_core::Decoding::new(1.0, None, None, None).unwrap());
    let error = replay(&mut cascade, &trace.records[0], &sampled).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Sampling);
    assert!(
        error.to_string().contains("the recording is greedy"),
        "{error}"
    );
    let mut other = trace.records[0].clone();
    other.output[3] = (other.output[3] + 1) % VOCABULARY as TokenId;
    let error = replay(&mut cascade, &other, &options(10)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Diverged);
    assert!(error.to_string().contains("at token 3 "), "{error}");
    // Replaying fewer tokens than were recorded works too.
    let short = replay(&mut cascade, &trace.records[0], &options(4)).unwrap();
    assert_eq!(short.tokens, trace.records[0].output[..4]);
}

#[test]
fn what_has_no_end_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let message = |path: &std::path::Path| Reader::open(path).err().unwrap().to_string();
    assert!(message(folder.path()).contains("a folder"));
    #[cfg(unix)]
    assert!(message("/dev/zero".as_ref()).contains("a device"));
    // A header of more than a mebibyte is none.
    let path = folder.path().join("long.jsonl");
    std::fs::write(
        &path,
        vec![b' '; cascade_traces::trace::LONGEST_HEADER as usize + 1],
    )
    .unwrap();
    let long = message(&path);
    assert!(
        long.contains("long.jsonl:1") && long.contains("1 MiB"),
        "{long}"
    );
}

/// A line without an end, as if a disk had grown under it.
#[test]
fn records_have_a_limit() {
    let trace = record(Architecture::DecoderOnly, 8);
    let header = lines(&trace)[0].clone() + "\n";
    let endless = std::io::Read::chain(Cursor::new(header), std::io::repeat(b'a'));
    let endless = std::io::BufReader::with_capacity(1 << 20, endless);
    let mut reader = Reader::new("endless", endless).unwrap();
    let error = reader.next().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("endless:2") && error.contains("64 MiB"),
        "{error}"
    );
    assert!(reader.next().is_none());
}

#[test]
fn small_files_that_decompress_to_much_are_refused() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let trace = record(Architecture::DecoderOnly, 8);
    let compressed = |bytes: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    };
    let path = folder.path().join("bomb.jsonl.gz");
    let (header, record) = (lines(&trace)[0].clone() + "\n", lines(&trace)[1].clone());
    let blanks = " ".repeat(1 << 22);
    let padded = compressed(format!("{record}{blanks}\n").as_bytes());
    std::fs::write(
        &path,
        [compressed(header.as_bytes()), padded.repeat(100)].concat(),
    )
    .unwrap();
    let error = Reader::open(&path)
        .unwrap()
        .find_map(Result::err)
        .unwrap()
        .to_string();
    assert!(
        error.contains("bomb.jsonl.gz") && error.contains("200 times"),
        "{error}"
    );
}
