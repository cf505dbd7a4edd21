// Started beside a run at its deadline, in the run's own namespaces: asks each of its Node processes for the stacks of its threads,
// through the inspector that SIGUSR1 opens, and prints them, one JSON object a line:
//
// - `state`: `running`, or `suspended` for async functions that wait in an `await`, or `declared` for the function of the test that
//   runs, where nothing of the project is on a stack;
// - `frames`: innermost first where that is known: [path, line from 1, function];
// - `loaded`: files of the project that the process has loaded, relative to the workspace: whether it is the test's process.
//
// Every inspector opens the same port, so processes are asked one after the other, and each closes its inspector again. The caller
// kills this program when its time is up; what it has printed by then counts.
'use strict';

const { randomBytes } = require('crypto');
const fs = require('fs');
const http = require('http');
const Module = require('module');
const path = require('path');
const { fileURLToPath } = require('url');

const PORT = 9229;
const SIGUSR1_BIT = 1n << 9n;

// Most processes that are asked, and frames that are printed of one thread.
const PROCESSES_MAX = 16;
const FRAMES_MAX = 100;

// Most loaded files that are printed of one thread, those loaded last: 500 of them are about 20 KiB.
const LOADED_MAX = 500;

// A thread is busy that runs, or waits for a processor, whenever it is looked at.
const SAMPLES = 3;
const SAMPLE_PAUSE_MS = 20;

// Milliseconds after which a process or thread that does not answer is left alone.
const CONNECT_MS = 600;
const ANSWER_MS = 500;

// A snapshot of a larger heap takes longer than the caller waits, and more memory than the run may have left.
const HEAP_BYTES_MAX = 96 * 1024 * 1024;
const HEAP_MS = 3_000;

// A snapshot takes some times the heap in the process and here: not if the run's memory limit would be reached.
const MEMORY_PER_HEAP = 6;
const memoryMax = Number(process.env.PROCTOR_MEMORY_BYTES_MAX) || Infinity;

// Most suspended functions that are looked at.
const SUSPENDED_MAX = 200;

// Largest message that is read: a snapshot comes in small parts, and everything else is short.
const MESSAGE_BYTES_MAX = 16 * 1024 * 1024;

// Memory of a part of a message besides its bytes.
const PART_BYTES = 128;

// Largest snapshot that is read: the text of one is about as long as the heap is large.
const SNAPSHOT_BYTES_MAX = 2 * HEAP_BYTES_MAX;

const workspace = process.argv[2];

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function read(file) {
  try {
    return fs.readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}

// All processes of the run.
const pids = () => fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number);

// The Node processes of the run that open an inspector on SIGUSR1: busy ones first, then those without children, newest first.
async function nodeProcesses() {
  const found = pids().filter((pid) => pid !== process.pid && isNode(pid)).map((pid) => ({ pid, parent: Number(stat(`/proc/${pid}/stat`)[1]) }));
  for (const one of found) {
    Object.assign(one, { isBusy: true, hasBusyThread: true, isParent: found.some(({ parent }) => parent === one.pid) });
  }
  for (let sample = 0; sample < SAMPLES; sample += 1) {
    if (sample > 0) await pause(SAMPLE_PAUSE_MS);
    for (const one of found) {
      one.isBusy &&= isRunnable(`/proc/${one.pid}/task/${one.pid}/stat`);
      one.hasBusyThread &&= threads(one.pid).some((thread) => isRunnable(`/proc/${one.pid}/task/${thread}/stat`));
    }
  }
  const rank = ({ hasBusyThread, isParent }) => (hasBusyThread ? 0 : isParent ? 2 : 1);
  return found.sort((a, b) => rank(a) - rank(b) || b.pid - a.pid).slice(0, PROCESSES_MAX);
}

// The fields of a `/proc/PID/stat` from the state on: the name before it may hold blanks and parentheses.
const stat = (file) => read(file).split(') ').pop().split(' ');
const isRunnable = (file) => stat(file)[0] === 'R';

