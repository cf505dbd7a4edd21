// The project's Mocha configuration without the files that it names, since a command line can only add to those.
'use strict';

const { options } = require('./itself.cjs');

const { loadPkgRc, loadRc } = options();
const config = process.env.PROCTOR_MOCHA_CONFIG;
const { spec, _, ...rest } = { ...loadPkgRc({}), ...loadRc(config ? { config } : {}) };

module.exports = rest;
