// Shows the views that the supervisor sends. Every text goes into the document through textContent: names of tenants,
// workspaces and tests are whatever their authors like.

import { SIGNS, ago, amount, bytes, count, duration, outcomeKind, outcomeWords, plural } from './format.js';

const $ = (id) => document.getElementById(id);
const RETRY_MS = 3000;
const SEARCH_PAUSE_MS = 250;

let view = null;
let clockOffset = 0;
let source = null;
let query = { search: '', page: 0 };
let retryTimer = 0;
let isLost = false;

const now = () => Date.now() + clockOffset;

// ------------------------------------------------------------------------------------------------ elements

function element(tag, className = '', text = '') {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Keeps the rows of a list by key, so that focus, selection and scrolling survive an update.
function update(parent, items, keyOf, make, fill) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let node = known.get(key);
    known.delete(key);
    if (!node) {
      node = make(item);
      node.dataset.key = key;
    }
    fill(node, item);
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
  known.forEach((node) => node.remove());
}

// A row with a cell for each part: its class, or its class and what fills it.
function makeRow(classes) {
  const row = element('tr');
  for (const name of classes) row.append(element('td', name));
  return row;
}

function badge(cell, outcome) {
  if (!outcome) {
    delete cell.dataset.outcome;
    return setText(cell, '–');
  }
  if (cell.dataset.outcome === outcome) return undefined;
  cell.dataset.outcome = outcome;
  const kind = outcomeKind(outcome);
  const made = element('span', `badge ${kind}`);
  const sign = element('b', '', SIGNS[kind]);
  sign.ariaHidden = 'true';
  made.append(sign, outcomeWords(outcome));
  cell.replaceChildren(made);
  return undefined;
}

function bar(parent, { used, max, text, label, failed = 0 }) {
  let track = parent.querySelector('.track');
  if (!track) {
    track = element('div', 'track');
    track.setAttribute('role', 'progressbar');
    track.append(element('i', 'used'), element('i', 'failed'));
    parent.replaceChildren(track, element('span', 'bar-text'));
  }
  const part = max ? Math.min(1, used / max) : 0;
  const bad = max ? Math.min(part, failed / max) : 0;
  track.classList.toggle('unknown', !max);
  track.classList.toggle('full', !failed && part >= 0.9 && parent.dataset.warns === 'true');
  track.setAttribute('aria-label', label);
  track.setAttribute('aria-valuemin', '0');
  if (max) {
    track.setAttribute('aria-valuemax', String(max));
    track.setAttribute('aria-valuenow', String(Math.min(used, max)));
  } else {
    track.removeAttribute('aria-valuemax');
    track.removeAttribute('aria-valuenow');
  }
  track.setAttribute('aria-valuetext', text);
  track.children[0].style.setProperty('--part', String(part - bad));
  track.children[1].style.setProperty('--part', String(bad));
  setText(parent.querySelector('.bar-text'), text);
}

// Reports are for their tenants: operators see no column for them.
function reportLink(cell, { run, workspace, outcome }) {
  if (view.is_operator) return;
  const address = `/runs/${encodeURIComponent(run)}/report.html`;
  if (cell.firstElementChild?.getAttribute('href') === address) return;
  const link = element('a', '', 'Report');
  link.href = address;
  link.target = '_blank';
  link.rel = 'noopener';
  link.setAttribute('aria-label', `Report of the last run of ${workspace}, ${outcomeWords(outcome)}`);
  cell.replaceChildren(link);
}

const shortRun = (run) => run.replace(/^([0-9a-f]{8})[0-9a-f]+/, '$1');

// ------------------------------------------------------------------------------------------------ sections

function showTiles() {
  const { running, queue, sessions, tenants, outcomes } = view;
  const ended = outcomes.reduce((sum, { runs }) => sum + runs, 0);
  const passed = outcomes.find(({ outcome }) => outcome === 'passed')?.runs ?? 0;
  const tiles = [
    ['Running', count(running.total)],
    ['Queued', count(queue.total)],
    ['Sessions', count(sessions.total)],
    ...(tenants ? [['Tenants', count(tenants.total)]] : []),
    ['Runs passed', ended ? `${Math.floor((100 * passed) / ended)} %` : '–'],
  ];
  update($('tiles'), tiles, ([name]) => name, ([name]) => {
    const tile = element('div', 'tile');
    tile.append(element('span', 'tile-value'), element('span', 'tile-name', name));
    return tile;
  }, (tile, [, value]) => setText(tile.firstElementChild, value));
}

