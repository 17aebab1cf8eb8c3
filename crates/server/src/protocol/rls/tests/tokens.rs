//! Tokens over a socket: what they may do, and what becomes of a connection that guesses.

use std::time::Duration;

use http::Request;

use super::served::{ask, client, framed, question, serve};
use super::*;
use crate::access::Access;

const RULES: &str = r"
domain: d
descriptors:
- key: many
  rate_limit: {unit: year, requests_per_unit: 1000000}
";
const TOKEN: &str = "0123456789abcdef";
const WINDOW_BYTES: u32 = 1 << 20;
const PERMISSION_DENIED: &str = "7";
const UNAUTHENTICATED: &str = "16";

fn guarded(lines: &str) -> Arc<Gate> {
    let gate = Arc::into_inner(gate_with(RULES, settings())).unwrap();
    Arc::new(gate.with_access(Access::of_lines(lines)))
}

fn with_token(token: &str) -> Request<()> {
    let mut request = question();
    request.headers_mut().insert("x-tollgate-token", token.parse().unwrap());
    request
}

#[tokio::test]
async fn a_bounded_token_is_refused_however_its_message_arrives() {
    let body = framed(&message(&[descriptor(&[("many", "x")])]));
    let (first, second) = body.split_at(7);
    for (scope, status) in
        [("domains=d", "0"), ("domains=other", PERMISSION_DENIED), ("scopes=refund", PERMISSION_DENIED)]
    {
        let gate = guarded(&format!("{TOKEN} {scope}"));
        let mut client = client(serve(&gate).await.0, WINDOW_BYTES).await;
        // In one piece it is answered on the fast path; in two it is not.
        for pieces in [&[&*body][..], &[first, second]] {
            let told = ask(&mut client, with_token(TOKEN), pieces).await;
            assert_eq!(told.grpc_status(), Some(status), "{scope} in {} pieces: {told:?}", pieces.len());
        }
    }
}

#[tokio::test]
async fn a_connection_that_guesses_gets_goaway_and_a_new_one_is_served() {
    let body = framed(&message(&[descriptor(&[("many", "x")])]));
    let address = serve(&guarded(TOKEN)).await.0;
    let mut guessing = client(address, WINDOW_BYTES).await;
    for _ in 0..9 {
        let told = ask(&mut guessing, with_token("wrong-0123456789"), &[&body]).await;
        assert_eq!(told.grpc_status(), Some(UNAUTHENTICATED));
    }
    let told = ask(&mut guessing, with_token(TOKEN), &[&body]).await;
    assert_eq!(told.grpc_status(), Some("0"), "a valid token is answered meanwhile");
    let told = ask(&mut guessing, with_token("wrong-0123456789"), &[&body]).await;
    assert_eq!(told.grpc_status(), Some(UNAUTHENTICATED));
    let closed = async {
        loop {
            let mut ready = match guessing.clone().ready().await {
                Ok(ready) => ready,
                Err(error) => return error,
            };
            let (answer, mut stream) = match ready.send_request(with_token(TOKEN), false) {
                Ok(sending) => sending,
                Err(error) => return error,
            };
            let _ = stream.send_data(body.clone().into(), true);
            if let Ok(answer) = answer.await {
                let told = super::served::told(answer).await;
                assert_eq!(told.grpc_status(), Some(UNAUTHENTICATED), "nothing more is looked at");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let error = tokio::time::timeout(Duration::from_secs(30), closed).await.unwrap();
    assert!(error.is_go_away() && error.is_remote(), "{error:?}");
    let mut fresh = client(address, WINDOW_BYTES).await;
    assert_eq!(ask(&mut fresh, with_token(TOKEN), &[&body]).await.grpc_status(), Some("0"));
}
