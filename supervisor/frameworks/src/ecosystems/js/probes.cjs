// Inserts probes into JavaScript: each statement sets a mark before it runs, by which `hits.cjs` knows its lines.
//
// Text is only inserted, never moved, and no line is added before the end: positions are shifted within their line, and the source
// map with them. The parser is the one that the project's runner brings; its tree may be ESTree's or Babel's.
'use strict';

// Part of the key of cached code: changes with what is inserted.
const VERSION = 'proctor-lines-1';

// Beyond, a file has no probes.
const CODE_MAX = 2 * 1024 * 1024;
const LINES_MAX = 1 << 17;

const LISTS = { Program: 'body', BlockStatement: 'body', StaticBlock: 'body', SwitchCase: 'consequent' };

// Statements that hold another without braces.
const BODIES = {
  IfStatement: ['consequent', 'alternate'],
  ForStatement: ['body'],
  ForInStatement: ['body'],
  ForOfStatement: ['body'],
  WhileStatement: ['body'],
  DoWhileStatement: ['body'],
};

// Statements that do nothing where they stand.
const SILENT = new Set([
  'FunctionDeclaration', 'EmptyStatement', 'ImportDeclaration', 'ExportAllDeclaration', 'BlockStatement',
]);

const mark = (probe) => `($pl||$pi())[${probe}]=1`;

// The code with probes and its map; `undefined` if it cannot have any, for whatever reason: it runs all the same. `map` leads from the code to its source, `undefined` if the code
// is its own source. The new map leads to the source, or with `isStep` to the code.
function insert(code, map, file, parse, isStep) {
  try {
    if (code.length > CODE_MAX || code.includes('$proctor_lines')) return undefined;
    const tree = parse(code);
    return withProbes(code, map, file, tree.program ?? tree, isStep);
  } catch {
    return undefined;
  }
}

function withProbes(code, map, file, program, isStep) {
  const found = new Finder();
  found.list(program, true);
  if (found.probes.length === 0) return undefined;
  const lines = startsOfLines(code);
  const table = tableOf(code, lines, found, map && sourceSegments(map, file.absolute));
  if (table === undefined) return undefined;
  const insertions = textsOf(found.probes);
  const known = `${JSON.stringify(file.path)},${found.probes.length},${JSON.stringify(table)}`;
  const end = `\nvar $pl;function $pi(){return $pl=typeof $proctor_lines=="function"?$proctor_lines(${known}):[]}\n`;
  return { code: inserted(code, insertions) + end, map: map && !isStep ? shifted(map, lines, insertions) : identity(code, lines, insertions, file) };
}

// Finds statements, and what belongs to none.
class Finder {
  // `at`: where the probe is inserted; `end`: where what it stands for ends; `kind`: `list`, `body` or `arrow`; `own`: whether it runs
  // when the module is loaded.
  probes = [];
  // Parts that belong to no statement but those in them.
  blocks = [];

  list(node, own) {
    if (node.type === 'BlockStatement') this.blocks.push({ at: node.start, end: node.end });
    const statements = node[LISTS[node.type]];
    let isPrologue = node.type === 'Program' || node.type === 'BlockStatement';
    for (const statement of statements) {
      isPrologue &&= statement.type === 'ExpressionStatement' && typeof statement.directive === 'string';
      if (isPrologue) continue;
      if (!SILENT.has(statement.type) && !isSilentExport(statement)) this.add('list', statement, own);
      this.visit(statement, own);
    }
    if (node.type === 'SwitchCase' && node.test) this.visit(node.test, own);
  }

  add(kind, node, own) {
    this.probes.push({ kind, at: node.start, end: node.end, own });
  }

  visit(node, own) {
    if (LISTS[node.type] !== undefined) return this.list(node, own);
    const isFunction = node.params !== undefined && node.body != null && node.type !== 'TSDeclareFunction';
    const inside = isFunction ? false : own;
    // Names mean something else in there.
    if (node.type === 'WithStatement' || (isFunction && usesAsm(node.body))) return undefined;
    if (node.type === 'ArrowFunctionExpression' && node.body.type !== 'BlockStatement') this.add('arrow', node.body, false);
    // The word `else` is on the line of what ended or of what begins.
    if (node.type === 'IfStatement' && node.alternate) this.blocks.push({ at: node.consequent.end, end: node.alternate.start });
    for (const key of BODIES[node.type] ?? []) {
      const body = node[key];
      if (body && body.type !== 'BlockStatement' && !SILENT.has(body.type)) this.add('body', body, inside);
    }
    for (const key of Object.keys(node)) {
      const child = node[key];
      if (child === null || typeof child !== 'object' || key === 'loc' || key === 'extra') continue;
      if (Array.isArray(child)) {
        for (const one of child) if (one && typeof one.type === 'string') this.visit(one, inside);
      } else if (typeof child.type === 'string') {
        this.visit(child, inside);
      }
    }
    return undefined;
  }
}

