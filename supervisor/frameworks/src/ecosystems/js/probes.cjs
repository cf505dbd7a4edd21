// Inserts probes into JavaScript: each statement sets a mark before it runs, by which `hits.cjs` knows its lines.
//
// Text is only inserted, never moved, and no line is added before the end: positions are shifted within their line, and the source
// map with them. Where a statement begins a line, its probe is at the end of the one before, so that columns stay. The parser is the one that the project's runner brings; its tree may be ESTree's or Babel's.
'use strict';

// Taken before a test can replace them.
const { basename, dirname, extname, resolve } = require('node:path');

// Part of the key of cached code: changes with what is inserted.
const VERSION = 'proctor-lines-5';

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

const LITERALS = new Set(['Literal', 'StringLiteral', 'RegExpLiteral', 'DirectiveLiteral', 'TemplateElement', 'JSXText']);

const { stringify } = JSON;

// Names in a module of the project would be others than those that probes declare.
const OUR_NAMES = /\$p[il]\b/;

// What Node's and Jest's lexer finds the names of a CommonJS module's exports by, as compilers write it: it knows the text to the letter.
const LEXED = /^Object\.(?:defineProperty|keys)\([^]*\bexports\b/;

const mark = (probe) => `($pl||$pi())[${probe}]=1`;

// A file without probes that could have some, and why.
class Unmeasured extends Error {}

// The code with probes and its map; `undefined` if the parser does not understand the code, as then V8 may not either, and says where.
// Code without a statement only says that it was loaded. Code that cannot have any probe for another reason runs all the same, and says so. `map` leads from the code to its source, also if the code is the file's own text (`file.isSource`), as where
// the project keeps compiled code; `undefined` if there is none. The new map leads to the source, or with `isStep` to the code; a map at
// the end of the code is replaced by it.
function insert(code, map, file, parse, isStep) {
  try {
    if (code.includes('$proctor_lines')) return undefined;
    if (code.length > CODE_MAX) throw new Unmeasured(`its code is longer than ${CODE_MAX} characters`);
    if (OUR_NAMES.test(code)) throw new Unmeasured('its code has names that the measurement needs ($pl, $pi)');
    const tree = parsed(code, parse);
    return tree && withProbes(code, map, file, tree.program ?? tree, isStep);
  } catch (error) {
    const why = error instanceof Unmeasured ? error.message : 'its code could not be given probes';
    const call = `$proctor_lines(${stringify(file.path)},0,"",${stringify(why)})`;
    return { code: `${code}\n;typeof $proctor_lines=="function"&&${call}\n`, map: isStep ? null : map };
  }
}

function parsed(code, parse) {
  try {
    return parse(code);
  } catch {
    return undefined;
  }
}

function withProbes(code, map, file, program, isStep) {
  const found = new Finder(code);
  found.list(program, true);
  // A file of exports alone, or an empty one: that it was loaded is what there is to know.
  if (found.probes.length === 0) return { code: `${code}\n;typeof $proctor_lines=="function"&&$proctor_lines(${stringify(file.path)},0,"")\n`, map: isStep ? null : map };
  const lines = startsOfLines(code);
  const text = withoutComments(code, found.literals);
  const table = tableOf(text, lines, found, map && !file.isSource && sourceSegments(map, file.absolute));
  const insertions = textsOf(found.probes);
  const known = `${stringify(file.path)},${found.probes.length},${stringify(table)}`;
  // The call at the end: a module that has only functions is known to be loaded, although no probe ran.
  const end = `\nvar $pl;function $pi(){return $pl=typeof $proctor_lines=="function"?$proctor_lines(${known}):[]}$pl||$pi();\n`;
  const shift = map && !isStep ? shifted : identity;
  const newMap = shift(map, code, lines, insertions, file);
  const comment = isStep ? undefined : MAP_COMMENT.exec(code);
  // What reads a hanging test's stack knows only a map in the code. No probe comes behind it.
  const kept = comment ? code.slice(0, comment.index) : code;
  return { code: inserted(kept, insertions) + end + (comment ? `${mapComment(newMap)}\n` : ''), map: newMap };
}

// Finds statements, and what belongs to none.
class Finder {
  #code;
  // `at` and `end`: where what it stands for begins and ends; `place`: where the probe is inserted; `kind`: `list`, `body` or `arrow`; `own`: whether it runs
  // when the module is loaded.
  probes = [];
  // Parts that belong to no statement but those in them.
  blocks = [];
  // Texts in which `//` begins no comment.
  literals = [];

  constructor(code) {
    this.#code = code;
  }

  list(node, own) {
    // Where the part of the list ends that is before a statement.
    let before;
    if (node.type === 'BlockStatement') {
      this.blocks.push({ at: node.start, end: node.end });
      before = node.start + 1;
    }
    for (const directive of node.directives ?? []) {
      this.visit(directive, own);
      before = directive.end;
    }
    const statements = node[LISTS[node.type]];
    let isPrologue = node.type === 'Program' || node.type === 'BlockStatement';
    for (const statement of statements) {
      isPrologue &&= statement.type === 'ExpressionStatement' && typeof statement.directive === 'string';
      if (!isPrologue && !SILENT.has(statement.type) && !isSilentExport(statement)) this.add('list', statement, own, before);
      before = statement.end;
      if (node.type === 'Program' && LEXED.test(this.#code.slice(statement.start, statement.end))) this.#leave(statement);
      else this.visit(statement, own);
    }
    if (node.type === 'SwitchCase' && node.test) this.visit(node.test, own);
  }

  add(kind, { start: at, end }, own, before = at) {
    const place = this.#code.slice(before, at).includes('\n') ? before : at;
    this.probes.push({ kind, at, end, own, place });
  }

  // Nothing is inserted into this node.
  #leave({ start: at, end }) {
    this.literals.push({ at, end });
  }

  visit(node, own) {
    if (LISTS[node.type] !== undefined) return this.list(node, own);
    const isFunction = node.params !== undefined && node.body != null && node.type !== 'TSDeclareFunction';
    const inside = isFunction ? false : own;
    // Names mean something else in there.
    const isApart = node.type === 'WithStatement' || (isFunction && usesAsm(node.body));
    if (isApart || LITERALS.has(node.type)) return this.#leave(node);
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
  probes.forEach(({ kind, at, end, place }, probe) => {
    if (kind === 'list') texts.push({ at: place, order: 1, depth: at, text: `;${mark(probe)};` });
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

// Code with blanks in the place of its comments.
function withoutComments(code, literals) {
  const ordered = literals.sort((one, next) => one.at - next.at);
  const parts = [];
  let [from, next] = [0, 0];
  const begin = /\/[/*]/g;
  for (let found = begin.exec(code); found; found = begin.exec(code)) {
    while (next < ordered.length && ordered[next].end <= found.index) next += 1;
    if (next < ordered.length && ordered[next].at <= found.index) {
      begin.lastIndex = ordered[next].end;
      continue;
    }
    const end = found[0] === '//' ? code.indexOf('\n', found.index) : code.indexOf('*/', found.index + 2) + 2;
    const past = end < 2 ? code.length : end;
    parts.push(code.slice(from, found.index), code.slice(found.index, past).replace(/\S/g, ' '));
    from = begin.lastIndex = past;
  }
  return parts.join('') + code.slice(from);
}

// The first text from a place on and before another; `end` if there is none.
function textAfter(text, at, end) {
  while (at < end && BLANK.test(text[at])) at += 1;
  return at;
}

const BLANK = /\s/;

// The source lines of each probe, as text: `!` for one that runs when the module is loaded, then spans of lines. `text` is the code
// without comments.
function tableOf(text, lines, { probes, blocks }, segments) {
  const places = segments ? [...placesOfSegments(text, lines, segments)] : [...placesOfLines(text, lines, probes)];
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
    if (line >= LINES_MAX) throw new Unmeasured(`it has more than ${LINES_MAX - 1} lines`);
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
function* placesOfLines(text, starts, probes) {
  const begins = probes.map(({ at }) => at).sort((one, next) => one - next);
  let probe = 0;
  for (let line = 1; line <= starts.length; line += 1) {
    const end = line < starts.length ? starts[line] : text.length;
    let at = textAfter(text, starts[line - 1], end);
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

// A segment stands for the text up to the next one.
function* placesOfSegments(text, starts, segments) {
  for (let line = 0; line < segments.length && line < starts.length; line += 1) {
    const last = starts[line + 1] ?? text.length;
    for (let number = 0; number < segments[line].length; number += 1) {
      const [column, source] = segments[line][number];
      const end = number + 1 < segments[line].length ? starts[line] + segments[line][number + 1][0] : last;
      const at = textAfter(text, starts[line] + column, end);
      if (at < end && source !== undefined) yield { at, line: source };
    }
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

// For each line of the code its segments: pairs of column and line of `file`, counted from 1; `undefined` is of another source.
function sourceSegments(map, file) {
  const from = (source) => resolve(dirname(file), map.sourceRoot ?? '', String(source).replace(/^file:\/\//, '').replace(/[?#].*$/, ''));
  // A transformer may not know the name of the only source.
  const isAnother = (source) => extname(source) !== '' && basename(source) !== basename(file);
  const isOwn = map.sources.map((source) => {
    if (!source) return map.sources.length === 1;
    return from(source) === file || (map.sources.length === 1 && !isAnother(from(source)));
  });
  if (isOwn.length > 0 && !isOwn.includes(true)) throw new Unmeasured('its source map leads to another file');
  let [source, line] = [0, 0];
  return map.mappings.split(';').map((segments) => {
    let column = 0;
    const found = [];
    for (const segment of segments ? segments.split(',') : []) {
      const [columns, sources, lines] = decode(segment);
      column += columns;
      source += sources ?? 0;
      line += lines ?? 0;
      found.push([column, sources !== undefined && isOwn[source] ? line + 1 : undefined]);
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
function shifted(map, code, lines, insertions) {
  const of = byLine(lines, insertions);
  const mappings = map.mappings.split(';').map((segments) => {
    const own = of.next().value ?? [];
    if (own.length === 0 || segments === '') return segments;
    const moved = mover(own);
    let [column, last] = [0, 0];
    return segments.split(',').map((segment) => {
      const [columns, ...rest] = decode(segment);
      column += columns;
      const now = moved(column);
      const text = encode([now - last, ...rest]);
      last = now;
      return text;
    }).join(',');
  }).join(';');
  return { ...map, mappings };
}

// The map from the code with insertions to the code: a segment for each of those in the map that the code has, or for each word.
function identity(map, code, lines, insertions, file) {
  const segments = map?.mappings.split(';');
  let [line, lastLine, lastColumn] = [0, 0, 0];
  const mappings = [];
  for (const own of byLine(lines, insertions)) {
    const moved = mover(own);
    const columns = segments ? columnsOf(segments[line]) : columnsOfWords(code.slice(lines[line], lines[line + 1]));
    let last = 0;
    const texts = columns.map((column) => {
      const now = moved(column);
      const text = encode([now - last, 0, line - lastLine, column - lastColumn]);
      [last, lastLine, lastColumn] = [now, line, column];
      return text;
    });
    mappings.push(texts.join(','));
    line += 1;
  }
  return { version: 3, names: [], sources: [file.absolute], sourcesContent: [code], mappings: mappings.join(';') };
}

// Tells to which column of a line the insertions move one; asked for columns in their order.
function mover(insertions) {
  let [shift, next] = [0, 0];
  return (column) => {
    for (; next < insertions.length && insertions[next].column <= column; next += 1) shift += insertions[next].length;
    return column + shift;
  };
}

function columnsOf(segments) {
  let column = 0;
  return (segments ? segments.split(',') : []).map((segment) => (column += decode(segment)[0]));
}

// Where an error can be: at a word or a sign.
const columnsOfWords = (line) => [...line.matchAll(/[\w$]+|[^\w$\s]/g)].map(({ index }) => index);

// A map at the end of code. Only blanks follow it, so it is in no template.
const MAP_COMMENT = /^\/\/[#@] sourceMappingURL=data:application\/json[^,\s]*;base64,([\w+/=]+)\s*(?![^])/m;

// The map at the end of code; `undefined` if there is none.
function inlineMap(code) {
  if (!code.includes('sourceMappingURL=data:')) return undefined;
  const found = MAP_COMMENT.exec(code);
  return found ? JSON.parse(Buffer.from(found[1], 'base64').toString()) : undefined;
}

const mapComment = (map) => `//# sourceMappingURL=data:application/json;base64,${Buffer.from(stringify(map)).toString('base64')}`;

module.exports = { VERSION, inlineMap, insert };
