//! Access to the data listeners: tokens, what they may do, and what happens to clients that show wrong ones.
//!
//! A token is a secret that a client and the server share. The server keeps its SHA-256 only. What a client shows is hashed once and
//! compared with all tokens of the listener in constant time. It is never shown, neither in logs nor in errors.

mod failures;
mod remembered;
mod scope;
#[cfg(test)]
mod tests;
mod token;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use tollgate::core::Time;

#[cfg(any(test, fuzzing))]
pub(crate) use self::failures::TEST_CLIENT;
pub(crate) use self::failures::{Attempts, Failure, Failures};
pub(crate) use self::remembered::Remembered;
pub(crate) use self::scope::{Forbidden, Scope, Verb, narrowed};
use self::token::{Attributes, DataToken};
pub(crate) use self::token::{TOKENS_MAX, TokenHash, is_owner_name, read_expiry};
pub use self::token::{Token, TokenError};
use crate::gate::Gate;
use crate::metrics::Protocol;
use crate::reload::Kept;
use crate::secret::{NamedFile, SecretError};

const SCHEME: &str = "Bearer";
pub(crate) const TOKEN_FIELD: HeaderName = HeaderName::from_static("x-tollgate-token");

/// What a client may do that was let in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Admitted {
    /// From when on its token is not valid any more.
    pub(crate) expires: Option<Time>,
    /// What its token is bounded to. Nothing for a token that may do everything, and where no token is wanted.
    pub(crate) scope: Option<Arc<Scope>>,
}

/// Why a client is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It has shown no token.
    Missing,
    /// No token of the listener is this one.
    Wrong,
    /// The token was valid once.
    Expired,
    /// Its connection is to be closed: what it shows is not looked at.
    NotLookedAt,
}

impl Refused {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Refused::Missing => "missing",
            Refused::Wrong => "wrong",
            Refused::Expired => "expired",
            Refused::NotLookedAt => "not looked at",
        }
    }
}

impl Admitted {
    /// Whether the token was valid when it was shown and is not any more.
    pub(crate) fn has_expired(&self, now: impl FnOnce() -> Time) -> bool {
        self.expires.is_some_and(|expires| expires <= now())
    }
}

/// Where the tokens of a listener come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// The settings themselves.
    Listed(Vec<Token>),
    /// A file, with one on each line.
    File(PathBuf),
}

/// Which listeners want tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSettings {
    /// HTTP.
    pub http: Option<TokenSource>,
    /// gRPC.
    pub grpc: Option<TokenSource>,
    /// RESP.
    pub resp: Option<TokenSource>,
}

impl TokenSource {
    /// `@PATH`, or tokens with commas between them.
    pub(crate) fn parse(text: &str) -> Result<TokenSource, TokenError> {
        if let Some(path) = text.strip_prefix('@') {
            return Ok(TokenSource::File(path.into()));
        }
        let tokens = text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(Token::new);
        bounded(tokens.take(TOKENS_MAX + 1).collect::<Result<_, _>>()?).map(TokenSource::Listed)
    }
}

fn bounded<T>(tokens: Vec<T>) -> Result<Vec<T>, TokenError> {
    match tokens.len() {
        0 => Err(TokenError::None),
        1..=TOKENS_MAX => Ok(tokens),
        _ => Err(TokenError::Many),
    }
}

/// The tokens of a file: one a line, with its attributes; lines that begin with `#` are comments.
fn read_tokens(file: &NamedFile, content: &[u8]) -> Result<Vec<DataToken>, SecretError> {
    let text = str::from_utf8(content).map_err(|_| file.unusable("not a text in UTF-8"))?;
    let lines = (1..).zip(text.lines().map(str::trim));
    let tokens = lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .take(TOKENS_MAX + 1)
        .map(|(number, line)| match line.parse() {
            Ok(token) => Ok((number, token)),
            Err(error) => Err(file.unusable(format!("line {number}: {error}"))),
        })
        .collect::<Result<Vec<(usize, DataToken)>, _>>()?;
    let tokens = bounded(tokens).map_err(|error| file.unusable(error.to_string()))?;
    check_unique(file, tokens.iter().map(|(number, token)| (*number, &token.token)))?;
    Ok(tokens.into_iter().map(|(_, token)| token).collect())
}

/// Refuses a token that is on two lines: they may say different things about it, and only one of them could count.
pub(crate) fn check_unique<'a>(
    file: &NamedFile,
    tokens: impl Iterator<Item = (usize, &'a Token)>,
) -> Result<(), SecretError> {
    let mut lines: HashMap<&Token, usize> = HashMap::new();
    for (number, token) in tokens {
        if let Some(first) = lines.insert(token, number) {
            let why = format!("line {number}: the same token as on line {first}: remove one of them");
            return Err(file.unusable(why));
        }
    }
    Ok(())
}

/// The tokens of all listeners.
#[derive(Default)]
pub(crate) struct Access {
    rls: Option<Tokens>,
    http: Option<Tokens>,
    resp: Option<Tokens>,
}

