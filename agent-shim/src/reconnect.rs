//! Retry of a call whose connection was lost.

use crate::call_error::CallError;
use crate::supervisor_connection::SupervisorConnection;
use std::time::Duration;

/// Pause before reconnecting: long enough for a supervisor to restart.
const PAUSE: Duration = Duration::from_millis(200);

/// Whether `error` is a lost connection, after which the call may be tried again. Pauses and resets the connection if so.
pub(crate) async fn prepare_retry(supervisor: &SupervisorConnection, error: &CallError) -> bool {
    if !error.is_lost_connection() {
        return false;
    }
    tracing::warn!(?error, "the connection to the supervisor was lost: trying again");
    tokio::time::sleep(PAUSE).await;
    supervisor.drop_dead_private().await;
    true
}

/// Replaces a lost connection in the result of the last attempt by a more specific reason, if one is found.
pub(crate) async fn explain_lost_connection<T>(
    supervisor: &SupervisorConnection,
    answer: Result<T, CallError>,
) -> Result<T, CallError> {
    match answer {
        Err(error) if error.is_lost_connection() => match supervisor.diagnose().await {
            Some(reason) => Err(reason.into()),
            None => Err(error),
        },
        answer => answer,
    }
}
