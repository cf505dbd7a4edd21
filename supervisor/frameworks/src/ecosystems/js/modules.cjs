// Gives probes to the project's modules as Node loads them in this process, for runners that load files by themselves. The parser is
// the one that Node brings.
//
// Code that a hook of the project has compiled has an inline map, or no lines. ES modules need `module.registerHooks`, by which Node also
// loads CommonJS modules: in Mocha, only a package of type `module` gets it.
'use strict';

const { createHash, randomBytes } = require('node:crypto');
const fs = require('node:fs');
const Module = require('node:module');
const path = require('node:path');
const { fileURLToPath } = require('node:url');

const { HAS_HOOKS, NODES_WITH_HOOKS, parser } = require('./node_internals.cjs');
const { install } = require('./hits.cjs');
const { Lines, attempt, isProjectFile } = require('./lines.cjs');
const { VERSION, inlineMap, insert } = require('./probes.cjs');

const OPTIONS = {
  ecmaVersion: 'latest',
  allowAwaitOutsideFunction: true,
  allowHashBang: true,
  allowReturnOutsideFunction: true,
  allowSuperOutsideMethod: true,
};

// Formats of Node's loading.
const MODULES = new Set(['module', 'module-typescript']);
const TYPESCRIPT = new Set(['typescript', 'commonjs-typescript', 'module-typescript']);

// Taken before a test can replace them: tests load modules, too.
const { readFileSync, writeFileSync, renameSync, mkdirSync } = fs;
const { slice } = String.prototype;
const bytesOf = Buffer.from.bind(Buffer);
const { stringify } = JSON;
const { apply } = Reflect;

class MeasuredModules {
  #cache;
  // `null` if Node has none.
  #parse;
  #workspace;
  // ES modules, which any other may import.
  #modules = new Set();
  #hasHooks;
  #mayLackLines = true;
  #entry;
  // Files that Node loaded through the hooks, of any kind.
  #files = new Set();
  #dependencies;

  // `settings`: the directories of the records, of the workspace, and of cached code. `entry`: the file that this process is for, if
  // all others are loaded for it. `dependencies`: what is told of each load.
  constructor(settings, { entry, dependencies }) {
    this.#cache = settings.cache;
    this.#entry = entry;
    this.#dependencies = dependencies;
    this.#workspace = settings.workspace;
    this.lines = new Lines(settings, install(globalThis));
    const { _compile } = Module.prototype;
    const compiled = (code, file, format) => {
      const text = attempt(() => withoutTypes(code, format));
      return text === undefined ? code : this.#withProbes(text, file);
    };
    Module.prototype._compile = function (code, file, format, ...more) {
      if (dependencies === undefined) return apply(_compile, this, [compiled(code, file, format), file, format, ...more]);
      dependencies.begins(this, file, code);
      try {
        return apply(_compile, this, [compiled(code, file, format), file, format, ...more]);
      } finally {
        dependencies.ends(file);
      }
    };
    this.#hasHooks = HAS_HOOKS && (entry !== undefined || isModulePackage(process.cwd()));
    if (this.#hasHooks) this.#register();
  }

  // Hooks that are registered later see what those before them return: ours comes after all of the project's.
  #register() {
    const { registerHooks } = Module;
    const load = (url, context, next) => {
      const found = next(url, context);
      return attempt(() => this.#loaded(url, found)) ?? found;
    };
    const dependencies = this.#dependencies;
    const resolve = (specifier, context, next) => {
      const found = next(specifier, context);
      attempt(() => dependencies.resolved(context.parentURL, found.url));
      return found;
    };
    const hooks = dependencies === undefined ? { load } : { load, resolve };
    let own = registerHooks(hooks);
    Module.registerHooks = (hooks) => {
      const theirs = registerHooks(hooks);
      attempt(() => {
        own.deregister();
        own = registerHooks(hooks);
      });
      return theirs;
    };
    Module.syncBuiltinESMExports();
  }

  #loaded(url, found) {
    if (!url.startsWith('file:')) return found;
    const file = fileURLToPath(url);
    this.#files.add(file);
    this.#dependencies?.loaded(file);
    if (!found.source || !MODULES.has(found.format)) return found;
    const text = withoutTypes(textOf(found), found.format);
    if (text === undefined) return found;
    this.#modules.add(file);
    const source = this.#withProbes(text, file, true);
    return { ...found, format: 'module', source: file === this.#entry ? this.#withEnd(source) : source };
  }

  // Tests may run before the entry's own lines have, where these wait for something.
  #withEnd(code) {
    const body = {};
    this.lines.begin(body);
    globalThis.$proctor_lines.entryEnded = () => attempt(() => this.lines.endShared(body));
    return `${code}\n;typeof $proctor_lines=="function"&&$proctor_lines.entryEnded()\n`;
  }

