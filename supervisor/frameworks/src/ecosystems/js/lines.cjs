// Writes the lines that each test of this process executed to a file that proctor reads after the run. Its format is that of
// `proctor_coverage.py`. What ran comes from `hits.cjs`.
'use strict';

const { randomBytes } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

const { joinTitles } = require('./report.cjs');

// Taken before a test can replace them.
const { openSync, writeSync, closeSync } = fs;
const { pid } = process;
const { stringify } = JSON;
const allocate = Buffer.allocUnsafe.bind(Buffer);
const bytesOf = Buffer.from.bind(Buffer);
// Ten times as fast as that of plain arrays of bytes, and most of what a test costs.
const { indexOf } = Buffer.prototype;
const { apply } = Reflect;
const nextMark = (bytes, from) => (from < bytes.length ? apply(indexOf, bytes, [1, from]) : -1);

// A word: the line, a flag, the file's number.
const LINE_BITS = 17;
const OWN_LINE = 1 << LINE_BITS;
const FILE_SHIFT = LINE_BITS + 1;
const FILES_MAX = 1 << (32 - FILE_SHIFT);

// Most bytes that one process writes: proctor reads 128 MiB of all.
const BYTES_MAX = 48 * 1024 * 1024;

let left = BYTES_MAX;

// The lines of the tests that share one registry of modules.
class Lines {
  #place;
  #hits;
  #workspace;
  #numbers = new Map();
  // Words of each probe, by file of `hits`.
  #tables = [];
  #shared = new Set();
  #active = new Set();
  #isMixed = false;

  // `settings`: the directory of the files, and the workspace's.
  constructor(settings, hits) {
    this.#place = path.join(settings.directory, `${pid}-${randomBytes(6).toString('hex')}`);
    this.#workspace = settings.workspace;
    this.#hits = hits;
  }

  // A test begins. What ran before it is shared by all.
  begin(test) {
    this.outside();
    this.#active.add(test);
    if (this.#active.size > 1) this.#mix();
  }

  // The test that began has ended. What ran while several were running is shared by all.
  end(test, file, titles) {
    if (!this.#active.delete(test)) return;
    if (this.#isMixed) this.outside();
    const words = this.#isMixed ? [] : this.#take();
    if (this.#active.size === 0) this.#isMixed = false;
    this.#write('test', { package: this.#relative(file), name: joinTitles(titles), uses: [], processes: false }, words);
  }

  // From here on lines are shared by all tests, since they cannot be told apart.
  mix() {
    this.#mix();
    this.#active.add(this);
  }

  #mix() {
    if (!this.#isMixed) this.note('tests that run at the same time share their lines with all tests of their file');
    this.#isMixed = true;
  }

  // What ran since the last call is shared by all tests.
  outside() {
    const words = this.#take().filter((word) => !this.#shared.has(word));
    if (words.length === 0) return;
    for (const word of words) this.#shared.add(word);
    this.#write('packages', { of: null }, words);
  }

  // Says which files other files of the project may import: a test file that is none of them shares its lines with no other.
  imported(files) {
    const names = [...this.#numbers.keys()].filter((file) => files.has(path.join(this.#workspace, file)));
    this.#write('imported', { files: names.map((file) => this.#numbers.get(file)) });
  }

  // Whether a file was loaded with probes.
  hasLinesOf(file) {
    const wanted = this.#relative(file);
    return this.#hits.files.some((known) => known.path === wanted);
  }

  note(text) {
    this.#write('note', { text });
  }

  #take() {
    const words = new Set();
    this.#hits.take(nextMark, (number, probe) => {
      const table = (this.#tables[number] ??= this.#table(this.#hits.files[number]));
      for (const word of table[probe] ?? []) words.add(word);
    });
    return [...words];
  }

  // The words of each probe of a file.
  #table({ path: file, table }) {
    let number = this.#numbers.get(file);
    if (number === undefined) {
      number = this.#numbers.size;
      if (number >= FILES_MAX) return [];
      this.#numbers.set(file, number);
      this.#write('file', { path: file });
    }
    return table.split(';').map((lines) => {
      const flag = lines.startsWith('!') ? OWN_LINE : 0;
      const spans = lines.slice(flag ? 1 : 0).split(',').filter(Boolean).map((span) => span.split('-').map(Number));
      const words = [];
      // Beyond 31 bits an operator's result would be negative.
      for (const [first, last = first] of spans) for (let line = first; line <= last; line += 1) words.push(number * 2 ** FILE_SHIFT + flag + line);
      return words;
    });
  }

  #relative(file) {
    return path.relative(this.#workspace, file).split(path.sep).join('/');
  }

  #write(kind, fields, words) {
    if (left < 0) return;
    const record = words === undefined ? { kind, ...fields } : { kind, ...fields, n: words.length };
    const head = bytesOf(`${stringify(record)}\n`);
    let content = allocate(head.length + 4 * (words?.length ?? 0));
    head.copy(content);
    words?.forEach((word, at) => content.writeUInt32LE(word, head.length + 4 * at));
    left -= content.length;
    if (left < 0) content = bytesOf('{"kind":"note","text":"the lines of some tests are left out: their process executed too many"}\n');
    try {
      const file = openSync(this.#place, 'a', 0o600);
      try {
        for (let written = 0; written < content.length; ) written += writeSync(file, content, written);
      } finally {
        closeSync(file);
      }
    } catch {
      left = -1; // The measurement is lost, and nothing else.
    }
  }
}

// Where to write, and which workspace is measured; `undefined` if proctor asked for no measurement. Removed from the environment: a
// runner that a test starts measures nothing.
function takeSettings() {
  const { PROCTOR_COVERAGE: directory, PROCTOR_WORKSPACE: workspace } = process.env;
  delete process.env.PROCTOR_COVERAGE;
  delete process.env.PROCTOR_WORKSPACE;
  return directory && workspace ? { directory, workspace } : undefined;
}

// A sentence for the report.
const noteFor = (settings, text) => new Lines(settings).note(text);

// Whether a file is the project's own: in the workspace, and not a package that it installed.
function isProjectFile(file, workspace) {
  return file.startsWith(`${workspace}/`) && !file.slice(workspace.length).includes('/node_modules/');
}

module.exports = { Lines, isProjectFile, noteFor, takeSettings };
