//! Mistakes in opening sessions, above all workspaces that are not the tenant's, by any way around.

use proctor_proto::v1::CreateSessionRequest;
use proctor_tests::supervisor::Supervisor;
use std::fs;
use std::os::unix::fs::symlink;
use tonic::{Code, Status};
use tonic_types::StatusExt;

struct Scene {
    supervisor: Supervisor,
}

impl Scene {
    async fn open(&self, workspace: &str) -> Result<String, Status> {
        self.open_as(workspace, "").await
    }

    async fn open_as(&self, workspace: &str, client_request_id: &str) -> Result<String, Status> {
        let request =
            CreateSessionRequest { workspace: workspace.to_owned(), client_request_id: client_request_id.to_owned() };
        let answer = self.supervisor.client("beta").await.sessions.create_session(request).await?;
        Ok(answer.into_inner().session.unwrap().session_id)
    }
}

#[tokio::test]
async fn a_workspace_outside_the_roots_is_denied_by_every_way_to_it() {
    let scene = Scene { supervisor: Supervisor::start() };
    let root = scene.supervisor.root("beta");
    let others = scene.supervisor.workspace("alpha", "shop", "go/pass");
    let own = scene.supervisor.workspace("beta", "shop", "go/pass");
    symlink(&others, root.join("theirs")).unwrap();
    symlink("/", root.join("everything")).unwrap();
    symlink("../alpha", root.join("up")).unwrap();
    // A link that stays inside is fine.
    symlink("shop", root.join("alias")).unwrap();
    assert_ne!(scene.open(root.join("alias").to_str().unwrap()).await.unwrap(), "");

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
    let scene = Scene { supervisor: Supervisor::start() };
    let root = scene.supervisor.root("beta");
    fs::write(root.join("file"), "").unwrap();
    for (workspace, text) in [
        (String::new(), "workspace must be an absolute path"),
        ("shop".to_owned(), "workspace must be an absolute path"),
        (root.join("gone").display().to_string(), "workspace: not found"),
        (root.join("file").display().to_string(), "workspace: not a directory"),
    ] {
        let status = scene.open(&workspace).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, text));
        assert_eq!(status.get_details_bad_request().unwrap().field_violations[0].field, "workspace");
    }
    let long = scene.open_as(root.to_str().unwrap(), &"x".repeat(129)).await.unwrap_err();
    assert_eq!(long.get_details_bad_request().unwrap().field_violations[0].field, "client_request_id");
}
