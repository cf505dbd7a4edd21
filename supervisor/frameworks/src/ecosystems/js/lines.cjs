// Writes the lines that each test of this process executed to a file that proctor reads after the run. Its format is that of
// `proctor_records.py`. What ran comes from `hits.cjs`.
'use strict';

const { randomBytes } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

const { joinTitles } = require('./report.cjs');

// Taken before a test can replace them.
const { openSync, writeSync, closeSync } = fs;
const { join, relative } = path;
// A path within a directory, without functions of Node that use others which a test can replace.
const pathIn = (directory, file) => (file.startsWith(`${directory}/`) ? file.slice(directory.length + 1) : relative(directory, file));
const { pid } = process;
const { stringify } = JSON;
const allocate = Buffer.allocUnsafe.bind(Buffer);
const bytesOf = Buffer.from.bind(Buffer);
// Ten times as fast as that of plain arrays of bytes, and most of what a test costs.
const { copy, indexOf } = Buffer.prototype;
const { apply } = Reflect;
const Numbers = Uint32Array;
const { sort } = Numbers.prototype;
const nextMark = (bytes, from) => (from < bytes.length ? apply(indexOf, bytes, [1, from]) : -1);

// A collection whose methods stay those that it has now.
function kept(Collection) {
  class Kept extends Collection {}
  const { constructor, ...methods } = Object.getOwnPropertyDescriptors(Collection.prototype);
  Object.defineProperties(Kept.prototype, methods);
  return Kept;
}

const KeptMap = kept(Map);
const KeptSet = kept(Set);

// A word: the line, a flag, the file's number.
const LINE_BITS = 17;
const OWN_LINE = 1 << LINE_BITS;
const FILE_SHIFT = LINE_BITS + 1;
const FILES_MAX = 1 << (32 - FILE_SHIFT);

// Most bytes that one process writes: proctor reads 128 MiB of all.
const BYTES_MAX = 48 * 1024 * 1024;

// Most files that one process names because they have no lines.
const NAMED_MAX = 8;

// Most objects of a configuration that are searched for paths.
const VALUES_MAX = 20_000;

// Settings with paths that the runner does not load for itself: what tests import, and which tests run.
const NOT_LOADED = new Set(['alias', 'moduleNameMapper', 'related']);

const noteBytes = (text) => bytesOf(`${stringify({ kind: 'note', text })}\n`);

// Why measuring has ended early, as the note for it.
const END = {
  bytes: noteBytes('the lines of some tests are left out: their process executed too many'),
  failed: noteBytes('the lines of some tests are left out: measuring failed in their process, as where a test replaces built-in functions'),
  write: noteBytes('the lines of some tests are left out: they could not be written to the file for them'),
};

let left = BYTES_MAX;
// The note for the end, while it could not be written.
let endNote;
// The file of the last record.
let last;
const named = new KeptSet();
// Tables of files whose lines this process has written.
const described = new KeptSet();

function append(place, content) {
  const file = openSync(place, 'a', 0o600);
  try {
    for (let written = 0; written < content.length; ) written += writeSync(file, content, written);
  } finally {
    closeSync(file);
  }
}

function giveUp(why) {
  if (left >= 0) endNote = why;
  left = -1;
  writeEndNote();
}

function writeEndNote() {
  if (endNote === undefined || last === undefined) return;
  try {
    append(last, endNote);
    endNote = undefined;
  } catch {
    // Tried again with the next test.
  }
}

// Does a part of the measurement. If it fails, as where a test has replaced what it calls, the measurement ends, and the tests run on.
function attempt(work) {
  if (left < 0) return writeEndNote();
  try {
    return work();
  } catch {
    return giveUp(END.failed);
  }
}

// The lines of the tests that share one registry of modules.
class Lines {
  #place;
  #hits;
  #workspace;
  #numbers = new KeptMap();
  // Words of each probe, by file of `hits`.
  #tables = [];
  // Files of `hits` that were looked at: for their lines, or for a reason of having no probes.
  #asked = 0;
  #shared = new KeptSet();
  #active = new KeptSet();
  #isMixed = false;
  // Number of the last set of lines of a test and its subtests.
  #joint = 0;
  // Whether processes or threads were started, of which no line is known, whether they may serve all test files, and whether a test says so.
  #hasStarted = false;
  #isStartOfAll = false;
  #isStartSaid = false;
  #alive = new KeptSet();
  #lastTest;

  // `settings`: the directory of the files, and the workspace's.
  constructor(settings, hits) {
    this.#place = join(settings.directory, `${pid}-${randomBytes(6).toString('hex')}`);
    this.#workspace = settings.workspace;
    this.#hits = hits;
    last = this.#place;
  }

