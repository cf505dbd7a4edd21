// Reads a report with the readers of others and prints what they found, as JSON. Usage: reader.mjs junit|ctrf|tap FILE.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const modules = join(process.env.READERS, 'lib/');
const require = createRequire(modules);
const load = async (name) => {
  const module = await import(pathToFileURL(require.resolve(name)).href);
  return { ...module.default, ...module };
};
const [format, file] = process.argv.slice(2);
const text = readFileSync(file, 'utf8');

const readers = {
  async junit() {
    const { XMLParser, XMLValidator } = await load('fast-xml-parser');
    const valid = XMLValidator.validate(text);
    if (valid !== true) throw new Error(JSON.stringify(valid));
    const isArray = (name) => ['testsuite', 'testcase', 'property', 'flakyFailure', 'rerunFailure'].includes(name);
    const parser = new XMLParser({ ignoreAttributes: false, attributeNamePrefix: '', isArray, trimValues: false, parseAttributeValue: false });
    return parser.parse(text).testsuites;
  },
  async ctrf() {
    const { validate } = await load('ctrf');
    const document = JSON.parse(text);
    const result = validate(document);
    if (!result.valid) throw new Error(JSON.stringify(result.errors));
    return document.results;
  },
  async tap() {
    const { Parser } = await load('tap-parser');
    return new Promise((resolve) => {
      const points = [];
      const extra = [];
      const parser = new Parser((results) => resolve({ ok: results.ok, count: results.count, pass: results.pass, fail: results.fail, skip: results.skip, todo: results.todo, failures: results.failures, points, extra }));
      parser.on('assert', (point) => points.push(point));
      parser.on('extra', (line) => extra.push(line));
      parser.end(text);
    });
  },
};
console.log(JSON.stringify(await readers[format]()));
