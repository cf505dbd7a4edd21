// Keeps the tests of a file from running, for a listing: hooks of suites run and no test's body does.
'use strict';

// The runner's own process has no tests, unless it runs all of them itself.
if (process.env.NODE_TEST_CONTEXT || process.execArgv.some((option) => /isolation=none$/.test(option))) {
  require('node:test').beforeEach(() => {
    throw new Error('not run, only listed');
  });
}
