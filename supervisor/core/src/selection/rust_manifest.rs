//! Reads a `Cargo.toml` as far as a selection needs it: which packages a package is built with, and what hides what is built of
//! which sources.

use super::FullReason;
use std::collections::BTreeSet;
use toml::{Table, Value};

/// Tables of a manifest that name packages which a package or its tests are built with; the last two, its build script.
const DEPENDENCIES: [&str; 5] =
    ["dependencies", "dev-dependencies", "dev_dependencies", "build-dependencies", "build_dependencies"];

/// What the manifest of a package says.
#[derive(Debug, Default)]
pub(super) struct RustManifest {
    pub(super) name: String,
    /// Names of packages that it or its tests are built with.
    pub(super) dependencies: BTreeSet<String>,
    /// Names of packages that its build script is built with.
    pub(super) build_dependencies: BTreeSet<String>,
    /// Whether it is a procedural macro or a shared library.
    pub(super) is_apart: bool,
    /// Whether it names the paths of its targets, or turns off that Cargo finds them.
    pub(super) names_targets: bool,
    /// Names of the programs that it lists.
    pub(super) programs: BTreeSet<String>,
}

impl RustManifest {
    /// Reads a manifest; `None` for one without a package.
    pub(super) fn of(manifest: &Table) -> Option<RustManifest> {
        let settings = manifest.get("package").or_else(|| manifest.get("project"))?;
        let name = settings.get("name")?.as_str()?.to_owned();
        let lib = manifest.get("lib");
        let lib_setting = |names: [&str; 2]| lib.and_then(|lib| names.into_iter().find_map(|name| lib.get(name)));
        let kinds = lib_setting(["crate-type", "crate_type"]).and_then(Value::as_array);
        let is_shared = |kind: &Value| matches!(kind.as_str(), Some("proc-macro" | "dylib" | "cdylib"));
        let is_apart = lib_setting(["proc-macro", "proc_macro"]).and_then(Value::as_bool) == Some(true)
            || kinds.is_some_and(|kinds| kinds.iter().any(is_shared));
        let is_found = ["autobins", "autotests", "autoexamples", "autobenches", "autolib"]
            .iter()
            .all(|key| settings.get(*key).is_none());
        let names_targets = !is_found || target_paths(manifest).next().is_some();
        let listed = manifest.get("bin").and_then(Value::as_array).into_iter().flatten();
        let programs = listed.filter_map(|bin| Some(bin.get("name")?.as_str()?.to_owned())).collect();
        let mut found = RustManifest { name, is_apart, names_targets, programs, ..RustManifest::default() };
        for (key, name, settings) in dependencies(manifest) {
            // A package may have another name here.
            let name = settings.get("package").and_then(Value::as_str).unwrap_or(name).to_owned();
            if key.starts_with("build") {
                found.build_dependencies.insert(name);
            } else {
                found.dependencies.insert(name);
            }
        }
        Some(found)
    }
}

/// The dependencies of a manifest: the table that names each, its name there, and its settings.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&'static str, &str, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = targets.filter_map(Value::as_table).chain([manifest]);
    tables.flat_map(|table| {
        DEPENDENCIES.into_iter().flat_map(|key| {
            let named = table.get(key).and_then(Value::as_table).into_iter().flatten();
            named.map(move |(name, settings)| (key, name.as_str(), settings))
        })
    })
}

/// Paths of the targets that a manifest names.
fn target_paths(manifest: &Table) -> impl Iterator<Item = &str> {
    let targets = ["bin", "test", "example", "bench"].iter().filter_map(|key| manifest.get(*key)?.as_array());
    let targets = targets.flatten().chain(manifest.get("lib"));
    targets.filter_map(|target| target.get("path")).filter_map(Value::as_str)
}

/// What in a manifest hides what is built of which sources.
pub(super) fn why_unknown(manifest: &Table) -> Option<FullReason> {
    let is_outside = |path: &str| path.contains("..") || path.starts_with('/');
    if target_paths(manifest).any(is_outside) {
        return Some(FullReason::Convention { word: "a target's `path` that leads out of its package" });
    }
    let build = manifest.get("package").and_then(|package| package.get("build")).and_then(Value::as_str);
    if build.is_some_and(|build| build != "build.rs") {
        return Some(FullReason::Convention { word: "a build script of another name" });
    }
    if ["patch", "replace"].iter().any(|key| manifest.get(*key).is_some()) {
        return Some(FullReason::Convention { word: "`[patch]` or `[replace]`" });
    }
    let shared =
        manifest.get("workspace").and_then(|workspace| workspace.get("dependencies")).and_then(Value::as_table);
    let local = |settings: &&Value| settings.get("path").is_some();
    if shared.is_some_and(|table| table.values().filter(local).any(|settings| settings.get("package").is_some())) {
        return Some(FullReason::Convention { word: "another name for a package of the workspace" });
    }
    // In a run of all packages they are one set for all.
    let has_features = |settings: &Value| {
        ["features", "default-features", "default_features"].iter().any(|key| settings.get(*key).is_some())
    };
    let mut of_workspace = dependencies(manifest)
        .map(|(_, _, settings)| settings)
        .filter(|settings| local(settings) || settings.get("workspace").is_some());
    let is_chosen =
        of_workspace.any(has_features) || shared.is_some_and(|table| table.values().filter(local).any(has_features));
    is_chosen.then_some(FullReason::OtherBuild { why: "a package chooses the features of another one" })
}
