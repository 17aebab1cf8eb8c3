//! `HAProxy`, which asks by a script.

use tollgate_testkit::real::Proxy;

use super::{Changes, Example, Manners, check, check_token};

fn start(example: &Example, changes: Changes<'_>) -> Proxy {
    // A busy machine needs time.
    let changes = [&[("examples/haproxy/", ""), ("50ms", "3s")], changes].concat();
    let config = example.file("haproxy/haproxy.cfg", &changes);
    Proxy::haproxy(example.proxy, config, example.file("haproxy/tollgate.lua", &[]))
}

#[test]
fn haproxy() {
    let manners = Manners {
        tells_what_is_left: true,
        dead: 200,
        frozen: Some(200),
        long_query: 414,
        long_header: 431,
        many_fields: 429,
        disguised: [429, 429, 429, 429, 429, 200],
    };
    check(&manners, |example| start(example, &[]));
}

#[test]
fn haproxy_shows_a_token() {
    check_token(
        &[("    retries 0", "    retries 0\n    http-request set-header X-Tollgate-Token TOKEN")],
        start,
    );
}
