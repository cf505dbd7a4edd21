//! The dashboards and alert rules of `deploy/` name only metrics and labels that a supervisor exposes.

use crate::documented;
use proctor_tests::process::source_root;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Queries of a dashboard or of a file of rules.
fn queries(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    if path.extension().is_some_and(|extension| extension == "json") {
        let board: Value = serde_json::from_str(&text).unwrap();
        let panels = board["panels"].as_array().unwrap().iter();
        let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap().clone());
        let variables = board["templating"]["list"].as_array().unwrap().clone();
        let variables = variables.into_iter().filter(|variable| variable["type"] == "query");
        let of_variables = variables.map(|variable| variable["query"].as_str().unwrap().to_owned());
        return targets.map(|target| target["expr"].as_str().unwrap().to_owned()).chain(of_variables).collect();
    }
    let expressions = text.lines().filter_map(|line| line.trim().strip_prefix("expr: '")?.strip_suffix('\''));
    let expressions: Vec<String> = expressions.map(str::to_owned).collect();
    assert_eq!(expressions.len(), text.matches("- alert: ").count(), "each rule has one expression");
    expressions
}

/// Names of metrics in a query.
fn names(query: &str) -> BTreeSet<String> {
    let words = query.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let names = words.filter(|word| word.starts_with("proctor_") || word.starts_with("process_"));
    names.map(str::to_owned).collect()
}

#[test]
fn dashboards_and_alerts_name_only_metrics_that_exist_and_use_all_of_proctors() {
    let deploy = source_root().join("deploy");
    let files = ["grafana/proctor-host.json", "grafana/proctor-tenants.json", "grafana/proctor-agents.json"];
    let mut used = BTreeSet::new();
    for file in files.into_iter().chain(["prometheus/alerts.yml"]) {
        let queries = queries(&deploy.join(file));
        assert!(queries.len() >= 8, "{file} has {queries:?}");
        for query in &queries {
            let names = names(query);
            assert!(!names.is_empty(), "{file}: {query}");
            used.extend(names);
        }
    }
    // The other test of this suite compares the guide with what a supervisor exposes.
    let mut exposed = BTreeSet::new();
    for (name, kind) in documented() {
        match kind.as_str() {
            "histogram" => exposed.extend(["_bucket", "_count", "_sum"].map(|suffix| format!("{name}{suffix}"))),
            _ => _ = exposed.insert(name),
        }
    }
    let unknown: Vec<_> = used.difference(&exposed).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let shown = |name: &str| used.iter().any(|other| other.starts_with(name));
    let not_shown: Vec<String> = documented().into_keys().filter(|name| !shown(name)).collect();
    let for_queries_only = ["process_start_time_seconds", "proctor_draining", "proctor_uptime_seconds"];
    assert_eq!(not_shown, for_queries_only, "metrics without a panel or an alert");
}
