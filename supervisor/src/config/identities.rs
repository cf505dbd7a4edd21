//! The identities of operators and tenants: checks that each belongs to one tenant and that the table it depends on
//! exists.

use super::{Config, Problem};
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt::Display;

/// Prefix of bearer tokens that proctor creates, by which a leaked token can be recognized.
pub const TOKEN_PREFIX: &str = "proctor_";

/// Identities by which callers authenticate.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identities {
    /// UIDs of peers on the unix socket.
    #[serde(default)]
    pub uids: Vec<u32>,
    /// BLAKE3 hashes of bearer tokens, 64 hexadecimal digits each.
    #[serde(default)]
    pub token_hashes: Vec<String>,
    /// Subjects of JSON web tokens.
    #[serde(default)]
    pub jwt_subjects: Vec<String>,
    /// Names (subjectAltName) in client certificates: URIs or DNS names.
    #[serde(default)]
    pub cert_names: Vec<String>,
}

/// The identities of the operators or of one tenant.
struct Principal<'c> {
    /// Path of its table.
    at: String,
    /// Label in messages.
    name: String,
    uids: &'c [u32],
    hashes: &'c [String],
    subjects: &'c [String],
    certs: &'c [String],
}

impl<'c> Principal<'c> {
    fn from_config(config: &'c Config) -> Vec<Principal<'c>> {
        let operators = &config.operators;
        let mut all = vec![Principal {
            at: "operators".to_owned(),
            name: "operators".to_owned(),
            uids: &operators.uids,
            hashes: &operators.token_hashes,
            subjects: &operators.jwt_subjects,
            certs: &operators.cert_names,
        }];
        all.extend(config.tenant.iter().enumerate().map(|(index, tenant)| Principal {
            at: format!("tenant.{index}"),
            name: tenant.label(),
            uids: &tenant.uids,
            hashes: &tenant.token_hashes,
            subjects: &tenant.jwt_subjects,
            certs: &tenant.cert_names,
        }));
        all
    }

    fn problem(&self, key: &str, text: impl Display) -> Problem {
        Problem::new(format!("{}.{key}", self.at), format!("{}: {text}", self.name))
    }

    fn hash_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (index, hash) in self.hashes.iter().enumerate() {
            let key = format!("token_hashes.{index}");
            match blake3::Hash::from_hex(hash) {
                // The entry may be the token itself, and messages are read and stored by others, so it is not repeated.
                Err(_) => {
                    let hint = match hash.starts_with(TOKEN_PREFIX) {
                        true => "but a token, which must stay secret: create another one and list only its hash",
                        false => "the form in which `proctor admin token` prints hashes",
                    };
                    let text = format!("entry {} of token_hashes is not 64 hexadecimal digits, {hint}", index + 1);
                    problems.push(self.problem(&key, text));
                }
                Ok(hash) if hash == blake3::hash(b"") => {
                    problems.push(self.problem(&key, format!("\"{hash}\" is the hash of an empty token")));
                }
                Ok(_) => {}
            }
        }
        problems
    }

    fn cert_problems(&self) -> Vec<Problem> {
        let bad = |name: &&String| name.is_empty() || name.contains('*') || name.contains(char::is_whitespace);
        let bad = self.certs.iter().enumerate().filter(|(_, name)| bad(name));
        let text = |name| format!("{name:?} is not a certificate name; give one URI or DNS name without wildcards");
        bad.map(|(index, name)| self.problem(&format!("cert_names.{index}"), text(name))).collect()
    }

    fn subject_problems(&self) -> Vec<Problem> {
        let empty = self.subjects.iter().enumerate().filter(|(_, subject)| subject.is_empty());
        empty.map(|(index, _)| self.problem(&format!("jwt_subjects.{index}"), "a subject must not be empty")).collect()
    }
}

/// A certificate name in the form that is compared: DNS names are case-insensitive, URIs are not.
#[must_use]
pub fn canonical_name(name: &str) -> String {
    if name.contains(':') { name.to_owned() } else { name.to_ascii_lowercase() }
}

/// All problems with the identities of `config`.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let all = Principal::from_config(config);
    let mut problems = Vec::new();
    let has_ca = config.listen.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    for principal in &all {
        problems.extend(principal.hash_problems());
        problems.extend(principal.cert_problems());
        problems.extend(principal.subject_problems());
        if !principal.subjects.is_empty() && config.jwt.is_none() {
            problems
                .push(principal.problem("jwt_subjects", "jwt_subjects needs [jwt], which names the accepted issuer"));
        }
        if !principal.certs.is_empty() && !has_ca {
            problems.push(principal.problem(
                "cert_names",
                "cert_names needs listen.tls.client_ca, without which no certificate is accepted",
            ));
        }
    }
    for principal in &all[1..] {
        if principal.uids.is_empty()
            && principal.hashes.is_empty()
            && principal.subjects.is_empty()
            && principal.certs.is_empty()
        {
            let text = format!(
                "{}: no caller can authenticate as this tenant; set uids, token_hashes, jwt_subjects or cert_names",
                principal.name
            );
            problems.push(Problem::new(principal.at.clone(), text));
        }
    }
    report_duplicates(&all[1..], &mut problems);
    problems
}

