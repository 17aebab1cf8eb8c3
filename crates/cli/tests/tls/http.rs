//! curl, and the command itself.

use std::path::Path;
use std::process::Command;

use tollgate_testkit::real::{Finished, Tollgate, run, tool};

use super::authority::Authority;
use super::{TOLLGATE, launch, with_mutual_tls, with_tls};

const QUESTION: &str = r#"{"policy": "ten-an-hour", "key": "ann"}"#;

fn curl(folder: &Path, arguments: &[&str]) -> Finished {
    tool("curl", &["--version"]);
    run(Command::new("curl").args(["-sS", "--cacert", "ca.pem"]).args(arguments).current_dir(folder))
}

fn url(tollgate: &Tollgate, path: &str) -> String {
    format!("https://{}{path}", tollgate.http())
}

#[test]
fn curl_speaks_both_versions() {
    let tollgate = with_tls(&Authority::new("ours")).start();
    let folder = tollgate.rules();
    let folder = folder.parent().unwrap();
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        for address in [tollgate.http(), tollgate.admin()] {
            let url = format!("https://{address}/healthz");
            let finished = curl(folder, &[flag, "-w", "%{http_version}", &url]);
            assert_eq!((finished.code, finished.stdout), (Some(0), format!("ok\n{version}")), "{flag} {url}");
        }
        let asked = curl(folder, &[flag, &url(&tollgate, "/v1/check"), "-d", QUESTION]);
        assert!(asked.stdout.starts_with(r#"{"allowed":true"#), "{asked:?}");
    }
    // One that does not know the authority, and one that speaks in the clear.
    let unknown = run(Command::new("curl").args(["-sS", &url(&tollgate, "/healthz")]));
    assert_eq!(unknown.code, Some(60), "{unknown:?}");
    let in_the_clear = curl(folder, &[&url(&tollgate, "/healthz").replace("https", "http")]);
    assert_eq!(in_the_clear.code, Some(1), "an alert is no HTTP, and no reset: {in_the_clear:?}");
}

#[test]
fn curl_shows_a_certificate() {
    let ours = Authority::new("ours");
    let tollgate = with_mutual_tls(&ours).start();
    let folder = tollgate.rules();
    let folder = folder.parent().unwrap();
    ours.vouch_for("ann").write(folder, "ann");
    Authority::new("theirs").vouch_for("eve").write(folder, "eve");
    let health = url(&tollgate, "/healthz");
    let shown = |name: &str| {
        curl(folder, &["--cert", &format!("{name}.pem"), "--key", &format!("{name}.key"), &health])
    };
    assert_eq!(shown("ann").stdout, "ok\n");
    let (stranger, nobody) = (shown("eve"), curl(folder, &[&health]));
    assert!(stranger.code != Some(0) && stranger.stderr.contains("alert"), "{stranger:?}");
    assert!(nobody.code != Some(0) && nobody.stderr.contains("alert"), "{nobody:?}");
    // Scrapers need none, unless told otherwise.
    assert_eq!(curl(folder, &[&format!("https://{}/readyz", tollgate.admin())]).stdout, "ready\n");
}

/// The line that a server prints to be tried.
fn try_it(tollgate: &Tollgate) -> Option<String> {
    let greeting = tollgate.greeting();
    let (_, line) = greeting.split_once("Try it:\n")?;
    Some(tool("sh", &["-c", line.trim()]).stdout)
}

#[test]
fn the_greeting_is_true() {
    let ours = Authority::new("ours");
    let plain = launch().start();
    assert!(
        !plain.greeting().contains("TLS") && !plain.greeting().contains("(token"),
        "{}",
        plain.greeting()
    );
    assert!(try_it(&plain).unwrap().starts_with("HTTP/1.1 200 OK"));

    let tls = with_tls(&ours).start();
    assert_eq!(tls.greeting().matches(" (TLS)\n").count(), 4, "{}", tls.greeting());
    assert!(try_it(&tls).unwrap().starts_with("HTTP/2 200"), "{:?}", try_it(&tls));

    let mutual = with_mutual_tls(&ours).flag("resp-tls", "on").flag("grpc-tls", "off").start();
    let greeting = mutual.greeting();
    assert_eq!((greeting.matches(" (mutual TLS)\n").count(), greeting.matches(" (TLS)\n").count()), (1, 2));
    assert_eq!(try_it(&mutual).unwrap().lines().next(), Some("0"), "only a Redis client needs nothing");

    let token = launch().flag("http-tokens", "0123456789abcdef").flag("resp", "off").start();
    assert!(token.greeting().contains("/json (token)\n"), "{}", token.greeting());
    assert_eq!(try_it(&token), None, "nothing that works can be printed");
}

#[test]
fn the_command_asks_over_tls_with_a_token() {
    const TOKEN: &str = "0123456789abcdef";
    let tollgate = with_tls(&Authority::new("ours")).flag("http-tokens", TOKEN).start();
    let folder = tollgate.rules();
    let folder = folder.parent().unwrap();
    Authority::new("theirs").write(folder, "theirs");
    let check = |arguments: &[&str], variable: Option<&str>| {
        let mut command = Command::new(TOLLGATE);
        command.args([
            "check",
            "--server",
            url(&tollgate, "").as_str(),
            "--policy",
            "ten-an-hour",
            "--key",
            "ann",
        ]);
        command.args(arguments).current_dir(folder).env_clear();
        run(command.envs(variable.map(|token| ("TOLLGATE_TOKEN", token))))
    };
    assert_eq!(check(&["--ca", "ca.pem", "--token", TOKEN], None).stdout, "allowed: 9 of 10 left\n");
    assert_eq!(check(&["--ca", "ca.pem"], Some(TOKEN)).stdout, "allowed: 8 of 10 left\n");
    let refused = |arguments: &[&str], code: i32, why: &str| {
        let finished = check(arguments, None);
        assert!(finished.code == Some(code) && finished.stderr.contains(why), "{finished:?}");
    };
    refused(&["--ca", "ca.pem"], 2, "the server says 401: a token is needed");
    refused(&["--token", TOKEN], 2, "https:// needs --ca FILE");
    refused(&["--ca", "theirs.pem", "--token", TOKEN], 1, "UnknownIssuer");
    refused(&["--ca", "nosuch.pem"], 1, "cannot read `nosuch.pem`");
}
