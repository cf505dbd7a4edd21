// A plugin of Vite that measures the lines of each test: it comes after all others, whose source maps lead to the project's lines.

import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { isProjectSource, noteFor, noteRunnerFiles } = require('../js/lines.cjs');
const { VERSION, insert } = require('../js/probes.cjs');

const SETUP = fileURLToPath(new URL('setup.js', import.meta.url));

// Vite's name of the modules that Vitest 4 loads for itself, as a test environment: they run without `setup.js`.
const VITESTS_OWN = '__vitest__';

// Where tests run in a process with Node's modules.
const POOLS = ['forks', 'threads', 'vmForks', 'vmThreads', 'typescript', undefined];

// Queries by which a module is a text or an address of a file.
const NOT_CODE = /[?&](?:inline|raw|sharedworker|url|worker)\b/;

function whyNot({ browser, coverage, experimental, pool }) {
  if (browser?.enabled) return 'these tests run in a browser';
  if (!POOLS.includes(pool)) return `the pool ${pool} is not known`;
  if (experimental?.viteModuleRunner === false) return 'Node loads these tests without Vite';
  if (coverage?.enabled && (coverage.provider ?? 'v8') !== 'istanbul') return "Vitest's own measurement with V8 would count what is added for it";
  return undefined;
}

// `settings`: the directory of the records, and the workspace's; `options`: those of the command line.
export function measureLines(settings, options) {
  // The texts of functions have no probes in this process, either: `globalSetup` runs here.
  require('../js/hits.cjs');
  let isMeasured = false;
  return {
    // Part of the key of code that Vitest caches.
    name: VERSION,
    enforce: 'post',
    config(config) {
      const test = (config.test ??= {});
      const why = whyNot({ ...test, pool: options.pool ?? test.pool });
      isMeasured = why === undefined;
      if (isMeasured) test.setupFiles = [SETUP, ...[test.setupFiles ?? []].flat()];
      else noteFor(settings, `lines are not measured test by test: ${why}`);
    },
    // Vite reads no file outside of the project for tests in the environment of a browser, as jsdom.
    load(id) {
      if (id.split('?', 1)[0] !== SETUP) return undefined;
      return `const PROCTOR_LINES = ${JSON.stringify({ ...settings, from: SETUP })};\n${readFileSync(SETUP, 'utf8')}`;
    },
    transform(code, id) {
      if (!isMeasured || this.environment?.name === VITESTS_OWN) return undefined;
      const [file] = id.split('?', 1);
      if (NOT_CODE.test(id) || !isProjectSource(file, settings.workspace)) return undefined;
      const place = { absolute: file, path: path.relative(settings.workspace, file) };
      try {
        return insert(code, this.getCombinedSourcemap(), place, (text) => this.parse(text), true);
      } catch {
        return undefined; // No map of the transforms before.
      }
    },
  };
}

// Says which tests are not measured: a project of a workspace has plugins of its own.
export function noteProjects(settings, vitest) {
  const others = (vitest.projects ?? []).filter((project) => (project.vite ?? project.server) !== (vitest.vite ?? vitest.server));
  if (others.length > 0) noteFor(settings, 'lines are not measured test by test in projects of a Vitest workspace');
  // A test file may belong to several of them.
  else noteSettings(settings, vitest);
}

// Says which files Vitest used for itself. Vite lists what its configuration file imports; set-up files run with the tests.
//
// Without this record all tests count as affected. Where hooks do not run as a stack, as by default before Vitest 2, those of a test file
// may load files after `setup.js` has recorded which it loaded.
function noteSettings(settings, vitest) {
  if (vitest.config.sequence?.hooks !== 'stack') return;
  const { config } = vitest.vite ?? vitest.server;
  const { setupFiles, ...test } = vitest.config;
  noteRunnerFiles(settings, test, () => [config.configFile, ...(config.configFileDependencies ?? [])].filter(Boolean));
}