  // Whether ES modules are seen as they are loaded.
  get hasHooks() {
    return this.#hasHooks;
  }

  // All files that this process loaded.
  loaded() {
    return [...new Set([...this.#files, ...Object.keys(require.cache)])];
  }

  // Says once why a test file has no lines.
  noteMissing(file) {
    if (this.#hasHooks || !this.#mayLackLines || this.lines.hasLinesOf(file)) return;
    this.#mayLackLines = false;
    this.lines.note(`the lines of ES modules are only measured in a package of type module, with ${NODES_WITH_HOOKS}`);
  }

  // The code as it is if it has no probes.
  #withProbes(code, file, isModule) {
    const found = attempt(() => {
      if (typeof code !== 'string' || !isProjectFile(file, this.#workspace)) return undefined;
      const key = hashOf(stringify([VERSION, process.version, file, this.#workspace, isModule, code]));
      const place = `${this.#cache}/${key}`;
      return read(place) ?? this.#store(place, this.#make(code, file, isModule));
    });
    return found ?? code;
  }

  // Another run may write the same file: only a whole one has its name.
  #store(place, code) {
    try {
      mkdirSync(this.#cache, { recursive: true });
      const draft = `${place}.${randomBytes(6).toString('hex')}`;
      writeFileSync(draft, `${hashOf(code)}\n${code}`, { flag: 'wx' });
      renameSync(draft, place);
    } catch {
      // It is made again in the next run.
    }
    return code;
  }

  #make(code, file, isModule) {
    const map = mapOf(code);
    // Without a map nothing says which lines of the source these are, unless types were replaced by blanks.
    const isSource = withoutMark(code).length === lengthOf(file);
    if (!map && !isSource) return code;
    if (this.#parse === undefined) {
      this.#parse = parser() ?? null;
      if (this.#parse === null) this.lines.note(`lines are not measured: the parser of Node ${process.version} cannot be used`);
    }
    if (this.#parse === null) return code;
    const place = { absolute: file, path: apply(slice, file, [this.#workspace.length + 1]), isSource };
    return insert(code, map, place, (text) => this.#parsed(text, isModule))?.code ?? code;
  }

  #parsed(code, isModule) {
    if (isModule) return this.#parse(code, { ...OPTIONS, sourceType: 'module' });
    try {
      return this.#parse(code, { ...OPTIONS, sourceType: 'script' });
    } catch {
      // `require` loads ES modules, too.
      return this.#parse(code, { ...OPTIONS, sourceType: 'module' });
    }
  }

  // Files that another file of the project has loaded.
  imported() {
    const found = new Set(this.#modules);
    for (const module of Object.values(require.cache)) {
      if (!isProjectFile(module.filename ?? '', this.#workspace)) continue;
      for (const child of module.children) found.add(child.filename);
    }
    return found;
  }
}

// Without a byte order mark.
const withoutMark = (text) => (text[0] === '\ufeff' ? apply(slice, text, [1]) : text);

const textOf = ({ source }) => withoutMark(typeof source === 'string' ? source : bytesOf(source).toString());

// Code as Node runs it: of TypeScript, types become blanks. `undefined` if it has more of TypeScript than types, as enumerations.
function withoutTypes(code, format) {
  if (!TYPESCRIPT.has(format)) return code;
  const { emitWarning } = process;
  try {
    process.emitWarning = () => {}; // The function is experimental.
    return Module.stripTypeScriptTypes(code);
  } catch {
    return undefined;
  } finally {
    process.emitWarning = emitWarning;
  }
}

// Whether the package around a directory is of type `module`.
function isModulePackage(directory) {
  try {
    return JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8')).type === 'module';
  } catch {
    return false;
  }
}

const hashOf = (text) => createHash('sha1').update(text).digest('hex');

// Code that is cached whole.
function read(place) {
  try {
    const text = readFileSync(place, 'utf8');
    const end = text.indexOf('\n');
    const code = text.slice(end + 1);
    return hashOf(code) === text.slice(0, end) ? code : undefined;
  } catch {
    return undefined;
  }
}

// The map in code; none if it cannot be read.
function mapOf(code) {
  try {
    return inlineMap(code);
  } catch {
    return undefined;
  }
}

// The length of a file's text; `undefined` for a module that is in no file.
function lengthOf(file) {
  try {
    return withoutMark(readFileSync(file, 'utf8')).length;
  } catch {
    return undefined;
  }
}

module.exports = { MeasuredModules };
