// Writes what Jest does to proctor's report, as it happens.
//
// A test that the name filter excludes is pending, as is a skipped one; only its name distinguishes them. A test that may run
// again after a failure is reported when its file is done, since Jest reports each try.
'use strict';

const fs = require('node:fs');
const { locationFields, textBeforeStack, describeLoadError, end, packageOf, joinTitles, projectLocation, stripAnsi, emit, projectStack, formatValue } = require('../js/report.cjs');

const OUTCOMES = { passed: 'passed', failed: 'failed', pending: 'skipped', skipped: 'skipped', disabled: 'skipped', todo: 'skipped' };
const LISTING = process.env.PROCTOR_LISTING;

class Reporter {
  constructor(globalConfig) {
    const pattern = LISTING ?? globalConfig.testNamePattern;
    this.filter = pattern ? new RegExp(pattern, 'i') : null;
    this.files = new Map();
    this.ended = 0;
  }

  onRunStart() {
    emit('begin', { runner: 'jest' });
  }

  onTestFileStart(test) {
    this.files.set(test.path, { started: new Map(), told: new Map(), became: new Map(), output: new Map(), retries: mayRetry(test) });
    emit('opened', { package: packageOf(test.path) });
  }

  // The names of these events before Jest 26.
  onTestStart(test) {
    this.onTestFileStart(test);
  }

  onTestResult(test, result) {
    this.onTestFileResult(test, result);
  }

  onTestCaseStart(test, info) {
    const file = this.file(test);
    const name = this.nameOf(info);
    if (LISTING !== undefined || info.mode === 'skip' || !this.isSelected(info)) return;
    file.started.set(name, info);
    emit('started', { package: packageOf(test.path), name });
  }

  onTestCaseResult(test, result) {
    const file = this.file(test);
    if (LISTING !== undefined) return;
    if (result.output) file.output.set(this.nameOf(result), result.output);
    if (result.status === 'failed' && file.retries) return;
    this.tell(test, result);
  }

  onTestFileResult(test, result) {
    const file = this.file(test);
    this.files.delete(test.path);
    this.ended += 1;
    const name = packageOf(test.path);
    emit('closed', { package: name });
    const counts = new Map();
    for (const one of result.testResults) {
      const title = this.nameOf(one);
      counts.set(title, (counts.get(title) ?? 0) + 1);
      if (LISTING !== undefined) {
        if (this.isSelected(one)) emit('listed', { package: name, name: title });
      } else if ((file.told.get(title) ?? 0) < counts.get(title)) {
        this.tell(test, one, file);
      } else if (one.status === 'failed' && file.told.get(title) === 1 && file.became.get(title) !== outcomeOf(one)) {
        this.tellLate(test, one, name, title);
      }
    }
    const twice = [...counts].find(([, count]) => count > 1);
    if (twice) emit('note', { text: `${name}: ${twice[1]} tests are called ${JSON.stringify(twice[0])}` });
    const error = result.testExecError;
    if (!error) return;
    for (const [title] of file.started) {
      if (counts.has(title) || file.told.has(title)) continue;
      const message = `did not finish: ${firstLine(error.message ?? error)}`;
      emit('finished', { package: name, name: title, nodeid: `${name} > ${title}`, outcome: 'error', message });
    }
    emit('collector', { nodeid: name, ...explain(test, result) });
  }

  onRunComplete(contexts, results) {
    const error = results?.runExecError;
    if (error) emit('collector', { nodeid: '.', ...describeLoadError(error) });
    // With `bail` Jest ends the run here, without naming the files that did not run.
    const left = (results?.numTotalTestSuites ?? 0) - this.ended;
    if (left > 0) emit('note', { text: `${left} file(s) did not run: Jest ended before them (bail)`, unreached: true });
    if (!results?.wasInterrupted) end(Math.max(0, left));
  }

  file(test) {
    if (!this.files.has(test.path)) this.onTestFileStart(test);
    return this.files.get(test.path);
  }

