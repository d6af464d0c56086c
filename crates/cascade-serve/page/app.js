// The page: asks over the same interface as everybody else, with `stream_options.include_drafts`.
'use strict';

const byId = id => document.getElementById(id);
const COLORS = 6;

const salt = () => Array.from(crypto.getRandomValues(new Uint32Array(4)), String).join('-');

const page = {
  model: null,      // the entry of /v1/models
  all: [],          // the conversations, the latest first: {messages}
  talk: null,       // the one that is shown
  editing: null,    // the message that the question replaces
  asked: null,      // path and body of the last request that was answered, to be compared
  steps: [],        // of the last answer
  levels: [],       // sums of the last answer, by level
  running: null,    // what aborts the answer
  salt: salt(),     // whose sessions these are
};

// Problems that `cascade-lab demo problems` prints and that both demo families answer rightly.
const DEMO = [
  'Ivy has 13 pebbles. Jonas has 4 times as many. How many pebbles have the two?',
  'The price of a towel is $36. Leo gets 25 percent off. How much does Leo pay?',
  'Mark has 10 dogs and 6 parrots. How many legs is that in all?',
  'Mark needs 7 mirrors, which cost $9 each. He adds 6 crayons at $4 each. How much is that together?',
  'Ben earns $7 an hour and works 5 hours. He buys a hat for $24. How many dollars does Ben have left?',
  'A bus goes 20 miles an hour. The beach is closed today. Dan takes it for 4 hours and walks the last 4 miles to the park. How many miles does Dan travel?',
];
const OTHERS = [
  'Explain speculative decoding in three sentences.',
  'Write a Python function that returns the n-th Fibonacci number, with a test.',
  'Write a table of the planets: name, diameter, number of moons.',
  'List five uses of a paper clip.',
  'Write a short poem about a river.',
  'Repeat this sentence three times: the quick brown fox jumps over the lazy dog.',
];

// Fields of a request that are left out where nothing is filled in: the model's own settings hold.
const OPTIONAL = {
  'top-p': 'top_p', repetition: 'repetition_penalty', presence: 'presence_penalty', frequency: 'frequency_penalty', seed: 'seed',
};

// Never innerHTML: everything from models and servers is text.
function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

const color = level => `level-${Math.min(level, COLORS - 1)}`;

function say(text, isError = false) {
  const status = byId('status');
  status.textContent = text;
  status.classList.toggle('error', isError);
}

function headers() {
  const all = {'Content-Type': 'application/json'};
  const key = byId('key').value.trim();
  if (key) all.Authorization = `Bearer ${key}`;
  return all;
}

async function problem(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `the server answered with status ${response.status}`;
  }
}

async function describe() {
  const response = await fetch('v1/models', {headers: headers()});
  if (response.status === 401) {
    byId('key-row').hidden = false;
    byId('model').textContent = 'This server asks for a key.';
    return;
  }
  if (!response.ok) throw new Error(await problem(response));
  page.model = (await response.json()).data[0];
  byId('key-row').hidden = true;
  const {id, max_model_len: room, cascade} = page.model;
  const drafters = cascade.levels.slice(1).map(level => level.name).join(', ');
  byId('model').textContent = `${id}, drafts by ${drafters || 'no model'}, context of ${room} tokens`;
  byId('length').max = room;
  byId('length').value = Math.min(cascade.max_tokens, room);
  byId('temperature').value = cascade.temperature;
  for (const [name, field] of Object.entries(OPTIONAL)) byId(name).placeholder = cascade.defaults[field] ?? byId(name).placeholder;
  const isDemo = cascade.levels[0].name.startsWith('demo-');
  byId('knows').hidden = !isDemo;
  offer(isDemo ? DEMO : OTHERS);
  const without = cascade.levels.length < 2;
  for (const name of ['schedule', 'k', 'nodes', 'widths', 'speculation']) byId(name).disabled = without;
  clearSums();
  showTalk();
}