const usedOf = ({ used, max, unit }) => (max === null ? amount(used, unit) : `${amount(used, unit)} of ${amount(max, unit)}`);

function showResources() {
  update($('resources'), view.resources, ({ name }) => name, ({ name }) => {
    const meter = element('div', 'meter');
    const held = element('div', 'bar');
    held.dataset.warns = 'true';
    meter.append(element('span', 'meter-name', name), held);
    return meter;
  }, (meter, resource) => {
    const text = resource.max === null ? `${usedOf(resource)}, no limit` : usedOf(resource);
    bar(meter.lastElementChild, { used: resource.used, max: resource.max, text, label: resource.name });
  });
}

function showOutcomes() {
  const outcomes = view.outcomes.toSorted((one, other) => other.runs - one.runs);
  const total = outcomes.reduce((sum, { runs }) => sum + runs, 0);
  $('outcomes-empty').hidden = outcomes.length > 0;
  update($('outcomes'), outcomes, ({ outcome }) => outcome, () => {
    const item = element('li');
    item.append(element('span', 'outcome-name'), element('span', 'outcome-bar'), element('b'));
    item.children[1].append(element('i'));
    return item;
  }, (item, { outcome, runs }) => {
    badge(item.firstElementChild, outcome);
    item.children[1].className = `outcome-bar ${outcomeKind(outcome)}`;
    item.children[1].firstElementChild.style.setProperty('--part', String(runs / total));
    setText(item.lastElementChild, count(runs));
  });
}

function showRunning() {
  const { rows, total } = view.running;
  setText($('running-count'), shownOf(rows.length, total));
  $('running-empty').hidden = total > 0;
  update($('running'), rows, ({ run }) => run, () => {
    const row = makeRow(['of-tenant', 'name', 'progress', 'time', 'memory', 'test']);
    row.children[2].append(element('div', 'bar'));
    row.children[4].append(element('div', 'bar'));
    row.children[4].firstElementChild.dataset.warns = 'true';
    return row;
  }, (row, run) => {
    const [tenant, workspace, progress, , memory, test] = row.children;
    setText(tenant, run.tenant);
    setText(workspace, run.workspace);
    workspace.title = run.run;
    const failing = run.failed ? `, ${count(run.failed)} failing` : '';
    const finished = run.tests === null ? `${plural(run.finished, 'test')} finished` : `${count(run.finished)} of ${count(run.tests)}`;
    bar(progress.firstElementChild, {
      used: run.finished,
      max: run.tests,
      failed: run.failed,
      text: finished + failing,
      label: `Progress of ${run.workspace}`,
    });
    progress.classList.toggle('failing', run.failed > 0);
    row.dataset.since = run.accepted_ms;
    row.dataset.max = run.wall_ms_max ?? '';
    if (run.memory_bytes === null) setText(memory.querySelector('.bar-text') ?? memory.firstElementChild, '–');
    else {
      bar(memory.firstElementChild, {
        used: run.memory_bytes,
        max: run.memory_bytes_max,
        text: run.memory_bytes_max ? `${bytes(run.memory_bytes)} of ${bytes(run.memory_bytes_max)}` : bytes(run.memory_bytes),
        label: `Memory of ${run.workspace}`,
      });
    }
    setText(test, run.test ?? '–');
    test.title = run.test ?? '';
  });
}

function showQueue() {
  const { rows, total } = view.queue;
  setText($('queue-count'), shownOf(rows.length, total));
  $('queue-empty').hidden = total > 0;
  update($('queue'), rows, ({ run }) => run, () => makeRow(['of-tenant', 'name', 'id', 'time']), (row, run) => {
    setText(row.children[0], run.tenant);
    setText(row.children[1], run.workspace);
    setText(row.children[2], shortRun(run.run));
    row.children[2].title = run.run;
    row.dataset.since = run.accepted_ms;
  });
}

function lastRunCells(last, outcome, failed, tests) {
  badge(outcome, last?.outcome);
  setText(failed, last?.failed ? count(last.failed) : last?.failed === 0 ? '0' : '–');
  failed.classList.toggle('bad-text', Boolean(last?.failed));
  setText(tests, last && last.tests !== null ? count(last.tests) : '–');
}

