// Which versions of Node have hooks for loading modules that the measurement of lines can use.
//
// Before, a CommonJS module that an ES module imports is loaded in another way where there are hooks, and loaders of the project fail.
'use strict';

const { registerHooks } = require('node:module');

const NODES_WITH_HOOKS = 'Node 22.23, 24.12, 26 or newer';

// By major version, the first minor one.
const FIRST = { 22: 23, 24: 12, 25: 2 };

const [major, minor] = process.versions.node.split('.').map(Number);
const HAS_HOOKS = registerHooks !== undefined && (major > 25 || minor >= (FIRST[major] ?? Infinity));

module.exports = { HAS_HOOKS, NODES_WITH_HOOKS };