/// The tokens of one listener.
struct Tokens {
    all: ArcSwap<Vec<DataToken>>,
    /// Counts how often they were replaced.
    generation: AtomicU64,
}

/// A file whose tokens are in force.
pub(crate) struct TokenFile {
    protocol: Protocol,
    file: NamedFile,
    content: Vec<u8>,
}

impl Tokens {
    fn new(all: Vec<DataToken>) -> Tokens {
        Tokens { all: ArcSwap::from_pointee(all), generation: AtomicU64::new(0) }
    }

    fn replace(&self, all: Vec<DataToken>) {
        self.all.store(Arc::new(all));
        // Release, after the store: what was admitted in an earlier generation is looked up again, and then finds the new tokens.
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn look_up(&self, shown: &[u8]) -> Option<Attributes> {
        let shown = TokenHash::of_shown(shown)?;
        let all = self.all.load();
        // With all of them, wherever the right one stands.
        let found =
            all.iter().fold(None, |found, token| if token.token.is(&shown) { Some(token) } else { found });
        found.map(|token| token.attributes.clone())
    }
}

impl Access {
    /// Reads all tokens, and says which files are to be kept up to date.
    pub(crate) fn load(settings: &TokenSettings) -> Result<(Access, Vec<TokenFile>), SecretError> {
        let mut files = Vec::new();
        let mut load = |protocol, setting, source: &Option<TokenSource>| {
            let tokens = match source {
                None => return Ok(None),
                Some(TokenSource::Listed(tokens)) => tokens.iter().cloned().map(DataToken::from).collect(),
                Some(TokenSource::File(path)) => {
                    let file = NamedFile { setting, path: path.clone() };
                    file.check_rights()?;
                    let content = file.read()?;
                    let tokens = read_tokens(&file, &content)?;
                    files.push(TokenFile { protocol, file, content });
                    tokens
                }
            };
            Ok(Some(Tokens::new(tokens)))
        };
        let access = Access {
            http: load(Protocol::Http, "http_tokens", &settings.http)?,
            rls: load(Protocol::Rls, "grpc_tokens", &settings.grpc)?,
            resp: load(Protocol::Resp, "resp_tokens", &settings.resp)?,
        };
        Ok((access, files))
    }

    /// As if the files of all listeners had these lines.
    #[cfg(test)]
    pub(crate) fn of_lines(lines: &str) -> Access {
        let file = NamedFile { setting: "tokens", path: "tokens".into() };
        let tokens = || read_tokens(&file, lines.as_bytes()).ok().map(Tokens::new);
        Access { rls: tokens(), http: tokens(), resp: tokens() }
    }

    /// Whether clients have to show a token.
    pub(crate) fn wants_token(&self, protocol: Protocol) -> bool {
        self.tokens(protocol).is_some()
    }

    /// What a client may do that shows this.
    pub(crate) fn admit(
        &self,
        protocol: Protocol,
        shown: Option<&[u8]>,
        now: impl FnOnce() -> Time,
    ) -> Result<Admitted, Refused> {
        let Some(tokens) = self.tokens(protocol) else { return Ok(Admitted::default()) };
        let Attributes { expires, scope } =
            tokens.look_up(shown.ok_or(Refused::Missing)?).ok_or(Refused::Wrong)?;
        let admitted = Admitted { expires, scope };
        if admitted.has_expired(now) { Err(Refused::Expired) } else { Ok(admitted) }
    }

    fn tokens(&self, protocol: Protocol) -> Option<&Tokens> {
        match protocol {
            Protocol::Rls => self.rls.as_ref(),
            Protocol::Http => self.http.as_ref(),
            Protocol::Resp => self.resp.as_ref(),
        }
    }
}

impl TokenFile {
    /// Keeps a gate's tokens as its file has them.
    pub(crate) fn kept(self, gate: &Arc<Gate>) -> Kept {
        let (gate, file, protocol) = (Arc::clone(gate), self.file.clone(), self.protocol);
        Kept::new("tokens", vec![self.file], &[self.content], move |contents| {
            file.check_rights()?;
            let content = contents.first().map(Vec::as_slice).unwrap_or_default();
            let tokens = read_tokens(&file, content)?;
            if let Some(place) = gate.access().tokens(protocol) {
                place.replace(tokens);
            }
            Ok(())
        })
    }
}

/// The token that a client shows.
pub(crate) fn shown(fields: &HeaderMap) -> Option<&[u8]> {
    let value = |name| fields.get(name).map(http::HeaderValue::as_bytes);
    shown_in(value(TOKEN_FIELD), value(AUTHORIZATION))
}

/// The token that a client shows: in a field of its own, or as HTTP has it. The first is for proxies, which pass on the
/// `Authorization` of their clients.
pub(crate) fn shown_in<'a>(own: Option<&'a [u8]>, authorization: Option<&'a [u8]>) -> Option<&'a [u8]> {
    if let Some(token) = own {
        return Some(token.trim_ascii());
    }
    let (scheme, token) = authorization?.split_at_checked(SCHEME.len())?;
    let is_ours = scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) && token.starts_with(b" ");
    is_ours.then(|| token.trim_ascii())
}
