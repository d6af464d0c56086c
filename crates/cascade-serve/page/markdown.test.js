// node --test crates/cascade-serve/page/markdown.test.js
'use strict';

const {test} = require('node:test');
const assert = require('node:assert');
require('./markdown.js');

const TAGS = ['p', 'pre', 'code', 'h3', 'h4', 'h5', 'h6', 'ul', 'ol', 'li', 'blockquote', 'hr', 'table', 'thead', 'tbody',
  'tr', 'th', 'td', 'strong', 'em', 'del', 'a', 'br'];

// As tags and texts, to be compared.
function written(source) {
  const write = part => part.tag
    ? `<${part.tag}${part.href ? ` ${part.href}` : ''}${part.start ?? ''}>${part.children.map(write).join('')}</>`
    : source.slice(part.from, part.to);
  return parseMarkdown(source).map(write).join('');
}

// Leaves come in order, do not overlap, and lie in the text; tags are the known ones; links lead to the web.
function check(source) {
  let at = 0;
  const walk = part => {
    if (part.tag) {
      assert.ok(TAGS.includes(part.tag), part.tag);
      assert.deepStrictEqual(Object.keys(part).filter(key => !['tag', 'children', 'href', 'start'].includes(key)), []);
      if ('start' in part) assert.ok(Number.isInteger(part.start));
      if (part.href) assert.match(part.href, /^https?:/);
      part.children.forEach(walk);
    } else {
      assert.ok(at <= part.from && part.from <= part.to && part.to <= source.length, JSON.stringify(source));
      at = part.to;
    }
  };
  parseMarkdown(source).forEach(walk);
}

test('what models write becomes blocks', () => {
  for (const [source, expected] of [
    ['a **b** `c` *d* ~~e~~ _f_', '<p>a <strong>b</> <code>c</> <em>d</> <del>e</> <em>f</></>'],
    ['one\ntwo\n\nthree', '<p>one<br></>two</><p>three</>'],
    ['# T\ntext', '<h3>T</><p>text</>'],
    ['```rust\nlet a = *b;\n\n<b>\n```\nafter', '<pre><code>let a = *b;\n\n<b></></><p>after</>'],
    ['```\nnot ended', '<pre><code>not ended</></>'],
    ['- a\n- b\n    - c\n- d', '<ul><li>a</><li>b<ul><li>c</></></><li>d</></>'],
    ['1. a\n2. **b**', '<ol><li>a</><li><strong>b</></></>'],
    ['1. a\n\n2. b\n\n   more\n3. c\n\nend', '<ol><li>a</><li>b<br></>more</><li>c</></><p>end</>'],
    ['1. a\n   text\n\n   - b\n2. c', '<ol><li>a<br></>text<ul><li>b</></></><li>c</></>'],
    ['1. a\n\nbetween\n\n2. b', '<ol><li>a</></><p>between</><ol2><li>b</></>'],
    ['- a\n\n1. b', '<ul><li>a</></><ol><li>b</></>'],
    ['> a\n> b', '<blockquote>a<br></>b</>'],
    ['| a | b |\n|---|:-:|\n| 1 | `2` |', '<table><thead><tr><th>a</><th>b</></></><tbody><tr><td>1</><td><code>2</></></></></>'],
    ['a\n\n---\nb', '<p>a</><hr></><p>b</>'],
    ['[site](https://example.org/a)', '<p><a https://example.org/a>site</></>'],
    ['[[site](https://example.org/a_(b))]', '<p>[<a https://example.org/a_(b)>site</>]</>'],
    ['**a ~~b **c** d~~ `` e', '<p><strong>a ~~b **c</> d~~ `` e</>'],
  ]) assert.strictEqual(written(source), expected, source);
});

test('sums and names stay as they are', () => {
  for (const text of ['13 * 4 = 52 and 5 * 2 = 10', 'snake_case_name', 'it costs $4 * 3', 'pays 9. #### 65', '2 ** 3 ** 4', 'a < b > c'])
    assert.strictEqual(written(text), `<p>${text}</>`);
});

test('nothing of an answer becomes a tag, an attribute or a script', () => {
  for (const text of ['<script>alert(1)</script>', '<img src=x onerror=alert(1)>', '&lt;b&gt;', '[x](javascript:alert(1))',
    '[x](JaVaScRiPt:alert`1`)', '[x](data:text/html,<script>)', '[x](file:///etc/passwd)', '![x](https://example.org/"onload=y)',
    '[x](vbscript:x)', '`<b>`', '**<iframe>**', '[a](//example.org)', '<a href="javascript:x">y</a>']) {
    check(text);
    const links = part => (part.href ? [part.href] : []).concat(...(part.children ?? []).map(links));
    const led = parseMarkdown(text).flatMap(links);
    assert.deepStrictEqual(led.filter(href => !href.startsWith('https://example.org/')), [], text);
  }
});

test('any text has an answer, soon', () => {
  let state = 1;
  const draw = most => (state = state * 48271 % 2147483647) % most;
  const parts = ['*', '**', '`', '```', '\n', '\n\n', '- ', '1. ', '> ', '|', '|-|', '# ', '[', '](', ')', '_', '~~', ' ', '    ', 'a', '🙂', '<b>', '\\'];
  for (let trial = 0; trial < 5000; trial++)
    check(Array.from({length: draw(30)}, () => parts[draw(parts.length)]).join(''));
  for (const part of parts) check(part.repeat(3000));
});

// Linear: what is quadratic takes minutes for these.
test('marks that nothing ends take no more time than others', {timeout: 60_000}, () => {
  for (const part of ['[a', '[a](b', '**a ', '~~a ', '`', '*a ', '_a ', '[[a](', '**a ~~b ', '[a](b(c'])
    check(part.repeat(400_000));
});