function showRecent() {
  const { rows, total } = view.recent;
  setText($('recent-count'), `last run of each session${total > rows.length ? `, ${shownOf(rows.length, total)}` : ''}`);
  $('recent-empty').hidden = total > 0;
  update($('recent'), rows, ({ run }) => run, () => makeRow(['', 'of-tenant', 'name', '', 'number', 'number', 'time', 'of-report']), (row, last) => {
    const [outcome, tenant, workspace, framework, failed, tests, , link] = row.children;
    lastRunCells(last, outcome, failed, tests);
    setText(tenant, last.tenant);
    setText(workspace, last.workspace);
    setText(framework, last.framework || 'command');
    row.dataset.ended = last.ended_ms ?? '';
    reportLink(link, last);
  });
}

function showTenants() {
  $('tenants-card').hidden = !view.tenants;
  document.body.classList.toggle('one-tenant', !view.is_operator);
  if (!view.tenants) return;
  const { rows, total } = view.tenants;
  setText($('tenants-count'), shownOf(rows.length, total));
  const names = rows[0]?.resources.map(({ name }) => name) ?? [];
  update($('tenants-head'), ['Tenant', ...names], (name) => name, (name) => element('th', name === 'Tenant' ? '' : 'number', name), () => {});
  update($('tenants'), rows, ({ tenant }) => tenant, () => makeRow(['name', ...names.map(() => 'number')]), (row, { tenant, resources }) => {
    setText(row.firstElementChild, tenant);
    resources.forEach((resource, index) => setText(row.children[index + 1], usedOf(resource)));
  });
}

function showSessions() {
  const { rows, total, is_cut: isCut, matching, page, pages } = view.sessions;
  const part = isCut ? ', the busy ones and a part of the others are listed and searched' : '';
  const found = (query.search ? `${count(matching)} of ${count(total)} match` : count(total)) + part;
  setText($('sessions-count'), found);
  setText($('page-number'), `Page ${count(page + 1)} of ${count(pages)}`);
  $('previous').disabled = page === 0;
  $('next').disabled = page + 1 >= pages;
  query.page = page;
  setText($('sessions-empty'), query.search ? 'No session matches.' : 'No session is open.');
  $('sessions-empty').hidden = rows.length > 0;
  const classes = ['of-tenant', 'name', '', '', 'number', 'number', 'time', 'of-report', 'id'];
  update($('sessions'), rows, ({ session }) => session, () => makeRow(classes), (row, session) => {
    const [tenant, workspace, state, outcome, failed, tests, , link, id] = row.children;
    setText(tenant, session.tenant);
    setText(workspace, session.workspace);
    const waiting = session.waiting ? `${plural(session.waiting, 'run')} waiting` : '';
    setText(state, [session.is_running ? 'running' : '', waiting].filter(Boolean).join(', ') || 'idle');
    state.className = session.is_running ? 'active' : '';
    lastRunCells(session.last, outcome, failed, tests);
    row.dataset.used = session.used_ms;
    if (session.last) reportLink(link, session.last);
    else setText(link, '–');
    setText(id, session.session.slice(0, 8));
    id.title = session.session;
  });
}

const shownOf = (rows, total) => (total > rows ? `${count(rows)} of ${count(total)} shown` : total ? count(total) : '');

// Times go on between two views.
function showTimes() {
  if (!view) return;
  for (const row of document.querySelectorAll('tr[data-since]')) {
    const passed = duration(now() - Number(row.dataset.since));
    const max = row.dataset.max ? ` of ${duration(Number(row.dataset.max))}` : '';
    setText(row.querySelector('.time'), passed + max);
  }
  for (const row of document.querySelectorAll('tr[data-ended]')) {
    setText(row.querySelector('.time'), row.dataset.ended ? ago(now() - Number(row.dataset.ended)) : '–');
  }
  for (const row of document.querySelectorAll('tr[data-used]')) {
    setText(row.querySelector('.time'), ago(now() - Number(row.dataset.used)));
  }
  const uptime = duration(now() - view.started_ms);
  setText($('identity'), `${view.viewer}${view.is_operator ? '' : ' (tenant)'} · version ${view.version} · up ${uptime}`);
}

