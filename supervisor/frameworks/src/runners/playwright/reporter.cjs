// Writes what Playwright does to proctor's report, as it happens.
//
// A test's attempts are one test here: it is reported when no further attempt can follow. Its name begins with its project in
// brackets, if that has a name: the same test runs in several.
'use strict';

const path = require('node:path');
const { SEPARATOR, locationFields, describeLoadError, end, packageOf, joinTitles, stripAnsi, endOfOutput, emit, projectStack } = require('../js/report.cjs');

const OLDEST = [1, 50];

// Kinds of files that tests leave, under the names that Playwright and proctor share.
const KINDS = ['screenshot', 'trace', 'video'];

const listing = process.env.PROCTOR_LISTING !== undefined;
const artifacts = process.env.PROCTOR_ARTIFACTS;
for (const ours of ['PROCTOR_LISTING', 'PROCTOR_ARTIFACTS', 'PW_TEST_REPORTER']) delete process.env[ours];

class Reporter {
  constructor() {
    this.began = false;
    // Tests that were reported, and those that may have further attempts.
    this.told = new Set();
    this.open = new Map();
    this.suite = undefined;
    emit('begin');
  }

  printsToStdio() {
    return false;
  }

  onBegin(config, suite) {
    const version = config.version.split('.', 2).map(Number);
    if (version[0] < OLDEST[0] || (version[0] === OLDEST[0] && version[1] < OLDEST[1])) {
      process.stderr.write(`proctor: playwright ${config.version} is too old: ${OLDEST.join('.')} or newer is needed\n`);
      process.exit(127);
    }
    this.began = true;
    this.suite = suite;
    if (listing) for (const test of suite.allTests()) emit('listed', idOf(test));
    else emit('total', { tests: suite.allTests().length });
  }

  onTestBegin(test, result) {
    if (result.retry === 0 && !this.told.has(test)) emit('started', { ...idOf(test), ...locationFields(test.location) });
  }

  onTestEnd(test, result) {
    tellArtifacts(test, result);
    if (this.told.has(test)) return;
    if (isLast(test, result)) this.tell(test, result);
    else this.open.set(test, result);
  }

  // Errors that belong to no test: files that cannot be loaded, the global set-up, a worker that cannot be torn down.
  onError(error) {
    if (/^(Error: )?No tests found/.test(stripAnsi(error.message))) return;
    const { message, ...place } = describeLoadError(error);
    const file = error.location ? { file: error.location.file, line: error.location.line } : place;
    const nodeid = file.file ? packageOf(file.file) : '.';
    const outside = this.began && this.suite.allTests().length > 0 ? 'failed outside of its tests: ' : '';
    const output = stripAnsi([error.stack ?? error.message ?? error.value, error.snippet].filter(Boolean).join('\n'));
    emit('collector', { nodeid, ...file, message: outside + withoutPlace(withoutClass(message)), output });
  }

  onEnd(result) {
    for (const [test, last] of this.open) if (!this.told.has(test)) this.tell(test, last);
    this.open.clear();
    const left = listing ? 0 : (this.suite?.allTests().filter((test) => !this.told.has(test)).length ?? 0);
    if (left > 0) emit('note', { text: `${left} test(s) did not run: Playwright ended before them (${result.status})`, unreached: true });
    if (result.status !== 'interrupted') end(left);
  }

  tell(test, result) {
    this.told.add(test);
    this.open.delete(test);
    const id = idOf(test);
    const nodeid = id.package + SEPARATOR + id.name;
    const failed_attempts = test.outcome() === 'flaky' ? result.retry : undefined;
    const became = becameOf(test, result);
    const output = became.outcome === 'passed' ? undefined : outputOf(result);
    emit('finished', { ...id, nodeid, duration_s: result.duration / 1000, setup_s: setupOf(result), failed_attempts, ...became, output });
  }
}

// Whether no attempt follows. A test of a serial group runs again when another of the group failed.
function isLast(test, result) {
  if (test.retries === 0) return true;
  if (result.status === 'interrupted') return false;
  return result.retry >= test.retries || (isExpected(test, result) && !isSerial(test));
}

function isSerial(test) {
  for (let suite = test.parent; suite; suite = suite.parent) if (suite._parallelMode === 'serial') return true;
  return false;
}

const isExpected = (test, result) => result.status === 'skipped' || result.status === test.expectedStatus;

function becameOf(test, result) {
  const declared = locationFields(test.location);
  if (result.status === 'skipped') {
    if (test.expectedStatus === 'skipped') return { outcome: 'skipped', ...declared, message: reasonOf(test, result) };
    const message = 'did not run: a hook or an earlier test of its group failed';
    return { outcome: 'error', ...declared, message };
  }
  if (isExpected(test, result)) return { outcome: test.expectedStatus === 'failed' ? 'xfailed' : 'passed' };
  if (result.status === 'passed') return { outcome: 'failed', ...declared, message: 'passed, and was expected to fail' };
  if (result.status === 'interrupted') return { outcome: 'error', ...declared, message: 'was interrupted' };
  return { outcome: 'failed', ...failure(test, result) };
}

