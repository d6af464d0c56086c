// The page: asks over the same interface as everybody else, with `stream_options.include_drafts`.
'use strict';

const byId = id => document.getElementById(id);
const COLORS = 6;

const page = {
  model: null,      // the entry of /v1/models
  messages: [],     // the conversation so far
  steps: [],        // of the last answer
  levels: [],       // sums of the last answer, by level
  running: null,    // what aborts the answer
  salt: Array.from(crypto.getRandomValues(new Uint32Array(4)), String).join('-'), // whose sessions these are
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
  byId('model').textContent = `${id}: ${cascade.levels.length} models, context of ${room} tokens`;
  byId('length').max = room;
  byId('length').value = Math.min(cascade.max_tokens, room);
  byId('temperature').value = cascade.temperature;
  byId('plain').textContent = rate(cascade.plain_tokens_per_second);
  clearSums();
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

function message(role) {
  const made = element('p', undefined, 'message');
  made.append(element('b', role));
  byId('conversation').append(made);
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

function request(question) {
  const chat = page.model.cascade.chat;
  const body = {
    model: page.model.id,
    max_tokens: Number(byId('length').value),
    temperature: Number(byId('temperature').value),
    stream: true,
    stream_options: {include_usage: true, include_drafts: true},
    speculation: {enabled: byId('speculation').checked},
    cache_salt: page.salt,
  };
  if (!chat) return ['v1/completions', {...body, prompt: question}];
  const asked = [...page.messages, {role: 'user', content: question}];
  return ['v1/chat/completions', {...body, messages: asked}];
}

async function ask(question) {
  clearSums();
  follow();
  const abort = new AbortController();
  page.running = abort;
  byId('ask').disabled = true;
  byId('stop').disabled = false;
  say('Asking …');
  message('You').append(question);
  const place = message('Answer');
  const begun = performance.now();
  let text = '';
  try {
    const [path, body] = request(question);
    const response = await fetch(path, {method: 'POST', headers: headers(), body: JSON.stringify(body), signal: abort.signal});
    if (!response.ok) throw new Error(await problem(response));
    for await (const data of events(response)) {
      if (data === '[DONE]') break;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Error(chunk.error.message);
      if (chunk.usage) byId('cached').textContent = `${chunk.usage.prompt_tokens_details.cached_tokens} of ${chunk.usage.prompt_tokens}`;
      text += piece(chunk, place);
      if (chunk.cascade) {
        if (page.steps.length === 0) byId('first').textContent = `${((performance.now() - begun) / 1000).toFixed(2)} s`;
        add(chunk.cascade);
        showFigures();
        follow();
      }
      byId('conversation').scrollTop = byId('conversation').scrollHeight;
    }
    // What a screen reader says, once it is whole.
    say(`Answered. ${text}`);
  } catch (error) {
    say(abort.signal.aborted ? 'Stopped.' : `Error: ${error.message}`, !abort.signal.aborted);
  }
  page.running = null;
  byId('ask').disabled = false;
  byId('stop').disabled = true;
  if (text.trim()) page.messages.push({role: 'user', content: question}, {role: 'assistant', content: text.trim()});
}

// Shows the text of a chunk, coloured by the models that drafted it, and returns it.
function piece(chunk, place) {
  const choice = chunk.choices[0];
  if (!choice) return '';
  const all = choice.text ?? choice.delta?.content ?? '';
  const pieces = chunk.cascade?.pieces ?? (all ? [{text: all, level: 0}] : []);
  pieces.forEach(({text, level}) => {
    const shown = element('span', text, color(level));
    shown.title = page.model.cascade.levels[level].name;
    place.append(shown);
  });
  return all;
}

byId('form').addEventListener('submit', event => {
  event.preventDefault();
  const question = byId('question').value.trim();
  if (!page.model) say('Enter the key first.', true);
  else if (question && !page.running) ask(question);
});
byId('question').addEventListener('keydown', event => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    byId('form').requestSubmit();
  }
});
document.addEventListener('keydown', event => {
  if (event.key === 'Escape') page.running?.abort();
});
byId('stop').addEventListener('click', () => page.running?.abort());
byId('reset').addEventListener('click', () => {
  page.running?.abort();
  page.messages = [];
  byId('conversation').replaceChildren();
  if (page.model) clearSums();
  follow();
  say('A new conversation.');
  byId('question').focus();
});
byId('unlock').addEventListener('click', () => describe().catch(error => say(`Error: ${error.message}`, true)));
byId('step').addEventListener('input', () => showDraft(Number(byId('step').value)));
const move = by => {
  byId('step').value = Number(byId('step').value) + by;
  showDraft(Number(byId('step').value));
};
byId('previous').addEventListener('click', () => move(-1));
byId('next').addEventListener('click', () => move(1));
describe().catch(error => say(`Error: ${error.message}`, true));
