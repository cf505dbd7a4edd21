//! Whether a Go function may store a value outside of itself, where a test of the same process finds it that does not execute the
//! function: in a package variable, a setting of the process, or a file, or by a goroutine that goes on. Told by the tokens of its text,
//! so that it is rather too many.
//!
//! Not seen, and accepted:
//! - a change of an object that the function was given, as a field of its receiver or of a parameter, or that another function returned;
//! - what the methods do that it calls, and functions of other packages, beside those of the standard library that are known
//!   (`imported_calls`);
//! - a change through a part of a package variable that is passed on, or is a part of something else, as `fill(config.table)`,
//!   `Shop{rates: table}` and `each(counter.Add)`, and messages that `range` takes from the channel of one;
//! - calls of functions in package variables, as `load(x)`: only their methods count;
//! - what the text before the edit stored: only the hashes of its lines are kept. A test that also ran alone needs nothing that others
//!   stored, but if an edit only removes what resets a variable, it may now find what is left there.

use super::declarations::{Declaration, declarations, is_basic_type};
use super::function_reader::{FunctionReader, Head, Operand};
use super::imported_calls::{changes_process, is_fixed, is_setter, only_reads};
use super::local_names::LocalName;
use super::outer_names::{OuterNames, ProductSources};
use super::tokens::{GoToken, GoTokenKind};
use crate::coverage::LineSpan;
use std::collections::{BTreeMap, HashSet};

/// Predeclared functions that change none of their arguments (<https://go.dev/ref/spec#Predeclared_identifiers>).
const READING: [&str; 12] =
    ["append", "cap", "complex", "copy", "delete", "imag", "len", "make", "max", "min", "panic", "real"];

/// Of these, those that change their first argument, or may.
const CHANGING_FIRST: [&str; 3] = ["append", "copy", "delete"];

/// Whether a function with changed lines, in a source of this package, may store a value outside of itself. `product_sources` are those of
/// each package of the workspace.
pub(super) fn stores_outside(
    text: &str,
    changed: &[LineSpan],
    package: &str,
    product_sources: &BTreeMap<String, ProductSources<'_>>,
) -> bool {
    let Some(found) = declarations(text) else { return true };
    let Some(names) = OuterNames::new(&found, package, product_sources) else { return true };
    let functions = found.iter().filter(|one| one.keyword() == "func");
    let functions: Vec<(LineSpan, &str)> = functions.map(|one| (lines_of(one), one.text)).collect();
    let own = product_sources.get(package);
    let storing = own.map(|own| own.storing(|| storing_functions(own.texts(), package, product_sources)));
    let none = HashSet::new();
    let storing = storing.unwrap_or(&none);
    changed.iter().any(|lines| {
        let mut around =
            functions.iter().filter(|(own, _)| own.first <= lines.last && lines.first <= own.last).peekable();
        around.peek().is_none() || around.any(|(_, text)| may_store_outside(text, &names, storing))
    })
}

/// The functions of a package with these texts, without methods, that may store a value outside, or name one that does.
fn storing_functions<'t>(
    texts: &[&'t str],
    package: &str,
    product_sources: &BTreeMap<String, ProductSources<'_>>,
) -> HashSet<&'t str> {
    let mut files = Vec::new();
    for found in texts.iter().filter_map(|text| declarations(text)) {
        let Some(names) = OuterNames::new(&found, package, product_sources) else { continue };
        let functions = found.iter().filter(|one| one.keyword() == "func");
        let functions: Vec<(&'t str, &'t str)> = functions
            .filter_map(|one| Some((*one.names().first()?, one.text)).filter(|_| one.names().len() == 1))
            .collect();
        files.push((names, functions));
    }
    let mut storing: HashSet<&'t str> = HashSet::new();
    loop {
        let functions = files.iter().flat_map(|(names, functions)| functions.iter().map(move |one| (names, one)));
        let unknown = functions.filter(|(_, (name, _))| !storing.contains(name));
        let found = unknown.filter(|(names, (_, text))| may_store_outside(text, names, &storing));
        let found: Vec<&str> = found.map(|(_, (name, _))| *name).collect();
        if found.is_empty() {
            return storing;
        }
        storing.extend(found);
    }
}

