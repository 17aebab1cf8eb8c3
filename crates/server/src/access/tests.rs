//! Which texts are tokens, whom they let in, and that nothing shows them.
#![allow(clippy::unwrap_used, clippy::panic)]

use http::HeaderValue;

use super::token::{TOKEN_BYTES_MAX, TOKEN_BYTES_MIN};
use super::*;
use tollgate::policy::Entry;
use tollgate::{Descriptor, OwnLimit, Request};

const ANN: &str = "ann-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";

fn listed(text: &str) -> Access {
    let settings =
        TokenSettings { http: Some(TokenSource::parse(text).unwrap()), ..TokenSettings::default() };
    Access::load(&settings).unwrap().0
}

fn admits(access: &Access, shown: &str) -> bool {
    access.admit(Protocol::Http, Some(shown.as_bytes()), Time::default).is_ok()
}

/// The tokens of a file with these lines.
fn lines(text: &str) -> Result<Access, String> {
    let tokens = read_tokens(&file(), text.as_bytes()).map_err(|error| error.to_string())?;
    Ok(Access { http: Some(Tokens::new(tokens)), ..Access::default() })
}

fn file() -> NamedFile {
    NamedFile { setting: "http_tokens", path: "tokens".into() }
}

#[test]
fn any_of_the_tokens_will_do_and_nothing_else() {
    let access = listed(&format!("{ANN}, {BOB}"));
    let admits = |shown: &str| admits(&access, shown);
    assert!(admits(ANN) && admits(BOB));
    for shown in ["", &ANN[..19], &format!("{ANN}x"), "ann-0123456789abcdeF", "Ann-0123456789abcdef"] {
        assert!(!admits(shown), "{shown}");
    }
    assert!(!admits(&format!("{ANN}, {BOB}")));
    assert_eq!(access.admit(Protocol::Http, None, Time::default).unwrap_err(), Refused::Missing);
}

