//! The real Envoy, which shows a certificate to the server that it asks.

use std::path::Path;

use serde_json::{Value, json};
use tollgate_testkit::real::{Gateway, Tollgate};

use super::authority::Authority;
use super::{launch, with_mutual_tls};

/// What Envoy needs to know to speak TLS: whom to trust, and what to show.
fn transport_socket(folder: &Path, shows: Option<&str>) -> Value {
    let file = |name: &str| json!({"filename": folder.join(name)});
    let certificates: Vec<_> = shows
        .iter()
        .map(|name| {
            json!({"certificate_chain": file(&format!("{name}.pem")), "private_key": file(&format!("{name}.key"))})
        })
        .collect();
    json!({"name": "envoy.transport_sockets.tls", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "sni": "localhost",
        "common_tls_context": {
            "tls_certificates": certificates,
            "validation_context": {"trusted_ca": file("ca.pem")},
        },
    }})
}

fn gateway(tollgate: &Tollgate) -> Gateway {
    let by_user =
        json!([{"actions": [{"request_headers": {"header_name": "x-user", "descriptor_key": "user"}}]}]);
    Gateway { failure_mode_deny: true, ..Gateway::new(tollgate.grpc(), by_user) }
}

/// The statuses of two requests.
fn statuses(gateway: &Gateway) -> [u16; 2] {
    let envoy = gateway.start();
    let mut client = envoy.client();
    [(); 2].map(|()| client.get("/", &[("x-user", "ann")]).status)
}

#[test]
fn envoy_shows_a_certificate() {
    let ours = Authority::new("ours");
    let launch = with_mutual_tls(&ours);
    ours.vouch_for("envoy").write(launch.folder(), "envoy");
    Authority::new("theirs").vouch_for("eve").write(launch.folder(), "eve");
    let tollgate = launch.start();
    let folder = tollgate.rules();
    let shown = |name| {
        let socket = transport_socket(folder.parent().unwrap(), name);
        statuses(&Gateway { transport_socket: Some(socket), ..gateway(&tollgate) })
    };
    assert_eq!(shown(Some("eve")), [500, 500], "nobody is asked");
    assert_eq!(shown(None), [500, 500], "nobody is asked");
    assert_eq!(shown(Some("envoy")), [200, 429]);
}

#[test]
fn envoy_shows_a_token() {
    let tollgate = launch().flag("grpc-tokens", "0123456789abcdef").start();
    let shown = |token: &str| {
        let metadata = json!([{"key": "authorization", "value": format!("Bearer {token}")}]);
        statuses(&Gateway { metadata, ..gateway(&tollgate) })
    };
    assert_eq!(shown("0123456789abcdee"), [500, 500]);
    assert_eq!(shown("0123456789abcdef"), [200, 429]);
}
