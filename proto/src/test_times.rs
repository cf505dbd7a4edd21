//! What the time of a test consists of, in words.

/// `set-up 0.30 s, processor 0.02 s`, as far as both are known; empty if neither is.
#[must_use]
pub fn parts(setup_s: Option<f64>, cpu_s: Option<f64>) -> String {
    let known = [("set-up", setup_s), ("processor", cpu_s)];
    let known = known.iter().filter_map(|(what, seconds)| Some(format!("{what} {:.2} s", (*seconds)?)));
    known.collect::<Vec<_>>().join(", ")
}

/// The same in brackets behind a blank; empty if neither is known.
#[must_use]
pub fn parts_in_brackets(setup_s: Option<f64>, cpu_s: Option<f64>) -> String {
    let parts = parts(setup_s, cpu_s);
    if parts.is_empty() { parts } else { format!(" ({parts})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_known() {
        assert_eq!(parts(Some(0.304), Some(0.02)), "set-up 0.30 s, processor 0.02 s");
        assert_eq!(parts_in_brackets(None, Some(1.0)), " (processor 1.00 s)");
        assert_eq!(parts_in_brackets(None, None), "");
    }
}