#[test]
fn where_no_token_is_wanted_everybody_may_ask() {
    let access = listed(ANN);
    for protocol in [Protocol::Rls, Protocol::Resp] {
        assert!(!access.wants_token(protocol));
        assert!(access.admit(protocol, None, Time::default).is_ok());
        assert!(access.admit(protocol, Some(b"x"), Time::default).is_ok());
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
    let lines = |count: usize| {
        let lines: Vec<String> = (0..count).map(|number| format!("{ANN}{number}")).collect();
        read_tokens(&file(), lines.join("\n").as_bytes())
    };
    assert_eq!(lines(TOKENS_MAX).unwrap().len(), TOKENS_MAX);
    assert_eq!(lines(TOKENS_MAX + 1).unwrap_err().to_string(), "`http_tokens` tokens: more than 256 tokens");
}

#[test]
fn a_token_on_two_lines_is_an_error_with_both_line_numbers() {
    let told = |text: &str| lines(text).map(drop).unwrap_err();
    let twice = "`http_tokens` tokens: line 4: the same token as on line 2: remove one of them";
    assert_eq!(told(&format!("# ours\n{ANN} scopes=check\n{BOB}\n{ANN}\n")), twice);
    let hash = "sha256:47a40ebb4f7ac1e0e4a2a5a7a1a1b2d6ee1ba3d5fe8d7c3b47ec1c27e4ca1f5a";
    assert!(lines(&format!("{ANN}\n{hash}")).is_ok(), "another token");
    let hash = format!("sha256:{}", hex_sha256(ANN));
    assert_eq!(told(&format!("# ours\n{hash} policies=search\n\n{ANN}\n")), twice, "by its hash, too");
}

/// As `sha256sum` prints it.
fn hex_sha256(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    // blake3 writes any 32 bytes as 64 hexadecimal digits.
    blake3::Hash::from_slice(digest.as_ref()).unwrap().to_string()
}

#[test]
fn files_have_a_token_on_each_line() {
    let read = |text: &str| read_tokens(&file(), text.as_bytes()).map_err(|error| error.to_string());
    let text = format!("# ours\n{ANN}\n\n  {BOB}  \r\n# {ANN}x\n");
    let tokens = read(&text).unwrap();
    assert_eq!(tokens, [ANN, BOB].map(|text| DataToken::from(Token::new(text).unwrap())));
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

#[test]
fn a_file_may_have_hashes_instead_of_tokens() {
    let access = lines("sha256:4aebd70d3e9413c91f66417e4fea3d65096e0723b1d5b84093132287a974a2bd").unwrap();
    assert!(admits(&access, ANN));
    assert!(
        !admits(&access, BOB)
            && !admits(&access, "sha256:4aebd70d3e9413c91f66417e4fea3d65096e0723b1d5b84093132287a974a2bd")
    );
    let uppercase = lines(&format!(
        "sha256:{}",
        "4aebd70d3e9413c91f66417e4fea3d65096e0723b1d5b84093132287a974a2bd".to_uppercase()
    ))
    .unwrap();
    assert!(admits(&uppercase, ANN));
    for hash in [
        "sha256:",
        "sha256:00",
        "sha256:4aebd70d3e9413c91f66417e4fea3d65096e0723b1d5b84093132287a974a2bd0",
        "sha256:gg3",
    ] {
        let refused = lines(hash).err().unwrap();
        assert!(
            refused.starts_with("`http_tokens` tokens: line 1: `sha256:` is followed by 64"),
            "{refused}"
        );
    }
}

#[test]
fn a_token_is_not_valid_from_its_expiry_on() {
    let access = lines(&format!("{ANN} expires=2027-01-01T00:00:00Z\n{BOB}")).unwrap();
    let admit = |shown: &str, second: u64| {
        let now = || Time::from_ticks(second * 1_000_000_000);
        access.admit(Protocol::Http, Some(shown.as_bytes()), now).map(drop)
    };
    assert_eq!(admit(ANN, 1_798_761_599), Ok(()));
    assert_eq!(admit(ANN, 1_798_761_600), Err(Refused::Expired));
    assert_eq!(admit(BOB, 1_798_761_600), Ok(()));
}

#[test]
fn what_is_wrong_with_a_line_is_told_without_the_token() {
    for (attributes, told) in [
        ("x", "after a token come attributes"),
        ("scope=check", "after a token come attributes"),
        ("name=a name=b", "after a token come attributes"),
        ("name=a,b", "`name` has 1 to 64"),
        ("name=", "`name` has 1 to 64"),
        ("expires=2027", "`expires` is an RFC 3339 timestamp"),
        ("expires=1960-01-01T00:00:00Z", "`expires` is an RFC 3339 timestamp"),
        ("scopes=", "`scopes` is a list of"),
        ("scopes=check,admin", "`scopes` is a list of"),
        ("domains=", "`domains` and `policies` are lists"),
        ("policies=a,,b", "`domains` and `policies` are lists"),
        ("policies=*a", "`domains` and `policies` are lists"),
    ] {
        let refused = lines(&format!("# tokens\n{BOB}\n{ANN} {attributes}")).err().unwrap();
        assert!(refused.starts_with("`http_tokens` tokens: line 3: ") && refused.contains(told), "{refused}");
        assert!(!refused.contains("0123"), "{refused}");
    }
    let many = |count| lines(&format!("{ANN} domains={}", vec!["d"; count].join(",")));
    assert!(many(64).is_ok() && many(65).is_err());
}

fn scope(attributes: &str) -> Arc<Scope> {
    let token: DataToken = format!("{ANN} {attributes}").parse().unwrap();
    token.attributes.scope.unwrap()
}

const ENTRIES: &[Entry<'static>] = &[("user", "ann")];

#[test]
fn a_token_without_a_scope_may_do_everything() {
    let token: DataToken = format!("{ANN} name=checkout expires=2027-01-01T00:00:00Z").parse().unwrap();
    assert_eq!(token.attributes.scope, None);
}

#[test]
fn a_scope_permits_what_it_names_and_nothing_else() {
    let plain = [Descriptor::new(ENTRIES)];
    let refund = [Descriptor { refund: true, ..Descriptor::new(ENTRIES) }];
    let limit = Some(OwnLimit { requests_per_unit: 1, unit: None });
    let with_limit = [Descriptor { limit, ..Descriptor::new(ENTRIES) }];
    let both = [plain[0], refund[0]];
    let of = |attributes: &str| {
        let scope = scope(attributes);
        let permits = |request: &Request<'_>, verb| scope.permit(request, verb).is_ok();
        let tier = Request {
            subject: tollgate::Subject::Policy { name: "p", key: b"k", tier: Some("gold") },
            cost: 1,
            peek: false,
            id: None,
        };
        [
            permits(&Request::new("d", &plain), Verb::Check),
            permits(&Request::new("d", &refund), Verb::Check),
            permits(&Request::new("d", &both), Verb::Check),
            permits(&Request::new("d", &with_limit), Verb::Check),
            permits(&tier, Verb::Check),
            permits(&Request::policy("p", b"k"), Verb::Reserve),
            scope.permit_throttle().is_ok(),
        ]
    };
    assert_eq!(of("scopes=check,refund,override,tier,reserve"), [true; 7]);
    assert_eq!(of("scopes=check"), [true, false, false, false, false, false, false]);
    assert_eq!(of("scopes=refund"), [false, true, false, false, false, false, false]);
    assert_eq!(of("scopes=check,refund"), [true, true, true, false, false, false, false]);
    assert_eq!(of("scopes=check,override"), [true, false, false, true, false, false, true]);
    assert_eq!(of("scopes=check,tier"), [true, false, false, false, true, false, false]);
    assert_eq!(of("scopes=reserve"), [false, false, false, false, false, true, false]);
    assert_eq!(of("domains=d"), [true, true, true, true, false, false, false]);
    assert_eq!(of("policies=p*"), [false, false, false, false, true, true, false]);
    assert_eq!(of("policies=*"), [false, false, false, false, true, true, true]);
}

#[test]
fn names_are_exact_or_end_in_a_star() {
    let scope = scope("domains=shop,api-* policies=search-*");
    let domain = |name: &str| scope.permit_domain(name).is_ok();
    assert!(domain("shop") && domain("api-") && domain("api-v1"));
    assert!(!domain("shop2") && !domain("") && !domain("ap") && !domain("search-x"));
    assert_eq!(
        scope.permit(&Request::policy("login", b"k"), Verb::Check).unwrap_err().to_string(),
        "this token may not use the policy \"login\""
    );
}

#[test]
fn a_remembered_token_is_looked_up_again_when_tokens_change() {
    let access = lines(&format!("{ANN} expires=2027-01-01T00:00:00Z\n{BOB}")).unwrap();
    let mut remembered = Remembered::default();
    let mut admit = |shown: &str, second: u64| {
        let now = || Time::from_ticks(second * 1_000_000_000);
        remembered.admit(&access, Protocol::Http, shown.as_bytes(), now).map(drop)
    };
    for shown in [ANN, ANN, BOB, ANN] {
        assert_eq!(admit(shown, 0), Ok(()));
    }
    assert_eq!(admit("ann-0123456789abcdeF", 0), Err(Refused::Wrong));
    assert_eq!(admit(ANN, 0), Ok(()));
    assert_eq!(admit(ANN, 1_798_761_600), Err(Refused::Expired));
    let tokens = read_tokens(&file(), BOB.as_bytes()).unwrap();
    access.tokens(Protocol::Http).unwrap().replace(tokens);
    assert_eq!(admit(ANN, 0), Err(Refused::Wrong));
    assert_eq!(admit(BOB, 0), Ok(()));
}

#[test]
fn a_token_file_that_every_user_may_write_lets_no_client_in() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let write = |token: &str, mode: u32| {
        std::fs::write(&path, token).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let settings = TokenSettings { http: Some(TokenSource::File(path.clone())), ..TokenSettings::default() };
    write(ANN, 0o602);
    let refused = Access::load(&settings).err().unwrap().to_string();
    assert!(refused.contains("may write it"), "{refused}");
    write(ANN, 0o600);
    let (access, mut files) = Access::load(&settings).unwrap();
    let gate = Arc::new(Gate::new(crate::gate::GateSettings::default()).unwrap().with_access(access));
    let mut kept = files.remove(0).kept(&gate);
    // A reload takes nothing over from such a file either.
    write(BOB, 0o602);
    assert!(kept.refresh(true, 0).unwrap().is_err());
    assert!(admits(gate.access(), ANN) && !admits(gate.access(), BOB));
    write(BOB, 0o600);
    assert!(kept.refresh(true, 0).unwrap().is_ok());
    assert!(admits(gate.access(), BOB) && !admits(gate.access(), ANN));
}
