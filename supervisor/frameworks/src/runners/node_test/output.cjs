// Keeps what each failing test of a file printed, in the file's own process, for the reporter, which is in another: Node tells
// it what a file's process wrote, and not when. Must not know the report.
//
// Where tests run at the same time, nobody can tell who wrote: then nothing is kept of either.
'use strict';

const { createHook } = require('node:async_hooks');
const { createHash } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

// As they are before any test has put something in their place.
const { appendFileSync, writeFileSync } = fs;
const { stringify } = JSON;

const TEXT_MAX = 64 * 1024;

// Most bytes that are kept of one file's tests.
const FILE_MAX = 1024 * 1024;

// How Node begins what it sends to the runner through the same stream.
const FRAME = Buffer.from([0xff, 0x0f]);

const keptOf = (dir, file) => path.join(dir, createHash('sha1').update(file).digest('hex'));

class Output {
  // Tests that have begun and not ended, the outermost first.
  #open = [];

  #begun = 0;

  // Whether nothing of the file is to come: its tests are through, or the process has nothing more to do.
  #isThrough = false;

  #left = FILE_MAX;

  constructor(place) {
    this.place = place;
  }

  watch(stream) {
    const { write } = stream;
    stream.write = (chunk, ...rest) => {
      this.#keep(chunk);
      return write.call(stream, chunk, ...rest);
    };
  }

  #keep(chunk) {
    const test = this.#open.at(-1);
    if (!test || test.text.length >= TEXT_MAX) return;
    if (typeof chunk === 'string') test.text += chunk;
    else if (chunk instanceof Uint8Array && !FRAME.equals(chunk.subarray(0, 2))) test.text += Buffer.from(chunk).toString();
  }

  begin(name) {
    const beside = this.#open.filter((other) => !name.startsWith(`${other.name} > `));
    for (const other of beside) other.isMixed = true;
    this.#begun += 1;
    this.#open.push({ name, text: '', isMixed: beside.length > 0 });
  }

  through() {
    this.#isThrough = true;
  }

  leave() {
    leave(this.place, { begun: this.#begun, isEarly: this.#open.length > 0 || !this.#isThrough });
  }

  end(name, hasFailed) {
    const at = this.#open.findLastIndex((test) => test.name === name);
    if (at < 0) return;
    const [{ text, isMixed }] = this.#open.splice(at, 1);
    if (!hasFailed || isMixed || text === '') return;
    const line = `${stringify([name, text.slice(0, TEXT_MAX)])}\n`;
    this.#left -= line.length;
    if (this.#left >= 0) appendFileSync(this.place, line);
  }
}

// A process that leaves by itself takes along what Node has not sent of its tests, and Node takes the file for one that passed.
// So each says how it left, and one that has not said so has left early: by `process.reallyExit`, or as another program.
const leftOf = (place) => `${place}.left`;
const leave = (place, told) => writeFileSync(leftOf(place), stringify(told));

// What is kept of a file's tests, as it comes.
class Printed {
  #texts = new Map();

  #read = 0;

  constructor(dir, file) {
    this.place = keptOf(dir, file);
  }

  // How many tests its process had begun when it left, and whether others were to come or one had not ended: so it is where it
  // left without a word.
  left() {
    try {
      return JSON.parse(fs.readFileSync(leftOf(this.place)));
    } catch {
      return { begun: 0, isEarly: true };
    }
  }

  // Of the test with this whole name; of those that have one in common, of the last.
  of(name) {
    try {
      const { size } = fs.statSync(this.place);
      const lines = size > this.#read ? fs.readFileSync(this.place).subarray(this.#read, size).toString().split('\n') : [];
      this.#read = size;
      for (const line of lines.filter(Boolean)) this.#texts.set(...JSON.parse(line));
    } catch {
      // None has printed and failed, or one has written here itself.
    }
    return this.#texts.get(name);
  }
}

// Says when a test begins and when it is judged. Not by hooks of tests: each of them makes Node wait once more before a test, so
// that a subtest that nobody waits for is no longer through before its parent is, and fails. Node hands its own kind of test to
// nobody, but shows each thing that can wait as it is made, and the first test of a process is made before any runs.
function follow(output) {
  const watched = createHook({
    init(_id, type, _trigger, made) {
      const kind = type === 'Test' && Object.getPrototypeOf(made);
      if (typeof kind?.run !== 'function' || typeof kind.postRun !== 'function') return;
      watched.disable();
      const { run, postRun } = kind;
      const isTest = (test) => Object.getPrototypeOf(test) === kind && test.parent;
      kind.run = function (...rest) {
        if (isTest(this) && !this.skipped) output.begin(wholeName(this));
        return run.apply(this, rest);
      };
      kind.postRun = function (...rest) {
        if (isTest(this)) output.end(wholeName(this), this.passed === false);
        return postRun.apply(this, rest);
      };
    },
  }).enable();
}

// A test's name with those of what it is in, as Node itself writes it.
function wholeName(test) {
  const names = [];
  for (let at = test; at.parent; at = at.parent) names.unshift(at.name);
  return names.join(' > ');
}

// Whether a file has to do with tests by its own words: a hook in any other would make Node treat it as one that has.
function isOfTests(file) {
  try {
    return /['"](?:node:)?test['"]/.test(fs.readFileSync(file, 'utf8'));
  } catch {
    return false;
  }
}

function start(dir) {
  const file = process.argv[1] && path.resolve(process.argv[1]);
  if (!file) return;
  const place = keptOf(dir, file);
  if (!isOfTests(file)) return watchOther(place);
  const output = new Output(place);
  follow(output);
  // Where Node is to force the exit, a file without tests would wait for this hook for ever.
  if (process.execArgv.includes('--test-force-exit')) output.through();
  else require('node:test').after(() => output.through());
  output.watch(process.stdout);
  output.watch(process.stderr);
  atEnd({ beforeExit: () => output.through(), exit: () => output.leave() });
}

// A file that has its tests from others, if it has any: what it has loaded shows whether it left as if there were some. Which of
// them were to come is not known.
function watchOther(place) {
  let isThrough = false;
  const hasTests = () => process.moduleLoadList.includes('NativeModule test');
  atEnd({ beforeExit: () => (isThrough = true), exit: () => leave(place, { begun: 0, isEarly: !isThrough && hasTests() }) });
}

// Calls what is given for an event of the process's end. No listener: tests remove those of others.
function atEnd(calls) {
  const { emit } = process;
  const value = function (event, ...rest) {
    if (Object.hasOwn(calls, event)) calls[event]();
    return emit.call(this, event, ...rest);
  };
  Object.defineProperty(process, 'emit', { value, configurable: true, writable: true });
}

// Node loads us before each file of tests; the reporter only reads.
const place = process.env.PROCTOR_OUTPUT;
if (place && process.env.NODE_TEST_CONTEXT) {
  delete process.env.PROCTOR_OUTPUT;
  start(place);
}

module.exports = { Printed };
