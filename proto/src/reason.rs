//! The reasons that an `ErrorInfo` of domain [`DOMAIN`] may carry, so that programs need not read texts.

/// The domain of every `ErrorInfo` of proctor.
pub const DOMAIN: &str = "proctor";

/// No project that any framework knows.
pub const NO_PROJECT: &str = "NO_PROJECT";
/// Several frameworks, and the request names none.
pub const POLYGLOT: &str = "POLYGLOT";
/// The project file of the workspace is wrong; the text names its line and key.
pub const PROJECT_FILE: &str = "PROJECT_FILE";
/// The named framework has no project here.
pub const FRAMEWORK_NOT_HERE: &str = "FRAMEWORK_NOT_HERE";
/// The runner's program is not on PATH.
pub const RUNNER_MISSING: &str = "RUNNER_MISSING";
/// A required layer of the sandbox is not available.
pub const LAYER_MISSING: &str = "LAYER_MISSING";
/// A limit that was asked for by name cannot be enforced.
pub const LIMIT_MISSING: &str = "LIMIT_MISSING";
/// The run would need more commands than a run may have.
pub const TOO_MANY_COMMANDS: &str = "TOO_MANY_COMMANDS";
/// The workspace's directory was moved, replaced or removed since the session was created.
pub const WORKSPACE_REPLACED: &str = "WORKSPACE_REPLACED";
/// The workspace belongs to a user who is none of the tenant's. Metadata `uid` names the one to give it to.
pub const WORKSPACE_OWNER: &str = "WORKSPACE_OWNER";
/// The host was short of something (descriptors, memory), failed, or lost the run's sandbox before the first command. Nothing
/// was run; the request is not the cause and may be sent again. In the middle of a stream of events: the next one could not be
/// read back, and the stream may be taken up again from there.
pub const HOST_FAILED: &str = "HOST_FAILED";
/// Another run is going on and the request refuses to wait.
pub const BUSY: &str = "BUSY";
/// No run has ended in this session.
pub const NO_RUN_YET: &str = "NO_RUN_YET";
/// The run was forgotten while it was read: its session keeps the 16 runs that ended last, and fewer where its tenant keeps too
/// much (quota `kept`).
pub const RUN_FORGOTTEN: &str = "RUN_FORGOTTEN";
/// The last run had no failures. Metadata `framework` names its framework.
pub const NOTHING_TO_RERUN: &str = "NOTHING_TO_RERUN";
/// A quota is used up, or too small for what was asked. Metadata `quota` names it: a tenant's by its key in the host file.
pub const QUOTA: &str = "QUOTA";
