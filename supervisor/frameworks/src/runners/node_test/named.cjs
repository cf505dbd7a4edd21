// Has whoever calls node:test's `run` run the tests of a name pattern alone: Node takes that option on a command line, and not
// from a variable. Must not know who calls.
'use strict';

const Module = require('node:module');
const test = require('node:test');

const names = process.env.PROCTOR_NAMES;
// A file's own process has its pattern from the one that started it.
if (names !== undefined && process.env.NODE_TEST_CONTEXT === undefined) {
  const { run } = test;
  test.run = (options) => run({ ...options, testNamePatterns: [new RegExp(names)] });
  Module.syncBuiltinESMExports();
}
