// Tells the measurement of lines which test is running. Mocha loads this file first, by `--require`, also in the processes of a
// parallel run, and takes its hooks.
'use strict';

const { realpathSync } = require('node:fs');
const Module = require('node:module');

const { attempt, noteFor, takeSettings } = require('../js/lines.cjs');
const { MeasuredModules } = require('../js/modules.cjs');
const { major } = require('./itself.cjs');

// The first version that takes hooks from a module.
const HOOKS = 8;

const settings = takeSettings();

// The processes of a parallel run are not started by Mocha's program, and only newer versions have them.
function isTooOld() {
  try {
    return /[\\/]mocha[\\/]bin[\\/]/.test(realpathSync(process.argv[1])) && major() < HOOKS;
  } catch {
    return false;
  }
}

function hooks() {
  const modules = new MeasuredModules(settings);
  const { lines } = modules;
  // ES modules get probes from Node 22.15 on.
  let mayLackLines = Module.registerHooks === undefined;
  let running;
  // After a failed hook Mocha may leave out the hooks behind it.
  function end() {
    if (running === undefined) return;
    const file = running.file ?? running.parent?.file;
    lines.end(running, file, running.titlePath());
    running = undefined;
    if (mayLackLines && !lines.hasLinesOf(file)) {
      mayLackLines = false;
      lines.note(`the lines of ES modules are not measured: this needs Node 22.15 or newer, and the project's is ${process.version}`);
    }
  }
  function begin(test) {
    end();
    running = test;
    lines.begin(test);
  }
  function endFile() {
    end();
    lines.outside();
    lines.imported(modules.imported());
  }
  // The project's bound of time is not for these hooks: on a busy host they could be what fails.
  return {
    beforeEach() {
      this.timeout(0);
      attempt(() => begin(this.currentTest));
    },
    afterEach() {
      this.timeout(0);
      attempt(end);
    },
    afterAll() {
      this.timeout(0);
      attempt(endFile);
    },
  };
}

const old = () => `lines are not measured test by test: this needs Mocha ${HOOKS} or newer, and the project's is ${major()}`;

if (settings !== undefined) {
  if (isTooOld()) noteFor(settings, old());
  else exports.mochaHooks = hooks();
}