// `export function`, `export { a }`, `export * from`: nothing that runs there.
function isSilentExport({ type, declaration }) {
  if (type === 'ExportNamedDeclaration') return !declaration || declaration.type === 'FunctionDeclaration';
  return type === 'ExportDefaultDeclaration' && declaration.type === 'FunctionDeclaration';
}

function usesAsm({ body, directives }) {
  const first = directives?.[0]?.value?.value ?? body?.[0]?.directive;
  return first === 'use asm';
}

// The inserted texts by offset, in their order.
function textsOf(probes) {
  const texts = [];
  probes.forEach(({ kind, at, end }, probe) => {
    if (kind === 'list') texts.push({ at, order: 1, depth: at, text: `;${mark(probe)};` });
    if (kind === 'body') texts.push({ at, order: 1, depth: 0, text: `{/*$p*/;${mark(probe)};` }, { at: end, order: 0, depth: -at, text: '/*$p*/}' });
    if (kind === 'arrow') texts.push({ at, order: 1, depth: 1, text: `(/*$p*/${mark(probe)},` }, { at: end, order: 0, depth: -at, text: '/*$p*/)' });
  });
  // Where one ends another may begin; what began last ends first.
  return texts.sort((one, next) => one.at - next.at || one.order - next.order || one.depth - next.depth);
}

function inserted(code, insertions) {
  const parts = [];
  let from = 0;
  for (const { at, text } of insertions) {
    parts.push(code.slice(from, at), text);
    from = at;
  }
  parts.push(code.slice(from));
  return parts.join('');
}

