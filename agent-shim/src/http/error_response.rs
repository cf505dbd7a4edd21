//! Error responses: an HTTP status with a JSON-RPC error as body, whatever found the error.

use super::response_body::{HttpResponse, ResponseBody, full};
use http_body_util::{BodyExt, Limited};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use rmcp::RoleServer;
use rmcp::model::{ErrorData, RequestId};
use rmcp::service::TxJsonRpcMessage;

/// Longest text of an error of rmcp that is passed on, in bytes.
const TEXT_BYTES_MAX: usize = 4_096;

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A response with this status and error.
pub(super) fn error_response(status: StatusCode, error: ErrorData, id: Option<RequestId>) -> HttpResponse {
    tracing::info!(%status, %error, "a request was refused");
    let body = serde_json::to_vec(&TxJsonRpcMessage::<RoleServer>::error(error, id)).unwrap_or_default();
    json_response(status, body)
}

/// The same, for a request that may be sent again in a second.
pub(super) fn busy_response(status: StatusCode, text: String, id: Option<RequestId>) -> HttpResponse {
    let mut response = error_response(status, ErrorData::new(crate::requests_in_flight::BUSY, text, None), id);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// A response with this JSON as body.
pub(super) fn json_response(status: StatusCode, body: Vec<u8>) -> HttpResponse {
    let mut response = Response::new(full(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// rmcp refuses some requests with a line of text: the same status with a JSON-RPC error.
pub(super) async fn with_typed_error(response: HttpResponse, id: Option<RequestId>) -> HttpResponse {
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    if !is_error || response.headers().get(CONTENT_TYPE) == Some(&JSON) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let text = read_text(body).await;
    let error = match parts.status.is_server_error() {
        true => ErrorData::internal_error(text, None),
        false => ErrorData::invalid_request(text, None),
    };
    let (typed, body) = error_response(parts.status, error, id).into_parts();
    parts.headers.extend(typed.headers);
    Response::from_parts(parts, body)
}

async fn read_text(body: ResponseBody) -> String {
    let bytes = Limited::new(body, TEXT_BYTES_MAX).collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
