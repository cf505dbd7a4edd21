// Changes of global variables. It is asked for each module that is loaded, so it reads no more than it must.
'use strict';

const { KeptMap } = require('../js/lines.cjs');

// Taken before a test can replace them.
const { apply, defineProperty, getOwnPropertyDescriptor, ownKeys } = Reflect;

// Node adds those with a symbol as it loads its own parts. Where istanbul counts what its probes count is set by the file that is loaded first.
const isWatched = (name) => typeof name === 'string' ? name !== '__coverage__' : !/^(?:undici|nodejs)\./.test(name.description ?? '');

class Globals {
  // Values, and the functions that compute them.
  #values = new KeptMap();
  #getters = new KeptMap();
  // How many names files are known to have added.
  #added = 0;
  #count = 0;

  constructor() {
    this.forgetChanges();
  }

  // How many names there are that no file is known to have added.
  get unseen() {
    return this.#names().length - this.#added;
  }

  #names() {
    return ownKeys(globalThis).filter(isWatched);
  }

  // Changes so far are no file's.
  forgetChanges() {
    const names = this.#names();
    this.#count = names.length;
    this.#values = new KeptMap();
    this.#getters = new KeptMap();
    for (let at = 0; at < names.length; at += 1) {
      const described = getOwnPropertyDescriptor(globalThis, names[at]);
      if (described?.get) this.#getters.set(names[at], described.get);
      else if (described) this.#values.set(names[at], described.value);
    }
  }

  // Whether variables were added, replaced or removed since the last call.
  takeChanges() {
    const count = this.#names().length;
    let isSame = count === this.#count;
    this.#values.forEach((value, name) => (isSame &&= Object.is(globalThis[name], value)));
    this.#getters.forEach((getter, name) => (isSame &&= isStillOf(getter, name)));
    if (isSame) return false;
    this.#added += count - this.#count;
    this.forgetChanges();
    return true;
  }
}

// Whether a variable is still what a function computes. Node puts the value in its place when it is first read.
function isStillOf(getter, name) {
  const described = getOwnPropertyDescriptor(globalThis, name);
  if (described === undefined || described.get) return described?.get === getter;
  const value = apply(getter, globalThis, []);
  defineProperty(globalThis, name, described);
  return Object.is(value, described.value);
}

module.exports = { Globals };
