//! Templates that were written to end the process that renders them, to keep it busy, or to take
//! its memory: each ends in a text or in an error.

use crate::{ChatTemplate, Error, Message, Role};

/// What a template comes to.
fn outcome(source: &str) -> Result<String, Error> {
    let messages = [
        Message::new(Role::System, "Be brief."),
        Message::new(Role::User, "Hello, world! ".repeat(20)),
    ];
    ChatTemplate::new("evil", source)?.render(&messages)
}

/// Loops that make `ns.a`, and code that is given it.
const LOOPS: &[&str] = &[
    // A chain of lists, mappings, tuples or views, each in the next.
    "{% for i in range(90000) %}{% set ns.a = [ns.a] %}{% endfor %}",
    "{% for i in range(90000) %}{% set ns.a = {'k': ns.a} %}{% endfor %}",
    "{% for i in range(90000) %}{% set ns.a = (ns.a,) %}{% endfor %}",
    "{% for i in range(90000) %}{% set ns.a = dict(k=ns.a) %}{% endfor %}",
    "{% for i in range(90000) %}{% set ns.a = [ns.a]|batch(1) %}{% endfor %}",
    "{% for i in range(90000) %}{% set ns.a = (ns.a,)|slice(1) %}{% endfor %}",
    "{% for i in range(90000) %}{% set ns.a = namespace(b=ns.a) %}{% endfor %}",
    // Lists that share their items sixty times over.
    "{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}",
    "{% for i in range(60) %}{% set ns.a = {'a': ns.a, 'b': ns.a} %}{% endfor %}",
    "{% for i in range(60) %}{% set ns.a = ns.a + ns.a %}{% endfor %}",
    "{% for i in range(60) %}{% set ns.a = [ns.a, ns.a]|sum(start=[]) %}{% endfor %}",
    // Texts that double.
    "{% set ns.a = 'ab' %}{% for i in range(60) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
    "{% set ns.a = 'ab' %}{% for i in range(60) %}{% set ns.a = ns.a + ns.a %}{% endfor %}",
    "{% set ns.a = 'ab' %}{% for i in range(60) %}{% set ns.a = ns.a * 2 %}{% endfor %}",
    "{% set ns.a = 'ab' %}{% for i in range(60) %}{% set ns.a = ns.a|replace('a', ns.a) %}{% endfor %}",
    "{% set ns.a = 'ab' %}{% for i in range(60) %}{% set ns.a = ns.a.replace('', ns.a) %}{% endfor %}",
    "{% set ns.a = 'ab' %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a]|join(ns.a) %}{% endfor %}",
    "{% set ns.a = 'ab' %}{% for i in range(60) %}{% set ns.a = ns.a.join([ns.a, 1]) %}{% endfor %}",
    "{% set ns.a = 'ab' %}{% for i in range(60) %}{% set ns.a = '%s%s'|format(ns.a, ns.a) %}{% endfor %}",
    "{% set ns.a = 'ab' %}{% for i in range(60) %}{% set ns.a = '{0}{0}'.format(ns.a) %}{% endfor %}",
    "{% for i in range(60) %}{% set ns.a %}{{ ns.a }}{{ ns.a }}{% endset %}{% endfor %}",
    "{% set ns.a = '\"' %}{% for i in range(60) %}{% set ns.a = ns.a|tojson %}{% endfor %}",
    "{% set ns.a = 'ab' %}{% for i in range(60) %}{% set ns.a = '%s%s' % (ns.a, ns.a) %}{% endfor %}",
    "{% set ns.a = 'ab' %}{% for i in range(60) %}{% set ns.a = ns.a.center(2 ** i) %}{% endfor %}",
    // Lists that grow by themselves.
    "{% set xs = [1] %}{% for i in range(60) %}{% set _ = xs.append(xs) %}{% endfor %}{% set ns.a = xs %}",
    "{% set xs = [1] %}{% for i in range(60) %}{% set _ = xs.extend(xs) %}{% endfor %}{% set ns.a = xs %}",
    "{% set xs = [1] %}{% for i in range(300) %}{% set ys = [xs] %}{% set _ = xs.append(ys) %}{% set xs = ys %}{% endfor %}{% set ns.a = xs %}",
    "{% set ns.a = '&' %}{% for i in range(60) %}{% set ns.a = ns.a|string|e|string ~ '&' %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
];

const USES: &[&str] = &[
    "{{ ns.a }}",
    "{{ ns.a|tojson }}",
    "{{ ns.a == [[ns.a]] }}{{ ns.a == ns.b }}",
    "{{ ns.a|string|length }}",
    "{{ ns.a in [1, ns.a] }}{% if ns.a < [2] %}{% endif %}",
];

