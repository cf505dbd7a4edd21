//! What names of a Go source mean that its functions do not declare: imported packages, and package variables of the workspace.

use super::declarations::{Declaration, declarations};
use super::tokens::{GoTokenKind, go_tokens};
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The sources of a package that are no tests.
#[derive(Debug, Default)]
pub(super) struct ProductSources<'t> {
    texts: Vec<&'t str>,
    /// Their variables that a call may change, once these are wanted; `None` if a text cannot be read.
    variables: OnceCell<Option<Vec<&'t str>>>,
    /// Their functions that may store a value outside, once these are wanted.
    storing: OnceCell<HashSet<&'t str>>,
}

impl<'t> ProductSources<'t> {
    pub(super) fn add(&mut self, text: &'t str) {
        self.texts.push(text);
    }

    fn variables(&self) -> Option<&[&'t str]> {
        let read = || {
            let declared: Option<Vec<_>> = self.texts.iter().map(|text| declarations(text)).collect();
            Some(declared?.iter().flatten().flat_map(Declaration::changeable_variables).collect())
        };
        self.variables.get_or_init(read).as_deref()
    }

    /// The texts.
    pub(super) fn texts(&self) -> &[&'t str] {
        &self.texts
    }

    /// The functions that may store a value outside, as `find` finds them.
    pub(super) fn storing(&self, find: impl FnOnce() -> HashSet<&'t str>) -> &HashSet<&'t str> {
        self.storing.get_or_init(find)
    }

    /// The name of the package, as in `package price`.
    fn package_name(&self) -> Option<&'t str> {
        self.texts.iter().find_map(|text| {
            let mut words = go_tokens(text).filter(|token| token.kind == GoTokenKind::Word);
            words.next().filter(|word| word.text == "package").and_then(|_| words.next()).map(|name| name.text)
        })
    }
}

impl<'t> FromIterator<&'t str> for ProductSources<'t> {
    fn from_iter<I: IntoIterator<Item = &'t str>>(texts: I) -> ProductSources<'t> {
        ProductSources { texts: texts.into_iter().collect(), ..ProductSources::default() }
    }
}

/// What names of a source mean that its functions do not declare.
#[derive(Debug, Default)]
pub(super) struct OuterNames {
    /// Import paths by name.
    imports: HashMap<String, String>,
    /// Package variables that a call may change: of the own package, and those of others of the workspace, as `price.Table`.
    pub(super) variables: HashSet<String>,
    /// Names of imported packages of which the variables are known.
    pub(super) of_workspace: HashSet<String>,
}

impl OuterNames {
    /// The names of a source of this package; `None` if it cannot be told what a name means.
    pub(super) fn new(
        source: &[Declaration<'_>],
        package: &str,
        product_sources: &BTreeMap<String, ProductSources<'_>>,
    ) -> Option<OuterNames> {
        let mut names = OuterNames::default();
        if let Some(own) = product_sources.get(package) {
            names.variables.extend(own.variables()?.iter().map(|name| (*name).to_owned()));
        }
        for import in source.iter().flat_map(Declaration::imports).filter(|import| import.alias != Some("_")) {
            let sources = product_sources.get(import.path);
            let declared = sources.and_then(ProductSources::package_name);
            let name = import.alias.or(declared).unwrap_or_else(|| last_name(import.path));
            if name == "." {
                return None;
            }
            if let Some(sources) = sources {
                names.variables.extend(sources.variables()?.iter().map(|variable| format!("{name}.{variable}")));
                names.of_workspace.insert(name.to_owned());
            }
            names.imports.insert(name.to_owned(), import.path.to_owned());
        }
        Some(names)
    }

    /// The import path of the package with this name in the source; empty for none.
    pub(super) fn path(&self, name: &str) -> &str {
        self.imports.get(name).map_or("", String::as_str)
    }
}

/// The name that a package with this path has in most cases, as `yaml` of `gopkg.in/yaml.v3` and `chi` of `github.com/go-chi/chi/v5`.
fn last_name(path: &str) -> &str {
    let is_version = |piece: &str| {
        piece.strip_prefix('v').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    // Of the standard library, `math/rand/v2` is one of these, too.
    let last = path.rsplit('/').find(|piece| !is_version(piece)).unwrap_or(path);
    last.rsplit_once('.').filter(|(_, end)| is_version(end)).map_or(last, |(name, _)| name)
}
