//! Conditions of requests: If-Match and If-None-Match, by the version that an ETag tells; and keys by which a request that is sent twice is
//! known.

#[cfg(test)]
mod tests;

use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_control::{Condition, Version};

use super::problem::Problem;

pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";
const KEY_BYTES_MAX: usize = 128;
/// The most tags of one field.
const TAGS_MAX: usize = 16;

/// The ETag of a version.
pub(super) fn tag(version: Version) -> HeaderValue {
    // Digits in quotes are a value.
    HeaderValue::from_str(&format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// The condition of a change.
pub(super) fn of_change(fields: &HeaderMap) -> Result<Condition, Problem> {
    let wanted = match (tags(fields, &IF_MATCH)?, tags(fields, &IF_NONE_MATCH)?) {
        (None, None) => Condition::Any,
        (Some(Tags::Every), None) => Condition::IfPresent,
        (Some(Tags::Of(tags)), None) => {
            // A weak tag does not promise that it is the same, byte for byte.
            let versions: Vec<Version> =
                tags.into_iter().filter(|tag| !tag.is_weak).filter_map(|tag| tag.version).collect();
            match versions.as_slice() {
                // Nobody has changed yet what has version 0.
                [0] => Condition::IfAbsent,
                [version] => Condition::IfVersion(*version),
                _ => Condition::IfOneOf(versions),
            }
        }
        (None, Some(Tags::Every)) => Condition::IfAbsent,
        (None, Some(Tags::Of(_))) => {
            let why = "for a change, If-None-Match can only be `*`: that there is nothing yet";
            return Err(Problem::BadRequest(why.to_owned()));
        }
        (Some(_), Some(_)) => {
            let why = "If-Match and If-None-Match contradict each other: send one of them";
            return Err(Problem::BadRequest(why.to_owned()));
        }
    };
    Ok(wanted)
}

/// Whether whoever asks has this version already.
pub(super) fn is_known(fields: &HeaderMap, version: Version) -> Result<bool, Problem> {
    Ok(match tags(fields, &IF_NONE_MATCH)? {
        None => false,
        Some(Tags::Every) => true,
        Some(Tags::Of(tags)) => tags.iter().any(|tag| tag.version == Some(version)),
    })
}

/// The key under which a request may be repeated.
pub(super) fn idempotency_key(fields: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut keys = fields.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = keys.next() else { return Ok(None) };
    let is_good =
        |key: &&[u8]| (1..=KEY_BYTES_MAX).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
    let key = Some(key.as_bytes()).filter(|_| keys.next().is_none()).filter(is_good);
    match key.and_then(|key| str::from_utf8(key).ok()) {
        Some(key) => Ok(Some(key.to_owned())),
        None => Err(Problem::BadRequest(format!(
            "Idempotency-Key has to be one key of 1 to {KEY_BYTES_MAX} visible ASCII characters"
        ))),
    }
}

enum Tags {
    /// `*`
    Every,
    Of(Vec<Tag>),
}

struct Tag {
    is_weak: bool,
    /// Nothing, if it is no tag of ours: it is never that of a document.
    version: Option<Version>,
}

fn tags(fields: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, Problem> {
    if !fields.contains_key(name) {
        return Ok(None);
    }
    let wrong = || {
        let name = if *name == IF_MATCH { "If-Match" } else { "If-None-Match" };
        Problem::BadRequest(format!("{name} has to be `*`, or ETags in quotes with commas between them"))
    };
    let values = fields.get_all(name).iter().map(|value| value.to_str().map_err(|_| wrong()));
    let text = values.collect::<Result<Vec<_>, _>>()?.join(",");
    if text.trim() == "*" {
        return Ok(Some(Tags::Every));
    }
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let tags: Option<Vec<Tag>> = parts.take(TAGS_MAX + 1).map(read_tag).collect();
    match tags {
        Some(tags) if (1..=TAGS_MAX).contains(&tags.len()) => Ok(Some(Tags::Of(tags))),
        _ => Err(wrong()),
    }
}

fn read_tag(text: &str) -> Option<Tag> {
    let (is_weak, quoted) = text.strip_prefix("W/").map_or((false, text), |quoted| (true, quoted));
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    let is_tag = inner.bytes().all(|byte| byte == b'!' || (b'#'..=b'~').contains(&byte));
    // As we write them, and no other way.
    let version = inner.parse::<Version>().ok().filter(|version| version.to_string() == inner);
    is_tag.then_some(Tag { is_weak, version })
}
