//! `forwardAuth` of Traefik.

use tollgate_testkit::real::Proxy;

use super::{Changes, Example, Manners, check, check_token};

/// Traefik cannot add to what it asks: the request carries the token there, and no further.
const TOKEN: [(&str, &str); 2] = [
    ("middlewares: [tollgate]", "middlewares: [show-token, tollgate, hide-token]"),
    (
        "  middlewares:\n",
        "  middlewares:\n    \
         show-token: {headers: {customRequestHeaders: {X-Tollgate-Token: TOKEN}}}\n    \
         hide-token: {headers: {customRequestHeaders: {X-Tollgate-Token: \"\"}}}\n",
    ),
];

fn start(example: &Example, changes: Changes<'_>) -> Proxy {
    let config = example.file("traefik/traefik.yaml", &[("examples/traefik/", "")]);
    Proxy::traefik(example.proxy, config, example.file("traefik/routes.yaml", changes))
}

#[test]
fn traefik() {
    let manners = Manners {
        tells_what_is_left: false,
        dead: 500,
        frozen: None,
        long_query: 429,
        long_header: 200,
        many_fields: 431,
        disguised: [429, 429, 429, 429, 429, 200],
    };
    check(&manners, |example| start(example, &[]));
}

#[test]
fn traefik_shows_a_token() {
    check_token(&TOKEN, start);
}
