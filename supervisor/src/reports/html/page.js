'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const { run, kinds, suites, tests, details } = data;
  const [SUITE, NAME, KIND, MS, END, DETAIL, TREND, SETUP, CPU] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const $ = (id) => document.getElementById(id);
  // Text is only ever set as text: no name or message of a test is parsed as HTML.
  const el = (tag, props = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) {
      if (value === null || value === undefined) continue;
      if (name === 'class') node.className = value;
      else if (name === 'on') for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
      else if (name === 'style') for (const [key, v] of Object.entries(value)) node.style.setProperty(key, v);
      else node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  };
  const ms = (value) => {
    if (value === null || value === undefined) return '';
    if (value < 1) return '<1 ms';
    if (value < 1000) return `${Math.round(value)} ms`;
    if (value < 60000) return `${(value / 1000).toFixed(value < 10000 ? 2 : 1)} s`;
    return `${Math.floor(value / 60000)} m ${Math.round((value % 60000) / 1000)} s`;
  };
  const bytes = (value) => {
    if (value === null || value === undefined) return null;
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let unit = 0;
    while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
    return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
  };
  // What the time of a test consists of, as far as it is known.
  const partsOf = (test) => [['set-up', test[SETUP]], ['processor', test[CPU]]].filter(([, value]) => typeof value === 'number').map(([what, value]) => `${what} ${ms(value)}`).join(', ');
  const day = (time) => new Date(time).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });
  const colorOf = (kind) => ({ failed: 'failed', error: 'failed', warning: 'xfailed', passed: 'passed', complete: 'passed', info: 'skipped', xfailed: 'xfailed', xpassed: 'xfailed' })[kind] || (['skipped', 'not_run'].includes(kind) ? 'skipped' : 'failed');
  const groupOf = (kind) => (['passed', 'xpassed', 'complete', 'info'].includes(kind) ? 'passed' : ['skipped', 'xfailed', 'not_run'].includes(kind) ? 'skipped' : 'failed');
  const plural = (count, word) => `${count.toLocaleString()} ${word}${count === 1 ? '' : 's'}`;
  const isFlaky = new Set(data.flaky.map((flaky) => flaky.test).filter((test) => test !== null));

  // Theme.
  const themeButton = $('theme');
  const setTheme = (theme) => {
    document.documentElement.dataset.theme = theme;
    themeButton.textContent = theme === 'dark' ? 'Light' : 'Dark';
    themeButton.setAttribute('aria-label', `Switch to ${theme === 'dark' ? 'light' : 'dark'} colours`);
  };
  const stored = (() => { try { return localStorage.getItem('proctor-theme'); } catch { return null; } })();
  const prefersDark = matchMedia('(prefers-color-scheme: dark)');
  setTheme(stored === 'dark' || stored === 'light' ? stored : prefersDark.matches ? 'dark' : 'light');
  prefersDark.addEventListener('change', (event) => setTheme(event.matches ? 'dark' : 'light'));
  themeButton.addEventListener('click', () => {
    const theme = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
    try { localStorage.setItem('proctor-theme', theme); } catch { /* a page from a file may have no storage */ }
    setTheme(theme);
    drawTimeline();
  });

  // Bar and filters.
  const groups = { failed: 0, passed: 0, skipped: 0 };
  for (const test of tests) groups[groupOf(kinds[test[KIND]])] += 1;
  const bar = $('bar');
  for (const group of ['failed', 'passed', 'skipped']) {
    if (groups[group]) bar.append(el('i', { class: `k-${group}`, style: { flex: String(groups[group]) } }));
  }
  bar.setAttribute('aria-label', `${groups.failed} failed, ${groups.passed} passed, ${groups.skipped} skipped`);
  let filter = groups.failed ? 'failed' : 'all';
  let order = 'report';
  let shown = [];
  let selected = -1;
  const chips = $('chips');
  const chipFor = (name, label, count, kind) => el('button', { class: `chip${kind ? ` k-${kind}` : ''}`, type: 'button', 'data-filter': name, 'aria-pressed': 'false',
    on: { click: () => { filter = name; apply(); } } }, kind ? el('span', { class: 'dot', 'aria-hidden': 'true' }) : null, label, el('b', {}, count.toLocaleString()));
  chips.append(chipFor('all', 'All', tests.length, ''));
  for (const [name, label] of [['failed', 'Failed'], ['passed', 'Passed'], ['skipped', 'Skipped']]) {
    if (groups[name]) chips.append(chipFor(name, label, groups[name], name));
  }
  const fresh = tests.reduce((count, test) => count + (test[TREND] === 1 ? 1 : 0), 0);
  if (fresh) chips.append(chipFor('new', 'New failures', fresh, 'failed'));
  if (isFlaky.size) chips.append(chipFor('flaky', 'Flaky', isFlaky.size, 'xfailed'));
  $('order').addEventListener('click', () => {
    order = order === 'report' ? 'slow' : 'report';
    $('order').textContent = order === 'slow' ? 'Slowest first' : 'Failures first';
    apply();
  });

  // The list renders only the rows in sight, so that it holds any number of tests.
  const ROW = 46;
  const list = $('list');
  const spacer = $('spacer');
  const search = $('search');
  const haystacks = new Array(tests.length);
  const haystack = (index) => {
    if (haystacks[index] === undefined) {
      const test = tests[index];
      const detail = details[test[DETAIL]];
      haystacks[index] = `${suites[test[SUITE]]} ${test[NAME]} ${detail && detail.message ? detail.message.slice(0, 400) : ''} ${detail && detail.file ? detail.file : ''}`.toLowerCase();
    }
    return haystacks[index];
  };
  function apply() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = selected;
    shown = [];
    for (let index = 0; index < tests.length; index += 1) {
      const test = tests[index];
      if (filter === 'new' ? test[TREND] !== 1 : filter === 'flaky' ? !isFlaky.has(index) : filter !== 'all' && groupOf(kinds[test[KIND]]) !== filter) continue;
      if (words.length && !words.every((word) => haystack(index).includes(word))) continue;
      shown.push(index);
    }
    if (order === 'slow') shown.sort((a, b) => (tests[b][MS] ?? -1) - (tests[a][MS] ?? -1));
    for (const chip of chips.children) chip.setAttribute('aria-pressed', String(chip.dataset.filter === filter));
    $('count').textContent = `${shown.length.toLocaleString()} of ${plural(tests.length, 'entry').replace('entrys', 'entries')}`;
    spacer.style.height = `${shown.length * ROW}px`;
    $('none').hidden = shown.length > 0;
    if (shown.includes(kept)) { render(); return; }
    list.scrollTop = 0;
    select(shown.length ? shown[0] : -1, false);
  }
  let frame = 0;
  list.addEventListener('scroll', () => { if (!frame) frame = requestAnimationFrame(() => { frame = 0; render(); }); });
  function render() {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 6);
    const last = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 6);
    const rows = [];
    for (let position = first; position < last; position += 1) rows.push(row(position));
    spacer.replaceChildren(...rows);
    const position = shown.indexOf(selected);
    if (position >= first && position < last) list.setAttribute('aria-activedescendant', `row-${selected}`);
    else list.removeAttribute('aria-activedescendant');
  }
  function row(position) {
    const index = shown[position];
    const test = tests[index];
    const kind = kinds[test[KIND]];
    return el('div', { class: `row k-${colorOf(kind)}`, id: `row-${index}`, role: 'option', 'aria-selected': String(index === selected), 'aria-posinset': position + 1, 'aria-setsize': shown.length,
      'aria-label': `${kind.replace('_', ' ')}: ${test[NAME]}, ${suites[test[SUITE]]}${test[MS] === null ? '' : `, ${ms(test[MS])}`}`, style: { top: `${position * ROW}px` }, on: { click: () => select(index, false) } },
    el('span', { class: 'dot' }),
    el('span', { class: 'name' }, test[NAME]),
    el('span', { class: 'time' }, ms(test[MS]), ['failed', 'passed', 'skipped'].includes(kind) ? null : el('span', { class: 'tag' }, kind.replace('_', ' ')),
      test[TREND] === 1 ? el('span', { class: 'tag new' }, 'new') : null, isFlaky.has(index) ? el('span', { class: 'tag flaky' }, 'flaky') : null),
    el('span', { class: 'suite' }, suites[test[SUITE]]));
  }
  function select(index, scroll) {
    selected = index;
    const position = shown.indexOf(index);
    if (scroll && position >= 0) {
      const top = position * ROW;
      if (top < list.scrollTop) list.scrollTop = top;
      else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    }
    render();
    showDetail();
  }
  function reveal(index) {
    if (!shown.includes(index)) { filter = 'all'; search.value = ''; selected = index; apply(); }
    select(index, true);
    $('tests').scrollIntoView({ block: 'start' });
    list.focus({ preventScroll: true });
  }
  const step = (by) => {
    if (!shown.length) return;
    const position = Math.min(shown.length - 1, Math.max(0, shown.indexOf(selected) + by));
    select(shown[position], true);
  };
  list.addEventListener('keydown', (event) => {
    const page = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
    const moves = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -shown.length, End: shown.length };
    if (event.key in moves && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); step(moves[event.key]); }
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === '/' && !['INPUT', 'TEXTAREA'].includes(document.activeElement.tagName)) { event.preventDefault(); search.focus(); }
  });
  search.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') { search.value = ''; apply(); }
    if (event.key === 'ArrowDown' || event.key === 'Enter') { event.preventDefault(); list.focus(); }
  });
  let typing = 0;
  search.addEventListener('input', () => { clearTimeout(typing); typing = setTimeout(apply, 60); });

  // The selected test.
  const section = (title, ...children) => el('section', {}, el('h3', {}, title), ...children);
  function showDetail() {
    const panel = $('detail');
    if (selected < 0) { panel.replaceChildren(el('p', { class: 'empty' }, 'Nothing is selected.')); return; }
    const test = tests[selected];
    const kind = kinds[test[KIND]];
    const detail = details[test[DETAIL]] || {};
    const place = detail.file ? el('code', {}, detail.line ? `${detail.file}:${detail.line}` : detail.file) : null;
    const parts = [
      el('div', { class: `k-${colorOf(kind)}` }, el('h2', {}, test[NAME], el('span', { class: 'tag' }, kind.replace('_', ' ')))),
      el('div', { class: 'where' }, suites[test[SUITE]], test[MS] === null ? '' : ` · ${ms(test[MS])}`, partsOf(test) ? ` (${partsOf(test)})` : '', place ? ' · ' : null, place),
    ];
    const flaky = data.flaky.find((entry) => entry.test === selected);
    if (flaky) parts.push(el('p', { class: 'where' }, `Flaky: failed ${flaky.failures} of ${flaky.runs} runs of the same files (95 % interval ${flaky.low} to ${flaky.high} %).`));
    if (test[TREND] === 1) parts.push(el('p', { class: 'where' }, 'New: it passed, or had never run, before this run.'));
    if (test[TREND] === 2) parts.push(el('p', { class: 'where' }, 'It failed the last time as well.'));
    if (detail.marks) parts.push(el('p', { class: 'where' }, detail.marks.join(' · ')));
    if (detail.message) parts.push(el('pre', { class: groupOf(kind) === 'failed' ? 'message' : 'message quiet' }, detail.message));
    if (detail.expected !== undefined || detail.actual !== undefined) parts.push(section('Expected and actual', sideBySide(detail.expected, detail.actual)));
    if (detail.source) parts.push(section(detail.source.edited ? 'Source (the file was changed since the run began)' : 'Source', sourceLines(detail)));
    for (const [name, title] of [['fix', 'Fix'], ['stack', 'Stack'], ['output', 'Output']]) {
      if (detail[name]) parts.push(section(title, el('pre', { class: 'box', tabindex: '0', 'aria-label': title }, detail[name])));
    }
    if (detail.cut) parts.push(el('p', { class: 'where' }, 'Longer texts of this test are left out of this page; the JSON report has them.'));
    if (parts.length === 2) parts.push(el('p', { class: 'empty' }, groupOf(kind) === 'passed' ? 'It passed; nothing else is recorded.' : 'Nothing else is recorded.'));
    panel.replaceChildren(...parts);
    panel.scrollTop = 0;
  }
  function sourceLines({ source, line }) {
    const box = el('div', { class: 'source mono', tabindex: '0', role: 'group', 'aria-label': 'Source' });
    source.lines.forEach((text, offset) => {
      const number = source.first + offset;
      const at = number === line ? ' at' : '';
      box.append(el('span', { class: `no${at}` }, String(number)), el('span', { class: `line${at}` }, text));
    });
    return box;
  }
  // Lines of both values, those that are equal beside each other.
  function sideBySide(expected, actual) {
    const box = el('div', { class: 'diff mono', tabindex: '0', role: 'group', 'aria-label': 'Expected and actual side by side' }, el('div', { class: 'head' }, 'expected'), el('div', { class: 'head' }, 'actual'));
    const left = (expected ?? '').split('\n');
    const right = (actual ?? '').split('\n');
    for (const [a, b] of pairs(left, right)) {
      const same = a === b;
      const [markA, markB] = same || a === null || b === null ? [a, b] : marked(a, b);
      box.append(el('div', { class: a === null || same ? '' : 'add' }, ...[].concat(markA ?? '')), el('div', { class: b === null || same ? '' : 'del' }, ...[].concat(markB ?? '')));
    }
    return box;
  }
  function marked(a, b) {
    let start = 0;
    while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
    let end = 0;
    while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
    const parts = (text) => [text.slice(0, start), el('mark', {}, text.slice(start, text.length - end)), text.slice(text.length - end)];
    return start + end === 0 ? [a, b] : [parts(a), parts(b)];
  }
  // Lines that replace each other: those that are most alike stand beside each other, in their order.
  function beside(gone, come) {
    const [n, m] = [gone.length, come.length];
    if (n === m || n * m > 2500) return Array.from({ length: Math.max(n, m) }, (_, i) => [gone[i] ?? null, come[i] ?? null]);
    const alike = (a, b) => {
      let start = 0;
      while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
      let end = 0;
      while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
      return (start + end) / Math.max(a.length, b.length, 1);
    };
    const best = Array.from({ length: n + 1 }, () => new Float64Array(m + 1));
    for (let i = n - 1; i >= 0; i -= 1) for (let j = m - 1; j >= 0; j -= 1) best[i][j] = Math.max(best[i + 1][j + 1] + alike(gone[i], come[j]), best[i + 1][j], best[i][j + 1]);
    const result = [];
    let [i, j] = [0, 0];
    while (i < n || j < m) {
      if (i < n && j < m && best[i][j] === best[i + 1][j + 1] + alike(gone[i], come[j])) { result.push([gone[i], come[j]]); i += 1; j += 1; }
      else if (j >= m || (i < n && best[i][j] === best[i + 1][j])) { result.push([gone[i], null]); i += 1; }
      else { result.push([null, come[j]]); j += 1; }
    }
    return result;
  }
  function pairs(left, right) {
    // The longest common subsequence of lines; of very long values line by line.
    const [n, m] = [left.length, right.length];
    if (n * m > 400000) return Array.from({ length: Math.max(n, m) }, (_, i) => [left[i] ?? null, right[i] ?? null]);
    const best = Array.from({ length: n + 1 }, () => new Uint32Array(m + 1));
    for (let i = n - 1; i >= 0; i -= 1) for (let j = m - 1; j >= 0; j -= 1) best[i][j] = left[i] === right[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    const result = [];
    let [i, j] = [0, 0];
    let [gone, come] = [[], []];
    const flush = () => { result.push(...beside(gone, come)); gone = []; come = []; };
    while (i < n || j < m) {
      if (i < n && j < m && left[i] === right[j]) { flush(); result.push([left[i], right[j]]); i += 1; j += 1; }
      else if (j >= m || (i < n && best[i + 1][j] >= best[i][j + 1])) { gone.push(left[i]); i += 1; }
      else { come.push(right[j]); j += 1; }
    }
    flush();
    return result;
  }

  // Timeline: when each test ran, tests that overlap below each other.
  const tip = $('tip');
  let boxes = [];
  const timed = [];
  tests.forEach((test, index) => { if (test[END] !== null && test[MS] !== null) timed.push(index); });
  timed.sort((a, b) => tests[a][END] - tests[a][MS] - (tests[b][END] - tests[b][MS]));
  const lanes = [];
  const laneOf = timed.map((index) => {
    const [start, end] = [tests[index][END] - tests[index][MS], tests[index][END]];
    let lane = lanes.findIndex((until) => until <= start + 2);
    if (lane < 0) { lane = lanes.length < 32 ? lanes.length : 31; }
    lanes[lane] = Math.max(lanes[lane] ?? 0, end);
    return lane;
  });
  const total = Math.max(run.duration_s * 1000, timed.length ? timed.reduce((most, index) => Math.max(most, tests[index][END]), 0) : 0);
  // Resources over time: one line for each resource, from samples that proctor took each second.
  const AT = 0;
  const samples = data.usage;
  const rate = (at) => {
    const [now, before] = [samples[at], samples[at - 1]];
    if (!before || now[2] === null || before[2] === null) return null;
    // A new execution counts from zero.
    const used = now[2] >= before[2] ? now[2] - before[2] : now[2];
    return used / Math.max(now[AT] - before[AT], 1);
  };
  const resources = [
    ['Memory', bytes, samples.map((sample) => sample[1])],
    ['Processors', (value) => value.toFixed(2), samples.map((_, at) => rate(at))],
    ['Processes', (value) => String(value), samples.map((sample) => sample[3])],
  ].filter(([, , values]) => values.some((value) => value !== null));
  const charts = [];
  if (samples.length > 1) {
    $('usage-card').hidden = false;
    $('usage-note').textContent = `${samples.length} samples in ${ms(samples[samples.length - 1][AT])}; between two samples there may be a peak that none shows.`;
    for (const [title, show, values] of resources) {
      const known = values.filter((value) => value !== null);
      const most = Math.max(...known);
      const text = `${title}, at most ${show(most)} in a sample`;
      const canvas = el('canvas', { class: 'chart', role: 'img', 'aria-label': text });
      charts.push({ canvas, values, most, show });
      $('usage').append(el('div', {}, el('p', { class: 'where' }, text), canvas));
    }
  }
  function drawUsage() {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const ratio = window.devicePixelRatio || 1;
    const last = Math.max(samples.length ? samples[samples.length - 1][AT] : 0, 1);
    for (const { canvas, values, most } of charts) {
      const [width, height] = [canvas.clientWidth, 72];
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      const context = canvas.getContext('2d');
      context.scale(ratio, ratio);
      context.strokeStyle = color('--line');
      for (const y of [0.5, height / 2, height - 0.5]) { context.beginPath(); context.moveTo(0, y); context.lineTo(width, y); context.stroke(); }
      context.strokeStyle = color('--good-fill');
      context.lineWidth = 1.5;
      context.beginPath();
      let isDrawn = false;
      values.forEach((value, at) => {
        if (value === null) { isDrawn = false; return; }
        const [x, y] = [4 + (samples[at][AT] / last) * (width - 8), height - 4 - (value / (most || 1)) * (height - 8)];
        if (isDrawn) context.lineTo(x, y);
        else context.moveTo(x, y);
        isDrawn = true;
      });
      context.stroke();
    }
  }
  addEventListener('resize', drawUsage);

  function drawTimeline() {
    drawUsage();
    if (!timed.length) return;
    const canvas = $('timeline');
    const width = canvas.clientWidth;
    const height = Math.max(1, lanes.length) * 22 + 26;
    const ratio = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const context = canvas.getContext('2d');
    context.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const colors = { failed: color('--bad-fill'), passed: color('--good-fill'), skipped: color('--skip-fill'), xfailed: color('--warn-fill') };
    const [left, scale] = [6, (width - 12) / Math.max(total, 1)];
    context.font = '11px system-ui, sans-serif';
    context.fillStyle = color('--soft');
    context.strokeStyle = color('--line');
    const tick = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000, 300000, 600000].find((step) => total / step <= 8) || 1800000;
    for (let time = 0; time <= total; time += tick) {
      const x = Math.round(left + time * scale) + 0.5;
      context.beginPath(); context.moveTo(x, 0); context.lineTo(x, height - 18); context.stroke();
      if (x < width - 40) context.fillText(time === 0 ? '0' : ms(time), x + 3, height - 5);
    }
    boxes = [];
    const paint = (failures) => timed.forEach((index, at) => {
      const test = tests[index];
      const kind = colorOf(kinds[test[KIND]]);
      if ((kind === 'failed') !== failures) return;
      const box = { index, x: left + Math.max(0, test[END] - test[MS]) * scale, y: 3 + laneOf[at] * 22, w: Math.max(1.5, test[MS] * scale - 0.5), h: 17 };
      context.fillStyle = colors[kind];
      context.fillRect(box.x, box.y, box.w, box.h);
      boxes.push(box);
    });
    paint(false);
    paint(true);
  }
  if (timed.length) {
    $('timeline-card').hidden = false;
    $('timeline-note').textContent = `${plural(timed.length, 'test')} in ${plural(lanes.length, 'lane')}; a lane holds tests that did not overlap. Times are when proctor read the results.`;
    const canvas = $('timeline');
    canvas.setAttribute('aria-label', `When ${timed.length} tests ran. The list of tests and the slowest tests have the same times as text.`);
    const hit = (event) => {
      const area = canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - area.left, event.clientY - area.top];
      for (let at = boxes.length - 1; at >= 0; at -= 1) {
        const box = boxes[at];
        if (x >= box.x - 1 && x <= box.x + box.w + 1 && y >= box.y && y <= box.y + box.h) return box;
      }
      return null;
    };
    canvas.addEventListener('mousemove', (event) => {
      const box = hit(event);
      tip.hidden = !box;
      if (!box) return;
      tip.textContent = `${tests[box.index][NAME]} · ${kinds[tests[box.index][KIND]]} · ${ms(tests[box.index][MS])}`;
      tip.style.left = `${Math.min(event.clientX + 12, innerWidth - 260)}px`;
      tip.style.top = `${event.clientY + 14}px`;
    });
    canvas.addEventListener('mouseleave', () => { tip.hidden = true; });
    canvas.addEventListener('click', (event) => { const box = hit(event); if (box) reveal(box.index); });
    addEventListener('resize', drawTimeline);
  }

  // Slowest tests.
  const link = (index, text) => el('button', { class: 'link', type: 'button', on: { click: () => reveal(index) } }, text);
  // The time of a subtest is in that of its parent.
  const subtests = new Set(data.subtests);
  const whole = tests.map((_, index) => index).filter((index) => tests[index][MS] > 0 && !subtests.has(index));
  const byTime = whole.sort((a, b) => tests[b][MS] - tests[a][MS]).slice(0, 12);
  if (byTime.length) {
    const sum = whole.reduce((all, index) => all + tests[index][MS], 0);
    $('slowest-note').textContent = `${ms(sum)} in all tests together; the ${byTime.length === 1 ? 'slowest took' : `${byTime.length} slowest took`} ${Math.round((100 * byTime.reduce((all, index) => all + tests[index][MS], 0)) / sum)} %.`;
    for (const index of byTime) {
      const parts = partsOf(tests[index]);
      $('slowest').append(el('div', {}, link(index, tests[index][NAME]), parts ? el('div', { class: 'where' }, parts) : null), el('span', { class: `track k-${colorOf(kinds[tests[index][KIND]])}`, 'aria-hidden': 'true' }, el('i', { style: { width: `${Math.max(1, (100 * tests[index][MS]) / tests[byTime[0]][MS])}%` } })), el('span', { class: 'n' }, ms(tests[index][MS])));
    }
  } else $('slowest-card').hidden = true;

  // History: one bar for each earlier run, oldest first.
  const strip = (id, runs, value, label, kindOf) => {
    const most = Math.max(...runs.map((past) => value(past) ?? 0), 1e-9);
    $(id).append(...runs.map((past) => el('i', { class: kindOf(past), style: { height: `${Math.max(5, (100 * (value(past) ?? 0)) / most)}%` }, title: `${day(past.ended)}: ${past.outcome.replace('_', ' ')}, ${past.passed} passed, ${past.failed} failed, ${label(past)}` })));
  };
  const history = data.history.slice().reverse();
  if (history.length > 1) {
    $('history-card').hidden = false;
    strip('history', history, (past) => past.duration_s, (past) => ms(past.duration_s * 1000), (past) => `k-${past.outcome === 'passed' ? 'passed' : 'failed'}`);
    const red = history.filter((past) => past.outcome !== 'passed').length;
    $('history-note').textContent = `The last ${history.length} recorded runs, oldest first; height is duration. ${red} did not pass.`;
    $('history').setAttribute('aria-label', $('history-note').textContent);
    $('history-from').textContent = day(history[0].ended);
    $('history-to').textContent = day(history[history.length - 1].ended);
    const withMemory = history.filter((past) => past.memory_peak_bytes !== null);
    if (withMemory.length > 1) {
      $('memory-box').hidden = false;
      strip('memory', withMemory, (past) => past.memory_peak_bytes, (past) => bytes(past.memory_peak_bytes), () => '');
      $('memory').setAttribute('aria-label', `Highest memory use of ${withMemory.length} runs`);
      $('memory-note').textContent = `Peak memory of these runs, at most ${bytes(Math.max(...withMemory.map((past) => past.memory_peak_bytes)))}`;
    }
  }
  const percent = (part) => `${Math.round(part * 100)} %`;
  if (!data.flaky.length && !data.slower.length) $('facts-card').classList.add('wide');
  else {
    $('unsteady-card').hidden = false;
    for (const flaky of data.flaky) $('unsteady').append(el('tr', {}, el('td', {}, flaky.test === null ? flaky.name : link(flaky.test, flaky.name)), el('td', {}, 'flaky'), el('td', { class: 'n' }, `${flaky.failures} of ${flaky.runs} failed (${percent(flaky.failures / flaky.runs)})`)));
    for (const slow of data.slower) $('unsteady').append(el('tr', {}, el('td', {}, slow.test === null ? slow.name : link(slow.test, slow.name)), el('td', {}, 'slower'), el('td', { class: 'n' }, `${ms(slow.before_ms)} → ${ms(slow.now_ms)} (${slow.factor.toFixed(1)}×)`)));
  }

  // Lines that may have the bug.
  if (data.suspects) {
    const { failed, passed, lines } = data.suspects;
    $('suspects-card').hidden = false;
    $('suspects-note').textContent = `Lines that failed tests executed and passed tests did not, or seldom: ${failed} failed and ${passed} passed tests were measured. A bug may be elsewhere.`;
    const tests = (count, of, names) => el('td', {}, `${count.toLocaleString()} of ${of.toLocaleString()}`, ...names.map((one) => el('div', {}, one.test === null ? one.name : link(one.test, one.name))), count > names.length ? el('div', { class: 'where' }, `and ${(count - names.length).toLocaleString()} more`) : null);
    for (const one of lines) {
      const at = `${one.path}:${one.first}${one.last > one.first ? `-${one.last}` : ''}`;
      const notes = [one.in_stacks ? `innermost in ${one.in_stacks} stack(s)` : '', one.edited ? 'edited since the run began' : ''].filter(Boolean).join(', ');
      $('suspects').append(el('tr', {}, el('td', {}, at, el('div', {}, el('b', {}, one.function ?? '')), notes ? el('div', { class: 'where' }, notes) : null), el('td', {}, el('code', {}, one.source ?? '')), tests(one.failed, failed, one.failed_tests), tests(one.passed, passed, one.passed_tests)));
    }
  }

  // Resources and the sandbox.
  for (const [name, value] of data.facts) $('facts').append(el('div', { class: value.length > 40 ? 'long' : '' }, el('dt', {}, name), el('dd', {}, value)));
  $('started').textContent = day(run.started_ms);
  apply();
  drawTimeline();
  document.documentElement.dataset.ready = 'true';
})();
