//! The reasons in the `ErrorInfo` of an error, domain [`DOMAIN`], so that programs need not parse messages. Every error has
//! one; without a specific reason it is the name of the status code (`INTERNAL`, `UNIMPLEMENTED`).

/// Domain of every `ErrorInfo` of proctor.
pub const DOMAIN: &str = "proctor";

/// No framework recognises a project in the workspace.
pub const NO_PROJECT: &str = "NO_PROJECT";
/// Several frameworks were detected, and the request names none.
pub const POLYGLOT: &str = "POLYGLOT";
/// The project file of the workspace is invalid; the message names line and key.
pub const PROJECT_FILE: &str = "PROJECT_FILE";
/// The requested framework has no project in the workspace.
pub const FRAMEWORK_NOT_HERE: &str = "FRAMEWORK_NOT_HERE";
/// The program of the runner is not on PATH.
pub const RUNNER_MISSING: &str = "RUNNER_MISSING";
/// A required layer of the sandbox is unavailable.
pub const LAYER_MISSING: &str = "LAYER_MISSING";
/// A limit that the request names cannot be enforced.
pub const LIMIT_MISSING: &str = "LIMIT_MISSING";
/// The run needs more commands than a run may have.
pub const TOO_MANY_COMMANDS: &str = "TOO_MANY_COMMANDS";
/// The workspace's directory was moved, replaced or removed since the session was created.
pub const WORKSPACE_REPLACED: &str = "WORKSPACE_REPLACED";
/// The workspace is owned by a user outside the tenant's UID range. Metadata `uid`: the UID that should own it.
pub const WORKSPACE_OWNER: &str = "WORKSPACE_OWNER";
/// The host lacked descriptors or memory, failed, or lost the run's sandbox before the first command. Nothing ran; the request
/// is not the cause and may be repeated. In the middle of an event stream: the next event could not be read back, and the
/// stream can be resumed there.
pub const HOST_FAILED: &str = "HOST_FAILED";
/// Another run is in progress, and the request refuses to wait (`IF_BUSY_REFUSE`).
pub const BUSY: &str = "BUSY";
/// No run has ended in this session.
pub const NO_RUN_YET: &str = "NO_RUN_YET";
/// The session dropped the run while it was being read. A session retains the 16 runs that ended last, or fewer if the tenant
/// exceeds its quota `kept`.
pub const RUN_FORGOTTEN: &str = "RUN_FORGOTTEN";
/// No run with this id is queued or running.
pub const RUN_ENDED: &str = "RUN_ENDED";
/// The last run had no failures. Metadata `framework`: its framework.
pub const NOTHING_TO_RERUN: &str = "NOTHING_TO_RERUN";
/// No test is affected by the changes, or no file that a check looks at changed. Metadata `since`: the state they were compared
/// with; `left_out`: the number of tests.
pub const NOTHING_AFFECTED: &str = "NOTHING_AFFECTED";
/// No checker of the requested kinds or names is set up in the workspace. The text says what sets one up.
pub const NO_CHECKER: &str = "NO_CHECKER";
/// A quota is used up, or too small for the request. Metadata `quota`: its name; for a tenant's quota, its key in the host file.
pub const QUOTA: &str = "QUOTA";
/// The caller's credential is missing or unknown.
pub const UNAUTHENTICATED: &str = "UNAUTHENTICATED";
/// The caller is an operator and not a tenant.
pub const NOT_A_TENANT: &str = "NOT_A_TENANT";
/// The call is reserved for operators.
pub const OPERATORS_ONLY: &str = "OPERATORS_ONLY";
/// The caller has no session, run or artifact of this name. The answer is the same if another tenant has one.
pub const NOT_YOURS: &str = "NOT_YOURS";
/// The workspace is not below a root of the tenant.
pub const WORKSPACE_ELSEWHERE: &str = "WORKSPACE_ELSEWHERE";
/// The tenant may not use the host's network.
pub const NETWORK_DENIED: &str = "NETWORK_DENIED";
/// The supervisor is shutting down and accepts nothing new.
pub const DRAINING: &str = "DRAINING";
/// The history of runs cannot be read now: locked, damaged, from a newer version, or its disk failed. The text says which.
pub const HISTORY_UNAVAILABLE: &str = "HISTORY_UNAVAILABLE";
/// An argument is invalid. Metadata `field`: its name.
pub const INVALID_ARGUMENT: &str = "INVALID_ARGUMENT";
/// The cursor is beyond the run's next event.
pub const CURSOR_BEYOND: &str = "CURSOR_BEYOND";
/// The request is too large.
pub const REQUEST_TOO_LARGE: &str = "REQUEST_TOO_LARGE";
/// The request did not arrive in time.
pub const REQUEST_LATE: &str = "REQUEST_LATE";
/// The caller's own deadline passed before the answer.
pub const DEADLINE_EXCEEDED: &str = "DEADLINE_EXCEEDED";
