// Whether a CommonJS module may load others in a way that Node does not keep with it: as an ES module does, or for another module than
// itself. The parser is the one that Node brings; it is asked only where the text has a sign.
'use strict';

const { parser } = require('../js/node_internals.cjs');

// Taken before a test can replace it.
const { apply, ownKeys } = Reflect;
const { test } = RegExp.prototype;

const FOR_ANOTHER = /\bcreateRequire\b|\bmodule\.parent\.require\b|\brequire\.main\.require\b|\bmainModule\b/;
const SIGN = /\bimport\b|\bexport\b/;

const OPTIONS = { ecmaVersion: 'latest', allowHashBang: true, allowReturnOutsideFunction: true, allowSuperOutsideMethod: true };

// `null` if Node has none.
let parse;

function mayLoadUnseen(code) {
  return apply(test, FOR_ANOTHER, [code]) || (apply(test, SIGN, [code]) && hasImport(code));
}

function hasImport(code) {
  if (parse === undefined) parse = parser() ?? null;
  if (parse === null) return true;
  try {
    return isImport(parse(code, { ...OPTIONS, sourceType: 'script' }));
  } catch {
    return true; // An ES module, or nothing that the parser knows.
  }
}

function isImport(node) {
  if (node === null || typeof node !== 'object') return false;
  if (node.type === 'ImportExpression') return true;
  const names = ownKeys(node);
  for (let at = 0; at < names.length; at += 1) if (isImport(node[names[at]])) return true;
  return false;
}

module.exports = { mayLoadUnseen };
