//! Parses the arguments of a tool call. Lenient in form (a number may be a string or a float), strict in meaning: an error
//! names the argument.

use rmcp::model::JsonObject;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;
use thiserror::Error;

/// An invalid argument. The texts are shown to the agent.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum ArgumentError {
    #[error("{tool}: unknown argument `{name}`; it takes: {known}")]
    Unknown { tool: &'static str, name: String, known: String },
    #[error("{tool}: {name} is required")]
    Required { tool: &'static str, name: &'static str },
    #[error("{tool}: {name} must be {wanted}, got {got}")]
    Form { tool: &'static str, name: &'static str, wanted: &'static str, got: String },
    #[error("{tool}: {name}[{key}] must be a string, got {got}")]
    Element { tool: &'static str, name: &'static str, key: String, got: String },
    #[error("get_test_report: the last run left no artifact {name:?}; {known}")]
    Artifact { name: String, known: String },
    #[error(
        "last_test_failures: run {run_id:?} is not the last one that has ended; without run_id and cursor the failures of \
         the last one are listed, and get_run {{\"run_id\":{run_id:?}}} shows that run"
    )]
    OtherRun { run_id: String },
    // Without the name of the tool: agents parse this text.
    #[error("filter must be a string, got {got}")]
    Filter { got: &'static str },
}

/// The arguments of one call. Each getter removes its argument.
pub(crate) struct Arguments {
    tool: &'static str,
    values: JsonObject,
    notes: Vec<String>,
}

impl Arguments {
    /// Rejects arguments that the tool's `input_schema` does not list. A null counts as absent.
    pub(crate) fn new(
        tool: &'static str,
        input_schema: &JsonObject,
        values: Option<JsonObject>,
    ) -> Result<Arguments, ArgumentError> {
        let mut values = values.unwrap_or_default();
        let properties = input_schema.get("properties").and_then(Value::as_object);
        if let Some(name) = values.keys().find(|name| !properties.is_some_and(|known| known.contains_key(*name))) {
            let known =
                properties.map(|known| known.keys().cloned().collect::<Vec<_>>().join(", ")).unwrap_or_default();
            return Err(ArgumentError::Unknown { tool, name: clip(name).into_owned(), known });
        }
        values.retain(|_, value| !value.is_null());
        Ok(Arguments { tool, values, notes: Vec::new() })
    }

    /// Sentences for the answer about values that were clamped.
    pub(crate) fn into_notes(self) -> Vec<String> {
        self.notes
    }

    /// A positive number of seconds, possibly fractional, clamped to `max`.
    pub(crate) fn seconds(&mut self, name: &'static str, max: u32) -> Result<Option<Duration>, ArgumentError> {
        self.seconds_from(name, max, "a positive number of seconds", |seconds| seconds > 0.0)
    }

    /// Like `seconds`, but 0 is allowed.
    pub(crate) fn seconds_or_zero(&mut self, name: &'static str, max: u32) -> Result<Option<Duration>, ArgumentError> {
        self.seconds_from(name, max, "a number of seconds, 0 or more", |seconds| seconds >= 0.0)
    }

    fn seconds_from(
        &mut self,
        name: &'static str,
        max: u32,
        wanted: &'static str,
        is_valid: fn(f64) -> bool,
    ) -> Result<Option<Duration>, ArgumentError> {
        let Some((value, seconds)) = self.number(name, wanted)? else { return Ok(None) };
        if !is_valid(seconds) {
            return Err(self.form_error(name, wanted, &value));
        }
        if seconds > f64::from(max) {
            self.notes.push(format!("{name} was clamped from {} to {max} s.", describe(&value)));
            return Ok(Some(Duration::from_secs(max.into())));
        }
        let duration = Duration::try_from_secs_f64(seconds).map_err(|_| self.form_error(name, wanted, &value))?;
        // The request counts milliseconds, and 0 would mean the default.
        Ok(Some(if is_valid(0.0) { duration } else { duration.max(Duration::from_millis(1)) }))
    }

