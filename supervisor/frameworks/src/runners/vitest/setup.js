// The first set-up file of each test file: tells the measurement of lines which test is running. `lines.mjs` gives it the settings.
import { createRequire } from 'node:module';

// Without them, as where a project has Node load its files, or without what Vitest has here, nothing is measured.
const settings = typeof PROCTOR_LINES === 'undefined' ? undefined : PROCTOR_LINES;
const { beforeAll, beforeEach, afterEach, afterAll } = globalThis.__vitest_index__ ?? {};

if (settings && afterAll) measure(createRequire(settings.from));

function measure(require) {
  const { Lines, attempt } = require('../js/lines.cjs');
  const { install } = require('../js/hits.cjs');
  const { watchStarts } = require('../js/node_internals.cjs');
  const hits = install(globalThis);
  // Without isolation the modules of one test file are those of the next.
  const lines = (hits.lines ??= new Lines(settings, hits));
  attempt(() => watchStarts(() => attempt(() => lines.started())));
  // The project's bound of time is not for these hooks: on a busy host they could be what fails.
  const unbounded = 0;
  beforeEach(({ task }) => attempt(() => lines.begin(task)), unbounded);
  afterEach(({ task }) => attempt(() => lines.end(task, task.file.filepath, titlesOf(task))), unbounded);
  const atEnd = () => attempt(() => finish(lines, require.cache));
  // What the file's `beforeAll` hooks return runs after its `afterAll` hooks, and that of the first hook last; but it does not run at all
  // after a hook that failed.
  beforeAll(() => atEnd, unbounded);
  afterAll(atEnd, unbounded);
}

// What Node itself loaded in this process has no probes.
function finish(lines, natively) {
  lines.outside();
  lines.endOfTests();
  const { filepath } = globalThis.__vitest_worker__ ?? {};
  if (filepath) lines.loaded(filepath, Object.keys(natively ?? {}));
}

function titlesOf(test) {
  const titles = [];
  for (let task = test; task && task.type !== 'module' && task !== test.file; task = task.suite) if (task.name !== '') titles.unshift(task.name);
  return titles;
}
