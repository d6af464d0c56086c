//! Tables, plots and reports. Goldens are written anew with `UPDATE_GOLDENS=1`.

use std::path::PathBuf;

use cascade_core::LevelId;
use cascade_reproduce::ErrorKind;
use cascade_reproduce::report::{
    Axis, Bars, Evidence, Figure, Figures, Line, Machine, Manifest, Plot, Report, Sample, Sha256,
    Table, Weights,
};
use proptest::prelude::*;
use quick_xml::Reader;
use quick_xml::events::Event;

fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/goldens")
        .join(name);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap(), "{name}");
}

fn table() -> Table {
    let ours = [
        Some(Figure::with_interval(3.9123, 3.8, 4.02)),
        None,
        Some(Figure::new(-0.001)),
    ];
    Table::new("SWI | <GSM8K>")
        .labels("Algorithm", ["flan_t5 & co", "a|b", "\"q\", </td>"])
        .unwrap()
        .figures(Figures::new(
            "SWI",
            Evidence::Paper,
            [3.88, 2.0, 1.0].map(Figure::new),
        ))
        .unwrap()
        .figures(Figures::new("SWI", Evidence::Replayed, ours).intervals("95 %, bootstrap"))
        .unwrap()
        .note("A note with *stars*.")
}

fn manifest() -> Manifest {
    let machine = Machine {
        os: "Linux".into(),
        cpu: "A processor".into(),
        cores: 2,
        memory: 8 << 30,
        accelerators: vec!["An accelerator".into()],
    };
    let command = ["cascade", "reproduce", "it's <b>"];
    let mut manifest = Manifest::new(
        command.map(str::to_owned).to_vec(),
        machine,
        "2026-01-15T09:00:00Z".parse().unwrap(),
    );
    manifest.seeds = [("sampling".to_owned(), u64::MAX)].into();
    manifest.models = vec![Weights {
        name: "xxl".into(),
        source: "https://example.org/</script>".into(),
        files: [("model.safetensors".to_owned(), Sha256::of(b"abc"))].into(),
    }];
    manifest
}

fn lines() -> Plot {
    let points = [(1.0, 2.0), (2.0, 20.0), (4.0, 200.0)]
        .map(|(x, y)| (x, Figure::with_interval(y, 0.9 * y, 1.1 * y)));
    let all = Evidence::ALL.map(|kind| Line::new(format!("<&\"\u{0}{kind}"), kind, points));
    let (x, y) = (Axis::new("k < & \u{1}"), Axis::new("y"));
    Plot::lines("A </title> & b", x, y, all.into())
        .unwrap()
        .log()
        .unwrap()
        .reference("paper & co", Evidence::Paper, 30.0)
        .unwrap()
}

fn bars() -> Plot {
    let all = Evidence::ALL.map(|kind| {
        let figures = [Some(Figure::with_interval(2.0, 1.5, 2.5)), None];
        Bars::new("b", kind, figures)
    });
    Plot::bars("Bars", ["one", "two & <three>"], Axis::new("y"), all.into()).unwrap()
}

fn sample(text: &str) -> Sample {
    let token = |text: &str, level| (text.to_owned(), level);
    let steps = vec![
        vec![
            token(text, LevelId::drafter(0)),
            token("  \n\t", LevelId::TARGET),
        ],
        vec![token("end", LevelId::drafter(7))],
    ];
    let levels = (0..9).map(|i| format!("level {i}")).collect();
    Sample::new("S", Evidence::Measured, text, levels, steps).unwrap()
}

fn report(text: &str) -> Report {
    Report::new(text, text, manifest())
        .heading(text)
        .text(text)
        .table(table())
        .plot(lines(), text)
        .plot(bars(), text)
        .sample(sample(text))
}

#[test]
fn goldens() {
    golden("table.md", &table().to_markdown());
    golden("table.csv", &table().to_csv());
    golden("table.html", &(table().to_html() + "\n"));
    let report =
        Report::new("Title", "Summary.", manifest()).sample(sample("a <b> &\u{202e}\u{0}"));
    golden("report.html", &report.to_html().unwrap());
    golden("manifest.json", &manifest().to_json().unwrap());
}

