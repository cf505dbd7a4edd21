#!/usr/bin/env node
// Stands in for Cypress, whose binary cannot be had without the internet: runs specs with the real Mocha, and hands their
// events to the reporter of the command line as Cypress does.
//
// Written from Cypress's own sources and documentation: which reporter is loaded and how, what runnables it is given and
// how events are merged into them (packages/server/lib/reporter.js), the words for errors of its tests' snapshots
// (system-tests/__snapshots__), options and exit status (docs.cypress.io, "Command Line"). What passes and fails is in the
// fixture. Unlike Cypress it has no browser: specs run in this process, and `cy` has the few commands below.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const root = process.cwd();
const fromProject = (name) => require(require.resolve(name, { paths: [root] }));
const Mocha = fromProject('mocha');

const OUTSIDE = 'An uncaught error was detected outside of a test';

class Fatal extends Error {}

function parsed(words) {
  const options = { env: {} };
  if (words.shift() !== 'run') throw new Fatal('the stand-in can only run');
  while (words.length > 0) {
    const [name, value] = words.shift().split(/=(.*)/s);
    if (!['--reporter', '--spec', '--config', '--browser', '--quiet', '--headed'].includes(name)) throw new Fatal(`error: unknown option: ${name}`);
    options[name.slice(2)] = value ?? true;
  }
  return options;
}

function configured(options) {
  const file = path.join(root, 'cypress.config.js');
  let config;
  try {
    config = require(file);
  } catch (error) {
    throw new Fatal(`Your configFile threw an error from: ${file}\n\nWe stopped running your tests because your config file crashed.\n\n${error.stack}`);
  }
  const given = Object.fromEntries((options.config ?? '').split(',').filter(Boolean).map((pair) => pair.split('=')));
  const tasks = {};
  config.e2e?.setupNodeEvents?.((event, handlers) => Object.assign(tasks, event === 'task' ? handlers : {}), config);
  const retries = Number(given.retries ?? config.retries?.runMode ?? config.retries ?? 0);
  const screenshots = process.env.CYPRESS_SCREENSHOTS_FOLDER ?? config.screenshotsFolder ?? 'cypress/screenshots';
  return { pattern: config.e2e?.specPattern ?? 'cypress/e2e/**/*.cy.{js,jsx,ts,tsx}', reporterOptions: config.reporterOptions ?? {}, retries, screenshots, tasks };
}

function specsOf(options, config) {
  const { minimatch } = fromProject('minimatch');
  const files = fs.readdirSync(root, { recursive: true }).filter((file) => !file.startsWith('node_modules') && minimatch(file, config.pattern)).sort();
  const asked = options.spec?.split(/,(?![^{]*})/) ?? ['**'];
  const specs = files.filter((file) => asked.some((pattern) => file === pattern || minimatch(file, pattern)));
  if (specs.length === 0) throw new Fatal(`Can't run because no spec files were found.\n\nWe searched for specs matching this glob pattern:\n\n  > ${asked.join(', ')}`);
  return specs;
}

// The commands of a test, which run after its body as Cypress's queue does.
const queue = [];

function commands(config) {
  let page = '';
  const later = (run) => {
    const called = new Error();
    queue.push(async () => {
      try {
        await run();
      } catch (error) {
        error.stack = `${error.name}: ${error.message}\n${called.stack.split('\n').slice(3).join('\n')}`;
        throw error;
      }
    });
  };
  const refuse = (message) => Object.assign(new Error(`Timed out retrying after 4000ms: ${message}`), { name: 'AssertionError' });
  return {
    visit: (file) => later(() => (page = fs.readFileSync(path.join(root, file), 'utf8'))),
    wait: (ms) => later(() => new Promise((resolve) => setTimeout(resolve, ms))),
    task: (name, value) => later(() => config.tasks[name](value)),
    contains: (text) => later(() => {
      if (!page.includes(text)) throw refuse(`Expected to find content: '${text}' but never did.`);
    }),
  };
}

