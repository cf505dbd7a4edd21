// Has a Jest that is about to run use a reporter of ours beside those that its configuration names. Jest's command line can only
// replace them, and would drop their options. Must not know who starts it, or what the reporter tells.
'use strict';

const path = require('node:path');
const { createRequire } = require('node:module');

const { describeLoadError, emit } = require('../js/report.cjs');

// `core` is the file of its `@jest/core`.
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

  // The project's configuration, but for what runs a file: ours stands before it, so that it is known what each test prints. Jest
  // 24 reads configurations at once, and does not wait for them.
  function withOurRunner(...all) {
    const read = readConfigs(...all);
    return typeof read.then === 'function' ? read.then(throughOurs) : throughOurs(read);
  }

  // Jest looks the functions up when it needs them, and finds ours.
  require.cache[core].exports = { ...require(core), runCLI: withOurReporter };
  require.cache[config].exports = { ...require(config), readConfigs: withOurRunner };
}

function throughOurs(read) {
  const configs = read.configs.map((one) => {
    if (!/[\\/]jest-circus[\\/]/.test(one.testRunner)) return one;
    // Jest keeps what a transform makes of a file in its cache, which tests can write: ours is never transformed.
    const transformIgnorePatterns = [...(one.transformIgnorePatterns ?? []), `^${path.dirname(__dirname)}/`];
    const ours = { testRunner: path.join(__dirname, 'runner.cjs'), proctorRunner: one.testRunner };
    return Object.freeze({ ...one, ...ours, transformIgnorePatterns });
  });
  return { ...read, configs };
}

module.exports = { hook };
