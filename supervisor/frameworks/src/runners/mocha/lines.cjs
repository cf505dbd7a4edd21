// Tells the measurement of lines which test is running. Mocha loads this file first, by `--require`, also in the processes of a
// parallel run, and takes its hooks.
'use strict';

const { realpathSync } = require('node:fs');
const Module = require('node:module');

const { noteFor } = require('../js/lines.cjs');
const { MeasuredModules } = require('../js/modules.cjs');
const { major } = require('./itself.cjs');

// The first version that takes hooks from a module.
const HOOKS = 8;

const { PROCTOR_COVERAGE: directory, PROCTOR_WORKSPACE: workspace, PROCTOR_LINES_CACHE: cache } = process.env;

// The processes of a parallel run are not started by Mocha's program, and only newer versions have them.
function isTooOld() {
  try {
    return /[\\/]mocha[\\/]bin[\\/]/.test(realpathSync(process.argv[1])) && major() < HOOKS;
  } catch {
    return false;
  }
}

function hooks() {
  const modules = new MeasuredModules({ directory, workspace, cache });
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
  // The project's bound of time is not for these hooks: on a busy host they could be what fails.
  return {
    beforeEach() {
      this.timeout(0);
      end();
      running = this.currentTest;
      lines.begin(running);
    },
    afterEach() {
      this.timeout(0);
      end();
    },
    afterAll() {
      this.timeout(0);
      end();
      lines.outside();
      lines.imported(modules.imported());
    },
  };
}

if (isTooOld()) noteFor({ directory, workspace }, `lines are not measured test by test: this needs Mocha ${HOOKS} or newer, and the project's is ${major()}`);
else exports.mochaHooks = hooks();
