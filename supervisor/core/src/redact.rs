//! Redaction: replaces secrets of known forms in reports and the audit log. Secrets of other forms stay, and the stream
//! of a run stays as written.
//!
//! | kind | form | documented by |
//! |---|---|---|
//! | `github` | `ghp_`, `gho_`, `ghu_`, `ghs_`, `ghr_` and 36 or more letters and digits; `github_pat_` and 22 or more | GitHub |
//! | `gitlab` | `glpat-`, `gldt-`, `glrt-`, `glptt-` and 20 or more | GitLab |
//! | `aws` | `AKIA` or `ASIA` and 16 capitals and digits; 40 or more characters assigned to a secret key or session token | AWS |
//! | `slack` | `xoxa-`, `xoxb-`, `xoxe-`, `xoxo-`, `xoxp-`, `xoxr-`, `xoxs-`, `xapp-` and 10 or more | Slack |
//! | `google` | `AIza` and 35 characters | Google Cloud |
//! | `npm` | `npm_` and 36 or more letters and digits | npm |
//! | `pypi` | `pypi-` and 40 or more | PyPI |
//! | `proctor` | `proctor_` and 64 hexadecimal digits | `proctor admin token` |
//! | `jwt` | `eyJ…` and at least two further parts in base64url, joined by dots | RFC 7519 |
//! | `private key` | from `-----BEGIN … PRIVATE KEY-----` to its end, or to the end of the text | RFC 7468 |
//! | `authorization` | what follows `Authorization:` and `Bearer`, `Basic` or `Token`, 8 characters or more | RFC 6750, 7617 |

use std::borrow::Cow;
use std::ops::Range;

/// Most characters between the name of a secret and its value: `": "`, ` => '`, `\": \"`.
const BETWEEN_MAX: usize = 8;

/// Longest label between the dashes of a PEM header.
const LABEL_MAX: usize = 64;

/// Names, in lower case, to which secrets without a form of their own are assigned.
const ASSIGNED: [&str; 4] = ["aws_secret_access_key", "aws_session_token", "secretaccesskey", "sessiontoken"];

/// Authorization schemes that carry a secret, in lower case.
const SCHEMES: [&str; 3] = ["bearer", "basic", "token"];

/// A form of secret that starts with a fixed prefix.
struct SecretForm {
    prefix: &'static str,
    kind: &'static str,
    body: fn(u8) -> bool,
    min: usize,
    /// Whether the prefix must stand at the start of a word: for short prefixes.
    at_word_start: bool,
    /// Whether the body must have exactly `min` bytes.
    exact: bool,
}

const fn form(prefix: &'static str, kind: &'static str, body: fn(u8) -> bool, min: usize) -> SecretForm {
    SecretForm { prefix, kind, body, min, at_word_start: false, exact: false }
}

const fn exact(prefix: &'static str, kind: &'static str, body: fn(u8) -> bool, min: usize) -> SecretForm {
    SecretForm { prefix, kind, body, min, at_word_start: true, exact: true }
}

const FORMS: [SecretForm; 24] = [
    form("ghp_", "github", alphanumeric, 36),
    form("gho_", "github", alphanumeric, 36),
    form("ghu_", "github", alphanumeric, 36),
    form("ghs_", "github", alphanumeric, 36),
    form("ghr_", "github", alphanumeric, 36),
    form("github_pat_", "github", word, 22),
    form("glpat-", "gitlab", base64url, 20),
    form("gldt-", "gitlab", base64url, 20),
    form("glrt-", "gitlab", base64url, 20),
    form("glptt-", "gitlab", base64url, 20),
    exact("AKIA", "aws", capital, 16),
    exact("ASIA", "aws", capital, 16),
    form("xoxa-", "slack", dashed, 10),
    form("xoxb-", "slack", dashed, 10),
    form("xoxe-", "slack", dashed, 10),
    form("xoxo-", "slack", dashed, 10),
    form("xoxp-", "slack", dashed, 10),
    form("xoxr-", "slack", dashed, 10),
    form("xoxs-", "slack", dashed, 10),
    form("xapp-", "slack", dashed, 10),
    SecretForm { prefix: "AIza", kind: "google", body: base64url, min: 35, at_word_start: true, exact: false },
    form("npm_", "npm", alphanumeric, 36),
    form("pypi-", "pypi", base64url, 40),
    form("proctor_", "proctor", hexadecimal, 64),
];

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn word(byte: u8) -> bool {
    alphanumeric(byte) || byte == b'_'
}

