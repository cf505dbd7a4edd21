// Writes proctor's report from inside a JavaScript test runner, and reads what errors say. Must not know which runner.
'use strict';

const { randomBytes } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const util = require('node:util');
const { fileURLToPath } = require('node:url');

// As they are before any test has put something in their place: a `fs.writeSync` that wrote nothing would be asked for ever.
const { openSync, writeSync } = fs;
const { stringify } = JSON;
const bytesOf = Buffer.from.bind(Buffer);

const SEPARATOR = ' > ';
const TEXT_MAX = 64 * 1024;

// Tests that run in this process have no business with the report.
const place = process.env.PROCTOR_REPORT;
delete process.env.PROCTOR_REPORT;
let descriptor;

// What each line begins with, so that whoever else writes to the report is not taken for this reporter.
const token = randomBytes(16).toString('hex');

// The directory of the project, also where the process that we are in works in another, or a test goes to another.
const root = process.env.PROCTOR_ROOT ?? process.cwd();
const projectRoot = () => root;

// Tests that are told, or listed.
let tests = 0;

// Events that are told with the next one.
let held = '';

// Tells one event at once, after those that are held: what was told before a crash has been told.
function emit(event, fields) {
  if (!place) return;
  const told = line(event, fields);
  write(taken() + told);
}

// Holds an event until the next is told, `tellHeld` or the process's end: for a runner that goes on at once, since each telling
// wakes whoever listens.
function buffer(event, fields) {
  if (!place) return;
  held += line(event, fields);
  if (held.length > TEXT_MAX) flush();
}

// Tells with others what happened in the same turn of the event loop: for a runner whose tests crash in other processes, and
// which hears of many at a time.
function emitBatched(event, fields) {
  if (held === '') setImmediate(flush);
  buffer(event, fields);
}

// Tells that the runner is done: how many tests were told, and how many that it had were `left` out. Nothing is green without it.
function end(left = 0) {
  emit('end', { tests, left });
}

function flush() {
  if (held !== '') write(taken());
}

function taken() {
  const text = held;
  held = '';
  return text;
}

if (place) process.on('exit', flush);

// The fields behind the event, without an object that has both: a runner waits for each line.
function line(event, fields = {}) {
  if (event === 'finished' || event === 'listed') tests += 1;
  if (event === 'begin') return `${stringify({ event, token, ...fields })}\n`;
  const text = stringify(fields);
  // Half of a character, of which JSON writes the number, is no text to whoever reads this.
  const whole = text.includes('\\ud') ? stringify(fields, inWhole) : text;
  return `${token} {"event":"${event}"${whole === '{}' ? '' : ','}${whole.slice(1)}\n`;
}

const inWhole = (key, value) => (typeof value === 'string' ? value.replace(/\p{Surrogate}/gu, '\ufffd') : value);

function write(text) {
  descriptor ??= openSync(place, 'w');
  const bytes = bytesOf(text);
  for (let written = 0; written < bytes.length; ) written += writeSync(descriptor, bytes, written);
}

const stripAnsi = (text) => clip(util.stripVTControlCharacters(String(text ?? '')));
const clip = (text) => (text.length > TEXT_MAX ? text.slice(0, TEXT_MAX).replace(/[\ud800-\udbff]$/, '') : text);
const joinTitles = (titles) => titles.join(SEPARATOR);

// The tests of a file follow each other.
let lastFile;
let lastTold;

function packageOf(file) {
  if (file !== lastFile) {
    lastTold = path.relative(root, path.resolve(root, file)).split(path.sep).join('/');
    lastFile = file;
  }
  return lastTold;
}

// A value as a person would write it.
function formatValue(value) {
  if (typeof value === 'string') return clip(stringify(value));
  return clip(util.inspect(value, { depth: 8, breakLength: 100, maxArrayLength: 100, maxStringLength: 10_000, sorted: true }));
}

const FRAME = /^\s*at (?:.*? \()?(?:async )?((?:file:\/\/)?[^\s()][^()]*?):(\d+)(?::\d+)?\)?$/;

