//! Mistakes in opening sessions, above all workspaces that are not the tenant's, by any way around.

use proctor_proto::reason;
use proctor_proto::v1::{CreateSessionRequest, RunTestsRequest};
use proctor_tests::process::descendants;
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings, UIDS, first_uid};
use proctor_tests::test_workspace::give;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tonic::{Code, Status};
use tonic_types::StatusExt;

struct Scene {
    supervisor: SupervisorProcess,
}

impl Scene {
    async fn open(&self, workspace: &str) -> Result<String, Status> {
        self.open_as(workspace, "").await
    }

    async fn open_as(&self, workspace: &str, client_request_id: &str) -> Result<String, Status> {
        let (workspace, client_request_id) = (workspace.to_owned(), client_request_id.to_owned());
        let request = CreateSessionRequest { workspace, client_request_id, ..CreateSessionRequest::default() };
        let answer = self.supervisor.client("beta").await.sessions.create_session(request).await?;
        Ok(answer.into_inner().session.unwrap().session_id)
    }
}

#[tokio::test]
async fn a_workspace_outside_the_roots_is_denied_by_every_way_to_it() {
    let scene = Scene { supervisor: SupervisorProcess::start() };
    let root = scene.supervisor.root("beta");
    let others = scene.supervisor.workspace("alpha", "shop", "go/pass");
    let own = scene.supervisor.workspace("beta", "shop", "go/pass");
    symlink(&others, root.join("theirs")).unwrap();
    symlink("/", root.join("everything")).unwrap();
    symlink("../alpha", root.join("up")).unwrap();
    // A link on the way that stays inside is fine.
    symlink(".", root.join("here")).unwrap();
    assert_ne!(scene.open(root.join("here/shop").to_str().unwrap()).await.unwrap(), "");

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
        let status = scene.open(&workspace).await.unwrap_err();
        let text = "workspace: not below a root of this tenant";
        let told = (status.code(), status.message());
        // Below the own root it may be said that nothing is there; of everything else nothing is told.
        let nothing_there = (Code::InvalidArgument, "workspace: not found");
        assert!(told == (Code::PermissionDenied, text) || told == nothing_there, "{workspace}: {status:?}");
        if !workspace.contains("beta-other") {
            assert_eq!(told, (Code::PermissionDenied, text), "{workspace}");
        }
    }
    assert!(own.exists());
}

#[tokio::test]
async fn a_workspace_that_is_none_is_told_so() {
    let scene = Scene { supervisor: SupervisorProcess::start() };
    let root = scene.supervisor.root("beta");
    fs::write(root.join("file"), "").unwrap();
    _ = scene.supervisor.empty_workspace("beta", "shop");
    symlink("shop", root.join("alias")).unwrap();
    for (workspace, text) in [
        (String::new(), "workspace must be an absolute path"),
        ("shop".to_owned(), "workspace must be an absolute path"),
        (root.join("gone").display().to_string(), "workspace: not found"),
        (root.join("file").display().to_string(), "workspace: not a directory"),
        (root.join("alias").display().to_string(), "workspace: is a symbolic link: name the directory itself"),
        (format!("{}/", root.join("alias").display()), "workspace: is a symbolic link: name the directory itself"),
    ] {
        let status = scene.open(&workspace).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, text));
        assert_eq!(status.get_details_bad_request().unwrap().field_violations[0].field, "workspace");
    }
    let long = scene.open_as(root.to_str().unwrap(), &"x".repeat(129)).await.unwrap_err();
    assert_eq!(long.get_details_bad_request().unwrap().field_violations[0].field, "client_request_id");
}

