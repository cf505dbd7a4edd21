//! The ids of one client's requests that are not answered yet. Pure.

use rmcp::model::{ErrorCode, ErrorData, RequestId};
use std::collections::HashSet;

/// Most unanswered requests of one client. A person's client has a handful; each one is a task, and may be a call to the
/// supervisor.
pub(crate) const REQUESTS_MAX: usize = 64;

/// Code of the error for a request that was not carried out because the server has too much to do. MCP reserves none.
pub(crate) const BUSY: ErrorCode = ErrorCode(-32_000);

/// The unanswered requests.
#[derive(Debug, Default)]
pub(crate) struct RequestsInFlight(HashSet<RequestId>);

impl RequestsInFlight {
    /// Records a request. Refuses an id that is in use: of two answers with one id, the client could match only one.
    pub(crate) fn start(&mut self, id: &RequestId) -> Result<(), ErrorData> {
        if self.0.contains(id) {
            let text = format!("Invalid request: id {id} belongs to a request that is not answered yet");
            return Err(ErrorData::invalid_request(text, None));
        }
        if self.0.len() >= REQUESTS_MAX {
            let text = format!("busy: {REQUESTS_MAX} requests are not answered yet; wait for one of them");
            return Err(ErrorData::new(BUSY, text, None));
        }
        self.0.insert(id.clone());
        Ok(())
    }

    /// Forgets a request that was answered or cancelled.
    pub(crate) fn finish(&mut self, id: &RequestId) {
        self.0.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_an_id_in_use_and_too_many_requests() {
        let id = |number: usize| RequestId::Number(i64::try_from(number).unwrap());
        let mut requests = RequestsInFlight::default();
        requests.start(&id(1)).unwrap();
        assert_eq!(requests.start(&id(1)).unwrap_err().code, ErrorCode::INVALID_REQUEST);
        requests.start(&RequestId::String("1".into())).unwrap();
        requests.finish(&id(1));
        for number in 1..REQUESTS_MAX {
            requests.start(&id(number)).unwrap();
        }
        let error = requests.start(&id(REQUESTS_MAX)).unwrap_err();
        assert_eq!((error.code, error.message.starts_with("busy: 64 requests")), (BUSY, true));
        requests.finish(&id(5));
        requests.start(&id(REQUESTS_MAX)).unwrap();
    }
}
