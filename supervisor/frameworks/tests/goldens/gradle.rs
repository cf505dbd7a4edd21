//! Recordings of the Gradle adapter.

use crate::jvm;
use crate::recording::{Channel, Killed, Recordings, Run};
use crate::render::{self, BRIEF};
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_frameworks::runners::gradle::Gradle;

const TESTS: &[&str] = &["Alive", "Calc", "Exit", "Greet", "Hang", "Length", "Ng", "Other", "SetUp", "Zero"];

pub(crate) static GRADLE: Recordings = Recordings {
    workspace: |_| jvm::tree("build.gradle", TESTS),
    render: |replay| BRIEF.render(&replay.events) + &render::conclusions(replay),
    runs: &[
        (0, "pass modules crash nothing both elsewhere"),
        (1, "fail builderror configerror selected listing notask offline testng"),
    ],
    killed: &[Killed {
        name: "hang-killed",
        passed: "com.example.AliveTest#holds",
        running: ("src/test/java/com/example/HangTest.java", "com.example.HangTest#hangs"),
    }],
    ..Recordings::of(&Gradle)
};

#[test]
fn explains_a_gradle_that_fails_before_the_init_script() {
    let stderr = b"FAILURE: Build failed with an exception.\n\n* Where:\nSettings file '/workspace/settings.gradle' line: 3\n\n\
                 * What went wrong:\nCould not compile settings file '/workspace/settings.gradle'.\n> no\n\n* Try:\nx\n";
    let replay = GRADLE.replay(&Run::new(&[(Channel::Stderr, stderr)], Exit::Code(1)));
    let [RunnerEvent::Collector(collector)] = replay.events.as_slice() else { panic!("{:?}", replay.events) };
    assert_eq!((collector.file.as_deref(), collector.line), (Some("settings.gradle"), Some(3)));
    assert_eq!(collector.message, "Could not compile settings file 'settings.gradle'.\n> no");
    assert!(replay.is_unproven());
    let missing = (Channel::Stderr, &b"run.sh: 7: exec: gradle: not found\n"[..]);
    assert!(GRADLE.replay(&Run::new(&[missing], Exit::Code(127))).summary.runner_missing);
}
