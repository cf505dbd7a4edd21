//! Reads `package.json`.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The fields of a manifest that tell how the project is tested. A field of another type than npm's counts as absent.
#[derive(Debug, Clone, Default)]
pub(super) struct PackageJson {
    /// The package's name.
    pub(super) name: Option<String>,
    /// Its scripts.
    pub(super) scripts: BTreeMap<String, String>,
    /// The package's main file.
    pub(super) main: Option<String>,
    /// Names of all its dependencies: normal, for development, peer and optional.
    pub(super) dependencies: Vec<String>,
    /// Top-level keys, some of which are a runner's configuration.
    pub(super) keys: Vec<String>,
    /// Whether its Jest configuration lists projects in directories below.
    pub(super) names_projects: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPackageJson {
    name: Value,
    main: Value,
    scripts: Value,
    dependencies: Value,
    dev_dependencies: Value,
    peer_dependencies: Value,
    optional_dependencies: Value,
}

impl PackageJson {
    /// Parses a manifest. One that cannot be read is empty: npm refuses it, and so will the runner.
    pub(super) fn parse(text: &str) -> PackageJson {
        let Ok(Value::Object(whole)) = serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}')) else {
            return PackageJson::default();
        };
        let keys = whole.keys().cloned().collect();
        let names_projects = whole.get("jest").is_some_and(|jest| jest.get("projects").is_some());
        let fields: RawPackageJson = serde_json::from_value(Value::Object(whole)).unwrap_or_default();
        let scripts = fields.scripts.as_object().into_iter().flatten();
        let scripts = scripts.filter_map(|(name, script)| Some((name.clone(), script.as_str()?.to_owned())));
        let kinds =
            [fields.dependencies, fields.dev_dependencies, fields.peer_dependencies, fields.optional_dependencies];
        let dependencies = kinds.iter().filter_map(Value::as_object).flat_map(|names| names.keys().cloned());
        PackageJson {
            name: fields.name.as_str().map(str::to_owned),
            main: fields.main.as_str().map(str::to_owned),
            scripts: scripts.collect(),
            dependencies: dependencies.collect(),
            keys,
            names_projects,
        }
    }

    pub(super) fn depends_on(&self, names: &[&str]) -> bool {
        self.dependencies.iter().any(|name| names.contains(&name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_another_type_count_as_absent() {
        let manifest = PackageJson::parse(
            "\u{feff}{\"name\":\"a\",\"scripts\":{\"test\":\"jest\",\"x\":3},\"devDependencies\":{\"jest\":\"^30\"},\"jest\":{}}",
        );
        assert_eq!(manifest.name.as_deref(), Some("a"));
        assert_eq!(manifest.scripts, BTreeMap::from([("test".to_owned(), "jest".to_owned())]));
        assert!(manifest.depends_on(&["jest"]) && manifest.keys.contains(&"jest".to_owned()));
        for odd in ["", "[]", "{\"name\":[],\"scripts\":[1],\"dependencies\":\"x\"}", "{"] {
            let manifest = PackageJson::parse(odd);
            assert!(manifest.name.is_none() && manifest.scripts.is_empty() && manifest.dependencies.is_empty());
        }
    }
}