/// A table with the paper's figures before ours.
fn beside() -> Table {
    let ours = [
        Some(Figure::with_interval(3.97, 3.9, 4.1)),
        None,
        Some(Figure::new(1.0)),
    ];
    let figures =
        |header: &str, kind, all: [f64; 3]| Figures::new(header, kind, all.map(Figure::new));
    Table::new("Speed of all")
        .labels("Drafts", ["two_workers", "a|b", "plain"])
        .unwrap()
        .figures(figures("SWI, by size", Evidence::Paper, [3.38, 2.0, 1.0]))
        .unwrap()
        .figures(Figures::new("SWI, by size", Evidence::Measured, ours).intervals("95 %"))
        .unwrap()
        .figures(figures(
            "tokens per forward",
            Evidence::Measured,
            [2.0, 1.5, 1.0],
        ))
        .unwrap()
        .note("A note.")
}

#[test]
fn figures_are_marked_with_how_they_differ_from_the_papers() {
    golden("table.txt", &beside().to_text(100));
    for (text, mark) in [
        (beside().to_markdown(), "3.97 [3.90, 4.10] +17%"),
        (beside().to_latex(), "3.97 [3.90, 4.10] +17\\%"),
        (beside().to_html(), "3.97 <span class=\"mark\">+17%</span>"),
    ] {
        assert!(text.contains(mark), "{text}");
        assert!(text.contains("by how much ours differs"), "{text}");
    }
}

#[test]
fn a_wide_table_comes_in_pieces_that_name_their_rows() {
    let text = beside().rows_to_text(46);
    assert_eq!(text.matches("two_workers").count(), 2, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 46),
        "{text}"
    );
    let figures =
        |header: &str| Figures::new(header, Evidence::Measured, [1.0, 2.0].map(Figure::new));
    let alike = Table::new("t").labels("name", ["same", "same"]).unwrap();
    let alike = alike
        .figures(figures("first"))
        .unwrap()
        .figures(figures("second"))
        .unwrap();
    let text = alike.rows_to_text(16);
    assert!(text.matches("\n2 ").count() > 1, "{text}");
    let wide = (0..9).try_fold(alike, |table, i| {
        table.figures(figures(&format!("column {i} of many")))
    });
    let wide = wide.unwrap();
    assert!(wide.to_latex().matches("\\begin{tabular}").count() > 1);
    assert_eq!(wide.to_html().matches("<table>").count(), 1);
}

#[test]
fn columns_that_break_the_rules_are_refused() {
    let refused = |column: Figures, problem: &str| {
        let error = table().figures(column).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(problem), "{error}");
    };
    let column = |f: &[Figure]| Figures::new("X", Evidence::Paper, f.to_vec());
    let (one, nan) = (Figure::new(1.0), Figure::new(f64::NAN));
    refused(column(&[one]), "has 1 cells and those before it have 3");
    refused(column(&[one, one, nan]), "entry 2: NaN is not a finite");
    let with = Figure::with_interval(1.0, 0.5, 2.0);
    refused(column(&[one, one, with]), "does not say of which kind");
    let backwards = Figure::with_interval(1.0, 2.0, 0.5);
    refused(column(&[one, one, backwards]), "entry 2: the interval");
    let same = Figures::new("swi", Evidence::Paper, [one; 3]);
    refused(same, "two columns that CSV would name `swi_paper`");
}

#[test]
fn plots_that_cannot_be_drawn_are_refused() {
    let axes = || (Axis::new("x"), Axis::new("y"));
    let lines = |points: &[(f64, f64)]| {
        let points: Vec<_> = points.iter().map(|&(x, y)| (x, Figure::new(y))).collect();
        let (line, (x, y)) = (Line::new("l", Evidence::Paper, points), axes());
        Plot::lines("t", x, y, vec![line])
    };
    let bars = Bars::new("b", Evidence::Paper, [Figure::new(1.0); 2]);
    for (plot, problem) in [
        (lines(&[]), "has no point"),
        (
            lines(&[(0.0, 1.0)]).and_then(Plot::log),
            "cannot stand on the log axis",
        ),
        (lines(&[(f64::NAN, 0.0)]), "NaN is not a finite number"),
        (
            Plot::bars("t", ["a"], axes().1, vec![bars]),
            "are 2 and there are 1 groups",
        ),
    ] {
        let error = plot.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(problem), "{error}");
    }
}

/// Elements and texts of a well-formed document.
fn parse(xml: &str) -> (usize, String) {
    let mut reader = Reader::from_str(xml);
    reader.config_mut().check_end_names = true;
    let (mut depth, mut elements, mut text) = (0, 0, String::new());
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => {
                for attribute in start.attributes() {
                    attribute.unwrap();
                }
                depth += 1;
                elements += 1;
            }
            Event::End(_) => depth -= 1,
            Event::Text(part) => text += &part,
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0);
    (elements, text)
}