// Seconds in fixtures and hooks, which Playwright tells as steps around those of the test.
function setupOf(result) {
  const around = (result.steps ?? []).filter((step) => step.category === 'hook');
  return around.length > 0 ? around.reduce((sum, step) => sum + Math.max(0, step.duration), 0) / 1000 : undefined;
}

// Why a test is skipped or marked fixme.
function reasonOf(test, result) {
  const annotations = [...(result.annotations ?? []), ...test.annotations];
  const why = annotations.find(({ type }) => type === 'skip' || type === 'fixme');
  return why?.description ?? (why?.type === 'fixme' ? 'fixme' : undefined);
}

function failure(test, result) {
  const [first] = result.errors;
  if (!first) return { ...locationFields(test.location), message: result.status };
  const text = stripAnsi(first.message ?? first.value ?? first.stack);
  const more = result.errors.length > 1 ? ` (and ${result.errors.length - 1} more)` : '';
  return {
    ...locationFields(first.location ?? test.location),
    message: messageOf(text) + more,
    ...valuesOf(text),
    stack: result.errors.map((error) => projectStack(error.stack)).filter(Boolean).join('\n\n') || undefined,
  };
}

// Removes the error's class if it is the plain one.
const withoutClass = (text) => text.replace(/^(Error|AssertionError): /, '');

// Removes the file, which has a field of its own, and the require stack, which is in the output.
const withoutPlace = (text) => text.replace(/^(\w*Error: )?\/[^\s:]+: /, '$1').replace(/\nRequire stack:[^]*$/, '');

// The message of an assertion, with its locator; the values have fields of their own.
function messageOf(text) {
  const said = withoutClass(text.trim());
  const isAssertion = /^(.*\n\n)?expect(\.soft)?\(/s.test(said);
  if (!isAssertion) return said.split('\n\nCall log:', 1)[0].replace(/\n\s+at [^]*$/, '').trim();
  const paragraphs = said.split('\n\n');
  const head = paragraphs.slice(0, paragraphs.findIndex((part) => /^expect(\.soft)?\(/.test(part)) + 1).join('\n');
  const locator = /^Locator: +(.+)$/m.exec(said);
  return locator ? `${head} of ${locator[1]}` : head;
}

// The two values of an assertion, parsed from its message: reporters do not get the values.
function valuesOf(text) {
  const lines = text.split('\n');
  const from = lines.findIndex((line) => /^- Expected +- \d+$/.test(line));
  if (from >= 0) return ofDiff(lines.slice(from + 2));
  const value = (label) => new RegExp(`^${label}(?: [a-z ]+)?: +(.+)$`, 'm').exec(text)?.[1];
  const expected = value('Expected');
  const actual = value('Received');
  return expected !== undefined && actual !== undefined ? { expected, actual } : {};
}

function ofDiff(lines) {
  const first = lines.findIndex((line) => line.trim() !== '');
  if (first < 0) return {};
  const rest = lines.slice(first);
  const end = rest.findIndex((line) => !/^[-+@ ]/.test(line));
  const diff = rest.slice(0, end < 0 ? undefined : end);
  // A long diff omits parts, so the values would be incomplete.
  if (diff.some((line) => line.startsWith('@@'))) return {};
  const side = (other) => diff.filter((line) => !line.startsWith(other)).map((line) => line.slice(2)).join('\n');
  return { expected: side('+'), actual: side('-') };
}

const textOf = (chunks) => chunks.map((chunk) => (typeof chunk === 'string' ? chunk : chunk.toString('utf8'))).join('');

function outputOf(result) {
  const output = endOfOutput([textOf(result.stdout), textOf(result.stderr)].filter(Boolean).join('\n'));
  return output === '' ? undefined : output;
}

// Reports files that an attempt left, by their path in the directory that proctor keeps.
function tellArtifacts(test, result) {
  if (!artifacts) return;
  for (const { name, path: file } of result.attachments) {
    const place = file && path.relative(artifacts, file);
    if (place && !place.startsWith('..') && !path.isAbsolute(place)) emit('artifact', { ...idOf(test), path: place, kind: KINDS.includes(name) ? name : 'other' });
  }
}

function idOf(test) {
  const [, project, , ...titles] = test.titlePath();
  const within = titles.filter((title) => title !== '');
  return { package: packageOf(test.location.file), name: joinTitles(project ? [`[${project}]`, ...within] : within) };
}

module.exports = Reporter;
