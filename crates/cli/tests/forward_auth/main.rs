//! The server behind proxies that ask before they let a request through. The examples that people copy are what is tested: each must do what
//! its comments promise, with the rules of the repository.
#![allow(clippy::unwrap_used, clippy::panic)]

mod caddy;
mod envoy;
mod haproxy;
mod nginx;
mod traefik;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use tollgate_testkit::real::{Client, Launch, Proxy, Reply, Signal, Tollgate, Upstream, until};

/// What a customer may ask for in an hour.
const OF_A_CUSTOMER: usize = 7;

/// Besides the rules of the repository: a parameter of the query is counted, wherever it stands.
const OF_A_VOUCHER: [(&str, &str); 2] = [
    (
        "forward_auth:\n",
        "  - actions: [query_parameters: {query_parameter_name: voucher, descriptor_key: voucher}]\n",
    ),
    ("\ndescriptors:\n", "  - {key: voucher, rate_limit: {unit: day, requests_per_unit: 2}}\n"),
];

/// What a proxy does that differs from one to the other.
struct Manners {
    /// Whether it can tell clients what is left while their requests pass.
    tells_what_is_left: bool,
    /// The status of requests while the server is dead.
    dead: u16,
    /// And while it is frozen, if the proxy does not wait for too long.
    frozen: Option<u16>,
    /// The status of a request over its limit with a query of 5,000 bytes, and of one within it with a header of 600.
    long_query: u16,
    long_header: u16,
    /// The status of a request over its limit with more header fields than the server reads.
    many_fields: u16,
    /// The status of requests over their limit whose path is disguised as each of [`DISGUISES`].
    disguised: [u16; DISGUISES.len()],
}

/// `/login` in other words: most services take these for the same.
const DISGUISES: [&str; 6] =
    ["//login", "/./login", "/x/../login", "/%6cogin", "/x/%2e%2E//login", "/%2Flogin"];

/// An example, and whom it names.
struct Example {
    proxy: SocketAddr,
    tollgate: SocketAddr,
    service: SocketAddr,
    /// For a listener of the proxy's own.
    inner: SocketAddr,
}

impl Example {
    /// A file of the example, with ports that are free, and these changes besides.
    fn file(&self, name: &str, changes: Changes<'_>) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        let mut text = fs::read_to_string(path).unwrap();
        let ports =
            [("10000", self.proxy), ("10001", self.service), ("10002", self.inner), ("8080", self.tollgate)];
        for (port, address) in ports {
            text = text.replace(&format!(":{port}"), &format!(":{}", address.port()));
        }
        for (from, to) in changes {
            assert!(text.contains(from), "{name} has no `{from}`");
            text = text.replace(from, to);
        }
        text
    }
}

/// Changes of an example: what to look for, and what to put there.
type Changes<'a> = &'a [(&'a str, &'a str)];

/// The rules of the repository, with a customer's limit that is soon used up, and one for vouchers.
fn launch() -> Launch {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules/shop.yaml");
    let mut rules = fs::read_to_string(rules).unwrap();
    for (place, more) in OF_A_VOUCHER {
        assert_eq!(rules.matches(place).count(), 1, "`{place}`");
        rules = rules.replace(place, &format!("{place}{more}"));
    }
    let (hourly, fewer) = ("requests_per_unit: 1000\n", format!("requests_per_unit: {OF_A_CUSTOMER}\n"));
    assert!(rules.contains(hourly), "the rules have no `{hourly}`");
    Launch::new(env!("CARGO_BIN_EXE_tollgate")).rules("shop.yaml", &rules.replace(hourly, &fewer))
}

/// An example between a server and a service.
fn example(tollgate: &Tollgate, service: &Upstream) -> Example {
    Example {
        proxy: Proxy::free_address(),
        tollgate: tollgate.http(),
        service: service.address(),
        inner: Proxy::free_address(),
    }
}

/// With `changes`, an example shows the token `TOKEN`, and clients see no difference. Without them, what goes wrong is the proxy's affair: no
/// client is asked to log in, and none gets through.
fn check_token(changes: Changes<'_>, start: impl Fn(&Example, Changes<'_>) -> Proxy) {
    let token = "0123456789abcdef";
    let (tollgate, service) = (launch().variable("TOLLGATE_HTTP_TOKENS", token).start(), Upstream::start());
    let shown: Vec<(&str, String)> =
        changes.iter().map(|(from, to)| (*from, to.replace("TOKEN", token))).collect();
    let shown: Vec<(&str, &str)> = shown.iter().map(|(from, to)| (*from, to.as_str())).collect();
    let trusted = start(&example(&tollgate, &service), &shown);
    until("the proxy lets requests through", || {
        (trusted.client("127.0.0.9").get("/", &[]).status == 200).then_some(())
    });
    let mut client = trusted.client("127.0.0.1");
    assert_eq!([(); 6].map(|()| client.get("/login", &[]).status), [200, 200, 200, 200, 200, 429]);

    let stranger = start(&example(&tollgate, &service), &[]);
    let reply = until("the proxy has its routes", || {
        Some(stranger.client("127.0.0.2").get("/", &[])).filter(|reply| reply.status != 404)
    });
    assert_eq!((reply.status, reply.header("www-authenticate")), (500, None), "{reply:#?}");
}

