//! Invalid requests to open sessions, above all workspaces outside of the tenant's roots by any path.

use proctor_proto::reason;
use proctor_proto::v1::{CreateSessionRequest, RunTestsRequest};
use proctor_tests::process::descendants;
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings, UIDS, first_uid};
use proctor_tests::test_workspace::chown_tree;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Opens sessions as tenant beta.
struct BetaSetup {
    supervisor: SupervisorProcess,
}

impl BetaSetup {
    async fn open(&self, workspace: &str) -> Result<String, Status> {
        self.open_with_request_id(workspace, "").await
    }

    async fn open_with_request_id(&self, workspace: &str, client_request_id: &str) -> Result<String, Status> {
        let (workspace, client_request_id) = (workspace.to_owned(), client_request_id.to_owned());
        let request = CreateSessionRequest { workspace, client_request_id, ..CreateSessionRequest::default() };
        let answer = self.supervisor.client("beta").await.sessions.create_session(request).await?;
        Ok(answer.into_inner().session.unwrap().session_id)
    }
}

#[tokio::test]
async fn denies_workspaces_outside_the_roots() {
    let setup = BetaSetup { supervisor: SupervisorProcess::start() };
    let root = setup.supervisor.root("beta");
    let others = setup.supervisor.workspace("alpha", "shop", "go/pass");
    let own = setup.supervisor.workspace("beta", "shop", "go/pass");
    symlink(&others, root.join("theirs")).unwrap();
    symlink("/", root.join("everything")).unwrap();
    symlink("../alpha", root.join("up")).unwrap();
    // A symlink that stays inside the root is allowed.
    symlink(".", root.join("here")).unwrap();
    assert_ne!(setup.open(root.join("here/shop").to_str().unwrap()).await.unwrap(), "");

    let path = |tail: &str| root.join(tail).to_str().unwrap().to_owned();
    let outside = [
        others.to_str().unwrap().to_owned(),
        path("theirs"),
        path("everything/etc"),
        path("up/shop"),
        path("shop/../../alpha/shop"),
        path("../alpha/shop"),
        "/".to_owned(),
        "/etc".to_owned(),
        "/no/such/place".to_owned(),
        format!("{}/../beta-other", root.display()),
        format!("{}x", root.display()),
    ];
    for workspace in outside {
        let status = setup.open(&workspace).await.unwrap_err();
        let text = "workspace: not below a root of this tenant";
        let error = (status.code(), status.message());
        // Only below the tenant's own root may the error say that the path does not exist.
        let not_found = (Code::InvalidArgument, "workspace: not found");
        assert!(error == (Code::PermissionDenied, text) || error == not_found, "{workspace}: {status:?}");
        if !workspace.contains("beta-other") {
            assert_eq!(error, (Code::PermissionDenied, text), "{workspace}");
        }
    }
    assert!(own.exists());
}

#[tokio::test]
async fn refuses_paths_that_are_no_workspace() {
    let setup = BetaSetup { supervisor: SupervisorProcess::start() };
    let root = setup.supervisor.root("beta");
    fs::write(root.join("file"), "").unwrap();
    _ = setup.supervisor.empty_workspace("beta", "shop");
    symlink("shop", root.join("alias")).unwrap();
    for (workspace, text) in [
        (String::new(), "workspace must be an absolute path"),
        ("shop".to_owned(), "workspace must be an absolute path"),
        (root.join("gone").display().to_string(), "workspace: not found"),
        (root.join("file").display().to_string(), "workspace: not a directory"),
        (root.join("alias").display().to_string(), "workspace: is a symbolic link: name the directory itself"),
        (format!("{}/", root.join("alias").display()), "workspace: is a symbolic link: name the directory itself"),
    ] {
        let status = setup.open(&workspace).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, text));
        assert_eq!(status.get_details_bad_request().unwrap().field_violations[0].field, "workspace");
    }
    let long = setup.open_with_request_id(root.to_str().unwrap(), &"x".repeat(129)).await.unwrap_err();
    assert_eq!(long.get_details_bad_request().unwrap().field_violations[0].field, "client_request_id");
}