  // A test begins. What ran before it is shared by all.
  begin(test) {
    this.outside();
    this.#active.add(test);
    if (this.#active.size > 1) this.#mix();
  }

  // What began beside the tests has ended, such as hooks: what ran meanwhile is shared by all.
  endShared(work) {
    if (!this.#active.delete(work)) return;
    this.outside();
    if (this.#active.size === 0) this.#isMixed = false;
  }

  // The test that began has ended. What ran while several were running is shared by all. `subtests`: the names of those that ran as
  // parts of it, which have its lines.
  end(test, file, titles, subtests = []) {
    if (!this.#active.delete(test)) return;
    if (this.#isMixed) this.outside();
    const words = this.#isMixed ? [] : this.#take();
    if (this.#active.size === 0) this.#isMixed = false;
    if (subtests.length === 0) return this.#writeTest(file, joinTitles(titles), [], words);
    this.#joint += 1;
    this.#write('fixture', { of: this.#joint }, words);
    this.#writeTest(file, joinTitles(titles), [this.#joint], []);
    for (let at = 0; at < subtests.length; at += 1) this.#writeTest(file, subtests[at], [this.#joint], []);
  }

  // `uses`: the numbers of sets of lines that the test shares with others.
  #writeTest(file, name, uses, words) {
    this.#isStartSaid = this.#hasStarted;
    this.#lastTest = [file, name];
    this.#write('test', { package: pathIn(this.#workspace, file), name, uses, processes: this.#isStartSaid }, words);
  }

  // A process or thread is started, which may serve this test or any later one of its file, or of all files. `one`: an object that says when it ends.
  started(isOfAll = false, one = undefined) {
    this.#hasStarted = true;
    this.#isStartOfAll ||= isOfAll;
    if (one === undefined) return;
    this.#alive.add(one);
    one.once('exit', () => this.#alive.delete(one));
  }

  // The tests of another file begin.
  beginFile() {
    this.endOfTests();
    this.#hasStarted = this.#isStartOfAll || this.#alive.size > 0;
    this.#lastTest = undefined;
  }

  // The last test is over. It stands for what was started behind it.
  endOfTests() {
    if (this.#hasStarted && !this.#isStartSaid && this.#lastTest) this.#writeTest(...this.#lastTest, [], []);
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
    const words = this.#take();
    const more = [];
    for (let at = 0; at < words.length; at += 1) {
      if (this.#shared.has(words[at])) continue;
      this.#shared.add(words[at]);
      more[more.length] = words[at];
    }
    if (more.length > 0) this.#write('packages', { of: null }, more);
  }

  // Says which files other files of the project may import: a test file that is none of them shares its lines with no other.
  imported(files) {
    const numbers = [];
    this.#numbers.forEach((number, file) => {
      if (files.has(`${this.#workspace}/${file}`)) numbers[numbers.length] = number;
    });
    this.#write('imported', { files: numbers });
  }

  // Says which files the modules of a test file were loaded from, and which project files are among `others`, which Node itself loaded
  // in this process. Without this record it is not known what the test file loads.
  loaded(file, others) {
    this.#writeLoads(file, [], this.#projectPaths(others));
  }

  // The same for a process of Node that loads files with probes. A source without them has executed what no line shows.
  loadedAll(file, all) {
    const known = new KeptSet();
    for (let at = 0; at < this.#hits.files.length; at += 1) known.add(this.#hits.files[at].path);
    const more = [];
    const others = [];
    this.#projectPaths(all).forEach((path) => {
      const isUnmeasured = SOURCE.test(path) && !known.has(path);
      if (isUnmeasured) others[others.length] = path;
      else if (!known.has(path)) more[more.length] = path;
    });
    this.#writeLoads(file, more, others);
  }

  #writeLoads(file, paths, others) {
    this.#noteUnmeasuredFiles();
    for (let at = 0; at < this.#hits.files.length; at += 1) paths[paths.length] = this.#hits.files[at].path;
    const files = this.#numbersOf(paths);
    const natively = this.#numbersOf(others);
    if (files && natively) this.#write('loads', { package: pathIn(this.#workspace, file), files, natively });
  }

  // Says which files a test file depends on that shares its modules with others. Without this record it is not known.
  depends(file, files) {
    const numbers = this.#numbersOf(this.#projectPaths(files));
    if (numbers) this.#write('depends', { package: pathIn(this.#workspace, file), files: numbers });
  }

  // Says which files the runner's own process was started with: settings, set-up of all tests, reporters.
  runner(files) {
    const numbers = this.#numbersOf(this.#projectPaths(files));
    if (numbers) this.#write('runner', { files: numbers });
  }

  #projectPaths(files) {
    const paths = [];
    for (let at = 0; at < files.length; at += 1) {
      if (isProjectFile(files[at], this.#workspace)) paths[paths.length] = pathIn(this.#workspace, files[at]);
    }
    return paths;
  }

  // `undefined` if one of them has no number.
  #numbersOf(paths) {
    const numbers = [];
    for (let at = 0; at < paths.length; at += 1) {
      const number = this.#number(paths[at]);
      if (number === undefined) return undefined;
      numbers[at] = number;
    }
    return numbers;
  }

  // The project's sources among `files` that were loaded without probes: what they executed is not known.
  unmeasuredAmong(files) {
    const measured = new KeptSet();
    for (let at = 0; at < this.#hits.files.length; at += 1) {
      const { path, why } = this.#hits.files[at];
      if (why === undefined) measured.add(join(this.#workspace, path));
    }
    const found = [];
    for (let at = 0; at < files.length; at += 1) {
      if (isProjectSource(files[at], this.#workspace) && !measured.has(files[at])) found[found.length] = files[at];
    }
    return found;
  }

  // Whether a file was loaded with probes.
  hasLinesOf(file) {
    const wanted = pathIn(this.#workspace, file);
    const { files } = this.#hits;
    for (let at = 0; at < files.length; at += 1) if (files[at].path === wanted) return true;
    return false;
  }

  note(text) {
    this.#write('note', { text });
  }

  #take() {
    const words = new KeptSet();
    this.#hits.take(nextMark, (number, probe) => {
      const table = (this.#tables[number] ??= this.#table(this.#hits.files[number]));
      const own = table[probe];
      for (let at = 0; own !== undefined && at < own.length; at += 1) words.add(own[at]);
    });
    this.#noteUnmeasuredFiles();
    const all = [];
    words.forEach((word) => {
      all[all.length] = word;
    });
    return all;
  }

  // Notes which files have no lines, and why.
  #noteUnmeasuredFiles() {
    const { files, isIncomplete } = this.#hits;
    for (; this.#asked < files.length; this.#asked += 1) {
      const { path: file, why, table } = files[this.#asked];
      this.#describe(file, why === undefined ? table : undefined);
      if (why === undefined || named.has(file) || named.size > NAMED_MAX) continue;
      named.add(file);
      this.note(named.size > NAMED_MAX ? 'the lines of more files are not measured' : `the lines of ${file} are not measured: ${why}`);
    }
    if (isIncomplete) giveUp(END.failed);
  }

  // Writes which lines of a file can be executed, once in this process; without a table, that the file was loaded.
  #describe(file, table) {
    const key = `${file}\0${table}`;
    if (described.has(key)) return;
    described.add(key);
    const number = this.#number(file);
    if (number !== undefined && table !== undefined) this.#write('lines', { of: number, spans: linesOf(table) });
  }

  // The words of each probe of a file.
  #table({ path: file, table }) {
    const number = this.#number(file);
    // Beyond 31 bits an operator's result would be negative.
    return number === undefined ? [] : wordsOf(table, number * 2 ** FILE_SHIFT);
  }

  #number(file) {
    let number = this.#numbers.get(file);
    if (number === undefined) {
      number = this.#numbers.size;
      if (number >= FILES_MAX) {
        if (!named.has(FILES_MAX)) this.note(`only the lines of the first ${FILES_MAX} files that are loaded are measured`);
        named.add(FILES_MAX);
        return undefined;
      }
      this.#numbers.set(file, number);
      this.#write('file', { path: file });
    }
    return number;
  }

  #write(kind, fields, words) {
    if (left < 0) return;
    const record = words === undefined ? { kind, ...fields } : { kind, ...fields, n: words.length };
    const head = bytesOf(`${stringify(record)}\n`);
    const content = allocate(head.length + 4 * (words?.length ?? 0));
    apply(copy, head, [content]);
    for (let at = head.length, next = 0; at < content.length; next += 1) {
      for (let shift = 0; shift < 32; shift += 8, at += 1) content[at] = words[next] >>> shift;
    }
    last = this.#place;
    left -= content.length;
    if (left < 0) {
      left = 0;
      giveUp(END.bytes);
      return;
    }
    try {
      append(this.#place, content);
    } catch {
      giveUp(END.write);
    }
  }
}

// Reads a table (`probes.cjs`), such as `!1,3-5;8`: the words of each probe, in a file whose words begin at `base`.
function wordsOf(table, base) {
  const probes = [];
  let words = [];
  let flag = 0;
  let first = 0;
  let line = 0;
  for (let at = 0; at <= table.length; at += 1) {
    const char = table[at];
    if (char >= '0' && char <= '9') {
      line = 10 * line + +char;
    } else if (char === '!') {
      flag = OWN_LINE;
    } else if (char === '-') {
      first = line;
      line = 0;
    } else {
      for (let next = first || line; next > 0 && next <= line; next += 1) words[words.length] = base + flag + next;
      first = 0;
      line = 0;
      if (char === ',') continue;
      probes[probes.length] = words;
      words = [];
      flag = 0;
    }
  }
  return probes;
}

// The lines of all probes of a table, such as `1,3-5,8`.
function linesOf(table) {
  const lines = new KeptSet();
  const probes = wordsOf(table, 0);
  for (let probe = 0; probe < probes.length; probe += 1) {
    for (let at = 0; at < probes[probe].length; at += 1) lines.add(probes[probe][at] & (OWN_LINE - 1));
  }
  const sorted = new Numbers(lines.size);
  let count = 0;
  lines.forEach((line) => {
    sorted[count] = line;
    count += 1;
  });
  apply(sort, sorted, []);
  let text = '';
  for (let at = 0; at < count; at += 1) {
    const first = sorted[at];
    while (at + 1 < count && sorted[at + 1] === sorted[at] + 1) at += 1;
    text += (text === '' ? '' : ',') + (first === sorted[at] ? first : `${first}-${sorted[at]}`);
  }
  return text;
}

// The variables by which proctor asks for the measurement, with the names that settings have here.
const VARIABLES = { directory: 'PROCTOR_COVERAGE', workspace: 'PROCTOR_WORKSPACE', cache: 'PROCTOR_LINES_CACHE' };

const taken = {};

// Where to write, which workspace is measured, and where code is cached; `undefined` if proctor asked for no measurement.
function readSettings() {
  const found = Object.entries(VARIABLES).map(([name, variable]) => [name, process.env[variable]]);
  const settings = Object.fromEntries(found.filter(([, value]) => value));
  return settings.directory && settings.workspace ? settings : undefined;
}

// The same, removed from the environment: a runner that a test starts measures nothing.
function takeSettings() {
  const settings = readSettings();
  for (const variable of Object.values(VARIABLES)) {
    if (process.env[variable]) taken[variable] = process.env[variable];
    delete process.env[variable];
  }
  delete process.env.PROCTOR_DEADLINE; // Which all runs with a measurement have.
  return settings;
}

// Gives the settings to the processes that this one starts from a file whose path matches, and to no other.
function lendSettings(pattern) {
  if (taken[VARIABLES.directory] === undefined) return;
  const processes = require('node:child_process');
  const { fork } = processes;
  processes.fork = (file, args, options) => {
    const isOurs = pattern.test(String(file));
    return fork(file, args, isOurs ? { ...options, env: { ...(options?.env ?? process.env), ...taken } } : options);
  };
}

// Says at the end of this process which files the runner used for itself: those that Node loaded here, those that ran with probes in this
// realm, and those that its configuration names.
function noteRunnerFiles(settings, configuration, more = () => []) {
  process.once('exit', () => {
    try {
      const { workspace } = settings;
      const own = (globalThis.$proctor_lines?.hits.files ?? []).map(({ path: file }) => join(workspace, file));
      const named = filesIn(configuration, new Set());
      new Lines(settings).runner([...new Set([...Object.keys(require.cache), ...own, ...named, ...more()])]);
    } catch {
      // Without this record, every change may concern all tests.
    }
  });
}

// The absolute paths among the texts of a configuration.
function filesIn(value, seen) {
  if (typeof value === 'string') return value.startsWith('/') ? [value.split('?', 1)[0]] : [];
  if (value === null || typeof value !== 'object' || seen.has(value)) return [];
  if (seen.size >= VALUES_MAX) throw new RangeError('the configuration is too large to be searched');
  seen.add(value);
  return Object.entries(value).flatMap(([name, one]) => (NOT_LOADED.has(name) ? [] : filesIn(one, seen)));
}

// A sentence for the report.
const noteFor = (settings, text) => new Lines(settings).note(text);

// Whether a file is the project's own: in the workspace, and not a package that it installed.
function isProjectFile(file, workspace) {
  return file.startsWith(`${workspace}/`) && !file.slice(workspace.length).includes('/node_modules/');
}

// Files that are JavaScript, or become JavaScript of their own.
const SOURCE = /\.(?:[cm]?[jt]sx?|svelte|vue)$/;

const isProjectSource = (file, workspace) => SOURCE.test(file) && isProjectFile(file, workspace);

module.exports = { KeptMap, KeptSet, Lines, attempt, isProjectFile, isProjectSource, lendSettings, noteFor, noteRunnerFiles, readSettings, takeSettings };