  nameOf(info) {
    return joinTitles([...info.ancestorTitles, info.title]);
  }

  isSelected(info) {
    return !this.filter || this.filter.test([...info.ancestorTitles, info.title].join(' '));
  }

  // Reports a failure of a test after its end, when the test was already reported.
  tellLate(test, result, nodeid, title) {
    const { file, line, message, stack } = failure(test, result);
    emit('collector', { nodeid, file, line, message: `${title} failed after its end: ${message}`, output: stack });
  }

  tell(test, result, file = this.file(test)) {
    if (result.status === 'pending' && !this.isSelected(result)) return;
    const name = this.nameOf(result);
    file.told.set(name, (file.told.get(name) ?? 0) + 1);
    file.became.set(name, outcomeOf(result));
    const where = packageOf(test.path);
    emit('finished', {
      package: where,
      name,
      nodeid: `${where} > ${name}`,
      outcome: outcomeOf(result),
      duration_s: typeof result.duration === 'number' ? result.duration / 1000 : undefined,
      output: file.output.get(name),
      failed_attempts: result.status === 'passed' && result.invocations > 1 ? result.invocations - 1 : undefined,
      ...(result.status === 'failed' ? failure(test, result) : skip(test, result)),
    });
  }
}

// Jest reports a test that a failed hook kept from running as failed; the stack frame of the hook tells them apart.
function outcomeOf({ status, failing, failureMessages }) {
  if (status === 'passed' && failing) return 'xfailed';
  if (status === 'failed' && failureMessages[0]?.includes('_callCircusHook')) return 'error';
  return OUTCOMES[status] ?? 'error';
}

function skip(test, result) {
  if (OUTCOMES[result.status] !== 'skipped') return {};
  return { ...locationFields(inFile(test, result)), message: result.status === 'todo' ? 'todo' : undefined };
}

// The first failure of a test; further ones are in its stack.
function failure(test, result) {
  const [thrown] = result.failureMessages;
  const [details] = result.failureDetails ?? [];
  // For an error with a cause, or with several errors, the matcher's result is in the error that the test threw first.
  const matcher = details?.matcherResult ?? details?.error?.matcherResult;
  // Before Jest 28 the message is a function that returns it.
  const said = typeof matcher?.message === 'string' ? stripAnsi(matcher.message) : textBeforeStack(thrown);
  // A missing snapshot has no expected value.
  const absent = /Snapshot/.test(matcher?.name) && matcher.expected === undefined;
  const both = matcher && 'expected' in matcher && 'actual' in matcher && !absent;
  return {
    ...locationFields(projectLocation(thrown) ?? inFile(test, result)),
    message: both ? said.split('\n\n')[0].trim() : said.trim(),
    expected: both ? formatValue(matcher.expected) : undefined,
    actual: both ? formatValue(matcher.actual) : undefined,
    stack: result.failureMessages.map(projectStack).join('\n\n'),
  };
}

// Why a file has results beside those of its tests, or none.
function explain(test, result) {
  const output = stripAnsi(result.failureMessage ?? '');
  const { message, ...place } = describeLoadError(result.testExecError, output);
  const told = /Test suite failed to run\s+(.+)/.exec(output)?.[1];
  const outside = result.testResults.length > 0 ? 'failed outside of its tests: ' : '';
  return { ...locationFields({ file: test.path }), ...place, message: outside + (message || told || 'failed'), output };
}

const inFile = (test, result) => ({ file: test.path, line: result.location?.line });
const firstLine = (text) => stripAnsi(text).split('\n')[0];

// Whether a failing test of the file may run again: the file or its set-up files call `jest.retryTimes`.
function mayRetry(test) {
  const config = test.context?.config ?? {};
  return [test.path, ...(config.setupFilesAfterEnv ?? [])].some((file) => {
    try {
      return fs.readFileSync(file, 'utf8').includes('retryTimes');
    } catch {
      return false;
    }
  });
}

module.exports = Reporter;
