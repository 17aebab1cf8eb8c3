//! What can be written, what it means, and what is said of the rest.

use super::*;

fn read(text: &str) -> Result<Address, AddressError> {
    text.parse()
}

/// An address means the same as its shortest form.
fn check(text: &str, shown: &str) -> Address {
    let address = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(address.to_string(), shown, "{text}");
    address
}

fn check_error(text: &str, expected: &AddressError) {
    assert_eq!(read(text).as_ref(), Err(expected), "{text}");
}

#[test]
fn reads_every_kind() {
    let one = check("redis://localhost", "redis://localhost:6379");
    assert_eq!(one.layout, Layout::One { database: 0 });
    assert!(!one.is_tls);
    check("redis://10.0.0.1:6380/3", "redis://10.0.0.1:6380/3");
    check("redis://[::1]:7000", "redis://[::1]:7000");
    check("redis://[fe80::1]", "redis://[fe80::1]:6379");
    let sentinel = check("redis+sentinel://a,b:26380/mymaster", "redis+sentinel://a:26379,b:26380/mymaster");
    assert_eq!(sentinel.layout, Layout::Sentinel { master: "mymaster".to_owned(), database: 0 });
    check("redis+sentinel://a/mymaster/2", "redis+sentinel://a:26379/mymaster/2");
    let cluster =
        check("rediss+cluster://A.example:7000,b.example", "rediss+cluster://a.example:7000,b.example:6379");
    assert!(cluster.is_tls);
    assert_eq!(cluster.layout, Layout::Cluster);
    assert_eq!(check("redis+ring://a,b,c/", "redis+ring://a:6379,b:6379,c:6379").layout, Layout::Ring);
}

#[test]
fn a_password_is_read_and_never_shown() {
    let cases = [
        ("redis://:s3cret@h", None, Some("s3cret")),
        ("redis://tollgate:s3%40c%3Aret@h:1/2", Some("tollgate"), Some("s3@c:ret")),
        ("redis://tollgate:p@ss/w@h", Some("tollgate"), Some("p@ss/w")),
        ("redis://tollgate@h", Some("tollgate"), None),
        ("rediss+cluster://u%25:%C3%A9@h1,h2", Some("u%"), Some("é")),
    ];
    for (text, user, password) in cases {
        let address = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(address.credentials.user.as_deref(), user, "{text}");
        assert_eq!(address.credentials.password.as_ref().map(Secret::reveal), password, "{text}");
        let shown = format!("{address} {address:?}");
        if let Some(password) = password {
            assert!(!shown.contains(password), "{shown}");
        }
    }
}

#[test]
fn every_mistake_has_its_error() {
    check_error("localhost:6379", &AddressError::Scheme(None));
    check_error("valkey://h", &AddressError::Scheme(Some("redis://")));
    check_error("redis-cluster://h", &AddressError::Scheme(Some("redis+cluster://")));
    check_error("redis+sentinels://h/m", &AddressError::Scheme(Some("redis+sentinel://")));
    check_error("redis+mesh://h", &AddressError::Scheme(None));
    check_error("redis://", &AddressError::Host(1));
    check_error("redis+ring://a,,b", &AddressError::Host(2));
    check_error("redis+ring://a, b", &AddressError::Host(2));
    check_error("redis://h:0", &AddressError::Port(1));
    check_error("redis://h:65536", &AddressError::Port(1));
    check_error("redis+ring://a,h:", &AddressError::Port(2));
    check_error("redis://[::1]x", &AddressError::Port(1));
    check_error("redis://::1", &AddressError::Brackets(1));
    check_error("redis://[::1", &AddressError::Brackets(1));
    check_error("redis://a,b", &AddressError::ManyNodes);
    check_error("redis+ring://a,b,A:6379", &AddressError::Twice(3));
    check_error("redis+sentinel://a", &AddressError::Master);
    check_error("redis+sentinel://a//1", &AddressError::Master);
    check_error("redis://h/x", &AddressError::Database);
    check_error("redis://h/-1", &AddressError::Database);
    check_error("redis+cluster://h/1", &AddressError::NoDatabases);
    check_error("redis://u:%4@h", &AddressError::Escape);
    check_error("redis://u:%ff@h", &AddressError::Escape);
    check_error("redis://h?timeout=1", &AddressError::Query);
}

#[test]
fn as_many_nodes_as_there_may_be() {
    let hosts = |count: usize| {
        let hosts: Vec<String> = (0..count).map(|number| format!("n{number}")).collect();
        read(&format!("redis+ring://{}", hosts.join(",")))
    };
    assert_eq!(hosts(NODES_MAX).map(|address| address.nodes.len()), Ok(NODES_MAX));
    assert_eq!(hosts(NODES_MAX + 1), Err(AddressError::TooManyNodes));
}

#[test]
fn an_error_shows_nothing_of_what_was_written() {
    for text in [
        "redis://:hunter2",
        "redis://u:hunter2",
        "redis://u:hunter2:x",
        "hunter2",
        "redis+hunter2://x",
        "redis://h/hunter2",
        "redis://u:hunter2%x@h",
    ] {
        let Err(error) = read(text) else { panic!("{text} is no address") };
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{text}: {error}");
    }
}