    /// A positive whole number, clamped to `max`.
    pub(crate) fn count(&mut self, name: &'static str, max: u32) -> Result<Option<u32>, ArgumentError> {
        let wanted = "a positive whole number";
        let Some((value, whole)) = self.whole(name, wanted)? else { return Ok(None) };
        if whole == 0 {
            return Err(self.form_error(name, wanted, &value));
        }
        match u32::try_from(whole) {
            Ok(count) if count <= max => Ok(Some(count)),
            _ => {
                self.notes.push(format!("{name} was clamped from {} to {max}.", describe(&value)));
                Ok(Some(max))
            }
        }
    }

    /// A whole number, 0 or more.
    pub(crate) fn offset(&mut self, name: &'static str) -> Result<Option<u64>, ArgumentError> {
        Ok(self.whole(name, "a whole number, 0 or more")?.map(|(_, whole)| whole))
    }

    fn whole(&mut self, name: &'static str, wanted: &'static str) -> Result<Option<(Value, u64)>, ArgumentError> {
        let Some((value, number)) = self.number(name, wanted)? else { return Ok(None) };
        let whole = match value.as_u64() {
            Some(whole) => Some(whole),
            // 2^64 and above exceed every ceiling.
            None if number >= 0.0 && number.fract() == 0.0 => {
                Some(Duration::try_from_secs_f64(number).map_or(u64::MAX, |duration| duration.as_secs()))
            }
            None => None,
        };
        match whole {
            Some(whole) => Ok(Some((value, whole))),
            None => Err(self.form_error(name, wanted, &value)),
        }
    }

    fn number(&mut self, name: &'static str, wanted: &'static str) -> Result<Option<(Value, f64)>, ArgumentError> {
        let Some(value) = self.values.remove(name) else { return Ok(None) };
        let number = match &value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        match number.filter(|number: &f64| number.is_finite()) {
            Some(number) => Ok(Some((value, number))),
            None => Err(self.form_error(name, wanted, &value)),
        }
    }

    /// A string; an empty one counts as absent.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, ArgumentError> {
        match self.values.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.trim().is_empty())),
            Some(value) if name == "filter" => Err(ArgumentError::Filter { got: type_name(&value) }),
            Some(value) => Err(self.form_error(name, "a string", &value)),
        }
    }

    /// A required string.
    pub(crate) fn required_text(&mut self, name: &'static str) -> Result<String, ArgumentError> {
        let tool = self.tool;
        self.text(name)?.ok_or(ArgumentError::Required { tool, name })
    }

    /// One of `choices`.
    pub(crate) fn choice(
        &mut self,
        name: &'static str,
        choices: &[&'static str],
        wanted: &'static str,
    ) -> Result<Option<&'static str>, ArgumentError> {
        let Some(value) = self.values.remove(name) else { return Ok(None) };
        let text = value.as_str().map(|text| text.trim().to_ascii_lowercase());
        match choices.iter().find(|choice| text.as_deref() == Some(**choice)) {
            Some(choice) => Ok(Some(choice)),
            None if text.as_deref() == Some("") => Ok(None),
            None => Err(self.form_error(name, wanted, &value)),
        }
    }

    /// A list of strings.
    pub(crate) fn texts(&mut self, name: &'static str) -> Result<Vec<String>, ArgumentError> {
        let wanted = "a list of strings";
        match self.values.remove(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => (0_usize..)
                .zip(values)
                .map(|(index, value)| match value {
                    Value::String(text) => Ok(text),
                    other => Err(self.element_error(name, index.to_string(), &other)),
                })
                .collect(),
            Some(value) => Err(self.form_error(name, wanted, &value)),
        }
    }

    /// True or false; false without the argument.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<bool, ArgumentError> {
        Ok(self.optional_flag(name)?.unwrap_or_default())
    }

    /// True or false, if the argument is there.
    pub(crate) fn optional_flag(&mut self, name: &'static str) -> Result<Option<bool>, ArgumentError> {
        match self.values.remove(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(value) => match value.as_str().map(str::trim) {
                Some("true") => Ok(Some(true)),
                Some("false") => Ok(Some(false)),
                Some("") => Ok(None),
                _ => Err(self.form_error(name, "true or false", &value)),
            },
        }
    }

    /// Names with their values; numbers and booleans become their text.
    pub(crate) fn variables(&mut self, name: &'static str) -> Result<HashMap<String, String>, ArgumentError> {
        let wanted = "an object of strings";
        let values = match self.values.remove(name) {
            None => return Ok(HashMap::new()),
            Some(Value::Object(values)) => values,
            Some(value) => return Err(self.form_error(name, wanted, &value)),
        };
        let text = |key: &str, value: Value| match value {
            Value::String(text) => Ok(text),
            Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
            other => Err(self.element_error(name, format!("{:?}", clip(key)), &other)),
        };
        values.into_iter().map(|(key, value)| text(&key, value).map(|text| (key, text))).collect()
    }

    fn element_error(&self, name: &'static str, key: String, value: &Value) -> ArgumentError {
        ArgumentError::Element { tool: self.tool, name, key, got: describe(value) }
    }

    fn form_error(&self, name: &'static str, wanted: &'static str, value: &Value) -> ArgumentError {
        ArgumentError::Form { tool: self.tool, name, wanted, got: describe(value) }
    }
}

