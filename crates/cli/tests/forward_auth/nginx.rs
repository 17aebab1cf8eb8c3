//! `auth_request` of nginx, which knows no 429.

use tollgate_testkit::real::Proxy;

use super::{Changes, Example, Manners, check, check_token};

fn start(example: &Example, changes: Changes<'_>) -> Proxy {
    // A busy machine needs time.
    let changes = [&[("_timeout 50ms", "_timeout 3s")], changes].concat();
    Proxy::nginx(example.proxy, example.file("nginx/nginx.conf", &changes))
}

#[test]
fn nginx() {
    let manners = Manners {
        tells_what_is_left: true,
        dead: 200,
        frozen: Some(200),
        long_query: 429,
        long_header: 200,
        many_fields: 500,
        disguised: [429; 6],
    };
    check(&manners, |example| start(example, &[]));
}

#[test]
fn nginx_shows_a_token() {
    check_token(
        &[("            internal;", "            internal;\nproxy_set_header X-Tollgate-Token TOKEN;")],
        start,
    );
}
