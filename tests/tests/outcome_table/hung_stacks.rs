//! The stacks of hung tests beyond the rows named `hang`: where a test waits, in source lines, and from processes that do not
//! cooperate.

use proctor_tests::test_workspace::TestWorkspace;

/// Runs a Node test file to its deadline and returns the report's text.
fn run_to_the_deadline(name: &str, test: &str) -> String {
    let workspace = TestWorkspace::with_fixture("node/hang");
    workspace.write("test/hang.test.js", test);
    let output = workspace.proctor(&["run", "--timeout", "10s"]);
    assert_eq!(output.status, 124, "{name}: {output:?}");
    output.stdout
}

#[test]
fn a_test_that_awaits_hangs_at_its_await() {
    let test = "const { test } = require('node:test');
const { query } = require('./query.js');
test('waits', async () => {
  await query();
});
";
    let workspace = TestWorkspace::with_fixture("node/hang");
    workspace.write("test/hang.test.js", test);
    let query = "exports.query = async function query() {
  await new Promise((done) => setTimeout(done, 1e8));
};
";
    workspace.write("test/query.js", query);
    let wanted = ["test/hang.test.js/waits\n", "test/hang.test.js:4 in ", "test/query.js:2 in query\n", "suspended"];
    // On a loaded host the snapshot may take longer than the run waits for it; then the report has where the test begins.
    let mut stdout = String::new();
    for _ in 0..6 {
        let output = workspace.proctor(&["run", "--timeout", "10s"]);
        assert_eq!(output.status, 124, "{output:?}");
        stdout = output.stdout;
        if stdout.contains("suspended") {
            break;
        }
        assert!(stdout.contains("test/hang.test.js:3 in waits\n"), "{stdout}");
    }
    for wanted in wanted {
        assert!(stdout.contains(wanted), "{wanted} in {stdout}");
    }
}

#[test]
fn a_busy_worker_thread_has_a_stack() {
    let test = "const { test } = require('node:test');
const { Worker, isMainThread } = require('node:worker_threads');
function spin() {
  for (;;);
}
if (isMainThread) test('spins', () => new Promise(() => new Worker(__filename)));
else spin();
";
    let stdout = run_to_the_deadline("worker thread", test);
    assert!(stdout.contains("test/hang.test.js:4 in spin\n"), "{stdout}");
}

/// An inspector that first answers like that of the test's process, and then with parts of a message that has no end.
const UNFINISHED: &str = "process.on('SIGUSR1', () => require('http').createServer((request, answer) =>
       answer.end('[{\"webSocketDebuggerUrl\":\"ws://127.0.0.1:9229/x\"}]'))
     .on('upgrade', (request, socket) => {
       socket.on('error', () => {}).write('HTTP/1.1 101 OK\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n');
       const text = JSON.stringify({ id: 1, result: { result: { value: process.pid } } });
       const part = Buffer.concat([Buffer.from([1, 126, 255, 255]), Buffer.alloc(65535)]);
       const send = () => { while (socket.write(part)); };
       socket.once('data', () => {
         socket.write(Buffer.concat([Buffer.from([129, text.length]), Buffer.from(text)]));
         socket.on('drain', send); send();
       });
     }).listen(9229));";

/// An inspector that first answers like that of the test's process, and then with what is no message.
const NO_JSON: &str = "process.on('SIGUSR1', () => require('http').createServer((request, answer) =>
       answer.end('[{\"webSocketDebuggerUrl\":\"ws://127.0.0.1:9229/x\"}]'))
     .on('upgrade', (request, socket) => {
       socket.on('error', () => {}).write('HTTP/1.1 101 OK\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n');
       const text = JSON.stringify({ id: 1, result: { result: { value: process.pid } } });
       const answer = Buffer.concat([Buffer.from([129, text.length]), Buffer.from(text), Buffer.from([129, 1]), Buffer.from('{')]);
       socket.once('data', () => socket.write(answer));
     }).listen(9229));";

/// What a test does to the program that asks for stacks. The run ends all the same, and the test is named with the place where
/// it begins, the best that is known.
#[test]
fn a_process_that_does_not_cooperate_is_named_without_a_stack() {
    let cases = [
        ("the port is taken by a server that never answers", "require('net').createServer(() => {}).listen(9229);"),
        ("the signal does nothing", "process.on('SIGUSR1', () => {});"),
        (
            "the signal opens a server that sends without end",
            "process.on('SIGUSR1', () => require('net').createServer((socket) => {
               const send = () => { while (socket.write('HTTP/1.1 200 OK\\r\\nX: ' + 'x'.repeat(65536))); };
               socket.on('error', () => {}).on('drain', send); send();
             }).listen(9229));",
        ),
        ("the signal opens an inspector of the right process that sends an unfinished message without end", UNFINISHED),
        ("the signal opens an inspector of the right process that sends no JSON", NO_JSON),
    ];
    for (name, hostile) in cases {
        let hostile = hostile.replace('\n', " ");
        let test = format!(
            "{hostile}\nrequire('node:test').test('hangs', () => new Promise(() => setInterval(() => {{}}, 1e6)));\n"
        );
        let stdout = run_to_the_deadline(name, &test);
        assert!(stdout.contains("test/hang.test.js:2 in hangs\n"), "{name}: {stdout}");
    }
}
