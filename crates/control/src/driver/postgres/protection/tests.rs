//! How a password is protected on its way, by host and `sslmode`.
#![allow(clippy::unwrap_used, clippy::panic)]

use config::{ChannelBinding, SslMode as Driver};

use super::*;
use crate::address::DatabaseAddress;

fn protection(host: &str, parameters: &str) -> Protection {
    let address: DatabaseAddress = format!("postgres://t:secret@{host}/d{parameters}").parse().unwrap();
    let DatabaseAddress::Postgres(address) = address else { panic!("{address}") };
    Protection::of(&address)
}

#[test]
fn a_password_goes_to_a_verified_server_or_by_scram_with_binding() {
    let (require, prefer) = (ChannelBinding::Require, ChannelBinding::Prefer);
    for (host, parameters, mode, binding, warns) in [
        ("db.example", "", Driver::Require, require, true),
        ("db.example", "?sslmode=prefer", Driver::Require, require, true),
        ("db.example", "?sslmode=require", Driver::Require, require, true),
        ("db.example", "?sslmode=require&sslrootcert=/ca.pem", Driver::Require, prefer, false),
        ("db.example", "?sslmode=verify-ca", Driver::Require, prefer, false),
        ("db.example", "?sslmode=verify-full", Driver::Require, prefer, false),
        ("db.example", "?sslmode=disable", Driver::Disable, prefer, true),
        ("localhost", "", Driver::Require, require, false),
        ("127.0.0.1", "?sslmode=require", Driver::Require, require, false),
        ("[::1]", "?sslmode=disable", Driver::Disable, prefer, false),
        ("10.0.0.1", "", Driver::Require, require, true),
    ] {
        let protection = protection(host, parameters);
        assert_eq!(protection.ssl_mode(), mode, "{host} {parameters}");
        assert_eq!(protection.channel_binding(), binding, "{host} {parameters}");
        assert_eq!(protection.warning().is_some(), warns, "{host} {parameters}");
    }
}

#[test]
fn prefer_falls_back_to_no_tls_on_loopback_only() {
    assert!(protection("127.0.0.1", "").falls_back(NO_TLS));
    assert!(!protection("127.0.0.1", "").falls_back(NO_BINDING));
    assert!(!protection("10.0.0.1", "").falls_back(NO_TLS));
    assert!(!protection("127.0.0.1", "?sslmode=require").falls_back(NO_TLS));
    let error = protection("10.0.0.1", "").error("postgres://t@10.0.0.1", NO_TLS);
    let text = error.unwrap().to_string();
    assert!(text.contains("sslmode=disable") && !text.contains("secret"), "{text}");
}

#[test]
fn without_a_password_there_is_none_to_protect() {
    let address: DatabaseAddress = "postgres://t@db.example/d".parse().unwrap();
    let DatabaseAddress::Postgres(address) = address else { panic!("{address}") };
    let protection = Protection::of(&address);
    assert_eq!(
        (protection.ssl_mode(), protection.channel_binding()),
        (Driver::Prefer, ChannelBinding::Prefer)
    );
}
