// A reporter of node:test that writes proctor's report; `spec` beside it writes the output for people.
//
// Node 24 and newer identify test and file in each event, as things happen. Older versions give only title and depth, and hold
// back the events of a file until those before it are through; then only the events in the order of declaration (`test:start`,
// `test:pass`, `test:fail`) show which suite a test is in. Node 18 has only those, and of a file reports only that it failed
// outside of its tests, or that it has none.
'use strict';

const path = require('path');
const { end, packageOf, printableTitle, emit } = require('../js/report.cjs');
const { Printed } = require('./output.cjs');
const { DuplicateTests, failure, describeCrash } = require('../js/failure.cjs');

const [MAJOR, MINOR] = process.versions.node.split('.').map(Number);

// Before, nothing shows that a file's process exited by itself: results that it had not sent would count as never there.
if (MAJOR < 18 || MAJOR === 19 || (MAJOR === 18 && MINOR < 17) || (MAJOR === 20 && MINOR < 6)) {
  throw new Error(`Node 18.17, 20.6 or newer is needed, this is ${process.versions.node}`);
}

// The first version that selects tests by their whole names.
const WHOLE_NAMES = 22;

// A listing reports names; `listing.cjs` makes every test fail before it begins.
const LISTING = process.env.PROCTOR_LISTING !== undefined;

// Where `output.cjs` records the output of failing tests, file by file.
const PRINTED = process.env.PROCTOR_OUTPUT;

// In a request that names files or tests, a file without tests that just succeeds is no test.
const ASKED = process.env.PROCTOR_ASKED !== undefined;

// Skip reason of a test that the name pattern excluded in older versions; newer ones send no event.
const LEFT_OUT = 'test name does not match pattern';

// Most characters kept of the stderr of a file's process.
const SAID_MAX = 64 * 1024;

// Node's message about an unhandled error after the end of the test that it came from.
const LATE = /^\w+: Test "([^]*)" at (.+):(\d+):\d+ generated asynchronous activity after the test ended\. This activity created the error "([^]*)" and would/;

// Most of these messages that are reported of one file.
const LATE_MAX = 8;

// Signals from outside; the sender of the signal knows the result.
const ENDED = ['SIGTERM', 'SIGKILL', 'SIGINT'];

/** Files that have processes of their own, in the order in which they began. */
class Files {
  #files = new Map();

  begin(data) {
    this.#files.set(data.file, {
      file: data.file, told: 0, open: new Map(), said: '', late: [], done: false, hasTests: false,
      printed: PRINTED && new Printed(PRINTED, data.file),
    });
  }

  of(file) {
    return this.#files.get(path.resolve(file));
  }

  /** The file whose events come, where they come one after the other. */
  get current() {
    for (const file of this.#files.values()) if (!file.done) return file;
    return undefined;
  }

  get all() {
    return this.#files.values();
  }
}

/** A test or suite, with its parents; `kind` is `test`, `suite`, or undefined where older versions do not report it. */
class Node {
  constructor(parent, title, kind) {
    this.kind = kind;
    // A subtest exists only while its parent runs, and a suite's members are independent: a rerun must distinguish them.
    const joint = parent?.kind === 'test' ? '/' : ' > ';
    const shown = printableTitle(title);
    this.name = parent ? parent.name + joint + shown : shown;
    // In Node's own format.
    this.whole = parent ? `${parent.whole} > ${title}` : title;
  }
}

class Run {
  #files = new Files();
  #kinds = new Map();
  #byId = new Map();
  #stack = [];
  #open = [];
  #twins = new DuplicateTests();
  // Whether this Node reports ends as they come.
  #hasEnds = false;

  'test:enqueue'(data) {
    if (isFile(data)) return;
    if (hasId(data)) {
      this.#byId.set(id(data), new Node(this.#byId.get(id(data, data.parentId)), data.name, data.type));
    } else {
      this.#kinds.set(place(data), data.type);
    }
  }

  'test:dequeue'(data) {
    if (isFile(data)) return this.#files.begin(data);
    const node = hasId(data) ? this.#byId.get(id(data)) : this.#opened(data);
    if (node?.kind === 'test') this.#started(data, node);
  }

  // Without ids, the parent of a starting test is known if exactly one is open above it.
  #opened(data) {
    const above = this.#open[data.nesting - 1];
    const parent = data.nesting > 0 && above?.size === 1 ? [...above.values()][0] : undefined;
    if (data.nesting > 0 && !parent) return undefined;
    const node = this.#node(parent, data);
    (this.#open[data.nesting] ??= new Map()).set(place(data), node);
    return node;
  }

  #node(parent, data) {
    return new Node(parent, data.name, this.#kinds.get(place(data)));
  }

