//! What is malformed besides the rows of `hostile/rfc9113.rs` in the testkit.
#![allow(clippy::unwrap_used)]

use super::*;

fn check(method: &str, uri: &str, host: Option<&str>) -> bool {
    let mut request = Request::builder().method(method).uri(uri);
    if let Some(host) = host {
        request = request.header(HOST, host);
    }
    is_malformed(&request.body(()).unwrap())
}

#[test]
fn a_host_field_names_the_same_host_as_the_authority() {
    for (uri, host) in [
        ("http://tollgate/", "tollgate"),
        ("http://tollgate/", "Tollgate:80"),
        ("https://tollgate:443/", "tollgate"),
        ("http://[::1]:8080/", "[::1]:8080"),
        ("/", "tollgate"),
    ] {
        assert!(!check("GET", uri, Some(host)), "{uri} {host}");
    }
    for (uri, host) in [
        ("http://tollgate/", "elsewhere"),
        ("http://tollgate/", "tollgate:8080"),
        ("https://tollgate/", "tollgate:80"),
        ("http://tollgate/", ""),
    ] {
        assert!(check("GET", uri, Some(host)), "{uri} {host}");
    }
}

#[test]
fn a_target_is_a_path_unless_the_method_says_otherwise() {
    assert!(!check("OPTIONS", "*", None));
    assert!(check("GET", "*", None));
    assert!(!check("CONNECT", "tollgate:80", None));
    assert!(check("CONNECT", "/", None));
}
