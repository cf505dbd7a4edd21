// Loaded by every Node process below a test script that is run as it is: one that turns out to be Mocha's gets a reporter of ours
// beside its own. Must not know the script, or how the reporter tells.
//
// The reporter takes `PROCTOR_REPORT` out of the environment, so what Mocha's tests start is let alone.
'use strict';

const { realpathSync } = require('fs');
const path = require('path');

// Mocha's own files that a person, a wrapper or Mocha itself starts; the second starts the first where Node needs options.
const MOCHA = /[\\/]mocha[\\/]bin[\\/]_?mocha(\.c?js)?$/;

// With which it runs no tests.
const IDLE = ['--help', '-h', '--version', '-V', '--list-interfaces', '--list-reporters', '--watch', '-w'];

function isMocha() {
  try {
    return MOCHA.test(realpathSync(process.argv[1])) && !process.argv.some((word) => IDLE.includes(word));
  } catch {
    // Started without a file, or with one that is not there.
    return false;
  }
}

const reporter = `--reporter=${path.join(__dirname, '..', 'mocha', 'reporter.cjs')}`;

// Of several reporters Mocha takes the last; what comes after `--` is no option.
function add() {
  const end = process.argv.indexOf('--');
  process.argv.splice(end < 0 ? process.argv.length : end, 0, reporter);
}

if (process.env.PROCTOR_REPORT && isMocha() && !process.argv.includes(reporter)) add();
