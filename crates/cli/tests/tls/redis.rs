//! redis-cli, which can do TLS, and passwords.

use std::path::Path;
use std::process::Command;

use tollgate_testkit::real::{Finished, Tollgate, run, tool};

use super::authority::Authority;
use super::{launch, with_mutual_tls, with_tls};

const TOKEN: &str = "0123456789abcdef";

fn redis_cli(tollgate: &Tollgate, arguments: &[&str]) -> Finished {
    tool("redis-cli", &["--version"]);
    let folder = tollgate.rules();
    let folder: &Path = folder.parent().unwrap();
    let port = tollgate.resp().port().to_string();
    run(Command::new("redis-cli").args(["-p", &port]).args(arguments).current_dir(folder))
}

#[test]
fn redis_cli_speaks_tls() {
    let tollgate = with_tls(&Authority::new("ours")).start();
    let throttle = ["CL.THROTTLE", "user", "15", "30", "60"];
    let answer = redis_cli(&tollgate, &[&["--tls", "--cacert", "ca.pem"], &throttle[..]].concat()).stdout;
    assert_eq!(answer.lines().collect::<Vec<_>>(), ["0", "16", "15", "-1", "2"]);
    let in_the_clear = redis_cli(&tollgate, &throttle);
    assert!(in_the_clear.code != Some(0), "{in_the_clear:?}");
}

#[test]
fn redis_cli_shows_a_certificate() {
    let ours = Authority::new("ours");
    let launch = with_mutual_tls(&ours);
    ours.vouch_for("ann").write(launch.folder(), "ann");
    Authority::new("theirs").vouch_for("eve").write(launch.folder(), "eve");
    let tollgate = launch.start();
    let ping = |certificate: &[&str]| {
        redis_cli(&tollgate, &[&["--tls", "--cacert", "ca.pem"], certificate, &["PING"]].concat()).stdout
    };
    assert_eq!(ping(&["--cert", "ann.pem", "--key", "ann.key"]), "PONG\n");
    assert_ne!(ping(&["--cert", "eve.pem", "--key", "eve.key"]), "PONG\n");
    assert_ne!(ping(&[]), "PONG\n");
}

#[test]
fn redis_cli_shows_a_token() {
    let tollgate = launch().flag("resp-tokens", &format!("another-0123456789,{TOKEN}")).start();
    let ping = |arguments: &[&str]| redis_cli(&tollgate, &[arguments, &["PING"]].concat()).stdout;
    assert_eq!(ping(&["--no-auth-warning", "-a", TOKEN]), "PONG\n");
    assert_eq!(ping(&["--no-auth-warning", "--user", "default", "-a", TOKEN]), "PONG\n");
    assert_eq!(ping(&["--no-auth-warning", "-3", "-a", TOKEN]), "PONG\n");
    assert_eq!(ping(&[]), "NOAUTH Authentication required.\n\n");
    assert_eq!(ping(&["--no-auth-warning", "-a", "wrong"]), "NOAUTH Authentication required.\n\n");
    assert_eq!(tollgate.metric("ratelimit_unauthorized_total{protocol=\"resp\"}"), 3);
}