fn dashed(byte: u8) -> bool {
    alphanumeric(byte) || byte == b'-'
}

fn base64url(byte: u8) -> bool {
    word(byte) || byte == b'-'
}

fn capital(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn hexadecimal(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

fn base64(byte: u8) -> bool {
    alphanumeric(byte) || matches!(byte, b'+' | b'/' | b'=')
}

fn credential(byte: u8) -> bool {
    base64(byte) || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Replaces every secret of a known form in `text` by `[redacted: kind]`. Takes time in proportion to the text, and
/// changes nothing when applied to its own result.
#[must_use]
pub fn redact(text: &str) -> Cow<'_, str> {
    let spans = find_secrets(text);
    if spans.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(replace_secrets(text, 0, &spans)) }
}

/// [`redact`] for an owned text.
#[must_use]
pub fn redacted(text: String) -> String {
    match redact(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(redacted) => redacted,
    }
}

/// The redacted part of `text` from byte `from` on, which must be a character boundary. A secret that starts before
/// `from` and ends in the part is replaced too, so that a cut lets no half of one through.
#[must_use]
pub fn redact_from(text: &str, from: usize) -> String {
    replace_secrets(text, from, &find_secrets(text))
}

type Secret = (Range<usize>, &'static str);

fn replace_secrets(text: &str, from: usize, secrets: &[Secret]) -> String {
    let mut out = String::with_capacity(text.len() - from);
    let mut copied = from;
    for (span, kind) in secrets.iter().filter(|(span, _)| span.end > from) {
        out.push_str(&text[copied..span.start.max(copied)]);
        out.push_str("[redacted: ");
        out.push_str(kind);
        out.push(']');
        copied = span.end;
    }
    out.push_str(&text[copied..]);
    out
}

// Finds all secrets from left to right. They end with ASCII, so their ends are character boundaries.
fn find_secrets(text: &str) -> Vec<Secret> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut scanner = Scanner { bytes, last_secret_end: 0, no_jwt_before: 0 };
    let mut at = 0;
    while at < bytes.len() {
        match scanner.secret_at(at) {
            Some((span, kind)) => {
                at = span.end;
                scanner.last_secret_end = at;
                found.push((span, kind));
            }
            None => at += 1,
        }
    }
    found
}

struct Scanner<'a> {
    bytes: &'a [u8],
    /// End of the last secret; 0 before the first.
    last_secret_end: usize,
    /// End of the last run of characters that is not the first part of a JWT: no JWT starts in it.
    no_jwt_before: usize,
}

