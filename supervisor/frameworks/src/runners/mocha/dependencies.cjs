// Which files of the project each test file of Mocha depends on. All test files share one registry of modules, and the first to load a
// module loads it for all, so that what ran says little. But Node tells of each load which module asked for it, whether it was there
// already or not: a test file depends on what is reached from it in this way.
//
// What serves all test files, as a file of `--require` does, is the runner's: any test may depend on it.
'use strict';

const { fileURLToPath } = require('node:url');

const { KeptMap, KeptSet, attempt, isProjectFile } = require('../js/lines.cjs');
const itself = require('./itself.cjs');

// Taken before a test can replace them.
const { apply, getOwnPropertyDescriptor } = Reflect;
const { getOwnPropertyNames } = Object;
const { test } = RegExp.prototype;

// What loads an ES module from a CommonJS one, or a module for none that is known.
const UNSEEN_LOADING = /\bimport\s*\(|\bcreateRequire\b/;

// Most modules that are kept although they were loaded anew.
const REPLACED_MAX = 1_000;

// Where istanbul counts what its probes count, in the name of the file that is loaded first.
const COVERAGE = '__coverage__';

// The hooks of a suite, by which a test file may set something up for others.
const HOOKS = ['beforeAll', 'beforeEach', 'afterAll', 'afterEach'];

// Most frames between a hook and the file that it stands in.
const FRAMES_MAX = 100;

class Dependencies {
  #workspace;
  #seesModules = false;
  // By file, the ES modules that it asked for.
  #imports = new KeptMap();
  // The CommonJS modules of each file, which know those that they asked for. A file that is loaded anew has several.
  #modules = new KeptMap();
  #replaced = 0;
  // The project's files in the order in which they began to load, with the number of global variables then.
  #files = new KeptMap();
  // Those that may load what is not seen.
  #openFiles = new KeptSet();
  // Those that set something up for all test files.
  #ofAll = new KeptSet();
  // The project's files that are being loaded.
  #loading = [];
  #globals;
  // How many global variables are known to be set by files.
  #noted = 0;
  // The number of global variables when all files were loaded.
  #end;

  constructor({ workspace }) {
    this.#workspace = workspace;
    const own = itself.directory();
    this.isOfMocha = (file) => file.startsWith(`${own}/`);
    // Settings and what they load.
    Object.values(require.cache).forEach((module) => this.#addModule(module));
    Object.keys(require.cache).filter((file) => this.#isOfProject(file)).forEach((file) => this.#addForAll(file));
    this.#watchHooks();
  }

  // Whether ES modules are seen as they are loaded, by `resolved` and `loaded`.
  set seesModules(does) {
    this.#seesModules = does;
  }

  #isOfProject(file) {
    return typeof file === 'string' && isProjectFile(file, this.#workspace);
  }

  #addForAll(file) {
    this.#addFile(file);
    this.#ofAll.add(file);
  }

  #addFile(file) {
    if (!this.#files.has(file)) this.#files.set(file, this.#unseenGlobals());
  }

  #unseenGlobals() {
    return getOwnPropertyNames(globalThis).length - this.#noted;
  }

  #addModule(module) {
    const { filename } = module;
    if (typeof filename !== 'string') return;
    const known = this.#modules.get(filename);
    if (known === undefined) return void this.#modules.set(filename, [module]);
    if (known.includes(module)) return;
    this.#replaced += 1;
    if (this.#replaced <= REPLACED_MAX) known.push(module);
  }

  // An ES module, or one that is loaded like these, was asked for.
  resolved(from, to) {
    if (!from?.startsWith('file:') || !to.startsWith('file:')) return;
    const file = fileURLToPath(from);
    let imports = this.#imports.get(file);
    if (imports === undefined) this.#imports.set(file, (imports = new KeptSet()));
    imports.add(fileURLToPath(to));
  }

  // An ES module, or one that is loaded like these, is loaded.
  loaded(file) {
    if (this.#isOfProject(file)) this.#addFile(file);
  }

  // A CommonJS module begins to run.
  begins(module, file, code) {
    attempt(() => {
      this.#addModule(module);
      if (!this.#isOfProject(file)) return;
      this.#addFile(file);
      if (!this.#seesModules && apply(test, UNSEEN_LOADING, [code])) this.#openFiles.add(file);
      // Mocha gives each test file functions of its own in global variables.
      if (this.#loading.length === 0) this.#globals = globals();
      else this.#noteGlobals();
      this.#loading[this.#loading.length] = file;
    });
  }

  ends(file) {
    attempt(() => {
      if (this.#loading[this.#loading.length - 1] !== file) return;
      this.#noteGlobals();
      this.#loading.length -= 1;
    });
  }

  // Notes whether the file that is being loaded has set a global variable.
  #noteGlobals() {
    const now = globals();
    const before = this.#globals;
    let isSame = now.size === before.size;
    this.#noted += now.size - before.size;
    now.forEach((value, name) => {
      isSame &&= before.has(name) && Object.is(before.get(name), value);
    });
    this.#globals = now;
    if (!isSame) this.#ofAll.add(this.#loading[this.#loading.length - 1]);
  }

  // Notes which files have hooks outside of all suites.
  #watchHooks() {
    const { prototype } = itself.mocha().Suite;
    const note = () => attempt(() => {
      const file = callers().find((caller) => this.#isOfProject(caller));
      if (file !== undefined) this.#ofAll.add(file);
    });
    for (const name of HOOKS) {
      const { [name]: add } = prototype;
      prototype[name] = function (...all) {
        if (this.root) note();
        return apply(add, this, all);
      };
    }
  }

  // All test files are loaded.
  loadedAll() {
    this.#end = this.#unseenGlobals();
  }

  // Writes what each of these test files depends on, and what all do.
  write(lines, testFiles) {
    const files = [...this.#files.keys()];
    const first = files.findIndex((file) => testFiles.has(file));
    const unmeasured = lines.unmeasuredAmong(files).filter((file) => !testFiles.has(file));
    const ofAll = this.#reached([...files.slice(0, Math.max(first, 0)), ...this.#ofAll, ...unmeasured]);
    // As an ES module sets a global variable, it is not seen which one does.
    const areGlobalsSeen = first >= 0 && this.#files.get(files[first]) === this.#end;
    const areTestFilesSeen = [...testFiles].every((file) => this.#files.has(file));
    if (ofAll !== undefined && areGlobalsSeen && areTestFilesSeen) lines.runner(ofAll);
    for (const file of testFiles) {
      const reached = this.#files.has(file) ? this.#reached([file]) : undefined;
      if (reached !== undefined) lines.depends(file, reached);
    }
  }

  // The project's files that are reached from `files`; `undefined` if these may not be all.
  #reached(files) {
    if (this.#replaced > REPLACED_MAX) return undefined;
    const found = new Set(files);
    for (const file of found) {
      if (this.#openFiles.has(file)) return undefined;
      // Mocha loads test files, which depend on each other no more for that.
      if (this.isOfMocha(file)) continue;
      this.#imports.get(file)?.forEach((to) => found.add(to));
      this.#modules.get(file)?.forEach(({ children }) => children.forEach(({ filename }) => filename && found.add(filename)));
    }
    return [...found].filter((file) => this.#isOfProject(file));
  }
}

// The values of all global variables, or what computes them.
function globals() {
  const found = new KeptMap();
  const names = getOwnPropertyNames(globalThis);
  for (let at = 0; at < names.length; at += 1) {
    const described = getOwnPropertyDescriptor(globalThis, names[at]);
    if (described !== undefined && names[at] !== COVERAGE) found.set(names[at], described.get ?? described.value);
  }
  return found;
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
