//! The READMEs: their examples work, their tables agree with the code, and their links lead somewhere.
//!
//! Run for real: the console example of the front page, in a copy of its fixture; the commands of its quick start at a
//! terminal, in a temporary workspace; `proctor admin token`; the Python and the Go client of `proto/examples`, by the
//! commands of `proto/README.md` (except `pip install`), against a real supervisor; project files in YAML, by a run; host
//! files in TOML and `deploy/proctor.toml`, by `proctor serve --check`.
//!
//! Parsed only: every `proctor` and `proctor-mcp` command of every `sh` block, and the MCP server of every JSON block, by the
//! program's own argument parser (`--help` at the end). It finds unknown options and invalid values, not a missing argument.
//!
//! Looked up only: targets of `make`, suites of `cargo test`, directories of `cd`, files that `install` copies. Other programs
//! have to be listed in [`OTHER_PROGRAMS`].

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy treats as ordinary code")]

use proctor_tests::process::{
    ProcessOutput, command, ensure_installed, program, search_path, source_root, tools, wait_for_exit,
};
use proctor_tests::rust_sources::rust_sources;
use proctor_tests::supervisor_process::{SupervisorProcess, token};
use proctor_tests::test_workspace::{TestWorkspace, copy, go_build_cache, go_modules};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const READMES: [&str; 8] = [
    "README.md",
    "agent-shim/README.md",
    "deploy/README.md",
    "proto/README.md",
    "supervisor/README.md",
    "supervisor/frameworks/README.md",
    "supervisor/sandbox/README.md",
    "tests/README.md",
];

/// Programs in `sh` blocks that this suite does not check line by line.
const OTHER_PROGRAMS: [&str; 7] = ["pip", "python", "go", "./generate.sh", "jq", "openssl", "systemctl"];

/// The front page fits on a few screens.
const FRONT_PAGE_LINES_MAX: usize = 150;

/// Invariants of the design.
const INVARIANTS: usize = 11;

fn readme(path: &str) -> String {
    fs::read_to_string(source_root().join(path)).unwrap()
}

/// The contents of the fenced blocks of `language` in a text.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(fence) = line.strip_prefix("```") else { continue };
        let content: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if fence == language {
            found.push(content.join("\n"));
        }
    }
    found
}

/// The only block of `language` in the README at `path` that contains `mark`.
fn block_with(path: &str, language: &str, mark: &str) -> String {
    let found: Vec<String> = blocks(&readme(path), language).into_iter().filter(|block| block.contains(mark)).collect();
    let [block] = &found[..] else { panic!("{path} has {} {language} blocks with {mark:?}", found.len()) };
    block.clone()
}

/// The words of a shell line without its comment. Quotes group words; nothing is expanded.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (None, '#') if word.is_none() => break,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), c) if open == c => quote = None,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The simple commands of a shell script: the parts of its pipelines, as words.
fn simple_commands(script: &str) -> Vec<Vec<String>> {
    let lines = script.lines().map(words);
    lines
        .flat_map(|line| line.split(|word| word == "|").map(<[String]>::to_vec).collect::<Vec<_>>())
        .filter(|words| !words.is_empty())
        .collect()
}

fn output(command: &mut Command) -> ProcessOutput {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    wait_for_exit(command.spawn().unwrap())
}

/// What the program's argument parser says to a command that asks for help at its end.
fn parse(words: &[String]) -> ProcessOutput {
    let mut arguments = words[1..].to_vec();
    // After `--` everything belongs to the command that is to run.
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    arguments.insert(end, "--help".to_owned());
    output(command(&program(&words[0])).args(&arguments))
}

/// The cells of the table rows below the first header row that has the cell `column`: from the first cell to that of the column.
fn column(text: &str, column: &str) -> BTreeMap<String, String> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('|').trim().to_owned()).collect()
    };
    let rows: Vec<Vec<String>> = text
        .lines()
        .skip_while(|line| !(line.starts_with('|') && cells(line).iter().any(|cell| cell == column)))
        .take_while(|line| line.starts_with('|'))
        .map(cells)
        .collect();
    let index = rows[0].iter().position(|cell| cell == column).unwrap();
    let rows = rows.into_iter().skip(2);
    rows.map(|cells| (cells[0].clone(), cells.get(index).cloned().unwrap_or_default())).collect()
}