function offer(questions) {
  if (!byId('question').value) byId('question').value = questions[0];
  byId('examples').replaceChildren(...questions.map(question => {
    const made = element('button', question, 'example');
    made.type = 'button';
    made.title = question;
    made.addEventListener('click', () => {
      byId('question').value = question;
      byId('form').requestSubmit();
    });
    return made;
  }));
}

const rate = speed => speed > 0 ? `${speed.toFixed(1)} /s` : '–';

function clearSums() {
  page.levels = page.model.cascade.levels.map(() => ({tokens: 0, drafted: 0, accepted: 0, calls: 0}));
  page.steps = [];
  showLevels();
}

function showLevels() {
  const rows = page.model.cascade.levels.map((level, index) => {
    const sums = page.levels[index];
    const row = element('tr');
    row.append(element('td', `${level.name} (${level.role})`, color(index)));
    const drafts = index > 0;
    const share = sums.drafted ? ` (${Math.round(100 * sums.accepted / sums.drafted)}%)` : '';
    row.append(element('td', sums.tokens), element('td', drafts ? sums.drafted : '–'),
      element('td', drafts ? `${sums.accepted}${share}` : '–'), element('td', sums.calls));
    return row;
  });
  byId('levels').replaceChildren(...rows);
}

function add(step) {
  page.steps.push(step);
  step.tokens.forEach(token => page.levels[token.level].tokens++);
  step.levels.forEach((level, index) => {
    const sums = page.levels[index];
    sums.drafted += level.drafted;
    sums.accepted += level.accepted;
    sums.calls += level.calls;
  });
}

function showFigures() {
  const tokens = page.steps.reduce((sum, step) => sum + step.tokens.length, 0);
  const seconds = page.steps.reduce((sum, step) => sum + step.seconds, 0);
  byId('per-forward').textContent = page.steps.length ? (tokens / page.steps.length).toFixed(2) : '–';
  // Without the first step, which reads the prompt.
  const [first, ...later] = page.steps;
  const laterTokens = first ? tokens - first.tokens.length : 0;
  const laterSeconds = first ? seconds - first.seconds : 0;
  const speed = later.length && laterSeconds > 0 ? laterTokens / laterSeconds : 0;
  byId('speed').textContent = rate(speed);
  showLevels();
}

// Characters that would not be seen.
const visible = text => text.replaceAll('\n', '⏎').replaceAll('\t', '⇥').replaceAll(' ', '␣');

function showDraft(index) {
  const step = page.steps[index];
  const list = byId('draft');
  if (!step) {
    list.replaceChildren();
    byId('step-text').textContent = 'No step yet.';
    return;
  }
  const depths = [];
  const children = new Map();
  step.draft.forEach((node, at) => {
    depths[at] = node.parent === null ? 0 : depths[node.parent] + 1;
    const siblings = children.get(node.parent) ?? [];
    siblings.push(at);
    children.set(node.parent, siblings);
  });
  const rows = [];
  const name = level => page.model.cascade.levels[level].name;
  const row = (mark, meaning, text, level, depth, kept) => {
    const item = element('li', undefined, `${color(level)} ${kept ? 'kept' : 'rejected'}`);
    const sign = element('span', `${'  '.repeat(depth)}${mark} `);
    sign.setAttribute('aria-hidden', 'true');
    const token = element('span', visible(text), 'token');
    item.append(sign, token, element('span', `  ${name(level)}, ${meaning}`));
    rows.push(item);
  };
  const walk = parent => (children.get(parent) ?? []).forEach(at => {
    const node = step.draft[at];
    row(node.accepted ? '✓' : '✗', node.accepted ? 'kept' : 'not kept', node.token, node.level, depths[at], node.accepted);
    walk(at);
  });
  walk(null);
  const kept = step.draft.filter(node => node.accepted).length;
  const own = step.tokens[kept];
  if (own) row('+', "the target's own", own.token, own.level, kept, true);
  list.replaceChildren(...rows);
  byId('step-text').textContent =
    `Step ${index + 1} of ${page.steps.length}: ${step.draft.length} drafted, ${kept} kept, ${step.tokens.length} emitted.`;
  byId('previous').disabled = index === 0;
  byId('next').disabled = index + 1 >= page.steps.length;
}

