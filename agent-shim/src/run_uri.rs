//! URIs of what a run left: `proctor://runs/<id>/report`, `stdout`, `stderr` and `artifacts/<name>`, and
//! the report in another format under its name, such as `junit`. The name of an artifact is
//! percent-encoded, except for its slashes.

use crate::run_output::stream_name;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use proctor_proto::report_format::ReportFormat;
use proctor_proto::v1::Stream;

/// Beginning of every URI.
pub(crate) const SCHEME: &str = "proctor://runs/";

/// What is encoded in a name: everything but unreserved characters and slashes.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// What a resource holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Document(ReportFormat),
    Output(Stream),
    Artifact(String),
}

/// The report of a run.
pub(crate) fn report_uri(run_id: &str) -> String {
    format!("{SCHEME}{run_id}/report")
}

/// The report of a run in a format.
pub(crate) fn document_uri(run_id: &str, format: ReportFormat) -> String {
    match format {
        ReportFormat::Json => report_uri(run_id),
        format => format!("{SCHEME}{run_id}/{}", format.name()),
    }
}

/// The output of a run.
pub(crate) fn output_uri(run_id: &str, stream: Stream) -> String {
    format!("{SCHEME}{run_id}/{}", stream_name(stream))
}

/// An artifact of a run.
pub(crate) fn artifact_uri(run_id: &str, name: &str) -> String {
    format!("{SCHEME}{run_id}/artifacts/{}", utf8_percent_encode(name, ENCODED))
}

/// Parses a URI into the id of the run and the part of it.
pub(crate) fn parse(uri: &str) -> Option<(String, Part)> {
    let (run_id, part) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    let part = match part {
        "report" => Part::Document(ReportFormat::Json),
        "stdout" => Part::Output(Stream::Stdout),
        "stderr" => Part::Output(Stream::Stderr),
        part => match ReportFormat::from_name(part) {
            Some(format) => Part::Document(format),
            None => {
                let name = part.strip_prefix("artifacts/").filter(|name| !name.is_empty())?;
                Part::Artifact(percent_decode_str(name).decode_utf8().ok()?.into_owned())
            }
        },
    };
    (!run_id.is_empty()).then(|| (run_id.to_owned(), part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_only_its_own_uris() {
        let part = |uri: &str| parse(uri).map(|(_, part)| part);
        assert_eq!(part("proctor://runs/r1/report"), Some(Part::Document(ReportFormat::Json)));
        assert_eq!(part("proctor://runs/r1/junit"), Some(Part::Document(ReportFormat::Junit)));
        assert_eq!(part("proctor://runs/r1/stderr"), Some(Part::Output(Stream::Stderr)));
        assert_eq!(part("proctor://runs/r1/artifacts/0/shot.png"), Some(Part::Artifact("0/shot.png".into())));
        for other in [
            "proctor://runs/r1",
            "proctor://runs//report",
            "proctor://runs/r1/artifacts/",
            "proctor://runs/r1/artifacts/%ff",
            "file:///etc/passwd",
        ] {
            assert_eq!(part(other), None, "{other}");
        }
    }

    #[test]
    fn an_artifact_of_any_name_has_a_uri() {
        for name in ["0/shot.png", "a b?c#d%20", "über/\u{1F600}.txt", "100%"] {
            let uri = artifact_uri("r1", name);
            assert!(uri.is_ascii() && !uri.contains([' ', '?', '#']), "{uri}");
            assert_eq!(parse(&uri), Some(("r1".to_owned(), Part::Artifact(name.to_owned()))));
        }
        assert_eq!(artifact_uri("r1", "0/shot 1.png"), "proctor://runs/r1/artifacts/0/shot%201.png");
    }
}
