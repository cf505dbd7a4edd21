//! MCP over streamable HTTP, for many agents of one tenant.
//!
//! A request passes these in this order: the listener (`listener`: bounds of connections, TLS), the endpoint (`endpoint`: origin,
//! credentials, rate, path), the messages of a POST (`messages`: size, JSON, batches, ids in use), rmcp's service, which checks
//! host and headers and speaks the protocol.
//!
//! Tasks: the accept loop; one per connection; rmcp's, of which each session has two, and each request without a session
//! one. Locks: the files as last read, the open sessions, the connections without credentials yet, the rate; each is held
//! for a look-up only.

mod access_token;
mod anonymous_connections;
mod authorization;
mod early_headers;
mod endpoint;
mod error_response;
mod listener;
mod messages;
mod request_rate;
mod response_body;
mod sessions;
mod tls;
mod watched_files;

pub(crate) use listener::HttpServer;
pub(crate) use tls::read_certificates;

use crate::command_line::HttpSettings;
use crate::mcp_server::McpServer;

/// Header with the id of an MCP session.
pub(crate) const SESSION_HEADER: &str = "mcp-session-id";

/// Id of the MCP session of a request, as an extension of the request. Only sessions that are open have one: any text may
/// stand in the header.
#[derive(Debug, Clone)]
pub(crate) struct OpenSessionId(pub(crate) std::sync::Arc<str>);

/// One configured workspace.
pub(crate) struct HttpWorkspace {
    /// Its name in the path; `None` for the only one, which is at `/mcp`.
    pub(crate) name: Option<String>,
    pub(crate) server: McpServer,
}

/// Starts to listen; returns the server, which serves once it is run.
pub(crate) async fn bind(settings: &HttpSettings, workspaces: Vec<HttpWorkspace>) -> anyhow::Result<HttpServer> {
    HttpServer::bind(settings, workspaces).await
}
