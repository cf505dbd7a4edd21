// A Mocha reporter that Cypress loads for each spec, and that writes proctor's report. Cypress runs the tests in a browser and
// replays their events in its own process, on reconstructed runnables: a failed test comes as a copy, a hook as a test with the
// hook's title, an error as a plain object.
'use strict';

const path = require('node:path');
const { locationFields, end, packageOf, joinTitles, projectRoot, emit } = require('../js/report.cjs');
const { DuplicateTests, failure } = require('../js/failure.cjs');

// Title of the test that Cypress invents for an exception while a spec is loaded.
const OUTSIDE = 'An uncaught error was detected outside of a test';
const HOOK = /^"(?:before|after) (?:all|each)" hook/;
const CODE = /originated from your (?:test|application) code, not from Cypress\.[^>]*> ([^]*?)(?=\n\s*\n(?:When Cypress|Cypress could)|$)/;

// The reporter does not know which spec is the last: Cypress prints their number. It exits by `process.exit`; an exit within a spec is no end.
let isOpen;
process.on('exit', () => {
  if (isOpen === false) end();
});

module.exports = class Proctor {
  constructor(runner, options) {
    this.package = packageOf(runner.suite.file ?? '.');
    this.twins = new DuplicateTests();
    this.told = new Set();
    if (isOpen === undefined) emit('begin');
    isOpen = true;
    emit('opened', { package: this.package });
    runner.on('test', (test) => this.started(test));
    runner.on('pass', (test) => this.finished(test, {}));
    runner.on('pending', (test) => this.tell(joinTitles(test.titlePath()), { outcome: 'skipped' }));
    runner.on('fail', (test, error) => this.failed(test, error ?? {}));
    runner.once('end', () => {
      this.skipped(runner.suite);
      this.twins.report();
      emit('closed', { package: this.package });
      isOpen = false;
    });
    this.other = projects(runner, options);
  }

  started(test) {
    if (test.title === OUTSIDE) return;
    this.running = joinTitles(test.titlePath());
    emit('started', { package: this.package, name: this.running });
  }

  // With several attempts under `experimentalStrategy`, the state of the last attempt is not the outcome.
  finished(test, told) {
    const outer = test._cypressTestStatusInfo?.outerStatus ?? test.state;
    const failed = (test.prevAttempts ?? []).filter((attempt) => attempt.state === 'failed');
    const failed_attempts = Math.max(failed.length, outer === 'passed' ? (test._currentRetry ?? 0) : 0);
    if (outer !== 'failed') return this.tell(joinTitles(test.titlePath()), { ...duration(test), outcome: 'passed', failed_attempts });
    const why = told.message === undefined && failed[0]?.err ? explained(failed[0].err) : told;
    this.tell(joinTitles(test.titlePath()), { ...duration(test), ...why, outcome: 'failed' });
  }

  failed(test, error) {
    const told = explained(error);
    if (test.title === OUTSIDE) {
      emit('collector', { ...told, nodeid: this.package, file: told.file ?? this.package, output: told.stack });
      this.told.add(OUTSIDE);
    } else if (!HOOK.test(test.title)) {
      this.finished({ ...test, titlePath: () => test.titlePath(), state: 'failed' }, told);
    } else if (this.running !== undefined) {
      // The test began, and Cypress sends no further event of it.
      const hook = test.title.replace(/ for ".*$/s, '');
      this.tell(this.running, { ...told, message: `${hook}: ${told.message}`, outcome: 'error' });
    } else {
      // Cypress counts the test that the hook is for as the failed one.
      const [, meant] = / for "(.*)"$/s.exec(test.title) ?? [];
      this.told.add(joinTitles([...test.titlePath().slice(0, -1), meant]));
      this.tell(joinTitles(test.titlePath()), { ...told, outcome: 'error' });
    }
  }

  tell(name, told) {
    this.running = undefined;
    this.told.add(name);
    this.twins.add(`${this.package} > ${name}`);
    emit('finished', { package: this.package, name, ...told });
  }

  // Reports tests that Cypress omits because a hook before them failed; Cypress sends no event for them.
  skipped(suite) {
    for (const test of suite.tests ?? []) {
      const name = joinTitles(test.titlePath());
      if (!this.told.has(name) && test.title !== OUTSIDE) this.tell(name, { outcome: 'skipped', message: 'not run: a hook failed before it' });
    }
    (suite.suites ?? []).forEach((inner) => this.skipped(inner));
  }

  done(failures, callback) {
    if (typeof this.other?.done === 'function') this.other.done(failures, callback);
    else callback(failures);
  }
};

// Message and place of an error: the place that Cypress found in the sources, or the one in its mapped stack.
function explained(error) {
  const stack = String(error.stack ?? '').replace(/webpack:\/\/[^\s()]*?\/\.\//g, `${projectRoot()}/`);
  const message = CODE.exec(error.message ?? '')?.[1].trim() ?? error.message;
  const told = failure({ ...error, message, stack });
  const frame = error.codeFrame;
  const file = frame?.absoluteFile ?? (frame?.relativeFile && path.join(projectRoot(), frame.relativeFile));
  return file && frame.line ? { ...told, ...locationFields({ file, line: frame.line }) } : told;
}

const duration = (test) => ({ duration_s: typeof test.duration === 'number' ? test.duration / 1000 : undefined });

// The project's own reporter, with the project's options for it.
function projects(runner, options) {
  const name = process.env.PROCTOR_CYPRESS_REPORTER || 'spec';
  try {
    const Reporter = builtIn(name) ?? installed(name);
    return new (Reporter.default ?? Reporter)(runner, options);
  } catch (error) {
    emit('note', { text: `the project's reporter ${name} cannot be loaded and writes nothing: ${error.message}` });
    return undefined;
  }
}

// Cypress bundles a Mocha of its own, and substitutes it for any other.
function builtIn(name) {
  return attempt([() => require('mocha'), () => require(require.resolve('mocha', { paths: [projectRoot()] }))]).reporters[name];
}

function installed(name) {
  const bundled = { junit: 'mocha-junit-reporter', teamcity: 'mocha-teamcity-reporter' }[name];
  if (bundled) return attempt([() => require.main.require(bundled), () => require(require.resolve(bundled, { paths: [projectRoot()] }))]);
  return attempt([() => require(path.resolve(projectRoot(), name)), () => require(require.resolve(name, { paths: [projectRoot()] }))]);
}

function attempt(ways) {
  let last;
  for (const way of ways) {
    try {
      return way();
    } catch (error) {
      last = error;
    }
  }
  throw last;
}
