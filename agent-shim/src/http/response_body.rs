//! Bodies of responses.

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::body::Bytes;
use std::convert::Infallible;

/// The body of every response.
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

pub(super) type HttpResponse = Response<ResponseBody>;

/// A body of these bytes.
pub(super) fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    Full::new(bytes.into()).boxed_unsync()
}

/// The response, whose body keeps `guard` until the client has it or has left.
pub(super) fn hold<G: Send + 'static>(response: HttpResponse, guard: G) -> HttpResponse {
    response.map(|body| {
        body.map_frame(move |frame| {
            _ = &guard;
            frame
        })
        .boxed_unsync()
    })
}