const drained = (body) => body && async function () {
  queue.length = 0;
  await body.apply(this, body.length > 0 ? [] : undefined);
  while (queue.length > 0) await queue.shift()();
};

// The error as the browser sends it: a plain object, with paths as webpack has them and the place in the sources.
function sent(error) {
  const rel = (file) => path.relative(root, file);
  const found = new RegExp(`\\((${root}/(?!node_modules)[^()]*|[^()]*):(\\d+):(\\d+)\\)|at (${root}/(?!node_modules)\\S+?):(\\d+):(\\d+)`).exec(error.stack ?? '');
  const [file, line, column] = found ? [found[1] ?? found[4], Number(found[2] ?? found[5]), Number(found[3] ?? found[6])] : [];
  const known = file?.startsWith(`${root}/`) ? { absoluteFile: file, relativeFile: rel(file), originalFile: rel(file), line, column, language: 'js' } : undefined;
  const stack = (error.stack ?? '').replaceAll(`${root}/`, 'webpack:///./');
  const values = 'actual' in error ? { actual: error.actual, expected: error.expected, showDiff: true } : {};
  return { name: error.name, message: error.message, stack, ...values, codeFrame: known };
}

// A tree of runnables as the browser describes it.
function described(suite, ids, isRoot, file) {
  const id = `r${ids.size + 1}`;
  ids.set(suite, id);
  const tests = suite.tests.map((test) => {
    ids.set(test, `r${ids.size + 1}`);
    return { id: ids.get(test), title: test.title, type: 'test', body: String(test.fn ?? ''), pending: test.pending };
  });
  return { id, title: suite.title, root: isRoot, file: isRoot ? file : undefined, type: 'suite', tests, suites: suite.suites.map((inner) => described(inner, ids, false)) };
}

// Cypress's own process: runnables made anew, and a Mocha runner that only replays.
class Server {
  constructor(tree, Reporter, reporterOptions) {
    this.runnables = {};
    this.suite = this.create(tree);
    this.runner = new Mocha.Runner(this.suite, {});
    fromProject('mocha/lib/stats-collector.js')(this.runner);
    this.reporter = new Reporter(this.runner, { reporterOptions });
  }

  create(described, parent) {
    const made = described.type === 'suite' ? new Mocha.Suite(described.title, {}) : new Mocha.Test(described.title, described.pending ? undefined : () => {});
    made.parent = parent;
    this.runnables[described.id] = made;
    if (described.type === 'test') return Object.assign(made, { state: 'skipped' });
    made.file = described.file;
    made.root = described.root;
    made.tests = described.tests.map((test) => this.create(test, made));
    made.suites = described.suites.map((suite) => this.create(suite, made));
    return made;
  }

  emit(event, told) {
    const { id, ...props } = told ?? {};
    const runnable = this.runnables[id];
    if (event === 'fail') {
      runnable.err = told.err;
      runnable.state = 'failed';
      const copy = { title: told.title };
      for (const key in runnable) if (key !== 'id' && key !== 'title') copy[key] = runnable[key];
      return this.runner.emit('fail', copy, told.err);
    }
    if (event === 'test:before:run' && props._currentRetry > 0) {
      const { err, state } = runnable;
      props.prevAttempts = [...(runnable.prevAttempts ?? []), { err, state }];
    }
    return this.runner.emit(event, ...(told ? [Object.assign(runnable, props)] : []));
  }
}