function threads(pid) {
  try {
    return fs.readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

function isNode(pid) {
  try {
    if (!/^node(js)?\d*$/.test(path.basename(fs.readlinkSync(`/proc/${pid}/exe`)))) return false;
  } catch {
    return false;
  }
  const caught = /^SigCgt:\s*([0-9a-f]+)/m.exec(read(`/proc/${pid}/status`));
  return caught !== null && (BigInt(`0x${caught[1]}`) & SIGUSR1_BIT) !== 0n;
}

// Interfaces that a new network namespace has if the host has loaded modules for tunnels. They lead nowhere.
const FALLBACK_TUNNELS = 'tunl0|gre0|gretap0|erspan0|ip_vti0|ip6_vti0|sit0|ip6tnl0|ip6gre0';

// Memory of all processes of the run; pages that several share count for each.
function residentBytes() {
  const resident = (pid) => 1024 * Number(/^VmRSS:\s*(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1] ?? 0);
  return pids().map(resident).reduce((sum, one) => sum + one, 0);
}

// Whether the loopback interface is the run's own: then no interface is there that leads elsewhere.
function isAlone() {
  const isInner = new RegExp(`^\\s*((lo|${FALLBACK_TUNNELS}):|$)`);
  return read('/proc/net/dev').split('\n').slice(2).every((line) => isInner.test(line));
}

// Whether something listens on the inspector's port.
function isTaken() {
  const listens = (line) => / [0-9A-F]+:240D [0-9A-F]+:0000 0A /.test(line);
  return ['tcp', 'tcp6'].some((name) => read(`/proc/net/${name}`).split('\n').some(listens));
}

// Whether a condition comes true in time.
async function become(condition) {
  const until = Date.now() + CONNECT_MS;
  while (!condition()) {
    if (Date.now() > until) return false;
    await pause(10);
  }
  return true;
}

// A session of an inspector: requests and their answers, and listeners for its events. Messages go where `write` sends them.
class Session {
  #next = 0;
  #open = new Map();
  listeners = new Map();

  // The result of a request; `undefined` for an error, and without an answer in time.
  send(method, params = {}, ms = ANSWER_MS) {
    if (this.isEnded) return undefined;
    this.#next += 1;
    const id = this.#next;
    this.write(JSON.stringify({ id, method, params }));
    const answer = new Promise((resolve) => this.#open.set(id, resolve));
    return Promise.race([answer, pause(ms)]);
  }

  dispatch(text) {
    const { id, result, method, params } = JSON.parse(text);
    if (method) return this.listeners.get(method)?.(params);
    this.#open.get(id)?.(result);
    this.#open.delete(id);
  }

  // Ends all waits: nothing answers any more.
  giveUp() {
    for (const resolve of this.#open.values()) resolve(undefined);
    this.#open.clear();
  }
}

// The session of a process, over its inspector's socket.
class Connection extends Session {
  #socket;
  #bytes = Buffer.alloc(0);
  #parts = [];
  #partsBytes = 0;
  isEnded = false;

  static async to(pid) {
    // The process before may not have closed its inspector yet. The signal ends a process that no longer handles it.
    if (!(await become(() => !isTaken())) || !isNode(pid)) return undefined;
    process.kill(pid, 'SIGUSR1');
    if (!(await become(isTaken))) return undefined;
    const [target] = JSON.parse(await get('/json/list'));
    const connection = new Connection();
    connection.#socket = await upgrade(new URL(target.webSocketDebuggerUrl).pathname);
    connection.#socket.on('data', (bytes) => connection.#receive(bytes)).on('error', () => {}).on('close', () => connection.end());
    const answer = await connection.send('Runtime.evaluate', { expression: 'process.pid' });
    if (answer?.result?.value === pid) return connection;
    connection.end();
    return undefined;
  }

  write(text) {
    this.#socket.write(frame(text));
  }

  end() {
    this.isEnded = true;
    this.#socket.destroy();
    this.giveUp();
  }

  #receive(bytes) {
    this.#bytes = this.#bytes.length === 0 ? bytes : Buffer.concat([this.#bytes, bytes]);
    if (this.#bytes.length + this.#partsBytes > MESSAGE_BYTES_MAX) return this.end();
    for (;;) {
      const head = this.#bytes;
      if (head.length < 10 && head.length < 2 + [0, 2, 8][Math.max(0, (head[1] & 127) - 125)]) return;
      const short = head[1] & 127;
      const [at, length] = short < 126 ? [2, short] : short === 126 ? [4, head.readUInt16BE(2)] : [10, Number(head.readBigUInt64BE(2))];
      if (head.length < at + length) return;
      this.#bytes = head.subarray(at + length);
      const kind = head[0] & 15;
      if (kind > 2) continue;
      this.#parts.push(head.subarray(at, at + length));
      // An empty part is an object too.
      this.#partsBytes += length + PART_BYTES;
      if (this.#partsBytes > MESSAGE_BYTES_MAX) return this.end();
      if (!(head[0] & 128)) continue;
      this.#partsBytes = 0;
      try {
        this.dispatch(Buffer.concat(this.#parts.splice(0)).toString());
      } catch {
        // No inspector answers so, and the other processes are still to be asked.
        return this.end();
      }
    }
  }
}

// The session of a worker thread, whose messages go through that of its process.
class ThreadConnection extends Session {
  constructor(process, sessionId) {
    super();
    this.process = process;
    this.sessionId = sessionId;
  }

  get isEnded() {
    return this.process.isEnded;
  }

  write(message) {
    this.process.send('NodeWorker.sendMessageToWorker', { sessionId: this.sessionId, message });
  }
}

function get(where) {
  return new Promise((resolve, reject) => {
    const request = http.get({ host: '127.0.0.1', port: PORT, path: where, timeout: CONNECT_MS }, (answer) => {
      let text = '';
      answer.on('data', (part) => {
        text += part;
        if (text.length > MESSAGE_BYTES_MAX) request.destroy(new Error('too long'));
      });
      answer.on('end', () => resolve(text)).on('error', reject);
    });
    request.on('error', reject).on('timeout', () => request.destroy(new Error('no answer')));
  });
}

function upgrade(where) {
  return new Promise((resolve, reject) => {
    const headers = {
      Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13',
      'Sec-WebSocket-Key': randomBytes(16).toString('base64'),
    };
    const request = http.get({ host: '127.0.0.1', port: PORT, path: where, headers, timeout: CONNECT_MS });
    request.on('upgrade', (_, socket) => resolve(socket)).on('response', () => reject(new Error('no upgrade')));
    request.on('error', reject).on('timeout', () => request.destroy(new Error('no answer')));
  });
}

// One frame of text, masked by zeros, as a client has to mask it.
function frame(text) {
  const body = Buffer.from(text);
  const head = Buffer.from([0x81, 0x80 | (body.length < 126 ? body.length : 126), body.length >> 8, body.length & 255]);
  return Buffer.concat([body.length < 126 ? head.subarray(0, 2) : head, Buffer.alloc(4), body]);
}

// The scripts of a thread by their ids, and places in them as people wrote them.
class Scripts {
  #scripts = new Map();
  #maps = new Map();

  add({ scriptId, url, sourceMapURL }) {
    this.#scripts.set(scriptId, { url, sourceMapURL });
  }

  isOwn(scriptId) {
    const file = this.#file(scriptId);
    return file !== undefined && isOfProject(file);
  }

  // Paths of the project's scripts, relative to the workspace.
  own() {
    const files = [...this.#scripts.keys()].filter((id) => this.isOwn(id)).map((id) => this.#file(id).slice(workspace.length + 1));
    return [...new Set(files)].slice(-LOADED_MAX);
  }

  #file(scriptId) {
    const { url = '' } = this.#scripts.get(scriptId) ?? {};
    return toPath(url.replace(/\?.*$/, ''));
  }

  // [path, line] of a place given by lines and columns from 0.
  place({ scriptId, lineNumber, columnNumber = 0 }) {
    const file = this.#file(scriptId) ?? '';
    const found = this.#map(scriptId)?.findEntry(lineNumber, columnNumber);
    if (found?.originalSource === undefined) return [file, lineNumber + 1];
    const original = toPath(found.originalSource) ?? path.resolve(path.dirname(file), found.originalSource);
    return fs.existsSync(original) ? [original, found.originalLine + 1] : [file, lineNumber + 1];
  }

  #map(scriptId) {
    if (!this.#maps.has(scriptId)) this.#maps.set(scriptId, this.#load(scriptId));
    return this.#maps.get(scriptId);
  }

  #load(scriptId) {
    const { sourceMapURL } = this.#scripts.get(scriptId) ?? {};
    const file = this.#file(scriptId);
    if (!sourceMapURL || !file || !Module.SourceMap) return undefined;
    try {
      const inline = /^data:[^,]*?(;base64)?,(.*)$/s.exec(sourceMapURL);
      const text = inline
        ? Buffer.from(inline[1] ? inline[2] : decodeURIComponent(inline[2]), inline[1] ? 'base64' : 'utf8').toString()
        : fs.readFileSync(path.resolve(path.dirname(file), sourceMapURL), 'utf8');
      return new Module.SourceMap(JSON.parse(text));
    } catch {
      return undefined;
    }
  }
}

const isOfProject = (file) => file.startsWith(`${workspace}/`) && !file.includes('/node_modules/');

function toPath(url) {
  try {
    return url.startsWith('file://') ? fileURLToPath(url) : path.isAbsolute(url) ? url : undefined;
  } catch {
    return undefined;
  }
}

function print(state, frames, loaded) {
  if (!frames.some(([file]) => isOfProject(file))) return false;
  fs.writeSync(1, `${JSON.stringify({ state, frames: frames.slice(0, FRAMES_MAX), loaded })}\n`);
  return true;
}

// The scripts that a thread has loaded, and loads from now on.
async function scriptsOf(connection) {
  const scripts = new Scripts();
  connection.listeners.set('Debugger.scriptParsed', (script) => scripts.add(script));
  await connection.send('Debugger.enable', {}, 2 * ANSWER_MS);
  return scripts;
}

// Prints where a thread is: its stack, or if it has none, its suspended functions, or the test that it runs. `loaded` are the files
// that its process has loaded besides.
async function printThread(connection, isBusy, loaded = []) {
  const paused = new Promise((resolve) => connection.listeners.set('Debugger.paused', resolve));
  const scripts = await scriptsOf(connection);
  const files = [...loaded, ...scripts.own()];
  if (isBusy) {
    connection.send('Debugger.pause');
    const found = await Promise.race([paused, pause(ANSWER_MS)]);
    if (!found) return false;
    const frames = found.callFrames.map(({ functionName, location }) => [...scripts.place(location), functionName || '<anonymous>']);
    // A thread that stays paused would keep its process from ending at SIGTERM.
    await connection.send('Debugger.disable');
    return print('running', frames, files);
  }
  const declared = await declaredFrame(connection, scripts);
  if (declared) print('declared', [declared], files);
  return (await printSuspended(connection, scripts, files)) || declared !== undefined;
}

// What the engine knows of an object, by names such as `[[GeneratorState]]`.
async function internalProperties(connection, objectId) {
  const found = await connection.send('Runtime.getProperties', { objectId, ownProperties: true });
  return new Map((found?.internalProperties ?? []).map(({ name, value }) => [name, value]));
}

// The function of the running test, which proctor's reporters leave in the process.
async function declaredFrame(connection, scripts) {
  const found = await connection.send('Runtime.evaluate', { expression: "globalThis[Symbol.for('proctor.running')]?.deref()" });
  if (found?.result?.type !== 'function') return undefined;
  const location = (await internalProperties(connection, found.result.objectId)).get('[[FunctionLocation]]')?.value;
  return location && [...scripts.place(location), functionName(found.result.description)];
}

// Whether a function's source text is of an async function or method.
const isAsync = (source) => /^(?:static\s+)?async\b/.test(source);

// The name in a function's source text, of a declaration or a method.
function functionName(source = '') {
  const text = source.replace(/^(?:static\s+)?(?:async\b\s*)?/, '');
  return (/^function\s*\*?\s*([\w$]+)/.exec(text) ?? /^\*?\s*(?!function\b)([\w$]+)\s*\(/.exec(text))?.[1] ?? '<anonymous>';
}

// Prints the async functions of the project that wait in an `await`. Only a snapshot of the heap leads to them.
async function printSuspended(connection, scripts, files) {
  const used = await connection.send('Runtime.getHeapUsage');
  if (!used || used.usedSize > HEAP_BYTES_MAX) return false;
  if (memoryMax - residentBytes() < MEMORY_PER_HEAP * used.usedSize) return false;
  const parts = [];
  let bytes = 0;
  connection.listeners.set('HeapProfiler.addHeapSnapshotChunk', ({ chunk }) => {
    bytes += chunk.length;
    if (bytes <= SNAPSHOT_BYTES_MAX) parts.push(chunk);
  });
  if (!(await connection.send('HeapProfiler.takeHeapSnapshot', { reportProgress: false }, HEAP_MS))) return false;
  const ids = suspendedIn(JSON.parse(parts.join('')), (scriptId) => scripts.isOwn(scriptId));
  const frames = await Promise.all(ids.map((id) => suspendedFrame(connection, scripts, id)));
  return print('suspended', frames.filter(Boolean), files);
}

// Ids of the generators in a snapshot whose function is in a script of the project.
function suspendedIn({ snapshot, nodes, strings, locations }, isOwn) {
  const { node_fields: fields, location_fields: placed } = snapshot.meta;
  const [nameAt, idAt] = ['name', 'id'].map((name) => fields.indexOf(name));
  const [objectAt, scriptAt] = ['object_index', 'script_id'].map((name) => placed.indexOf(name));
  const ids = [];
  for (let at = 0; at < locations.length && ids.length < SUSPENDED_MAX; at += placed.length) {
    const node = locations[at + objectAt];
    const isGenerator = /Generator$|^Async/.test(strings[nodes[node + nameAt]]);
    if (isGenerator && isOwn(String(locations[at + scriptAt]))) ids.push(String(nodes[node + idAt]));
  }
  return ids;
}

async function suspendedFrame(connection, scripts, objectId) {
  const object = await connection.send('HeapProfiler.getObjectByHeapObjectId', { objectId });
  if (!object) return undefined;
  const internal = await internalProperties(connection, object.result.objectId);
  if (internal.get('[[GeneratorState]]')?.value !== 'suspended') return undefined;
  const source = internal.get('[[GeneratorFunction]]')?.description ?? '';
  // A plain generator waits for its caller.
  if (!isAsync(source)) return undefined;
  return [...scripts.place(internal.get('[[GeneratorLocation]]').value), functionName(source)];
}

// Prints the stacks of one process, of its worker threads too.
async function printProcess({ pid, isBusy, hasBusyThread }) {
  const connection = await Connection.to(pid);
  if (!connection) return;
  const threads = [];
  connection.listeners.set('NodeWorker.attachedToWorker', ({ sessionId }) => threads.push(new ThreadConnection(connection, sessionId)));
  connection.listeners.set('NodeWorker.receivedMessageFromWorker', ({ sessionId, message }) => {
    threads.find((thread) => thread.sessionId === sessionId)?.dispatch(message);
  });
  await connection.send('NodeWorker.enable', { waitForDebuggerOnStart: false });
  let found = isBusy && (await printThread(connection, true));
  // The file of a test that has started a worker thread is loaded in the main one.
  const loaded = !found && threads.length > 0 ? (await scriptsOf(connection)).own() : [];
  if (!found && hasBusyThread) found = (await Promise.all(threads.map((thread) => printThread(thread, true, loaded)))).some(Boolean);
  if (threads.length > 0) await connection.send('Debugger.disable');
  if (!found && !isBusy) found = await printThread(connection, false);
  for (const thread of found ? [] : threads) await printThread(thread, false, loaded);
  await connection.send('NodeWorker.disable');
  const close = "require('inspector').close()";
  await connection.send('Runtime.evaluate', { expression: close, includeCommandLineAPI: true }, 100);
  connection.end();
}

async function main() {
  if (!isAlone()) return;
  for (const one of await nodeProcesses()) {
    // A process that has ended, or answers with something else, has no stack.
    await printProcess(one).catch(() => {});
  }
}

main().finally(() => process.exit());
