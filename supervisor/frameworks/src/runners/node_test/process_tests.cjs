// Follows the tests of a file in the file's own process, for what is recorded of each there.
'use strict';

const { createHook } = require('node:async_hooks');

const observers = [];

// Calls `begin` and `end` of an observer for each test that runs, with Node's object for it. `suiteHooks`, if the observer has it, gets
// each run of the hooks that a suite, or the file, has for all its tests: the suite, and the promise of the hooks' end.
//
// Hooks of tests are no way: each makes Node wait once more before a test, so a subtest that is not awaited no longer finishes before its
// parent, and fails. Node exposes its test class nowhere, but async hooks show every resource as it is created, and the first test of a
// process is created before any runs.
function follow(observer) {
  observers.push(observer);
  if (observers.length > 1) return;
  const watched = createHook({
    init(_id, type, _trigger, made) {
      const kind = type === 'Test' && Object.getPrototypeOf(made);
      if (typeof kind?.run !== 'function' || typeof kind.postRun !== 'function') return;
      watched.disable();
      observe(kind);
    },
  }).enable();
}

function observe(kind) {
  const { run, postRun, runHook } = kind;
  const isTest = (test) => Object.getPrototypeOf(test) === kind && test.parent;
  kind.run = function (...rest) {
    if (isTest(this) && !this.skipped) for (let at = 0; at < observers.length; at += 1) observers[at].begin(this);
    return run.apply(this, rest);
  };
  kind.postRun = function (...rest) {
    if (isTest(this)) for (let at = 0; at < observers.length; at += 1) observers[at].end(this);
    return postRun.apply(this, rest);
  };
  kind.runHook = function (which, ...rest) {
    const done = runHook.call(this, which, ...rest);
    const isOfAll = (which === 'before' || which === 'after') && !isTest(this);
    for (let at = 0; isOfAll && at < observers.length; at += 1) observers[at].suiteHooks?.(this, done);
    return done;
  };
}

// Calls the given functions at events of the process's end: before the project's listeners, and `exited` after those of the exit. Not by
// listeners: tests remove those of others.
function atEnd(calls) {
  const { emit } = process;
  const value = function (event, ...rest) {
    if (event !== 'exited' && Object.hasOwn(calls, event)) calls[event]();
    const hadListeners = emit.call(this, event, ...rest);
    if (event === 'exit') calls.exited?.();
    return hadListeners;
  };
  Object.defineProperty(process, 'emit', { value, configurable: true, writable: true });
}

// The file whose process this is; `undefined` in the runner's own.
function ownFile() {
  if (process.env.NODE_TEST_CONTEXT === undefined || !process.argv[1]) return undefined;
  return require('node:path').resolve(process.argv[1]);
}

module.exports = { atEnd, follow, ownFile };
