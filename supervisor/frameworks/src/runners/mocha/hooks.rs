//! Names of Mocha's hooks, which it and Cypress report only when they fail.

use crate::ecosystems::js::TITLE_SEPARATOR;

/// Beginnings of the title of a Mocha hook.
const HOOKS: [&str; 4] = ["\"before all\" hook", "\"before each\" hook", "\"after all\" hook", "\"after each\" hook"];

/// Whether the last title of `name` is a Mocha hook: `"before each" hook: its own name for "a test"`. The quoted part may look
/// like several titles.
pub(crate) fn is_hook(name: &str) -> bool {
    let begins = [0].into_iter().chain(name.match_indices(TITLE_SEPARATOR).map(|(at, _)| at + TITLE_SEPARATOR.len()));
    begins.map(|at| &name[at..]).any(is_hook_title)
}

fn is_hook_title(title: &str) -> bool {
    let Some(rest) = HOOKS.iter().find_map(|hook| title.strip_prefix(hook)) else { return false };
    let is_for_something = [" for \"", " in \""].iter().any(|of| rest.contains(of)) && rest.ends_with(['"', '…']);
    let goes_on = [": ", " for \"", " in \""].iter().any(|on| rest.starts_with(on));
    rest.is_empty() || (goes_on && is_for_something)
}