function follow() {
  const slider = byId('step');
  const atEnd = Number(slider.value) >= Number(slider.max);
  slider.disabled = page.steps.length === 0;
  slider.max = Math.max(0, page.steps.length - 1);
  if (atEnd) slider.value = slider.max;
  showDraft(Number(slider.value));
}

// Kept by the browser: conversations and nothing else, never the key. A browser that keeps nothing is no error.
const STORE = 'cascade.conversations';
const MOST = 50;

function isMessage(message) {
  return ['user', 'assistant'].includes(message?.role) && typeof message.content === 'string'
    && (message.pieces === undefined || (Array.isArray(message.pieces)
      && message.pieces.every(piece => typeof piece?.text === 'string' && Number.isInteger(piece.level) && piece.level >= 0)));
}

function load() {
  try {
    const kept = JSON.parse(localStorage.getItem(STORE) ?? '[]');
    page.all = kept.filter(talk => Array.isArray(talk?.messages) && talk.messages.every(isMessage)).slice(0, MOST);
  } catch {
    page.all = [];
  }
  page.talk = page.all[0] ?? null;
  if (!page.talk) begin();
}

function save() {
  // The latest first; the oldest go when there is no room.
  page.all = [page.talk, ...page.all.filter(talk => talk !== page.talk)].slice(0, MOST);
  let kept = page.all.filter(talk => talk.messages.length);
  for (;;) {
    try {
      localStorage.setItem(STORE, JSON.stringify(kept));
      return;
    } catch {
      if (kept.length === 0) return;
      kept = kept.slice(0, -1);
    }
  }
}

function begin() {
  page.talk = {messages: []};
  page.all = [page.talk, ...page.all.filter(talk => talk.messages.length)];
}

function showHistory() {
  byId('history').replaceChildren(...page.all.map((talk, index) => {
    const option = element('option', talk.messages[0]?.content.slice(0, 60) ?? 'New conversation');
    option.value = index;
    option.selected = talk === page.talk;
    return option;
  }));
}

function showTalk() {
  byId('conversation').replaceChildren();
  page.talk.messages.forEach((message, index) => show(message, index));
  showHistory();
  toEnd();
}

function toEnd() {
  byId('conversation').scrollTop = byId('conversation').scrollHeight;
}

// Appends a message of the conversation, and returns where its text goes.
function show(message, index) {
  const made = element('article', undefined, 'message');
  const head = element('div', undefined, 'head');
  head.append(element('b', message.role === 'user' ? 'You' : 'Answer'));
  const act = (name, does) => {
    const button = element('button', name, 'small');
    button.type = 'button';
    button.addEventListener('click', does);
    head.append(button);
  };
  act('Copy', () => copy(page.talk.messages[index]?.content ?? ''));
  if (message.role === 'user') act('Edit', () => edit(index));
  else act('Again', () => again(index));
  const place = element('div', undefined, 'text');
  made.append(head, place);
  byId('conversation').append(made);
  fill(place, message);
  return place;
}

function copy(text) {
  // The clipboard is there on this machine's own address and over TLS only.
  const done = navigator.clipboard?.writeText(text) ?? Promise.reject(new Error('the browser gives it to secure pages only'));
  done.then(() => say('Copied.'), error => say(`The clipboard is not to be had: ${error.message}`, true));
}

function edit(index) {
  if (page.running) return;
  page.editing = index;
  byId('question').value = page.talk.messages[index].content;
  byId('question').focus();
  say('Ask replaces this question and what follows it; Escape leaves them.');
}

