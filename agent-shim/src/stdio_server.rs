//! Serves one client over stdin and stdout until it leaves or the process is to end.

use crate::end_of_input::EndOfInput;
use crate::end_of_output::EndOfOutput;
use crate::line_transport::LineTransport;
use crate::mcp_server::McpServer;
use anyhow::Context;
use rmcp::ServiceExt;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long calls may go on after the client has closed stdin. Clients wait about 2 s before they send SIGTERM; a script
/// that pipes its calls in and closes the pipe still gets the answers that are nearly complete.
const GRACE: Duration = Duration::from_secs(1);

/// How long the answers to interrupted calls may take. They are ready at once; a client that does not read gets none.
const LAST_ANSWERS_MAX: Duration = Duration::from_millis(500);

/// Serves until the client leaves or `terminated` is ready.
pub(crate) async fn serve(server: McpServer, terminated: impl Future<Output = ()>) -> anyhow::Result<()> {
    let (input, output) = rmcp::transport::io::stdio_pipes();
    let (input, end_of_input) = EndOfInput::watch(input);
    let (output, mut end_of_output) = EndOfOutput::watch(output);
    let interruption = CancellationToken::new();
    let serving = server.serve_with_ct(LineTransport::new(input, output), interruption.clone());
    let mut serving = tokio::spawn(async move {
        match serving.await {
            Ok(running) => drop(running.waiting().await),
            // A client that leaves before the handshake is not an error.
            Err(error) => tracing::debug!(%error, "no client"),
        }
    });
    let is_served = tokio::select! {
        _ = &mut serving => true,
        () = end_of_output.wait() => false,
        () = end_of_input.wait_with_grace(GRACE) => false,
        () = terminated => false,
    };
    interruption.cancel();
    if !is_served && tokio::time::timeout(LAST_ANSWERS_MAX, serving).await.is_err() {
        tracing::debug!("the client does not read the last answers");
    }
    end_of_output.error().map_or(Ok(()), |error| Err(error).context("standard output cannot be written"))
}
