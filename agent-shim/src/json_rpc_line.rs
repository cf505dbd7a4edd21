//! Parses one line, or one HTTP body, from the client: an MCP message, a batch, a line to ignore, or an invalid line and the
//! error to answer it with, so that no caller waits for an answer that never comes.

use rmcp::RoleServer;
use rmcp::model::{ErrorData, RequestId};
use rmcp::service::RxJsonRpcMessage;
use serde_json::Value;
use serde_json::value::RawValue;

/// Longest message from a client, in bytes. An agent writes its arguments token by token, and this is a quarter of a million
/// tokens; as a request to the supervisor it is far below that one's limit. Parsed, a hostile message of this length takes
/// about a hundred times as much for a moment.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Most messages in one batch: as many as one client may have unanswered.
pub(crate) const BATCH_MESSAGES_MAX: usize = crate::requests_in_flight::REQUESTS_MAX;

/// Byte order mark, which some clients send first.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// A parsed line.
pub(crate) enum IncomingLine {
    /// An MCP message.
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// Several messages, none of them a batch itself. Only MCP 2025-03-26 has batches.
    Batch(Vec<IncomingLine>),
    /// An empty line, or a notification unknown to MCP.
    Ignored,
    /// An invalid line: the error to answer, and the id of the request if it could be parsed.
    Invalid(ErrorData, Option<RequestId>),
}

/// Parses a line, with or without its line end.
pub(crate) fn parse_line(line: &[u8]) -> IncomingLine {
    let line = line.strip_prefix(BOM).unwrap_or(line).trim_ascii();
    match line.first() {
        None => IncomingLine::Ignored,
        Some(b'[') => parse_batch(line),
        Some(_) => parse_message(line),
    }
}

fn parse_batch(line: &[u8]) -> IncomingLine {
    // Unparsed elements take 16 bytes each, however deeply they nest.
    let elements: Vec<&RawValue> = match serde_json::from_slice(line) {
        Ok(elements) => elements,
        Err(error) => return parse_error(&error, line),
    };
    let text = match elements.len() {
        0 => "Invalid request: an empty batch".to_owned(),
        1..=BATCH_MESSAGES_MAX => {
            return IncomingLine::Batch(elements.into_iter().map(|raw| parse_message(raw.get().as_bytes())).collect());
        }
        count => format!("Invalid request: a batch of {count} messages; at most {BATCH_MESSAGES_MAX} are accepted"),
    };
    IncomingLine::Invalid(ErrorData::invalid_request(text, None), None)
}

fn parse_message(line: &[u8]) -> IncomingLine {
    if let Ok(message) = serde_json::from_slice(line) {
        return IncomingLine::Message(Box::new(message));
    }
    match serde_json::from_slice(line) {
        Ok(value) => classify_json(&value),
        Err(error) => parse_error(&error, line),
    }
}

fn parse_error(error: &serde_json::Error, line: &[u8]) -> IncomingLine {
    IncomingLine::Invalid(ErrorData::parse_error(format!("Parse error: {error}"), None), request_id(line))
}

/// The answer to a line longer than [`MESSAGE_BYTES_MAX`], of which `head` was read.
pub(crate) fn reject_long_line(head: &[u8]) -> IncomingLine {
    let text =
        format!("Invalid request: longer than {} MiB, the most that a message may have", MESSAGE_BYTES_MAX >> 20);
    IncomingLine::Invalid(ErrorData::invalid_request(text, None), request_id(head))
}

// JSON, but not an MCP message. Without a method it is not a request, so its id may be that of a request of the server and
// is not answered.
fn classify_json(value: &Value) -> IncomingLine {
    let is_call = value.get("method").is_some_and(Value::is_string);
    match value.get("id") {
        None if is_call => IncomingLine::Ignored,
        Some(id)
            if is_call
                && value["jsonrpc"] == "2.0"
                && value.get("params").is_some_and(|params| !params.is_object()) =>
        {
            IncomingLine::Invalid(
                ErrorData::invalid_params("Invalid params: an object is expected", None),
                parse_id(id),
            )
        }
        id => {
            let id = id.filter(|_| value.get("method").is_some()).and_then(parse_id);
            IncomingLine::Invalid(
                ErrorData::invalid_request("Invalid request: not a message of JSON-RPC 2.0", None),
                id,
            )
        }
    }
}

fn parse_id(id: &Value) -> Option<RequestId> {
    serde_json::from_value(id.clone()).ok()
}

// The id of a request whose line is truncated or is not valid JSON.
fn request_id(line: &[u8]) -> Option<RequestId> {
    let (mut has_method, mut id) = (false, None);
    for_each_member(line, |member| {
        has_method |= value_of(member, b"\"method\"").is_some();
        id = value_of(member, b"\"id\"").or(id);
    });
    serde_json::from_slice(id?).ok().filter(|_| has_method)
}

fn value_of<'a>(member: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = member.trim_ascii().strip_prefix(name)?.trim_ascii();
    Some(rest.strip_prefix(b":")?.trim_ascii())
}

