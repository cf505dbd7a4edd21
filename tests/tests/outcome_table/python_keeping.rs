//! The tests of Python that may need what an earlier one had a function keep: its values depend on functions that they do not execute.

use crate::python_lines::{affected, proctor};
use proctor_tests::test_workspace::{TestWorkspace, write_before_run};
use serde_json::json;
use std::collections::BTreeMap;

/// Functions of which each keeps the value of another one in a way of its own; the last one keeps nothing.
const KEEPING: &str = r#"import asyncio
import functools
import threading

known = {}


def of_accents():
    return (accented_
        .é.éé.append(1))


def of_global():
    global first
    if first is None:
        first = v0()
    return first


first = None


def of_dictionary():
    if 1 not in known:
        known[1] = v1()
    return known[1]


def of_call():
    return known[2] if 2 in known else known.setdefault(2, v2())


@functools.lru_cache
def of_decorator():
    return v3()


def _of_assignment():
    return v4()


of_assignment = functools.lru_cache(None)(_of_assignment)


def remembers(function):
    kept = {}

    def call():
        if function not in kept:
            kept[function] = function()
        return kept[function]

    return call


@remembers
def of_wrapper():
    return v5()


def counter():
    value = None

    def call():
        nonlocal value
        value = v6() if value is None else value
        return value

    return call


of_closure = counter()


class OfClass:
    level = None
    shared = {}

    @classmethod
    def of_class(cls):
        if cls.level is None:
            cls.level = v7()
        return cls.level

    def of_shared(self):
        if 8 not in self.shared:
            self.shared[8] = v8()
        return self.shared[8]


class One:
    one = None

    def __new__(cls):
        if One.one is None:
            One.one = super().__new__(cls)
            One.one.fill()
        return One.one

    def fill(self):
        self.value = v9()


class Lazy:
    def __init__(self):
        self.value = None

    def get(self):
        if self.value is None:
            self.value = v10()
        return self.value


lazy = Lazy()


def of_default(kept={0: 0}):
    if 11 not in kept:
        kept[11] = v11()
    return kept[11]


def of_alias():
    kept = known  # The same.
    if 12 not in kept:
        kept[12] = through(v12)
    return kept[12]


def through(function):
    return function()


def of_before():
    if 13 not in known:
        known[13] = []
        known[13].append(v13())
    return known[13][0]


class Memo:
    def __init__(self):
        self.kept = {}
        self.of_method = functools.lru_cache(maxsize=None)(self._of_method)

    def get(self):
        value = self.kept.get(14)
        if value is None:
            value = self.kept[14] = v14()
        return value

    def _of_method(self):
        return v15()


memo = Memo()


class Missing(dict):
    def __missing__(self, key):
        value = self[key] = v16()
        return value


missing = Missing()


class Reify:
    def __init__(self, function):
        self.function = function

    def __get__(self, one, owner):
        value = one.__dict__["of_reify"] = self.function(one)
        return value


class OfDescriptor:
    @Reify
    def of_reify(self):
        return v17()


described = OfDescriptor()
of_lambda = functools.lru_cache(None)(lambda: v18())


def of_chain():
    if 19 not in known:
        known.setdefault(
            19,
            [],
        ).append(v19())
    return known[19][0]


def notes():
    known["note"] = 1


def of_thread():
    if 20 not in known:
        thread = threading.Thread(target=notes)
        thread.start()
        thread.join()
        known[20] = v20()
    return known[20]


async def of_coroutine():
    return v21()


def of_task():
    if 21 not in known:
        loop = asyncio.new_event_loop()
        known[21] = loop.create_task(of_coroutine())
        loop.run_until_complete(known[21])
        loop.close()
    return known[21].result()


def of_generator():
    known[22] = yield 0


def of_sent():
    if 22 not in known:
        steps = of_generator()
        next(steps)
        for value in [v22()]:
            try:
                steps.send(value)
            except StopIteration:
                pass
    return known[22]


def of_nothing():
    own = {}
    own[23] = v23()
    fresh = Lazy()
    fresh.value = 1
    return fresh.get() + own[23]


kinds = [
    of_global, of_dictionary, of_call, of_decorator, of_assignment, of_wrapper, of_closure, OfClass.of_class,
    lambda: OfClass().of_shared(), lambda: One().value, lazy.get, of_default, of_alias, of_before, memo.get, memo.of_method,
    lambda: missing["a"], lambda: described.of_reify, of_lambda, of_chain, of_thread, of_task, of_sent, of_nothing,
]
"#;

