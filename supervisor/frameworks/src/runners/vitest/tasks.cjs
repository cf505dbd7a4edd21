// Tells our reporter of Vitest 3 what Vitest 1 and 2 tell theirs: the same run as tasks of the runner, of which each update
// brings the results alone. Must not know what is told of them.
'use strict';

/** A file, a suite or a test, as Vitest 3 shows it. */
class Entity {
  constructor(task, parent) {
    this.task = task;
    this.parent = parent;
    this.module = parent ? parent.module : this;
    this.id = task.id;
    this.name = task.name;
    this.type = parent ? (task.type === 'suite' ? 'suite' : 'test') : 'module';
    this.moduleId = task.filepath;
    // As it was declared: a test that a hook keeps from running becomes a skipped one.
    this.options = { mode: task.mode, fails: task.fails };
    this.members = (task.tasks ?? []).map((member) => new Entity(member, this));
    this.children = { allTests: () => this.all('test'), allSuites: () => this.all('suite') };
  }

  *all(type) {
    for (const member of this.members) {
      if (member.type === type) yield member;
      yield* member.all(type);
    }
  }

  errors() {
    return this.task.result?.errors ?? [];
  }

  result() {
    const { state, note } = this.task.result ?? {};
    const errors = this.errors().length > 0 ? this.errors() : [{ message: 'failed' }];
    if (this.isLost) return { state: 'pending' };
    if (state === 'fail') return { state: 'failed', errors };
    return { state: state === 'pass' ? 'passed' : 'skipped', note };
  }

  diagnostic() {
    const { duration, retryCount = 0, state } = this.task.result ?? {};
    return { duration, retryCount, flaky: state === 'pass' && retryCount > 0 };
  }

  // What has a duration will not change any more: it is between tries that it passes and fails for a while.
  get isOver() {
    const { duration, state } = this.task.result ?? {};
    return duration !== undefined && (state === 'pass' || state === 'fail');
  }

  // Whether nothing became of it although it was to run, and nothing around it says why.
  get isLost() {
    const { mode } = this.options;
    if (![undefined, 'run'].includes(this.task.result?.state) || (mode !== 'run' && mode !== 'only')) return false;
    for (let around = this.parent; around; around = around.parent) if (around.errors().length > 0) return false;
    return true;
  }
}

/** A reporter of Vitest 1 and 2. */
class Tasks {
  constructor(reporter, vitest, lists) {
    this.reporter = reporter;
    this.vitest = vitest;
    this.lists = lists;
    this.entities = new Map();
    this.told = new Set();
  }

  onPathsCollected() {
    this.reporter.onTestRunStart();
  }

  onCollected(files = []) {
    for (const file of files) this.add(new Entity(file));
  }

  add(entity) {
    this.entities.set(entity.id, entity);
    for (const member of entity.members) this.add(member);
  }

  onTaskUpdate(packs) {
    if (this.lists) return;
    for (const [id] of packs) {
      const entity = this.entities.get(id);
      if (entity?.type !== 'test') continue;
      entity.task = this.vitest.state.idMap.get(id) ?? entity.task;
      if (entity.isOver) this.tell(entity);
      else if (entity.task.result?.state === 'run') this.reporter.onTestCaseReady(entity);
    }
  }

  onUserConsoleLog(log) {
    this.reporter.onUserConsoleLog(log);
  }

  // Only now is it known of files, of suites and of what did not run what came of them.
  onFinished(files = [], errors = []) {
    for (const file of files) if (!this.entities.has(file.id)) this.add(new Entity(file));
    for (const entity of this.entities.values()) entity.task = this.vitest.state.idMap.get(entity.id) ?? entity.task;
    const modules = [...this.entities.values()].filter((entity) => entity.type === 'module');
    if (this.lists) return this.reporter.list(modules, errors);
    for (const module of modules) {
      for (const test of module.children.allTests()) if (!test.isLost) this.tell(test);
      this.reporter.onTestModuleEnd(module);
    }
    this.reporter.onTestRunEnd(modules, errors, this.vitest.isCancelling ? 'interrupted' : undefined);
  }

  tell(test) {
    if (this.told.has(test)) return;
    this.told.add(test);
    this.reporter.onTestCaseResult(test);
  }
}

module.exports = { Tasks };