// Visits the top-level members of the object in the line, however malformed their values are.
fn for_each_member<'a>(line: &'a [u8], mut visit: impl FnMut(&'a [u8])) {
    let (mut depth, mut start, mut at) = (0_u32, 0, 0);
    while at < line.len() {
        match line[at] {
            b'"' => at = end_of_string(line, at),
            b'{' | b'[' => {
                depth += 1;
                start = if depth == 1 { at + 1 } else { start };
            }
            b',' if depth == 1 => {
                visit(&line[start..at]);
                start = at + 1;
            }
            b'}' | b']' => {
                if depth == 1 {
                    visit(&line[start..at]);
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        at += 1;
    }
}

// Index of the closing quote of the string that begins at `start`.
fn end_of_string(line: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < line.len() && line[at] != b'"' {
        at += if line[at] == b'\\' { 2 } else { 1 };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::ErrorCode;
    use serde_json::json;

    fn error_of(line: &[u8]) -> (i32, Option<Value>) {
        match parse_line(line) {
            IncomingLine::Invalid(error, id) => (error.code.0, id.map(RequestId::into_json_value)),
            IncomingLine::Message(message) => panic!("{message:?}"),
            IncomingLine::Batch(elements) => panic!("a batch of {}", elements.len()),
            IncomingLine::Ignored => panic!("nothing"),
        }
    }

    fn call(id: &str, filter: &[u8]) -> Vec<u8> {
        let head =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"x","arguments":{{"a":"#);
        [head.as_bytes(), filter, b"}}}\n"].concat()
    }

    #[test]
    fn invalid_json_is_answered_with_the_id_of_its_request() {
        let deep = [[b'['; 200], [b']'; 200]].concat();
        for bad in [&b"NaN"[..], b"1e999", b"\"\\ud800\"", b"\"\xff\"", b"-", &deep] {
            assert_eq!(error_of(&call("7", bad)), (ErrorCode::PARSE_ERROR.0, Some(json!(7))), "{bad:?}");
            assert_eq!(
                error_of(&call("\"a,}\\\"\"", bad)),
                (ErrorCode::PARSE_ERROR.0, Some(json!("a,}\""))),
                "{bad:?}"
            );
        }
        let last = br#"{"method":"tools/call","params":{"id":1,"x":NaN,"y":"\"id\":2,"} , "id" : 3 }"#;
        assert_eq!(error_of(last), (ErrorCode::PARSE_ERROR.0, Some(json!(3))));
    }

    #[test]
    fn does_not_answer_an_id_that_belongs_to_no_request() {
        for line in
            ["garbage", "{", "\"", "{\"id\":1,\"result\":NaN}", "{\"method\":NaN}", "{\"method\":\"x\",\"id\":NaN}"]
        {
            assert_eq!(error_of(line.as_bytes()), (ErrorCode::PARSE_ERROR.0, None), "{line}");
        }
        for line in ["5", "[]", r#"{"jsonrpc":"2.0","id":1}"#, r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#] {
            assert_eq!(error_of(line.as_bytes()), (ErrorCode::INVALID_REQUEST.0, None), "{line}");
        }
    }

    #[test]
    fn json_that_is_not_a_message_is_answered_with_its_id() {
        let cases = [
            (r#"{"id":1,"method":"ping"}"#, ErrorCode::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, ErrorCode::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#, ErrorCode::INVALID_PARAMS),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":"y"}"#, ErrorCode::INVALID_PARAMS),
        ];
        for (line, code) in cases {
            assert_eq!(error_of(line.as_bytes()), (code.0, Some(json!(1))), "{line}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_answered_with_the_id_in_its_head() {
        let IncomingLine::Invalid(error, id) = reject_long_line(&call("7", b"\"xxx")[..80]) else { panic!() };
        assert_eq!((error.code, id), (ErrorCode::INVALID_REQUEST, Some(RequestId::Number(7))));
        assert_eq!(error.message, "Invalid request: longer than 1 MiB, the most that a message may have");
    }

    #[test]
    fn a_batch_has_a_bound_and_contains_no_batch() {
        let IncomingLine::Batch(elements) =
            parse_line(br#" [{"jsonrpc":"2.0","id":1,"method":"ping"}, 5, [1], {"jsonrpc":"2.0","method":"x"}]"#)
        else {
            panic!()
        };
        let kinds: Vec<&str> = elements
            .iter()
            .map(|element| match element {
                IncomingLine::Message(_) => "message",
                IncomingLine::Batch(_) => "batch",
                IncomingLine::Ignored => "ignored",
                IncomingLine::Invalid(..) => "invalid",
            })
            .collect();
        assert_eq!(kinds, ["message", "invalid", "invalid", "message"]);
        let long = format!("[{}1]", "1,".repeat(BATCH_MESSAGES_MAX));
        assert_eq!(error_of(long.as_bytes()), (ErrorCode::INVALID_REQUEST.0, None));
        for broken in ["[", "[1", "[{]"] {
            assert_eq!(error_of(broken.as_bytes()), (ErrorCode::PARSE_ERROR.0, None), "{broken}");
        }
    }

    #[test]
    fn deep_nesting_is_a_parse_error() {
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        let IncomingLine::Batch(elements) = parse_line(&deep) else { panic!() };
        assert!(matches!(&elements[..], [IncomingLine::Invalid(error, None)] if error.code == ErrorCode::PARSE_ERROR));
        assert_eq!(error_of(&call("7", &deep)), (ErrorCode::PARSE_ERROR.0, Some(json!(7))));
    }

    #[test]
    fn parses_messages_and_ignores_foreign_notifications() {
        for line in ["", " \r\n", r#"{"jsonrpc":"2.0","method":"$/x","params":[1]}"#] {
            assert!(matches!(parse_line(line.as_bytes()), IncomingLine::Ignored), "{line}");
        }
        for line in [
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/of/another"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":"😀"}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"of another"}"#,
            r#"{"jsonrpc":"2.0","id":"1","result":{}}"#,
        ] {
            assert!(matches!(parse_line(line.as_bytes()), IncomingLine::Message(_)), "{line}");
        }
    }
}
