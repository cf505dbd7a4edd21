#!/usr/bin/env node
// Stand-in for Cypress, whose binary can only be downloaded from the internet: runs specs with the real Mocha and passes
// their events to the reporter of the command line as Cypress does.
//
// Based on Cypress's sources and documentation: how the reporter is loaded, which runnables it receives and how events are
// merged into them (packages/server/lib/reporter.js), error texts of its snapshots (system-tests/__snapshots__), options
// and exit status (docs.cypress.io, "Command Line"). Outcomes come from the specs of the fixture. Unlike Cypress it has no
// browser: specs run in this process, and `cy` has only the commands below.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const root = process.cwd();
const fromProject = (name) => require(require.resolve(name, { paths: [root] }));
const Mocha = fromProject('mocha');

const UNCAUGHT_ERROR_TITLE = 'An uncaught error was detected outside of a test';

class Fatal extends Error {}

function parseArguments(words) {
  const options = { env: {} };
  if (words.shift() !== 'run') throw new Fatal('the stand-in only supports the command run');
  while (words.length > 0) {
    const [name, value] = words.shift().split(/=(.*)/s);
    if (!['--reporter', '--spec', '--config', '--browser', '--quiet', '--headed'].includes(name)) throw new Fatal(`error: unknown option: ${name}`);
    options[name.slice(2)] = value ?? true;
  }
  return options;
}

function loadConfig(options) {
  const file = path.join(root, 'cypress.config.js');
  let config;
  try {
    config = require(file);
  } catch (error) {
    throw new Fatal(`Your configFile threw an error from: ${file}\n\nWe stopped running your tests because your config file crashed.\n\n${error.stack}`);
  }
  const overrides = Object.fromEntries((options.config ?? '').split(',').filter(Boolean).map((pair) => pair.split('=')));
  const tasks = {};
  config.e2e?.setupNodeEvents?.((event, handlers) => Object.assign(tasks, event === 'task' ? handlers : {}), config);
  const retries = Number(overrides.retries ?? config.retries?.runMode ?? config.retries ?? 0);
  const screenshots = process.env.CYPRESS_SCREENSHOTS_FOLDER ?? config.screenshotsFolder ?? 'cypress/screenshots';
  return { pattern: config.e2e?.specPattern ?? 'cypress/e2e/**/*.cy.{js,jsx,ts,tsx}', reporterOptions: config.reporterOptions ?? {}, retries, screenshots, tasks };
}

function selectSpecs(options, config) {
  const { minimatch } = fromProject('minimatch');
  const files = fs.readdirSync(root, { recursive: true }).filter((file) => !file.startsWith('node_modules') && minimatch(file, config.pattern)).sort();
  const patterns = options.spec?.split(/,(?![^{]*})/) ?? ['**'];
  const specs = files.filter((file) => patterns.some((pattern) => file === pattern || minimatch(file, pattern)));
  if (specs.length === 0) throw new Fatal(`Can't run because no spec files were found.\n\nWe searched for specs matching this glob pattern:\n\n  > ${patterns.join(', ')}`);
  return specs;
}

// Commands of the current test. As in Cypress they run after the test's body.
const queue = [];

function commands(config) {
  let page = '';
  const enqueue = (run) => {
    const callSite = new Error();
    queue.push(async () => {
      try {
        await run();
      } catch (error) {
        error.stack = `${error.name}: ${error.message}\n${callSite.stack.split('\n').slice(3).join('\n')}`;
        throw error;
      }
    });
  };
  const timeoutError = (message) => Object.assign(new Error(`Timed out retrying after 4000ms: ${message}`), { name: 'AssertionError' });
  return {
    visit: (file) => enqueue(() => (page = fs.readFileSync(path.join(root, file), 'utf8'))),
    wait: (ms) => enqueue(() => new Promise((resolve) => setTimeout(resolve, ms))),
    task: (name, value) => enqueue(() => config.tasks[name](value)),
    contains: (text) => enqueue(() => {
      if (!page.includes(text)) throw timeoutError(`Expected to find content: '${text}' but never did.`);
    }),
  };
}

// Wraps a body so that its queued commands run after it.
const withQueue = (body) => body && async function () {
  queue.length = 0;
  await body.apply(this, body.length > 0 ? [] : undefined);
  while (queue.length > 0) await queue.shift()();
};

// Converts an error to the object that the browser sends: webpack paths in the stack, and the source position.
function serializeError(error) {
  const relative = (file) => path.relative(root, file);
  const match = new RegExp(`\\((${root}/(?!node_modules)[^()]*|[^()]*):(\\d+):(\\d+)\\)|at (${root}/(?!node_modules)\\S+?):(\\d+):(\\d+)`).exec(error.stack ?? '');
  const [file, line, column] = match ? [match[1] ?? match[4], Number(match[2] ?? match[5]), Number(match[3] ?? match[6])] : [];
  const codeFrame = file?.startsWith(`${root}/`) ? { absoluteFile: file, relativeFile: relative(file), originalFile: relative(file), line, column, language: 'js' } : undefined;
  const stack = (error.stack ?? '').replaceAll(`${root}/`, 'webpack:///./');
  const values = 'actual' in error ? { actual: error.actual, expected: error.expected, showDiff: true } : {};
  return { name: error.name, message: error.message, stack, ...values, codeFrame };
}

// Converts a suite to the tree of runnables that the browser sends.
function serializeSuite(suite, ids, isRoot, file) {
  const id = `r${ids.size + 1}`;
  ids.set(suite, id);
  const tests = suite.tests.map((test) => {
    ids.set(test, `r${ids.size + 1}`);
    return { id: ids.get(test), title: test.title, type: 'test', body: String(test.fn ?? ''), pending: test.pending };
  });
  return { id, title: suite.title, root: isRoot, file: isRoot ? file : undefined, type: 'suite', tests, suites: suite.suites.map((inner) => serializeSuite(inner, ids, false)) };
}

