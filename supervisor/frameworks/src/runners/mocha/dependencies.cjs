// Which files of the project each test file of Mocha depends on. All test files share one registry of modules, and the first to load a
// module loads it for all, so that what ran says little. But Node knows of each module which others it asked for, whether they were there
// already or not: a test file depends on what is reached from it in this way.
//
// What serves all test files, as a file of `--require` does, is the runner's: any test may depend on it.
'use strict';

const path = require('node:path');
const { fileURLToPath } = require('node:url');

const { KeptMap, KeptSet, attempt, isProjectFile } = require('../js/lines.cjs');
const { Globals } = require('./globals.cjs');
const itself = require('./itself.cjs');
const { mayLoadUnseen } = require('./unseen_loading.cjs');

// Taken before a test can replace it.
const { apply } = Reflect;

// The hooks of a suite, by which a test file may set something up for others.
const HOOKS = ['beforeAll', 'beforeEach', 'afterAll', 'afterEach'];

// Beginning of the names of Node's own files that load others.
const LOADER = 'node:internal/modules/';

const NOT_SELECTED = 'all tests run after a change';

// Most frames between a hook and the file that it stands in.
const FRAMES_MAX = 100;

// Most modules that are kept although they were loaded anew.
const REPLACED_MAX = 1_000;

class Dependencies {
  #workspace;
  #mocha;
  #seesModules = false;
  // By file, those that were loaded for it.
  #loads = new KeptMap();
  // The CommonJS modules of each file, which know those that they asked for. A file that is loaded anew has several.
  #modules = new KeptMap();
  #replaced = 0;
  // The project's files in the order in which they began to load, with the number of global variables that no file is known to have added.
  #files = new KeptMap();
  // The files that Mocha loads as test files, with the number of tests that came with each, and how many files were loaded before; `undefined`
  // until then.
  #specs = new KeptMap();
  #before;
  // Those that may load what is not seen.
  #openFiles = new KeptSet();
  // Those that set something up for all test files.
  #ofAll = new KeptSet();
  // The project's files that are being loaded.
  #loading = [];
  #globals = new Globals();
  // Whether Mocha still loads files.
  #isBeginning = true;
  #globalsAtEnd;

  constructor({ workspace }) {
    this.#workspace = workspace;
    this.#mocha = `${itself.directory()}/`;
    // Settings and what they load.
    for (const module of Object.values(require.cache)) {
      this.#addModule(module);
      if (!this.#isOfProject(module.filename)) continue;
      this.#addFile(module.filename);
      this.#ofAll.add(module.filename);
    }
    this.#watchHooks();
    this.#watchLoading();
  }

  // Whether ES modules are seen as they are loaded, by `resolved` and `loaded`.
  set seesModules(does) {
    this.#seesModules = does;
  }

  #isOfProject(file) {
    return typeof file === 'string' && isProjectFile(file, this.#workspace);
  }

  #addFile(file) {
    if (!this.#files.has(file)) this.#files.set(file, this.#isBeginning ? this.#globals.unseen : undefined);
  }

  #addModule(module) {
    const { filename } = module;
    if (typeof filename !== 'string') return;
    let known = this.#modules.get(filename);
    if (known === undefined) this.#modules.set(filename, (known = new KeptSet()));
    if (known.has(module)) return;
    if (known.size > 0) this.#replaced += 1;
    if (this.#replaced <= REPLACED_MAX) known.add(module);
  }

  #addLoad(from, to) {
    let loads = this.#loads.get(from);
    if (loads === undefined) this.#loads.set(from, (loads = new KeptSet()));
    loads.add(to);
  }

  // An ES module, or one that is loaded like these, was asked for.
  resolved(from, to) {
    if (!from?.startsWith('file:') || !to.startsWith('file:')) return;
    this.#addLoad(fileURLToPath(from), fileURLToPath(to));
  }

