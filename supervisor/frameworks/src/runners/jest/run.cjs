// Starts the project's own Jest, with a reporter of ours.
'use strict';

const path = require('node:path');
const { createRequire } = require('node:module');

const { hook } = require('./hook.cjs');

const OLDEST = 24;

const fromProject = createRequire(path.join(process.cwd(), 'package.json'));

// Jest's command line, from the package that the project depends on.
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
hook(fromJest.resolve('@jest/core'));

process.env.NODE_ENV ??= 'test';
process.argv[1] = path.join(path.dirname(manifest), 'bin', 'jest.js');
fromJest('./').run();