// Cypress's server process: creates its own runnables and a Mocha runner that only replays events.
class Server {
  constructor(tree, Reporter, reporterOptions) {
    this.runnables = {};
    this.suite = this.create(tree);
    this.runner = new Mocha.Runner(this.suite, {});
    fromProject('mocha/lib/stats-collector.js')(this.runner);
    this.reporter = new Reporter(this.runner, { reporterOptions });
  }

  create(description, parent) {
    const runnable = description.type === 'suite' ? new Mocha.Suite(description.title, {}) : new Mocha.Test(description.title, description.pending ? undefined : () => {});
    runnable.parent = parent;
    this.runnables[description.id] = runnable;
    if (description.type === 'test') return Object.assign(runnable, { state: 'skipped' });
    runnable.file = description.file;
    runnable.root = description.root;
    runnable.tests = description.tests.map((test) => this.create(test, runnable));
    runnable.suites = description.suites.map((suite) => this.create(suite, runnable));
    return runnable;
  }

  emit(event, payload) {
    const { id, ...props } = payload ?? {};
    const runnable = this.runnables[id];
    if (event === 'fail') {
      runnable.err = payload.err;
      runnable.state = 'failed';
      const copy = { title: payload.title };
      for (const key in runnable) if (key !== 'id' && key !== 'title') copy[key] = runnable[key];
      return this.runner.emit('fail', copy, payload.err);
    }
    if (event === 'test:before:run' && props._currentRetry > 0) {
      const { err, state } = runnable;
      props.prevAttempts = [...(runnable.prevAttempts ?? []), { err, state }];
    }
    return this.runner.emit(event, ...(payload ? [Object.assign(runnable, props)] : []));
  }
}

async function runSpec(file, config, Reporter) {
  const mocha = new Mocha({ ui: 'bdd', retries: config.retries, timeout: 0 });
  globalThis.cy = commands(config);
  mocha.suite.emit('pre-require', globalThis, file, mocha);
  const mochaIt = globalThis.it;
  for (const name of ['before', 'beforeEach', 'after', 'afterEach']) {
    const mochaHook = globalThis[name];
    globalThis[name] = (...args) => mochaHook(...args.map((arg) => (typeof arg === 'function' ? withQueue(arg) : arg)));
  }
  globalThis.it = Object.assign((title, body) => mochaIt(title, withQueue(body)), { skip: mochaIt.skip, only: mochaIt.only });
  try {
    require(path.join(root, file));
  } catch (error) {
    mocha.suite.suites = [];
    mocha.suite.tests = [];
    mocha.suite.addTest(new Mocha.Test(UNCAUGHT_ERROR_TITLE, () => {
      const message = `The following error originated from your test code, not from Cypress.\n\n  > ${error.message.split('\n')[0]}`;
      throw Object.assign(error, { message: `${message}\n\nWhen Cypress detects uncaught errors originating from your test code it will automatically fail the current test.\n\nCypress could not associate this error to any specific test.\n\nWe dynamically generated a new test to display this failure.` });
    }));
    mocha.suite.tests[0].retries(0);
  }
  const ids = new Map();
  const tree = serializeSuite(mocha.suite, ids, true, file);
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
  runner.on('retry', (test, error) => Object.assign(server.runnables[idOf(test)], { err: serializeError(error), state: 'failed' }));
  runner.on('pass', (test) => server.emit('pass', state(test)));
  runner.on('pending', (test) => server.emit('pending', { ...state(test), state: 'pending' }));
  runner.on('fail', (test, error) => {
    const failedTest = test.type === 'hook' ? (test.ctx.currentTest ?? test.parent.tests[0]) : test;
    // Cypress reports a hook's failure as a failure of its test, under the hook's title.
    const title = test.type === 'hook' ? `${test.originalTitle ?? test.title.replace(/ (for|in) ".*/s, '')} for "${failedTest.title}"` : test.title;
    server.emit('fail', { ...state(failedTest), title, err: serializeError(error) });
    fs.mkdirSync(path.join(config.screenshots, path.basename(file)), { recursive: true });
    const name = `${[...failedTest.parent.titlePath(), title].join(' -- ')} (failed).png`.replace(/[/"<>:|?*]/g, '');
    fs.writeFileSync(path.join(config.screenshots, path.basename(file), name), 'a picture');
  });
  runner.on('test end', (test) => server.emit('test end', state(test)));
  await new Promise((resolve) => runner.run(resolve));
  server.emit('end');
  if (server.reporter.done) await new Promise((resolve) => server.reporter.done(server.runner.stats.failures, resolve));
  return server.runner.stats;
}

async function main() {
  const options = parseArguments(process.argv.slice(2));
  const config = loadConfig(options);
  const specs = selectSpecs(options, config);
  const Reporter = require(path.resolve(root, options.reporter));
  console.log(`\n  (Run Starting)\n\n  Specs: ${specs.length} found (${specs.map((file) => path.basename(file)).join(', ')})`);
  let failures = 0;
  for (const [number, file] of specs.entries()) {
    console.log(`\n  Running:  ${path.basename(file)}  (${number + 1} of ${specs.length})\n`);
    failures += (await runSpec(file, config, Reporter)).failures;
  }
  console.log(`\n  (Run Finished)\n\n  ${failures} failed`);
  process.exitCode = failures;
}

main().catch((error) => {
  console.error(error instanceof Fatal ? error.message : error.stack);
  process.exitCode = 1;
});
