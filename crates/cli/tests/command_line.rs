//! The command as people and scripts use it: exit codes, what it prints, and what it says of mistakes.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;
use serde_json::Value;
use tempfile::TempDir;
use tollgate_testkit::real::{Client, Finished, Launch, Signal, Tollgate, run, until};

const TOLLGATE: &str = env!("CARGO_BIN_EXE_tollgate");

const RULES: &str = "domain: shop
descriptors:
  - key: path
    value: /login
    descriptors:
      - key: user
        rate_limit: {unit: hour, requests_per_unit: 2}
  - key: path
    value: /img/*
    share_threshold: true
    rate_limit: {unit: second, requests_per_unit: 500}
";

const POLICIES: &str = "policies:
  three-an-hour: {requests: 3, period: 1h}
";

const BAD_RULES: &str = "domain: shop
descriptors:
  - key: user
    rate_limit: {unit: fortnight, requests_per_unit: 5}
  - key: user
    valeu: ann
";

/// A directory with these files, in which commands run.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn tollgate(folder: &Path, arguments: &[&str]) -> Finished {
    run(Command::new(TOLLGATE).args(arguments).current_dir(folder).env_clear())
}

/// A command with nothing to complain about, and what it prints.
fn check(folder: &Path, arguments: &[&str]) -> String {
    let finished = tollgate(folder, arguments);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    finished.stdout
}

/// A command that fails, and what it says, with its exit code above.
fn check_fails(folder: &Path, arguments: &[&str]) -> String {
    let finished = tollgate(folder, arguments);
    assert_eq!(finished.stdout, "", "{arguments:?}");
    format!("exit code {:?}\n{}", finished.code.unwrap(), finished.stderr)
}

fn serving() -> (Tollgate, String) {
    let tollgate = Launch::new(TOLLGATE).rules("shop.yaml", RULES).rules("policies.yaml", POLICIES).start();
    let server = format!("--server=http://{}", tollgate.http());
    (tollgate, server)
}

/// The same words, answered with each of these exit codes and lines in turn.
fn check_answers(server: &str, arguments: &[&str], answers: &[(i32, &str)]) {
    for (code, line) in answers {
        let finished = tollgate(Path::new("."), &[&["check", server], arguments].concat());
        assert_eq!((finished.code, finished.stderr.as_str()), (Some(*code), ""), "{arguments:?}");
        let told = finished.stdout.split(", retry after").next().unwrap().trim();
        assert_eq!(told, *line, "{arguments:?}");
    }
}

#[test]
fn a_check_says_it_with_its_exit_code() {
    let (_tollgate, server) = serving();
    check_answers(
        &server,
        &["--policy", "three-an-hour", "--key", "ann"],
        &[
            (0, "allowed: 2 of 3 left"),
            (0, "allowed: 1 of 3 left"),
            (0, "allowed: 0 of 3 left"),
            (3, "denied: 0 of 3 left"),
        ],
    );
    let login = ["--domain", "shop", "path=/login", "user=ann"];
    check_answers(&server, &[&login[..], &["--peek"]].concat(), &[(0, "allowed: 2 of 2 left"); 2]);
    check_answers(
        &server,
        &login,
        &[(0, "allowed: 1 of 2 left"), (0, "allowed: 0 of 2 left"), (3, "denied: 0 of 2 left")],
    );
    check_answers(
        &server,
        &["--domain", "shop", "path=/other"],
        &[(
            0,
            "allowed: no limit applies\nno rule of domain \"shop\" applies: `tollgate explain` says why each does not",
        )],
    );
    let nowhere = "allowed: no limit applies\nthere is no domain \"ship\"";
    check_answers(&server, &["--domain", "ship", "path=/login"], &[(0, nowhere)]);
    let never = "denied: 3 of 3 left\na cost of 4 can never pass \"three-an-hour\", which holds at most 3";
    check_answers(&server, &["--policy", "three-an-hour", "--key", "bob", "--cost", "4"], &[(3, never)]);
    let json = tollgate(Path::new("."), &[&["check", &server, "--json"], &login[..]].concat());
    assert_eq!(json.code, Some(3));
    let answer: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&answer["allowed"], &answer["code"]), (&false.into(), &"rate_limited".into()));
}

#[test]
fn a_denied_check_takes_nothing_whatever_it_costs() {
    let (_tollgate, server) = serving();
    let costing = |cost| ["--domain", "shop", "path=/login", "user=ann", "--cost", cost];
    check_answers(&server, &costing("1"), &[(0, "allowed: 1 of 2 left")]);
    check_answers(&server, &costing("2"), &[(3, "denied: 1 of 2 left"); 3]);
    check_answers(&server, &costing("0"), &[(0, "allowed: 1 of 2 left"); 3]);
    check_answers(&server, &costing("1"), &[(0, "allowed: 0 of 2 left"), (3, "denied: 0 of 2 left")]);
    let costing = |cost| ["--policy", "three-an-hour", "--key", "ann", "--cost", cost];
    check_answers(&server, &costing("2"), &[(0, "allowed: 1 of 3 left"), (3, "denied: 1 of 3 left")]);
    check_answers(&server, &costing("1"), &[(0, "allowed: 0 of 3 left")]);
}

#[test]
fn a_check_says_what_is_wrong() {
    let (_tollgate, server) = serving();
    let here = Path::new(".");
    assert_snapshot!(check_fails(here, &["check", &server, "--domain", "shop", "nonsense"]), @r#"
    exit code 2
    "nonsense" is not an entry of a descriptor: write key=value, such as path=/login
    "#);
    assert_snapshot!(check_fails(here, &["check", &server, "--policy", "three", "--key", "k"]), @r#"
    exit code 2
    the server says 404: unknown policy "three"; it could be three-an-hour
    "#);
    assert_snapshot!(check_fails(here, &["check", "--server=http://127.0.0.1:1", "--policy", "p", "--key", "k"]), @"
    exit code 1
    no answer from http://127.0.0.1:1: Connection refused (os error 111)
    Is it running? `tollgate serve` starts one; `--server` names another.
    ");
}

#[test]
fn rules_are_validated() {
    let folder =
        folder(&[("rules/shop.yaml", RULES), ("rules/policies.yaml", POLICIES), ("bad.yaml", BAD_RULES)]);
    assert_snapshot!(check(folder.path(), &["validate"]), @"all good: 2 files, 1 domain, 2 rules, 1 policy");
    assert_snapshot!(check_fails(folder.path(), &["validate", "bad.yaml"]), @"
    exit code 1
    bad.yaml:4:24: unknown unit `fortnight`
       |
     4 |     rate_limit: {unit: fortnight, requests_per_unit: 5}
       |                        ^^^^^^^^^
       = it can be second, minute, hour, day, week, month, year

    bad.yaml:5:10: the descriptor `user` without a value is listed twice
       |
     5 |   - key: user
       |          ^^^^
      ::: bad.yaml:3:10: first listed here
       |
     3 |   - key: user
       |          ^^^^
       = join the two: limits go into `rate_limits`, what follows into one `descriptors`

    bad.yaml:6:5: unknown key `valeu`
       |
     6 |     valeu: ann
       |     ^^^^^
       = did you mean `value`?
    ");
    assert_snapshot!(check_fails(folder.path(), &["validate", "none.yaml"]), @"
    exit code 1
    none.yaml: there is no such file or directory
    ");
}

#[test]
fn rules_are_explained() {
    let folder = folder(&[("rules/shop.yaml", RULES)]);
    assert_snapshot!(check(folder.path(), &["explain", "--domain", "shop", "path=/login", "user=ann"]), @r#"
    domain "shop"
      entry 1: path=/login
        -> path=/login: taken, the value is exactly this
           path=/img/* (one counter for all): no, the value differs
      entry 2: user=ann
        -> user (any value): taken, any value of the key
    result: rule "path=/login > user"
      limit "path=/login > user": 2 per hour (sliding_window)
      a counter of its own for each of: ann
    source: rules
    "#);
    assert_snapshot!(check(folder.path(), &["explain", "--domain", "ship", "path=/login"]), @r#"
    domain "ship" is unknown: every request of it passes, uncounted
    known domains: shop
    source: rules
    "#);
}

#[test]
fn explain_says_whose_address_is_counted_and_why() {
    let here = Path::new(".");
    let asked = ["explain", "--peer", "10.0.0.1", "-H", "X-Forwarded-For: 203.0.113.9, 10.0.0.2"];
    assert_snapshot!(check(here, &asked), @"client address 10.0.0.1: the peer 10.0.0.1 is not in `trusted_proxies`, so its header fields are not believed");
    let trusting = [&asked[..], &["--trusted-proxies", "private"]].concat();
    assert_snapshot!(check(here, &trusting), @"client address 203.0.113.9: entry 2 from the right of X-Forwarded-For, the first that is not in `trusted_proxies`; the peer 10.0.0.1 is trusted");
    let wrong = check_fails(here, &["explain", "--peer", "10.0.0.1", "-H", "nonsense"]);
    assert_snapshot!(wrong, @r#"
    exit code 2
    --header: "nonsense" is not a header field such as `X-Forwarded-For: 192.0.2.1`
    "#);
}

#[test]
fn editors_and_shells_are_helped() {
    let here = Path::new(".");
    let schema: Value = serde_json::from_str(&check(here, &["schema"])).unwrap();
    assert!(schema["$schema"].as_str().unwrap().contains("json-schema.org"), "{schema}");
    assert!(schema.to_string().contains("requests_per_unit"));
    for (shell, part) in
        [("bash", "complete -F"), ("zsh", "#compdef tollgate"), ("fish", "complete -c tollgate")]
    {
        let script = check(here, &["completions", shell]);
        assert!(script.contains(part) && script.contains("near-limit-ratio"), "{shell}: {script}");
    }
}

/// What `serve` says when it cannot start.
fn check_refused(files: &[(&str, &str)], arguments: &[&str]) -> String {
    let folder = folder(files);
    let ports = ["--http=127.0.0.1:0", "--grpc=127.0.0.1:0", "--resp=127.0.0.1:0", "--admin=127.0.0.1:0"];
    check_fails(folder.path(), &[&["serve"], &ports[..], arguments].concat())
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = folder(&[("rules/shop.yaml", RULES)]);
    let grpc = format!("--grpc={address}");
    let said =
        check_fails(folder.path(), &["serve", "--http=127.0.0.1:0", &grpc, "--resp=off", "--admin=off"]);
    assert_snapshot!(said.replace(&address, "ADDRESS"), @"
    exit code 1
    cannot listen for grpc at ADDRESS: Address already in use (os error 98); something else listens there: choose another address with --grpc, or `--grpc off`
    ");
}

#[test]
fn rules_that_are_missing_or_bad_are_named() {
    assert_snapshot!(check_refused(&[], &[]), @"
    exit code 1
    no rules at `rules`: name them with --rules PATH, or start where a `tollgate.yaml` or a directory `rules` is
    ");
    assert_snapshot!(check_refused(&[], &["--rules", "none"]), @"
    exit code 1
    no rules at `none`
    ");
    assert_snapshot!(check_refused(&[("rules/.keep.txt", "")], &[]), @"
    exit code 1
    rules: the directory holds no rules
       = rules are in files that end in `.yaml`, `.yml` or `.json`, or have no extension; put one here
    ");
    assert_snapshot!(check_refused(&[("rules/shop.yaml", BAD_RULES)], &[]), @"
    exit code 1
    rules/shop.yaml:4:24: unknown unit `fortnight`
       |
     4 |     rate_limit: {unit: fortnight, requests_per_unit: 5}
       |                        ^^^^^^^^^
       = it can be second, minute, hour, day, week, month, year

    rules/shop.yaml:5:10: the descriptor `user` without a value is listed twice
       |
     5 |   - key: user
       |          ^^^^
      ::: rules/shop.yaml:3:10: first listed here
       |
     3 |   - key: user
       |          ^^^^
       = join the two: limits go into `rate_limits`, what follows into one `descriptors`

    rules/shop.yaml:6:5: unknown key `valeu`
       |
     6 |     valeu: ann
       |     ^^^^^
       = did you mean `value`?
    ");
}

#[test]
fn settings_that_make_no_sense_are_named() {
    let rules = ("rules/shop.yaml", RULES);
    assert_snapshot!(check_refused(&[rules, ("tollgate.yaml", "rules: rules\nhtpp: 127.0.0.1:8080\n")], &[]), @"
    exit code 1
    tollgate.yaml:2:1: unknown setting `htpp`
       |
     2 | htpp: 127.0.0.1:8080
       | ^^^^
       = did you mean `http`?
    ");
    assert_snapshot!(check_refused(&[rules, ("tollgate.yaml", "workers: many\n")], &[]), @r#"
    exit code 1
    tollgate.yaml:1:10: `workers`: "many" is not a whole number from 1 on
       |
     1 | workers: many
       |          ^^^^
       = Threads that serve requests [default: one per core]
    "#);
    assert_snapshot!(check_refused(&[rules], &["--near-limit-ratio", "7"]), @r#"
    exit code 2
    --near-limit-ratio: "7" is not a number from 0 to 1, such as 0.8
    "#);
    assert_snapshot!(check_refused(&[rules], &["--config", "none.yaml"]), @"
    exit code 1
    cannot read `none.yaml`: No such file or directory (os error 2)
    ");
    assert_snapshot!(check_refused(&[rules], &["--trusted-hops", "2", "--trusted-proxies", "none"]), @"
    exit code 1
    `trusted_hops` is 2, but `trusted_proxies` is `none`: whoever asks /v1/auth must be trusted for hops to be counted
    ");
    assert_snapshot!(check_refused(&[rules], &["--log-level", "a=b=c"]), @r#"
    exit code 2
    --log-level: error parsing level filter: expected one of "off", "error", "warn", "info", "debug", "trace", or a number 0-5; use error, warn, info, debug, trace, or a filter such as `info,tollgate_server=debug`
    "#);
}

/// A server at any address of the machine, with these flags.
fn launch_open(flags: &[(&str, &str)]) -> Launch {
    let launch = Launch::new(TOLLGATE).rules("policies.yaml", POLICIES).flag("http", "0.0.0.0:0");
    flags.iter().fold(launch, |launch, (name, value)| launch.flag(name, value))
}

#[test]
fn a_listener_that_is_open_to_other_machines_needs_tokens_or_certificates() {
    for (listener, advice) in
        [("http", "Authorization: Bearer TOKEN"), ("grpc", "initial_metadata"), ("resp", "AUTH TOKEN")]
    {
        let launch = launch_open(&[("http", "127.0.0.1:0"), (listener, "[::]:0")]);
        let Finished { code, stderr, .. } = run(&mut launch.command());
        assert_eq!(code, Some(1), "{stderr}");
        let refusal = format!("refusing to serve {listener} at [::]:0: it is open to other machines");
        for part in [&*refusal, advice, "--insecure-listen", "TOLLGATE_INSECURE_LISTEN=true"] {
            assert!(stderr.contains(part), "no {part:?} in {stderr}");
        }
    }
}

#[test]
fn an_open_listener_starts_where_it_is_protected_or_meant() {
    let tokens = ("http-tokens", "0123456789abcdef0123456789abcdef");
    for flags in [&[tokens][..], &[("insecure-listen", "true")], &[("http", "127.0.0.2:0")]] {
        let tollgate = launch_open(flags).start();
        assert!(tollgate.greeting().contains("Tollgate "), "{flags:?}");
    }
    // The flag alone means yes.
    let launch = launch_open(&[("grpc", "off"), ("resp", "off"), ("admin", "off")]).without("rules");
    let mut command = launch.command();
    command.args(["--insecure-listen", "--rules=nosuch"]);
    assert!(run(&mut command).stderr.contains("nosuch"));
}

/// TLS says who the server is, not who the client is.
#[test]
fn tls_without_client_certificates_does_not_protect_an_open_listener() {
    // The files are not read: the server refuses before that.
    let certificate = [("tls-certificate", "server.pem"), ("tls-key", "server.key")];
    let stderr = run(&mut launch_open(&certificate).command()).stderr;
    assert!(stderr.starts_with("refusing to serve http at 0.0.0.0:0: "), "{stderr}");
    let authority = [&certificate[..], &[("tls-client-ca", "ca.pem")]].concat();
    let stderr = run(&mut launch_open(&authority).command()).stderr;
    assert!(stderr.contains("server.pem") && !stderr.contains("refusing to serve"), "{stderr}");
}

/// One line of `/proc/PID/limits`: the soft limit and the hard one.
fn limits_of(tollgate: &Tollgate, name: &str) -> (String, String) {
    let limits = fs::read_to_string(format!("/proc/{}/limits", tollgate.pid())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let mut words = line.split_whitespace().map(str::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

#[test]
fn a_server_raises_its_limit_of_descriptors_and_writes_no_core_files() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("tollgate");
    // Systems start services with a low soft limit, and some with core files.
    let limits = "ulimit -Sn 512; ulimit -Hn 2048; ulimit -Sc \"$(ulimit -Hc)\"";
    fs::write(&script, format!("#!/bin/sh\n{limits}\nexec {TOLLGATE} \"$@\"\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let launch = Launch::new(script.to_str().unwrap()).rules("policies.yaml", POLICIES);
    let tollgate = launch.flag("connections-max", "10000").flag("workers", "1").start();
    assert_eq!(limits_of(&tollgate, "Max open files"), ("2048".to_owned(), "2048".to_owned()));
    assert_eq!(limits_of(&tollgate, "Max core file size"), ("0".to_owned(), "0".to_owned()));
    // Three data listeners share what is left beside the reserve of 192, and 4 for the worker.
    tollgate.wait_for_log("file descriptors allow fewer connections than `connections_max`");
    assert!(tollgate.logs().contains("connections_max=617"), "{}", tollgate.logs());
}

#[test]
fn connections_have_a_quarter_of_the_memory_for_counters_unless_the_operator_says_otherwise() {
    let shown = |flags: &[(&str, &str)]| {
        let launch = Launch::new(TOLLGATE).rules("policies.yaml", POLICIES);
        let launch = flags.iter().fold(launch, |launch, (name, value)| launch.flag(name, value));
        launch.start().metric("ratelimit_connections_memory_max_bytes")
    };
    assert_eq!(shown(&[("memory", "256MiB")]), 64 << 20);
    assert_eq!(shown(&[("memory", "256MiB"), ("connections-memory", "32MiB")]), 32 << 20);
}

/// A web page whose name points at this machine.
#[test]
fn a_listener_on_loopback_without_tokens_answers_to_no_foreign_name() {
    let check = |flags: &[(&str, &str)], host: &str| {
        let launch = Launch::new(TOLLGATE).rules("policies.yaml", POLICIES);
        let tollgate = flags.iter().fold(launch, |launch, (name, value)| launch.flag(name, value)).start();
        let body = r#"{"policy": "three-an-hour", "key": "k"}"#;
        let mut client = Client::connect(tollgate.http()).unwrap();
        client.send("POST", "/v1/check", &[("host", host)], body).unwrap().status
    };
    assert_eq!(check(&[], "127.0.0.1"), 200);
    assert_eq!(check(&[], "evil.example"), 403);
    assert_eq!(check(&[("http-hosts", "evil.example")], "evil.example"), 200);
    // The same address as IPv6 writes it, where this machine has IPv6.
    let mapped = "[::ffff:127.0.0.1]:0";
    if TcpListener::bind(mapped).is_ok() {
        assert_eq!(check(&[("http", mapped)], "evil.example"), 403);
    }
}

#[test]
fn a_server_warns_if_it_runs_as_root_and_only_then() {
    let (tollgate, _) = serving();
    let is_root = fs::metadata(format!("/proc/{}", tollgate.pid())).unwrap().uid() == 0;
    let has_warning = || tollgate.logs().contains("running as root");
    assert_eq!(
        until("it has started", || has_warning().then_some(true).or((!is_root).then_some(false))),
        is_root
    );
}

#[test]
fn the_banner_says_that_metrics_of_an_open_admin_listener_need_no_token() {
    let tollgate = launch_open(&[("http", "127.0.0.1:0"), ("admin", "0.0.0.0:0")]).start();
    assert!(tollgate.greeting().contains("/metrics and health checks need no token"));
}

#[test]
fn a_password_of_the_store_is_not_repeated() {
    for settings in ["store: redis://ann:hunter2@host:none", "store_pins: acme=hunter2@host"] {
        let told = check_refused(&[("rules/shop.yaml", RULES), ("tollgate.yaml", settings)], &[]);
        assert!(told.contains("tollgate.yaml:1:") && !told.contains("hunter2"), "{told}");
    }
}

#[test]
fn the_greeting_says_where_it_listens_and_what_to_try() {
    let (tollgate, _) = serving();
    let mut greeting =
        until("it says what to try", || Some(tollgate.greeting()).filter(|text| text.ends_with("'\n")));
    for (address, name) in [
        (tollgate.http(), "HTTP"),
        (tollgate.grpc(), "GRPC"),
        (tollgate.resp(), "RESP"),
        (tollgate.admin(), "ADMIN"),
    ] {
        greeting = greeting
            .replace(&format!("{:<22}", address.to_string()), name)
            .replace(&address.to_string(), name);
    }
    let rules = tollgate.rules().display().to_string();
    let greeting = greeting.replace(&rules, "RULES").replace(env!("CARGO_PKG_VERSION"), "VERSION");
    assert_snapshot!(greeting, @r#"
    Tollgate VERSION: 3 rules from RULES
      http   HTTP /v1/check, /v1/peek, /v1/auth, /json
      grpc   GRPC Envoy's rate limit service
      resp   RESP CL.THROTTLE, TG.CHECK
      admin  ADMIN /metrics, /healthz, /admin/v1
      database sqlite:data/tollgate.db
      admin token in data/admin.token
    Try it:
      curl -i http://HTTP/v1/check -d '{"policy": "three-an-hour", "key": "user:4711"}'
    "#);
}

/// A pipe to a program that stands still is full after 64 KiB.
#[test]
fn a_log_that_is_not_read_stops_no_request_and_no_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let (script, pipe) = (folder.path().join("tollgate.sh"), folder.path().join("log"));
    // The process holds the reading end itself, and never reads.
    let into_pipe = format!("mkfifo {0}; exec 9<>{0} 2>{0}", pipe.display());
    fs::write(&script, format!("#!/bin/sh\n{into_pipe}\nexec {TOLLGATE} \"$@\"\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let launch = Launch::new(script.to_str().unwrap()).rules("policies.yaml", POLICIES);
    let mut tollgate = launch.flag("log-level", "debug").start();
    let mut client = Client::connect(tollgate.http()).unwrap();
    // Each is a line of 180 bytes.
    for _ in 0..4_000 {
        assert!([200, 429].contains(&client.get("/v1/auth?policy=three-an-hour", &[]).status));
    }
    tollgate.signal(Signal::TERM);
    assert_eq!(tollgate.wait(), Some(0));
}

#[test]
fn variables_of_envoyproxy_ratelimit_are_not_dropped_silently() {
    let launch = || Launch::new(TOLLGATE).rules("shop.yaml", RULES);
    let tollgate = launch().variable("REDIS_URL", "redis:6379").variable("USE_STATSD", "true").start();
    tollgate.wait_for_log("ignoring a variable of envoyproxy/ratelimit variable=\"REDIS_URL\"");
    tollgate.wait_for_log("ignoring a variable of envoyproxy/ratelimit variable=\"USE_STATSD\"");
    let unsafe_launch = launch().variable("GRPC_SERVER_USE_TLS", "true");
    let finished = run(&mut unsafe_launch.command());
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("gRPC would be served in the clear"), "{finished:?}");
}

#[test]
fn the_greeting_is_json_where_logs_are() {
    let tollgate = Launch::new(TOLLGATE).rules("shop.yaml", RULES).flag("log-format", "json").start();
    let said: Value = serde_json::from_str(&tollgate.greeting()).unwrap();
    assert_eq!((&said["message"], &said["database"]), (&"serving".into(), &"sqlite:data/tollgate.db".into()));
    assert_eq!(said["http"], tollgate.http().to_string());
}

#[test]
fn a_page_says_how_to_ask_by_the_address_that_was_asked() {
    let (tollgate, _) = serving();
    let page = Client::connect(tollgate.http()).unwrap().get("/", &[("host", &tollgate.http().to_string())]);
    assert!(page.body.contains(&format!("curl -i http://{}/v1/check", tollgate.http())), "{}", page.body);
    let page = Client::connect(tollgate.http()).unwrap().get("/", &[("host", "test")]);
    assert!(page.body.contains("curl -i http://test/v1/check"), "{}", page.body);
}

#[test]
fn a_server_that_could_not_be_asked_does_not_start() {
    let launch = ["http", "grpc", "resp", "admin"]
        .into_iter()
        .fold(Launch::new(TOLLGATE), |launch, name| launch.flag(name, "off"));
    let finished = run(&mut launch.command());
    assert_eq!(finished.code, Some(1));
    assert!(finished.stderr.contains("all listeners are off"), "{finished:?}");
}

#[test]
fn a_misspelt_directory_of_the_database_is_not_made() {
    let launch = Launch::new(TOLLGATE).rules("shop.yaml", RULES);
    let typo = launch.folder().join("typo/dir");
    let launch = launch.flag("database", &format!("sqlite:{}/x.db", typo.display()));
    let finished = run(&mut launch.command());
    assert_eq!(finished.code, Some(1));
    assert!(finished.stderr.contains("which does not exist"), "{finished:?}");
    assert!(!typo.exists() && !launch.folder().join("typo").exists());
}

#[test]
fn rules_are_validated_and_explained_for_scripts() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("rules")).unwrap();
    fs::write(folder.path().join("rules/shop.yaml"), RULES).unwrap();
    fs::write(folder.path().join("rules/policies.yaml"), POLICIES).unwrap();
    let said = |arguments: &[&str]| serde_json::from_str::<Value>(&check(folder.path(), arguments)).unwrap();
    let valid = said(&["validate", "--json"]);
    assert_eq!((&valid["ok"], &valid["files"], &valid["policies"]), (&true.into(), &2.into(), &1.into()));
    let told = said(&["explain", "--json", "--domain", "shop", "path=/login", "user=ann"]);
    assert_eq!((&told["meets_a_limit"], &told["source"]), (&true.into(), &"rules".into()), "{told}");
    let told = check(folder.path(), &["explain", "--policy", "three-an-hour"]);
    assert!(told.contains("limit \"three-an-hour\": 3 per 3600s"), "{told}");
    let told = check(folder.path(), &["explain", "--policy", "three"]);
    assert!(told.contains("known policies: three-an-hour"), "{told}");
    fs::write(folder.path().join("rules/wrong.yaml"), "domain: x\ndescriptros: []\n").unwrap();
    let finished = tollgate(folder.path(), &["validate", "--json"]);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(1), ""));
    let wrong: Value = serde_json::from_str(&finished.stdout).unwrap();
    let problem = &wrong["problems"][0];
    assert_eq!(
        (&wrong["ok"], &problem["file"], &problem["line"]),
        (&false.into(), &"rules/wrong.yaml".into(), &2.into()),
        "{wrong}"
    );
}
