//! Checks of a request's headers before anything else: the name under which the browser found the page, and the origin of
//! the document that sent the request. They keep pages of other origins out, also those whose name leads to loopback.

use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, Uri};
use std::net::IpAddr;
use std::sync::Arc;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Names under which browsers may find the page, beside those of loopback.
#[derive(Debug, Clone)]
pub(super) struct HostNames(Arc<[String]>);

/// How the browser reaches the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    /// Over loopback, where plain HTTP is as good as a cookie needs.
    Loopback,
    /// Under a name of the host file: through a TLS proxy.
    Proxy,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The page has no such name.
    ForeignHost,
    /// A document of another origin sent the request, or a changing request does not say which one did.
    ForeignOrigin,
}

impl HostNames {
    pub(super) fn new(names: &[String]) -> HostNames {
        HostNames(names.iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Checks the headers of a request. `has_bearer` is whether it has a credential that no browser adds by itself.
    pub(super) fn check(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        has_bearer: bool,
    ) -> Result<Transport, Refusal> {
        let host: Authority = only(headers, &HOST).and_then(|host| host.parse().ok()).ok_or(Refusal::ForeignHost)?;
        let transport = self.transport(host.host()).ok_or(Refusal::ForeignHost)?;
        let is_read = matches!(*method, Method::GET | Method::HEAD);
        // Somebody may come to the page by a link from anywhere; its cookie does not come along.
        let is_visit = is_read && path == "/" && only(headers, &FETCH_MODE) == Some("navigate");
        let site = headers.get(&FETCH_SITE).map(|site| site.as_bytes());
        if !is_visit && site.is_some_and(|site| site != b"same-origin" && site != b"none") {
            return Err(Refusal::ForeignOrigin);
        }
        let is_same = match headers.contains_key(ORIGIN) {
            true => only(headers, &ORIGIN).is_some_and(|origin| is_origin_of(origin, &host, transport)),
            false => is_read || has_bearer,
        };
        if is_same { Ok(transport) } else { Err(Refusal::ForeignOrigin) }
    }

    fn transport(&self, host: &str) -> Option<Transport> {
        let host = host.to_ascii_lowercase();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        // Browsers resolve names below `localhost` to loopback themselves.
        let is_local = host == "localhost" || host.ends_with(".localhost") || address.is_ok_and(|ip| ip.is_loopback());
        if is_local {
            return Some(Transport::Loopback);
        }
        self.0.contains(&host).then_some(Transport::Proxy)
    }
}

// The value of a header that is given once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    value.to_str().ok()
}

fn is_origin_of(origin: &str, host: &Authority, transport: Transport) -> bool {
    let Ok(origin) = origin.parse::<Uri>() else { return false };
    let is_web = match origin.scheme_str() {
        Some("https") => true,
        // Behind a proxy, a document that came without TLS may be of anybody on the way.
        Some("http") => transport == Transport::Loopback,
        _ => false,
    };
    is_web && origin.authority().is_some_and(|authority| authority == host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &Method, path: &str, headers: &[(&'static str, &str)]) -> Result<Transport, Refusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        HostNames::new(&["Proctor.example.org".to_owned()]).check(method, path, &map, false)
    }

    #[test]
    fn only_names_of_loopback_and_of_the_host_file_are_its_own() {
        for (host, expected) in [
            ("localhost:9464", Ok(Transport::Loopback)),
            ("proctor.localhost:9464", Ok(Transport::Loopback)),
            ("127.0.0.1:9464", Ok(Transport::Loopback)),
            ("[::1]:9464", Ok(Transport::Loopback)),
            ("PROCTOR.example.org", Ok(Transport::Proxy)),
            ("proctor.example.org.evil.org", Err(Refusal::ForeignHost)),
            ("localhost.evil.org", Err(Refusal::ForeignHost)),
            ("evillocalhost", Err(Refusal::ForeignHost)),
            ("192.0.2.1:9464", Err(Refusal::ForeignHost)),
            ("", Err(Refusal::ForeignHost)),
        ] {
            assert_eq!(check(&Method::GET, "/", &[("host", host)]), expected, "{host}");
        }
        assert_eq!(check(&Method::GET, "/", &[]), Err(Refusal::ForeignHost));
        let twice = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(check(&Method::GET, "/", &twice), Err(Refusal::ForeignHost));
    }

    #[test]
    fn a_document_of_another_origin_changes_and_reads_nothing() {
        let host = ("host", "localhost:9464");
        let refused = Err(Refusal::ForeignOrigin);
        assert_eq!(check(&Method::POST, "/drain", &[host]), refused, "a browser names the origin of a POST");
        let same = ("origin", "http://localhost:9464");
        assert!(check(&Method::POST, "/drain", &[host, same]).is_ok());
        for foreign in [
            "null",
            "http://localhost:9465",
            "http://localhost",
            "http://evil.org",
            "file://localhost:9464",
            "http://localhost:9464.evil.org",
        ] {
            assert_eq!(check(&Method::POST, "/drain", &[host, ("origin", foreign)]), refused, "{foreign}");
            assert_eq!(check(&Method::GET, "/events", &[host, ("origin", foreign)]), refused, "{foreign}");
        }
        assert_eq!(check(&Method::POST, "/drain", &[host, same, same]), refused);
        for site in ["cross-site", "same-site", "nonsense"] {
            let site = ("sec-fetch-site", site);
            assert_eq!(check(&Method::GET, "/events", &[host, site]), refused);
            assert_eq!(check(&Method::POST, "/drain", &[host, same, site]), refused);
            assert_eq!(check(&Method::GET, "/", &[host, site]), refused, "an image or a frame");
            assert!(check(&Method::GET, "/", &[host, site, ("sec-fetch-mode", "navigate")]).is_ok());
        }
        assert!(check(&Method::GET, "/events", &[host, ("sec-fetch-site", "same-origin")]).is_ok());
    }

    #[test]
    fn behind_a_proxy_the_origin_has_tls() {
        let check = |origin| check(&Method::POST, "/drain", &[("host", "proctor.example.org"), ("origin", origin)]);
        assert_eq!(check("https://proctor.example.org"), Ok(Transport::Proxy));
        assert_eq!(check("http://proctor.example.org"), Err(Refusal::ForeignOrigin));
    }

    #[test]
    fn a_bearer_token_needs_no_origin_but_none_of_others() {
        let names = HostNames::new(&[]);
        let mut headers = HeaderMap::from_iter([(HOST, "localhost".parse().unwrap())]);
        assert!(names.check(&Method::POST, "/drain", &headers, true).is_ok());
        headers.insert(ORIGIN, "http://evil.org".parse().unwrap());
        assert_eq!(names.check(&Method::POST, "/drain", &headers, true), Err(Refusal::ForeignOrigin));
    }
}
