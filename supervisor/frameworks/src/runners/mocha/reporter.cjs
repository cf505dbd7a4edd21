// A Mocha reporter that writes proctor's report and lets the reporter that the project has configured, or `spec`, write the output
// for people.
'use strict';

const { OutputCapture, end, nowRunning, packageOf, buffer, joinTitles, emit, flush } = require('../js/report.cjs');
const { lendSettings } = require('../js/lines.cjs');
const itself = require('./itself.cjs');
const { mocha, whole } = itself;

// The first versions with `--dry-run`, and with parallel runs.
const DRY = 9;
const PARALLEL = 8;

// An expression that no title matches.
const NOTHING = /(?!)/;
const { DuplicateTests, failure } = require('../js/failure.cjs');

// Taken before a test can replace it.
const { cpuUsage } = process;

// A hook's title in Mocha's format: `"before each" hook: its name for "a test"`.
const BEFORE_EACH = /^"before each" hook/;

module.exports = class Proctor {
  constructor(runner, options) {
    this.twins = new DuplicateTests();
    this.written = new OutputCapture();
    this.inTexts = runner.isParallelMode?.() === true;
    if (this.inTexts) lendSettings(itself.WORKER);
    // Mocha replaces `runner.suite` by each suite that it enters.
    this.whole = runner.suite;
    this.ended = 0;
    this.bails = options.bail === true;
    emit('begin', { runner: 'mocha' });
    if (options.parallel && itself.major() < PARALLEL) {
      emit('note', { text: `Mocha ${itself.major()} runs one file after the other: --parallel is of Mocha ${PARALLEL}` });
    }
    if (options.dryRun === true && itself.major() < DRY) {
      runner.on('start', () => list(runner));
    } else if (options.dryRun === true) {
      runner.on('test', (test) => emit('listed', named(test)));
      runner.on('pending', (test) => emit('listed', named(test)));
    } else {
      runner.on('test', (test) => this.started(test));
      runner.on('pass', (test) => this.finished(named(test), { duration_s: duration(test), outcome: 'passed', failed_attempts: test.currentRetry?.() }));
      runner.on('pending', (test) => this.finished(named(test), { duration_s: duration(test), outcome: 'skipped' }));
      runner.on('fail', (test, error) => this.failed(test, error));
      runner.on('suite', (suite) => (this.bails ||= suite._bail === true));
      runner.on('test end', () => (this.ended += 1));
      // A hook's effects come between a test's end and the next one's start.
      runner.on('hook', flush);
      // Mocha's time of a test is that of its function, which runs after the hooks before it.
      runner.on('hook end', () => (this.before = cpuUsage()));
    }
    // Hooks may add tests, which Mocha does not run.
    runner.once('start', () => {
      this.had = runner.grepTotal(this.whole);
      // The processes of a parallel run load the files.
      if (!this.inTexts && options.dryRun !== true) emit('total', { tests: this.had });
    });
    runner.once('end', () => {
      this.twins.report();
      end(options.dryRun === true ? 0 : this.left(runner));
    });
    if (Array.isArray(options.globalTeardown)) options.globalTeardown = options.globalTeardown.map(telling);
    // Last, because Mocha's own reporters replace the values of an error by texts once they have shown them.
    if (options.dryRun !== true) this.other = projects(runner, options);
  }

  started(test) {
    this.running = named(test);
    nowRunning(test.fn);
    emit('started', this.running);
    // The processes of parallel runs write by themselves.
    if (!this.inTexts) this.written.start();
    this.before = cpuUsage();
  }

  finished(test, told) {
    const output = this.running && this.written.stop();
    const cpu_s = this.running && !this.inTexts ? usedSince(this.before) : undefined;
    this.running = undefined;
    const nodeid = `${test.package} > ${test.name}`;
    this.twins.add(nodeid);
    // A failure is reported at once. In a parallel run whole files are reported together, and the next may be long in coming.
    const tell = told.outcome === 'passed' && !this.inTexts ? buffer : emit;
    tell('finished', { ...test, nodeid, output, cpu_s, ...told });
  }

  failed(test, error) {
    const told = { duration_s: duration(test), ...failure(error) };
    // The processes of parallel runs send values as texts.
    if (this.inTexts && told.expected !== undefined) Object.assign(told, { expected: error.expected, actual: error.actual });
    // A timeout's message ends with the file's path.
    told.message = told.message.replace(/ \(\/[^()]*\)$/, '');
    if (test.type !== 'hook' && test.type !== 'test') {
      // Thrown outside of all tests, as by a file that a parallel run cannot load.
      emit('collector', { ...told, nodeid: told.file ?? '.', output: told.stack });
    } else if (test.type !== 'hook') {
      this.finished(named(test), { ...told, outcome: 'failed' });
    } else if (this.running && BEFORE_EACH.test(test.title)) {
      // The test began, and Mocha sends no further event of it.
      const hook = test.title.replace(/ (for|in) ".*$/s, '');
      this.finished(this.running, { ...told, message: `${hook}: ${told.message}`, outcome: 'error' });
      this.ended += 1;
    } else {
      this.finished({ ...named(test), package: packageOf(pathOf(test) ?? told.file ?? '.') }, { ...told, outcome: 'error' });
    }
  }

  // With `bail`, an option of the run and of each suite, Mocha runs no test after a failed one, and does not report those. Nor does
  // it report tests that a failed hook keeps from running; the hook stands for them. Without a failure, no test may be left.
  left(runner) {
    const failed = runner.failures > 0;
    if (this.inTexts) {
      // Only the processes of a parallel run know the tests in their files.
      if (failed && this.bails) emit('note', { text: 'Mocha ended at a failure (bail), perhaps before other tests', unreached: true });
      return 0;
    }
    const left = this.had - this.ended;
    if (left <= 0 || (failed && !bails(this.whole))) return 0;
    emit('note', { text: `${left} test(s) did not run: Mocha ended before them${failed ? ' (bail)' : ''}`, unreached: true });
    return left;
  }

  done(failures, callback) {
    if (typeof this.other?.done === 'function') this.other.done(failures, callback);
    else callback(failures);
  }
};

// Lists the tests that would run. None of them runs: no title matches.
function list(runner) {
  const isAsked = (test) => runner._grep.test(test.fullTitle()) !== Boolean(runner._invert);
  runner.suite.eachTest((test) => isAsked(test) && emit('listed', named(test)));
  runner.grep(NOTHING, false);
}

const bails = (suite) => suite.bail() || suite.suites.some(bails);

// Wraps a global teardown: Mocha does not report its failure to reporters, and Mocha 11 then even exits with 0.
function telling(teardown) {
  return async function () {
    try {
      return await teardown.call(this);
    } catch (error) {
      const { message, file, line, stack } = failure(error);
      emit('collector', { nodeid: '.', file, line, message: `the global teardown failed: ${message}`, output: stack });
      throw error;
    }
  };
}

// The project's own reporter. Mocha does not expose which one it is, so its configuration is loaded once more.
function projects(runner, options) {
  try {
    const { reporters } = mocha();
    const name = configured();
    let Reporter = reporters.Spec;
    try {
      Reporter = reporters[name] ?? whole(require(require.resolve(name, { paths: [process.cwd()] })));
    } catch {
      emit('note', { text: `the project's reporter ${name} cannot be loaded: spec writes the output` });
    }
    return new Reporter(runner, options);
  } catch (error) {
    emit('note', { text: `no reporter of Mocha's own writes the output: ${error.message}` });
    return undefined;
  }
}

function configured() {
  return itself.options().loadOptions(withoutUs(process.argv.slice(2))).reporter;
}

// Mocha before 6.1 restarts itself when given any option, with each value as a separate argument.
function withoutUs(words) {
  const kept = words.filter((word, at) => word !== `--reporter=${__filename}` && !(word === '--reporter' && words[at + 1] === __filename));
  return kept.filter((word) => word !== __filename);
}

// The last named test: a test that has begun is looked up once more when it ends.
let last;

function named(test) {
  if (last?.test !== test) last = { test, id: { package: packageOf(pathOf(test) ?? '.'), name: joinTitles(test.titlePath()) } };
  return last.id;
}

function usedSince(before) {
  const { user, system } = cpuUsage(before);
  return (user + system) / 1e6;
}

const pathOf = (test) => test.file ?? test.parent?.file;
const duration = (test) => (typeof test.duration === 'number' ? test.duration / 1000 : undefined);
