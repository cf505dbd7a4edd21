// Collects which probes ran (`probes.cjs`), in the realm of the tests, where it is loaded before any module of the project. It needs
// no other module, since runners may replace what a module requires.
'use strict';

// Bytes of one block of marks. A file with more probes has a block of its own.
const BLOCK = 1 << 16;

const Bytes = Uint8Array;
const { subarray } = Bytes.prototype;
const { apply } = Reflect;

class Hits {
  // Files by number, with their paths and what their probes stand for.
  files = [];
  #known = new Map();
  // Marks of many files, so that few arrays are searched: the bytes, the number of used ones, and the first byte of each file.
  #blocks = [];

  // Called by a module before its first mark: returns its marks. A module that is loaded again has those of the first time.
  add(path, count, table) {
    const key = `${path}\0${table}`;
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    let block = this.#blocks[this.#blocks.length - 1];
    if (block === undefined || block.used + count > block.bytes.length) {
      block = { bytes: new Bytes(count > BLOCK ? count : BLOCK), used: 0, starts: [] };
      this.#blocks[this.#blocks.length] = block;
    }
    const marks = apply(subarray, block.bytes, [block.used, block.used + count]);
    block.starts[block.starts.length] = { at: block.used, number: this.files.length };
    block.used += count;
    this.files[this.files.length] = { path, table };
    this.#known.set(key, marks);
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
  return text.includes('($pl||$pi())[') ? text.replace(INSERTED, '') : text;
}

// Makes the marks known to all modules of a realm; returns its hits.
function install(realm) {
  if (realm.$proctor_lines === undefined) {
    const hits = new Hits();
    const add = (path, count, table) => hits.add(path, count, table);
    add.hits = hits;
    Object.defineProperty(realm, '$proctor_lines', { value: add });
    const { prototype } = realm.Function;
    const { toString } = prototype;
    const value = new Proxy(toString, { apply: (target, self, values) => withoutProbes(apply(target, self, values)) });
    Object.defineProperty(prototype, 'toString', { value });
  }
  return realm.$proctor_lines.hits;
}

install(globalThis);

module.exports = { install };
