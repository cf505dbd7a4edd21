//! The reasons that an `ErrorInfo` of domain [`DOMAIN`] may carry, so that programs need not read texts. Every error has one;
//! where nothing more is known, it is the name of the status code (`INTERNAL`, `UNIMPLEMENTED`).

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
/// What the caller shows of itself is missing or not known.
pub const UNAUTHENTICATED: &str = "UNAUTHENTICATED";
/// The caller is an operator and no tenant.
pub const NOT_A_TENANT: &str = "NOT_A_TENANT";
/// The call is for operators.
pub const OPERATORS_ONLY: &str = "OPERATORS_ONLY";
/// No session, run or artefact of that name is the caller's. The same whether somebody else has one.
pub const NOT_YOURS: &str = "NOT_YOURS";
/// The workspace is below no root of the tenant's.
pub const WORKSPACE_ELSEWHERE: &str = "WORKSPACE_ELSEWHERE";
/// The tenant may not use the host's network.
pub const NETWORK_DENIED: &str = "NETWORK_DENIED";
/// The supervisor goes down and takes on nothing new.
pub const DRAINING: &str = "DRAINING";
/// The call is none of this version's.
pub const NOT_IN_THIS_VERSION: &str = "NOT_IN_THIS_VERSION";
/// An argument is wrong. Metadata `field` names it.
pub const INVALID_ARGUMENT: &str = "INVALID_ARGUMENT";
/// The cursor is beyond the run's next event.
pub const CURSOR_BEYOND: &str = "CURSOR_BEYOND";
/// The request is larger than it may be.
pub const REQUEST_TOO_LARGE: &str = "REQUEST_TOO_LARGE";
/// The request did not come to its end in time.
pub const REQUEST_LATE: &str = "REQUEST_LATE";
/// There was no answer within the caller's own deadline.
pub const DEADLINE_EXCEEDED: &str = "DEADLINE_EXCEEDED";
