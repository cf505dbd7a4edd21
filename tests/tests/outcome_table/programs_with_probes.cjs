// Runs each program of a list as it is and with probes, and compares what it exports or throws. The argument is the directory of the
// scripts that proctor injects for JavaScript.
'use strict';

const assert = require('node:assert');
const path = require('node:path');
const vm = require('node:vm');

const [, , scripts] = process.argv;
const { insert } = require(path.join(scripts, 'probes.cjs'));
const { parser } = require(path.join(scripts, 'node_internals.cjs'));
require(path.join(scripts, 'hits.cjs'));

const OPTIONS = { ecmaVersion: 'latest', sourceType: 'script', allowReturnOutsideFunction: true };
const parse = parser();

// The position of a stack's first frame.
const WHERE = 'const where = (error) => /program.js:\\d+:\\d+/.exec(error.stack)[0];\n';

const PROGRAMS = {
  'strict mode of a file': `'use strict'\nexports.self = (function () { return this; })();`,
  'strict mode of a function': `const f = function () {\n  'use strict'\n  return this\n};\nexports.self = f();`,
  'no semicolons': `let a = 1\nconst b = [2]\n;[a] = b\nexports.a = a\nfor (const x of b) a += x\nif (a) a++\nelse a--\ndo a++; while (a < 9)\nexports.b = a`,
  'a text of a function': `exports.texts = [(a) => a + 1, function () {\n  return 1; // one\n}, class { get x() { return 1 } }, () => ({ a: () => 2 })].map(String);`,
  'a function from its text': `const f = (a) => { if (a) return 1\n else return 2; };\nexports.two = eval('(' + f + ')')(0);`,
  'labels': `let n = 0;\nouter: for (const a of [1, 2, 3]) for (const b of [1, 2, 3])\n  if (b === 2) continue outer\n  else n += a\nexports.n = n;`,
  'switch': `exports.all = [1, 2, 3].map((x) => {\n  switch (x) {\n    case 1:\n      return 'a';\n    case 2: { let y = x; return y; }\n    default:\n  }\n  return 'z';\n});`,
  'generators and async': `function* g() {\n  const got = yield 1;\n  yield got;\n}\nconst it = g();\nexports.all = [it.next(), it.next(5), it.next()];\nexports.kind = (async () => 1)() instanceof Promise;`,
  'names of functions': `const a = () => () => 1, b = class {};\nexports.names = [a.name, a().name, b.name, (() => {}).name];`,
  'this, arguments and new.target in arrows': `function F() { return (() => [new.target === F, arguments.length, this instanceof F])(); }\nexports.all = new F(1, 2);`,
  'super in arrows': `class A { x() { return 1 } }\nclass B extends A { x() { return (() => super.x())() } }\nexports.x = new B().x();`,
  'class fields and static blocks': `class A { static n = 0; static { A.n = 2 } #x = () => this.y; y = 3; get() { return this.#x() } }\nexports.all = [A.n, new A().get()];`,
  'direct eval': `function f() { const hidden = 1; return (() => eval('hidden'))(); }\nexports.one = f();`,
  'tagged templates': `const tag = (parts) => parts;\nconst f = () => tag\`a\${1}//b\`;\nexports.all = [f() === f(), f().raw];`,
  'hoisted functions': `exports.early = late();\nfunction late() { return typeof value; }\nvar value = 1;`,
  'sloppy functions in blocks': `if (true) function f() { return 1 }\nexports.one = f();`,
  'with': `exports.two = (function (o) { with (o) { if (a) return a } })({ a: 2 });`,
  'names of the probes': `const $pi = Math.PI;\nexports.area = ($pl) => $pi * $pl;\nexports.two = exports.area(2);\ndelete exports.area;`,
  'a body that is a sequence or an object': `const f = () => (1, 2), g = () => ({}), h = (a) => a in {};\nexports.all = [f(), g(), h('x')];`,
  'comments in the way': `const a = 1 // one /* not\n// two\n/* three */ const b = a /* four\n*/\nexports.b = b /* } */\nconst re = /\\/\\/*/, s = '//' // five\nexports.s = s + re`,
  'the column of a statement': `${WHERE}\nexports.all = [where(new Error('a'))];\n  try {\n    null.x;\n  } catch (error) {\n    exports.all.push(where(error));\n  }`,
  'the column behind a directive': `'use strict';\n${WHERE}exports.a = where(new Error('a'));`,
  'a line of a body without braces': `${WHERE}exports.line = [1].map(() => where(new Error('a')).split(':')[1]);\nif (exports.line)\n  exports.next = where(new Error('b')).split(':')[1];`,
  'an error of syntax at the end': `f(1,`,
  'an error of syntax within': `const a = = 1;`,
};

// The text that a lexer reads for the names of exports, as TypeScript, Babel and esbuild write it.
const LEXED = [
  `Object.defineProperty(exports, "a", { enumerable: true, get: function () { return x_1.a; } });`,
  `Object.keys(_x).forEach(function (key) {\n  if (key === "default" || key === "__esModule") return;\n  if (key in exports && exports[key] === _x[key]) return;\n` +
    `  Object.defineProperty(exports, key, {\n    enumerable: true,\n    get: function () {\n      return _x[key];\n    }\n  });\n});`,
];

function withProbes(code) {
  const file = { absolute: '/w/program.js', path: 'program.js', isSource: true };
  return insert(code, undefined, file, (text) => parse(text, OPTIONS))?.code ?? code;
}

function run(code) {
  const module = { exports: {} };
  try {
    vm.compileFunction(code, ['exports', 'module'], { filename: '/w/program.js' })(module.exports, module);
  } catch (error) {
    return `${error}`;
  }
  return module.exports;
}

const wrong = [];
for (const [name, code] of Object.entries(PROGRAMS)) {
  try {
    assert.deepStrictEqual(run(withProbes(code)), run(code));
  } catch (error) {
    wrong.push(`${name}: ${error.message}\n${withProbes(code)}`);
  }
}
for (const code of LEXED) if (!withProbes(`${code}\nf();`).includes(code)) wrong.push(`read by a lexer: ${withProbes(code)}`);
if (wrong.length > 0) throw new Error(wrong.join('\n\n'));
