//! Reads the threads that `stacks.sh` prints of the JVMs that run tests, and finds those of the running tests.

use super::{SourceIndex, split};
use crate::contract::{StackDump, StackOutput, StackPrinter, StackSource};
use crate::parsing::stack_frames::{Frame, Stack, attribute};
use proctor_core::bounds::{NAME_BYTES_MAX, clip};
use proctor_core::hung_test::HungTest;
use proctor_core::test_case::TestId;

/// The stacks of JVMs that Surefire or Gradle has started for tests.
pub(crate) const STACK_DUMP: StackDump =
    StackDump { source: StackSource::Printer(PRINTER), read: hung_tests, declared_note: None };

/// `jcmd` connects to a socket in `/tmp`.
const PRINTER: StackPrinter = StackPrinter {
    interpreter: "sh",
    path: "jvm/stacks.sh",
    source: include_str!("stacks.sh"),
    needs_own_network: false,
};

/// Beginning of a line with a source file of the project.
const SOURCE: &str = "source: ";

/// Most threads that are read: those of eight JVMs with some pools.
const THREADS_MAX: usize = 1_024;

/// Most frames that are read of one thread.
const FRAMES_MAX: usize = 200;

fn hung_tests(output: &StackOutput<'_>) -> Vec<HungTest> {
    let sources = output.printed.lines().filter_map(|line| line.strip_prefix(SOURCE));
    let mut stacks = threads(output.printed, &SourceIndex::from_paths(sources));
    for stack in &mut stacks {
        stack.is_of_test = output.running.iter().any(|test| is_stack_of(test, stack));
    }
    attribute(&stacks, output.running, is_stack_of)
}

/// The threads in the output of `jcmd Thread.print`.
fn threads(text: &str, sources: &SourceIndex) -> Vec<Stack> {
    let mut found: Vec<Stack> = Vec::new();
    for line in text.lines() {
        if let Some((name, _)) = line.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
            if found.len() == THREADS_MAX {
                break;
            }
            found.push(Stack {
                title: format!("thread {}:", clip(name.to_owned(), NAME_BYTES_MAX)),
                ..Stack::default()
            });
        } else if let (Some(stack), Some(frame)) = (found.last_mut(), frame(line, sources))
            && stack.frames.len() < FRAMES_MAX
        {
            stack.frames.push(frame);
        }
    }
    found
}

/// `\tat [loader/module/]com.x.Foo.bar(Foo.java:3)`, or with `Native Method` in the parentheses.
fn frame(line: &str, sources: &SourceIndex) -> Option<Frame> {
    let (function, place) = line.strip_prefix("\tat ")?.split_once('(')?;
    let function = function.rsplit('/').next().unwrap_or(function);
    let (class, _) = function.rsplit_once('.')?;
    // `java.base@17/Object.java:338`: the module is before the file.
    let place = place.trim_end_matches(')').rsplit('/').next().unwrap_or_default();
    let (file, number) = place.split_once(':').unwrap_or_default();
    let number = number.parse().unwrap_or(0);
    let own = sources.frame_file(class, file).filter(|_| number > 0).map(str::to_owned);
    let path = if number > 0 { clip(file.to_owned(), NAME_BYTES_MAX) } else { String::new() };
    Some(Frame { path, line: number, function: clip(function.to_owned(), NAME_BYTES_MAX), own })
}

/// Whether a frame is in the test's method, or in its class if only that is known. The body of a lambda has its method's name.
fn is_stack_of(test: &TestId, stack: &Stack) -> bool {
    let (class, method) = split(&test.name);
    let method = method.map(|method| method.split(['(', '[', ' ']).next().unwrap_or(method));
    let is_in = |function: &str| {
        let Some((frame_class, name)) = function.rsplit_once('.') else { return false };
        let is_class = frame_class.strip_prefix(class).is_some_and(|rest| rest.is_empty() || rest.starts_with('$'));
        is_class && method.is_none_or(|method| name == method || name.contains(&format!("lambda${method}$")))
    };
    stack.frames.iter().any(|frame| is_in(&frame.function))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = r#"31:
2026-11-26 01:00:00
Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6-Debian-1deb12u1 mixed mode, sharing):