fn generated() -> Vec<String> {
    let start = "{% set ns = namespace(a=[1], b=[1]) %}";
    let looped = LOOPS.iter().map(|make| format!("{start}{make}{}", USES[0]));
    let used = ["range(15)", "range(190)", "range(99999)"]
        .into_iter()
        .flat_map(|times| {
            let shared = LOOPS[7].replace("range(60)", "range(15)");
            let deep = LOOPS[0].replace("range(90000)", times);
            USES.iter()
                .map(move |used| format!("{start}{deep}{shared}{used}"))
        });
    let looped = looped.chain(used);
    looped.chain(nested_code()).chain(built()).collect()
}

/// Code that is nested deep.
fn nested_code() -> Vec<String> {
    let many = 150_000;
    let twice = |before: &str, middle: &str, after: &str| {
        format!("{}{middle}{}", before.repeat(many), after.repeat(many))
    };
    let mut all: Vec<String> = [
        twice("{{ ", "1", ""),
        format!("{{{{ {}1 }}}}", "-".repeat(many)),
        format!("{{{{ {}1 }}}}", "- ".repeat(many)),
        format!("{{{{ {}1 }}}}", "not ".repeat(many)),
        format!("{{{{ a{} }}}}", ".b".repeat(many)),
        format!("{{{{ a{} }}}}", "[0]".repeat(many)),
        format!("{{{{ a{} }}}}", "()".repeat(many)),
        format!("{{{{ a{} }}}}", "[1:]".repeat(many)),
        format!("{{{{ a{} }}}}", "|upper".repeat(many)),
        format!("{{{{ a{} }}}}", " is defined".repeat(many / 2)),
        format!("{{{{ 1{} }}}}", "+1".repeat(many)),
        format!("{{{{ 1{} }}}}", "**1".repeat(many)),
        format!("{{{{ 1{} }}}}", "~1".repeat(many)),
        format!("{{{{ 1{} }}}}", "<1".repeat(many)),
        format!("{{{{ 1{} }}}}", " in a".repeat(many)),
        format!("{{{{ 1{} }}}}", " or 1".repeat(many)),
        format!("{{{{ 1{} }}}}", " and 1".repeat(many)),
        format!("{{{{ 1{} }}}}", " if 1".repeat(many)),
        format!("{{{{ 1{} }}}}", " if 0 else 1".repeat(many / 2)),
        format!("{{{{ {} }}}}", "'a' ".repeat(many)),
        format!("{{{{ {}1{} }}}}", "[".repeat(many), "]".repeat(many)),
        format!("{{{{ {}1{} }}}}", "(".repeat(many), ")".repeat(many)),
        format!("{{{{ {}1{} }}}}", "{1:".repeat(many), "}".repeat(many)),
        format!("{{{{ {}1{} }}}}", "f(".repeat(many), ")".repeat(many)),
        format!("{{{{ {}1{} }}}}", "a[".repeat(many), "]".repeat(many)),
        format!("{{% set {}a{} = 1 %}}", "(".repeat(many), ")".repeat(many)),
        format!("{{% set a{} = 1 %}}", ".b".repeat(many)),
        format!("{{% for {}a in b %}}{{% endfor %}}", "(".repeat(many)),
        format!(
            "{{% if a %}}{}{{% endif %}}",
            "{% elif a %}".repeat(many / 2)
        ),
        format!(
            "{{% filter upper{} %}}{{% endfilter %}}",
            "|upper".repeat(many)
        ),
        format!("{{{{ f({}) }}}}", "1,".repeat(many)),
        format!("{{{{ [{}] }}}}", "1,".repeat(many)),
        format!("{{{{ [{}] }}}}", "a,".repeat(many)),
    ]
    .into();
    for (open, close) in [
        ("{% if a %}", "{% endif %}"),
        ("{% for a in b %}", "{% endfor %}"),
        ("{% with %}", "{% endwith %}"),
        ("{% macro m() %}", "{% endmacro %}"),
        ("{% set a %}", "{% endset %}"),
        ("{% filter upper %}", "{% endfilter %}"),
        ("{% call m() %}", "{% endcall %}"),
        ("{% autoescape true %}", "{% endautoescape %}"),
        ("{% generation %}", "{% endgeneration %}"),
    ] {
        all.push(format!("{}x{}", open.repeat(20_000), close.repeat(20_000)));
        all.push(format!("{}x{}", open.repeat(140), close.repeat(140)));
    }
    all
}

