//! What a gRPC status says, in plain text.

use http::{HeaderMap, HeaderValue};

use super::{decoded, refusal};
use crate::tally::Answer;

#[test]
fn escapes_are_taken_back_and_nothing_else() {
    for (text, plain) in
        [("unknown%20policy", "unknown policy"), ("100%", "100%"), ("%2", "%2"), ("%zz%41", "%zzA"), ("", "")]
    {
        assert_eq!(decoded(text.as_bytes()), plain, "{text}");
    }
}

#[test]
fn any_status_but_zero_is_a_refusal() {
    let fields = |status: &'static str| {
        let mut fields = HeaderMap::new();
        fields.insert("grpc-status", HeaderValue::from_static(status));
        fields.insert("grpc-message", HeaderValue::from_static("no%20domain"));
        fields
    };
    assert_eq!(refusal(&fields("0")), None);
    assert_eq!(refusal(&HeaderMap::new()), None);
    assert_eq!(refusal(&fields("2")), Some(Answer::Refused("gRPC status 2: no domain".to_owned())));
}
