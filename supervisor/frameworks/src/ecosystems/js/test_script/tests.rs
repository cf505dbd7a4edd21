//! Reads test scripts as packages have them.

use super::*;

fn scripts(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(name, script)| ((*name).to_owned(), (*script).to_owned())).collect()
}

fn found(script: &str) -> Vec<(JsRunner, String)> {
    let all = scripts(&[
        ("test", script),
        ("test:unit", "vitest run -c \"a b.ts\""),
        ("test:it", "A=c B=d mocha it"),
        ("test:it:slow", "tsc && mocha slow"),
        ("jest", "jest -c own.js"),
        ("loop", "npm run loop"),
    ]);
    let render = |script: Invocation| {
        let env: Vec<String> = script.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let unread =
            if script.unread.is_empty() { String::new() } else { format!("|unread {}", script.unread.join(", ")) };
        format!("{}|{}|{}{unread}", env.join(" "), script.node.join(" "), script.args.join(" "))
    };
    let each = |(runner, scripts): (JsRunner, Vec<Invocation>)| {
        scripts.into_iter().map(move |script| (runner, render(script)))
    };
    find_runners(&all, "test").into_iter().flat_map(each).collect()
}

#[test]
fn finds_a_runner_behind_any_program_that_starts_it() {
    for (script, runner, rest) in [
        ("jest", JsRunner::Jest, "||"),
        ("tsc && NODE_ENV=test TZ=UTC npx jest -c x.js --ci", JsRunner::Jest, "NODE_ENV=test TZ=UTC||-c x.js --ci"),
        ("cross-env A=b nyc mocha 'test/**/*.js'", JsRunner::Mocha, "A=b||test/**/*.js"),
        (
            "node --experimental-vm-modules node_modules/jest/bin/jest.js src",
            JsRunner::Jest,
            "|--experimental-vm-modules|src",
        ),
        ("node -r dotenv/config ./node_modules/.bin/jest", JsRunner::Jest, "|-r dotenv/config|"),
        ("npm run lint; npm run test:unit", JsRunner::Vitest, "||run -c a b.ts"),
        ("node --import tsx --test test/*.ts", JsRunner::Node, "||--import tsx test/*.ts"),
        ("tsx --test 'src/*.test.ts'", JsRunner::Node, "||--import=tsx src/*.test.ts"),
        ("tsx --test --test-timeout 5", JsRunner::Node, &format!("||--import=tsx --test-timeout 5 {TSX_TESTS}")),
        ("c8 --lines 100 mocha 'src/**/*.spec.js'", JsRunner::Mocha, "||src/**/*.spec.js"),
        (
            "nyc --check-coverage --lines 90 mocha --check-coverage x",
            JsRunner::Mocha,
            "||--check-coverage x|unread --check-coverage",
        ),
        ("c8 --100 jest", JsRunner::Jest, "|||unread --100"),
        ("nyc -r lcov mocha --recursive", JsRunner::Mocha, "||--recursive"),
        ("c8 -o coverage/jest mocha", JsRunner::Mocha, "||"),
        ("dotenv -e .env.test -- jest -c x", JsRunner::Jest, "||-c x"),
        ("env-cmd -f .env mocha", JsRunner::Mocha, "||"),
        ("dotenvx run -f .env -- mocha", JsRunner::Mocha, "||"),
        ("npx -p mocha-cli --no-install mocha@11 x", JsRunner::Mocha, "||x"),
        ("pnpm exec vitest run $FLAGS --x | cat", JsRunner::Vitest, "||run --x|unread $FLAGS"),
        ("NODE_OPTIONS=\"$NODE_OPTIONS --x\" jest", JsRunner::Jest, "NODE_OPTIONS= --x|||unread $NODE_OPTIONS"),
        ("yarn node --x $(yarn bin jest)", JsRunner::Jest, "|--x|"),
        ("node --env-file .env -r x node_modules/.bin/mocha", JsRunner::Mocha, "|-r x||unread --env-file .env"),
        ("jest --clearCache && jest -c x", JsRunner::Jest, "||-c x"),
        ("vitest list && vitest run list", JsRunner::Vitest, "||run list"),
        ("cypress verify && cypress run -q", JsRunner::Cypress, "||run -q"),
        ("cd web && jest", JsRunner::Jest, "|||unread cd web"),
    ] {
        assert_eq!(found(script), [(runner, rest.to_owned())], "{script}");
    }
    assert_eq!(found("jest && mocha").len(), 2);
    for none in ["echo jest", "tape test", "npm run loop", "", "node index.js jest", "node build.js --test"] {
        assert!(found(none).is_empty(), "{none}: {:?}", found(none));
    }
}