#[tokio::test]
async fn refuses_a_workspace_owned_by_another_user() {
    let setup = BetaSetup { supervisor: SupervisorProcess::start() };
    let workspace = setup.supervisor.workspace("beta", "shop", "go/pass");
    let host = setup.supervisor.dir().to_str().unwrap().to_owned();
    let own = first_uid("beta");
    for owner in [0, 1_000, first_uid("alpha"), own + UIDS] {
        chown_tree(&workspace, owner);
        let status = setup.open(workspace.to_str().unwrap()).await.unwrap_err();
        let info = status.get_details_error_info().unwrap();
        assert_eq!((status.code(), info.reason.as_str()), (Code::FailedPrecondition, reason::WORKSPACE_OWNER));
        assert_eq!(info.metadata["uid"], own.to_string());
        assert!(status.message().contains(&format!("give it to user {own}")), "{status:?}");
        assert!(!status.message().contains(&host), "the message contains no path of the host: {status:?}");
    }
    // Any uid of the tenant's range may own the workspace. Runs of an open session are checked as well.
    chown_tree(&workspace, own + UIDS - 1);
    let session_id = setup.open(workspace.to_str().unwrap()).await.unwrap();
    chown_tree(&workspace, first_uid("alpha"));
    let client = setup.supervisor.client("beta").await;
    let status = match client.start(RunTestsRequest { session_id, ..Default::default() }).await {
        Ok(_) => panic!("the run started"),
        Err(status) => status,
    };
    assert_eq!(status.get_details_error_info().unwrap().reason, reason::WORKSPACE_OWNER, "{status:?}");
    assert!(descendants(setup.supervisor.pid()).is_empty(), "no process was started");
}

#[tokio::test]
async fn refuses_the_supervisors_own_directories() {
    let root = std::env::temp_dir().to_str().unwrap().to_owned();
    let setup = BetaSetup {
        supervisor: SupervisorProcess::with_settings(&SupervisorSettings { root, ..SupervisorSettings::default() }),
    };
    // The directory that contains the supervisor's socket.
    let dir = setup.supervisor.dir().canonicalize().unwrap();
    let state = setup.supervisor.state_dir().canonicalize().unwrap();
    let cache = state.join("tenants/beta/cache");
    let reserved = (Code::InvalidArgument, "workspace: is a directory of the system or of the supervisor");
    let elsewhere = (Code::PermissionDenied, "workspace: not below a root of this tenant");
    for (workspace, expected) in [
        (dir.as_path(), reserved),
        (&state, elsewhere),
        (&cache, elsewhere),
        (Path::new("/"), elsewhere),
        (Path::new("/etc"), elsewhere),
        (Path::new("/proc"), elsewhere),
    ] {
        let status = setup.open(workspace.to_str().unwrap()).await.unwrap_err();
        assert_eq!((status.code(), status.message()), expected, "{}", workspace.display());
    }
}

#[tokio::test]
async fn refuses_runs_after_the_workspace_was_replaced() {
    let setup = BetaSetup { supervisor: SupervisorProcess::start() };
    let supervisor = &setup.supervisor;
    let client = supervisor.client("beta").await;
    let theirs = supervisor.workspace("alpha", "shop", "go/pass");
    fs::write(theirs.join("secret.go"), "package shop").unwrap();
    let root = supervisor.root("beta");
    type Swap = fn(&Path, &Path);
    let swaps: [(&str, Swap); 5] = [
        ("renamed", |own, aside| fs::rename(own, aside).unwrap()),
        ("another directory", |own, aside| {
            fs::rename(own, aside).unwrap();
            fs::create_dir(own).unwrap();
        }),
        ("a link to another tenant's", |own, aside| {
            fs::rename(own, aside).unwrap();
            symlink("../alpha/shop", own).unwrap();
        }),
        ("a link to itself", |own, aside| {
            fs::rename(own, aside).unwrap();
            symlink(aside, own).unwrap();
        }),
        ("removed", |own, _| fs::remove_dir_all(own).unwrap()),
    ];
    for (number, (what, swap)) in swaps.into_iter().enumerate() {
        let own = supervisor.workspace("beta", &format!("shop-{number}"), "go/pass");
        let session_id = setup.open(own.to_str().unwrap()).await.unwrap();
        swap(&own, &root.join(format!("aside-{number}")));
        let request =
            |files: Vec<String>| RunTestsRequest { session_id: session_id.clone(), files, ..Default::default() };
        let status = match client.start(request(Vec::new())).await {
            Ok(_) => panic!("{what}: the run started"),
            Err(status) => status,
        };
        assert_eq!(status.code(), Code::FailedPrecondition, "{what}: {status:?}");
        assert_eq!(status.get_details_error_info().unwrap().reason, reason::WORKSPACE_REPLACED, "{what}");
        // Nothing is revealed about the new content.
        let status = match client.start(request(vec!["secret.go".to_owned()])).await {
            Ok(_) => panic!("{what}: the run started"),
            Err(status) => status,
        };
        assert_eq!(status.message(), "files: \"secret.go\" not found in the workspace", "{what}");
    }
    // A symlink in place of a root is not followed, least of all to another tenant's root.
    fs::rename(&root, root.with_file_name("beta-aside")).unwrap();
    symlink("alpha", &root).unwrap();
    let status = setup.open(root.join("shop").to_str().unwrap()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "workspace: not found"));
    assert!(descendants(supervisor.pid()).is_empty(), "no process was started");
}
