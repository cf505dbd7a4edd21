// Adds a reporter of ours to a Jest that is about to run, beside those that its configuration names. Jest's command line can only
// replace them, and would drop their options.
'use strict';

const path = require('node:path');
const { createRequire } = require('node:module');

const { noteFor, noteRunnerFiles, takeSettings } = require('../js/lines.cjs');
const { describeLoadError, emit } = require('../js/report.cjs');

// The first version with whose transformers and events lines are measured.
const MEASURED = 29;
const OURS = path.dirname(__dirname);

// `core` is the path of the project's `@jest/core`.
function hook(core) {
  const { runCLI } = require(core);
  const config = createRequire(core).resolve('jest-config');
  const { version } = createRequire(core)('../package.json');
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
    const ours = (all) => withinScope(measured(throughOurs(all), core, version));
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
    const transformIgnorePatterns = [...(one.transformIgnorePatterns ?? []), `^${OURS}/`];
    const ours = { testRunner: path.join(__dirname, 'runner.cjs'), proctorRunner: one.testRunner };
    return Object.freeze({ ...one, ...ours, transformIgnorePatterns });
  });
  return { ...read, configs };
}

// Why lines cannot be measured; nothing if they can.
function whyNot({ configs, globalConfig }, version) {
  if (Number.parseInt(version, 10) < MEASURED) return `this needs Jest ${MEASURED} or newer, and the project's is ${version}`;
  if (globalConfig.collectCoverage && globalConfig.coverageProvider === 'v8') return "Jest's own measurement with V8 would count what is added for it";
  if (configs.some((one) => one.proctorRunner === undefined)) return 'this needs the test runner jest-circus';
  return undefined;
}

// Code of the project gets probes, by which the lines of each test are known.
function measured(read, core, version) {
  const settings = takeSettings();
  if (settings === undefined) return read;
  const why = whyNot(read, version);
  if (why !== undefined) {
    noteFor(settings, `lines are not measured test by test: ${why}`);
    return read;
  }
  // Projects that transform other files each load some without probes: what their tests load is not known.
  const untransformed = new Set(read.configs.map((one) => JSON.stringify(one.transformIgnorePatterns)));
  if (untransformed.size === 1) noteRunnerFiles(settings, read);
  const transformer = path.join(__dirname, 'transform.cjs');
  const wrapped = (inner) => ({ inner, workspace: settings.workspace, core });
  const configs = read.configs.map((one) => {
    const theirs = one.transform.map(([pattern, place, config]) => [pattern, transformer, wrapped({ path: place, config })]);
    return Object.freeze({
      ...one,
      proctorLines: settings,
      proctorTransforms: one.transform,
      setupFiles: [path.join(OURS, 'js', 'hits.cjs'), ...one.setupFiles],
      // What no transformer of the project is for.
      transform: [...theirs, ['\\.[cm]?jsx?$', transformer, wrapped()]],
      coveragePathIgnorePatterns: [...one.coveragePathIgnorePatterns, `^${OURS}/`],
    });
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
