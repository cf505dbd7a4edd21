// Stands between Jest and what runs a file's tests (circus), in whichever process that happens, and adds to the result of each
// test what was written while it ran. Must not know who reads it.
//
// What a test says to the console waits in Jest's own buffer of the file until its end, or goes to a stream at once. Tests of a
// file that run at the same time cannot be told apart by that: then nothing is said of any.
'use strict';

const { OutputCapture, stripAnsi } = require('../js/report.cjs');

module.exports = (globalConfig, config, environment, runtime, file, send, ...more) => {
  const circus = require(config.proctorRunner);
  const run = circus.default ?? circus;
  if (typeof send !== 'function') return run(globalConfig, config, environment, runtime, file, send, ...more);
  const output = new Output(environment);
  const telling = (event, [path, test]) => {
    if (event === 'test-case-result') return send(event, [path, { ...test, output: output.end() }]);
    const sent = send(event, [path, test]);
    if (event === 'test-case-start') output.begin();
    return sent;
  };
  return run(globalConfig, config, environment, runtime, file, telling, ...more).finally(() => output.end());
};

class Output {
  constructor(environment) {
    const { console } = environment.global;
    // One that writes at once, as for a single file, may keep what it writes as well.
    this.console = console.constructor.name === 'BufferedConsole' ? console : undefined;
    this.written = new OutputCapture();
    const own = environment.handleTestEvent;
    environment.handleTestEvent = (event, state) => {
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
    return stripAnsi([...said, this.written.stop() ?? ''].join('')) || undefined;
  }

  // What Jest keeps of the console until the file's end.
  kept() {
    return this.console?.getBuffer() ?? [];
  }
}

const hasConcurrent = ({ children }) => children.some((child) => child.concurrent || (child.children && hasConcurrent(child)));
