import test, { describe, it } from 'node:test';
import assert from 'node:assert';
describe('sum', () => {
  it('adds', () => assert.strictEqual(1 + 1, 2));
  it('is wrong', () => assert.strictEqual(1 + 1, 3));
  it('is <&> later', { skip: 'not today' }, () => {});
  it('is to do', { todo: true }, () => { throw new Error('not yet'); });
});
