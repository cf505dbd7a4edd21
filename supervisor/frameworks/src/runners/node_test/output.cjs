// Records the output of each failing test of a file, in the file's own process, for the reporter in another process: Node reports
// what a file's process wrote, but not when.
//
// Output of tests that run at the same time cannot be attributed: such tests have none.
'use strict';

const { createHash } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

const { atEnd, follow, ownFile } = require('./process_tests.cjs');

// Taken before any test can replace them.
const { appendFileSync, writeFileSync } = fs;
const { stringify } = JSON;

const TEXT_MAX = 64 * 1024;

// Most bytes that are kept of one file's tests.
const FILE_MAX = 1024 * 1024;

// First bytes of Node's own messages to the runner on the same stream.
const FRAME = Buffer.from([0xff, 0x0f]);

const keptOf = (dir, file) => path.join(dir, createHash('sha1').update(file).digest('hex'));

class Output {
  // Tests that have begun and not ended, the outermost first.
  #open = [];

  #begun = 0;

  // Whether no test of the file is to come: its tests are done, or the process has nothing more to do.
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
    if (!test) return;
    if (typeof chunk === 'string') test.text += chunk;
    else if (chunk instanceof Uint8Array && !FRAME.equals(chunk.subarray(0, 2))) test.text += Buffer.from(chunk).toString();
    if (test.text.length > 2 * TEXT_MAX) this.#cut(test);
  }

  // Keeps the end of a test's output.
  #cut(test) {
    const end = test.text.slice(-TEXT_MAX).replace(/^[\udc00-\udfff]/, '');
    test.leftOut += Buffer.byteLength(test.text) - Buffer.byteLength(end);
    test.text = end;
  }

  begin(name) {
    const beside = this.#open.filter((other) => !name.startsWith(`${other.name} > `));
    for (const other of beside) other.isMixed = true;
    this.#begun += 1;
    this.#open.push({ name, text: '', leftOut: 0, isMixed: beside.length > 0 });
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
    const [test] = this.#open.splice(at, 1);
    if (!hasFailed || test.isMixed || test.text === '') return;
    if (test.text.length > TEXT_MAX) this.#cut(test);
    const above = test.leftOut > 0 ? `[${test.leftOut} bytes before this are left out]\n` : '';
    const line = `${stringify([name, above + test.text])}\n`;
    this.#left -= line.length;
    if (this.#left >= 0) appendFileSync(this.place, line);
  }
}

// If a process exits by itself, results that Node has not sent are lost, and Node reports the file as passed. So each process
// records how it ended; a process without a record ended early: by `process.reallyExit`, or by becoming another program.
const leftOf = (place) => `${place}.left`;
const leave = (place, told) => writeFileSync(leftOf(place), stringify(told));

// Reads what was recorded of a file's tests.
class Printed {
  #texts = new Map();

  #read = 0;

  constructor(dir, file) {
    this.place = keptOf(dir, file);
  }

  // Number of tests that the process had begun when it ended, and whether tests were to come or one had not ended; the latter is
  // assumed without a record.
  left() {
    try {
      return JSON.parse(fs.readFileSync(leftOf(this.place)));
    } catch {
      return { begun: 0, isEarly: true };
    }
  }

  // Output of the test with this whole name; of several with the same name, of the last.
  of(name) {
    try {
      const { size } = fs.statSync(this.place);
      const lines = size > this.#read ? fs.readFileSync(this.place).subarray(this.#read, size).toString().split('\n') : [];
      this.#read = size;
      for (const line of lines.filter(Boolean)) this.#texts.set(...JSON.parse(line));
    } catch {
      // No test has printed and failed, or a test has written to the file itself.
    }
    return this.#texts.get(name);
  }
}

// Records when a test begins and ends.
const recorder = (output) => ({
  begin: (test) => output.begin(wholeName(test)),
  end: (test) => output.end(wholeName(test), test.passed === false),
});

// A test's name with those of its parents, in Node's own format.
function wholeName(test) {
  const names = [];
  for (let at = test; at.parent; at = at.parent) names.unshift(at.name);
  return names.join(' > ');
}

// Whether a file's text imports `node:test`: a hook in any other file would make Node treat it as one with tests.
function isOfTests(file) {
  try {
    return /['"](?:node:)?test['"]/.test(fs.readFileSync(file, 'utf8'));
  } catch {
    return false;
  }
}

function start(dir, file) {
  const place = keptOf(dir, file);
  if (!isOfTests(file)) return watchOther(place);
  const output = new Output(place);
  follow(recorder(output));
  // With a forced exit, a file without tests would wait for this hook for ever.
  if (process.execArgv.includes('--test-force-exit')) output.through();
  else require('node:test').after(() => output.through());
  output.watch(process.stdout);
  output.watch(process.stderr);
  atEnd({ beforeExit: () => output.through(), exit: () => output.leave() });
}

// Watches a file whose tests, if any, come from other files: the loaded modules show whether it ended with tests. How many of
// them were to come is not known.
function watchOther(place) {
  let isThrough = false;
  const hasTests = () => process.moduleLoadList.includes('NativeModule test');
  atEnd({ beforeExit: () => (isThrough = true), exit: () => leave(place, { begun: 0, isEarly: !isThrough && hasTests() }) });
}

// Node loads this file before each test file; the reporter only reads.
const file = ownFile();
if (file && process.env.PROCTOR_OUTPUT) {
  const dir = process.env.PROCTOR_OUTPUT;
  delete process.env.PROCTOR_OUTPUT;
  start(dir, file);
}

module.exports = { Printed };
