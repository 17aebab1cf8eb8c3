//! `forward_auth` of Caddy, written out.

use tollgate_testkit::real::Proxy;

use super::{Changes, Example, Manners, check, check_token};

fn start(example: &Example, changes: Changes<'_>) -> Proxy {
    // A busy machine needs time.
    let changes = [&[("_timeout 50ms", "_timeout 3s")], changes].concat();
    Proxy::caddy(example.proxy, example.file("caddy/Caddyfile", &changes))
}

#[test]
fn caddy() {
    let manners = Manners {
        tells_what_is_left: true,
        dead: 502,
        frozen: Some(504),
        long_query: 429,
        long_header: 200,
        many_fields: 431,
        disguised: [400, 400, 400, 429, 400, 400],
    };
    check(&manners, |example| start(example, &[]));
}

#[test]
fn caddy_shows_a_token() {
    check_token(&[("method GET", "method GET\nheader_up X-Tollgate-Token TOKEN")], start);
}