  // An ES module, or one that is loaded like these, is loaded.
  loaded(file) {
    if (this.#isOfProject(file)) this.#addFile(file);
  }

  // A CommonJS module begins to run.
  begins(module, file, code) {
    attempt(() => {
      this.#addModule(module);
      const outer = this.#loading[this.#loading.length - 1];
      // A module that cannot be loaded is no child of the one that asked for it.
      const parent = module.parent?.filename;
      if (typeof parent === 'string') this.#addLoad(parent, file);
      if (!this.#isOfProject(file)) return;
      if (outer !== undefined) this.#addLoad(outer, file);
      this.#loading[this.#loading.length] = file;
      this.#addFile(file);
      if (!this.#seesModules && mayLoadUnseen(code)) this.#openFiles.add(file);
      // Mocha gives each test file functions of its own in global variables.
      if (!this.#isBeginning) return;
      if (outer === undefined) this.#globals.forgetChanges();
      else this.#noteGlobals(outer);
    });
  }

  ends(file) {
    attempt(() => {
      if (this.#loading[this.#loading.length - 1] !== file) return;
      this.#loading.length -= 1;
      if (this.#isBeginning) this.#noteGlobals(file);
    });
  }

  #noteGlobals(file) {
    if (this.#globals.takeChanges()) this.#ofAll.add(file);
  }

  // Notes which files have hooks outside of all suites, and which have called for them.
  #watchHooks() {
    const { prototype } = itself.mocha().Suite;
    const note = () => attempt(() => {
      if (!this.#isBeginning) return;
      const files = callers();
      // Behind it are files that wait for one to be loaded.
      const end = files.findIndex((file) => file?.startsWith(LOADER));
      files.slice(0, end < 0 ? undefined : end).filter((file) => this.#isOfProject(file)).forEach((file) => this.#ofAll.add(file));
    });
    for (const name of HOOKS) {
      const { [name]: add } = prototype;
      prototype[name] = function (...all) {
        if (this.root) note();
        return apply(add, this, all);
      };
    }
  }

  // Notes which files Mocha loads as test files, when it begins to do so.
  #watchLoading() {
    const { prototype } = itself.mocha();
    const begin = ({ files, suite }) => attempt(() => {
      if (this.#before !== undefined) return;
      this.#before = this.#files.size;
      files.forEach((file) => this.#specs.set(path.resolve(file), 0));
      let before;
      suite.on('pre-require', () => attempt(() => (before = suite.total())));
      suite.on('post-require', (_, file) => attempt(() => this.#specs.set(path.resolve(file), suite.total() - before)));
    });
    for (const name of ['loadFiles', 'loadFilesAsync']) {
      const { [name]: load } = prototype;
      if (load === undefined) continue; // Of the first versions.
      prototype[name] = function (...all) {
        begin(this);
        return apply(load, this, all);
      };
    }
  }

  // All test files are loaded.
  loadedAll() {
    this.#isBeginning = false;
    this.#globalsAtEnd = this.#globals.unseen;
  }

  // Writes what each of these test files depends on, each with the files in which its tests and suites stand, and what all do.
  write(lines, testFiles, isWhole) {
    for (const [file, { parts }] of testFiles) {
      const { reached, areAll } = this.#reach(parts);
      if (areAll && [...parts].every((part) => this.#files.has(part))) lines.depends(file, reached);
    }
    const ofAll = isWhole ? this.#servingAll(lines, testFiles) : undefined;
    if (ofAll !== undefined) lines.runner(ofAll);
  }

  // What all test files depend on; `undefined` if that is not known, or if a run of some test files lacks a part of it.
  #servingAll(lines, testFiles) {
    const files = [...this.#files.keys()];
    const ofTests = new Set([...testFiles.values()].flatMap(({ parts }) => [...parts]));
    if (this.#before === undefined || ![...ofTests].every((file) => this.#files.has(file))) return undefined;
    // As an ES module adds a global variable, it is not seen which one does.
    const areGlobalsSeen = this.#files.get(files[this.#before]) === this.#globalsAtEnd;
    if (!areGlobalsSeen) return void lines.note(`${NOT_SELECTED}: an ES module adds global variables`);
    const before = new Set(files.slice(0, this.#before));
    const late = [...this.#ofAll].filter((file) => !before.has(file));
    const reached = late.length === 0 ? [] : [...testFiles.values()].map(({ parts }) => new Set(this.#reach(parts).reached));
    const lacking = late.find((file) => reached.some((found) => !found.has(file)));
    if (lacking !== undefined) {
      const name = lacking.slice(this.#workspace.length + 1);
      return void lines.note(`${NOT_SELECTED}: ${name} sets something up for all test files, and not each of them loads it`);
    }
    // Tests that a function of another test file has made belong to that one.
    const others = [...this.#specs].filter(([file, tests]) => tests !== (testFiles.get(file)?.tests ?? 0)).map(([file]) => file);
    const unmeasured = lines.unmeasuredAmong(files).filter((file) => !ofTests.has(file));
    const all = this.#reach([...before, ...late, ...others, ...unmeasured]);
    return all.areAll ? all.reached : undefined;
  }

  // The project's files that are reached from `files`, and whether these are all.
  #reach(files) {
    let areAll = this.#replaced <= REPLACED_MAX;
    const found = new Set(files);
    for (const file of found) {
      areAll &&= !this.#openFiles.has(file);
      // Mocha loads test files, which depend on each other no more for that.
      const isMochas = file.startsWith(this.#mocha);
      const add = (to) => isMochas && this.#specs.has(to) ? undefined : found.add(to);
      this.#loads.get(file)?.forEach(add);
      this.#modules.get(file)?.forEach(({ children }) => {
        for (const child of children) {
          if (typeof child.filename !== 'string') continue;
          this.#addModule(child);
          add(child.filename);
        }
      });
    }
    return { reached: [...found].filter((file) => this.#isOfProject(file)), areAll };
  }
}

// The files of the functions that led here, the nearest first.
function callers() {
  const { prepareStackTrace, stackTraceLimit } = Error;
  try {
    Error.stackTraceLimit = FRAMES_MAX;
    Error.prepareStackTrace = (_, sites) => sites.map((site) => site.getFileName());
    const files = new Error().stack;
    return files.map((file) => (file?.startsWith('file:') ? fileURLToPath(file) : file));
  } finally {
    Object.assign(Error, { prepareStackTrace, stackTraceLimit });
  }
}

module.exports = { Dependencies };