// Reports identities of two tenants, which the first would win by chance. Operators may be tenants too.
fn report_duplicates(tenants: &[Principal<'_>], problems: &mut Vec<Problem>) {
    let mut known: HashMap<(&str, String), usize> = HashMap::new();
    for (tenant, principal) in tenants.iter().enumerate() {
        let lists: [(&str, Vec<String>); 4] = [
            ("uids", principal.uids.iter().map(u32::to_string).collect()),
            ("token_hashes", principal.hashes.iter().map(|hash| hash.to_ascii_lowercase()).collect()),
            ("jwt_subjects", principal.subjects.to_vec()),
            ("cert_names", principal.certs.iter().map(|name| canonical_name(name)).collect()),
        ];
        for (key, values) in lists {
            for (index, value) in values.into_iter().enumerate() {
                // An entry that is not a hash is reported elsewhere and never repeated.
                if key == "token_hashes" && blake3::Hash::from_hex(&value).is_err() {
                    continue;
                }
                let text = |other: &Principal<'_>| format!("{key}: {value} also belongs to {}", other.name);
                match known.get(&(key, value.clone())) {
                    Some(&other) if other != tenant => {
                        problems.push(principal.problem(&format!("{key}.{index}"), text(&tenants[other])));
                    }
                    Some(_) => {}
                    None => _ = known.insert((key, value), tenant),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigReader;

    fn messages(text: &str) -> Vec<String> {
        let text =
            format!("state_dir = \"/x\"\n[listen]\nunix = \"/s\"\n[sandbox]\nleft_off = [\"tenant_uid\"]\n{text}");
        let reader = ConfigReader::new(&text);
        assert!(reader.is_complete());
        problems(reader.config()).into_iter().map(|problem| format!("{} {}", problem.at, problem.text)).collect()
    }

    #[test]
    fn rejects_an_identity_of_two_tenants() {
        let tenants = |first: &str, second: &str| {
            messages(&format!(
                "[jwt]\n[listen.tls]\nclient_ca = \"/ca\"\n[operators]\n{first}\n\
                 [[tenant]]\nid = \"a\"\n{first}\n[[tenant]]\nid = \"b\"\n{second}\n"
            ))
        };
        let hash = blake3::hash(b"x").to_string();
        for (key, value) in
            [("uids", "7"), ("token_hashes", &*format!("{hash:?}")), ("jwt_subjects", "\"s\""), ("cert_names", "\"n\"")]
        {
            let one = format!("{key} = [{value}]");
            let plain = value.trim_matches('"');
            assert_eq!(
                tenants(&one, &one),
                [format!("tenant.1.{key}.0 tenant \"b\": {key}: {plain} also belongs to tenant \"a\"")]
            );
        }
        assert_eq!(tenants("cert_names = [\"a.example\"]", "cert_names = [\"A.example\"]").len(), 1);
        assert_eq!(tenants("uids = [7]", "jwt_subjects = [\"7\"]"), [""; 0], "ways are apart");
    }

    #[test]
    fn never_repeats_a_token_in_place_of_its_hash() {
        let token = format!("{TOKEN_PREFIX}{}", "a1".repeat(32));
        let good = blake3::hash(b"x").to_string();
        let tenant = |id| format!("[[tenant]]\nid = {id:?}\ntoken_hashes = [{good:?}, \"hunter2\", {token:?}]\n");
        let output = messages(&(tenant("a") + &tenant("b").replace(&good, &"0".repeat(64))));
        assert_eq!(output.len(), 4, "{output:?}");
        let plain = "token_hashes is not 64 hexadecimal digits, the form in which `proctor admin token` prints hashes";
        let drawn = "token_hashes is not 64 hexadecimal digits, but a token, which must stay secret: create another one and \
                     list only its hash";
        assert_eq!(output[0], format!("tenant.0.token_hashes.1 tenant \"a\": entry 2 of {plain}"));
        assert_eq!(output[1], format!("tenant.0.token_hashes.2 tenant \"a\": entry 3 of {drawn}"));
    }

    #[test]
    fn identities_need_the_table_they_depend_on() {
        let text =
            messages("[[tenant]]\nid = \"a\"\njwt_subjects = [\"s\"]\ncert_names = [\"*.example\"]\n").join("\n");
        for expected in [
            "tenant.0.jwt_subjects tenant \"a\": jwt_subjects needs [jwt]",
            "tenant.0.cert_names tenant \"a\": cert_names needs listen.tls.client_ca",
            "tenant.0.cert_names.0 tenant \"a\": \"*.example\" is not a certificate name",
        ] {
            assert!(
                text.contains(expected),
                "{expected} in
{text}"
            );
        }
    }
}
