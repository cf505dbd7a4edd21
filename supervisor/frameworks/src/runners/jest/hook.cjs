// Adds a reporter of ours to a Jest that is about to run, beside those that its configuration names. Jest's command line can only
// replace them, and would drop their options.
'use strict';

const path = require('node:path');
const { createRequire } = require('node:module');

const { describeLoadError, emit } = require('../js/report.cjs');

// `core` is the path of the project's `@jest/core`.
function hook(core) {
  const { runCLI } = require(core);
  const config = createRequire(core).resolve('jest-config');
  const { readConfig, readConfigs } = require(config);

  async function withOurReporter(argv, projects) {
    try {
      const { globalConfig } = await readConfig(argv, projects[0]);
      const own = globalConfig.reporters ?? [['default', {}]];
      return await runCLI({ ...argv, reporters: [...own, [path.join(__dirname, 'reporter.cjs'), {}]] }, projects);
    } catch (error) {
      emit('collector', { nodeid: '.', ...describeLoadError(error), output: String(error?.stack ?? error) });
      throw error;
    }
  }

  // Replaces the project's test runner by ours, which wraps it, so that the output of each test is captured. Jest 24 reads
  // configurations synchronously.
  function withOurRunner(...all) {
    const read = readConfigs(...all);
    const ours = (all) => withinScope(throughOurs(all));
    return typeof read.then === 'function' ? read.then(ours) : ours(read);
  }

  // Jest looks up these functions when it calls them, and finds ours.
  require.cache[core].exports = { ...require(core), runCLI: withOurReporter };
  require.cache[config].exports = { ...require(config), readConfigs: withOurRunner };
}

function throughOurs(read) {
  const configs = read.configs.map((one) => {
    if (!/[\\/]jest-circus[\\/]/.test(one.testRunner)) return one;
    // Jest caches transformed files, and tests can write to the cache: our files are never transformed.
    const transformIgnorePatterns = [...(one.transformIgnorePatterns ?? []), `^${path.dirname(__dirname)}/`];
    const ours = { testRunner: path.join(__dirname, 'runner.cjs'), proctorRunner: one.testRunner };
    return Object.freeze({ ...one, ...ours, transformIgnorePatterns });
  });
  return { ...read, configs };
}

// Leaves out the test files that the project file excludes, besides those that the configuration ignores.
function withinScope(read) {
  const ignored = (process.env.PROCTOR_IGNORED_PATHS ?? '').split('\n').filter(Boolean);
  if (ignored.length === 0) return read;
  const configs = read.configs.map((one) => {
    const testPathIgnorePatterns = [...(one.testPathIgnorePatterns ?? []), ...ignored];
    return Object.freeze({ ...one, testPathIgnorePatterns });
  });
  return { ...read, configs };
}

module.exports = { hook };