"main" #1 prio=5 os_prio=0 cpu=210.11ms elapsed=9.13s tid=0x00007f nid=0x2 waiting on condition  [0x00007f]
   java.lang.Thread.State: TIMED_WAITING (sleeping)
	at java.lang.Thread.sleep(java.base@17.0.15/Native Method)
	at com.example.Clock.tick(Clock.java:7)
	at com.example.HangTest.hangs(HangTest.java:9)
	at jdk.internal.reflect.NativeMethodAccessorImpl.invoke(java.base@17.0.15/NativeMethodAccessorImpl.java:77)
	at org.junit.platform.launcher.core.DefaultLauncher.execute(DefaultLauncher.java:107)

"worker" #12 daemon prio=5 tid=0x00007f nid=0x9 in Object.wait()  [0x00007f]
   java.lang.Thread.State: WAITING (on object monitor)
	at java.lang.Object.wait(java.base@17.0.15/Object.java:338)
	at com.example.Queue.take(Queue.java:4)

"Reference Handler" #2 daemon prio=10 tid=0x00007f nid=0x4 waiting on condition  [0x00007f]
	at java.lang.ref.Reference.waitForReferencePendingList(java.base@17.0.15/Native Method)

source: src/main/java/com/example/Clock.java
source: src/main/java/com/example/Queue.java
source: src/test/java/com/example/HangTest.java
"#;

    fn hung(printed: &str, names: &[&str]) -> Vec<HungTest> {
        let test = |name: &&str| TestId { package: "x".to_owned(), name: (*name).to_owned() };
        let running: Vec<TestId> = names.iter().map(test).collect();
        hung_tests(&StackOutput { printed, running: &running, workspace: "/w", ..StackOutput::default() })
    }

    #[test]
    fn finds_the_thread_of_a_test_by_its_class_and_method() {
        for name in ["com.example.HangTest", "com.example.HangTest#hangs", "com.example.HangTest#hangs(int)[1]"] {
            let found = hung(DUMP, &[name, "com.example.OtherTest"]);
            assert_eq!(found.len(), 1, "{name}");
            let place = (found[0].file.as_deref(), found[0].line);
            assert_eq!(place, (Some("src/main/java/com/example/Clock.java"), Some(7)), "{name}");
            assert_eq!(
                found[0].stack,
                "java.lang.Thread.sleep\nsrc/main/java/com/example/Clock.java:7 in com.example.Clock.tick\n\
                 src/test/java/com/example/HangTest.java:9 in com.example.HangTest.hangs\nthread worker:\n\
                 Object.java:338 in java.lang.Object.wait\nsrc/main/java/com/example/Queue.java:4 in com.example.Queue.take",
                "{name}"
            );
        }
    }

    #[test]
    fn claims_nothing_without_a_thread_of_the_test() {
        for (printed, name) in [
            (DUMP, "com.example.HangTest#other"),
            (DUMP, "com.example.Hang"),
            ("", "com.example.HangTest"),
            ("\tat com.example.HangTest.hangs(HangTest.java:9)\n", "com.example.HangTest"),
        ] {
            assert_eq!(hung(printed, &[name]), [], "{name}");
        }
    }

    #[test]
    fn takes_no_file_from_outside_of_the_project() {
        let forged = DUMP.replace("source: src/test/java/com/example", "source: ../../etc/com/example");
        assert!(!hung(&forged, &["com.example.HangTest"])[0].stack.contains("etc"));
    }

    #[test]
    fn reads_at_most_some_threads_and_frames() {
        let frames = "\tat com.example.HangTest.hangs(HangTest.java:9)\n".repeat(100_000);
        let many = format!("source: a/com/example/HangTest.java\n{}\"main\" #1\n{frames}", "\"x\" #2\n".repeat(500));
        let found = hung(&many, &["com.example.HangTest"]);
        assert_eq!((found.len(), found[0].stack.lines().count()), (1, 40));
        let many = format!("{}\"main\" #1\n{frames}", "\"x\" #2\n".repeat(5_000));
        assert_eq!(hung(&many, &["com.example.HangTest"]), []);
    }
}
