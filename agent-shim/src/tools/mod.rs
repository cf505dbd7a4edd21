//! The tools, one file each: its description for the agent, and its implementation.

mod analyze_failures;
mod artifact;
pub(crate) mod get_run;
mod get_test_report;
mod last_test_failures;
mod list_tests;
mod report_lists;
mod run_affected_tests;
mod run_checks;
mod run_failing_tests;
mod run_rendering;
mod run_tests;
mod tests_covering;
mod tool_spec;

use crate::answer::budget::Draw;
use crate::arguments::Arguments;
use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::json_schema;
use proctor_proto::v1::CheckKind;
use rmcp::model::ToolAnnotations;
pub(crate) use tool_spec::TIMEOUT_S_MAX;
use tool_spec::ToolSpec;

/// What a tool answers, at any level of detail.
pub(crate) type Answer = Box<dyn Draw + Send + Sync>;

/// A tool. A closed enum, so that every name has an implementation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    RunTests,
    RunFailingTests,
    RunAffectedTests,
    RunLint,
    RunTypecheck,
    LastTestFailures,
    AnalyzeFailures,
    TestsCovering,
    ListTests,
    GetRun,
    GetTestReport,
}

impl Tool {
    /// All tools, in the order in which an agent needs them.
    pub(crate) const ALL: &[Tool] = &[
        Tool::RunTests,
        Tool::LastTestFailures,
        Tool::AnalyzeFailures,
        Tool::RunFailingTests,
        Tool::RunAffectedTests,
        Tool::RunLint,
        Tool::RunTypecheck,
        Tool::TestsCovering,
        Tool::ListTests,
        Tool::GetRun,
        Tool::GetTestReport,
    ];

    /// The tool with this name.
    pub(crate) fn from_name(name: &str) -> Option<Tool> {
        Tool::ALL.iter().copied().find(|tool| tool.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Tool::RunTests => "run_tests",
            Tool::RunFailingTests => "run_failing_tests",
            Tool::RunAffectedTests => "run_affected_tests",
            Tool::RunLint => "run_lint",
            Tool::RunTypecheck => "run_typecheck",
            Tool::LastTestFailures => "last_test_failures",
            Tool::AnalyzeFailures => "analyze_failures",
            Tool::TestsCovering => "tests_covering",
            Tool::ListTests => "list_tests",
            Tool::GetRun => "get_run",
            Tool::GetTestReport => "get_test_report",
        }
    }

    /// The description for the agent.
    pub(crate) fn definition(self) -> rmcp::model::Tool {
        let ToolSpec { title, description, input, required, output, read_only } = match self {
            Tool::RunTests => run_tests::spec(),
            Tool::RunFailingTests => run_failing_tests::spec(),
            Tool::RunAffectedTests => run_affected_tests::spec(),
            Tool::RunLint => run_checks::lint_spec(),
            Tool::RunTypecheck => run_checks::typecheck_spec(),
            Tool::LastTestFailures => last_test_failures::spec(),
            Tool::AnalyzeFailures => analyze_failures::spec(),
            Tool::TestsCovering => tests_covering::spec(),
            Tool::ListTests => list_tests::spec(),
            Tool::GetRun => get_run::spec(),
            Tool::GetTestReport => get_test_report::spec(),
        };
        // Runs execute project code in a sandbox: not read-only, but nothing outside the workspace is within reach. The title
        // is only here, where clients of every version read it.
        let annotations = ToolAnnotations::with_title(title).read_only(read_only).open_world(false);
        let annotations = if read_only { annotations } else { annotations.destructive(false) };
        let input = input.into_iter().chain([("max_tokens", json_schema::max_tokens())]);
        let tool = rmcp::model::Tool::new(self.name(), description, json_schema::arguments(input, required))
            .with_annotations(annotations);
        match output {
            Some(output) => tool.with_raw_output_schema(json_schema::answer(output)),
            None => tool,
        }
    }

    /// Carries out one call.
    pub(crate) async fn call(self, call: &CallContext<'_>, arguments: &mut Arguments) -> Result<Answer, CallError> {
        match self {
            Tool::RunTests => run_tests::call(call, arguments).await,
            Tool::RunFailingTests => run_failing_tests::call(call, arguments).await,
            Tool::RunAffectedTests => run_affected_tests::call(call, arguments).await,
            Tool::RunLint => run_checks::call(call, arguments, CheckKind::Lint).await,
            Tool::RunTypecheck => run_checks::call(call, arguments, CheckKind::Typecheck).await,
            Tool::LastTestFailures => last_test_failures::call(call, arguments).await,
            Tool::AnalyzeFailures => analyze_failures::call(call, arguments).await,
            Tool::TestsCovering => tests_covering::call(call, arguments).await,
            Tool::ListTests => list_tests::call(call, arguments).await,
            Tool::GetRun => get_run::call(call, arguments).await,
            Tool::GetTestReport => get_test_report::call(call, arguments).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const TYPES: [&str; 5] = ["number", "string", "boolean", "array", "object"];

    // One plain type per property, no unions, no formats, and with `describe` a description for every property.
    fn check(schema: &Value, path: &str, describe: bool) {
        let kind = schema["type"].as_str().unwrap_or_else(|| panic!("{path}: type {}", schema["type"]));
        assert!(TYPES.contains(&kind), "{path}: {kind}");
        assert!(schema.get("format").is_none() && schema.get("anyOf").is_none(), "{path}");
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            assert!(!describe || property["description"].is_string(), "{path}.{name}: no description");
            check(property, &format!("{path}.{name}"), false);
        }
        if kind == "array" {
            check(&schema["items"], &format!("{path}[]"), false);
        }
        for required in schema["required"].as_array().into_iter().flatten() {
            assert!(schema["properties"][required.as_str().unwrap()].is_object(), "{path}: {required}");
        }
    }

    #[test]
    fn schemas_are_plain_and_described() {
        for tool in Tool::ALL {
            let definition = tool.definition();
            assert_eq!(definition.name, tool.name());
            assert!(definition.description.as_ref().is_some_and(|text| text.len() > 80), "{tool:?}");
            check(&Value::Object(definition.input_schema.as_ref().clone()), tool.name(), true);
            let output = definition.output_schema.as_ref().map(|schema| Value::Object(schema.as_ref().clone()));
            output.iter().for_each(|schema| check(schema, tool.name(), false));
            assert_eq!(definition.input_schema["additionalProperties"], false, "{tool:?}");
        }
    }

    // Every client sends the list of tools to its model with each conversation.
    #[test]
    fn the_list_of_tools_takes_at_most_4_000_tokens() {
        let tools: Vec<_> = Tool::ALL.iter().map(|tool| tool.definition()).collect();
        let bytes = serde_json::to_string(&tools).unwrap().len();
        let each: Vec<_> =
            tools.iter().map(|tool| (tool.name.clone(), serde_json::to_string(tool).unwrap().len())).collect();
        assert!(bytes <= 16_000, "{bytes}: {each:?}");
    }

    #[test]
    fn finds_each_tool_by_its_name() {
        for tool in Tool::ALL {
            assert_eq!(Tool::from_name(tool.name()), Some(*tool));
        }
        assert_eq!(Tool::from_name("analyze_everything"), None);
    }
}
