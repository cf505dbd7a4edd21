//! One page with everything: no other file, no network. The tests are a JSON block that the page's script shows as it is
//! scrolled; styles and script are allowed by their hashes alone, so that nothing that a test printed can run.

mod data;

use super::budget::{Budget, cut};
use super::entries::{Entry, counts, entries, headline};
use super::{RenderError, ReportInput};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use proctor_core::outcome::Outcome;
use proctor_core::report::Report;
use proctor_proto::printable::line;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Failures that a reader without scripts sees.
const PLAIN_FAILURES: usize = 10;

/// Bytes of a name or message in the part without scripts.
const PLAIN_BYTES: usize = 100;

/// Bytes kept free for the history, flaky and slower tests, and the failures without scripts.
const BESIDE_BYTES: usize = 32 * 1_024;

/// Bytes of notes above the tests.
const NOTES_BYTES: usize = 4 * 1_024;

pub(super) fn render(input: ReportInput<'_>, bytes_max: usize) -> Result<Vec<u8>, RenderError> {
    let report = input.report;
    let all = entries(report);
    let frame = PAGE.len() + STYLE.len() + SCRIPT.len() + BESIDE_BYTES;
    let mut budget = Budget::new(bytes_max.saturating_sub(frame));
    let data = data::block(input, &all, &mut budget)?;
    let left_out = budget.left_out().note(report);
    let title = headline(report);
    let badge = report.outcome.name().replace('_', " ");
    let run = if input.run_id.is_empty() { String::new() } else { format!(" · run {}", html(input.run_id)) };
    let outcome = if report.outcome == Outcome::Passed { "passed" } else { "other" };
    Ok(fill(&[
        ("csp", &content_policy()),
        ("title", &html(&title)),
        ("style", STYLE),
        ("outcome", outcome),
        ("badge", &html(&badge)),
        ("heading", &html(&counts(report))),
        ("framework", &html(&report.framework)),
        ("duration", &format!("{:.1}", report.duration_s)),
        ("run", &run),
        ("notes", &notes(report, left_out.as_deref())),
        ("noscript", &plain_failures(&all)),
        ("data", &data),
        ("script", SCRIPT),
    ])
    .into_bytes())
}

/// The policy of the page, which allows nothing but its own style and script.
pub(super) fn content_policy() -> String {
    format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

/// The page with its fields filled in. A value is not looked at again, so that a test named `{{script}}` is one.
fn fill(fields: &[(&str, &str)]) -> String {
    let mut page = String::with_capacity(PAGE.len() + fields.iter().map(|(_, value)| value.len()).sum::<usize>());
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        page.push_str(before);
        page.push_str(fields.iter().find(|(field, _)| *field == name).map_or("", |(_, value)| value));
        rest = after;
    }
    page.push_str(rest);
    page
}

fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

/// Text as HTML, on one line.
fn html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in line(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

fn notes(report: &Report, left_out: Option<&str>) -> String {
    let all = left_out.into_iter().chain(report.evidence.notes.iter().map(String::as_str));
    let mut list = String::new();
    for note in all {
        let item = format!("<li>{}</li>", html(note));
        if list.len() + item.len() <= NOTES_BYTES {
            list.push_str(&item);
        }
    }
    if list.is_empty() { list } else { format!("<ul class=\"notes\">{list}</ul>") }
}

fn plain_failures(all: &[Entry<'_>]) -> String {
    let cut = |text: &str| html(cut(text, PLAIN_BYTES));
    let mut list = String::new();
    for entry in all.iter().filter(|entry| entry.is_own_failure()).take(PLAIN_FAILURES) {
        let _ = write!(list, "<li><b>{}</b> {}: {}</li>", cut(&entry.name), cut(entry.suite), cut(&entry.message));
    }
    if list.is_empty() { "<p>Nothing failed.</p>".to_owned() } else { format!("<ol>{list}</ol>") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_not_filled_in_again() {
        let page = fill(&[("title", "{{script}}"), ("script", "x")]);
        assert!(page.contains("<title>{{script}}</title>") && page.contains("<script>x</script>"));
    }

    #[test]
    fn the_page_has_no_handler_and_no_style_of_its_own() {
        assert!(!PAGE.contains(" on") && !PAGE.contains(" style="), "the policy refuses them");
        for text in [PAGE, STYLE, SCRIPT] {
            assert!(!text.contains("http://") && !text.contains("https://"), "nothing is loaded");
        }
        assert!(!SCRIPT.contains("innerHTML") && !SCRIPT.contains("</"), "no text becomes HTML");
    }
}