function again(index) {
  if (page.running) return;
  page.editing = index - 1;
  ask(page.talk.messages[index - 1].content);
}

// Shows a text, coloured by the models that drafted it.
function fill(place, {role, content, pieces}) {
  const coloured = pieces?.length ? pieces : [{text: content, level: 0}];
  const source = coloured.map(piece => piece.text).join('');
  const ends = [];
  coloured.reduce((at, {text}) => (ends.push(at + text.length), at + text.length), 0);
  let first = 0; // leaves come in order
  const leaf = ({from, to}) => {
    const made = [];
    while (first < ends.length && ends[first] <= from) first++;
    for (let at = first; from < to; at++) {
      const end = Math.min(to, ends[at]);
      if (end > from) made.push(span(source.slice(from, end), coloured[at].level));
      from = Math.max(from, end);
    }
    return made;
  };
  const build = part => {
    if (!part.tag) return leaf(part);
    const made = element(part.tag);
    if (part.start !== undefined) made.start = part.start;
    if (part.href) Object.assign(made, {href: part.href, target: '_blank', rel: 'noopener noreferrer'});
    made.append(...part.children.flatMap(build));
    return [made];
  };
  const asText = role === 'user' || !byId('markdown').checked;
  place.classList.toggle('plain', asText);
  place.replaceChildren(...(asText ? leaf({from: 0, to: source.length}) : parseMarkdown(source).flatMap(build)));
}

function span(text, level) {
  const made = element('span', text, color(level));
  const name = page.model?.cascade.levels[level]?.name;
  if (name) made.title = name;
  return made;
}

// The data of server-sent events, one by one.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\n\n');
    rest = parts.pop();
    for (const part of parts) {
      if (part.startsWith('data: ')) yield part.slice(6);
    }
  }
}

const numbers = text => text.split(/[\s,]+/).filter(Boolean).map(Number);

// The fields of drafting that are filled in.
function speculation() {
  const own = {enabled: byId('speculation').checked};
  if (byId('schedule').value) own.schedule = byId('schedule').value;
  const k = byId('k').value.trim();
  if (k) own.k = k.startsWith('[') ? JSON.parse(k.startsWith('[[') ? k : `[${k}]`) : numbers(k);
  const tree = {};
  if (byId('nodes').value) tree.max_nodes = Number(byId('nodes').value);
  if (byId('widths').value.trim()) tree.widths = numbers(byId('widths').value);
  if (Object.keys(tree).length) own.tree = tree;
  return own;
}

// The path and the body that ask for the next message of a conversation.
function request(messages) {
  const body = {
    model: page.model.id,
    max_tokens: Number(byId('length').value),
    temperature: Number(byId('temperature').value),
    speculation: speculation(),
    cache_salt: page.salt,
  };
  for (const [name, field] of Object.entries(OPTIONAL)) {
    if (byId(name).value) body[field] = Number(byId(name).value);
  }
  if (!page.model.cascade.chat) return ['v1/completions', {...body, prompt: messages.at(-1).content}];
  const asked = messages.map(({role, content}) => ({role, content: role === 'assistant' ? content.trim() : content}));
  const system = byId('system').value.trim();
  if (system) asked.unshift({role: 'system', content: system});
  return ['v1/chat/completions', {...body, messages: asked}];
}

async function post(path, body, abort) {
  const response = await fetch(path, {method: 'POST', headers: headers(), body: JSON.stringify(body), signal: abort.signal});
  if (!response.ok) throw new Error(await problem(response));
  return response;
}

// Runs what can be stopped, and says what came of it.
async function run(work) {
  const abort = new AbortController();
  page.running = abort;
  busy(true);
  try {
    say(await work(abort));
  } catch (error) {
    const lost = error instanceof TypeError ? ' (is the server still there?)' : '';
    say(abort.signal.aborted ? 'Stopped.' : `Error: ${error.message}${lost}`, !abort.signal.aborted);
  }
  page.running = null;
  busy(false);
}

