//! `forwardAuth` of Traefik.

use tollgate_testkit::real::Proxy;

use super::{Manners, check};

#[test]
fn traefik() {
    let manners = Manners {
        tells_what_is_left: false,
        dead: 500,
        frozen: None,
        long_query: 429,
        long_header: 200,
        disguised: [429, 429, 429, 429, 429, 200],
    };
    check(&manners, |example| {
        let config = example.file("traefik/traefik.yaml", &[("examples/traefik/", "")]);
        Proxy::traefik(example.proxy, config, example.file("traefik/routes.yaml", &[]))
    });
}
