// The Mocha that runs us, which cannot be required by name from here. Must not know what it is asked.
'use strict';

const { existsSync, realpathSync } = require('fs');
const path = require('path');

// Its directory: the one with a manifest above the file that was started.
function directory() {
  let dir = path.dirname(realpathSync(process.argv[1]));
  while (!existsSync(path.join(dir, 'package.json')) && dir !== path.dirname(dir)) dir = path.dirname(dir);
  return dir;
}

const major = () => Number.parseInt(require(path.join(directory(), 'package.json')).version, 10);

// A module's one thing, whichever kind of module it is.
const whole = (module) => module.default ?? module;

const mocha = () => whole(require(directory()));

// How it reads its configuration; its modules changed their endings in Mocha 12.
function options() {
  const files = ['js', 'cjs'].map((end) => path.join(directory(), 'lib', 'cli', `options.${end}`));
  return require(files.find(existsSync));
}

module.exports = { major, mocha, options, whole };
