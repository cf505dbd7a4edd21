// Wraps a transformer of the project (`proctorTransforms` in Jest's configuration), or stands where there is none: its result gets
// probes, by which the lines of each test are known. Jest caches the result.
'use strict';

const { createHash } = require('node:crypto');
const path = require('node:path');
const { createRequire } = require('node:module');

const { isProjectSource } = require('../js/lines.cjs');
const { VERSION, inlineMap, insert } = require('../js/probes.cjs');
// The texts of functions have no probes in this realm, either: `globalSetup` and test environments run here.
require('../js/hits.cjs');

const PARSER = {
  sourceType: 'unambiguous',
  allowAwaitOutsideFunction: true,
  allowNewTargetOutsideFunction: true,
  allowReturnOutsideFunction: true,
  allowSuperOutsideMethod: true,
  allowUndeclaredExports: true,
  attachComment: false,
};

// Babel's parser, which Jest's own transforms depend on.
let babel;
function parserOf(fromJest) {
  return (code) => {
    babel ??= createRequire(createRequire(fromJest.resolve('@jest/transform')).resolve('@babel/core'))('@babel/parser');
    return babel.parse(code, PARSER);
  };
}

// The configuration as the project's transformer knows it.
const configs = new WeakMap();
function withoutOurs(options, inner) {
  const { config } = options;
  if (!configs.has(config)) configs.set(config, { ...config, transform: config.proctorTransforms });
  return { ...options, config: configs.get(config), transformerConfig: inner?.config ?? {} };
}

function withProbes(result, source, file, options, { parse, workspace }) {
  const { code, map } = typeof result === 'string' ? { code: result } : result ?? {};
  if (!isProjectSource(file, workspace) || typeof code !== 'string') return result;
  let known;
  try {
    known = parsed(map) ?? inlineMap(code);
  } catch {
    return result; // Jest warns of such a map.
  }
  // Jest would count probes as statements; and without a map nothing says which lines of the source these are.
  if (options.isInstrumentedByJest || (!known && code !== source)) return result;
  const place = { absolute: file, path: path.relative(workspace, file), isSource: code === source };
  const found = insert(code, known, place, parse);
  return found ? { ...(typeof result === 'string' ? {} : result), ...found } : result;
}

const parsed = (map) => (typeof map === 'string' && map !== '' ? JSON.parse(map) : map || undefined);

async function load(inner, fromJest) {
  const transformer = await fromJest('jest-util').requireOrImportModule(inner.path);
  return typeof transformer.createTransformer === 'function' ? transformer.createTransformer(inner.config) : transformer;
}

function keyOf(theirs, source, file, options) {
  const own = theirs ?? JSON.stringify([source, options.configString, options.instrument, file]);
  return createHash('sha1').update(JSON.stringify([VERSION, own, options.supportsStaticESM, options.supportsDynamicImport])).digest('hex');
}

// `inner`: path and configuration of the project's transformer, if there is one; `workspace`: the workspace's directory; `core`: the path
// of the project's `@jest/core`.
async function createTransformer({ inner, workspace, core }) {
  const fromJest = createRequire(core);
  const theirs = inner ? await load(inner, fromJest) : { process: (code) => ({ code }) };
  const parse = parserOf(fromJest);
  const finish = (result, source, file, options) => {
    const isInstrumentedByJest = options.instrument && !theirs.canInstrument;
    return withProbes(result, source, file, { ...options, isInstrumentedByJest }, { parse, workspace });
  };
  const ours = {
    canInstrument: theirs.canInstrument,
    getCacheKey: (source, file, options) => keyOf(theirs.getCacheKey?.(source, file, withoutOurs(options, inner)), source, file, options),
  };
  if (theirs.process) {
    ours.process = (source, file, options) => finish(theirs.process(source, file, withoutOurs(options, inner)), source, file, options);
  }
  if (theirs.getCacheKeyAsync) {
    ours.getCacheKeyAsync = async (source, file, options) => keyOf(await theirs.getCacheKeyAsync(source, file, withoutOurs(options, inner)), source, file, options);
  }
  if (theirs.processAsync) {
    ours.processAsync = async (source, file, options) => finish(await theirs.processAsync(source, file, withoutOurs(options, inner)), source, file, options);
  }
  return ours;
}

module.exports = { createTransformer };