async function spec(file, config, Reporter) {
  const mocha = new Mocha({ ui: 'bdd', retries: config.retries, timeout: 0 });
  globalThis.cy = commands(config);
  mocha.suite.emit('pre-require', globalThis, file, mocha);
  const own = { it: globalThis.it };
  for (const name of ['before', 'beforeEach', 'after', 'afterEach']) {
    const real = globalThis[name];
    globalThis[name] = (...args) => real(...args.map((arg) => (typeof arg === 'function' ? drained(arg) : arg)));
  }
  globalThis.it = Object.assign((title, body) => own.it(title, drained(body)), { skip: own.it.skip, only: own.it.only });
  let outside;
  try {
    require(path.join(root, file));
  } catch (error) {
    outside = error;
    mocha.suite.suites = [];
    mocha.suite.tests = [];
    mocha.suite.addTest(new Mocha.Test(OUTSIDE, () => {
      const told = `The following error originated from your test code, not from Cypress.\n\n  > ${error.message.split('\n')[0]}`;
      throw Object.assign(error, { message: `${told}\n\nWhen Cypress detects uncaught errors originating from your test code it will automatically fail the current test.\n\nCypress could not associate this error to any specific test.\n\nWe dynamically generated a new test to display this failure.` });
    }));
    mocha.suite.tests[0].retries(0);
  }
  const ids = new Map();
  const tree = described(mocha.suite, ids, true, file);
  const server = new Server(tree, Reporter, config.reporterOptions);
  const idOf = (test) => ids.get(test) ?? idOf(test._retriedTest);
  const state = (test) => ({ id: idOf(test), title: test.title, state: test.state, duration: test.duration, _currentRetry: test.currentRetry(), _retries: test.retries() });
  const runner = new Mocha.Runner(mocha.suite, {});
  runner.on('start', () => server.emit('start'));
  runner.on('suite', (suite) => server.emit('suite', { id: ids.get(suite) }));
  runner.on('suite end', (suite) => server.emit('suite end', { id: ids.get(suite) }));
  runner.on('test', (test) => {
    if (test.currentRetry() === 0) server.emit('test', { id: idOf(test) });
    server.emit('test:before:run', { id: idOf(test), _currentRetry: test.currentRetry() });
  });
  runner.on('retry', (test, error) => Object.assign(server.runnables[idOf(test)], { err: sent(error), state: 'failed' }));
  runner.on('pass', (test) => server.emit('pass', state(test)));
  runner.on('pending', (test) => server.emit('pending', { ...state(test), state: 'pending' }));
  runner.on('fail', (test, error) => {
    const of = test.type === 'hook' ? (test.ctx.currentTest ?? test.parent.tests[0]) : test;
    // Cypress tells a hook's failure as its test's, under the hook's title.
    const title = test.type === 'hook' ? `${test.originalTitle ?? test.title.replace(/ (for|in) ".*/s, '')} for "${of.title}"` : test.title;
    server.emit('fail', { ...state(of), title, err: sent(error) });
    fs.mkdirSync(path.join(config.screenshots, path.basename(file)), { recursive: true });
    const name = `${[...of.parent.titlePath(), title].join(' -- ')} (failed).png`.replace(/[/"<>:|?*]/g, '');
    fs.writeFileSync(path.join(config.screenshots, path.basename(file), name), 'a picture');
  });
  runner.on('test end', (test) => server.emit('test end', state(test)));
  await new Promise((resolve) => runner.run(resolve));
  server.emit('end');
  if (server.reporter.done) await new Promise((resolve) => server.reporter.done(server.runner.stats.failures, resolve));
  return server.runner.stats;
}

async function main() {
  const options = parsed(process.argv.slice(2));
  const config = configured(options);
  const specs = specsOf(options, config);
  const Reporter = require(path.resolve(root, options.reporter));
  console.log(`\n  (Run Starting)\n\n  Specs: ${specs.length} found (${specs.map((file) => path.basename(file)).join(', ')})`);
  let failures = 0;
  for (const [number, file] of specs.entries()) {
    console.log(`\n  Running:  ${path.basename(file)}  (${number + 1} of ${specs.length})\n`);
    failures += (await spec(file, config, Reporter)).failures;
  }
  console.log(`\n  (Run Finished)\n\n  ${failures} failed`);
  process.exitCode = failures;
}

main().catch((error) => {
  console.error(error instanceof Fatal ? error.message : error.stack);
  process.exitCode = 1;
});
