//! `forward_auth` of Caddy, written out.

use tollgate_testkit::real::Proxy;

use super::{Manners, check};

#[test]
fn caddy() {
    let manners = Manners {
        tells_what_is_left: true,
        dead: 502,
        frozen: Some(504),
        long_query: 429,
        long_header: 200,
        disguised: [400, 400, 400, 429, 400, 400],
    };
    check(&manners, |example| {
        // A busy machine needs time.
        Proxy::caddy(example.proxy, example.file("caddy/Caddyfile", &[("_timeout 50ms", "_timeout 3s")]))
    });
}
