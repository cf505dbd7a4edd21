// Writes what Vitest does to proctor's report, as it happens.
//
// A test that the name filter excludes is skipped, as is one that skips itself; only its name distinguishes them.
'use strict';

const report = require('../js/report.cjs');

const { SEPARATOR, locationFields, textBeforeStack, describeLoadError, end, packageOf, joinTitles, projectLocation, stripAnsi, emitBatched: emit, projectStack, formatValue } = report;

class Reporter {
  constructor(filter) {
    this.filter = filter;
    this.counts = new Map();
    // Files and suites whose errors were reported, by themselves or by a test that they kept from running.
    this.told = new Set();
    this.finished = new WeakSet();
    // Files that are loaded, and their tests.
    this.collected = 0;
    this.tests = 0;
    // Output of tests that have not ended, by their ids.
    this.written = new Map();
  }

  // Before Vitest 3 the number of files is not known.
  onTestRunStart(files) {
    emit('begin');
    this.files = files?.length;
  }

  // Vitest runs the first files while it loads others. One that cannot be loaded has no such event, and the run then no total.
  onTestModuleCollected(module) {
    this.collected += 1;
    for (const test of module.children.allTests()) if (this.isSelected(test)) this.tests += 1;
    if (this.collected === this.files) emit('total', { tests: this.tests });
  }

  // Vitest does not wait for one event to be reported before the next.
  onTestCaseReady(test) {
    if (this.finished.has(test)) return;
    if (test.options.mode === 'run' || test.options.mode === 'only') emit('started', this.idOf(test));
  }

  onUserConsoleLog({ taskId, content }) {
    if (taskId) this.written.set(taskId, stripAnsi((this.written.get(taskId) ?? '') + content));
  }

  onTestCaseResult(test) {
    this.finished.add(test);
    const result = test.result();
    const output = this.written.get(test.id);
    this.written.delete(test.id);
    if (result.state === 'skipped' && !this.isSelected(test)) return;
    const id = this.idOf(test);
    const nodeid = id.package + SEPARATOR + id.name;
    this.count(id, nodeid);
    const { duration, flaky, retryCount } = test.diagnostic() ?? {};
    emit('finished', {
      ...id,
      nodeid,
      duration_s: typeof duration === 'number' ? duration / 1000 : undefined,
      output,
      failed_attempts: flaky ? retryCount : undefined,
      ...this.became(test, result),
    });
  }

  onTestModuleEnd(module) {
    this.tellErrors(module, module);
    for (const suite of module.children.allSuites()) this.tellErrors(suite, module);
  }

  onTestRunEnd(modules, errors, reason) {
    // A file that could not be loaded has no end event.
    for (const module of modules) this.tellErrors(module, module);
    this.tellUnhandled(errors);
    if (reason !== 'interrupted') end(this.left(modules));
  }

  list(modules, errors) {
    for (const module of modules) {
      this.tellErrors(module, module);
      for (const test of module.children.allTests()) if (this.isSelected(test)) emit('listed', this.idOf(test));
    }
    this.tellUnhandled(errors);
    end();
  }

  // Number of files that were not run, and of tests that were collected and have no result.
  left(modules) {
    const isOpen = (state) => state === undefined || state === 'pending' || state === 'queued';
    let left = 0;
    for (const module of modules) {
      if (isOpen(module.state?.() ?? 'passed')) left += 1;
      for (const test of module.children.allTests()) if (isOpen(test.result()?.state)) left += 1;
    }
    return left;
  }

  became(test, result) {
    if (result.state === 'passed') return { outcome: test.options.fails ? 'xfailed' : 'passed' };
    if (result.state === 'failed') return { outcome: 'failed', ...failure(test, result.errors) };
    // A hook of an enclosing suite failed, and Vitest skipped the test.
    const around = test.options.mode === 'run' ? failedAround(test) : undefined;
    if (around) {
      this.told.add(around);
      return { outcome: 'error', ...failure(test, around.errors()) };
    }
    const message = result.note ?? (test.options.mode === 'todo' ? 'todo' : undefined);
    return { outcome: 'skipped', ...locationFields(inFile(test)), message };
  }

  // Reports errors of a file or a suite beside those of its tests.
  tellErrors(entity, module) {
    if (this.told.has(entity)) return;
    const errors = entity.errors();
    // Returns early in the usual case: looking for the tests costs time proportional to their number.
    if (errors.length === 0) return;
    this.told.add(entity);
    const file = packageOf(module.moduleId);
    const outside = [...module.children.allTests()].length > 0 ? 'failed outside of its tests: ' : '';
    for (const error of errors) {
      const { message, ...place } = describeLoadError(error);
      emit('collector', { nodeid: file, ...locationFields({ file: module.moduleId }), ...place, message: outside + message, output: textOf(error) });
    }
  }

  tellUnhandled(errors) {
    for (const error of errors) {
      const { message, ...place } = describeLoadError(error);
      const file = error.VITEST_TEST_PATH;
      const nodeid = file ? packageOf(file) : '.';
      emit('collector', { nodeid, ...place, message: `failed outside of its tests: ${message}`, output: textOf(error) });
    }
  }

  idOf(test) {
    return { package: packageOf(test.module.moduleId), name: joinTitles(titlesOf(test)) };
  }

  isSelected(test) {
    const titles = titlesOf(test);
    const { filter } = this;
    return !filter || [titles.join(' '), titles.join(SEPARATOR)].some((name) => name.search(filter) >= 0);
  }

  count(id, nodeid) {
    const count = (this.counts.get(nodeid) ?? 0) + 1;
    this.counts.set(nodeid, count);
    if (count === 2) emit('note', { text: `${id.package}: several tests are called ${JSON.stringify(id.name)}` });
  }
}

function titlesOf(test) {
  const titles = [];
  for (let entity = test; entity && entity.type !== 'module'; entity = entity.parent) titles.unshift(entity.name);
  return titles;
}

function failedAround(test) {
  for (let suite = test.parent; suite; suite = suite.parent) if (suite.errors().length > 0) return suite;
  return undefined;
}

function failure(test, errors) {
  const [first] = errors;
  const known = 'expected' in first && 'actual' in first && (first.diff || first.showDiff);
  const text = (value) => (typeof value === 'string' ? stripAnsi(value) : formatValue(value));
  return {
    ...locationFields(placeIn(first) ?? inFile(test)),
    message: messageOf(first),
    expected: known ? text(first.expected) : undefined,
    actual: known ? text(first.actual) : undefined,
    stack: errors.map((error) => projectStack(error.stack)).join('\n\n'),
  };
}

// Prefixes the message with the error's class, unless it is `Error` or `AssertionError`.
function messageOf(error) {
  const said = stripAnsi(error.message || textBeforeStack(error.stack));
  return ['Error', 'AssertionError', undefined].includes(error.name) ? said : `${error.name}: ${said}`;
}

const placeIn = (error) => projectLocation(error.stack ?? error.stackStr);
const inFile = (test) => ({ file: test.module.moduleId, line: test.location?.line });
const textOf = (error) => stripAnsi(error.stack ?? error.message ?? error);

module.exports = { Reporter };
