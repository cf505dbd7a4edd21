//! Messages before the server knows the client's version of MCP. rmcp ends the server at the first message that it does not
//! expect there; this module keeps such messages from it. Pure.

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, GetMeta, InitializeRequestParams, ProtocolVersion};
use rmcp::service::RxJsonRpcMessage;
use serde_json::Value;

/// What to do with a message.
#[derive(Debug, PartialEq)]
pub(crate) enum HandshakeStep {
    /// Give it to rmcp.
    Pass,
    /// A notification or an answer, which has no effect before the handshake.
    Drop,
    /// A request that cannot be carried out: its error.
    Refuse(ErrorData),
}

/// Whether the client's version is known: from `initialize`, or from a request that names it (2026-07-28).
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    is_done: bool,
}

impl Handshake {
    /// Judges the next message.
    pub(crate) fn check(&mut self, message: &RxJsonRpcMessage<RoleServer>) -> HandshakeStep {
        if self.is_done {
            return HandshakeStep::Pass;
        }
        let ClientJsonRpcMessage::Request(request) = message else { return HandshakeStep::Drop };
        let meta = request.request.get_meta();
        match &request.request {
            ClientRequest::InitializeRequest(_) => {
                self.is_done = true;
                HandshakeStep::Pass
            }
            ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => HandshakeStep::Pass,
            ClientRequest::CustomRequest(custom) if custom.method == "initialize" => {
                HandshakeStep::Refuse(initialize_error(custom.params.as_ref()))
            }
            _ => match meta.protocol_version() {
                None => HandshakeStep::Refuse(ErrorData::invalid_request(
                    "Invalid request: initialize comes first; from 2026-07-28 on, every request has _meta with \
                     io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities",
                    None,
                )),
                // rmcp refuses the rest by name.
                Some(version) => {
                    let is_complete = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty();
                    self.is_done = is_complete && ProtocolVersion::KNOWN_VERSIONS.contains(&version);
                    HandshakeStep::Pass
                }
            },
        }
    }
}

/// Why `params` are not those of `initialize`.
pub(crate) fn initialize_error(params: Option<&Value>) -> ErrorData {
    let params = params.cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    let text = match serde_json::from_value::<InitializeRequestParams>(params) {
        Err(error) => format!("Invalid params: initialize: {error}"),
        Ok(_) => "Invalid params: initialize takes protocolVersion, capabilities and clientInfo".to_owned(),
    };
    ErrorData::invalid_params(text, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(handshake: &mut Handshake, message: Value) -> HandshakeStep {
        handshake.check(&serde_json::from_value(message).unwrap())
    }

    fn request(method: &str, params: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    }

    fn hello() -> Value {
        let client = json!({"name": "t", "version": "0"});
        request("initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}))
    }

    #[test]
    fn drops_what_is_no_request_until_the_version_is_known() {
        let mut handshake = Handshake::default();
        let notification =
            || json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        for early in [
            notification(),
            json!({"jsonrpc": "2.0", "method": "notifications/of/another"}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}),
        ] {
            assert_eq!(check(&mut handshake, early), HandshakeStep::Drop);
        }
        assert_eq!(check(&mut handshake, request("ping", json!({}))), HandshakeStep::Pass);
        assert_eq!(check(&mut handshake, notification()), HandshakeStep::Drop);
        assert_eq!(check(&mut handshake, hello()), HandshakeStep::Pass);
        assert_eq!(check(&mut handshake, notification()), HandshakeStep::Pass);
    }

    #[test]
    fn a_malformed_initialize_is_told_what_is_wrong() {
        for (params, what) in [
            (json!({"protocolVersion": "2025-06-18", "capabilities": {}}), "missing field `clientInfo`"),
            (
                json!({"capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}),
                "missing field `protocolVersion`",
            ),
            (
                json!({"protocolVersion": 7, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}),
                "integer `7`",
            ),
        ] {
            let mut handshake = Handshake::default();
            let HandshakeStep::Refuse(error) = check(&mut handshake, request("initialize", params)) else { panic!() };
            assert!(
                error.message.starts_with("Invalid params: initialize: ") && error.message.contains(what),
                "{error}"
            );
            assert_eq!(check(&mut handshake, hello()), HandshakeStep::Pass, "the client may try again");
        }
    }

    #[test]
    fn a_request_that_names_its_version_needs_no_initialize() {
        let list = |meta: Value| request("tools/list", json!({"_meta": meta}));
        let mut handshake = Handshake::default();
        let HandshakeStep::Refuse(error) = check(&mut handshake, list(json!({}))) else { panic!() };
        assert!(error.message.contains("initialize comes first"), "{error}");
        let version = "io.modelcontextprotocol/protocolVersion";
        let capabilities = "io.modelcontextprotocol/clientCapabilities";
        check(&mut handshake, list(json!({version: "2026-07-28"})));
        check(&mut handshake, list(json!({version: "2999-01-01", capabilities: {}})));
        assert!(!handshake.is_done, "rmcp refuses these two and waits on");
        check(&mut handshake, list(json!({version: "2026-07-28", capabilities: {}})));
        assert!(handshake.is_done);
    }
}