  'test:start'(data) {
    if (isFile(data) || hasId(data)) return;
    this.#stack.length = data.nesting;
    this.#stack.push(this.#node(this.#stack[data.nesting - 1], data));
  }

  'test:complete'(data) {
    this.#hasEnds = true;
    if (isFile(data)) return this.#fileEnded(data);
    if (hasId(data)) {
      // A test whose suite's hook failed ends without having begun.
      if (!this.#byId.has(id(data))) this['test:enqueue']({ ...data, type: data.details.type });
      this.#finished(data, this.#byId.get(id(data)), data.details.passed);
    } else {
      this.#open[data.nesting]?.delete(place(data));
    }
  }

  'test:pass'(data) {
    this.#inOrder(data, true);
  }

  'test:fail'(data) {
    this.#inOrder(data, false);
  }

  #inOrder(data, passed) {
    if (hasId(data)) return;
    if (isFile(data)) {
      const file = this.#files.of(data.file);
      if (file) file.done = file.hasEnded = true;
      if (!this.#hasEnds) this.#fileEnded({ ...data, details: { ...data.details, passed } });
    } else {
      this.#finished(data, this.#stack[data.nesting], passed);
    }
  }

  // Only a file with tests has a plan, though all of them may be excluded.
  'test:plan'(data) {
    const file = this.#of(data);
    if (file) file.hasTests = true;
  }

  'test:summary'(data) {
    const file = this.#of(data);
    if (file) file.done = file.hasTests = true;
  }

  #of({ entryFile, file }) {
    return (entryFile ?? file) === undefined ? undefined : this.#files.of(entryFile ?? file);
  }

  'test:stderr'(data) {
    const file = this.#of(data);
    if (file && file.said.length < SAID_MAX) file.said += data.message;
  }

  // Errors of a file's process outside of its tests.
  'test:diagnostic'(data) {
    if (data.nesting !== 0 || !/^(Error|Warning): /.test(data.message)) return;
    // Older versions do not name the file, and report one file after the other.
    const file = this.#of(data) ?? (data.file === undefined ? this.#files.current : undefined);
    if (!file) return;
    if (file.late.length < LATE_MAX && LATE.test(data.message)) file.late.push(data.message);
    file.said ||= data.message;
  }

  /** How many files began and did not end. */
  get left() {
    return [...this.#files.all].filter((file) => !file.hasEnded).length;
  }

  /** Judges files whose end could not be judged before the events of the files before them were through. */
  end() {
    for (const file of this.#files.all) {
      if (!this.#hasEnds && !file.isJudged) {
        file.ended ??= { details: { passed: true } };
        file.hasEnded = true;
      }
      this.#judge(file);
    }
    this.#twins.report();
  }

  // The file that a test belongs to: the test may be declared in a helper's file.
  #file(data) {
    return this.#files.of(data.entryFile ?? data.file) ?? (data.entryFile ? undefined : this.#files.current);
  }

  #package(data) {
    return packageOf(this.#file(data)?.file ?? data.entryFile ?? data.file);
  }

  #started(data, node) {
    const test = { package: this.#package(data), name: node.name };
    this.#file(data)?.open.set(node.name, test);
    if (!LISTING) emit('started', test);
  }

  #finished(data, node, passed) {
    const file = this.#file(data);
    if (file) file.hasTests = true;
    if (!node || data.skip === LEFT_OUT || isTwice(node)) return;
    const { details } = data;
    if (file) file.told += 1;
    const test = { package: this.#package(data), name: node.name };
    file?.open.delete(node.name);
    const failureType = passed ? undefined : details.error?.failureType;
    // A suite is no test: it counts only when something of its own failed.
    if (details.type === 'suite' && (passed || failureType === 'subtestsFailed')) return;
    if (LISTING && details.type !== 'suite') return emit('listed', test);
    const id = nodeid(test);
    this.#twins.add(id);
    const told = passed ? succeeded(data) : { ...failed(data, failureType), output: file?.printed?.of(node.whole) };
    emit('finished', { ...test, nodeid: id, duration_s: seconds(details), ...told });
  }

  #fileEnded(data) {
    const file = this.#files.of(data.file);
    if (!file) return;
    file.ended = data;
    file.hasEnded = true;
    if (data.details.passed || file === this.#files.current || file.told > 0) this.#judge(file);
  }