function busy(is) {
  for (const name of ['ask', 'reset', 'forget', 'history']) byId(name).disabled = is;
  byId('stop').disabled = !is;
  byId('compare').disabled = is || !page.asked;
}

function ask(question) {
  const {messages} = page.talk;
  if (page.editing !== null) messages.splice(page.editing);
  page.editing = null;
  page.asked = null;
  byId('ratio').textContent = 'not compared';
  byId('question').value = '';
  clearSums();
  follow();
  messages.push({role: 'user', content: question});
  showTalk();
  byId('conversation').scrollIntoView({block: 'nearest'});
  return run(abort => answer(messages, abort)).then(() => {
    // A question without any answer is asked again, not kept.
    if (messages.at(-1).role === 'user') {
      messages.pop();
      byId('question').value ||= question;
    }
    save();
    showTalk();
  });
}

async function answer(messages, abort) {
  say('Asking …');
  const [path, body] = request(messages);
  const begun = performance.now();
  const made = {role: 'assistant', content: '', pieces: []};
  let place = null;
  let seed;
  let finish = null;
  let warnings = [];
  const draw = () => {
    if (made.content) {
      fill(place, made);
      toEnd();
    }
  };
  let frame = 0;
  const streamed = {...body, stream: true, stream_options: {include_usage: true, include_drafts: true}};
  const response = await post(path, streamed, abort);
  try {
    for await (const data of events(response)) {
      if (data === '[DONE]') break;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(chunk.error.message);
      if (chunk.warnings) warnings = chunk.warnings;
      if (chunk.usage) {
        byId('cached').textContent = `${chunk.usage.prompt_tokens_details.cached_tokens} of ${chunk.usage.prompt_tokens}`;
        seed = chunk.usage.speculation.seed;
      }
      finish = chunk.choices[0]?.finish_reason ?? finish;
      addPiece(chunk, made);
      if (made.content && !place) {
        messages.push(made);
        place = show(made, messages.length - 1);
        toEnd();
      }
      if (chunk.cascade) {
        if (page.steps.length === 0) byId('first').textContent = `${((performance.now() - begun) / 1000).toFixed(2)} s`;
        add(chunk.cascade);
        showFigures();
        follow();
      }
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(draw);
    }
  } finally {
    cancelAnimationFrame(frame);
    draw();
  }
  page.asked = [path, seed === undefined ? body : {...body, seed}];
  // What a screen reader says at the end.
  return [ending(finish, made.content), ...warnings].join(' ');
}

// How an answer ended, and what to do about it.
function ending(finish, text) {
  if (!text.trim()) return 'Answered by nothing: ask in other words, or at a temperature of 0.7.';
  const tokens = page.steps.flatMap(step => step.tokens.map(({token}) => token));
  if (loops(tokens)) return 'Answered, but it repeats itself: a temperature of 0.7 or a repetition penalty of 1.1 (Settings) ends most loops.';
  return finish === 'length' ? `Answered, but cut at ${tokens.length} tokens: say "go on", or allow more in Settings.` : 'Answered.';
}

// Whether the last 40 tokens or more repeat a pattern of 32 or less, as `cascade run` counts loops.
function loops(tokens) {
  for (let period = 1; period <= 32; period++) {
    let same = 0;
    while (same + period < tokens.length && tokens.at(-1 - same) === tokens.at(-1 - same - period)) same++;
    if (same >= 2 * period && same + period >= 40) return true;
  }
  return false;
}

// Adds the text of a chunk to an answer.
function addPiece(chunk, made) {
  const choice = chunk.choices[0];
  if (!choice) return;
  const all = choice.text ?? choice.delta?.content ?? '';
  const pieces = chunk.cascade?.pieces ?? (all ? [{text: all, level: 0}] : []);
  made.content += all;
  for (const {text, level} of pieces) {
    const last = made.pieces.at(-1);
    if (last?.level === level) last.text += text;
    else made.pieces.push({text, level});
  }
}