#[test]
fn a_coverage_check_after_the_tests_is_no_test() {
    let all = scripts(&[("test", "nyc mocha && nyc check-coverage --lines 90 && nyc report")]);
    let commands: Vec<_> =
        shell_commands(&all, "test").into_iter().map(|command| (command.text, command.purpose)).collect();
    assert_eq!(commands, [("nyc check-coverage --lines 90".to_owned(), Purpose::Check)]);
}

#[test]
fn a_command_without_a_runner_is_a_shell_line() {
    let of = |script: &str| {
        let all = scripts(&[
            ("test", script),
            ("pretest", "npm run build && eslint ."),
            ("build", "node make.js"),
            ("unit", "tape 'test/*.js' | tap-spec"),
            ("coverage", "nyc ava"),
            ("more", "node x"),
            ("hot", "node hot.js mocha x --exit"),
        ]);
        let is_test = |plain: &ShellCommand| plain.purpose == Purpose::Tests;
        let line = |plain: ShellCommand| {
            let env = plain.env.iter().map(|(name, value)| format!("{name}={value} "));
            env.collect::<String>() + &plain.line
        };
        shell_commands(&all, "test").into_iter().filter(is_test).map(line).collect::<Vec<_>>()
    };
    for (script, lines) in [
        ("npm run lint && jest && A=b npm run unit -- -x", &["A=b tape 'test/*.js'"][..]),
        ("npm run hot && npm run coverage", &["node hot.js mocha x --exit", "nyc ava --tap"]),
        (
            "tsc && cd tests/ts && python3 ./Test.py; node -e 'x()'",
            &["cd tests/ts && python3 ./Test.py", "cd tests/ts && node -e 'x()'"],
        ),
        ("npm run more -- -y", &["node x '-y'"]),
        ("C=d tap -j4 test/*.test.js", &["C=d tap -j4 test/*.test.js --reporter=tap"]),
        ("node server.js & node test.js || exit 1", &["node server.js & node test.js || exit 1"]),
        ("if [ -n x ]; then mocha; fi", &[]),
        ("make check 2>&1 | tee log", &["make check 2>&1"]),
        ("echo x && rimraf y && vitest list && npm install", &[]),
    ] {
        assert_eq!(of(script), lines, "{script}");
    }
    let purposes = |script: &str| {
        let all = scripts(&[("test", script), ("pretest", "npm run build && eslint ."), ("build", "node make.js")]);
        shell_commands(&all, "test").into_iter().map(|plain| plain.purpose).collect::<Vec<_>>()
    };
    assert_eq!(purposes("jest && node x"), [Purpose::Build, Purpose::Check, Purpose::Tests]);
    let borp = find_runners(&scripts(&[("test", "c8 borp -p 'test/*.js' --expose-gc")]), "test");
    let borp = &borp[&JsRunner::Node][0];
    assert_eq!((borp.program, borp.args.join(" ")), (Some(BORP), "-p test/*.js --expose-gc".to_owned()));
}

#[test]
fn a_pattern_with_many_wildcards_comes_to_an_end() {
    let parts = |of: &'static str, count: usize, last: &'static str| -> Vec<&'static str> {
        std::iter::repeat_n(of, count).chain([last]).collect()
    };
    assert!(!matches(&parts("**", 30, "b"), &parts("a", 60, "a")));
    assert!(matches(&parts("**", 30, "b"), &parts("a", 60, "b")));
    for (pattern, name, expected) in [
        ("**", "", true),
        ("a:**:b", "a:b", true),
        ("a:**:b", "a:x:b:y:b", true),
        ("a:**:b", "a:x:b:y", false),
        ("**:a:**", "a", true),
        ("a:*", "a", false),
        ("a:*c", "a:bc", true),
    ] {
        let split = |text: &'static str| text.split(':').collect::<Vec<_>>();
        assert_eq!(matches(&split(pattern), &split(name)), expected, "{pattern} {name}");
    }
}

