// The Mocha that runs us, which cannot be required by name from here.
'use strict';

const { existsSync, realpathSync } = require('fs');
const path = require('path');

// The file that Mocha starts for each process of a parallel run.
const WORKER = /[\\/]mocha[\\/]lib[\\/]nodejs[\\/]worker\.[cm]?js$/;

// Mocha's directory: the first one above the started file that contains a manifest.
function directory() {
  let dir = path.dirname(realpathSync(process.argv[1]));
  while (!existsSync(path.join(dir, 'package.json')) && dir !== path.dirname(dir)) dir = path.dirname(dir);
  return dir;
}

const major = () => Number.parseInt(require(path.join(directory(), 'package.json')).version, 10);

// A module's default export, for either kind of module.
const whole = (module) => module.default ?? module;

const mocha = () => whole(require(directory()));

// Mocha's configuration loader; its file's extension changed in Mocha 12.
function options() {
  const files = ['js', 'cjs'].map((end) => path.join(directory(), 'lib', 'cli', `options.${end}`));
  return require(files.find(existsSync));
}

// The runner's class, from the modules that this process has loaded: only Mocha's first process was started by Mocha's program.
function runnerClass() {
  const loaded = Object.keys(require.cache).filter((file) => /[\\/]lib[\\/]runner\.c?js$/.test(file));
  const found = loaded.map((file) => whole(require.cache[file].exports)).find((one) => one?.prototype?.grepTotal);
  return found ?? mocha().Runner;
}

module.exports = { WORKER, directory, major, mocha, options, runnerClass, whole };
