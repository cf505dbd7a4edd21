// Starts the project's own Jest with a reporter of ours beside those that its configuration names. Jest's command line can
// only replace them, and would drop their options. Must not know what the reporter tells.
'use strict';

const path = require('node:path');
const { createRequire } = require('node:module');

const { blame, say } = require('../js/report.cjs');

const OLDEST = 24;

const fromProject = createRequire(path.join(process.cwd(), 'package.json'));

// Jest's command line, through the package that the project depends on.
function commandLine() {
  for (const [from, name] of [['jest', 'jest-cli'], ['jest-cli', 'jest-cli']]) {
    try {
      const manifest = fromProject.resolve(`${from}/package.json`);
      return createRequire(manifest).resolve(`${name}/package.json`);
    } catch (error) {
      if (!['MODULE_NOT_FOUND', 'ERR_PACKAGE_PATH_NOT_EXPORTED'].includes(error.code)) throw error;
    }
  }
  giveUp('jest is not installed where the project looks for it: install its dependencies (npm ci)');
}

function giveUp(why) {
  process.stderr.write(`proctor: ${why}\n`);
  process.exit(127);
}

const manifest = commandLine();
const { version } = require(manifest);
if (Number.parseInt(version, 10) < OLDEST) giveUp(`jest ${version} is too old: ${OLDEST} or newer is needed`);

const fromJest = createRequire(manifest);
const core = fromJest.resolve('@jest/core');
const { runCLI } = require(core);
const config = createRequire(core).resolve('jest-config');
const { readConfig, readConfigs } = require(config);

async function withOurReporter(argv, projects) {
  try {
    const { globalConfig } = await readConfig(argv, projects[0]);
    const own = globalConfig.reporters ?? [['default', {}]];
    return await runCLI({ ...argv, reporters: [...own, [path.join(__dirname, 'reporter.cjs'), {}]] }, projects);
  } catch (error) {
    say('collector', { nodeid: '.', ...blame(error), output: String(error?.stack ?? error) });
    throw error;
  }
}

// The project's configuration, but for what runs a file: ours stands before it, so that it is known what each test prints. Jest
// 24 reads configurations at once, and does not wait for them.
function withOurRunner(...all) {
  const read = readConfigs(...all);
  return typeof read.then === 'function' ? read.then(throughOurs) : throughOurs(read);
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

// Jest looks the functions up when it needs them, and finds ours.
require.cache[core].exports = { ...require(core), runCLI: withOurReporter };
require.cache[config].exports = { ...require(config), readConfigs: withOurRunner };

process.env.NODE_ENV ??= 'test';
process.argv[1] = path.join(path.dirname(manifest), 'bin', 'jest.js');
fromJest('./').run();