  #judge(file) {
    const { ended, open, told } = file;
    file.ended = undefined;
    if (!ended) return;
    file.done = file.isJudged = true;
    const { passed, error } = ended.details;
    const left = passed && !LISTING && file.printed?.left();
    if (left && (left.isEarly || (told === 0 && left.begun > 0))) {
      const message = 'its process left by itself (process.exit) before all of its tests were reported';
      for (const test of open.values()) {
        emit('finished', { ...test, nodeid: nodeid(test), outcome: 'error', message: "did not finish: the file's process left by itself" });
      }
      return emit('collector', { nodeid: file.file, message, output: file.said });
    }
    if (passed) {
      // A file without tests is a test itself, as in Node; one whose tests were all excluded is none.
      const isTest = told === 0 && !file.hasTests && !ASKED && !LISTING;
      const test = { package: packageOf(file.file), name: path.basename(file.file) };
      if (isTest) emit('finished', { ...test, nodeid: nodeid(test), outcome: 'passed', duration_s: seconds(ended.details) });
      return;
    }
    const signal = error?.signal;
    if (open.size > 0 && ENDED.includes(signal)) return;
    const how = signal ? `was ended by ${signal}` : `exited with ${error?.exitCode ?? 'an error'}`;
    for (const test of open.values()) {
      const message = `did not finish: the file's process ${how}`;
      emit('finished', { ...test, nodeid: nodeid(test), outcome: 'error', message });
    }
    const known = open.size > 0 || error?.failureType === 'subtestsFailed' || (LISTING && told > 0);
    if (known && file.late.length === 0) return;
    const message = `its process ${how} outside of its tests`;
    const output = file.late.length > 1 ? file.late.join('\n') : file.said;
    emit('collector', { nodeid: file.file, message, ...describeCrash(file.said), ...afterTests(file.late), output });
  }
}

// Names of the tests that failed after they had passed, and the place of the first.
function afterTests(late) {
  if (late.length === 0) return {};
  const told = late.map((message) => LATE.exec(message));
  const [, , file, line] = told[0];
  const message = told.map(([, name, , , error]) => `"${name}" went on after its end: ${error}`).join('\n');
  return { file: path.resolve(file), line: Number(line), message };
}

function succeeded(data) {
  const reason = (said, word) => (typeof said === 'string' && said !== '' ? said : word);
  if (data.expectFailure) return { outcome: 'xfailed', message: reason(data.expectFailure) };
  if (data.skip !== undefined && data.skip !== false) return { outcome: 'skipped', message: reason(data.skip), ...at(data) };
  // A test without a body passes as well, so a passed todo proves nothing.
  if (data.todo !== undefined && data.todo !== false) return { outcome: 'skipped', message: reason(data.todo, 'todo'), ...at(data) };
  return { outcome: 'passed' };
}

function failed(data, failureType) {
  if (failureType === 'subtestsFailed') return { outcome: 'failed' };
  const { error } = data.details;
  const told = { ...at(data), ...failure(error?.cause ?? error) };
  if (data.todo !== undefined && data.todo !== false) return { ...told, outcome: 'xfailed' };
  const isError = failureType === 'hookFailed' || failureType === 'cancelledByParent';
  return { ...told, outcome: isError || data.details.type === 'suite' ? 'error' : 'failed' };
}

// Place of a test's declaration, for lack of a better one.
function at(data) {
  return { file: data.file, line: data.line };
}

// Whether the test was reported before: one that ends after its parent is reported twice.
function isTwice(node) {
  const was = node.isTold === true;
  node.isTold = true;
  return was;
}

const nodeid = (test) => `${test.package} > ${test.name}`;

function seconds({ duration_ms: ms }) {
  return Math.round((ms ?? 0) * 1000) / 1e6;
}

function hasId(data) {
  return data.testId !== undefined;
}

function id(data, of = data.testId) {
  return `${data.entryFile ?? ''}\0${of}`;
}

function place(data) {
  return [data.file, data.line, data.column, data.nesting, data.name].join('\0');
}

// Node before 18.19 and 20.10 gives only the name in a file's event.
function located(data) {
  const isBare = data.nesting === 0 && data.file === undefined && path.isAbsolute(data.name ?? '');
  return isBare ? { ...data, file: data.name, line: 1, column: 1 } : data;
}

// Whether an event is about a file that has a process of its own, which the runner shows as a test.
function isFile(data) {
  return data.nesting === 0 && data.line === 1 && data.column === 1 && !data.entryFile && path.resolve(data.name) === data.file;
}

module.exports = async function* proctor(source) {
  emit('begin');
  if (MAJOR < WHOLE_NAMES) {
    const text = `Node ${process.versions.node} picks tests by their own titles alone: filters and reruns of single tests need Node ${WHOLE_NAMES}`;
    emit('note', { text });
  }
  let run = new Run();
  for await (const { type, data } of source) {
    // Events after a signal are not the tests', and the report ends without its end.
    if (type === 'test:interrupted') run = undefined;
    if (typeof run?.[type] === 'function') run[type](located(data));
  }
  if (!run) return;
  run.end();
  end(run.left);
  // Tests that were kept from running are no failures.
  if (LISTING) process.once('exit', () => (process.exitCode = 0));
};
