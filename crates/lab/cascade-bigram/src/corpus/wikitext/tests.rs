use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// Markup and what a reader sees of it.
const CASES: &[(&str, &str)] = &[
    ("", ""),
    ("plain text", "plain text"),
    // Links.
    ("a [[link]]s b", "a links b"),
    ("a [[target|label]] b", "a label b"),
    ("a [[target|label|more]] b", "a label|more b"),
    ("[[Category:Foo]]text[[category:bar|sort]]", "text"),
    ("[[:Category:Foo]]", "Category:Foo"),
    ("[[de:Hund]] dog [[zh-min-nan:Káu]]", "dog"),
    (
        "see [[:de:Hund]] and [[2001: A Space Odyssey]]",
        "see de:Hund and 2001: A Space Odyssey",
    ),
    (
        "[[File:A.jpg|thumb|A [[nice]] ''caption''|alt=x]]text",
        "text",
    ),
    ("[[Datei:A.jpg|mini|[http://x.org y]]]text", "text"),
    ("[[ Image : A.jpg ]]text", "text"),
    ("[[wikt:foo|foo]] [[w:bar]]", "foo w:bar"),
    ("[[a|'''b''' {{c}}d]]", "b d"),
    ("[[a {{b|c}}]]", "a"),
    (
        "[[open link\n\nnext [[other]] line]]",
        "open link\n\nnext other line]]",
    ),
    ("[[[a]]]", "[a]"),
    ("a[1] b]] c", "a[1] b]] c"),
    // Addresses.
    ("x [http://a.org] y", "x y"),
    ("x [http://a.org the ''site''] y", "x the site y"),
    (
        "x [//a.org label [[b]]] y [mailto:a@b.c mail]",
        "x label b y mail",
    ),
    ("http://a.org/b_c stays", "http://a.org/b_c stays"),
    ("[http://a.org no end\nnext] line", "no end\nnext] line"),
    ("{{cite|[http://a.org}} after", "after"),
    ("[http://a.org/{{b}}/c d]", "d"),
    // Emphasis.
    (
        "'''bold''' ''slant'' '''''both''''' it's l''''x'''",
        "bold slant both it's l'x",
    ),
    // Templates.
    ("a {{b|c={{d|{{{e|f}}}}}}} g", "a g"),
    ("{{a\n|b=c\n|}} d", "d"),
    ("{{{{{a}}}}} b", "b"),
    ("{{a|[[b}} c", "c"),
    ("{{open [[a|b]]", "{{open b"),
    ("}} b", "}} b"),
    ("{ a } b", "{ a } b"),
    ("{{a|{|\n|}} b", "b"),
    // Tables.
    ("a\n{| class=x\n! h\n|-\n| b || [[c|d]]\n|}\ne", "a\n\ne"),
    ("{|\n| {|\n| inner\n|}\n|}x", "x"),
    (":{|\n|a\n|}", ""),
    ("{{a|\n{|\n|b\n|}}} c", "c"),
    ("a\n{|\n! h\n| b\ntext", "a\ntext"),
    (
        "a\n|-\n| row of a table begun by a template\n|}\nb",
        "a\n\nb",
    ),
    ("a<table><tr><td>b<table>c</table></table>d", "ad"),
    // Tags.
    ("a<ref>b</ref> c<ref name=x /> d<references />", "a c d"),
    ("a<ref name=\"x\">{{cite|b}}\n\n</ref>.", "a."),
    ("a<REF>b</Ref >c", "ac"),
    ("{{a|<ref>}}</ref>}}b", "b"),
    ("x<math>\\frac{a}{{b}}</math>y", "xy"),
    ("<gallery>\nA.jpg|b\n</gallery>c", "c"),
    ("a<br>b<br />c", "a\nb\nc"),
    ("H<sub>2</sub>O <span style=\"a\">b</span>", "H2O b"),
    ("<div>a</div><p>b</p>", "a\nb"),
    (
        "<nowiki>[[a]] '''b''' &lt;</nowiki> c<nowiki />",
        "[[a]] '''b''' < c",
    ),
    ("<noinclude>a</noinclude><includeonly>b</includeonly>", "a"),
    ("1 < 2 <unknown> <a@b.c> <b", "1 < 2 <unknown> <a@b.c> <b"),
    ("<ref>never closed [[a]]", "never closed a"),
    // Comments.
    ("a<!-- [[ {{ -->b", "ab"),
    ("a\n<!-- alone -->\nb", "a\nb"),
    ("<!-- c -->* item", "item"),
    ("a<!-- never closed", "a"),
    // References to characters.
    (
        "a&nbsp;b &amp;amp; &lt;b&gt; &eacute;&#233;&#xE9;",
        "a b &amp; <b> ééé",
    ),
    ("AT&T &unknown; &#xD800; &;", "AT&T &unknown; &#xD800; &;"),
    ("&#123;&#123;a&#125;&#125;", "{{a}}"),
    // Lines.
    ("== Heading ==\ntext", "Heading\ntext"),
    ("=== ''A'' = [[b]] === <!-- c -->\ntext", "A = b\ntext"),
    ("= not a heading", "= not a heading"),
    ("===", "="),
    ("* a\n** b\n# c\n: d\n; e", "a\nb\nc\nd\ne"),
    ("a\n----\nb", "a\n\nb"),
    ("a\n\n\n\nb  c\t d ", "a\n\nb c d"),
    ("__NOTOC__a__b__ __x", "a__b__ __x"),
    ("__БЕЗ_ОГЛАВЛЕНИЯ__", "__БЕЗ_ОГЛАВЛЕНИЯ__"),
    ("__СЪДЪРЖАНИЕ__a", "a"),
    // What is left behind.
    (
        "Foo ({{lang|x}}) is ({{a}}, born 1950) main() ( )",
        "Foo is (born 1950) main()",
    ),
    ("word <ref>a</ref>, word {{b}}. .NET", "word, word. .NET"),
];