#[tokio::test]
async fn a_workspace_of_another_user_is_refused_before_anything_starts() {
    let scene = Scene { supervisor: SupervisorProcess::start() };
    let workspace = scene.supervisor.workspace("beta", "shop", "go/pass");
    let host = scene.supervisor.dir().to_str().unwrap().to_owned();
    let own = first_uid("beta");
    for owner in [0, 1_000, first_uid("alpha"), own + UIDS] {
        give(&workspace, owner);
        let status = scene.open(workspace.to_str().unwrap()).await.unwrap_err();
        let info = status.get_details_error_info().unwrap();
        assert_eq!((status.code(), info.reason.as_str()), (Code::FailedPrecondition, reason::WORKSPACE_OWNER));
        assert_eq!(info.metadata["uid"], own.to_string());
        assert!(status.message().contains(&format!("give it to user {own}")), "{status:?}");
        assert!(!status.message().contains(&host), "no path of the host: {status:?}");
    }
    // Any of the tenant's own users will do. A session that is open already is refused as well, run by run.
    give(&workspace, own + UIDS - 1);
    let session_id = scene.open(workspace.to_str().unwrap()).await.unwrap();
    give(&workspace, first_uid("alpha"));
    let client = scene.supervisor.client("beta").await;
    let status = match client.start(RunTestsRequest { session_id, ..Default::default() }).await {
        Ok(_) => panic!("it began"),
        Err(status) => status,
    };
    assert_eq!(status.get_details_error_info().unwrap().reason, reason::WORKSPACE_OWNER, "{status:?}");
    assert!(descendants(scene.supervisor.pid()).is_empty(), "no process was started");
}

#[tokio::test]
async fn what_is_the_supervisors_own_is_no_workspace() {
    let root = std::env::temp_dir().to_str().unwrap().to_owned();
    let scene =
        Scene { supervisor: SupervisorProcess::with(&SupervisorSettings { root, ..SupervisorSettings::default() }) };
    // With its socket in it.
    let dir = scene.supervisor.dir().canonicalize().unwrap();
    let state = scene.supervisor.state().canonicalize().unwrap();
    let cache = state.join("tenants/beta/cache");
    let reserved = (Code::InvalidArgument, "workspace: is a directory of the system or of the supervisor");
    let elsewhere = (Code::PermissionDenied, "workspace: not below a root of this tenant");
    for (workspace, told) in [
        (dir.as_path(), reserved),
        (&state, elsewhere),
        (&cache, elsewhere),
        (Path::new("/"), elsewhere),
        (Path::new("/etc"), elsewhere),
        (Path::new("/proc"), elsewhere),
    ] {
        let status = scene.open(workspace.to_str().unwrap()).await.unwrap_err();
        assert_eq!((status.code(), status.message()), told, "{}", workspace.display());
    }
}

#[tokio::test]
async fn what_takes_the_place_of_a_workspace_is_neither_run_nor_looked_at() {
    let scene = Scene { supervisor: SupervisorProcess::start() };
    let supervisor = &scene.supervisor;
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
        let session_id = scene.open(own.to_str().unwrap()).await.unwrap();
        swap(&own, &root.join(format!("aside-{number}")));
        let asked =
            |files: Vec<String>| RunTestsRequest { session_id: session_id.clone(), files, ..Default::default() };
        let status = match client.start(asked(Vec::new())).await {
            Ok(_) => panic!("{what}: it began"),
            Err(status) => status,
        };
        assert_eq!(status.code(), Code::FailedPrecondition, "{what}: {status:?}");
        assert_eq!(status.get_details_error_info().unwrap().reason, reason::WORKSPACE_REPLACED, "{what}");
        // Of what is there now nothing is told.
        let status = match client.start(asked(vec!["secret.go".to_owned()])).await {
            Ok(_) => panic!("{what}: it began"),
            Err(status) => status,
        };
        assert_eq!(status.message(), "files: \"secret.go\" not found in the workspace", "{what}");
    }
    // A root in whose place is a link leads nowhere, and above all not to another tenant's.
    fs::rename(&root, root.with_file_name("beta-aside")).unwrap();
    symlink("alpha", &root).unwrap();
    let status = scene.open(root.join("shop").to_str().unwrap()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "workspace: not found"));
    assert!(descendants(supervisor.pid()).is_empty(), "no process was started");
}
