// Restricts a call of node:test's `run` to the tests of a name pattern: Node takes that option on a command line, and not from a
// variable.
'use strict';

const Module = require('node:module');
const test = require('node:test');

const names = process.env.PROCTOR_NAMES;
// A file's own process gets its pattern from the process that started it.
if (names !== undefined && process.env.NODE_TEST_CONTEXT === undefined) {
  const { run } = test;
  test.run = (options) => run({ ...options, testNamePatterns: [new RegExp(names)] });
  Module.syncBuiltinESMExports();
}