#[test]
fn cases() {
    for (source, text) in CASES {
        assert_eq!(strip(source), *text, "of {source:?}");
    }
}

#[test]
fn names_of_the_wiki_are_known() {
    let mut site = Site::default();
    site.add_namespace(6, "Fails");
    site.add_namespace(14, "Kategoreja");
    assert_eq!(
        strip_with("[[Kategoreja:Latgola]][[Fails:A.jpg|x]]a", &site),
        "a"
    );
}

/// Markup that is opened and not closed, or closed and not opened: the food of quadratic parsers.
const HOSTILE: &[&str] = &[
    "[[",
    "]]",
    "{{",
    "}}",
    "{",
    "}",
    "[",
    "]",
    "{|",
    "{|\n",
    "\n|}",
    "<ref>",
    "</ref>",
    "<ref",
    "<!--",
    "<!-- -->",
    "-->",
    "[[a|",
    "{{a|",
    "{{{a|",
    "'''",
    "'",
    "[http://a ",
    "[http://a",
    "<b>",
    "</b>",
    "<",
    "<b ",
    "&",
    "&a",
    "&#",
    "__",
    "_A",
    "\n*",
    "\n=",
    "=",
    "\n",
    "\n ",
    " ",
    "(",
    "()",
    " ()",
    "( ",
    ",",
    "<nowiki>",
    "<math>",
    "<pre",
    "<table>",
    "</table>",
    "[[a|{{b|",
    "{{a|[[b|",
    "[[\n|}",
    "{{\n{|\n",
    "[[File:a|",
    "|",
    "\n|",
    "<ref>\n{{[[",
    "<math></ref>",
    "a<!--b-->\n",
];

fn time(source: &str) -> Duration {
    let start = Instant::now();
    std::hint::black_box(strip(source));
    start.elapsed()
}

/// A megabyte and more of each, and each followed by the marks that would close it. Quadratic work
/// would take hours.
#[test]
fn hostile_markup_takes_linear_time() {
    let closings = ["", "]]", "}}", "\n|}", "</table>", "\n\n", "|", "]"];
    for unit in HOSTILE {
        let open = unit.repeat(1_000_000 / unit.len());
        for closing in closings {
            let source = open.clone() + &closing.repeat(500_000 / closing.len().max(1));
            let taken = time(&source);
            assert!(
                taken < Duration::from_secs(5),
                "{unit:?} then {closing:?} took {taken:?}"
            );
        }
    }
}

/// Marks in any order, with words between them.
fn soup() -> impl Strategy<Value = String> {
    let marks = HOSTILE.iter().chain(&[
        "word ",
        "ё",
        "\u{1f600}",
        "&nbsp;",
        "&#0;",
        "|}",
        "==",
        ":",
        "[[Category:",
        "}}}",
    ]);
    prop::collection::vec(
        prop::sample::select(marks.copied().collect::<Vec<_>>()),
        0..60,
    )
    .prop_map(|marks| marks.concat())
}

/// Markup in which whatever is opened is closed.
fn balanced() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "word ", "ё", "''a''", "\n", "\n\n", "* ", "&amp;", "<br>", "1 = 2", ", ",
    ]);
    leaf.prop_map(String::from)
        .prop_recursive(5, 40, 4, |inner| {
            let many = prop::collection::vec(inner, 0..4).prop_map(|parts| parts.concat());
            (many, 0..9).prop_map(|(inner, kind)| match kind {
                0 => format!("{{{{t|{inner}}}}}"),
                1 => format!("[[Target]] {inner}"),
                2 => format!("[[File:a.jpg|{inner}]]"),
                3 => format!("\n{{| class=x\n| {inner}\n|}}\n"),
                4 => format!("<div>{inner}</div>"),
                // A reference ends at the first closing tag: there are none within one.
                5 => format!("<ref>{{{{cite|a=[[b]]}}}}</ref>{inner}"),
                6 => format!("<!-- a -->{inner}"),
                7 => format!("\n== {} ==\n{inner}", "h"),
                _ => format!("{inner} [http://a.org b]"),
            })
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn soup_never_panics_and_never_grows(source in soup()) {
        prop_assert!(strip(&source).len() <= source.len());
    }

    #[test]
    fn any_text_never_panics(source in ".{0,200}") {
        let _ = strip(&source);
    }

    #[test]
    fn balanced_markup_leaves_no_marks(source in balanced()) {
        let text = strip(&source);
        for mark in ["{{", "}}", "[[", "]]", "{|", "|}", "<div", "<ref", "<!--", "''", "\n\n\n", "  "] {
            prop_assert!(!text.contains(mark), "{mark:?} in {text:?} of {source:?}");
        }
    }

    /// Text without marks is text.
    #[test]
    fn plain_words_stay(words in prop::collection::vec("[a-zа-я]{1,8}", 1..20)) {
        let source = words.join(" ");
        prop_assert_eq!(strip(&source), source);
    }
}