/// Tests of which some need what one of the functions keeps.
const TESTS_OF_KEEPING: &str = "import keeping\nimport pytest\n\n\n@pytest.mark.parametrize('a', range(120))\ndef test_kept(a):\n    \
                                kind = KINDS.get(a)\n    assert kind is None or keeping.kinds[kind]() >= 0\n";

/// The kind that the test with a number needs. Tests that run alone, which are spread evenly, need none, so that they show nothing.
fn kinds_of_tests() -> BTreeMap<usize, usize> {
    let alone: Vec<usize> = (0..30).map(|at| (2 * at + 1) * 120 / 60).collect();
    let others: Vec<usize> = (0..120).filter(|test| !alone.contains(test)).collect();
    (0..24).flat_map(|kind| [(others[kind], kind), (others[kind + 45], kind)]).collect()
}

/// Runs [`TESTS_OF_KEEPING`] with this text of `keeping.py`. Returns the kind that each test needs.
fn run_tests_of_keeping(workspace: &TestWorkspace, text: &str) -> BTreeMap<usize, usize> {
    let kinds = kinds_of_tests();
    write_before_run(&workspace.path, "requirements.txt", "pytest\n");
    write_before_run(&workspace.path, "keeping.py", text);
    write_before_run(&workspace.path, "test_keeping.py", &format!("KINDS = {kinds:?}\n{TESTS_OF_KEEPING}"));
    let report = proctor(workspace, &["run", "--output", "json"]).json();
    assert_eq!((&report["outcome"], report["tests"].as_array().unwrap().len()), (&json!("passed"), 120), "{report}");
    kinds
}

/// The names of the tests that need a kind, in order.
fn tests_of_kind(kinds: &BTreeMap<usize, usize>, kind: usize) -> Vec<String> {
    let of_kind = kinds.iter().filter(|(_, own)| **own == kind);
    let mut names: Vec<String> = of_kind.map(|(test, _)| format!("test_kept[{test}]")).collect();
    names.sort();
    names
}

#[test]
fn an_edit_selects_the_tests_that_need_what_another_function_keeps() {
    let workspace = TestWorkspace::empty();
    // The last one is called by none.
    let functions = (0..25).map(|kind| format!("\n\ndef v{kind}():\n    return {kind} + 0\n"));
    let text = [KEEPING.to_owned()].into_iter().chain(functions).collect::<String>();
    let kinds = run_tests_of_keeping(&workspace, &text);
    for kind in 0..25 {
        write_before_run(&workspace.path, "keeping.py", &text.replace(&format!("return {kind} + 0"), "return 1"));
        let (both, found) = (tests_of_kind(&kinds, kind), affected(&workspace));
        if kind < 23 {
            assert!(both.iter().all(|test| found.contains(test)), "{kind}: {found:?}");
        } else {
            assert_eq!(found, both, "{kind}");
        }
    }
}

/// Functions that keep the value of another file's, called as the kinds of [`TESTS_OF_KEEPING`]; the second is known by an assignment.
const KEEPING_OTHERS: &str = "import functools\nimport values\n\nknown = {}\n\n\ndef of_dictionary():\n    if 0 not in known:\n        \
                              known[0] = values.v0()\n    return known[0]\n\n\nof_assignment = functools.lru_cache(None)(values.v1)\n\
                              kinds = [of_dictionary, of_assignment] + [lambda: 0] * 22\n";

#[test]
fn a_file_that_cannot_be_read_for_what_it_keeps_leaves_no_test_out() {
    for (method, kind) in [("keeps", 0), ("kept_names", 1)] {
        let workspace = TestWorkspace::empty();
        let values = "def v0():\n    return 1 + 0\n\n\ndef v1():\n    return 1 + 1\n";
        write_before_run(&workspace.path, "values.py", values);
        let conftest = format!(
            "import proctor_keeping\nimport pytest\n\nwith pytest.MonkeyPatch.context() as patch:\n    \
             patch.setattr(proctor_keeping.Source, '{method}', None)\n    import keeping\n"
        );
        write_before_run(&workspace.path, "conftest.py", &conftest);
        let kinds = run_tests_of_keeping(&workspace, KEEPING_OTHERS);
        write_before_run(&workspace.path, "values.py", &values.replace(&format!("1 + {kind}"), "2"));
        let (both, found) = (tests_of_kind(&kinds, kind), affected(&workspace));
        assert!(both.iter().all(|test| found.contains(test)), "{method}: {found:?}");
        assert!(found.len() < 120, "{method}: the edit was one of a function");
    }
}
