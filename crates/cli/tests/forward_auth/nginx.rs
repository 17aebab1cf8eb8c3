//! `auth_request` of nginx, which knows no 429.

use tollgate_testkit::real::Proxy;

use super::{Manners, check};

#[test]
fn nginx() {
    let manners = Manners {
        tells_what_is_left: true,
        dead: 200,
        frozen: Some(200),
        long_query: 429,
        long_header: 200,
        disguised: [429; 6],
    };
    check(&manners, |example| {
        // A busy machine needs time.
        Proxy::nginx(example.proxy, example.file("nginx/nginx.conf", &[("_timeout 50ms", "_timeout 3s")]))
    });
}
