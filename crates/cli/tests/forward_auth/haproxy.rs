//! `HAProxy`, which asks by a script.

use tollgate_testkit::real::Proxy;

use super::{Manners, check};

#[test]
fn haproxy() {
    let manners = Manners {
        tells_what_is_left: true,
        dead: 200,
        frozen: Some(200),
        long_query: 414,
        long_header: 431,
        disguised: [429, 429, 429, 429, 429, 200],
    };
    check(&manners, |example| {
        // A busy machine needs time.
        let changes = [("examples/haproxy/", ""), ("50ms", "3s")];
        let config = example.file("haproxy/haproxy.cfg", &changes);
        Proxy::haproxy(example.proxy, config, example.file("haproxy/tollgate.lua", &[]))
    });
}
