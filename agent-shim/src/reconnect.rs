//! What is done between two attempts at a call when the connection is lost under the first one. Must not know what is called.

use crate::call_error::CallError;
use crate::supervisor_connection::SupervisorConnection;
use std::time::Duration;

/// Pause before a lost connection is made anew: a supervisor that restarts is back then.
const PAUSE: Duration = Duration::from_millis(200);

/// Whether there may be another connection after the one that `error` is about, if it is about one. Waits for it.
pub(crate) async fn is_worthwhile(supervisor: &SupervisorConnection, error: &CallError) -> bool {
    if !error.is_lost_connection() {
        return false;
    }
    tracing::warn!(?error, "the connection to the supervisor is lost: trying again");
    tokio::time::sleep(PAUSE).await;
    supervisor.mend().await;
    true
}

/// What came of the last attempt, with a better reason if there is one.
pub(crate) async fn explained<T>(
    supervisor: &SupervisorConnection,
    answer: Result<T, CallError>,
) -> Result<T, CallError> {
    match answer {
        Err(error) if error.is_lost_connection() => match supervisor.refusal().await {
            Some(why) => Err(why.into()),
            None => Err(error),
        },
        answer => answer,
    }
}
