// Starts the project's own Vitest with a reporter of ours beside those that its configuration names, which its command line
// can only replace. The arguments are those of the project's test script; proctor's own settings are in `PROCTOR_VITEST`.

import module, { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const require = createRequire(import.meta.url);
const { describeLoadError, emitBatched: emit } = require('../js/report.cjs');
const { Reporter } = require('./reporter.cjs');
const { Tasks } = require('./tasks.cjs');
const { takeSettings } = require('../js/lines.cjs');
const { measureLines, noteProjects } = await import('./lines.mjs');

const OLDEST = 1;

// An expression that no name matches: before Vitest 3 this is the only way to load files and run none of their tests.
const NOTHING = '(?!)';

// Proctor's settings, as JSON: files, whether those are sources (related), expression, titles of the project file's scope, cache, workers.
const settings = JSON.parse(process.env.PROCTOR_VITEST);
const measured = takeSettings();
const listing = process.env.PROCTOR_LISTING !== undefined;
delete process.env.PROCTOR_VITEST;
delete process.env.PROCTOR_LISTING;

// For this thread only: code that the tests load is compiled as usual.
module.enableCompileCache?.(path.join(settings.cache, 'compiled'));

function giveUp(why) {
  process.stderr.write(`proctor: ${why}\n`);
  process.exit(127);
}

function locate() {
  try {
    return createRequire(path.join(process.cwd(), 'package.json')).resolve('vitest/node');
  } catch (error) {
    if (!['MODULE_NOT_FOUND', 'ERR_PACKAGE_PATH_NOT_EXPORTED'].includes(error.code)) throw error;
    return giveUp('vitest is not installed where the project looks for it: install its dependencies (npm ci)');
  }
}

const located = locate();
const own = await import(pathToFileURL(located));
const { createVitest } = own;
// Vitest 1 and 2 do not export their version.
const version = own.version ?? require(path.join(path.dirname(located), '..', 'package.json')).version;
const major = Number.parseInt(version, 10);
const speaksOfTasks = major < 3;
if (!(major >= OLDEST)) giveUp(`vitest ${version} is too old: ${OLDEST} or newer is needed`);

process.env.TEST = 'true';
process.env.VITEST = 'true';
process.env.NODE_ENV ??= 'test';

// Before Vitest 1.5 its command line is in a file without a fixed name, but it is parsed by the same package.
function parse(words) {
  if (own.parseCLI) return own.parseCLI(['vitest', 'run', ...words]);
  const { cac } = createRequire(located)('cac');
  const { args, options } = cac('vitest').parse(['node', 'vitest', ...words], { run: false });
  const { '--': _, ...rest } = options;
  return { filter: [...args], options: { ...rest, cache: { dir: settings.cache } } };
}

async function prepare() {
  const { filter, options } = parse(process.argv.slice(2));
  // As in Vitest's own command line, the patterns add to the configuration's and do not replace them.
  if (options.exclude) options.cliExclude = [options.exclude].flat();
  delete options.exclude;
  const { files, related, expression, titles, cache, workers } = settings;
  const absolute = files.map((file) => path.resolve(file));
  Object.assign(options, { run: true, watch: false, passWithNoTests: false });
  if (related) options.related = absolute;
  let pattern = titles ?? expression ?? options.testNamePattern;
  if (workers) Object.assign(options, { maxWorkers: workers }, major < 4 ? { minWorkers: 1 } : {});
  // The name filter of the project's own configuration, which an option replaces.
  let own;
  const look = { name: 'proctor', config: { order: 'pre', handler: ({ test }) => void (own = test?.testNamePattern) } };
  const plugins = [...(titles ? [look] : []), ...(measured && !listing ? [measureLines(measured, options)] : [])];
  const start = () => {
    const applied = listing && speaksOfTasks ? NOTHING : pattern;
    if (applied) options.testNamePattern = applied;
    return create(options, { cacheDir: cache, ...(plugins.length > 0 ? { plugins } : {}) });
  };
  let vitest = await start();
  if (titles && own) {
    await vitest.close();
    pattern = within(own, titles);
    vitest = await start();
  }
  if (measured && !listing) noteProjects(measured, vitest);
  // A missing snapshot is a failure, as on a build server, and writes no file into the workspace.
  for (const place of [vitest.config.snapshotOptions, vitest.snapshot?.options]) {
    if (place) place.updateSnapshot = 'none';
  }
  const asked = listing && speaksOfTasks ? pattern && new RegExp(pattern) : vitest.config.testNamePattern;
  const reporter = new Reporter(asked);
  vitest.reporters.push(speaksOfTasks ? new Tasks(reporter, vitest, listing) : reporter);
  return { vitest, reporter, filters: related ? [] : absolute.length > 0 ? absolute : filter };
}

// The expression for titles that match both. An expression's flags cannot be kept, as ours has none.
function within(own, titles) {
  const { source, flags } = new RegExp(own);
  if (/[^gu]/.test(flags)) {
    throw new Error(`proctor: testNamePattern has flags (${flags}), beside which the project file's patterns and exclude for names do not apply`);
  }
  return `(?=[\\s\\S]*(?:${source}))${titles}`;
}

// Vite's default way to load a configuration writes a file beside it. The `runner` loader cannot load every configuration; the
// default is the fallback.
async function create(options, vite) {
  if (options.configLoader) return createVitest('test', options, vite);
  const error = await createVitest('test', options, { ...vite, configLoader: 'runner' }).catch((error) => error);
  if (!(error instanceof Error)) return error;
  return createVitest('test', options, vite).catch((second) => {
    throw second.syscall ? error : second;
  });
}

async function main() {
  const { vitest, reporter, filters } = await prepare();
  if (listing && !speaksOfTasks) {
    emit('begin');
    const { testModules, unhandledErrors } = await vitest.collect(filters);
    reporter.list(testModules, unhandledErrors);
  } else {
    await vitest.start(filters).catch((error) => {
      // Vitest has printed the error, and ended the run for its reporters.
      if (error.code !== 'VITEST_FILES_NOT_FOUND') throw error;
    });
  }
  tellClosing(vitest);
  await vitest.close();
  await vitest.exit();
}

// Vitest 4 prints an error while it closes, such as a failed teardown of the project, and exits with 0 all the same.
function tellClosing({ logger }) {
  const { error: print } = logger;
  logger.error = (said, error, ...more) => {
    if (said === 'error during close') {
      tell(error);
      process.exitCode ||= 1;
    }
    return print.call(logger, said, error, ...more);
  };
}

function tell(error) {
  emit('collector', { nodeid: '.', ...describeLoadError(error), output: String(error?.stack ?? error) });
}

main().catch((error) => {
  tell(error);
  console.error(error);
  process.exit(1);
});
