// Adapts the reporter events of Vitest 1 and 2 to our reporter, which expects those of Vitest 3: the same run as tasks of the
// runner, whose updates carry results only.
'use strict';

/** A file, a suite or a test, in the interface of Vitest 3. */
class Entity {
  constructor(task, parent) {
    this.task = task;
    this.parent = parent;
    this.module = parent ? parent.module : this;
    this.id = task.id;
    this.name = task.name;
    this.type = parent ? (task.type === 'suite' ? 'suite' : 'test') : 'module';
    this.moduleId = task.filepath;
    // As declared: a test that a hook keeps from running becomes a skipped one.
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

  // A task with a duration does not change any more: between tries it passes and fails for a while.
  get isOver() {
    const { duration, state } = this.task.result ?? {};
    return duration !== undefined && (state === 'pass' || state === 'fail');
  }

  // Whether it has no result although it was to run, and no enclosing suite explains why.
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

  // The results of files, of suites and of tests that did not run are known only now.
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
