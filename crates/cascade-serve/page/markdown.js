// The Markdown that language models write, as a tree over the places of the source, so that each
// character keeps the colour of the model that drafted it. A tree has only the tags named here and
// no attribute but the address of a link and the first number of a list: what a model writes is text,
// whatever it says.
'use strict';

(() => {
  const leaf = (from, to) => ({from, to});
  const node = (tag, children) => ({tag, children});

  // Only to the web: no scripts, no files.
  function address(text) {
    try {
      const url = new URL(text);
      return ['http:', 'https:'].includes(url.protocol) ? url.href : null;
    } catch {
      return null;
    }
  }

  // Where texts in these marks may end.
  const STRONG_END = /\S\*\*/g;
  const DEL_END = /\S~~/g;
  // What was found of them: looked for once, however many texts begin before it.
  const ends = new Map();

  function endOf(pattern, source, from) {
    let known = ends.get(pattern);
    if (!known || from < known.from || from > known.at) {
      pattern.lastIndex = from;
      const found = pattern.exec(source);
      known = found ? {from, at: found.index, end: pattern.lastIndex} : {from, at: Infinity, end: Infinity};
      ends.set(pattern, known);
    }
    return known.end;
  }

  // Patterns at a place of a line, and where their ends may be: of the others none looks beyond the
  // next mark of its kind. Contents are found again in the source by their length.
  const INLINE = [
    [/(`+)([^`](?:[^\n]*?[^`])?)\1(?!`)/y, (match, at) =>
      node('code', [leaf(at + match[1].length, at + match[1].length + match[2].length)])],
    [/\*\*(?=\S)([^\n]*?\S)\*\*/y, (match, at, source) => node('strong', inline(source, at + 2, at + 2 + match[1].length)), STRONG_END],
    [/~~(?=\S)([^\n]*?\S)~~/y, (match, at, source) => node('del', inline(source, at + 2, at + 2 + match[1].length)), DEL_END],
    [/\*(?=[^\s*])([^\n*]*[^\s*])\*(?!\*)/y, (match, at, source) => node('em', inline(source, at + 1, at + 1 + match[1].length))],
    [/(?<!\w)_(?=[^\s_])([^\n_]*[^\s_])_(?!\w)/y, (match, at, source) => node('em', inline(source, at + 1, at + 1 + match[1].length))],
    [/\[([^[\]\n]+)\]\(((?:[^()\s]|\([^()\s]*\))+)\)/y, (match, at, source) => {
      const href = address(match[2]);
      return href && {...node('a', inline(source, at + 1, at + 1 + match[1].length)), href};
    }],
    [/\n/y, () => node('br', [])],
  ];
  const SPECIAL = /[`*~_[\n]/g;

  function inline(source, from, to) {
    const made = [];
    let begun = from;
    SPECIAL.lastIndex = from;
    for (let found; (found = SPECIAL.exec(source)) && found.index < to;) {
      const at = found.index;
      for (const [pattern, build, ending] of INLINE) {
        if (ending && (source[at] !== source[at + 1] || endOf(ending, source, at + 2) > to)) continue;
        pattern.lastIndex = at;
        const match = pattern.exec(source);
        if (!match || at + match[0].length > to) continue;
        const built = build(match, at, source);
        if (!built) continue;
        if (begun < at) made.push(leaf(begun, at));
        made.push(built);
        begun = at + match[0].length;
        break;
      }
      // A run of backticks that nothing ends is text, all of it.
      let next = at + 1;
      while (source[at] === '`' && source[next] === '`') next++;
      SPECIAL.lastIndex = Math.max(begun, next);
    }
    if (begun < to) made.push(leaf(begun, to));
    return made;
  }

  function linesOf(source) {
    let at = 0;
    return source.split('\n').map(text => {
      const line = {text, from: at, to: at + text.length};
      at = line.to + 1;
      return line;
    });
  }

  const FENCE = /^ {0,3}(`{3,}|~{3,})[^`]*$/;
  const HEADING = /^ {0,3}(#{1,6}) +(?=\S)/;
  const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;
  const ITEM = /^( *)(?:[-*+]|\d{1,9}[.)]) +(?=\S)/;
  const QUOTE = /^ {0,3}> ?/;
  const DIVIDER = /^ *\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?$/;

  function fence(lines, at) {
    const mark = FENCE.exec(lines[at].text)[1];
    let end = at + 1;
    while (end < lines.length && !(lines[end].text.trim().startsWith(mark) && FENCE.test(lines[end].text))) end++;
    // An answer that is still being written has no end yet.
    const code = end > at + 1 ? [leaf(lines[at + 1].from, lines[end - 1].to)] : [];
    return [node('pre', [node('code', code)]), Math.min(end + 1, lines.length)];
  }

  // The items of one depth; deeper ones and indented lines belong to the item before them, behind
  // blank lines too.
  function list(source, lines, at) {
    const depth = ITEM.exec(lines[at].text)[1].length;
    const number = parseInt(lines[at].text, 10);
    const ordered = !isNaN(number);
    const items = [];
    for (; at < lines.length;) {
      let next = at;
      while (next < lines.length && !lines[next].text.trim()) next++;
      if (next === lines.length) break;
      const match = ITEM.exec(lines[next].text);
      const indent = lines[next].text.search(/\S/);
      if (!match && indent > depth + 1 && !begins(lines, next)) {
        items.at(-1).children.push(node('br', []), ...inline(source, lines[next].from + indent, lines[next].to));
        at = next + 1;
        continue;
      }
      if (!match || match[1].length < depth || match[1].length <= depth + 1 && /\d/.test(match[0]) !== ordered) break;
      at = next;
      if (match[1].length > depth + 1) {
        const [inner, next] = list(source, lines, at);
        items.at(-1).children.push(inner);
        at = next;
        continue;
      }
      items.push(node('li', inline(source, lines[at].from + match[0].length, lines[at].to)));
      at++;
    }
    return [{...node(ordered ? 'ol' : 'ul', items), ...(ordered && number !== 1 ? {start: number} : {})}, at];
  }

  function cells(source, line, tag) {
    const made = [];
    const ends = [...line.text.matchAll(/(?<!\\)\|/g)].map(match => match.index);
    if (!/^\s*\|/.test(line.text)) ends.unshift(-1);
    if (!/\|\s*$/.test(line.text)) ends.push(line.text.length);
    for (let cell = 0; cell + 1 < ends.length; cell++) {
      const text = line.text.slice(ends[cell] + 1, ends[cell + 1]);
      const from = line.from + ends[cell] + 1 + (text.length - text.trimStart().length);
      made.push(node(tag, text.trim() ? inline(source, from, from + text.trim().length) : []));
    }
    return node('tr', made);
  }

  function table(source, lines, at) {
    const head = node('thead', [cells(source, lines[at], 'th')]);
    const rows = [];
    for (at += 2; at < lines.length && lines[at].text.includes('|'); at++) rows.push(cells(source, lines[at], 'td'));
    return [node('table', [head, node('tbody', rows)]), at];
  }

  const isTable = (lines, at) => lines[at].text.includes('|') && at + 1 < lines.length && DIVIDER.test(lines[at + 1].text);
  const begins = (lines, at) => isTable(lines, at)
    || [FENCE, HEADING, RULE, ITEM, QUOTE].some(pattern => pattern.test(lines[at].text));

  // One block at a line, and the line after it.
  function block(source, lines, at) {
    const line = lines[at];
    if (FENCE.test(line.text)) return fence(lines, at);
    if (RULE.test(line.text)) return [node('hr', []), at + 1];
    if (ITEM.test(line.text)) return list(source, lines, at);
    if (isTable(lines, at)) return table(source, lines, at);
    const heading = HEADING.exec(line.text);
    if (heading) {
      const tag = `h${Math.min(6, heading[1].length + 2)}`;
      return [node(tag, inline(source, line.from + heading[0].length, line.to)), at + 1];
    }
    const parts = [];
    const quoted = QUOTE.test(line.text);
    for (; at < lines.length && lines[at].text.trim() && QUOTE.test(lines[at].text) === quoted; at++) {
      if (parts.length && !quoted && begins(lines, at)) break;
      if (parts.length) parts.push(node('br', []));
      const skip = quoted ? QUOTE.exec(lines[at].text)[0].length : 0;
      parts.push(...inline(source, lines[at].from + skip, lines[at].to));
    }
    return [node(quoted ? 'blockquote' : 'p', parts), at];
  }

  // The blocks of a text: nodes `{tag, children, href?}` with leaves `{from, to}`, places of `source`.
  globalThis.parseMarkdown = source => {
    ends.clear();
    const lines = linesOf(source);
    const blocks = [];
    for (let at = 0; at < lines.length;) {
      if (!lines[at].text.trim()) {
        at++;
        continue;
      }
      const [made, next] = block(source, lines, at);
      blocks.push(made);
      at = next;
    }
    return blocks;
  };
})();
