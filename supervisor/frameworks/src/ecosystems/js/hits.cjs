// Collects which probes ran (`probes.cjs`), in the realm of the tests, where it is loaded before any module of the project. It needs
// no other module, since runners may replace what a module requires.
'use strict';

// Bytes of one block of marks. A file with more probes has a block of its own.
const BLOCK = 1 << 16;

// All that is called while tests run is taken before a test can replace it.
const Bytes = Uint8Array;
const { subarray } = Bytes.prototype;
const { get, set } = Map.prototype;
const { includes, replace } = String.prototype;
const { apply } = Reflect;

class Hits {
  // Files by number, with their paths and what their probes stand for, or why they have none.
  files = [];
  // Whether a module's marks could not be made.
  isIncomplete = false;
  #known = new Map();
  // Marks of many files, so that few arrays are searched: the bytes, the number of used ones, and the first byte of each file.
  #blocks = [];

  // Called by a module before its first mark: returns its marks. A module that is loaded again has those of the first time. `why`: that
  // it has no probes.
  add(path, count, table, why) {
    try {
      const key = `${path}\0${table}`;
      const known = apply(get, this.#known, [key]);
      if (known !== undefined) return known;
      const marks = this.#marks(count);
      this.files[this.files.length] = { path, table, why };
      apply(set, this.#known, [key, marks]);
      return marks;
    } catch {
      this.isIncomplete = true;
      return [];
    }
  }

  #marks(count) {
    let block = this.#blocks[this.#blocks.length - 1];
    if (block === undefined || block.used + count > block.bytes.length) {
      block = { bytes: new Bytes(count > BLOCK ? count : BLOCK), used: 0, starts: [] };
      this.#blocks[this.#blocks.length] = block;
    }
    const marks = apply(subarray, block.bytes, [block.used, block.used + count]);
    block.starts[block.starts.length] = { at: block.used, number: this.files.length };
    block.used += count;
    return marks;
  }

  // Calls `hit` with a file's number and a probe's for each one that ran since the last call. `find` returns the place of the next mark
  // in bytes, from a place on, or a negative number.
  take(find, hit) {
    for (let which = 0; which < this.#blocks.length; which += 1) {
      const { bytes, starts } = this.#blocks[which];
      let file = 0;
      for (let at = find(bytes, 0); at >= 0; at = find(bytes, at + 1)) {
        bytes[at] = 0;
        while (file + 1 < starts.length && starts[file + 1].at <= at) file += 1;
        hit(starts[file].number, at - starts[file].at);
      }
    }
  }
}

// What `probes.cjs` inserts into code, as it appears in the text of a function.
const INSERTED = /[{(]\/\*\$p\*\/;?\(\$pl\|\|\$pi\(\)\)\[\d+\]=1[;,]|;\(\$pl\|\|\$pi\(\)\)\[\d+\]=1;|\/\*\$p\*\/[})]/g;

// A function's text is that of the project: tests compare it, or send it to another process, which has no probes.
function withoutProbes(text) {
  try {
    return apply(includes, text, ['($pl||$pi())[']) ? apply(replace, text, [INSERTED, '']) : text;
  } catch {
    return text; // A test has replaced what `replace` calls.
  }
}

// Hits by realm: Jest makes what is global in its own realm known in that of the tests.
const installed = new WeakMap();

// Makes the marks known to all modules of a realm; returns its hits.
function install(realm) {
  if (!installed.has(realm)) {
    const hits = new Hits();
    const add = (path, count, table, why) => hits.add(path, count, table, why);
    add.hits = hits;
    Object.defineProperty(realm, '$proctor_lines', { value: add, configurable: true });
    hideProbes(realm.Function.prototype);
    installed.set(realm, hits);
  }
  return installed.get(realm);
}

function hideProbes(prototype) {
  const { toString } = prototype;
  // Only the original has its own name in its text.
  const textOf = (target, self, values) => withoutProbes(apply(target, self === value ? target : self, values));
  const value = new Proxy(toString, { apply: textOf });
  Object.defineProperty(prototype, 'toString', { value });
}

// Jest runs this file as the first set-up file of its tests.
install(globalThis);

module.exports = { install };
