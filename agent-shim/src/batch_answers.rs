//! Collects the answers to the requests of a batch, because JSON-RPC answers a batch with one array. Pure.

use rmcp::model::RequestId;
use std::collections::HashMap;

/// The open batches of one client. Their number is bounded by that of the requests in flight.
#[derive(Debug, Default)]
pub(crate) struct BatchAnswers {
    batches: HashMap<u64, OpenBatch>,
    // The batch of each unanswered request.
    batch_of: HashMap<RequestId, u64>,
    next: u64,
}

#[derive(Debug, Default)]
struct OpenBatch {
    unanswered: usize,
    // Each is one JSON object.
    answers: Vec<Vec<u8>>,
}

impl BatchAnswers {
    /// Opens a batch of these requests, some of whose messages have been answered already. Returns its answer if there is
    /// nothing to wait for; that is empty for a batch of notifications only.
    pub(crate) fn open(&mut self, requests: Vec<RequestId>, answers: Vec<Vec<u8>>) -> Option<Vec<u8>> {
        let batch = OpenBatch { unanswered: requests.len(), answers };
        if requests.is_empty() {
            return Some(batch.into_array());
        }
        self.batch_of.extend(requests.into_iter().map(|id| (id, self.next)));
        self.batches.insert(self.next, batch);
        self.next += 1;
        None
    }

    /// Whether the request belongs to a batch.
    pub(crate) fn contains(&self, id: &RequestId) -> bool {
        self.batch_of.contains_key(id)
    }

    /// Records the answer to a request of a batch, or that it was cancelled and has none. Returns the array when the batch
    /// is complete; it is empty if no request was answered.
    pub(crate) fn finish(&mut self, id: &RequestId, answer: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let number = self.batch_of.remove(id)?;
        let batch = self.batches.get_mut(&number)?;
        batch.unanswered -= 1;
        batch.answers.extend(answer);
        if batch.unanswered > 0 {
            return None;
        }
        self.batches.remove(&number).map(OpenBatch::into_array)
    }
}

impl OpenBatch {
    fn into_array(self) -> Vec<u8> {
        array(&self.answers)
    }
}

/// A JSON array of these JSON objects; empty if there is none, because JSON-RPC answers nothing then.
pub(crate) fn array(objects: &[Vec<u8>]) -> Vec<u8> {
    match objects {
        [] => Vec::new(),
        _ => [&b"["[..], &objects.join(&b","[..]), b"]"].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_array_answers_all_requests_of_a_batch() {
        let id = RequestId::Number;
        let mut batches = BatchAnswers::default();
        assert_eq!(batches.open(vec![], vec![b"1".to_vec()]).unwrap(), b"[1]");
        assert_eq!(batches.open(vec![], vec![]).unwrap(), b"");
        assert!(batches.open(vec![id(1), id(2)], vec![b"0".to_vec()]).is_none());
        assert!(batches.open(vec![id(3)], vec![]).is_none());
        assert!(batches.contains(&id(2)) && !batches.contains(&id(4)));
        assert!(batches.finish(&id(2), Some(b"2".to_vec())).is_none());
        assert_eq!(batches.finish(&id(3), None).unwrap(), b"");
        assert_eq!(batches.finish(&id(1), Some(b"1".to_vec())).unwrap(), b"[0,2,1]");
        assert!(batches.batches.is_empty() && batches.batch_of.is_empty());
    }
}
