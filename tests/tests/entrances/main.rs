//! The whole table through every entrance: the command line, gRPC, and MCP with two clients that we did not write. Must not
//! know what is expected; that is the table's.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy takes for ordinary code")]

mod command_line;
mod grpc;
mod mcp;
mod mcp_client;
mod mcp_texts;
mod python;

// One test for each row, so that they run beside each other and a failure names its row.
macro_rules! rows {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// Rows of the table through the command line.
        mod by_command_line { $(#[test] fn $name() { crate::command_line::check(stringify!($name)); })* }

        /// The same through gRPC.
        mod by_grpc { $(#[tokio::test] async fn $name() { crate::grpc::check(stringify!($name)).await; })* }

        /// The same through MCP.
        mod by_mcp { $(#[tokio::test] async fn $name() { crate::mcp::check(stringify!($name)).await; })* }
    };
}

rows! {
    pass fail table panic crash builderror vet hang notests oom forkbomb orphan flood twomodules unicode shapes
    filtered filtered_out command_passes command_fails command_crashes
}

#[test]
fn every_row_and_every_fixture_is_driven() {
    let rows: Vec<&str> = proctor_tests::expected::TABLE.iter().map(|row| row.name).collect();
    assert_eq!(rows, NAMES);
    for fixture in std::fs::read_dir(proctor_tests::process::sources().join("fixtures/go")).unwrap() {
        let fixture = format!("go/{}", fixture.unwrap().file_name().to_str().unwrap());
        let known = proctor_tests::expected::TABLE.iter().any(|row| row.fixture == fixture);
        assert!(known || fixture == "go/race", "{fixture} is in no row");
    }
}