function notice(id, kind, text) {
  let node = document.querySelector(`#notices [data-key="${id}"]`);
  if (!text) return node?.remove();
  if (!node) {
    node = element('p', `notice ${kind}`);
    node.dataset.key = id;
    $('notices').append(node);
  }
  setText(node, text);
  return undefined;
}

function showState() {
  const drains = view.drains_within_ms;
  $('drain').hidden = !view.is_operator;
  $('drain').disabled = drains !== null;
  setText($('drain'), drains === null ? 'Drain…' : 'Draining');
  notice('drain', 'warn', drains === null ? '' : `The supervisor drains: it refuses new work, ${plural(view.running.total, 'run')} may finish within ${duration(drains)}, then it ends.`);
  notice('trouble', 'bad', view.trouble && `The host runs nothing: ${view.trouble}`);
  document.title = `${view.running.total ? `${view.running.total} running · ` : ''}proctor`;
}

function show() {
  showTiles();
  showResources();
  showOutcomes();
  showRunning();
  showQueue();
  showRecent();
  showTenants();
  showSessions();
  showState();
  showTimes();
  document.documentElement.dataset.ready = 'true';
}

// ------------------------------------------------------------------------------------------------ connection

function connection(state, text) {
  $('connection').dataset.state = state;
  setText($('connection-text'), text);
}

function lost() {
  source?.close();
  const isDraining = view && view.drains_within_ms !== null;
  const words = isDraining ? 'the supervisor has ended' : 'no connection, trying again';
  // A sentence of the supervisor stays until its next answer.
  if (!isLost) connection('lost', words);
  isLost = true;
  if (isDraining) notice('drain', 'warn', 'The supervisor drained and has ended. This page connects again when it is back.');
  clearTimeout(retryTimer);
  retryTimer = setTimeout(connect, RETRY_MS);
  showRefusal(words);
}

function eventsAddress() {
  return `/events?${new URLSearchParams({ search: query.search, page: String(query.page) })}`;
}

// An event source does not say why it was refused, so the same is asked in another way.
async function showRefusal(withoutAnswer) {
  const asked = new AbortController();
  let words = withoutAnswer;
  try {
    const answer = await fetch(eventsAddress(), { signal: asked.signal });
    if (answer.status === 401) return location.reload();
    // Its place is free again when the event source asks for one.
    if (answer.ok) return asked.abort();
    const sentence = (await answer.text()).trim();
    words = `refused: ${sentence || answer.status}`;
  } catch {
    // There is no answer.
  }
  if (isLost) connection('lost', words);
  return undefined;
}

function connect() {
  source?.close();
  clearTimeout(retryTimer);
  if (document.hidden) return;
  source = new EventSource(eventsAddress());
  source.onmessage = (event) => {
    const message = JSON.parse(event.data);
    clockOffset = message.now_ms - Date.now();
    view = message.view;
    isLost = false;
    connection('live', 'live');
    show();
  };
  source.addEventListener('logged_out', () => location.reload());
  source.onerror = lost;
}

// ------------------------------------------------------------------------------------------------ controls

let searchTimer = 0;
$('search').addEventListener('input', () => {
  clearTimeout(searchTimer);
  searchTimer = setTimeout(() => {
    query = { search: $('search').value, page: 0 };
    connect();
  }, SEARCH_PAUSE_MS);
});

function turn(by) {
  query.page = Math.max(0, query.page + by);
  connect();
}
$('previous').addEventListener('click', () => turn(-1));
$('next').addEventListener('click', () => turn(1));

$('drain').addEventListener('click', () => {
  const { running, queue } = view;
  setText($('drain-scope'), `${plural(running.total, 'run')} active and ${count(queue.total)} queued now.`);
  $('drain-dialog').returnValue = 'cancel';
  $('drain-dialog').showModal();
});
$('drain-dialog').addEventListener('close', async () => {
  if ($('drain-dialog').returnValue !== 'drain') return;
  try {
    const answer = await fetch('/drain', { method: 'POST' });
    notice('drain-failed', 'bad', answer.ok ? '' : `The supervisor does not drain: ${await answer.text()}`);
  } catch {
    notice('drain-failed', 'bad', 'The supervisor did not answer the request to drain.');
  }
});

// A page that nobody sees costs the supervisor nothing, and takes none of the browser's few connections.
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) return connect();
  clearTimeout(retryTimer);
  source?.close();
  return connection('waiting', 'paused while hidden');
});

setInterval(showTimes, 1000);
connect();
