//! Reports in every format, as the real program writes them, read by programs of others: junitparser and fast-xml-parser,
//! CTRF's own validator, tap-parser, the plugin pytest-json-report, and Chromium.

mod entrances;
mod formats;
mod page;
mod plan;
mod readers;
mod stored_report;
mod test_times;
