// Starts a program of the project's packages that are in archives and have no `.bin`: the first argument is its name, the others are
// its own.
'use strict';

const Module = require('node:module');
const path = require('node:path');

const [, , wanted, ...args] = process.argv;

// Searches the packages that the project itself depends on, as `yarn run` does.
function find() {
  const here = process.cwd() + path.sep;
  const packages = Module.findPnpApi(here);
  const { packageDependencies } = packages.getPackageInformation(packages.findPackageLocator(here));
  for (const [name, reference] of packageDependencies) {
    // The reference of an optional peer that is not installed is null.
    const place = reference === null ? null : packages.resolveToUnqualified(name, here, { considerBuiltins: false });
    const program = place === null ? undefined : programOf(place);
    if (program) return program;
  }
  return undefined;
}

function programOf(place) {
  const { name, bin } = require(path.join(place, 'package.json'));
  const programs = typeof bin === 'string' ? { [name.split('/').pop()]: bin } : (bin ?? {});
  return Object.hasOwn(programs, wanted) ? path.join(place, programs[wanted]) : undefined;
}

const program = find();
if (program === undefined) {
  process.stderr.write(`proctor: ${wanted} is not among the packages that the project depends on (yarn add --dev)\n`);
  process.exit(127);
}
process.argv.splice(1, process.argv.length, program, ...args);
Module.runMain();
