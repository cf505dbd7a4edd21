// Lets Mocha run only the tests of the project file's scope, among those that its own options select (`--grep` of the script, of
// `.mocharc` or of `package.json`, `--fgrep`, `--invert`). Mocha loads this file by `--require`, also in the processes of a parallel run.
'use strict';

const { runnerClass } = require('./itself.cjs');

const scope = new RegExp(process.env.PROCTOR_TITLES);

const { prototype } = runnerClass();
const { grep } = prototype;

// Mocha calls this with each expression that it is to apply, the first time with one that matches every title.
prototype.grep = function (own, invert) {
  const both = new RegExp(own.source, own.flags);
  both.test = (title) => own.test(title) !== Boolean(invert) && scope.test(title);
  return grep.call(this, both, false);
};
