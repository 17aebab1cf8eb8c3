//! What a server does with its settings before it serves.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::TcpStream;

use tempfile::TempDir;

use super::*;
use crate::tls::TlsSettings;

/// More connections than fit into the backlog that the standard library asks for.
const BURST: usize = 400;

fn web_hosts_at(address: &str) -> WebHosts {
    web_hosts(&Settings { http: Listen::At(address.parse().unwrap()), ..Settings::default() })
}

#[test]
fn a_local_listener_checks_the_host_however_its_address_is_written() {
    for address in ["127.0.0.1:0", "127.1.2.3:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
        assert!(web_hosts_at(address).checks_host(), "{address}");
        let settings = Settings { http: Listen::At(address.parse().unwrap()), ..Settings::default() };
        assert!(check_protected(&settings).is_ok(), "{address}");
    }
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        assert!(!web_hosts_at(address).checks_host(), "{address}");
        let settings = Settings { http: Listen::At(address.parse().unwrap()), ..Settings::default() };
        assert!(check_protected(&settings).is_err(), "{address}");
    }
}

#[tokio::test]
async fn a_burst_of_connections_waits_to_be_accepted() {
    let somaxconn = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap_or_default();
    if somaxconn.trim().parse().is_ok_and(|cap: usize| cap < BURST) {
        return; // The system lets no listener have as many.
    }
    let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    // A client whose SYN is dropped sends it again after a second.
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(900));
    let connected: Vec<TcpStream> = (0..BURST).map_while(|index| connect(index).ok()).collect();
    assert_eq!(connected.len(), BURST);
}

/// How many parts of a server with these certificates have its clock.
async fn clock_holders(folder: &TempDir, tls: TlsSettings) -> usize {
    let settings = Settings {
        rules: folder.path().to_owned(),
        http: Listen::At("127.0.0.1:0".parse().unwrap()),
        grpc: Listen::Off,
        resp: Listen::Off,
        admin: Listen::Off,
        database: Some(DatabaseAddress::Off),
        workers: 1,
        tls,
        ..Settings::default()
    };
    let running = Box::pin(serve(settings)).await.unwrap();
    Arc::strong_count(running.gate().clock())
}

/// A clock of its own would not follow the steps of wall time, and would take an expired revocation list for a current one.
#[tokio::test]
async fn certificates_are_judged_by_the_clock_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yaml"), "domain: shop").unwrap();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let secrets = tempfile::tempdir().unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| secrets.path().join(name));
    fs::write(&certificate, pair.cert.pem()).unwrap();
    fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    let without = clock_holders(&folder, TlsSettings::default()).await;
    let tls = TlsSettings { certificate: Some(certificate), key: Some(key), ..TlsSettings::default() };
    assert_eq!(clock_holders(&folder, tls).await, without + 1, "what reloads certificates has it too");
}