/// Everything that an example promises.
fn check(manners: &Manners, start: impl FnOnce(&Example) -> Proxy) {
    let (mut tollgate, service) = (launch().start(), Upstream::start());
    let proxy = start(&example(&tollgate, &service));
    // The first requests may come before its routes are in place.
    until("the proxy lets requests through", || {
        (proxy.client("127.0.0.9").get("/", &[]).status == 200).then_some(())
    });
    check_counts(manners, &proxy);
    check_spoofing(manners, &proxy);
    check_disguised_queries(&proxy);
    check_floods(manners, &proxy);
    check_long_queries(manners, &proxy);
    check_long_headers(manners, &proxy);
    check_headers(&proxy);
    check_bodies(&proxy);
    let status = || proxy.client("127.0.0.1").get("/login", &[]).status;
    if let Some(frozen) = manners.frozen {
        tollgate.signal(Signal::STOP);
        assert_eq!(status(), frozen, "while the server is frozen");
        tollgate.signal(Signal::CONT);
    }
    tollgate.signal(Signal::KILL);
    tollgate.wait();
    assert_eq!([(); 3].map(|()| status()), [manners.dead; 3], "while the server is dead");
    tollgate.restart();
    until("requests are limited again", || (status() == 429).then_some(()));
}

fn number(reply: &Reply, header: &str) -> u64 {
    reply.the(header).parse().unwrap()
}

/// Five logins a minute, from each address.
fn check_counts(manners: &Manners, proxy: &Proxy) {
    for address in ["127.0.0.1", "127.0.0.2"] {
        let mut client = proxy.client(address);
        for left in (0..5).rev() {
            let reply = client.get("/login?again", &[]);
            assert_eq!((reply.status, reply.body.as_str()), (200, "ok\n"), "{reply:#?}");
            let expected = manners.tells_what_is_left.then(|| left.to_string());
            assert_eq!(reply.header("x-ratelimit-remaining"), expected.as_deref(), "{reply:#?}");
            assert_eq!(reply.header("ratelimit-policy").is_some(), manners.tells_what_is_left);
            assert_eq!(reply.header("retry-after"), None);
        }
        check_denial(&mut client, "/login", &[]);
    }
}

