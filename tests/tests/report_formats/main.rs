//! Reports in every format, as the real program writes them, read by programs of others: junitparser and fast-xml-parser,
//! CTRF's own validator, tap-parser, the plugin pytest-json-report, and Chromium.

mod formats;
mod readers;
mod stored_report;