/// Scripts that would be read a thousand times over, or kept as often.
#[test]
fn a_script_that_is_too_long_to_read_runs_as_a_whole() {
    let long = format!("mocha #{}", "y".repeat(900_000));
    let again = "npm run a;".repeat(1_000);
    let large = format!("E={} npm run many", "y".repeat(900_000));
    let many: String = (0..1_000).map(|number| format!("mocha {number};")).collect();
    let all = scripts(&[("test", &again), ("a", &long), ("large", &large), ("many", &many)]);
    for name in ["test", "large"] {
        let found = find_runners(&all, name).remove(&JsRunner::Mocha).unwrap_or_default();
        assert!(found.iter().map(Invocation::bytes).sum::<usize>() < 20_000_000, "{name}");
        let plain = shell_commands(&all, name);
        assert!(plain.len() == 1 && plain[0].line == all[name], "{name}");
    }
}

#[test]
fn a_change_of_directory_ends_with_its_subshell() {
    let lines = |script: &str| {
        shell_commands(&scripts(&[("test", script)]), "test").into_iter().map(|plain| plain.line).collect::<Vec<_>>()
    };
    assert_eq!(lines("(cd web && tape x) && tape y"), ["cd web && tape x", "tape y"]);
    assert_eq!(
        lines("(cd a && (cd b; tape x) && tape y); (tape z)"),
        ["cd a && cd b && tape x", "cd a && tape y", "tape z"]
    );
    assert_eq!(found("(cd web && jest); mocha")[1], (JsRunner::Mocha, "||".to_owned()));
}

#[test]
fn a_condition_is_no_test_and_a_negated_command_keeps_its_sign() {
    let of = |script: &str| {
        let all = shell_commands(&scripts(&[("test", script)]), "test");
        all.into_iter().map(|plain| (plain.line, plain.purpose)).collect::<Vec<_>>()
    };
    assert_eq!(of("! grep -r only test && jest"), [("! grep -r only test".to_owned(), Purpose::Tests)]);
    assert_eq!(of("if node is-ci.js; then jest; fi"), [("node is-ci.js".to_owned(), Purpose::Check)]);
    let whole = "if node test.js; then echo well; else exit 1; fi";
    assert_eq!(of(whole), [(whole.to_owned(), Purpose::Tests)]);
}

#[test]
fn finds_every_start_once() {
    let mocha = |script: &str| {
        let all = found(script).into_iter().map(|(runner, script)| (runner == JsRunner::Mocha).then_some(script));
        all.map(Option::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(mocha("mocha test/unit && mocha test/it; mocha test/unit"), ["||test/unit", "||test/it"]);
    assert_eq!(mocha("npm run test:it && npm run test:it:slow"), ["A=c B=d||it", "||slow"]);
    assert_eq!(mocha("run-s test:it*"), ["A=c B=d||it"]);
    assert_eq!(mocha("npm-run-all --silent 'test:i*:** -- --bail'"), ["A=c B=d||it --bail", "||slow --bail"]);
    let many = scripts(&[("test", &"npm run a;".repeat(200)), ("a", &"npm run b;".repeat(200)), ("b", "mocha")]);
    let scripts = find_runners(&many, "test").remove(&JsRunner::Mocha).unwrap();
    assert_eq!(scripts[0].unread, ["what comes after 1024 commands"]);
}

#[test]
fn a_script_inherits_environment_and_arguments() {
    for (script, runner, rest) in [
        ("A=a TZ=UTC npm run test:it", JsRunner::Mocha, "A=c B=d TZ=UTC||it"),
        ("npm run test:it --silent x -- --bail", JsRunner::Mocha, "A=c B=d||it x --bail"),
        ("yarn test:it:slow --bail", JsRunner::Mocha, "||slow --bail"),
        ("yarn jest --ci", JsRunner::Jest, "||-c own.js --ci"),
        ("npx jest --ci", JsRunner::Jest, "||--ci"),
    ] {
        assert_eq!(found(script), [(runner, rest.to_owned())], "{script}");
    }
}

#[test]
fn tells_unset_scripts_from_delegating_ones() {
    let of = |script: &str| scripts(&[("test", script)]);
    assert!(is_unset(&of("echo \"Error: no test specified\" && exit 1"), "test") && is_unset(&of(""), "x"));
    assert!(!is_unset(&of("tape"), "test"));
    for handed_on in ["npm test --workspaces", "pnpm -r test", "turbo run test", "yarn workspaces foreach run test"] {
        assert!(delegates(&of(handed_on), "test"), "{handed_on}");
    }
    for own in ["jest", "nyc -r lcov ./check.sh --recursive"] {
        assert!(!delegates(&of(own), "test"), "{own}");
    }
}
