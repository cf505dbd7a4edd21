// A reporter of node:test that writes proctor's report; what people read comes from `spec` beside it. Must not know what
// was selected.
//
// Node 24 and newer say of each event which test of which file it is, as things happen. Older ones name the title and the
// depth alone, and hold back the events of a file until those before it are through; then only the events in the order of
// declaration (`test:start`, `test:pass`, `test:fail`) say which suite a test is in. Node 18 has none but those, and says of a
// file only that it failed outside of its tests, or that it has none.
'use strict';

const path = require('path');
const { end, packageOf, emit } = require('../js/report.cjs');
const { Printed } = require('./output.cjs');
const { DuplicateTests, failure, describeCrash } = require('../js/failure.cjs');

const [MAJOR, MINOR] = process.versions.node.split('.').map(Number);

// Before, nothing tells that a file's process has left by itself: what it had not told counts as never there.
if (MAJOR < 18 || MAJOR === 19 || (MAJOR === 18 && MINOR < 17) || (MAJOR === 20 && MINOR < 6)) {
  throw new Error(`Node 18.17, 20.6 or newer is needed, this is ${process.versions.node}`);
}

// The first that picks tests by their whole names.
const WHOLE_NAMES = 22;

// A listing tells names; `listing.cjs` makes every test fail before it begins.
const LISTING = process.env.PROCTOR_LISTING !== undefined;

// Where `output.cjs` keeps what failing tests print, file by file.
const PRINTED = process.env.PROCTOR_OUTPUT;

// A caller who names files or tests means tests: a file that has none and just runs through is none.
const ASKED = process.env.PROCTOR_ASKED !== undefined;

// What older versions say of a test that the name pattern left out; newer ones say nothing.
const LEFT_OUT = 'test name does not match pattern';

// Most that is kept of what a file's process wrote to stderr, in characters.
const SAID_MAX = 64 * 1024;

// What Node says of an error that nobody waited for, once the test that it came out of was over.
const LATE = /^\w+: Test "([^]*)" at (.+):(\d+):\d+ generated asynchronous activity after the test ended\. This activity created the error "([^]*)" and would/;

// Most of these that are told of one file.
const LATE_MAX = 8;

// A process that was ended from outside; whoever did that knows what its tests came to.
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

  /** The one whose events come, where they come one after the other. */
  get current() {
    for (const file of this.#files.values()) if (!file.done) return file;
    return undefined;
  }

  get all() {
    return this.#files.values();
  }
}

/** A test or suite, and what it is in; `kind` is `test`, `suite`, or undefined where older versions do not say so. */
class Node {
  constructor(parent, title, kind) {
    this.kind = kind;
    // A subtest exists only while its parent runs, and a suite's members stand for themselves: a rerun must tell them apart.
    const joint = parent?.kind === 'test' ? '/' : ' > ';
    this.name = parent ? parent.name + joint + title : title;
    // As Node itself writes it.
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
  // Whether this Node tells of ends as they come.
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

  // Without ids, the parent of what begins is known if just one is open above it.
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
      // One whose suite's hook failed ends without having begun.
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

  // Only a file that has to do with tests makes a plan, though all of them may be left out.
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

  // What a file's process says of errors outside of its tests.
  'test:diagnostic'(data) {
    if (data.nesting !== 0 || !/^(Error|Warning): /.test(data.message)) return;
    // Older versions do not say whose it is, and tell one file after the other.
    const file = this.#of(data) ?? (data.file === undefined ? this.#files.current : undefined);
    if (!file) return;
    if (file.late.length < LATE_MAX && LATE.test(data.message)) file.late.push(data.message);
    file.said ||= data.message;
  }

  /** How many files began and did not end. */
  get left() {
    return [...this.#files.all].filter((file) => !file.hasEnded).length;
  }

  /** Files whose end could not be judged before the events of those before them were through. */
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

  // The file that a test belongs to: it may be declared in a helper's file.
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
    // A suite is no test: it counts only when something of its own went wrong.
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
      const message = 'its process left by itself (process.exit) before all of its tests were told';
      for (const test of open.values()) {
        emit('finished', { ...test, nodeid: nodeid(test), outcome: 'error', message: "did not finish: the file's process left by itself" });
      }
      return emit('collector', { nodeid: file.file, message, output: file.said });
    }
    if (passed) {
      // A file without tests is a test itself, to Node too; one whose tests were all left out is none.
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

// Which tests went wrong after they had passed, and where the first of them is.
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
  // One without a body passes as well, so it cannot be said to have held.
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

// Where a test is declared, for what has no better place.
function at(data) {
  return { file: data.file, line: data.line };
}

// A test can be told twice when it ends after its parent.
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

// Node before 18.19 and 20.10 gives a file's event nothing but its name.
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
    // What comes after a signal is no test's doing, and the report ends without its end.
    if (type === 'test:interrupted') run = undefined;
    if (typeof run?.[type] === 'function') run[type](located(data));
  }
  if (!run) return;
  run.end();
  end(run.left);
  // Tests that were kept from running are no failures.
  if (LISTING) process.once('exit', () => (process.exitCode = 0));
};
