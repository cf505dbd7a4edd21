// Measures the lines of the tests of a file, in the file's own process. In the runner's process it records which files that one loads.
'use strict';

const Module = require('node:module');
const path = require('node:path');
const { fileURLToPath } = require('node:url');

const { attempt, noteFor, noteRunnerFiles, readSettings, takeSettings } = require('../js/lines.cjs');
const { HAS_HOOKS, NODES_WITH_HOOKS, watchStarts } = require('../js/node_internals.cjs');
const { SEPARATOR, printableTitle } = require('../js/report.cjs');
const { atEnd, follow, ownFile } = require('./process_tests.cjs');

// The outermost test around a test. A subtest exists only while that one runs, so it has its lines.
function outermost(test) {
  let found = test;
  for (let at = test; at.parent; at = at.parent) if (!isSuite(at)) found = at;
  return found;
}

// A test's name in the report (`reporter.cjs`).
function nameOf(test) {
  const { parent } = test;
  if (!parent?.parent) return printableTitle(test.name);
  return nameOf(parent) + (isSuite(parent) ? SEPARATOR : '/') + printableTitle(test.name);
}

const isSuite = (test) => test.reportedType === 'suite';

// Tells the measurement which test runs.
class TestsOfFile {
  #file;
  #lines;
  // Names of the subtests of each test that runs.
  #subtests = new Map();
  // A test that runs the hooks of its suite first.
  #waiting;
  #hasTests = false;

  constructor(file, lines) {
    this.#file = file;
    this.#lines = lines;
  }

  begin(test) {
    const outer = outermost(test);
    if (outer !== test) return void this.#subtests.get(outer)?.push(nameOf(test));
    this.#subtests.set(test, []);
    this.#hasTests = true;
    if (test.parent.hooks.before.length > 0) this.#waiting = test;
    else this.#lines.begin(test);
  }

  // What these hooks execute belongs to all tests of the file. Those before the tests of a suite run within the first one.
  suiteHooks(suite, done) {
    const test = this.#waiting?.parent === suite ? this.#waiting : undefined;
    this.#waiting = undefined;
    const hooks = {};
    this.#lines.begin(hooks);
    const ended = () => attempt(() => {
      this.#lines.endShared(hooks);
      if (this.#subtests.has(test)) this.#lines.begin(test);
    });
    done.then(ended, ended);
  }

  end(test) {
    const subtests = this.#subtests.get(test);
    if (!this.#subtests.delete(test)) return;
    this.#lines.end(test, this.#file, [nameOf(test)], subtests);
  }

  // A file without tests is a test itself.
  endOfProcess() {
    if (!this.#hasTests) {
      this.#hasTests = true;
      this.#lines.begin(this);
      this.#lines.end(this, this.#file, [path.basename(this.#file)]);
    }
    this.#lines.outside();
    this.#lines.endOfTests();
  }
}

function measure(settings, file) {
  // Loaded here, so that workers and processes that a test starts stay as they are.
  const { MeasuredModules } = require('../js/modules.cjs');
  const modules = new MeasuredModules(settings, { entry: file });
  const { lines } = modules;
  watchStarts(() => attempt(() => lines.started()));
  const tests = new TestsOfFile(file, lines);
  follow({
    begin: (test) => attempt(() => tests.begin(test)),
    end: (test) => attempt(() => tests.end(test)),
    suiteHooks: (suite, done) => attempt(() => tests.suiteHooks(suite, done)),
  });
  // A listener may be the last to run, as where it ends the process itself.
  const end = () => attempt(() => {
    tests.endOfProcess();
    lines.loadedAll(file, modules.loaded());
  });
  atEnd({ exit: end, exited: end });
}

// Says which files the runner's own process loads, such as those of `--import` and of a global set-up.
function recordRunner(settings) {
  const loaded = new Set();
  Module.registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      attempt(() => found.url.startsWith('file:') && loaded.add(fileURLToPath(found.url)));
      return found;
    },
  });
  noteRunnerFiles(settings, undefined, () => [...loaded]);
}

function whyNot() {
  if (!HAS_HOOKS) return `that needs ${NODES_WITH_HOOKS}`;
  if (process.execArgv.some((option) => /isolation=none$/.test(option))) return 'they all run in one process';
  const isCoverage = process.execArgv.includes('--experimental-test-coverage') || process.env.NODE_V8_COVERAGE !== undefined;
  return isCoverage ? "the project's own measurement with V8 would count what is added for it" : undefined;
}

// The runner's process, which gives its environment to those of the files.
function startRunner() {
  const settings = readSettings();
  if (settings === undefined) return;
  const why = whyNot();
  if (why === undefined) return recordRunner(settings);
  takeSettings();
  noteFor(settings, `lines are not measured test by test: ${why}`);
}

function startFile(file) {
  const settings = takeSettings();
  if (settings !== undefined) measure(settings, file);
}

const file = ownFile();
attempt(() => (file ? startFile(file) : startRunner()));