impl Scanner<'_> {
    // The secret that starts, or whose name starts, at `at`.
    fn secret_at(&mut self, at: usize) -> Option<Secret> {
        let bytes = self.bytes;
        match bytes[at] {
            b'-' => self.private_key(at),
            b'e' => self.jwt(at),
            b'g' | b'x' | b'n' | b'p' => self.prefixed(at),
            b'A' | b'a' => self.prefixed(at).or_else(|| self.authorization(at)).or_else(|| self.assigned(at)),
            b'S' | b's' => self.assigned(at),
            _ => None,
        }
    }

    fn starts_with(&self, at: usize, what: &str) -> bool {
        self.bytes[at..].starts_with(what.as_bytes())
    }

    fn starts_with_ignoring_case(&self, at: usize, what: &str) -> bool {
        self.bytes[at..].get(..what.len()).is_some_and(|found| found.eq_ignore_ascii_case(what.as_bytes()))
    }

    // No letter, digit or `_` comes before, also after the preceding secret is replaced.
    fn is_word_start(&self, at: usize) -> bool {
        at == self.last_secret_end || !word(self.bytes[at - 1])
    }

    fn run_end(&self, at: usize, is_member: fn(u8) -> bool) -> usize {
        self.bytes[at..].iter().position(|byte| !is_member(*byte)).map_or(self.bytes.len(), |len| at + len)
    }

    fn prefixed(&self, at: usize) -> Option<Secret> {
        let form = FORMS.iter().find(|form| self.starts_with(at, form.prefix))?;
        let begin = at + form.prefix.len();
        if form.at_word_start && !self.is_word_start(at) {
            return None;
        }
        if form.exact {
            // Looks only one byte beyond the exact length, however long the run is.
            let window = &self.bytes[begin..self.bytes.len().min(begin + form.min + 1)];
            let len = window.iter().take_while(|byte| (form.body)(**byte)).count();
            return (len == form.min).then(|| (at..begin + len, form.kind));
        }
        let end = self.run_end(begin, form.body);
        let is_cut = self.bytes[end..] == *"…".as_bytes();
        (end - begin >= form.min || is_cut && end > begin).then_some((at..end, form.kind))
    }

    fn jwt(&mut self, at: usize) -> Option<Secret> {
        const PART_MIN: usize = 8;
        if at < self.no_jwt_before || !self.starts_with(at, "eyJ") || !self.is_word_start(at) {
            return None;
        }
        let mut end = self.run_end(at, base64url);
        let first = end;
        let mut parts = usize::from(first - at >= PART_MIN);
        while parts > 0 && self.bytes.get(end) == Some(&b'.') {
            let next = self.run_end(end + 1, base64url);
            if next - end - 1 < PART_MIN {
                break;
            }
            (end, parts) = (next, parts + 1);
        }
        if parts >= 3 {
            return Some((at..end, "jwt"));
        }
        self.no_jwt_before = first;
        None
    }

    fn private_key(&self, at: usize) -> Option<Secret> {
        const BEGIN: &str = "-----BEGIN ";
        const END: &[u8] = b"-----END ";
        if !self.starts_with(at, BEGIN) {
            return None;
        }
        let label = at + BEGIN.len();
        let window = &self.bytes[label..self.bytes.len().min(label + LABEL_MAX)];
        let len = window.iter().take_while(|byte| capital(**byte) || **byte == b' ').count();
        let is_private = window[..len].windows(11).any(|words| words == b"PRIVATE KEY");
        if !is_private || !self.starts_with(label + len, "-----") {
            return None;
        }
        let body = label + len + 5;
        let end = self.bytes[body..].windows(END.len()).position(|words| words == END).map(|begin| body + begin);
        let end = end.and_then(|end| {
            let label = end + END.len();
            let window = &self.bytes[label..self.bytes.len().min(label + LABEL_MAX)];
            window.windows(5).position(|dashes| dashes == b"-----").map(|len| label + len + 5)
        });
        Some((at..end.unwrap_or(self.bytes.len()), "private key"))
    }

    fn authorization(&self, at: usize) -> Option<Secret> {
        const NAME: &str = "authorization";
        const VALUE_MIN: usize = 8;
        if !self.starts_with_ignoring_case(at, NAME) {
            return None;
        }
        let scheme = self.skip_separators(at + NAME.len())?;
        let after = SCHEMES
            .iter()
            .find(|known| self.starts_with_ignoring_case(scheme, known))
            .map(|known| scheme + known.len())?;
        let value = self.skip_spaces(after).filter(|value| *value > after)?;
        let end = self.run_end(value, credential);
        (end - value >= VALUE_MIN).then_some((value..end, "authorization"))
    }

    fn assigned(&self, at: usize) -> Option<Secret> {
        const VALUE_MIN: usize = 40;
        let name = ASSIGNED.iter().find(|name| self.starts_with_ignoring_case(at, name))?;
        let begin = at + name.len();
        let value = self.skip_separators(begin).filter(|value| *value > begin)?;
        let end = self.run_end(value, base64);
        (end - value >= VALUE_MIN).then_some((value..end, "aws"))
    }

    fn skip_separators(&self, at: usize) -> Option<usize> {
        self.skip(at, |byte| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b':' | b'=' | b'>' | b'\\'))
    }

    fn skip_spaces(&self, at: usize) -> Option<usize> {
        self.skip(at, |byte| byte == b' ')
    }

    // The position after the separators; `None` when there are more than [`BETWEEN_MAX`].
    fn skip(&self, at: usize, is_separator: fn(u8) -> bool) -> Option<usize> {
        let len = self.bytes[at..].iter().take(BETWEEN_MAX + 1).take_while(|byte| is_separator(**byte)).count();
        (len <= BETWEEN_MAX).then_some(at + len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Assembled at run time, so that no secret scanner reports this file.
    fn samples() -> Vec<(String, &'static str)> {
        let sample = |prefix: &str, letters: &str, len: usize| {
            format!("{prefix}{}", letters.chars().cycle().take(len).collect::<String>())
        };
        let pem = |label: &str| format!("-----BEGIN {label}-----\nMIIEvQIBADAN\nBgkq\n-----END {label}-----");
        vec![
            (sample("ghp_", "a1B2", 36), "github"),
            (sample("ghs_", "a1B2", 36), "github"),
            (sample("github_pat_", "11AB_c", 82), "github"),
            (sample("glpat-", "xY-_9", 20), "gitlab"),
            (sample("AKIA", "Q7Z2", 16), "aws"),
            (sample("ASIA", "Q7Z2", 16), "aws"),
            (sample("xoxb-", "12-ab", 24), "slack"),
            (sample("AIza", "Sy-_D", 35), "google"),
            (sample("npm_", "z9Y8", 36), "npm"),
            (sample("pypi-AgE", "Ic-_9", 60), "pypi"),
            (sample("proctor_", "0f9a", 64), "proctor"),
            (format!("{}.{}.{}", sample("eyJ", "hbGc", 17), sample("eyJ", "zdWI", 20), sample("", "s-_5", 43)), "jwt"),
            (pem("PRIVATE KEY"), "private key"),
            (pem("OPENSSH PRIVATE KEY"), "private key"),
            (pem("PGP PRIVATE KEY BLOCK"), "private key"),
        ]
    }

    fn assigned() -> Vec<(String, String, &'static str)> {
        let secret: String = "wJalrXUt/FEMI+K7MDENG".chars().cycle().take(40).collect();
        vec![
            ("Authorization: Bearer ".into(), "s3cr3t-t0ken.of~ours==".into(), "authorization"),
            ("\"authorization\": \"Basic ".into(), "dXNlcjpwYXNz".into(), "authorization"),
            ("AUTHORIZATION=token ".into(), "0123456789".into(), "authorization"),
            ("aws_secret_access_key = ".into(), secret.clone(), "aws"),
            ("{\\\"SecretAccessKey\\\":\\\"".into(), secret.clone(), "aws"),
            ("AWS_SESSION_TOKEN=".into(), secret, "aws"),
        ]
    }

    #[test]
    fn replaces_every_known_form_at_any_position() {
        for (secret, kind) in samples() {
            let replacement = format!("[redacted: {kind}]");
            for (before, after) in
                [("", ""), ("token=", "\n"), ("ü '", "' ü"), ("(", ")"), ("\u{1b}[31m ", "\u{1b}[0m")]
            {
                let shown = redact(&format!("{before}{secret}{after}")).into_owned();
                assert_eq!(shown, format!("{before}{replacement}{after}"), "{kind}");
            }
            let twice = redact(&format!("{secret} {secret}")).into_owned();
            assert_eq!(twice, format!("{replacement} {replacement}"));
        }
        for (name, value, kind) in assigned() {
            let shown = redact(&format!("x {name}{value}\" y")).into_owned();
            assert_eq!(shown, format!("x {name}[redacted: {kind}]\" y"));
        }
        let broken = redact("got -----BEGIN RSA PRIVATE KEY-----\nMIIEow").into_owned();
        assert_eq!(broken, "got [redacted: private key]", "a truncated key");
    }

    #[test]
    fn keeps_texts_that_only_resemble_secrets() {
        for text in [
            "ghp_short",
            "set npm_config_registry and npm_package_name",
            "AKIA is a prefix, AKIAIOSFODNN7EXAMPLEAAAA is too long for one",
            "xAKIAIOSFODNN7EXAMPLE",
            "pypi-server-of-the-house",
            "eyJ.eyJ.x",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "-----BEGIN PUBLIC KEY-----",
            "metadata `authorization: Bearer TOKEN` is missing",
            "the authorization of a basic request",
            "aws_secret_access_key is missing",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "[redacted: github]",
        ] {
            assert!(matches!(redact(text), Cow::Borrowed(_)), "{text}: {}", redact(text));
        }
    }

    #[test]
    fn a_cut_lets_no_part_of_a_secret_through() {
        for (secret, kind) in samples() {
            let text = format!("before {secret} after");
            for from in 7..7 + secret.len() {
                assert_eq!(redact_from(&text, from), format!("[redacted: {kind}] after"), "{kind} from {from}");
            }
            assert_eq!(redact_from(&text, 7 + secret.len()), " after");
        }
        // A secret that was clipped before redaction.
        assert_eq!(redact("token ghp_a1B2c3…"), "token [redacted: github]…");
    }

    #[test]
    fn redaction_takes_linear_time() {
        // Each repeats the start of a form that never completes; rescanning from each start would take minutes for 1
        // MiB.
        for piece in
            ["eyJabcdefgh-", "AIza", "ghp_", "-----BEGIN ", "authorization: ", "AKIA", "aws_secret_access_key=", "xox"]
        {
            let text = piece.repeat(1024 * 1024 / piece.len());
            _ = redact(&text);
        }
    }

    fn without_prefixes(text: &str) -> bool {
        let small = text.to_ascii_lowercase();
        let prefixes = FORMS.iter().map(|form| form.prefix).chain(["eyJ", "-----BEGIN"]);
        let names = ASSIGNED.iter().copied().chain(["authorization"]);
        !prefixes.into_iter().any(|prefix| text.contains(prefix)) && !names.into_iter().any(|name| small.contains(name))
    }

    fn pieces() -> impl Strategy<Value = String> {
        let secrets = samples().into_iter().map(|(secret, _)| secret);
        let assigned = assigned().into_iter().map(|(name, value, _)| name + &value);
        let whole: Vec<String> = secrets.chain(assigned).collect();
        let part = (prop::sample::select(whole), 0usize..90, 0usize..90).prop_map(|(secret, from, len)| {
            let from = from.min(secret.len());
            secret[from..(from + len).min(secret.len())].to_owned()
        });
        prop_oneof![3 => part, 1 => "[ -~ü…\n]{0,12}", 1 => prop::sample::select(samples()).prop_map(|sample| sample.0)]
    }

    proptest! {
        #[test]
        fn text_without_secrets_is_unchanged(text in "(?s).{0,300}") {
            prop_assume!(without_prefixes(&text));
            prop_assert!(matches!(redact(&text), Cow::Borrowed(_)));
            prop_assert_eq!(redact_from(&text, 0), text);
        }

        #[test]
        fn redacting_twice_is_redacting_once(pieces in prop::collection::vec(pieces(), 0..12)) {
            let text = pieces.concat();
            let once = redact(&text).into_owned();
            prop_assert_eq!(redact(&once), once.as_str());
        }
    }
}
