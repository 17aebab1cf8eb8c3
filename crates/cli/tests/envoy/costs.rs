//! explore
use serde_json::{Value, json};
use tollgate_testkit::real::{Gateway, Reply};

use super::{by_header, tollgate};

const RULES: &str = "
domain: envoy
descriptors:
  - key: user
    rate_limit: {name: per-user, unit: hour, requests_per_unit: 10}
";
fn try_it(limits: Value, sends: &[&[(&str,&str)]]) {
    let tollgate = tollgate(RULES);
    let envoy = Gateway::new(tollgate.grpc(), limits).start();
    let mut client = envoy.client();
    for headers in sends {
        let r = client.get("/", headers);
        println!("{headers:?} -> {} {:?} {:?}", r.status, r.header("x-ratelimit-remaining"), r.header("x-ratelimit-limit"));
    }
    println!("{}", envoy.logs());
    panic!();
}
#[test]
fn fixed() { try_it(json!([{"actions": [by_header("user", "x-user")], "hits_addend": {"number": 3}}]), &[&[("x-user","a")][..]; 5]) }
#[test]
fn format() { try_it(json!([{"actions": [by_header("user", "x-user")], "hits_addend": {"format": "%REQ(x-cost)%"}}]), &[&[("x-user","a"),("x-cost","4")], &[("x-user","a"),("x-cost","4")],&[("x-user","a"),("x-cost","4")],&[("x-user","a")],&[("x-user","a"),("x-cost","junk")],&[("x-user","a"),("x-cost","0")],&[("x-user","a"),("x-cost","99999999999")],&[("x-user","a"),("x-cost","-3")]]) }
#[test]
fn neg() { try_it(json!([{"actions": [by_header("user", "x-user")], "hits_addend": {"format": "%REQ(x-cost)%", "is_negative_hits": true}}, {"actions": [by_header("user", "x-user2")]}]), &[&[("x-user2","a")], &[("x-user2","a")],&[("x-user2","a")],&[("x-user","a"),("x-cost","2")],&[("x-user2","a")],&[("x-user","a"),("x-cost","200")],&[("x-user2","a")]]) }
#[test]
fn done() { try_it(json!([{"actions": [by_header("user", "x-user")], "hits_addend": {"number": 0}}, {"actions": [by_header("user", "x-user")], "hits_addend": {"format": "%RESP(x-cost)%"}, "apply_on_stream_done": true}]), &[&[("x-user","a"),("x-reply-cost","4")], &[("x-user","a"),("x-reply-cost","4")],&[("x-user","a"),("x-reply-cost","4")],&[("x-user","a")],&[("x-user","a"),("x-reply-cost","7")],&[("x-user","a"),("x-reply-cost","7")]]) }
