// Tells the measurement of lines which test is running, by the events of Mocha's runner: no hook is added to the project's. Mocha loads
// this file first, by `--require`, also in the processes of a parallel run.
'use strict';

const { attempt, takeSettings } = require('../js/lines.cjs');
const { MeasuredModules } = require('../js/modules.cjs');
const { watchStarts } = require('../js/node_internals.cjs');
const { Dependencies } = require('./dependencies.cjs');
const { WORKER, runnerClass } = require('./itself.cjs');

// A hook that belongs to no single test.
const OF_SUITE = /^"(?:before|after) all"/;

function measure(settings) {
  const dependencies = new Dependencies(settings);
  const modules = new MeasuredModules(settings, { dependencies });
  dependencies.seesModules = modules.hasHooks;
  const { prototype } = runnerClass();
  const { run } = prototype;
  let isRunning = false;
  let last;
  watchStarts((started) => attempt(() => modules.lines.started(isOfAll(last?.currentRunnable), started)));
  prototype.run = function (...all) {
    // A test may run tests of its own.
    if (!isRunning) {
      isRunning = true;
      last = this;
      this.once('end', () => (isRunning = false));
      attempt(() => observe(this, modules, dependencies));
    }
    return run.apply(this, all);
  };
}

function observe(runner, modules, dependencies) {
  const { lines } = modules;
  let running;
  // The file of the last suite or test.
  let current;
  dependencies.loadedAll();
  // Mocha replaces `runner.suite` by each suite that it enters.
  const testFiles = filesOfTests(runner.suite);
  // With `--delay`, `only` or `--parallel`, not all tests are here.
  const isWhole = !(runner._opts?.delay ?? runner._delay) && !runner.suite.hasOnly() && !WORKER.test(process.argv[1]);
  function enter(file) {
    if (file === undefined || file === current) return;
    current = file;
    lines.beginFile();
  }
  // A test's own hooks come behind its end, and after a failed one Mocha may leave out those behind it.
  function end() {
    if (running === undefined) return;
    const file = fileOf(running);
    lines.end(running, file, running.titlePath());
    running = undefined;
    modules.noteMissing(file);
  }
  runner.on('suite', (suite) => attempt(() => {
    end();
    enter(suite.file);
  }));
  runner.on('test', (test) => attempt(() => {
    end();
    enter(fileOf(test));
    running = test;
    lines.begin(test);
  }));
  runner.on('hook', ({ title }) => OF_SUITE.test(title) && attempt(end));
  runner.on('suite end', () => attempt(end));
  runner.once('end', () => attempt(() => {
    end();
    lines.endOfTests();
    lines.outside();
    lines.imported(modules.imported());
    dependencies.write(lines, testFiles, isWhole);
  }));
}

// The test files with the number of their tests, and the files of these and of the suites around them, which are others where one calls
// functions of another.
function filesOfTests(root) {
  const files = new Map();
  root.eachTest((test) => {
    const file = fileOf(test);
    if (file === undefined) return;
    if (!files.has(file)) files.set(file, { tests: 0, parts: new Set([file]) });
    const own = files.get(file);
    own.tests += 1;
    for (let { parent } = test; parent; parent = parent.parent) if (parent.file) own.parts.add(parent.file);
  });
  return files;
}

const fileOf = (test) => test.file ?? test.parent?.file;

// Whether what is started now may serve all test files: not for a test, nor in a hook of a suite.
const isOfAll = (runnable) => runnable === undefined || (runnable.type === 'hook' && runnable.parent?.root !== false);

const settings = takeSettings();
if (settings !== undefined) attempt(() => measure(settings));
