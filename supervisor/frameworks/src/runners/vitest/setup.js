// The first set-up file of each test file: tells the measurement of lines which test is running. `lines.mjs` replaces the settings.
import { createRequire } from 'node:module';

const settings = PROCTOR_LINES;
const require = createRequire(settings.from);
const { Lines, attempt } = require('../js/lines.cjs');
const { install } = require('../js/hits.cjs');

const { beforeEach, afterEach, afterAll } = globalThis.__vitest_index__;

const hits = install(globalThis);
// Without isolation the modules of one test file are those of the next.
const lines = (hits.lines ??= new Lines(settings, hits));

function titlesOf(test) {
  const titles = [];
  for (let task = test; task && task.type !== 'module' && task !== test.file; task = task.suite) if (task.name !== '') titles.unshift(task.name);
  return titles;
}

// The project's bound of time is not for these hooks: on a busy host they could be what fails.
const UNBOUNDED = 0;

beforeEach(({ task }) => attempt(() => lines.begin(task)), UNBOUNDED);
afterEach(({ task }) => attempt(() => lines.end(task, task.file.filepath, titlesOf(task))), UNBOUNDED);
afterAll(() => attempt(() => lines.outside()), UNBOUNDED);
