// Writes proctor's report from inside a JavaScript test runner, and reads what errors say. Must not know which runner.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const util = require('node:util');
const { fileURLToPath } = require('node:url');

const SEPARATOR = ' > ';
const TEXT_MAX = 64 * 1024;

// Tests that run in this process have no business with the report.
const place = process.env.PROCTOR_REPORT;
delete process.env.PROCTOR_REPORT;
let descriptor;

// The directory of the project, also where the process that we are in works in another, or a test goes to another.
const root = process.env.PROCTOR_ROOT ?? process.cwd();
const rootOf = () => root;

// Writes one event at once: what was told before a crash has been told.
function say(event, fields) {
  if (!place) return;
  descriptor ??= fs.openSync(place, 'w');
  const bytes = Buffer.from(JSON.stringify({ event, ...fields }) + '\n');
  for (let written = 0; written < bytes.length; ) written += fs.writeSync(descriptor, bytes, written);
}

const plain = (text) => clip(util.stripVTControlCharacters(String(text ?? '')));
const clip = (text) => (text.length > TEXT_MAX ? text.slice(0, TEXT_MAX) : text);
const nameOf = (titles) => titles.join(SEPARATOR);

// The tests of a file follow each other.
let lastFile;
let lastTold;

function fileOf(file) {
  if (file !== lastFile) {
    lastTold = path.relative(root, path.resolve(root, file)).split(path.sep).join('/');
    lastFile = file;
  }
  return lastTold;
}

// A value as a person would write it.
function valueOf(value) {
  if (typeof value === 'string') return clip(JSON.stringify(value));
  return clip(util.inspect(value, { depth: 8, breakLength: 100, maxArrayLength: 100, maxStringLength: 10_000, sorted: true }));
}

const FRAME = /^\s*at (?:.*? \()?(?:async )?((?:file:\/\/)?[^\s()][^()]*?):(\d+)(?::\d+)?\)?$/;

// The frames of a stack, innermost first, with absolute paths.
function framesOf(stack) {
  const frames = [];
  for (const line of plain(stack).split('\n')) {
    const found = FRAME.exec(line);
    if (!found || found[1].startsWith('node:')) continue;
    try {
      const file = found[1].startsWith('file://') ? fileURLToPath(found[1]) : path.resolve(found[1]);
      frames.push({ file, line: Number(found[2]) });
    } catch {
      // A frame that names no file of this machine.
    }
  }
  return frames;
}

// Where the project's own code was when `stack` was taken.
function placeOf(stack) {
  const below = root + path.sep;
  const ours = path.dirname(__dirname) + path.sep;
  const own = (frame) => !frame.file.includes(`${path.sep}node_modules${path.sep}`) && !frame.file.startsWith(ours);
  const frames = framesOf(stack).filter(own);
  return frames.find((frame) => frame.file.startsWith(below)) ?? frames[0];
}

const RUNNERS = /\/node_modules\/(?:@?jest|expect|@?vitest|vite-node|tinypool|mocha|@?playwright)[/-]|\bnode:internal\b|<anonymous>\)$/;

// The lines of a stack that are frames, without the runner's own.
function stackOf(stack) {
  const frames = plain(stack).split('\n').filter((line) => /^\s*at /.test(line));
  return frames.filter((line) => !RUNNERS.test(line)).map((line) => line.trim()).join('\n');
}

// What an error says, without its class if that is the plain one, and without its frames.
function beforeStack(text) {
  const lines = plain(text).split('\n');
  const frames = lines.findIndex((line) => /^\s+at /.test(line));
  return (frames < 0 ? lines : lines.slice(0, frames)).join('\n').replace(/^Error: /, '').trim();
}

// Keeps what is written to this process's streams between `start` and `stop`, on its way to where it goes anyhow.
class Written {
  #streams = [process.stdout, process.stderr].map((stream) => ({ stream, tee: undefined }));

  #text;

  start() {
    this.#text = '';
    this.#streams.forEach((place) => this.#listen(place));
  }

  // Once for all tests, and again over what a test has put in the place of ours. Then only the newest keeps anything.
  #listen(place) {
    const { stream } = place;
    const before = stream.write;
    if (before === place.tee) return;
    const tee = (chunk, ...rest) => {
      if (tee === place.tee) this.#keep(chunk);
      return before.call(stream, chunk, ...rest);
    };
    stream.write = place.tee = tee;
  }

  #keep(chunk) {
    if (this.#text === undefined || this.#text.length >= TEXT_MAX) return;
    if (typeof chunk === 'string') this.#text += chunk;
    else if (chunk instanceof Uint8Array) this.#text += Buffer.from(chunk).toString();
  }

  // What was written, if anything was.
  stop() {
    const text = this.#text;
    this.#text = undefined;
    return text ? plain(text) : undefined;
  }
}

const firstParagraph = (text) => text.trim().split('\n\n')[0].trim();

// Why something could not be loaded, and where: where a compiler points to, or in a frame.
function blame(error, output = '') {
  const said = plain(error?.message || beforeStack(error?.stack ?? '') || (typeof error === 'string' ? error : ''));
  const stack = plain(error?.stack ?? '');
  const whole = `${said}\n${plain(output)}`;
  const pointed = /(?:^|[\s(])([^\s:()]+\.[cm]?[jt]sx?):(\d+):\d+(?: - |: ERROR: )/.exec(whole);
  const bracketed = /(?:^|\s)(\/[^\s:]+): [^\n]*\((\d+):\d+\)/.exec(whole);
  const ahead = /^(\/[^\s:]+):(\d+)$/m.exec(stack);
  const named = /\bAt file: (\/[^\s:]+):(\d+):\d+/.exec(whole);
  const [, file, line] = pointed ?? bracketed ?? named ?? ahead ?? [];
  const place = file ? { file, line: Number(line) } : (placeOf(stack) ?? placeOf(output));
  const message = firstParagraph(said).replace(/^\/[^\s:]+: |^\S+:\d+:\d+ - error /, '').replace(/ \(\d+:\d+\)$|\s+At file: \S+$/, '');
  return { ...at(place), message };
}

const at = (place) => (place ? { file: place.file, line: place.line } : {});

module.exports = {
  SEPARATOR, at, beforeStack, blame, fileOf, firstParagraph, nameOf, placeOf, plain, rootOf, say, stackOf, valueOf, Written,
};