/// The texts in backquotes.
fn code(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn suites() -> BTreeSet<String> {
    let entries = fs::read_dir(source_root().join("tests/tests")).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.join("main.rs").is_file() || path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn shell_commands_are_accepted_by_the_programs() {
    let makefile = fs::read_to_string(source_root().join("Makefile")).unwrap();
    for path in READMES {
        for words in blocks(&readme(path), "sh").iter().flat_map(|block| simple_commands(block)) {
            let line = words.join(" ");
            let exists = |file: &String| source_root().join(file).exists();
            match words[0].as_str() {
                "proctor" | "proctor-mcp" => {
                    let said = parse(&words);
                    assert!(said.status == 0 && said.stdout.contains("Usage:"), "{path}: {line}: {said:?}");
                }
                "make" => assert!(makefile.contains(&format!("\n{}:", words[1])), "{path}: {line}"),
                "cargo" => {
                    let suite = words.iter().skip_while(|word| *word != "--test").nth(1);
                    assert!(suite.is_none_or(|suite| suites().contains(suite)), "{path}: {line}");
                }
                "cd" => assert!(exists(&words[1]), "{path}: {line}"),
                "install" => {
                    let sources = words.iter().filter(|word| word.starts_with("deploy/"));
                    assert!(sources.into_iter().all(exists), "{path}: {line}");
                }
                other => assert!(OTHER_PROGRAMS.contains(&other), "{path}: {line}: nothing checks {other}"),
            }
        }
    }
}

#[test]
fn a_wrong_option_or_value_in_a_command_is_found() {
    for line in
        ["proctor run --filtr x", "proctor run --memory much -- make", "proctor-mcp --workspce .", "proctor rum"]
    {
        assert_ne!(parse(&words(line)).status, 0, "{line}");
    }
}

#[test]
fn the_console_example_of_the_front_page_prints_what_it_shows() {
    let workspace = TestWorkspace::with_fixture("go/fail");
    let block = block_with("README.md", "console", "$ proctor");
    // Times and sizes differ from run to run, and the first run of a cache has a note.
    let comparable = |text: &str| -> Vec<String> {
        let lines = text.trim().lines().filter(|line| !line.starts_with("note: Go's standard library"));
        lines.map(|line| line.split(" (go, ").next().unwrap().to_owned()).collect()
    };
    for example in block.split("$ ").filter(|example| !example.is_empty()) {
        let (line, shown) = example.split_once('\n').unwrap();
        let said = output(workspace.command("proctor").args(&words(line)[1..]));
        assert_eq!(comparable(&said.stdout), comparable(shown), "{line}: {said:?}");
    }
}

#[test]
fn the_quick_start_at_a_terminal_runs() {
    let workspace = TestWorkspace::empty();
    workspace.write("go.mod", "module example.com/shop\n\ngo 1.21\n");
    // The function is at the line that the example names.
    workspace.write("internal/a/a.go", &format!("package a\n{}func Parse() int {{ return 1 }}\n", "\n".repeat(40)));
    workspace.write(
        "internal/a/a_test.go",
        "package a\n\nimport \"testing\"\n\nfunc TestParse(t *testing.T) {\n\tif Parse() != 1 {\n\t\tt.Fail()\n\t}\n}\n\n\
         func TestBroken(t *testing.T) {\n\tt.Fatal(\"broken\")\n}\n",
    );
    workspace.write("Makefile", "check:\n\ttrue\n");
    let commands = simple_commands(&block_with("README.md", "sh", "proctor run --failed"));
    assert!(commands.len() > 5, "{commands:?}");
    for words in commands {
        let said = output(workspace.command(&words[0]).args(&words[1..]));
        // 1 is a failed test, or a layer that this host lacks.
        assert!(matches!(said.status, 0 | 1) && !said.stderr.contains("error"), "{}: {said:?}", words.join(" "));
        if words[1] == "covering" {
            assert!(said.stdout.contains("TestParse"), "{said:?}");
        }
    }
    let said = workspace.proctor(&["admin", "token"]);
    assert!(said.status == 0 && said.stdout.contains("proctor_"), "{said:?}");
}

/// The MCP server of each configuration is started by a command that the program accepts, or is at a path of its HTTP server.
#[test]
fn json_examples_are_valid() {
    for path in READMES {
        for block in blocks(&readme(path), "json") {
            let value: Value = serde_json::from_str(&block).unwrap_or_else(|error| panic!("{path}: {error}: {block}"));
            for server in value["mcpServers"].as_object().into_iter().flat_map(|servers| servers.values()) {
                if let Some(url) = server["url"].as_str() {
                    assert!(url.starts_with("http://127.0.0.1:") && url.contains("/mcp/"), "{path}: {block}");
                    continue;
                }
                let arguments = server["args"].as_array().into_iter().flatten().map(|word| word.as_str().unwrap());
                let words: Vec<String> =
                    [server["command"].as_str().unwrap()].into_iter().chain(arguments).map(str::to_owned).collect();
                assert_eq!(parse(&words).status, 0, "{path}: {block}");
            }
        }
    }
}

#[test]
fn project_files_are_accepted_by_a_run() {
    for path in READMES {
        for block in blocks(&readme(path), "yaml") {
            let workspace = TestWorkspace::empty();
            workspace.write(".proctor.yaml", &block);
            let report = r#"<testsuite tests="1"><testcase classname="a" name="b"/></testsuite>"#;
            workspace.write("report.xml", report);
            workspace.write("Makefile", "check:\n\tmkdir -p build\n\tcp report.xml build/junit.xml\n");
            let said = workspace.proctor(&["run"]);
            assert!(said.status == 0 && said.stdout.contains("passed: 1 passed"), "{path}: {said:?}");
        }
    }
}

#[test]
fn host_files_are_accepted_by_serve_check() {
    let dir = TempDir::new().unwrap();
    let examples = READMES.iter().flat_map(|path| blocks(&readme(path), "toml"));
    let host_file = fs::read_to_string(source_root().join("deploy/proctor.toml")).unwrap();
    for text in examples.chain([host_file]) {
        let file = dir.path().join("proctor.toml");
        fs::write(&file, &text).unwrap();
        let said = output(command(&program("proctor")).args(["serve", "--check", "--config"]).arg(&file));
        assert_eq!(said.status, 0, "{said:?} of\n{text}");
    }
}

/// Runs the commands of the block of `proto/README.md` with `mark` in a copy of the sources, and returns the copy.
fn run_client(mark: &str, supervisor: &SupervisorProcess, workspace: &Path) -> TempDir {
    ensure_installed("grpc");
    let dir = TempDir::new().unwrap();
    copy(&source_root().join("proto/proctor"), &dir.path().join("proto/proctor"));
    copy(&source_root().join("proto/examples"), &dir.path().join("proto/examples"));
    // What was generated beside the sources must not take the place of what the commands generate.
    for generated in ["go/proctorv1", "python/proctor"] {
        _ = fs::remove_dir_all(dir.path().join("proto/examples").join(generated));
    }
    let block = block_with("proto/README.md", "sh", mark);
    let lines: Vec<&str> = block.lines().filter(|line| !line.starts_with("pip install ")).collect();
    let (socket, root) = (supervisor.socket(), workspace.to_str().unwrap());
    let script = lines.join("\n").replace("/run/proctor/proctor.sock", socket.to_str().unwrap());
    let said = shell(dir.path(), &script.replace("/srv/workspaces/acme/shop", root));
    assert_eq!(said.status, 1, "the run has failed: {said:?}");
    let failure = "example.com/fail/TestLines\n  greet_test.go:31\n  mismatch\n  got a b, want a b c\n";
    assert!(said.stdout.contains(failure), "{said:?}");
    let events =
        ["passed  example.com/fail/TestHolds\n", "failed  example.com/fail/TestLines\n", "skipped example.com/"];
    assert!(events.iter().all(|event| said.stdout.contains(event)), "{said:?}");
    let last = said.stdout.lines().last().unwrap();
    assert!(last.starts_with("failed: 2 passed, 5 failed (go, "), "{said:?}");
    dir
}

fn shell(dir: &Path, script: &str) -> ProcessOutput {
    let others = search_path();
    let path = [tools().join("grpc/bin")].into_iter().chain(std::env::split_paths(&others));
    let path = std::env::join_paths(path).unwrap();
    let mut command = command(Path::new("/bin/sh"));
    let command = command
        .args(["-euc", script])
        .current_dir(dir)
        .env("PATH", path)
        .env("HOME", dir)
        .env("GOMODCACHE", go_modules())
        // It has Go's compiled library.
        .env("GOCACHE", go_build_cache())
        .env("GOFLAGS", "-modcacherw")
        .env("GOTOOLCHAIN", "local");
    output(command)
}

#[test]
fn the_python_client_prints_the_failures() {
    let supervisor = SupervisorProcess::start();
    let workspace = supervisor.workspace("alpha", "shop", "go/fail");
    let dir = run_client("client.py", &supervisor, &workspace);
    // Over TCP with a token, as the page says below the examples.
    fs::write(dir.path().join("token"), token("alpha")).unwrap();
    let script = format!(
        "python proto/examples/python/client.py --target {} --token-file token --filter TestHolds {}",
        supervisor.address,
        workspace.display()
    );
    let said = shell(dir.path(), &script);
    assert!(said.status == 0 && said.stdout.contains("\npassed: 1 passed, 0 failed (go, "), "{said:?}");
    let said = shell(dir.path(), &script.replace(&workspace.display().to_string(), "/nowhere"));
    assert!(said.status == 1 && said.stderr.starts_with("PERMISSION_DENIED: "), "{said:?}");
}

#[test]
fn the_go_client_prints_the_failures() {
    ensure_installed("goclient");
    let supervisor = SupervisorProcess::start();
    let workspace = supervisor.workspace("alpha", "shop", "go/fail");
    let dir = run_client("go run", &supervisor, &workspace);
    let script = format!(
        "cd proto/examples/go\nprintf %s {} >token\ngo run . --target {} --token-file token --filter TestHolds {}",
        token("alpha"),
        supervisor.address,
        workspace.display()
    );
    let said = shell(dir.path(), &script);
    assert!(said.status == 0 && said.stdout.contains("\npassed: 1 passed, 0 failed (go, "), "{said:?}");
    let said = shell(dir.path(), &script.replace(&workspace.display().to_string(), "/nowhere"));
    assert!(said.stderr.contains("PermissionDenied") && said.stderr.contains("; reason "), "{said:?}");
}

/// A name is a test (`module::test`), a file or directory of tests, or a row of the table of expected outcomes.
#[test]
fn the_tests_that_guard_the_invariants_exist() {
    let directories = ["agent-shim", "proto/src", "supervisor", "tests"];
    let sources: Vec<_> = directories.into_iter().flat_map(rust_sources).collect();
    let is_test = |name: &str| {
        let (modules, test) = name.rsplit_once("::").unwrap();
        let modules: Vec<&str> = modules.split("::").filter(|module| *module != "tests").collect();
        sources.iter().any(|(path, text)| {
            let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
            let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
            let is_here = lines.windows(2).any(|pair| {
                let is_function = pair[1].trim_start_matches("async ").starts_with(&format!("fn {test}("));
                is_function && pair[0].starts_with("#[")
            });
            is_here && modules.iter().all(|module| parts.contains(module))
        })
    };
    let is_row = |name: &str| {
        let row = format!("name: \"{name}\"");
        sources.iter().any(|(path, text)| path.starts_with("tests/src/expected") && text.contains(&row))
    };
    let guards = column(&readme("supervisor/README.md"), "guarded by");
    for number in 1..=INVARIANTS {
        let row = guards.iter().find(|(invariant, _)| invariant.starts_with(&format!("{number} ")));
        let (_, guard) = row.unwrap_or_else(|| panic!("the table of invariants has no row {number}"));
        let names = code(guard);
        assert!(!names.is_empty(), "nothing guards invariant {number}");
        for name in names {
            let exists = match () {
                () if name.contains("::") => is_test(&name),
                () if name.contains('/') => source_root().join(&name).exists(),
                () => is_row(&name),
            };
            assert!(exists, "invariant {number}: `{name}` does not exist: was it renamed?");
        }
    }
    assert_eq!(guards.len(), INVARIANTS);
}

#[test]
fn both_tables_of_runners_name_the_same_versions() {
    fn versions(needs: &str) -> BTreeSet<String> {
        let is_part = |c: char| c.is_ascii_digit() || c == '.';
        let parts = needs.split(|c: char| !is_part(c)).map(|part| part.trim_matches('.'));
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }
    let front = column(&readme("README.md"), "needs");
    let adapters = column(&readme("supervisor/frameworks/README.md"), "needs");
    let names = |table: &BTreeMap<String, String>| -> BTreeSet<String> {
        table.keys().flat_map(|cell| code(cell)).filter(|name| !name.starts_with('-')).collect()
    };
    assert_eq!(names(&front), names(&adapters));
    // A row of the adapters may have several runners.
    for (cell, needs) in adapters {
        let of_front =
            code(&cell).iter().flat_map(|name| versions(&front[&format!("`{name}`")])).collect::<BTreeSet<_>>();
        assert_eq!(of_front, versions(&needs), "{cell}");
    }
}

#[test]
fn the_table_of_suites_is_complete() {
    let rows = column(&readme("tests/README.md"), "what it proves");
    let named: BTreeSet<String> = rows.keys().flat_map(|cell| code(cell)).collect();
    assert_eq!(named, suites());
}

#[test]
fn the_tables_of_the_shim_have_its_tools_and_options() {
    let workspace = TempDir::new().unwrap();
    let mut shim = command(&program("proctor-mcp"));
    let shim = shim
        .arg("--workspace")
        .arg(workspace.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut shim = shim.spawn().unwrap();
    let requests = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
    ];
    shim.stdin.take().unwrap().write_all((requests.join("\n") + "\n").as_bytes()).unwrap();
    let said = wait_for_exit(shim);
    let answers: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let list = answers.iter().find(|answer| answer["id"] == 2).unwrap_or_else(|| panic!("{said:?}"));
    let tools: BTreeMap<String, BTreeSet<String>> = list["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            let arguments = tool["inputSchema"]["properties"].as_object().unwrap().keys().cloned().collect();
            (tool["name"].as_str().unwrap().to_owned(), arguments)
        })
        .collect();
    let text = readme("agent-shim/README.md");
    let rows = column(&text, "arguments");
    let documented: BTreeMap<_, _> =
        rows.iter().map(|(tool, arguments)| (tool.trim_matches('`').to_owned(), code(arguments))).collect();
    assert_eq!(documented, tools);

    let options = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
    };
    let help = output(command(&program("proctor-mcp")).arg("--help")).stdout;
    let flags = help.lines().map(str::trim).filter(|line| line.starts_with('-')).flat_map(options);
    let flags: BTreeSet<String> = flags.filter(|flag| !matches!(flag.as_str(), "--help" | "--version")).collect();
    let rows = column(&text, "meaning");
    assert_eq!(rows.keys().flat_map(|cell| options(cell)).collect::<BTreeSet<_>>(), flags);
}

#[test]
fn links_lead_to_files_and_headings() {
    let slug = |heading: &str| -> String {
        let kept =
            heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
        kept.replace(' ', "-")
    };
    for path in READMES {
        let text = readme(path);
        for target in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            if file.starts_with("http") {
                continue;
            }
            let file = if file.is_empty() {
                Path::new(path).to_owned()
            } else {
                Path::new(path).with_file_name("").join(file)
            };
            assert!(source_root().join(&file).exists(), "{path}: {target}");
            if !anchor.is_empty() {
                let linked = fs::read_to_string(source_root().join(&file)).unwrap();
                let mut headings = linked.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
                assert!(headings.any(|heading| slug(heading) == anchor), "{path}: {target}");
            }
        }
    }
}

#[test]
fn the_front_page_is_short() {
    let lines = readme("README.md").lines().count();
    assert!(lines <= FRONT_PAGE_LINES_MAX, "{lines} lines");
}
