//! grpcio, with certificates and tokens.

use std::path::Path;

use tollgate_testkit::real::{Tollgate, python};

use super::authority::Authority;
use super::{launch, with_mutual_tls, with_tls};

const TOKEN: &str = "0123456789abcdef";

/// What health and `ShouldRateLimit` answer to somebody who shows this certificate, if any, and this token.
#[track_caller]
fn check(tollgate: &Tollgate, shows: Option<&str>, token: &str, expected: &str) {
    let folder = tollgate.rules();
    let folder = folder.parent().unwrap().display().to_string();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/tls_client.py");
    let shows = shows.unwrap_or_default().to_owned();
    let finished = python(&script, &[tollgate.grpc().port().to_string(), folder, shows, token.to_owned()]);
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), expected), "{}", finished.stderr);
}

#[test]
fn grpcio_shows_a_certificate() {
    let ours = Authority::new("ours");
    let launch = with_mutual_tls(&ours);
    ours.vouch_for("ann").write(launch.folder(), "ann");
    Authority::new("theirs").vouch_for("eve").write(launch.folder(), "eve");
    let tollgate = launch.start();
    check(&tollgate, Some("ann"), "", "SERVING OK");
    check(&tollgate, Some("ann"), "", "SERVING OVER_LIMIT");
    check(&tollgate, Some("eve"), "", "UNAVAILABLE UNAVAILABLE");
    check(&tollgate, None, "", "UNAVAILABLE UNAVAILABLE");
}

#[test]
fn grpcio_shows_a_token() {
    let tollgate = with_tls(&Authority::new("ours")).flag("grpc-tokens", TOKEN).start();
    check(&tollgate, None, TOKEN, "SERVING OK");
    check(&tollgate, None, "wrong", "SERVING UNAUTHENTICATED");
    check(&tollgate, None, "", "SERVING UNAUTHENTICATED");
    // Without TLS, a client of TLS has nothing to talk to.
    check(&launch().start(), None, TOKEN, "UNAVAILABLE UNAVAILABLE");
}
