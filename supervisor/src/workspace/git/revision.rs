//! Names of commits: hashes, branches, tags and `HEAD`, with steps to their parents.

use super::objects::{ObjectId, ObjectKind, Objects, unreadable};
use super::{GitError, REFERENCES_BYTES_MAX, read_file};

/// Longest revision, in bytes.
const REVISION_BYTES_MAX: usize = 200;

/// Fewest digits of an abbreviated hash, as git prints them.
const DIGITS_MIN: usize = 7;

/// Most steps to a parent, and of references to references and tags to tags.
const PARENTS_MAX: usize = 1_000;
/// See [`PARENTS_MAX`].
const LINKS_MAX: usize = 8;

/// The commit that `revision` names.
pub(super) fn resolve(objects: &mut Objects, revision: &str) -> Result<ObjectId, GitError> {
    let bad = || GitError::BadRevision { revision: revision.chars().take(REVISION_BYTES_MAX).collect() };
    if revision.len() > REVISION_BYTES_MAX {
        return Err(bad());
    }
    let end = revision.find(['~', '^']).unwrap_or(revision.len());
    let (name, steps) = (&revision[..end], parents(&revision[end..]).ok_or_else(bad)?);
    let name = if name == "@" { "HEAD" } else { name };
    if !is_name(name) {
        return Err(bad());
    }
    let missing = || GitError::NoSuchRevision { revision: revision.to_owned() };
    let id = match referenced(objects, name)? {
        Some(id) => id,
        None => by_hash(objects, name, revision)?.ok_or_else(missing)?,
    };
    let mut commit = peel(objects, id)?.ok_or_else(missing)?;
    for _ in 0..steps {
        let content = objects.read(commit)?.content;
        commit = field(&content, "parent").ok_or_else(missing)?;
    }
    Ok(commit)
}

// The number of steps to the first parent: `~3`, `^`, `^^`.
fn parents(mut steps: &str) -> Option<usize> {
    let mut count = 0_usize;
    while let Some(step) = steps.chars().next() {
        steps = &steps[step.len_utf8()..];
        let digits = steps.find(|c: char| !c.is_ascii_digit()).unwrap_or(steps.len());
        let number = &steps[..digits];
        count += match step {
            '~' if number.is_empty() => 1,
            '~' => number.parse().ok()?,
            '^' if number.is_empty() || number == "1" => 1,
            _ => return None,
        };
        if count > PARENTS_MAX {
            return None;
        }
        steps = &steps[digits..];
    }
    Some(count)
}

// Without what could lead out of the directory of references. The look-up itself follows no links.
fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "/-_.+#@=,".contains(c);
    !name.is_empty() && name.chars().all(is_part) && !name.contains("..") && !name.starts_with(['/', '-', '.'])
}

// In the order in which git looks.
fn referenced(objects: &Objects, name: &str) -> Result<Option<ObjectId>, GitError> {
    let packed = read_file(&objects.dir, "packed-refs", REFERENCES_BYTES_MAX)?.unwrap_or_default();
    let packed = String::from_utf8_lossy(&packed);
    for prefix in ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"] {
        if prefix.is_empty() && name != "HEAD" && !name.starts_with("refs/") {
            continue;
        }
        if let Some(id) = follow(objects, format!("{prefix}{name}"), &packed)? {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

fn follow(objects: &Objects, mut name: String, packed: &str) -> Result<Option<ObjectId>, GitError> {
    for _ in 0..LINKS_MAX {
        let content = read_file(&objects.dir, &name, 4096).or_else(|error| match error {
            GitError::TooLarge => Ok(None),
            error => Err(error),
        })?;
        let Some(content) = content else { return Ok(find_packed(&name, packed)) };
        let text = String::from_utf8_lossy(&content);
        match text.trim().strip_prefix("ref:") {
            // A repository with a reference table has this in the place of a branch.
            Some(target) if target.trim() == "refs/heads/.invalid" => return Err(unreadable("a reference table")),
            Some(target) if is_name(target.trim()) => name = target.trim().to_owned(),
            Some(_) => return Ok(None),
            None if text.trim().len() == 64 => return Err(unreadable("SHA-256 names")),
            None => return Ok(ObjectId::from_hex(text.trim())),
        }
    }
    Ok(None)
}

fn find_packed(name: &str, packed: &str) -> Option<ObjectId> {
    let mut lines = packed.lines().filter(|line| !line.starts_with(['#', '^']));
    lines
        .find_map(|line| line.split_once(' ').filter(|(_, found)| *found == name))
        .and_then(|(id, _)| ObjectId::from_hex(id))
}

fn by_hash(objects: &Objects, name: &str, revision: &str) -> Result<Option<ObjectId>, GitError> {
    let digits = name.to_ascii_lowercase();
    if digits.len() < DIGITS_MIN || digits.len() > 40 || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
        return Ok(None);
    }
    if let Some(id) = ObjectId::from_hex(&digits) {
        return Ok(Some(id));
    }
    match objects.beginning_with(&digits)?.as_slice() {
        [] => Ok(None),
        [id] => Ok(Some(*id)),
        _ => Err(GitError::Ambiguous { revision: revision.to_owned() }),
    }
}

// The commit to which an annotated tag leads.
fn peel(objects: &mut Objects, mut id: ObjectId) -> Result<Option<ObjectId>, GitError> {
    for _ in 0..LINKS_MAX {
        let object = match objects.read(id) {
            Err(GitError::MissingObject) => return Ok(None),
            object => object?,
        };
        match object.kind {
            ObjectKind::Commit => return Ok(Some(id)),
            ObjectKind::Tag => id = field(&object.content, "object").ok_or(unreadable("a tag"))?,
            ObjectKind::Tree | ObjectKind::Blob => return Ok(None),
        }
    }
    Ok(None)
}

/// The first object that a commit or tag names in its field `name`.
pub(super) fn field(content: &[u8], name: &str) -> Option<ObjectId> {
    let header = content.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    let mut values = header.filter_map(|line| str::from_utf8(line).ok()?.strip_prefix(name)?.strip_prefix(' '));
    values.next().and_then(ObjectId::from_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_lead_to_first_parents() {
        for (steps, count) in
            [("", Some(0)), ("~", Some(1)), ("~3", Some(3)), ("^^", Some(2)), ("~2^", Some(3)), ("^1", Some(1))]
        {
            assert_eq!(parents(steps), count, "{steps}");
        }
        for steps in ["^2", "~x", "^{tree}", "~99999", "~é"] {
            assert_eq!(parents(steps), None, "{steps}");
        }
    }

    #[test]
    fn names_stay_in_the_directory_of_references() {
        assert!(is_name("feature/x-1") && is_name("v1.2") && is_name("HEAD"));
        for name in ["", "../x", "/etc/passwd", "-x", "a..b", "a b", ".git", "a\0", "a:b", "x@{1}"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