// The frames of a stack, innermost first, with absolute paths.
function framesOf(stack) {
  const frames = [];
  for (const line of stripAnsi(stack).split('\n')) {
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

// Where our own code lies, of which no stack that people read has a frame.
const OURS = path.dirname(__dirname) + path.sep;

// Where the project's own code was when `stack` was taken.
function projectLocation(stack) {
  const below = root + path.sep;
  const own = (frame) => !frame.file.includes(`${path.sep}node_modules${path.sep}`) && !frame.file.startsWith(OURS);
  const frames = framesOf(stack).filter(own);
  return frames.find((frame) => frame.file.startsWith(below)) ?? frames[0];
}

const RUNNERS = /\/node_modules\/(?:@?jest|expect|@?vitest|vite-node|tinypool|mocha|@?playwright)[/-]|\bnode:internal\b|<anonymous>\)$/;

// The lines of a stack that are frames, without the runner's own and ours.
function projectStack(stack) {
  const frames = stripAnsi(stack).split('\n').filter((line) => /^\s*at /.test(line));
  return frames.filter((line) => !RUNNERS.test(line) && !line.includes(OURS)).map((line) => line.trim()).join('\n');
}

// What an error says, without its class if that is the plain one, and without its frames.
function textBeforeStack(text) {
  const lines = stripAnsi(text).split('\n');
  const frames = lines.findIndex((line) => /^\s+at /.test(line));
  return (frames < 0 ? lines : lines.slice(0, frames)).join('\n').replace(/^Error: /, '').trim();
}

// One function for each stream, which is there for good before any test is: what a test puts in its place calls it or does
// not, and puts it back. Around that of a test it would hide from the test whether its own was called.
const tees = [];
let listener;

function teeOf(stream) {
  const { write } = stream;
  const tee = (chunk, encoding, callback) => {
    if (listener) listener.keep(chunk);
    return write.call(stream, chunk, encoding, callback);
  };
  stream.write = tee;
  return { stream, write, tee };
}

// Keeps what is written to this process's streams between `start` and `stop`, on its way to where it goes anyhow. What is
// written through a function of a test's own is not kept.
class OutputCapture {
  #text;

  constructor() {
    if (tees.length === 0) tees.push(teeOf(process.stdout), teeOf(process.stderr));
  }

  start() {
    this.#text = '';
    listener = this;
    for (const { stream, write, tee } of tees) if (stream.write === write) stream.write = tee;
  }

  keep(chunk) {
    if (this.#text.length >= TEXT_MAX) return;
    if (typeof chunk === 'string') this.#text += chunk;
    else if (chunk instanceof Uint8Array) this.#text += Buffer.from(chunk).toString();
  }

  // What was written, if anything was.
  stop() {
    if (listener !== this) return undefined;
    listener = undefined;
    return this.#text ? stripAnsi(this.#text) : undefined;
  }
}

const firstParagraph = (text) => text.trim().split('\n\n')[0].trim();

// Why something could not be loaded, and where: where a compiler points to, or in a frame.
function describeLoadError(error, output = '') {
  const said = stripAnsi(error?.message || textBeforeStack(error?.stack ?? '') || (typeof error === 'string' ? error : ''));
  const stack = stripAnsi(error?.stack ?? '');
  const whole = `${said}\n${stripAnsi(output)}`;
  const pointed = /(?:^|[\s(])([^\s:()]+\.[cm]?[jt]sx?):(\d+):\d+(?: - |: ERROR: )/.exec(whole);
  const bracketed = /(?:^|\s)(\/[^\s:]+): [^\n]*\((\d+):\d+\)/.exec(whole);
  const ahead = /^(\/[^\s:]+):(\d+)$/m.exec(stack);
  const named = /\bAt file: (\/[^\s:]+):(\d+):\d+/.exec(whole);
  const [, file, line] = pointed ?? bracketed ?? named ?? ahead ?? [];
  const place = file ? { file, line: Number(line) } : (projectLocation(stack) ?? projectLocation(output));
  const message = firstParagraph(said).replace(/^\/[^\s:]+: |^\S+:\d+:\d+ - error /, '').replace(/ \(\d+:\d+\)$|\s+At file: \S+$/, '');
  return { ...locationFields(place), message };
}

const locationFields = (place) => (place ? { file: place.file, line: place.line } : {});

module.exports = {
  SEPARATOR, locationFields, textBeforeStack, describeLoadError, end, packageOf, firstParagraph, buffer, joinTitles, projectLocation, stripAnsi, projectRoot, emit, emitBatched, projectStack, flush, formatValue, OutputCapture,
};
