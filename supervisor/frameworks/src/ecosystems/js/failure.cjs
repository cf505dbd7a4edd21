// Describes an error that a test threw, and what Node prints about a file that it could not run, for runners that hand over the
// error object.
'use strict';

const { stripAnsi, projectLocation, emit, projectStack, formatValue } = require('./report.cjs');

// Start of V8's message about a file that does not compile: `/a/b.js:1`.
const BLAMED = /^((?:file:\/\/)?\/.*):(\d+)$/;

// Most names that are compared.
const TWINS_MAX = 200_000;

// An error's message, its two values, its stack, and the place of its innermost frame in the project.
function failure(error) {
  if (error === null || typeof error !== 'object') return { message: stripAnsi(error) };
  const values = valuesOf(error);
  const stack = withoutNode(error.stack);
  return { message: messageOf(error, values), ...values, ...blamed(error.stack), stack: stack === '' ? undefined : stack };
}

const withoutNode = (stack) => projectStack(stack).split('\n').filter((line) => !/[( ]node:/.test(line)).map((line) => line.trim()).join('\n');

// The file and line of a stack trace, or those that V8 prints before it.
function blamed(stack) {
  const [, file, line] = BLAMED.exec(stripAnsi(stack).split('\n', 1)[0]) ?? [];
  return file ? { file: file.replace(/^file:\/\//, ''), line: Number(line) } : projectLocation(stack);
}

// The message without the values, which have fields of their own, and without what a stack trace repeats.
function messageOf(error, values) {
  const text = stripAnsi(error.message);
  if (error.matcherResult && 'expected' in values) return text.split(/\n\s*\n/, 1)[0];
  if (error.generatedMessage && 'expected' in values && error.operator !== '==') {
    return text.split('\n', 1)[0].replace(/:$/, '');
  }
  const said = text.replace(/\nRequire stack:[^]*$/, '').replace(/:\s*\n\s*\n\s*/, ': ').trim();
  const kind = typeof error.name === 'string' && !/^(|Error|AssertionError)$/.test(error.name) ? error.name : '';
  if (said === '') return kind || 'an error without a message';
  return kind === '' || said.startsWith(kind) ? said : `${kind}: ${said}`;
}

// The two values of a comparison. A `not` comparison has two equal ones, which would explain nothing.
function valuesOf(error) {
  const found = error.matcherResult ?? error;
  if (!('expected' in found) || !('actual' in found)) return {};
  if (found.expected === undefined && found.actual === undefined) return {};
  if (/^(not|doesNot)|^fail$/.test(error.operator ?? '')) return {};
  return { expected: shown(found.expected), actual: shown(found.actual) };
}

// A text of several lines stays as it is, which is easier to read than a literal.
const shown = (value) => (typeof value === 'string' && value.includes('\n') ? value : formatValue(value));

// Why a process crashed, from the end of Node's stderr: the error's message and its place.
function describeCrash(said) {
  const lines = stripAnsi(said).split('\n');
  // V8 prints the place, the source line and a caret before the error.
  const from = lines.findIndex((line) => /^(Uncaught )?\S*(Error|Exception|Warning)\b.*: /.test(line));
  if (from < 0) return {};
  const frames = lines.slice(from);
  const head = lines.slice(0, from).find((line) => BLAMED.test(line)) ?? '';
  const message = lines[from].replace(/^Error: /, '').replace(/ \[\w+\]: /, ': ');
  // A file that does not compile is in no frame, only the one that imports it is.
  return { message, ...projectLocation([`at ${head}`, ...frames].join('\n')) };
}

// Counts tests with the file and the name of another test, which cannot be told apart in results.
class DuplicateTests {
  #names = new Set();
  #twins = 0;
  #first = '';

  add(nodeid) {
    if (this.#names.has(nodeid)) {
      this.#first ||= nodeid;
      this.#twins += 1;
    } else if (this.#names.size < TWINS_MAX) {
      this.#names.add(nodeid);
    }
  }

  // Sends a note about them, if there are any.
  report() {
    if (this.#twins === 0) return;
    emit('note', { text: `${this.#twins} test(s) have the file and the name of another one; the first is ${this.#first}` });
  }
}

module.exports = { DuplicateTests, failure, describeCrash };
