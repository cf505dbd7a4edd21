// Tells the measurement of lines which test is running, by the events of Mocha's runner: no hook is added to the project's. Mocha loads
// this file first, by `--require`, also in the processes of a parallel run.
'use strict';

const { attempt, takeSettings } = require('../js/lines.cjs');
const { MeasuredModules } = require('../js/modules.cjs');
const { runnerClass } = require('./itself.cjs');

// A hook that belongs to no single test.
const OF_SUITE = /^"(?:before|after) all"/;

function measure(settings) {
  const modules = new MeasuredModules(settings);
  const { prototype } = runnerClass();
  const { run } = prototype;
  let isRunning = false;
  prototype.run = function (...all) {
    // A test may run tests of its own.
    if (!isRunning) {
      isRunning = true;
      this.once('end', () => (isRunning = false));
      observe(this, modules);
    }
    return run.apply(this, all);
  };
}

function observe(runner, modules) {
  const { lines } = modules;
  let running;
  // A test's own hooks come behind its end, and after a failed one Mocha may leave out those behind it.
  function end() {
    if (running === undefined) return;
    const file = running.file ?? running.parent?.file;
    lines.end(running, file, running.titlePath());
    running = undefined;
    modules.noteMissing(file);
  }
  runner.on('test', (test) => attempt(() => {
    end();
    running = test;
    lines.begin(test);
  }));
  runner.on('hook', ({ title }) => OF_SUITE.test(title) && attempt(end));
  runner.on('suite end', () => attempt(end));
  runner.once('end', () => attempt(() => {
    end();
    lines.outside();
    lines.imported(modules.imported());
  }));
}

const settings = takeSettings();
if (settings !== undefined) attempt(() => measure(settings));