/// The lines of a declaration, from 1.
fn lines_of(declaration: &Declaration<'_>) -> LineSpan {
    let line =
        |token: Option<&GoToken<'_>>| token.and_then(|token| u32::try_from(token.line + 1).ok()).unwrap_or(u32::MAX);
    LineSpan { first: line(declaration.tokens.first()), last: line(declaration.tokens.last()) }
}

/// Whether a function may store a value outside, by its text from `func` on.
fn may_store_outside(text: &str, outer: &OuterNames, storing: &HashSet<&str>) -> bool {
    let Some(mut function) = FunctionReader::new(text, outer) else { return true };
    let mut at = 0;
    while let Some(token) = function.next(at) {
        if (Stores { function: &function, outer, storing }).stores(at, token) {
            return true;
        }
        at = function.read(at);
    }
    false
}

/// The rules for the tokens of a function.
struct Stores<'r, 't, 'n> {
    function: &'r FunctionReader<'t, 'n>,
    outer: &'n OuterNames,
    /// Functions of the package that do.
    storing: &'r HashSet<&'r str>,
}

impl Stores<'_, '_, '_> {
    /// Whether the token at `at`, which is read next, stores a value outside.
    fn stores(&self, at: usize, token: GoToken<'_>) -> bool {
        match (token.kind, token.text) {
            (GoTokenKind::Word, _) if token.is_name() => self.calls_what_stores(at),
            (GoTokenKind::Word, keyword) => keyword == "go",
            (GoTokenKind::Sign, "<-") => self.sends_or_receives(at),
            (GoTokenKind::Sign, "&") if !self.function.is_behind_operand(at) => self.takes_address(at),
            (GoTokenKind::Sign, ":=" | "==" | "!=" | "<=" | ">=") => false,
            (GoTokenKind::Sign, sign) if sign.ends_with('=') || matches!(sign, "++" | "--") => {
                self.function.targets(at).into_iter().any(|target| self.is_outside(target))
            }
            _ => false,
        }
    }

    /// Whether what is assigned to is not the function's own.
    fn is_outside(&self, target: usize) -> bool {
        let name = self.behind_signs(target, &["*", "("]);
        let operand = self.function.operand(name);
        let is_part = name > target || operand.has_parts;
        let is_own_name = matches!(operand.head, Head::Local(_)) && !is_part;
        !self.function.is_name(name) || self.function.text(name) != "_" && operand.is_outside() && !is_own_name
    }

    fn behind_signs(&self, mut at: usize, signs: &[&str]) -> usize {
        while signs.contains(&self.function.text(at)) {
            at += 1;
        }
        at
    }

    /// Whether a message goes to, or comes from, a channel that is not the function's own.
    fn sends_or_receives(&self, at: usize) -> bool {
        let function = self.function;
        // As in `chan<- int` and `<-chan int`.
        if function.before(at) == "chan" || function.text(at + 1) == "chan" {
            return false;
        }
        if function.is_behind_operand(at) {
            let first = function.statement();
            let channel = first + usize::from(function.text(first) == "case");
            return !function.is_name(channel) || function.operand(channel).is_outside();
        }
        let operand = function.operand(at + 1);
        function.is_name(at + 1) && operand.value().is_some() && function.text(operand.end) != "("
    }

    /// Whether a sign for an address is before what is not the function's own.
    fn takes_address(&self, at: usize) -> bool {
        let name = self.behind_signs(at + 1, &["("]);
        let operand = self.function.operand(name);
        // As `&Price{}`.
        let is_new = self.function.text(operand.end) == "{" && !self.function.is_in_head();
        self.function.is_name(name) && operand.is_outside() && !is_new
    }

    /// Whether the operand that begins with this name is called, or given to a call, and so changed.
    fn calls_what_stores(&self, at: usize) -> bool {
        let function = self.function;
        if function.before(at) == "." {
            let name = function.text(at);
            // As that of `sync.WaitGroup`, which starts a goroutine, and in `Default().SetLevel(5)`.
            let is_of_call = at > 1 && function.text(at - 2) == ")";
            return function.text(at + 1) == "(" && (name == "Go" || is_of_call && is_setter("", name));
        }
        let operand = function.operand(at);
        if operand.is_outside() && self.is_changed(at) {
            return true;
        }
        match operand.head {
            Head::Local(LocalName::Own) => false,
            Head::Outer => self.imported_stores(at, operand),
            _ if operand.has_selector => function.text(operand.end) == "(",
            Head::Local(LocalName::PartOfVariable) => false,
            Head::Variable | Head::Local(LocalName::OfVariable) => {
                // As in `(*price).Set(1)`.
                let is_wrapped = matches!(function.before(at), "(" | "*") && function.text(operand.end) == ")";
                let is_called = is_wrapped && function.text(operand.end + 1) == ".";
                !operand.has_parts && (is_called || self.is_given_away(at, operand.end))
            }
        }
    }

    /// Whether the operand that begins here is the one that a predeclared function changes.
    fn is_changed(&self, at: usize) -> bool {
        let is_changing = |called: &str| CHANGING_FIRST.contains(&called) || matches!(called, "clear" | "close");
        at > 1 && self.function.before(at) == "(" && is_changing(self.function.text(at - 2))
    }

    /// Whether what is between these tokens is an argument of a call that may change it.
    fn is_given_away(&self, at: usize, end: usize) -> bool {
        let function = self.function;
        let Some(open) = function.bracket().filter(|open| function.text(*open) == "(") else { return false };
        let is_whole = matches!(function.before(at), "(" | ",") && matches!(function.text(end), ")" | "," | "...");
        if !is_whole || !function.is_behind_operand(open) {
            return false;
        }
        let (called, is_first) = (function.before(open), at == open + 1);
        if open >= 3 && function.text(open - 2) == "." {
            return !only_reads(self.outer.path(function.text(open - 3)), called, is_first);
        }
        let is_reading = READING.contains(&called) && !(is_first && CHANGING_FIRST.contains(&called));
        !is_reading && !is_basic_type(called)
    }

    /// Whether a name that the function does not declare is one of another package that changes something.
    fn imported_stores(&self, at: usize, operand: Operand) -> bool {
        let function = self.function;
        let (package, name) = (function.text(at), function.text(at + 2));
        if self.storing.contains(package) {
            return true;
        }
        if function.text(at + 1) != "." || !function.is_name(at + 2) {
            return false;
        }
        let (path, is_called) = (self.outer.path(package), function.text(operand.end) == "(");
        if changes_process(path, name) || is_called && is_setter(path, name) {
            return true;
        }
        // As in `http.DefaultClient.Do(request)`.
        let is_method = is_called && operand.end > at + 4 && function.text(operand.end - 2) == ".";
        is_method && !path.is_empty() && !self.outer.of_workspace.contains(package) && !is_fixed(path, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source around a function, and another one of its package.
    const AROUND: &str = "package a\n\nimport (\n\t\"errors\"\n\t\"fmt\"\n\t\"http2\"\n\tweb \"net/http\"\n\t\"net/http\"\n\t\"os\"\n\t\"runtime\"\n\t\"slices\"\n\t\"strings\"\n\t\"sync/atomic\"\n\t\"time\"\n\t\"unsafe\"\n\t\"log\"\n\t\"encoding/binary\"\n\t\"example.com/m/shop-go\"\n)\n\n";
    const REST: &str = "package a\n\nvar v, w = f(), 2\n\nvar (\n\tpool = sync.Pool{New: f}\n\tm map[string]int\n\n\tErrGone = errors.New(\"gone\")\n\tbroken = fmt.Errorf(\"a\")\n\tpattern = regexp.MustCompile(`a`)\n\tname, title string\n\tlevel = 1 << 3\n\tnames []string\n\terrSeen sync.Map\n\terrOwn = newError()\n\ttable = []string{\n\t\t\"a\",\n\t}\n\tc = make(chan int)\n)\n";
    const OTHER: &str = "package shop\n\nvar Table = map[string]int{}\n\nconst Rate = 1\n";

    fn found(function: &str) -> bool {
        let source = format!("{AROUND}{function}\n");
        let sources = [("a", vec![source.as_str(), REST]), ("example.com/m/shop-go", vec![OTHER])];
        let sources = sources.map(|(package, texts)| (package.to_owned(), texts.into_iter().collect())).into();
        let before = &source[..source.find("func F").unwrap_or(AROUND.len())];
        let line = u32::try_from(before.matches('\n').count() + 1).unwrap();
        stores_outside(&source, &[LineSpan { first: line, last: line }], "a", &sources)
    }

    #[test]
    fn finds_functions_that_store_outside() {
        for (function, stores) in [
            // Assignments.
            ("func F(x int) { v = x }", true),
            ("func F(x int) { v += x }", true),
            ("func F() { v++ }", true),
            ("func F(x int) { a, v := x, x; _, _ = a, v }", false),
            ("func F(x int) { var a int; a, v = x, x }", true),
            ("func F(x int) { *v = x }", true),
            ("func F(x int) { v.count = x }", true),
            ("func F(x int) { (*v).count = x }", true),
            ("func F(x int) { m[\"a\"] = x }", true),
            ("func F() {\n\tm = nil\n}", true),
            ("func F() { level = 2 }", true),
            ("func F() { ErrGone = nil }", true),
            ("func F() { shop.Table = nil }", true),
            ("func F() { time.Local = nil }", true),
            ("func F() { unknown = 1 }", true),
            ("func F(a map[int]int) { for v = range a { } }", true),
            ("func F(a chan int) {\n\tselect {\n\tcase v = <-a:\n\t}\n}", true),
            ("func F() { if v = 1; true { } }", true),
            ("func F(x int) { if x == 1 { } else if v = 2; true { } }", true),
            ("func F() func() { return func() { v = 1 } }", true),
            ("func F() int {\n\tsum := 0\n\tfor i := 0; i < 3; i++ {\n\t\tsum += v * i\n\t}\n\treturn sum\n}", false),
            ("func F(r *T) { r.count = 1; r.rows[0]++; *r = T{} }", false),
            ("func (r *T[K]) F() { r.count++ }", false),
            ("func F() (n int, err error) { n, err = f(); n++; return }", false),
            ("func F() { for i, row := range rows() { i, row = 1, nil } }", false),
            ("func F() { var (\n\ta = 1\n\tb, d = v, 2\n); a, b, d = 2, 3, 4 }", false),
            ("func F() { var a, b = 1, v; v = a + b }", true),
            ("func F() { const a = 1; type t struct { v int }; _ = t{v: a} }", false),
            ("func F() { x := 1; func(y int) (z int) { x, y, z = 2, 3, 4; return }(x) }", false),
            ("func F(x any) { switch y := x.(type) { case int: y = 2 } }", false),
            ("func F() {\nagain:\n\tx := 1\n\tx = 2\n\tgoto again\n}", false),
            // Blocks.
            ("func F(v int) { v = 1; v.m() }", false),
            ("func F() { v := 1; v = 2 }", false),
            ("func F() {\n\tif v := f(); v != nil {\n\t\tv = 1\n\t} else {\n\t\tv = 2\n\t}\n}", false),
            ("func F() {\n\tif v := f(); v != nil {\n\t}\n\tv = 1\n}", true),
            ("func F() {\n\t{\n\t\tv := 1\n\t\tv = 2\n\t}\n\tv = 3\n}", true),
            ("func F() { v := func() { v = 1 }; v() }", true),
            ("func F(a int) {\n\tswitch a {\n\tcase 1:\n\t\tv := 1\n\t\tv = 2\n\tcase 2:\n\t\tv = 3\n\t}\n}", true),
            ("func F() { g := func(v int) { v = 1 }; g(1) }", false),
            ("func F() { var g func(v int); g = nil; v = 1 }", true),
            // Calls on package variables.
            ("func F() { b := pool.Get().(*B); b.Reset(); pool.Put(b) }", true),
            ("func F() { b := pool.Get().(*B); pool.Put(b) }", true),
            ("func F() { var once sync.Once; once.Do(f) }", false),
            ("func F() { m[\"a\"].rows.Add(1) }", true),
            ("func F() { fill(m) }", true),
            ("func F() { fill(1, m, 2) }", true),
            ("func F() { fill(m...) }", true),
            ("func F() { errSeen.Store(1, 2) }", true),
            ("func F() error { return wrap(errOwn, errOwn.Error()) }", false),
            ("func F() { atomic.AddInt64(&level, 1) }", true),
            ("func F() *T { return &v }", true),
            ("func F() { c <- 1 }", true),
            ("func F() { <-c }", true),
            ("func F() { x := <-c; _ = x }", true),
            ("func F() { delete(m, 1) }", true),
            ("func F() { clear(m) }", true),
            ("func F(x []int) { copy(v, x) }", true),
            ("func F(x []int) { copy(x, v); x = append(x, v...) }", false),
            ("func F(n int) int { for i := 0; i < n; i++ { }; return n }", false),
            ("func F() []int { return append(v, 1) }", true),
            ("func F() { shop.Table.Add(1) }", true),
            ("func F() { fill(shop.Table) }", true),
            ("func F() { fill(shop.Rate); shop.Rate.String() }", false),
            ("func F() { known := m; known[1] = 2 }", true),
            ("func F() { known := m; fill(known) }", true),
            ("func F() { var known = v.rows; known.count++ }", true),
            ("func F() { var known *T; known = v; known.count = 1 }", true),
            ("func F() { for _, row := range table { row.count++ } }", true),
            ("func F() { known := m; known = nil; first := table[0]; fill(first) }", false),
            ("func F() int { return len(m) + m[\"a\"] + v.count + cap(v) }", false),
            ("func F() bool { return strings.HasPrefix(v, name) && slices.Contains(table, name) }", false),
            ("func F() error { return fmt.Errorf(\"%w %v\", ErrGone, v) }", false),
            ("func F(err error) bool { return errors.Is(err, ErrGone) || f(ErrGone, broken) }", false),
            ("func F(a string) bool { return pattern.MatchString(a) && f(pattern, name, title, level) }", false),
            ("func F() string { return ErrGone.Error() + string(v) + name }", false),
            ("func F() { v(1) }", false),
            ("func F() { pool := &B{}; pool.Put(1) }", false),
            ("func F(c chan int) { c <- 1; <-c; x := make(chan<- int); var y <-chan int; _, _ = x, y }", false),
            ("func F() { x := T{m: 1, v: v}; f(x.v, x & level) }", false),
            ("func F() { f(&T{v: 1}, &shop.T{}, &[]int{1}, &(T{}), &G[int]{}) }", false),
            ("func F() { fmt.Fprintf(m, \"a\") }", true),
            ("func F(w io.Writer) { fmt.Fprintf(w, \"a\", m); http.SetCookie(w, nil) }", false),
            ("func F() http.Handler { return http.HandlerFunc(f) }", false),
            ("func F() { pkg := &m[0]; pkg.count = 1 }", true),
            ("func F() { var tick <-chan time.Time; for { select { case <-tick: return } } }", false),
            ("func F(a int) { if x, ok := m[a]; ok { x.count++ } }", true),
            ("func F(a *int) { if a == &v { } }", true),
            ("func F() { (*v).Set(1); (v) = 1 }", true),
            ("func F() { v, err := f(v), 1; _, _ = v, err }", true),
            // Goroutines.
            ("func F() { go func() { select {} }() }", true),
            ("func F(g *errgroup.Group) { g.Go(f) }", true),
            ("func F() { time.AfterFunc(1, f) }", true),
            ("func F() { defer f(); recover() }", false),
            // Other packages.
            ("func F(x string) { os.Setenv(\"AX\", x) }", true),
            ("func F() { os.Chdir(\"/\") }", true),
            ("func F() { defer clean(os.Chdir) }", true),
            ("func F() { os.WriteFile(\"/tmp/a\", nil, 0o600) }", true),
            ("func F() { os.Remove(\"/tmp/a\") }", true),
            (
                "func F() ([]byte, error) { os.Getenv(\"A\"); os.Stat(\"a\"); os.IsNotExist(nil); return os.ReadFile(\"a\") }",
                false,
            ),
            (
                "func F(f *os.File) (os.FileInfo, error) { fmt.Fprintln(os.Stderr, os.Args); return os.Lstat(\"a\") }",
                false,
            ),
            ("func F(x string) { http.HandleFunc(x, f) }", true),
            ("func F(x string) { web.Handle(x, f) }", true),
            ("func F() { http.DefaultClient.Do(r) }", true),
            ("func F() { http.NewRequest(\"GET\", \"/\", nil); http.Error(out, \"a\", http.StatusOK) }", false),
            ("func F() { log.SetOutput(nil) }", true),
            ("func F() { log.Println(1) }", false),
            ("func F() { http2.Shared.Register() }", true),
            ("func F() { http2.RegisterAll() }", true),
            ("func F() { prometheus.MustRegister(a) }", true),
            ("func F() { http2.SetMode(1) }", true),
            ("func F() { http2.Settings(1); http2.NewSet(1); x := T{}; x.SetMode(1); x.Register() }", false),
            ("func F() { runtime.GOMAXPROCS(1) }", true),
            ("func F() bool { return runtime.GOOS == \"windows\" && runtime.NumCPU() > 1 }", false),
            ("func F(b []byte) uint32 { return binary.BigEndian.Uint32(b) }", false),
            ("func F(p *T) uintptr { return uintptr(unsafe.Pointer(p)) }", true),
            ("func F(os T) { os.Chdir(\"/\") }", false),
            // Functions of the package that do, themselves or by another one.
            ("func F() { bump() }\nfunc bump() { v++ }", true),
            ("func F() { each(bump) }\nfunc bump() { deeper() }\nfunc deeper() { v++ }", true),
            ("func F() { help() }\nfunc help() int { return level }", false),
            ("func F() { Default().SetLevel(5) }", true),
            // Parts that predeclared functions change.
            ("func F() { delete(v.rows, \"a\"); defer clear(v.rows) }", true),
            ("func F() { t := v.rows; delete(t, \"a\") }", true),
            ("func F() int { return copy(table[:], names) }", true),
            ("func F(x []int) int { return len(v.rows) + cap(table[:]) }", false),
            // What has the name of an error and is none, and types with parameters.
            ("func F() { errOut.WriteString(\"x\") }\nvar errOut = bytes.NewBuffer(nil)", true),
            ("func F() { return ErrHTTP }\nvar ErrHTTP = &httpError{}", false),
            ("func F() func(level int) int { level++; return nil }", true),
            ("func F() (level func(int)) { level = nil; return }", false),
            ("func F() { var (\n\tn = 5\n\tt = m\n); t[\"a\"] = n }", true),
            ("func F() { t := (m); t[\"a\"] = 5 }", true),
            ("func F() { c := *v; c.rows[\"a\"] = 5 }", true),
            ("func F(b []byte) { utf8.EncodeRune(b, 5); utf8.RuneLen(5) }\n", false),
            // A text in another form.
            ("func F() { x := 1 /*\n*/ x = 2 }", false),
            ("func F() { return } func G() { v = 1 }", true),
            ("var x = 1", true),
            ("func F() { # }", true),
            ("import . \"os\"\nfunc F() { }", true),
        ] {
            assert_eq!(found(function), stores, "{function}");
        }
    }

    #[test]
    fn a_source_of_the_package_that_cannot_be_read_may_declare_any_variable() {
        let text = "package a\n\nfunc F() {}\n";
        let lines = [LineSpan { first: 3, last: 3 }];
        let stores =
            |other| stores_outside(text, &lines, "a", &[("a".to_owned(), [text, other].into_iter().collect())].into());
        assert!(!stores("package a\n") && stores("package a\n#\n"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "([a-z(){}\\[\\]'\"/*#!<>=,;:.&\n ]|func |if |for |case |var |range |switch |:=|:=|<-){0,120}") {
            let text = format!("package a\n\nfunc F() {{\n{text}\n}}\n");
            let lines = [LineSpan { first: 4, last: 4 }];
            stores_outside(&text, &lines, "a", &BTreeMap::new());
        }
    }
}
