//! The HTTP endpoint: checks origin, credentials and rate, and finds the workspace of a path.

use super::HttpWorkspace;
use super::anonymous_connections::ConnectionEntry;
use super::authorization::{Authorization, Credentials, METADATA_PATH, challenge};
use super::early_headers::KEEP_ALIVE;
use super::error_response::{busy_response, error_response, json_response};
use super::messages::Messages;
use super::request_rate::RequestRate;
use super::response_body::HttpResponse;
use super::tls::ClientCertificates;
use crate::command_line::{HttpSettings, MCP_PATH, mcp_path};
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use hyper::{Method, Request, StatusCode};
use rmcp::model::ErrorData;
use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// Names by which this host reaches itself.
const LOOPBACK_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The endpoint.
pub(super) struct Endpoint {
    authorization: Authorization,
    rate: RequestRate,
    // Origins of pages that may call: the server's own only, since it serves none.
    origins: Vec<String>,
    // `http` or `https`.
    scheme: &'static str,
    // `host:port` by which callers on this host may name the server.
    loopback_authorities: Vec<String>,
    // URL of the server without a path, for callers elsewhere.
    base: String,
    workspaces: Vec<(Option<String>, Messages)>,
}

impl Endpoint {
    /// An endpoint at `address`. `interruption` ends its event streams.
    pub(super) fn new(
        settings: &HttpSettings,
        address: SocketAddr,
        authorization: Authorization,
        workspaces: Vec<HttpWorkspace>,
        interruption: &CancellationToken,
    ) -> Endpoint {
        let scheme = settings.scheme();
        let port = address.port();
        let mut loopback_authorities: Vec<String> =
            LOOPBACK_HOSTS.iter().map(|host| format!("{host}:{port}")).collect();
        // Another address of the loopback network.
        let own = address.to_string();
        if address.ip().is_loopback() && !loopback_authorities.contains(&own) {
            loopback_authorities.push(own);
        }
        let mut origins: Vec<String> = loopback_authorities.iter().map(|host| format!("{scheme}://{host}")).collect();
        origins.extend(settings.url.as_ref().map(|url| url.origin_with_port.clone()));
        let mut hosts = loopback_authorities.clone();
        hosts.extend(settings.url.as_ref().map(|url| url.host.clone()));
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts)
            .with_allowed_origins(origins.clone())
            .enforce_origin_validation()
            .with_max_request_body_bytes(crate::json_rpc_line::MESSAGE_BYTES_MAX)
            .with_cancellation_token(interruption.clone());
        // Browsers leave the usual port out.
        origins.extend(settings.url.as_ref().map(|url| url.origin.clone()));
        config.json_response = true;
        config.sse_keep_alive = Some(KEEP_ALIVE);
        let workspaces = workspaces
            .into_iter()
            .map(|workspace| (workspace.name, Messages::new(workspace.server, config.clone())))
            .collect();
        let base = settings.url.as_ref().map_or_else(|| format!("{scheme}://{address}"), |url| url.origin.clone());
        // With a configured URL only that one is an audience: a caller must not choose it by the name of its own machine.
        loopback_authorities.retain(|_| settings.url.is_none());
        let rate = RequestRate::new(Instant::now());
        Endpoint { authorization, rate, origins, scheme, loopback_authorities, base, workspaces }
    }

    /// The URLs of the workspaces at `address`.
    pub(super) fn urls(&self, address: SocketAddr) -> Vec<String> {
        let paths = self.workspaces.iter().map(|(name, _)| mcp_path(name.as_deref()));
        paths.map(|path| format!("{}://{address}{path}", self.scheme)).collect()
    }

    /// Answers one request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> HttpResponse {
        let headers = request.headers();
        if let Some(origin) = headers.get(ORIGIN).filter(|origin| !self.is_own(origin)) {
            let text = format!(
                "Forbidden: pages of {:?} may not call this server",
                String::from_utf8_lossy(origin.as_bytes())
            );
            return error_response(StatusCode::FORBIDDEN, ErrorData::invalid_request(text, None), None);
        }
        let path = request.uri().path().to_owned();
        if let Some(resource) = path.strip_prefix(METADATA_PATH) {
            return self.describe(resource, headers, request.method());
        }
        let certificates = request.extensions().get::<ClientCertificates>();
        let credentials = self.authorization.check(headers, certificates, &(self.base_for(headers) + &path));
        if credentials != Credentials::Valid {
            return self.refuse(&credentials, headers, &path);
        }
        request.extensions().get::<Arc<ConnectionEntry>>().iter().for_each(|connection| connection.identify());
        if !self.rate.accept(Instant::now()) {
            let text = "busy: too many requests per second; wait a second".to_owned();
            return busy_response(StatusCode::TOO_MANY_REQUESTS, text, None);
        }
        let Some(messages) = self.workspace(&path) else { return self.not_found() };
        match *request.method() {
            Method::POST => messages.post(request).await,
            Method::GET => messages.get(request).await,
            _ => messages.other(request).await,
        }
    }

    fn is_own(&self, origin: &HeaderValue) -> bool {
        self.origins.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(origin.as_bytes()))
    }

    // The URL by which the caller knows the server, so that it recognises its resource.
    fn base_for(&self, headers: &HeaderMap) -> String {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        match host.filter(|host| self.loopback_authorities.iter().any(|own| own == host)) {
            Some(host) => format!("{}://{host}", self.scheme),
            None => self.base.clone(),
        }
    }

    fn describe(&self, resource: &str, headers: &HeaderMap, method: &Method) -> HttpResponse {
        // The same for every path, so that nobody without access learns the names.
        let resource = match resource {
            "" | "/" => MCP_PATH,
            path if is_mcp_path(path) => path,
            _ => return self.not_found(),
        };
        if *method != Method::GET {
            let error = ErrorData::invalid_request("Method Not Allowed: the metadata is read by GET", None);
            return error_response(StatusCode::METHOD_NOT_ALLOWED, error, None);
        }
        json_response(StatusCode::OK, self.authorization.metadata(&(self.base_for(headers) + resource)))
    }

    fn refuse(&self, credentials: &Credentials, headers: &HeaderMap, path: &str) -> HttpResponse {
        let error = ErrorData::invalid_request(self.authorization.refusal(credentials), None);
        let mut response = error_response(StatusCode::UNAUTHORIZED, error, None);
        let path = if is_mcp_path(path) { path } else { MCP_PATH };
        if let Ok(value) = challenge(credentials, &self.base_for(headers), path).parse() {
            response.headers_mut().insert(WWW_AUTHENTICATE, value);
        }
        response
    }

    fn workspace(&self, path: &str) -> Option<&Messages> {
        let name = path.strip_prefix(MCP_PATH)?;
        let name = name.strip_prefix('/').or_else(|| name.is_empty().then_some(""))?;
        if let ("", [(_, only)]) = (name, &self.workspaces[..]) {
            return Some(only);
        }
        self.workspaces.iter().find(|(known, _)| known.as_deref() == Some(name)).map(|(_, messages)| messages)
    }

    fn not_found(&self) -> HttpResponse {
        let text = match &self.workspaces[..] {
            [_] => format!("Not Found: the only path is {MCP_PATH}"),
            _ => format!("Not Found: the paths are {MCP_PATH}/NAME, with a name of --workspace NAME=DIR"),
        };
        error_response(StatusCode::NOT_FOUND, ErrorData::invalid_request(text, None), None)
    }
}

// Of a form that may stand in a header.
fn is_mcp_path(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-".contains(&byte);
    path.starts_with(MCP_PATH) && path.len() <= 128 && path.bytes().all(is_plain)
}
