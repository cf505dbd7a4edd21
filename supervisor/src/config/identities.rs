//! The identities of a host file: an identity is one tenant's, and there is a way to have it. Must not know how a caller
//! shows one.

use super::{Config, Problem};
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt::Display;

/// How the bearer tokens begin that proctor draws: by its first letters one is known for what it is, wherever it turns up.
pub const TOKEN_PREFIX: &str = "proctor_";

/// Ways to be known.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identities {
    /// User ids of peers on the unix socket.
    #[serde(default)]
    pub uids: Vec<u32>,
    /// BLAKE3 hashes of bearer tokens, 64 hexadecimal digits each.
    #[serde(default)]
    pub token_hashes: Vec<String>,
    /// What JSON web tokens call it.
    #[serde(default)]
    pub jwt_subjects: Vec<String>,
    /// Names in client certificates, of subjectAltName: URIs, or DNS names.
    #[serde(default)]
    pub cert_names: Vec<String>,
}

/// Ways to be known, of the operators or of one tenant.
struct Who<'c> {
    /// Where its table is.
    at: String,
    /// What it is called.
    name: String,
    uids: &'c [u32],
    hashes: &'c [String],
    subjects: &'c [String],
    certs: &'c [String],
}

impl<'c> Who<'c> {
    fn all(config: &'c Config) -> Vec<Who<'c>> {
        let operators = &config.operators;
        let mut all = vec![Who {
            at: "operators".to_owned(),
            name: "operators".to_owned(),
            uids: &operators.uids,
            hashes: &operators.token_hashes,
            subjects: &operators.jwt_subjects,
            certs: &operators.cert_names,
        }];
        all.extend(config.tenant.iter().enumerate().map(|(index, tenant)| Who {
            at: format!("tenant.{index}"),
            name: tenant.called(),
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
        for (place, hash) in self.hashes.iter().enumerate() {
            let key = format!("token_hashes.{place}");
            match blake3::Hash::from_hex(hash) {
                // It may be the token itself, and what is told here is read by others, and kept.
                Err(_) => {
                    let helps = match hash.starts_with(TOKEN_PREFIX) {
                        true => "but a token, which nobody may read: draw another, and give its hash alone",
                        false => "as `proctor admin token` prints them beside each token",
                    };
                    let text = format!("entry {} of token_hashes is not 64 hexadecimal digits, {helps}", place + 1);
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
        let text = |name| format!("{name:?} is no name in a certificate; give one URI or DNS name, without wildcards");
        bad.map(|(place, name)| self.problem(&format!("cert_names.{place}"), text(name))).collect()
    }

    fn subject_problems(&self) -> Vec<Problem> {
        let empty = self.subjects.iter().enumerate().filter(|(_, subject)| subject.is_empty());
        empty.map(|(place, _)| self.problem(&format!("jwt_subjects.{place}"), "a subject is not empty")).collect()
    }
}

/// A name in a certificate as it is compared: a DNS name knows no case, a URI does.
#[must_use]
pub fn canonical_name(name: &str) -> String {
    if name.contains(':') { name.to_owned() } else { name.to_ascii_lowercase() }
}

/// Everything that is wrong with the identities of `config`.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let all = Who::all(config);
    let mut problems = Vec::new();
    let has_ca = config.listen.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    for who in &all {
        problems.extend(who.hash_problems());
        problems.extend(who.cert_problems());
        problems.extend(who.subject_problems());
        if !who.subjects.is_empty() && config.jwt.is_none() {
            problems.push(who.problem("jwt_subjects", "jwt_subjects without [jwt], which says whose tokens count"));
        }
        if !who.certs.is_empty() && !has_ca {
            problems
                .push(who.problem("cert_names", "cert_names without listen.tls.client_ca, so no certificate counts"));
        }
    }
    for who in &all[1..] {
        if who.uids.is_empty() && who.hashes.is_empty() && who.subjects.is_empty() && who.certs.is_empty() {
            let text = format!(
                "{}: neither uids nor token_hashes nor jwt_subjects nor cert_names, so nobody can be it",
                who.name
            );
            problems.push(Problem::new(who.at.clone(), text));
        }
    }
    shared(&all[1..], &mut problems);
    problems
}

// An identity of two tenants would be the first one's by chance. Operators may be tenants too.
fn shared(tenants: &[Who<'_>], problems: &mut Vec<Problem>) {
    let mut known: HashMap<(&str, String), usize> = HashMap::new();
    for (index, who) in tenants.iter().enumerate() {
        let lists: [(&str, Vec<String>); 4] = [
            ("uids", who.uids.iter().map(u32::to_string).collect()),
            ("token_hashes", who.hashes.iter().map(|hash| hash.to_ascii_lowercase()).collect()),
            ("jwt_subjects", who.subjects.to_vec()),
            ("cert_names", who.certs.iter().map(|name| canonical_name(name)).collect()),
        ];
        for (key, values) in lists {
            for (place, value) in values.into_iter().enumerate() {
                // What is no hash is told as that, and never shown.
                if key == "token_hashes" && blake3::Hash::from_hex(&value).is_err() {
                    continue;
                }
                let text = |other: &Who<'_>| format!("{value} of {key} is also that of {}", other.name);
                match known.get(&(key, value.clone())) {
                    Some(&other) if other != index => {
                        problems.push(who.problem(&format!("{key}.{place}"), text(&tenants[other])));
                    }
                    Some(_) => {}
                    None => _ = known.insert((key, value), index),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigReader;

    fn said(text: &str) -> Vec<String> {
        let text =
            format!("state_dir = \"/x\"\n[listen]\nunix = \"/s\"\n[sandbox]\nleft_off = [\"tenant_uid\"]\n{text}");
        let reading = ConfigReader::of(&text);
        assert!(reading.is_whole());
        problems(reading.config()).into_iter().map(|problem| format!("{} {}", problem.at, problem.text)).collect()
    }

    #[test]
    fn an_identity_is_one_tenants() {
        let tenants = |first: &str, second: &str| {
            said(&format!(
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
                [format!("tenant.1.{key}.0 tenant \"b\": {plain} of {key} is also that of tenant \"a\"")]
            );
        }
        assert_eq!(tenants("cert_names = [\"a.example\"]", "cert_names = [\"A.example\"]").len(), 1);
        assert_eq!(tenants("uids = [7]", "jwt_subjects = [\"7\"]"), [""; 0], "ways are apart");
    }

    #[test]
    fn a_token_in_the_place_of_its_hash_is_never_shown() {
        let token = format!("{TOKEN_PREFIX}{}", "a1".repeat(32));
        let good = blake3::hash(b"x").to_string();
        let tenant = |id| format!("[[tenant]]\nid = {id:?}\ntoken_hashes = [{good:?}, \"hunter2\", {token:?}]\n");
        let told = said(&(tenant("a") + &tenant("b").replace(&good, &"0".repeat(64))));
        assert_eq!(told.len(), 4, "{told:?}");
        let plain = "token_hashes is not 64 hexadecimal digits, as `proctor admin token` prints them beside each token";
        let drawn = "token_hashes is not 64 hexadecimal digits, but a token, which nobody may read: draw another, and give \
                     its hash alone";
        assert_eq!(told[0], format!("tenant.0.token_hashes.1 tenant \"a\": entry 2 of {plain}"));
        assert_eq!(told[1], format!("tenant.0.token_hashes.2 tenant \"a\": entry 3 of {drawn}"));
    }

    #[test]
    fn a_way_to_be_known_needs_what_it_rests_on() {
        let text = said("[[tenant]]\nid = \"a\"\njwt_subjects = [\"s\"]\ncert_names = [\"*.example\"]\n").join("\n");
        for wanted in [
            "tenant.0.jwt_subjects tenant \"a\": jwt_subjects without [jwt]",
            "tenant.0.cert_names tenant \"a\": cert_names without listen.tls.client_ca",
            "tenant.0.cert_names.0 tenant \"a\": \"*.example\" is no name",
        ] {
            assert!(text.contains(wanted), "{wanted} in\n{text}");
        }
    }
}
