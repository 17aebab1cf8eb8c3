//! Which texts are tokens, whom they let in, and that nothing shows them.
#![allow(clippy::unwrap_used, clippy::panic)]

use http::HeaderValue;

use super::*;

const ANN: &str = "ann-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";

fn listed(text: &str) -> Access {
    let settings =
        TokenSettings { http: Some(TokenSource::parse(text).unwrap()), ..TokenSettings::default() };
    Access::load(&settings).unwrap().0
}

fn file() -> NamedFile {
    NamedFile { setting: "http_tokens", path: "tokens".into() }
}

#[test]
fn any_of_the_tokens_will_do_and_nothing_else() {
    let access = listed(&format!("{ANN}, {BOB}"));
    let admits = |shown: &str| access.admits(Protocol::Http, Some(shown.as_bytes()));
    assert!(admits(ANN) && admits(BOB));
    for shown in ["", &ANN[..19], &format!("{ANN}x"), "ann-0123456789abcdeF", "Ann-0123456789abcdef"] {
        assert!(!admits(shown), "{shown}");
    }
    assert!(!admits(&format!("{ANN}, {BOB}")));
    assert!(!access.admits(Protocol::Http, None));
}

#[test]
fn where_no_token_is_wanted_everybody_may_ask() {
    let access = listed(ANN);
    for protocol in [Protocol::Rls, Protocol::Resp] {
        assert!(!access.wants_token(protocol));
        assert!(access.admits(protocol, None) && access.admits(protocol, Some(b"x")));
    }
    assert!(access.wants_token(Protocol::Http));
}

#[test]
fn tokens_have_a_length_and_no_spaces() {
    let (shortest, longest) = ("x".repeat(TOKEN_BYTES_MIN), "x".repeat(TOKEN_BYTES_MAX));
    assert!(Token::new(&shortest).is_ok() && Token::new(&longest).is_ok());
    for (text, error) in [
        (shortest[1..].to_owned(), TokenError::Short),
        (format!("{longest}x"), TokenError::Long),
        ("0123456789 abcdef".to_owned(), TokenError::Characters),
        ("0123456789äabcdef".to_owned(), TokenError::Characters),
        ("0123456789\tabcdef".to_owned(), TokenError::Characters),
    ] {
        assert_eq!(Token::new(&text).unwrap_err(), error, "{text:?}");
    }
}

#[test]
fn lists_have_a_length_too() {
    let many = |count: usize| vec![ANN; count].join(",");
    assert!(TokenSource::parse(&many(TOKENS_MAX)).is_ok());
    assert_eq!(TokenSource::parse(&many(TOKENS_MAX + 1)), Err(TokenError::Many));
    assert_eq!(TokenSource::parse(" , "), Err(TokenError::None));
    assert_eq!(TokenSource::parse("@a/b"), Ok(TokenSource::File("a/b".into())));
    let lines = |count: usize| read_tokens(&file(), vec![ANN; count].join("\n").as_bytes());
    assert_eq!(lines(TOKENS_MAX).unwrap().len(), TOKENS_MAX);
    assert_eq!(lines(TOKENS_MAX + 1).unwrap_err().to_string(), "`http_tokens` tokens: more than 256 tokens");
}

#[test]
fn files_have_a_token_on_each_line() {
    let read = |text: &str| read_tokens(&file(), text.as_bytes()).map_err(|error| error.to_string());
    let text = format!("# ours\n{ANN}\n\n  {BOB}  \r\n# {ANN}x\n");
    assert_eq!(read(&text).unwrap(), [ANN, BOB].map(|text| Token::new(text).unwrap()));
    assert_eq!(read("# nobody\n").unwrap_err(), "`http_tokens` tokens: no token");
    let refused = read(&format!("{ANN}\nsecret\n")).unwrap_err();
    assert_eq!(
        refused,
        "`http_tokens` tokens: line 2: a token has at least 16 characters; `openssl rand -hex 32` makes a good one"
    );
    let refused = read_tokens(&file(), b"\xff").unwrap_err();
    assert_eq!(refused.to_string(), "`http_tokens` tokens: not a text in UTF-8");
}

#[test]
fn nothing_shows_a_token() {
    let settings = TokenSettings { resp: Some(TokenSource::parse(ANN).unwrap()), ..TokenSettings::default() };
    assert!(!format!("{settings:?} {settings:#?}").contains("0123"));
}

#[test]
fn tokens_stand_behind_a_scheme() {
    let shown = |value: &'static str| {
        let fields = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))]);
        shown(&fields).map(<[u8]>::to_vec)
    };
    for value in ["Bearer abc", "bearer abc", "BEARER   abc "] {
        assert_eq!(shown(value).unwrap(), b"abc", "{value}");
    }
    for value in ["", "abc", "Bearer", "Bearerabc", "Basic abc", "Beare\tabc", "Bearer\tabc"] {
        assert_eq!(shown(value), None, "{value}");
    }
    assert_eq!(super::shown(&HeaderMap::new()), None);
    // Whoever asks for somebody else passes on that one's credentials, and shows its own apart.
    let mut fields = HeaderMap::new();
    fields.insert("authorization", HeaderValue::from_static("Bearer theirs"));
    fields.insert("x-tollgate-token", HeaderValue::from_static("ours"));
    assert_eq!(super::shown(&fields), Some(b"ours".as_slice()));
}
