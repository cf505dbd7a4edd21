// Writes proctor's report from inside a JavaScript test runner, and reads errors and stacks.
'use strict';

const { randomBytes } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const util = require('node:util');
const { fileURLToPath } = require('node:url');

// Taken before a test can replace them: a replaced `fs.writeSync` that writes nothing would be called for ever.
const { openSync, writeSync } = fs;
const { stringify } = JSON;
const bytesOf = Buffer.from.bind(Buffer);

const SEPARATOR = ' > ';
const TEXT_MAX = 64 * 1024;

// Removed from the environment: tests in this process must not find the report.
const place = process.env.PROCTOR_REPORT;
delete process.env.PROCTOR_REPORT;
let descriptor;

// Random word before each line, so that lines of other writers are not taken for this reporter's.
const token = randomBytes(16).toString('hex');

// The project's directory, also if this process works in another one, or a test changes it.
const root = process.env.PROCTOR_ROOT ?? process.cwd();
const projectRoot = () => root;

// Number of `finished` and `listed` events.
let tests = 0;

// Events that are written with the next one.
let buffered = '';

// Writes an event at once, after the buffered ones: an event written before a crash is not lost.
function emit(event, fields) {
  if (!place) return;
  const told = line(event, fields);
  write(taken() + told);
}

// Buffers an event until the next `emit`, `flush` or the process's end: for a runner that continues at once, since each write wakes
// the reader.
function buffer(event, fields) {
  if (!place) return;
  buffered += line(event, fields);
  if (buffered.length > TEXT_MAX) flush();
}

// Writes all events of one turn of the event loop together: for a runner whose tests crash in other processes, and which gets many
// events at a time.
function emitBatched(event, fields) {
  if (buffered === '') setImmediate(flush);
  buffer(event, fields);
}

// Reports that the runner is done: the number of reported tests, and `left`, how many tests were not. Nothing is green without it.
function end(left = 0) {
  emit('end', { tests, left });
}

function flush() {
  if (buffered !== '') write(taken());
}

function taken() {
  const text = buffered;
  buffered = '';
  return text;
}

if (place) process.on('exit', flush);

// Appends the fields to the event as text, without building a combined object: the runner waits for each line.
function line(event, fields = {}) {
  if (event === 'finished' || event === 'listed') tests += 1;
  if (event === 'begin') return `${stringify({ event, token, ...fields })}\n`;
  const text = stringify(fields);
  // An unpaired surrogate, which JSON writes as an escape, is no valid text for the reader.
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
const endOf = (text) => text.slice(-TEXT_MAX).replace(/^[\udc00-\udfff]/, '');

// The end of a text of which so many bytes are left out already, below the line that proctor writes above such an end.
function keepEnd(text, leftOut = 0) {
  const end = text.length > TEXT_MAX ? endOf(text) : text;
  const all = leftOut + Buffer.byteLength(text) - Buffer.byteLength(end);
  return all > 0 ? `[${all} bytes before this are left out]\n${end}` : end;
}

// What a test printed last explains its failure: the end of a long output.
const endOfOutput = (text, leftOut = 0) => keepEnd(util.stripVTControlCharacters(text), leftOut);

// A title on one line: a control character becomes its picture (U+2400 and on), by which a selection finds it again.
const printableTitle = (title) => (CONTROL.test(title) ? title.replace(EACH_CONTROL, pictureOf) : title);
const pictureOf = (char) => String.fromCharCode(char === '\x7f' ? 0x2421 : 0x2400 + char.charCodeAt(0));
const CONTROL = /[\x00-\x1f\x7f]/;
const EACH_CONTROL = new RegExp(CONTROL, 'g');

const joinTitles = (titles) => printableTitle(titles.join(SEPARATOR));

// Cache of the last file's package: tests of one file follow each other.
let lastFile;
let lastTold;

function packageOf(file) {
  if (file !== lastFile) {
    lastTold = path.relative(root, path.resolve(root, file)).split(path.sep).join('/');
    lastFile = file;
  }
  return lastTold;
}

// A value as source text.
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
      // The frame names no file of this machine.
    }
  }
  return frames;
}

// Directory of the injected files, whose frames are removed from stacks.
const OURS = path.dirname(__dirname) + path.sep;

// The project's innermost frame in `stack`; a file outside of the project only if there is none.
function projectLocation(stack) {
  const below = root + path.sep;
  const own = (frame) => !frame.file.includes(`${path.sep}node_modules${path.sep}`) && !frame.file.startsWith(OURS);
  const frames = framesOf(stack).filter(own);
  return frames.find((frame) => frame.file.startsWith(below)) ?? frames[0];
}

const RUNNERS = /\/node_modules\/(?:@?jest|expect|@?vitest|vite-node|tinypool|mocha|@?playwright)[/-]|\bnode:internal\b|<anonymous>\)$/;

// The frames of a stack, without the runner's and proctor's own.
function projectStack(stack) {
  const frames = stripAnsi(stack).split('\n').filter((line) => /^\s*at /.test(line));
  return frames.filter((line) => !RUNNERS.test(line) && !line.includes(OURS)).map((line) => line.trim()).join('\n');
}

// The text before the frames, without the class of a plain `Error`.
function textBeforeStack(text) {
  const lines = stripAnsi(text).split('\n');
  const frames = lines.findIndex((line) => /^\s+at /.test(line));
  return (frames < 0 ? lines : lines.slice(0, frames)).join('\n').replace(/^Error: /, '').trim();
}

// One function per stream, installed before any test. A test's own replacement calls it or does not, and restores it. Wrapping a
// test's replacement would hide from the test whether its own was called.
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

// Captures what is written to this process's streams between `start` and `stop`, which is still written. Output through a test's own
// replacement is not captured.
class OutputCapture {
  #text;
  #leftOut;

  constructor() {
    if (tees.length === 0) tees.push(teeOf(process.stdout), teeOf(process.stderr));
  }

  start() {
    this.#text = '';
    this.#leftOut = 0;
    listener = this;
    for (const { stream, write, tee } of tees) if (stream.write === write) stream.write = tee;
  }

  keep(chunk) {
    if (typeof chunk === 'string') this.#text += chunk;
    else if (chunk instanceof Uint8Array) this.#text += Buffer.from(chunk).toString();
    if (this.#text.length <= 2 * TEXT_MAX) return;
    const end = endOf(this.#text);
    this.#leftOut += Buffer.byteLength(this.#text) - Buffer.byteLength(end);
    this.#text = end;
  }

  // Ends the capture and returns the text, `undefined` if empty.
  stop() {
    if (listener !== this) return undefined;
    listener = undefined;
    return this.#text ? endOfOutput(this.#text, this.#leftOut) : undefined;
  }
}

const firstParagraph = (text) => text.trim().split('\n\n')[0].trim();

// Why something could not be loaded, and where: at the place a compiler names, or in a frame.
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
  SEPARATOR, locationFields, textBeforeStack, describeLoadError, end, packageOf, firstParagraph, buffer, joinTitles, printableTitle, projectLocation, stripAnsi, projectRoot, emit, emitBatched, projectStack, flush, formatValue, endOfOutput, OutputCapture,
};