// Asks the last question both ways in turn, each in a session of its own, and shows the median of
// the ratios of the seconds of computing that a token took. Short answers are asked more often: a
// few milliseconds say little.
const ROUNDS = {least: 3, most: 15, milliseconds: 1500};

async function compare(abort) {
  const [path, body] = page.asked;
  const timed = async enabled => {
    const own = {...body.speculation, enabled};
    const response = await post(path, {...body, speculation: own, cache_salt: salt()}, abort);
    const {choices: [choice], usage} = await response.json();
    const tokens = Math.max(1, usage.completion_tokens);
    return {text: choice.text ?? choice.message.content, seconds: usage.speculation.compute_seconds / tokens};
  };
  const ratios = [];
  let isSame = true;
  const begun = performance.now();
  const goesOn = round => round < ROUNDS.least
    || (round < ROUNDS.most && performance.now() - begun < ROUNDS.milliseconds);
  for (let round = 0; goesOn(round); round++) {
    say(`Comparing: round ${round + 1} …`);
    // Each way is first in turn, so that a machine whose speed drifts favours neither.
    const first = await timed(round % 2 === 0);
    const second = await timed(round % 2 !== 0);
    const [fast, plain] = round % 2 === 0 ? [first, second] : [second, first];
    isSame &&= fast.text === plain.text;
    ratios.push(plain.seconds / fast.seconds);
  }
  ratios.sort((a, b) => a - b);
  const [least, median, most] = [ratios[0], ratios[ratios.length >> 1], ratios.at(-1)].map(ratio => ratio.toFixed(2));
  byId('ratio').textContent = `${median} × (${least} to ${most})`;
  const text = isSame ? 'the same text' : 'other texts';
  return `Compared: ${median} × plain decoding, the median of ${ratios.length} rounds; ${text} both ways.`;
}

byId('form').addEventListener('submit', event => {
  event.preventDefault();
  const question = byId('question').value.trim();
  if (!page.model) say('Enter the key first.', true);
  else if (question && !page.running && byId('form').reportValidity()) ask(question);
});
byId('question').addEventListener('keydown', event => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    byId('form').requestSubmit();
  }
});
document.addEventListener('keydown', event => {
  if (event.key !== 'Escape') return;
  page.running?.abort();
  if (page.editing !== null) {
    page.editing = null;
    byId('question').value = '';
    say('');
  }
});
byId('stop').addEventListener('click', () => page.running?.abort());
byId('compare').addEventListener('click', () => run(compare));

// Another conversation is shown: nothing of the one before belongs to it.
function turnTo(text) {
  page.editing = null;
  page.asked = null;
  byId('compare').disabled = true;
  byId('ratio').textContent = 'not compared';
  if (page.model) clearSums();
  follow();
  showTalk();
  say(text);
}
byId('reset').addEventListener('click', () => {
  begin();
  turnTo('A new conversation.');
  byId('question').focus();
});
byId('forget').addEventListener('click', () => {
  page.all = page.all.filter(talk => talk !== page.talk);
  page.talk = page.all[0] ?? null;
  if (!page.talk) begin();
  save();
  turnTo('Deleted.');
});
byId('history').addEventListener('change', () => {
  page.talk = page.all[Number(byId('history').value)];
  turnTo('');
});
byId('markdown').addEventListener('change', showTalk);
byId('unlock').addEventListener('click', () => describe().catch(error => say(`Error: ${error.message}`, true)));
byId('step').addEventListener('input', () => showDraft(Number(byId('step').value)));
const move = by => {
  byId('step').value = Number(byId('step').value) + by;
  showDraft(Number(byId('step').value));
};
byId('previous').addEventListener('click', () => move(-1));
byId('next').addEventListener('click', () => move(1));
load();
describe().catch(error => say(`Error: ${error.message}`, true));