/// Most characters of a caller's text that an error quotes: enough to recognise it.
const CHARS_MAX: usize = 40;

/// The first [`CHARS_MAX`] characters of a caller's text.
pub(crate) fn clip(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

// The value if it is short, else its type.
fn describe(value: &Value) -> String {
    match value {
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::String(text) if text.chars().count() <= CHARS_MAX => value.to_string(),
        other => type_name(other).to_owned(),
    }
}

// Python's type names, which agents parse.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn arguments(values: Value) -> Arguments {
        let schema = json!({"properties": {"n": {}, "filter": {}, "list": {}, "map": {}, "mode": {}}});
        Arguments::new("run_tests", schema.as_object().unwrap(), values.as_object().cloned()).unwrap()
    }

    #[test]
    fn accepts_numbers_as_integers_floats_and_strings() {
        for form in [json!(60), json!(60.0), json!("60"), json!(" 60.0 "), json!("6e1")] {
            assert_eq!(arguments(json!({"n": form})).seconds("n", 1800), Ok(Some(Duration::from_secs(60))), "{form}");
            assert_eq!(arguments(json!({"n": form})).count("n", 500), Ok(Some(60)), "{form}");
        }
        assert_eq!(arguments(json!({"n": 0.5})).seconds("n", 1800), Ok(Some(Duration::from_millis(500))));
        assert_eq!(arguments(json!({"n": 1e-9})).seconds("n", 1800), Ok(Some(Duration::from_millis(1))));
        assert_eq!(arguments(json!({"n": null})).count("n", 500), Ok(None));
        assert_eq!(arguments(json!({"n": 0})).offset("n"), Ok(Some(0)));
        assert_eq!(arguments(json!({"n": "512000"})).offset("n"), Ok(Some(512_000)));
        assert_eq!(arguments(json!({"n": 0})).seconds_or_zero("n", 600), Ok(Some(Duration::ZERO)));
    }

    #[test]
    fn names_the_argument_that_is_not_a_positive_number() {
        let cases = [
            (json!(-1), "-1"),
            (json!(0), "0"),
            (json!("NaN"), "\"NaN\""),
            (json!("inf"), "\"inf\""),
            (json!("soon"), "\"soon\""),
            (json!(true), "true"),
            (json!([60]), "list"),
            (json!({}), "dict"),
        ];
        for (form, got) in cases {
            let error = arguments(json!({"n": form})).seconds("n", 1800).unwrap_err();
            assert_eq!(error.to_string(), format!("run_tests: n must be a positive number of seconds, got {got}"));
            let error = arguments(json!({"n": form})).count("n", 500).unwrap_err();
            assert_eq!(error.to_string(), format!("run_tests: n must be a positive whole number, got {got}"));
        }
        assert!(arguments(json!({"n": 2.5})).count("n", 500).is_err());
        assert!(arguments(json!({"n": -1})).offset("n").is_err());
        assert!(arguments(json!({"n": -0.1})).seconds_or_zero("n", 600).is_err());
    }

    #[test]
    fn clamps_a_number_above_the_ceiling_and_notes_it() {
        let mut parsed = arguments(json!({"n": "3600"}));
        assert_eq!(parsed.seconds("n", 1800), Ok(Some(Duration::from_secs(1800))));
        assert_eq!(parsed.into_notes(), ["n was clamped from \"3600\" to 1800 s."]);
        for huge in [json!(501), json!(1e300), json!(u64::MAX)] {
            let mut parsed = arguments(json!({"n": huge}));
            assert_eq!(parsed.count("n", 500), Ok(Some(500)), "{huge}");
            assert_eq!(parsed.into_notes().len(), 1);
        }
    }

    #[test]
    fn names_the_type_of_a_filter_that_is_not_a_string() {
        let cases = [(json!(1), "int"), (json!(1.5), "float"), (json!(true), "bool"), (json!([]), "list")];
        for (value, name) in cases.into_iter().chain([(json!({}), "dict")]) {
            let error = arguments(json!({"filter": value})).text("filter").unwrap_err();
            assert_eq!(error.to_string(), format!("filter must be a string, got {name}"));
        }
        assert_eq!(arguments(json!({"filter": "  "})).text("filter"), Ok(None));
    }

    #[test]
    fn rejects_an_unknown_argument_by_name() {
        let schema = json!({"properties": {"file": {}, "line": {}}});
        let values = json!({"fil": "x"});
        let schema = schema.as_object().unwrap();
        let Err(error) = Arguments::new("tests_covering", schema, values.as_object().cloned()) else { panic!() };
        assert_eq!(error.to_string(), "tests_covering: unknown argument `fil`; it takes: file, line");
    }

    #[test]
    fn errors_do_not_quote_long_texts_of_the_caller() {
        let long = "x".repeat(20_000);
        for text in [
            Arguments::new("t", &JsonObject::new(), json!({&long: 1}).as_object().cloned()).err().unwrap(),
            arguments(json!({"n": &long})).count("n", 5).unwrap_err(),
            arguments(json!({"list": &long})).texts("list").unwrap_err(),
            arguments(json!({"list": [[&long]]})).texts("list").unwrap_err(),
            arguments(json!({"map": {&long: null}})).variables("map").unwrap_err(),
            arguments(json!({"mode": &long})).choice("mode", &["auto", "off"], "auto or off").unwrap_err(),
        ] {
            assert!(text.to_string().len() < 200, "{text}");
        }
        assert_eq!(clip(&"é".repeat(41)), format!("{}…", "é".repeat(40)));
    }

    #[test]
    fn checks_lists_maps_choices_and_flags() {
        assert_eq!(arguments(json!({"list": ["a", "b"]})).texts("list"), Ok(vec!["a".into(), "b".into()]));
        assert!(arguments(json!({"list": "a b"})).texts("list").is_err());
        let error = arguments(json!({"list": ["a", 1]})).texts("list").unwrap_err();
        assert_eq!(error.to_string(), "run_tests: list[1] must be a string, got 1");
        let map = HashMap::from([("A".to_owned(), "x".to_owned()), ("B".to_owned(), "1".to_owned())]);
        assert_eq!(arguments(json!({"map": {"A": "x", "B": 1}})).variables("map"), Ok(map));
        let error = arguments(json!({"map": {"A": ["x"]}})).variables("map").unwrap_err();
        assert_eq!(error.to_string(), "run_tests: map[\"A\"] must be a string, got list");
        assert_eq!(arguments(json!({"mode": "OFF"})).choice("mode", &["auto", "off"], "auto or off"), Ok(Some("off")));
        assert!(arguments(json!({"mode": "on"})).choice("mode", &["auto", "off"], "auto or off").is_err());
        assert_eq!(arguments(json!({"mode": "true"})).flag("mode"), Ok(true));
        assert!(arguments(json!({"mode": 1})).flag("mode").is_err());
    }
}
