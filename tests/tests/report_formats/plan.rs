//! The plan of what to improve: written after each run, and each of its commands can be made as it stands.

use crate::stored_report::stored;
use proctor_tests::test_workspace::TestWorkspace;
use std::fs;

/// A Go package with a test that fails, and one without tests.
fn workspace() -> TestWorkspace {
    let workspace = TestWorkspace::empty();
    workspace.write("go.mod", "module example.com/shop\n\ngo 1.21\n");
    workspace.write("tax/tax.go", "package tax\n\nfunc Of(total int) int {\n\treturn total / 5\n}\n");
    workspace.write("unused/unused.go", "package unused\n\nfunc F() int {\n\treturn 1\n}\n");
    workspace.write(
        "tax/tax_test.go",
        "package tax\n\nimport \"testing\"\n\nfunc TestOf(t *testing.T) {\n\tif Of(10) != 3 {\n\t\tt.Fatal(\"not 3\")\n\t}\n}\n",
    );
    workspace
}

#[test]
fn the_plan_is_refreshed_after_each_run_and_its_commands_work() {
    let workspace = workspace();
    assert_eq!(workspace.proctor(&["run"]).status, 1);
    let read = || fs::read_to_string(stored(&workspace, "optimization-plan.md")).unwrap();
    let plan = workspace.proctor(&["report", "--format", "optimization"]).stdout;
    assert_eq!(read(), plan);
    for text in [
        "## Broken (1)\n\n- `example.com/shop/tax` `TestOf` at `tax/tax_test.go:7`: not 3\n",
        "## Flaky (0)\n",
        "## Uncovered (1)\n\n- `unused/unused.go`: no measured test executes a line of it\n",
        "## Duplicated (0)\n\nNo two tests that were measured one by one execute exactly the same lines.\n",
    ] {
        assert!(plan.contains(text), "{text}: {plan}");
    }
    let commands: Vec<&str> = plan.lines().filter_map(|line| line.strip_prefix("  Next: `proctor ")).collect();
    assert_eq!(commands.len(), 2, "{plan}");
    for command in commands {
        let words: Vec<&str> = command.trim_end_matches('`').split(' ').collect();
        let output = workspace.proctor(&words);
        assert!(matches!(output.status, 0 | 1), "{command}: {output:?}");
    }
    workspace.write("tax/tax.go", "package tax\n\nfunc Of(int) int {\n\treturn 3\n}\n");
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    assert!(read().contains("## Broken (0)\n"), "{}", read());
}
