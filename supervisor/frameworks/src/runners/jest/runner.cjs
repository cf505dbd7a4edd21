// Wraps the runner of a test file (jest-circus), in whichever process that runs, and adds to each test's result what was written
// while it ran.
//
// A test's console output waits in Jest's own buffer until the end of the file, or goes to a stream at once. Output of tests
// that run at the same time cannot be attributed: such a file's tests have none.
'use strict';

const { Lines, attempt } = require('../js/lines.cjs');
const { watchStarts } = require('../js/node_internals.cjs');
const { OutputCapture, endOfOutput, nowRunning } = require('../js/report.cjs');

module.exports = (globalConfig, config, environment, runtime, file, send, ...more) => {
  const circus = require(config.proctorRunner);
  const run = circus.default ?? circus;
  const lines = measure(config, environment, file);
  if (typeof send !== 'function') return run(globalConfig, config, environment, runtime, file, send, ...more).finally(() => attempt(() => lines && finish(lines, file)));
  const output = new Output(environment);
  const telling = (event, [path, test]) => {
    if (event === 'test-case-result') return send(event, [path, { ...test, output: output.end() }]);
    const sent = send(event, [path, test]);
    if (event === 'test-case-start') output.begin();
    return sent;
  };
  return run(globalConfig, config, environment, runtime, file, telling, ...more).finally(() => {
    output.end();
    attempt(() => lines && finish(lines, file));
  });
};

// What Node itself loaded in this process has no probes: an environment, a transformer.
function finish(lines, file) {
  lines.outside();
  lines.endOfTests();
  lines.loaded(file, Object.keys(require.cache));
}

// Measures the lines of the file's tests if Jest's configuration says so. A test begins before its hooks.
function measure(config, environment, file) {
  const { hits } = environment.global.$proctor_lines ?? {};
  if (config.proctorLines === undefined || hits === undefined) return undefined;
  const lines = new Lines(config.proctorLines, hits);
  attempt(() => watchStarts(() => attempt(() => lines.started())));
  const own = environment.handleTestEvent;
  environment.handleTestEvent = (event, state) => {
    const { name, test } = event;
    attempt(() => {
      if (name === 'run_start' && hasConcurrent(state.rootDescribeBlock)) lines.mix();
      if (name === 'test_start') lines.begin(test);
      if (name === 'test_done' || name === 'test_skip' || name === 'test_todo') lines.end(test, file, titlesOf(test));
    });
    return own?.call(environment, event, state);
  };
  return lines;
}

function titlesOf(test) {
  const titles = [];
  // The outermost block is the file.
  for (let entity = test; entity.parent; entity = entity.parent) titles.unshift(entity.name);
  return titles;
}

class Output {
  constructor(environment) {
    const { console } = environment.global;
    // A console that writes at once, as for a single file, may keep what it writes as well.
    this.console = console.constructor.name === 'BufferedConsole' ? console : undefined;
    this.written = new OutputCapture();
    const own = environment.handleTestEvent;
    environment.handleTestEvent = (event, state) => {
      // Hooks before the test belong to it.
      if (event.name === 'test_start') nowRunning(event.test.fn);
      if (event.name === 'run_start') this.isMixed = hasConcurrent(state.rootDescribeBlock);
      return own?.call(environment, event, state);
    };
  }

  begin() {
    this.from = this.kept().length;
    if (!this.isMixed) this.written.start();
  }

  end() {
    if (this.from === undefined || this.isMixed) return undefined;
    const said = this.kept().slice(this.from).map(({ message }) => `${message}\n`);
    this.from = undefined;
    return endOfOutput([...said, this.written.stop() ?? ''].join('')) || undefined;
  }

  // The console output that Jest buffers until the file's end.
  kept() {
    return this.console?.getBuffer() ?? [];
  }
}

const hasConcurrent = ({ children }) => children.some((child) => child.concurrent || (child.children && hasConcurrent(child)));
