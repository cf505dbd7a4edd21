//! A scrape of a supervisor's metrics over plain HTTP, and its samples.

use crate::supervisor_process::SupervisorProcess;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// An answer of the listener of metrics.
#[derive(Debug)]
pub struct HttpAnswer {
    /// Status code.
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    /// The body.
    pub body: String,
}

/// The samples of a scrape: values by name and labels, as the text has them.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsScrape {
    /// Kind of each family by its name.
    pub kinds: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

/// The address of `/metrics` in the supervisor's log.
#[must_use]
pub fn metrics_address(supervisor: &SupervisorProcess) -> SocketAddr {
    let find = || {
        let log = supervisor.log();
        let (_, rest) = log.split_once("metrics=")?;
        rest.split_whitespace().next()?.parse().ok()
    };
    crate::process::wait_until("the supervisor listens for scrapes", || find().is_some());
    find().unwrap()
}

/// Sends a request with these header lines and reads the answer to its end.
#[must_use]
pub fn http(address: SocketAddr, request_line: &str, headers: &str) -> HttpAnswer {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{request_line} HTTP/1.1\r\nHost: proctor\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    HttpAnswer { status, head: head.to_owned(), body: body.to_owned() }
}

impl MetricsScrape {
    /// The metrics now.
    #[must_use]
    pub fn of(address: SocketAddr) -> MetricsScrape {
        let answer = http(address, "GET /metrics", "");
        assert_eq!(answer.status, 200, "{answer:?}");
        MetricsScrape::parse(&answer.body)
    }

    /// The samples of a text of version 0.0.4.
    #[must_use]
    pub fn parse(text: &str) -> MetricsScrape {
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let samples = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.rsplit_once(' ').unwrap());
        MetricsScrape {
            kinds: types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect(),
            samples: samples.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect(),
        }
    }

    /// The sum of all samples of `name` whose labels contain each of `labels`, such as `tenant="alpha"`. Of a histogram,
    /// `name` is that of its count.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let matching = self.samples.iter().filter(|(sample, _)| {
            let (base, rest) = sample.split_once('{').unwrap_or((sample, ""));
            base == name && labels.iter().all(|label| rest.contains(label))
        });
        matching.map(|(_, value)| value).sum()
    }
}