/// Single operations that would take much.
fn built() -> Vec<String> {
    [
        "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.a = {'k': ns} %}{{ ns.a|tojson }}",
        "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{{ a == b }}",
        "{% set ns = namespace() %}{% set ns.a = [1]|batch(2, ns) %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.a = [x]|map('default', ns)|list %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.a %}x{% endset %}{{ ns.a }}",
        "{% for a in [1, 2] %}{{ loop.changed(loop) }}{% endfor %}",
        "{% for a in [1, 2] %}{{ loop.changed([loop]) }}{{ loop }}{% endfor %}",
        "{% for a in [1, 2] %}{{ loop.cycle() }}{% endfor %}",
        "{% for a in [1, 2] %}{{ loop.cycle(*[]) }}{% endfor %}",
        "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% for a in [[]] recursive %}{{ loop([a, a]) }}{% endfor %}",
        "{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}",
        "{% macro f() %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}{{ g() }}",
        "{% block a %}{{ self.a() }}{% endblock %}",
        "{% block a %}{{ super() }}{% endblock %}",
        "{% for i in range(90000) %}{% macro m() %}{{ i }}{{ messages }}{% endmacro %}{% endfor %}",
        "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}",
        "{% set a = range(99999)|list %}{% for i in a %}{% for j in a %}{% if a == a[1:] %}{% endif %}{% endfor %}{% endfor %}",
        "{% set s = 'x' * 9000000 %}{% for i in range(99999) %}{% for j in s %}{% break %}{% endfor %}{% endfor %}",
        "{% set s = 'x' * 9000000 %}{% for i in range(99999) %}{{ s[i] }}{% endfor %}",
        "{% set s = 'x' * 9000000 %}{% for i in range(99999) %}{{ s[-1] }}{{ s|length }}{% endfor %}",
        "{% set s = 'x' * 9000000 %}{% for i in range(99999) %}{% if 'yx' in s %}{% endif %}{% endfor %}",
        "{% set s = 'x' * 9000000 %}{% for i in range(99999) %}{% if s.find('y') > 0 %}{% endif %}{% endfor %}",
        "{% set s = 'x' * 9000000 %}{% for i in range(99999) %}{% if s is upper %}{% endif %}{% endfor %}",
        "{% set s = 'x' * 9000000 %}{{ s|list|length }}{{ s|sort|length }}",
        "{% set s = 'x ' * 4000000 %}{{ s.split()|length }}{{ s|split(' ')|list|length }}",
        "{% set s = '\n' * 9000000 %}{{ s|indent(1000)|length }}",
        "{% set s = '\n' * 9000000 %}{{ s.splitlines()|length }}{{ s|lines|list|length }}",
        "{% set s = '&' * 9000000 %}{% autoescape true %}{{ s }}{% endautoescape %}",
        "{% set s = '&' * 9000000 %}{{ s|e }}",
        "{% set s = '{}' * 4000000 %}{{ s.format('a') }}",
        "{% set s = '%9999d' * 100000 %}{{ s|format(1) }}",
        "{% set s = '{:9999}' * 1000 %}{{ (s * 100).format(*range(900)) }}",
        "{{ '{:{}}'.format('a', 999999999) }}",
        "{{ '%*d'|format(999999999, 1) }}",
        "{{ '%1000000000d'|format(1) }}",
        "{{ '%.1000000000f'|format(1.0) }}",
        "{{ 'a'|center(1000000000) }}",
        "{{ 'a'.center(1000000000) }}{{ 'a'.ljust(1000000000) }}{{ 'a'.zfill(1000000000) }}",
        "{{ [1]|batch(10**9) }}",
        "{{ [1]|batch(10**9, 2) }}",
        "{{ [1]|slice(10**9) }}",
        "{{ [1] * 10**9 }}",
        "{{ ([1] * 10**8)|list|length }}",
        "{{ (1,) * 10**8 }}",
        "{{ 'x' * 10**8 }}",
        "{{ 'x' * 10**8 ~ 'x' * 10**8 ~ 'x' * 10**8 }}",
        "{{ range(10**9) }}",
        "{{ range(0, 10**18, -1) }}{{ range(-9223372036854775807, 9223372036854775807) }}",
        "{{ range(99999)|join('x' * 9999) }}",
        "{{ 10**10**10 }}",
        "{{ (2**126) * (2**126) }}",
        "{{ -9223372036854775808 // -1 }}{{ 1 % 0 }}",
        "{{ 1 // 0 }}",
        "{{ ''[::-1] }}{{ []|list }}{{ messages[::-1]|length }}",
        "{{ 'abc'[0:5:-1] }}{{ 'abc'[::-9223372036854775808] }}",
        "{{ 'abc'[9223372036854775807:-9223372036854775808:9223372036854775807] }}",
        "{{ 1.5|round(999999999) }}{{ 1|round(-999999999) }}",
        "{{ 'a'|map('map', 'map', 'map', 'map', 'map', 'map', 'map', 'map', 'map', 'upper') }}",
        "{{ 'a'|map(*(['map'] * 90000)) }}",
        "{{ f(*range(90000)) }}{{ dict(**messages[0]) }}",
        "{{ messages|groupby('role')|groupby('role')|list }}",
        "{{ range(99999)|sum(start=[]) }}",
        "{{ (['x' * 99999] * 9999)|sum(start='') }}",
        "{{ ([['x']] * 99999)|sum(start=[])|length }}",
        "{{ ([['x'] * 999] * 9999)|unique|list }}",
        "{{ ([['x'] * 999] * 9999)|sort|length }}",
        "{{ ([['x'] * 999] * 9999)|max|length }}",
        "{{ (['x' * 9000000] * 100)|join|length }}",
        "{{ (['x' * 9000000] * 100)|string|length }}",
        "{{ (['x' * 9000000] * 100)|tojson|length }}",
        "{{ (['x' * 9000000] * 100)|map('upper')|list|length }}",
        "{{ (['x' * 9000000] * 100) ~ 'x' }}",
        "{{ raise_exception(['x' * 9000000] * 100) }}",
        "{{ raise_exception('x' * 9000000) }}",
        "{{ strftime_now('%Y' * 1000000) }}",
        "{{ strftime_now('%999999999Y') }}",
        "{{ debug() }}",
        "{{ messages|pprint }}",
        "{{ messages|tojson(indent=1000) }}",
        "{{ ([{}] * 99999)|tojson(indent=1000) }}",
        "{{ {}|tojson(separators=['x' * 9999, ':']) }}",
        "{{ ([1] * 99999)|tojson(separators=['x' * 9999, ':']) }}",
        "{{ {[1]: {[2]: 3}} }}{{ {messages: messages}|tojson }}",
        "{% include 'x' %}",
        "{% if false %}{% import 'x' as y %}{% endif %}",
        "{% extends 'x' %}",
        "{% from 'x' import y %}",
        "{{ messages.append(messages) }}",
        "{% do messages.extend(messages) %}",
        "{% for m in messages %}{{ m.update({'m': m}) }}{% endfor %}",
        "{{ lipsum(99999) }}{{ cycler(1) }}{{ joiner() }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{% set s = 'x' * 1000000 %}{% for i in range(99999) %}{{ s }}{% endfor %}",
        "{% set a %}{% for i in range(99999) %}{{ 'x' * 1000000 }}{% endfor %}{% endset %}",
        "{% set ns = namespace(a=[]) %}{% for i in range(99999) %}{% set ns.a = ns.a + ['x' * 1000000] %}{% endfor %}",
        "{% set ns = namespace(a=[]) %}{% for i in range(99999) %}{% set ns.a = ns.a[0:] %}{% set ns.a = ns.a|reverse %}{% endfor %}{{ ns.a|list }}",
        "{% set ns = namespace(a={}) %}{% for i in range(99999) %}{% set ns.a = ns.a|chain({}) %}{% endfor %}{{ ns.a|list }}",
        "{% set ns = namespace(a=[1]) %}{% set nb = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a=[ns.a,ns.a] %}{% set nb.a=[nb.a,nb.a] %}{% endfor %}{{ ns.a==nb.a }}",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([
        format!("{{% for i in range(99999) %}}{}{{% endfor %}}", "x".repeat(1_000_000)),
        format!(
            "{{% set a %}}{{% for i in range(99999) %}}{}{{% endfor %}}{{% endset %}}",
            "x".repeat(1_000_000)
        ),
        format!(
            "{{% set ns = namespace() %}}{}{{{{ ns|length }}}}",
            (0..60_000).map(|i| format!("{{%set ns.a{i}=1%}}")).collect::<String>()
        ),
        format!(
            "{{% set ns = namespace({}) %}}",
            (0..1_900).map(|i| format!("a{i}=1,")).collect::<String>()
        ),
        format!("{{{{ {} }}}}", "'x' * 10000000 ~ ".repeat(60) + "''"),
        "x".repeat(2 << 20),
    ])
    .collect()
}

#[test]
fn templates_cannot_end_or_stall_the_process() {
    let all = generated();
    assert!(all.len() > 180, "{}", all.len());
    let mut refused = 0;
    for source in &all {
        let shown: String = source.chars().take(300).collect();
        match outcome(source) {
            Ok(text) => assert!(text.len() <= crate::MAX_OUTPUT, "{shown}"),
            Err(error) => {
                let said = error.to_string();
                assert!(
                    said.len() < 20_000 && said.contains("evil"),
                    "{shown}: {said}"
                );
                refused += 1;
            }
        }
    }
    assert!(refused > 120, "{refused} of {}", all.len());
    if let Some(peak) = peak_memory() {
        assert!(peak < 1 << 30, "{peak} bytes");
    }
}

/// The most memory that this process has had so far; `None` where the system does not tell.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes << 10)
}
