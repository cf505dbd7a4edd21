// What the measurement of lines uses of Node's own parts, and which versions of Node have them.
'use strict';

const { registerHooks } = require('node:module');

const PARSER = 'internal/deps/acorn/acorn/dist/acorn';

// The versions with hooks for loading modules that serve. Before, a CommonJS module that an ES module imports is loaded in another way
// where there are hooks, and loaders of the project fail.
const NODES_WITH_HOOKS = 'Node 22.23, 24.12, 26 or newer';

// By major version, the first minor one.
const FIRST = { 22: 23, 24: 12, 25: 2 };

const [major, minor] = process.versions.node.split('.').map(Number);
const HAS_HOOKS = registerHooks !== undefined && (major > 25 || minor >= (FIRST[major] ?? Infinity));

// A part of Node that no module exports, without the warning for it.
function internal(name) {
  const isSilent = process.noDeprecation; // With `--no-deprecation` it cannot be set.
  try {
    if (!isSilent) process.noDeprecation = true;
    return process.binding(name);
  } finally {
    if (!isSilent) process.noDeprecation = isSilent;
  }
}

// Acorn, as the text of a module that Node has for its own use; `undefined` where it has none, or compiles no text.
function parser() {
  try {
    const module = { exports: {} };
    Function('exports', 'module', internal('natives')[PARSER])(module.exports, module);
    return module.exports.parse;
  } catch {
    return undefined;
  }
}

// Whether esbuild starts what is started now: in loaders of the project it changes texts that it is given.
function isOfTransformer() {
  const frames = String(new Error().stack).split('\n').slice(1);
  const caller = frames.find((frame) => !/\bnode:/.test(frame) && !frame.includes(__filename));
  return /[\\/]node_modules[\\/]esbuild[\\/]/.test(caller);
}

// What is called as a process or thread is started.
let listener;

// Calls `started` from now on as this process starts another one, or a thread, that may run any file, whatever starts it; with the
// object for it if this process does not wait for its end.
function watchStarts(started) {
  const isWatching = listener !== undefined;
  listener = started;
  if (isWatching) return;
  const { subscribe } = require('node:diagnostics_channel');
  const noted = (one) => {
    try {
      if (isOfTransformer()) return;
    } catch {
      // A test has replaced what this calls.
    }
    listener(one);
  };
  subscribe('child_process', ({ process: child }) => noted(child));
  // Node's own thread for loaders (`module.register`) runs no test.
  subscribe('worker_threads', ({ worker }) => worker?.constructor?.name === 'InternalWorker' || noted(worker));
  const synchronous = internal('spawn_sync');
  const { spawn } = synchronous;
  synchronous.spawn = (...options) => {
    noted();
    return Reflect.apply(spawn, synchronous, options);
  };
}

module.exports = { HAS_HOOKS, NODES_WITH_HOOKS, parser, watchStarts };
