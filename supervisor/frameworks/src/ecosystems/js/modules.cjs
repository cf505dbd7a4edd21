// Gives probes to the project's modules as Node loads them in this process, for runners that load files by themselves. The parser is
// the one that Node brings.
//
// Code that a hook of the project has compiled has an inline map, or no lines. ES modules need `module.registerHooks` (Node 22.15).
'use strict';

const { createHash } = require('node:crypto');
const fs = require('node:fs');
const Module = require('node:module');
const path = require('node:path');
const { fileURLToPath } = require('node:url');

const { install } = require('./hits.cjs');
const { Lines, isProjectFile } = require('./lines.cjs');
const { VERSION, inlineMap, insert, withInlineMap } = require('./probes.cjs');

const PARSER = 'internal/deps/acorn/acorn/dist/acorn';
const OPTIONS = {
  ecmaVersion: 'latest',
  allowAwaitOutsideFunction: true,
  allowHashBang: true,
  allowReturnOutsideFunction: true,
  allowSuperOutsideMethod: true,
};

const { readFileSync, writeFileSync, renameSync, mkdirSync } = fs;
const { pid } = process;

// Acorn, as the text of a module that Node has for its own use; `undefined` if it has none.
function nodesParser() {
  const { noDeprecation } = process;
  process.noDeprecation = true;
  try {
    const module = { exports: {} };
    Function('exports', 'module', process.binding('natives')[PARSER])(module.exports, module);
    return module.exports.parse;
  } catch {
    return undefined;
  } finally {
    process.noDeprecation = noDeprecation;
  }
}

class MeasuredModules {
  #cache;
  #parse;
  #workspace;
  // Files that other files of the project import.
  #imported = new Set();

  // `settings`: the directories of the records, of the workspace, and of cached code.
  constructor(settings) {
    this.#cache = settings.cache;
    this.#workspace = settings.workspace;
    this.lines = new Lines(settings, install(globalThis));
    const { _compile } = Module.prototype;
    const withProbes = (code, file) => this.#withProbes(code, file);
    Module.prototype._compile = function (code, file, ...more) {
      return _compile.call(this, withProbes(code, file), file, ...more);
    };
    Module.registerHooks?.({ resolve: (name, context, next) => this.#resolved(next(name, context), context), load: (url, context, next) => this.#loaded(url, next(url, context)) });
  }

  #resolved(found, { parentURL }) {
    if (parentURL?.startsWith('file:') && found.url.startsWith('file:') && isProjectFile(fileURLToPath(parentURL), this.#workspace)) {
      this.#imported.add(fileURLToPath(found.url));
    }
    return found;
  }

  #loaded(url, found) {
    if (found.format !== 'module' || found.source === null || !url.startsWith('file:')) return found;
    const source = typeof found.source === 'string' ? found.source : Buffer.from(found.source).toString();
    return { ...found, source: this.#withProbes(source, fileURLToPath(url), true) };
  }

  #withProbes(code, file, isModule) {
    if (typeof code !== 'string' || !isProjectFile(file, this.#workspace) || !path.isAbsolute(file)) return code;
    try {
      const key = createHash('sha1').update(JSON.stringify([VERSION, process.version, file, this.#workspace, isModule, code])).digest('hex');
      const place = path.join(this.#cache, key);
      return read(place) ?? this.#store(place, this.#make(code, file, isModule));
    } catch {
      return code; // It runs without probes.
    }
  }

  #store(place, code) {
    try {
      mkdirSync(this.#cache, { recursive: true });
      writeFileSync(`${place}.${pid}`, code);
      renameSync(`${place}.${pid}`, place);
    } catch {
      // It is made again in the next run.
    }
    return code;
  }

  #make(code, file, isModule) {
    const map = inlineMap(code);
    // Without a map nothing says which lines of the source these are, unless types were replaced by blanks.
    if (!map && code.length !== readFileSync(file, 'utf8').replace(/^\ufeff/, '').length) return code;
    const place = { absolute: file, path: path.relative(this.#workspace, file) };
    const found = insert(code, map, place, (text) => this.#parsed(text, isModule));
    if (!found) return code;
    return map ? withInlineMap(found.code, found.map) : found.code;
  }

  #parsed(code, isModule) {
    this.#parse ??= nodesParser();
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
    const found = new Set(this.#imported);
    for (const module of Object.values(require.cache)) {
      if (!isProjectFile(module.filename ?? '', this.#workspace)) continue;
      for (const child of module.children) found.add(child.filename);
    }
    return found;
  }
}

function read(place) {
  try {
    return readFileSync(place, 'utf8');
  } catch {
    return undefined;
  }
}

module.exports = { MeasuredModules };
