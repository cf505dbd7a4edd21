// Loaded by every Node process below a test script that runs as a shell line. A process that runs Mocha or Jest gets proctor's
// reporter beside those of the project.
//
// The reporter removes `PROCTOR_REPORT` from the environment, so the processes that tests start get no reporter.
'use strict';

const { realpathSync } = require('fs');
const Module = require('module');
const path = require('path');

// Mocha's own scripts that a person, a wrapper or Mocha itself starts; the second starts the first where Node needs options.
const MOCHA = /[\\/]mocha[\\/]bin[\\/]_?mocha(\.c?js)?$/;

// Options with which Mocha runs no tests.
const IDLE = ['--help', '-h', '--version', '-V', '--list-interfaces', '--list-reporters', '--watch', '-w'];

const reporter = `--reporter=${path.join(__dirname, '..', 'mocha', 'reporter.cjs')}`;

// The package behind every start of Jest: its command line, or a program such as `react-scripts`.
const JEST = '@jest/core';
const JEST_OLDEST = 24;

function isMocha() {
  try {
    return MOCHA.test(realpathSync(process.argv[1])) && !process.argv.some((word) => IDLE.includes(word));
  } catch {
    // Started without a file, or with one that does not exist.
    return false;
  }
}

// Of several reporters Mocha takes the last; words behind `--` are no options.
function addToMocha() {
  const end = process.argv.indexOf('--');
  process.argv.splice(end < 0 ? process.argv.length : end, 0, reporter);
}

function watchForJest() {
  const load = Module._load;
  Module._load = function (request, parent, ...rest) {
    if (request === JEST && process.env.PROCTOR_REPORT) {
      Module._load = load;
      addToJest(Module._resolveFilename(request, parent));
    }
    return load.call(this, request, parent, ...rest);
  };
}

function addToJest(core) {
  const { version } = Module.createRequire(core)('../package.json');
  if (Number.parseInt(version, 10) >= JEST_OLDEST) require('../jest/hook.cjs').hook(core);
}

if (process.env.PROCTOR_REPORT) {
  if (!isMocha()) watchForJest();
  else if (!process.argv.includes(reporter)) addToMocha();
}