#[test]
fn svg_is_well_formed_text() {
    for plot in [lines(), bars()] {
        let svg = plot.to_svg().unwrap();
        let (elements, text) = parse(&svg);
        assert!(elements > 10);
        assert!(text.contains("measured") && text.contains("paper"));
        assert!(svg.chars().all(|c| c == '\n' || !c.is_control()));
        assert_eq!(svg, plot.to_svg().unwrap());
    }
}

#[test]
fn hostile_text_stays_text() {
    let html = report("</script><img src=x onerror=1></style>\u{0}\u{202e}\"'&amp;")
        .to_html()
        .unwrap();
    assert!(!html.contains("<script") && !html.contains("</script>") && !html.contains("<img"));
    assert_eq!(html.matches("</style>").count(), 1);
    assert!(html.contains("␀⟨U+202E⟩&quot;'&amp;amp;"));
    assert!(
        html.chars()
            .all(|c| c == '\n' || c == '\t' || !c.is_control())
    );
}

#[test]
fn nothing_is_loaded() {
    let html = report("https://example.org").to_html().unwrap();
    assert!(
        html.contains("Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-")
    );
    for loads in [
        " src=", " srcset=", "<link", "@import", "<script", " style=", " onload=",
    ] {
        assert!(!html.contains(loads), "{loads}");
    }
    for attribute in ["href=\"", "url("] {
        for (at, _) in html.match_indices(attribute) {
            let target = &html[at + attribute.len()..];
            assert!(target.starts_with('#'), "{}", &target[..20]);
        }
    }
}

#[test]
fn white_space_and_steps_are_kept() {
    let html = report("x").to_html().unwrap();
    let marked = "<span class=\"blank\"> </span><span class=\"blank\"> </span><span class=\"line\">\n</span><span class=\"tab\">\t</span>";
    assert!(html.contains(&format!(
        "title=\"level 0, step 1\">{marked}</span></span><span class=\"step\">"
    )));
    assert!(
        report("")
            .to_html()
            .unwrap()
            .contains("<span class=\"nothing\"></span>")
    );
    let unnamed = vec![vec![("a".to_owned(), LevelId(1))]];
    let target = vec!["target".to_owned()];
    let error = Sample::new("S", Evidence::Measured, "", target, unnamed).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let problem = "proposed by level 1, and only 1 levels have names";
    assert!(error.to_string().contains(problem), "{error}");
}

#[test]
fn manifests_come_back() {
    let json = manifest().to_json().unwrap();
    assert_eq!(serde_json::from_str::<Manifest>(&json).unwrap(), manifest());
    assert_eq!(
        manifest().command_line(),
        r"cascade reproduce 'it'\''s <b>'"
    );
    for text in ["12".to_owned(), "é".repeat(32)] {
        assert!(Sha256::try_from(text).is_err());
    }
    let machine = Machine::this();
    assert!(machine.cores > 0 && machine.memory > 0 && !machine.os.is_empty());
}

#[test]
fn a_report_is_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    report("x").write(folder.path()).unwrap();
    let mut names: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let (plots, tables) = (["plot-1", "plot-2"], ["table-1"]);
    for (stems, extensions) in [
        (&plots[..], &["svg"][..]),
        (&tables[..], &["csv", "tex"][..]),
    ] {
        for stem in stems {
            for extension in extensions {
                let is = |name: &String| name.starts_with(stem) && name.ends_with(extension);
                assert_eq!(names.iter().filter(|name| is(name)).count(), 1, "{names:?}");
            }
        }
    }
    for name in ["manifest.json", "report.html", "table.md"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    assert_eq!(names.len(), 7, "{names:?}");
}

proptest! {
    #[test]
    fn csv_comes_back(rows in prop::collection::vec(
        ("[^\u{0}]{0,12}", prop::option::of(prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO)), 1..8)) {
        let table = Table::new("t")
            .labels("text", rows.iter().map(|row| row.0.clone())).unwrap()
            .figures(Figures::new("n", Evidence::Measured, rows.iter().map(|row| row.1.map(Figure::new)))).unwrap();
        let text = table.to_csv();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        prop_assert_eq!(reader.headers().unwrap(), vec!["text", "n_measured"]);
        let back: Vec<(String, Option<f64>)> = reader.records().map(|record| {
            let record = record.unwrap();
            (record[0].to_owned(), record[1].parse().ok())
        }).collect();
        prop_assert_eq!(back, rows);
    }
}
