//! One spelling for each path, so that `//login`, `/x/../login` and `/%6Cogin` meet the rules of `/login`.
//!
//! RFC 3986 6.2.2, in this order: `\\` becomes `/`; percent-encoded octets that a path may have as they are (`pchar` of 3.3) are decoded,
//! and the hexadecimal digits of the others become upper case; slashes that follow each other become one; dot segments are resolved.
//! `/`, `?`, `#`, `%`, controls and octets that no path may have stay encoded. The query is not touched.
//!
//! Slashes are merged before dots are resolved, as nginx (`merge_slashes`) and Go (`path.Clean`) do it: in `/x//../login`, `..` takes `x`
//! away, not the empty segment after it.

use std::borrow::Cow;

use super::percent::digit;

/// A path, with or without a query, in its normal form.
pub(super) fn normalize(path_and_query: Cow<'_, str>) -> Cow<'_, str> {
    let end = path_and_query.find(['?', '#']).unwrap_or(path_and_query.len());
    let (path, rest) = path_and_query.split_at(end);
    // `*`, and what else is no path, stays as it is.
    if !path.starts_with(['/', '\\']) || is_normal(path) {
        return path_and_query;
    }
    let mut normal = remove_dot_segments(&merge_slashes(&decode_allowed(path)));
    normal.push_str(rest);
    Cow::Owned(normal)
}

/// Whether a path certainly is in its normal form, as nearly all are.
fn is_normal(path: &str) -> bool {
    !path.contains(['%', '\\']) && !path.contains("//") && !path.contains("/.")
}

/// Whether a path may have this octet without encoding it: RFC 3986 3.3, without the slash.
fn is_allowed(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&octet)
}

fn decode_allowed(path: &str) -> String {
    let mut decoded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let octet = rest.as_bytes().first_chunk::<3>().and_then(|[percent, high, low]| {
            let (high, low) = (digit(*high)?, digit(*low)?);
            (*percent == b'%').then_some(high << 4 | low)
        });
        let length = match octet {
            Some(octet) if is_allowed(octet) => {
                decoded.push(char::from(octet));
                3
            }
            Some(_) => {
                decoded.push_str(&rest[..3].to_ascii_uppercase());
                3
            }
            None => {
                decoded.push(if first == '\\' { '/' } else { first });
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    decoded
}

/// RFC 3986 5.2.4, for a path that begins with a slash.
fn remove_dot_segments(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." if is_last => kept.push(""),
            "." => {}
            ".." => {
                kept.pop();
                if is_last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    kept.iter().fold(String::with_capacity(path.len()), |path, segment| path + "/" + segment)
}

fn merge_slashes(path: &str) -> String {
    let mut merged = String::with_capacity(path.len());
    for character in path.chars() {
        if !(character == '/' && merged.ends_with('/')) {
            merged.push(character);
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    //! Which paths are one.
    use super::*;

    fn check(path: &str, expected: &str) {
        assert_eq!(normalize(path.into()), expected, "{path}");
        assert_eq!(normalize(expected.into()), expected, "the normal form of {path} is normal");
    }

    #[test]
    fn spellings_of_one_path_become_one() {
        for path in
            ["/login", "//login", "/./login", "/x/../login", "/%6cogin", "/%6Cogin", "/%2e/login", "\\login"]
        {
            check(path, "/login");
        }
        for path in
            ["/x/%2E%2e/login", "/../login", "/../../login", "///login", "/./x/.././login", "/x\\..\\login"]
        {
            check(path, "/login");
        }
        for path in
            ["/x//../login", "/x///..//login", "/x/y//../../login", "/x\\/../login", "/x//%2e%2E/login"]
        {
            check(path, "/login");
        }
        check("/a/b/..", "/a/");
        check("/a/b/.", "/a/b/");
        check("/..", "/");
        check("/a//b///", "/a/b/");
        check("/a/...", "/a/...");
        check("/a/.b", "/a/.b");
    }

    #[test]
    fn what_means_something_else_stays() {
        check("/a%2fb%3f%23%5c", "/a%2Fb%3F%23%5C");
        check("/%00%1f%7f%22%3c%7c%ff", "/%00%1F%7F%22%3C%7C%FF");
        check("/a%20b%zz%", "/a%20b%zz%");
        check("/%252e", "/%252e");
        check("/login?next=//x/../y%2e", "/login?next=//x/../y%2e");
        check("//login?//", "/login?//");
        check("*", "*");
        check("", "");
        check("/\u{e4}%c3%a4", "/\u{e4}%C3%A4");
    }

    #[test]
    fn octets_that_a_path_may_have_are_decoded() {
        check("/%21%24%26%27%28%29%2a%2B%2c%3b%3D%3a%40", "/!$&'()*+,;=:@");
        check("/login%3bx", "/login;x");
        for octet in 0..=u8::MAX {
            let decoded = normalize(format!("/x%{octet:02x}y").into()).into_owned();
            let expected = if is_allowed(octet) {
                format!("/x{}y", char::from(octet))
            } else {
                format!("/x%{octet:02X}y")
            };
            assert_eq!(decoded, expected);
        }
    }

    #[test]
    fn a_path_that_is_normal_already_is_not_copied() {
        assert!(matches!(normalize("/v1/orders?a=b".into()), Cow::Borrowed(_)));
    }
}
