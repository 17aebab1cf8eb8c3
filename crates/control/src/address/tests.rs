//! What can be written, what it means, and what is said of the rest.

use super::*;

fn check(text: &str, shown: &str) -> DatabaseAddress {
    let address: DatabaseAddress = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(address.to_string(), shown, "{text}");
    address
}

fn check_error(text: &str, expected: &AddressError) {
    assert_eq!(text.parse::<DatabaseAddress>().as_ref(), Err(expected), "{text}");
}

#[test]
fn reads_every_kind() {
    assert_eq!(check("off", "off"), DatabaseAddress::Off);
    assert_eq!(check("sqlite:data/a.db", "sqlite:data/a.db"), DatabaseAddress::Sqlite("data/a.db".into()));
    check("sqlite:/var/lib/a b.db", "sqlite:/var/lib/a b.db");
    check("sqlite:///var/lib/a.db", "sqlite:/var/lib/a.db");
    check("postgres://t@h/d", "postgres://t@h:5432/d");
    check("postgresql://t:p@H:7/d", "postgres://t@h:7/d");
    check("postgres://t@[::1]/d?sslmode=disable", "postgres://t@[::1]:5432/d?sslmode=disable");
    check("postgres://t@[::1]:9/d%20e?sslmode=prefer", "postgres://t@[::1]:9/d e");
    let full = check(
        "postgres://t@h/d?sslrootcert=/etc/ca%2Epem&sslmode=verify-full",
        "postgres://t@h:5432/d?sslmode=verify-full",
    );
    let DatabaseAddress::Postgres(full) = full else { panic!("{full}") };
    assert_eq!(full.sslrootcert, Some("/etc/ca.pem".into()));
    assert_eq!(full.sslmode, SslMode::VerifyFull);
}

#[test]
fn a_password_is_read_and_never_shown() {
    let cases = [
        ("postgres://t:s3cret@h/d", "s3cret"),
        ("postgres://t:s3%40c%3Aret@h:1/d", "s3@c:ret"),
        ("postgres://t:p@ss/w?x@h/d?sslmode=require", "p@ss/w?x"),
    ];
    for (text, password) in cases {
        let address: DatabaseAddress = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let DatabaseAddress::Postgres(postgres) = &address else { panic!("{address}") };
        assert_eq!(postgres.password.as_ref().map(Secret::reveal), Some(password), "{text}");
        assert_eq!(postgres.user, "t");
        let shown = format!("{address} {address:?}");
        assert!(!shown.contains(password), "{shown}");
    }
}

#[test]
fn every_mistake_has_its_error_and_shows_nothing() {
    let cases = [
        ("", AddressError::Scheme),
        ("mysql://u:s3cret@h/d", AddressError::Scheme),
        ("postgres:u:s3cret@h/d", AddressError::Scheme),
        ("sqlite:", AddressError::Path),
        ("sqlite::memory:", AddressError::Memory),
        ("sqlite://data/a.db", AddressError::Slashes),
        ("postgres://h/d", AddressError::User),
        ("postgres://:s3cret@h/d", AddressError::User),
        ("postgres://t:s3cret@/d", AddressError::Host),
        ("postgres://t:s3cret@a,b/d", AddressError::Host),
        ("postgres://t:s3cret@h:0/d", AddressError::Port),
        ("postgres://t:s3cret@h:x/d", AddressError::Port),
        ("postgres://t:s3cret@::1/d", AddressError::Brackets),
        ("postgres://t:s3cret@[::1/d", AddressError::Brackets),
        ("postgres://t:s3cret@h", AddressError::Database),
        ("postgres://t:s3cret@h/d/e", AddressError::Database),
        ("postgres://t:s3cret@h/d?sslmode=verify", AddressError::SslMode),
        ("postgres://t:s3cret@h/d?ssl=on", AddressError::Parameter),
        ("postgres://t:s3cret@h/d?sslmode=require&sslmode=disable", AddressError::Parameter),
        ("postgres://t:s3cret%4@h/d", AddressError::Escape),
    ];
    for (text, expected) in &cases {
        check_error(text, expected);
        assert!(!expected.to_string().contains("s3cret"));
    }
}
