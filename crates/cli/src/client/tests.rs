//! Who is on this machine, and who only looks like it.

use super::*;

#[test]
fn only_this_machine_is_here() {
    let here = [
        "http://127.0.0.1:9090",
        "127.0.0.1:9090",
        "https://127.8.9.10/",
        "http://[::1]:9090",
        "http://localhost:9090",
        "http://LocalHost",
        "http://user@127.0.0.1:9090",
    ];
    for url in here {
        assert!(is_here(url), "{url}");
    }
    let elsewhere = [
        "http://192.0.2.7:9090",
        "http://0.0.0.0:9090",
        "http://[2001:db8::1]:9090",
        "http://tollgate.example.com",
        "http://localhost.example.com",
        "http://127.0.0.1.example.com:9090",
        "http://127.0.0.1@example.com",
        "http://localhost:9090@example.com",
        "http://example.com/localhost",
        "",
        "http://",
    ];
    for url in elsewhere {
        assert!(!is_here(url), "{url}");
    }
}