fn check_denial(client: &mut Client, path: &str, headers: &[(&str, &str)]) {
    let reply = client.get(path, headers);
    assert_eq!(reply.status, 429, "{headers:?}: {reply:#?}");
    assert!((1..=120).contains(&number(&reply, "retry-after")), "{reply:#?}");
    assert_eq!((number(&reply, "x-ratelimit-limit"), number(&reply, "x-ratelimit-remaining")), (5, 0));
    assert_eq!(reply.the("ratelimit-policy"), r#""path=/login > remote_address";q=5;w=60"#);
    assert!(reply.the("ratelimit").starts_with(r#""path=/login > remote_address";r=0;t="#), "{reply:#?}");
    assert_eq!(reply.the("content-type"), "application/json");
    assert!(reply.body.starts_with(r#"{"code":"rate_limited","#), "{}", reply.body);
}

/// Whoever is over the limit stays so, whatever he claims to be and to want, and however he writes it.
fn check_spoofing(manners: &Manners, proxy: &Proxy) {
    let mut client = proxy.client("127.0.0.1");
    for (name, value) in [
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-for", "203.0.113.7, 10.0.0.1"),
        ("x-real-ip", "203.0.113.7"),
        ("forwarded", "for=203.0.113.7"),
        ("x-forwarded-uri", "/elsewhere"),
        ("x-original-uri", "/elsewhere"),
        ("x-original-url", "http://test/elsewhere"),
    ] {
        check_denial(&mut client, "/login", &[(name, value)]);
    }
    assert_eq!(client.get("/elsewhere", &[]).status, 200);
    let statuses = DISGUISES.map(|path| proxy.client("127.0.0.1").get(path, &[]).status);
    assert_eq!(statuses, manners.disguised, "{DISGUISES:?}");
}

/// What is encoded in a path stays part of it: neither a query nor another header comes of it.
fn check_disguised_queries(proxy: &Proxy) {
    let status =
        |path: &str| proxy.client("127.0.0.1").send("GET", path, &[], "").map_or(0, |reply| reply.status);
    assert_eq!([(); 3].map(|()| status("/?voucher=winter")), [200, 200, 429], "two a day");
    for path in [
        "/%3Fvoucher=other?voucher=winter",
        "/%3F?voucher=winter",
        "/%23?voucher=winter",
        "/login%0d%0aX-Forwarded-For:%20203.0.113.7",
        "/login%0aX-Forwarded-For:%20203.0.113.7%0ax:",
    ] {
        assert_ne!(status(path), 200, "{path}");
    }
    // An encoded space, and letters beyond ASCII, harm nobody.
    assert_eq!(["/my%20file", "/caf%C3%A9"].map(status), [200; 2]);
}

/// Nor does anybody get through by sending so much that the proxy's question cannot be asked, or not be answered.
fn check_floods(manners: &Manners, proxy: &Proxy) {
    let value = |bytes| "y".repeat(bytes);
    let names: Vec<String> = (0..200).map(|number| format!("x-{number}")).collect();
    let many = |count: usize| names[..count].iter().map(|name| (name.as_str(), "a")).collect::<Vec<_>>();
    let (long, longer, longest) = (value(7_000), value(15_200), value(60_000));
    let floods = [
        vec![("x-customer", &*long)],
        vec![("x-customer", &*longer)],
        vec![("x-customer", &*longest)],
        vec![("x-forwarded-for", &*longer)],
        vec![("x-customer", "\u{1}")],
        many(93),
        many(97),
        many(200),
    ];
    for flood in floods {
        // A connection that is closed is an answer too.
        let reply = proxy.client("127.0.0.1").send("GET", "/login", &flood, "");
        let status = reply.map_or(0, |reply| reply.status);
        assert_ne!(status, 200, "{} headers, the first of {} bytes", flood.len(), flood[0].1.len());
    }
    assert_eq!(proxy.client("127.0.0.1").get("/login", &many(97)).status, manners.many_fields);
    check_denial(&mut proxy.client("127.0.0.1"), "/login", &[]);
}

/// What is counted is not out of sight behind so much that the proxy does not hand it over.
fn check_long_queries(manners: &Manners, proxy: &Proxy) {
    let mut client = proxy.client("127.0.0.6");
    let statuses = [(); 3].map(|()| client.get("/?voucher=spring", &[]).status);
    assert_eq!(statuses, [200, 200, 429], "two a day");
    for bytes in [3_000, 4_080, 5_000, 20_000] {
        let path = format!("/?{}&voucher=spring", "y".repeat(bytes));
        // A connection that is closed is an answer too.
        let status = proxy.client("127.0.0.6").send("GET", &path, &[], "").map_or(0, |reply| reply.status);
        assert_ne!(status, 200, "{bytes} bytes before what is counted");
        assert!(bytes != 5_000 || status == manners.long_query, "{status}");
    }
}

/// Who has a long name is not taken for another whose name begins alike.
fn check_long_headers(manners: &Manners, proxy: &Proxy) {
    let statuses = ["a", "b"].map(|end| {
        let name = "y".repeat(600) + end;
        let mut client = proxy.client("127.0.0.6");
        [(); OF_A_CUSTOMER]
            .map(|()| client.send("GET", "/", &[("x-customer", &name)], "").map_or(0, |reply| reply.status))
    });
    assert_eq!(statuses, [[manners.long_header; OF_A_CUSTOMER]; 2]);
}

/// A header of the client's own: a customer's requests are counted together, whatever their addresses.
fn check_headers(proxy: &Proxy) {
    let mut statuses = Vec::new();
    for address in ["127.0.0.3", "127.0.0.4"] {
        let mut client = proxy.client(address);
        statuses.extend((0..OF_A_CUSTOMER).map(|_| client.get("/", &[("x-customer", "umbrella")]).status));
    }
    let passed = statuses.iter().filter(|status| **status == 200).count();
    let limited = statuses.iter().filter(|status| **status == 429).count();
    assert_eq!((passed, limited), (OF_A_CUSTOMER, OF_A_CUSTOMER), "{statuses:?}");
    assert_eq!(proxy.client("127.0.0.3").get("/", &[("x-customer", "acme")]).status, 200);
}

/// A request with a body reaches the service with it, and no body reaches Tollgate, which would not read it.
fn check_bodies(proxy: &Proxy) {
    let body = "x".repeat(100_000);
    let mut client = proxy.client("127.0.0.5");
    for _ in 0..2 {
        let reply = client.post("/elsewhere", &body);
        assert_eq!((reply.status, reply.body.as_str()), (200, "ok\n"), "{reply:#?}");
    }
}