function startsOfLines(code) {
  const starts = [0];
  for (let at = code.indexOf('\n'); at >= 0; at = code.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}

// The source lines of each probe, as text: `!` for one that runs when the module is loaded, then spans of lines.
function tableOf(code, lines, { probes, blocks }, segments) {
  const places = segments ? [...placesOfSegments(lines, segments)] : [...placesOfLines(code, lines, probes)];
  const owners = [...probes.map((probe, number) => ({ ...probe, number })), ...blocks.map((block) => ({ ...block, number: -1 }))];
  owners.sort((one, next) => one.at - next.at || next.end - one.end);
  const sets = probes.map(() => new Set());
  const open = [];
  let next = 0;
  for (const { at, line } of places) {
    while (next < owners.length && owners[next].at <= at) {
      while (open.length > 0 && open[open.length - 1].end <= owners[next].at) open.pop();
      open.push(owners[next]);
      next += 1;
    }
    while (open.length > 0 && open[open.length - 1].end <= at) open.pop();
    const owner = open[open.length - 1];
    if (owner === undefined || owner.number < 0) continue;
    if (line >= LINES_MAX) return undefined;
    sets[owner.number].add(line);
  }
  return sets.map((set, probe) => (probes[probe].own ? '!' : '') + spansOf(set)).join(';');
}

function spansOf(set) {
  const spans = [];
  for (const line of [...set].sort((one, next) => one - next)) {
    const last = spans[spans.length - 1];
    if (last && line === last[1] + 1) last[1] = line;
    else spans.push([line, line]);
  }
  return spans.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(',');
}

// Offsets in code that is its own source, with their lines: where a line's text and where a statement begins.
function* placesOfLines(code, starts, probes) {
  const begins = probes.map(({ at }) => at).sort((one, next) => one - next);
  let probe = 0;
  for (let line = 1; line <= starts.length; line += 1) {
    const end = line < starts.length ? starts[line] : code.length;
    let at = starts[line - 1];
    while (at < end && /\s/.test(code[at])) at += 1;
    if (at >= end || code.startsWith('//', at) || code.startsWith('/*', at)) at = end;
    while (probe < begins.length && begins[probe] < end) {
      if (at < begins[probe]) {
        yield { at, line };
        at = end;
      }
      yield { at: begins[probe], line };
      probe += 1;
    }
    if (at < end) yield { at, line };
  }
}

function* placesOfSegments(starts, segments) {
  for (let line = 0; line < segments.length && line < starts.length; line += 1) {
    for (const [column, source] of segments[line]) yield { at: starts[line] + column, line: source };
  }
}

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const VALUES = new Map([...DIGITS].map((digit, value) => [digit.charCodeAt(0), value]));

function decode(text) {
  const fields = [];
  let value = 0;
  let shift = 0;
  for (let at = 0; at < text.length; at += 1) {
    const digit = VALUES.get(text.charCodeAt(at));
    value |= (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    fields.push(value & 1 ? -(value >>> 1) : value >>> 1);
    value = 0;
    shift = 0;
  }
  return fields;
}

function encode(fields) {
  let text = '';
  for (const field of fields) {
    let rest = field < 0 ? (-field << 1) | 1 : field << 1;
    do {
      const digit = rest & 31;
      rest >>>= 5;
      text += DIGITS[rest > 0 ? digit | 32 : digit];
    } while (rest > 0);
  }
  return text;
}

// For each line of the code the columns that come from a line of `file`: pairs of column and source line, counted from 1.
function sourceSegments(map, file) {
  const path = require('node:path');
  const from = (source) => path.resolve(path.dirname(file), map.sourceRoot ?? '', String(source).replace(/^file:\/\//, '').replace(/[?#].*$/, ''));
  const isOwn = map.sources.map((source) => map.sources.length === 1 || (source !== null && from(source) === file));
  let [source, line] = [0, 0];
  return map.mappings.split(';').map((segments) => {
    let column = 0;
    const found = [];
    for (const segment of segments ? segments.split(',') : []) {
      const [columns, sources, lines] = decode(segment);
      column += columns;
      if (sources === undefined) continue;
      source += sources;
      line += lines;
      if (isOwn[source]) found.push([column, line + 1]);
    }
    return found.sort((one, next) => one[0] - next[0]);
  });
}

// Insertions by line: column and length.
function* byLine(lines, insertions) {
  let next = 0;
  for (let line = 0; line < lines.length; line += 1) {
    const end = line + 1 < lines.length ? lines[line + 1] : Infinity;
    const own = [];
    for (; next < insertions.length && insertions[next].at < end; next += 1) {
      own.push({ column: insertions[next].at - lines[line], length: insertions[next].text.length });
    }
    yield own;
  }
}

// The map from the code with insertions to the same sources.
function shifted(map, lines, insertions) {
  const of = byLine(lines, insertions);
  const mappings = map.mappings.split(';').map((segments) => {
    const own = of.next().value ?? [];
    if (own.length === 0 || segments === '') return segments;
    let [column, told, shift, next] = [0, 0, 0, 0];
    return segments.split(',').map((segment) => {
      const [columns, ...rest] = decode(segment);
      column += columns;
      for (; next < own.length && own[next].column <= column; next += 1) shift += own[next].length;
      const moved = column + shift - told;
      told = column + shift;
      return encode([moved, ...rest]);
    }).join(',');
  }).join(';');
  return { ...map, mappings };
}

// The map from the code with insertions to the code.
function identity(code, lines, insertions, file) {
  let [lastLine, lastColumn] = [0, 0];
  let line = 0;
  const mappings = [];
  for (const own of byLine(lines, insertions)) {
    const segments = [];
    let [told, shift] = [0, 0];
    for (const { column, length } of [{ column: 0, length: 0 }, ...own]) {
      shift += length;
      segments.push(encode([column + shift - told, 0, line - lastLine, column - lastColumn]));
      [told, lastLine, lastColumn] = [column + shift, line, column];
    }
    mappings.push(segments.join(','));
    line += 1;
  }
  return { version: 3, names: [], sources: [file.absolute], sourcesContent: [code], mappings: mappings.join(';') };
}

const INLINE_MAP = /^\/\/[#@] sourceMappingURL=data:application\/json[^,]*;base64,(\S+)[^\S\n]*$/gm;

// The map at the end of code; `undefined` if there is none.
function inlineMap(code) {
  if (!code.includes('sourceMappingURL=data:')) return undefined;
  const found = [...code.matchAll(INLINE_MAP)].pop();
  return found && JSON.parse(Buffer.from(found[1], 'base64').toString());
}

// The code with this map in the place of the one at its end.
function withInlineMap(code, map) {
  const text = Buffer.from(JSON.stringify(map)).toString('base64');
  return code.replace(INLINE_MAP, () => `//# sourceMappingURL=data:application/json;base64,${text}`);
}

module.exports = { VERSION, inlineMap, insert, withInlineMap };
