//! Starts the response to a slow request before its answer is known, so that neither the client nor a proxy takes silence for a
//! hang. rmcp does so for requests of a session, and for others only when they report progress.

use super::error_response::JSON;
use super::response_body::{HttpResponse, ResponseBody};
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::Response;
use hyper::body::Bytes;
use hyper::body::Frame;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

/// How long the status waits for the answer. Errors that have a status of their own are found at once.
const STATUS_DELAY_MAX: Duration = Duration::from_secs(5);

/// Pause between two comments in an event stream. Proxies close streams that are silent for a minute.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

type Answer = Pin<Box<dyn Future<Output = HttpResponse> + Send>>;

enum Body {
    Waiting(Answer),
    Answered(ResponseBody),
    // An answer that is one JSON object, to be sent as an event.
    Json(ResponseBody),
}

/// The response that `answer` gives, if it comes within [`STATUS_DELAY_MAX`]; otherwise an event stream, started now, that
/// carries it later. Dropping this future or that stream cancels the request.
pub(super) async fn respond(answer: impl Future<Output = HttpResponse> + Send + 'static) -> HttpResponse {
    let mut answer: Answer = Box::pin(answer);
    if let Ok(response) = tokio::time::timeout(STATUS_DELAY_MAX, &mut answer).await {
        return response;
    }
    let frames = stream::unfold(Body::Waiting(answer), next_frame);
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

async fn next_frame(mut body: Body) -> Option<(Result<Frame<Bytes>, Infallible>, Body)> {
    loop {
        body = match body {
            Body::Waiting(mut answer) => match tokio::time::timeout(KEEP_ALIVE, &mut answer).await {
                Ok(response) if response.headers().get(CONTENT_TYPE) == Some(&JSON) => Body::Json(response.into_body()),
                Ok(response) => Body::Answered(response.into_body()),
                Err(_) => {
                    let comment = Frame::data(Bytes::from_static(b": waiting\n\n"));
                    return Some((Ok(comment), Body::Waiting(answer)));
                }
            },
            Body::Answered(mut answered) => {
                let frame = answered.frame().await?;
                return Some((frame, Body::Answered(answered)));
            }
            Body::Json(mut answered) => {
                let json = (&mut answered).collect().await.map(|whole| whole.to_bytes()).unwrap_or_default();
                if json.is_empty() {
                    return None;
                }
                let event = [&b"data: "[..], &json, b"\n\n"].concat();
                return Some((Ok(Frame::data(event.into())), Body::Answered(answered)));
            }
        };
    }
}
