//! Certificates and tokens that change while clients are connected.

use std::path::PathBuf;

use tollgate_testkit::real::{Client as Plain, Signal, Tollgate, until};

use super::authority::{Authority, put};
use super::client::Client;
use super::{launch, with_mutual_tls, with_tls};

fn folder(tollgate: &Tollgate) -> PathBuf {
    tollgate.rules().parent().unwrap().to_owned()
}

#[test]
fn a_new_certificate_is_shown_to_new_clients_and_disturbs_nobody() {
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let tollgate = with_tls(&before).start();
    let mut established = Client::connect(tollgate.resp(), &before, None).unwrap();
    established.ping().unwrap();
    assert!(Client::connect(tollgate.resp(), &after, None).is_err());

    after.vouch_for("localhost").write(&folder(&tollgate), "server");
    tollgate.wait_for_log("certificates reloaded");
    established.ping().unwrap();
    Client::connect(tollgate.resp(), &after, None).unwrap().ping().unwrap();
    assert!(Client::connect(tollgate.resp(), &before, None).is_err(), "the old one is shown to nobody");
    established.ping().unwrap();
}

#[test]
fn a_broken_pair_leaves_the_last_good_one_in_force() {
    let ours = Authority::new("ours");
    let tollgate = with_tls(&ours).start();
    put(&folder(&tollgate).join("server.key"), &ours.vouch_for("localhost").key);
    tollgate.wait_for_log(
        "certificates not reloaded, the last good ones stay in force: `tls_key` server.key: this key",
    );
    Client::connect(tollgate.resp(), &ours, None).unwrap().ping().unwrap();
    put(&folder(&tollgate).join("server.pem"), "nonsense");
    tollgate.wait_for_log("`tls_certificate` server.pem: no certificate in PEM");
    Client::connect(tollgate.resp(), &ours, None).unwrap().ping().unwrap();
    ours.vouch_for("localhost").write(&folder(&tollgate), "server");
    tollgate.wait_for_log("certificates reloaded");
    Client::connect(tollgate.resp(), &ours, None).unwrap().ping().unwrap();
}

#[test]
fn another_authority_lets_other_clients_in() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let tollgate = with_mutual_tls(&ours).start();
    let (ann, eve) = (ours.vouch_for("ann"), theirs.vouch_for("eve"));
    // Who is refused learns of it when it reads.
    let ping =
        |shows| Client::connect(tollgate.resp(), &ours, Some(shows)).and_then(|mut client| client.ping());
    assert!(ping(&ann).is_ok() && ping(&eve).is_err());
    theirs.write(&folder(&tollgate), "ca");
    tollgate.signal(Signal::HUP);
    tollgate.wait_for_log("certificates reloaded");
    assert!(ping(&ann).is_err() && ping(&eve).is_ok());
}

#[test]
fn tokens_come_and_go() {
    const OLD: &str = "old-0123456789abcdef";
    const NEW: &str = "new-0123456789abcdef";
    let launch = launch();
    put(&launch.folder().join("tokens"), &format!("# ours\n{OLD}\n"));
    let tollgate = launch.flag("http-tokens", "@tokens").flag("log-level", "trace").start();
    let status = |token: &str| {
        let authorization = format!("Bearer {token}");
        let mut client = Plain::connect(tollgate.http()).unwrap();
        let question = r#"{"policy": "ten-an-hour", "key": "ann"}"#;
        client.send("POST", "/v1/peek", &[("authorization", &authorization)], question).unwrap().status
    };
    assert_eq!([OLD, NEW].map(status), [200, 401]);
    put(&folder(&tollgate).join("tokens"), &format!("{OLD}\n{NEW}\n"));
    until("both are known", || ([OLD, NEW].map(status) == [200, 200]).then_some(()));
    put(&folder(&tollgate).join("tokens"), "short\n");
    tollgate
        .wait_for_log("tokens not reloaded, the last good ones stay in force: `http_tokens` tokens: line 1:");
    assert_eq!([OLD, NEW].map(status), [200, 200]);
    put(&folder(&tollgate).join("tokens"), NEW);
    until("the old one is gone", || ([OLD, NEW].map(status) == [401, 200]).then_some(()));
    tollgate.wait_for_log("tokens reloaded");
    assert!(!tollgate.logs().contains("0123456789"), "no token is logged, whatever the level");
}
