//! Who may ask: tokens, where a listener has any.
//!
//! A token is a secret that a client and the server share. It is compared in a time that does not depend on where it differs, with all
//! that there are, and it is never shown: neither in logs nor in errors.

#[cfg(test)]
mod tests;

use std::fmt;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use thiserror::Error;

use crate::gate::Gate;
use crate::metrics::Protocol;
use crate::reload::Kept;
use crate::secret::{NamedFile, SecretError};

/// The shortest token: nobody guesses so many characters that were drawn by lot.
const TOKEN_BYTES_MIN: usize = 16;
const TOKEN_BYTES_MAX: usize = 512;
/// The most tokens of one listener. A client is compared with all of them.
const TOKENS_MAX: usize = 256;

const SCHEME: &str = "Bearer";
pub(crate) const TOKEN_FIELD: HeaderName = HeaderName::from_static("x-tollgate-token");

/// A secret that a client shows. It cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Box<[u8]>);

/// Why a text is no token. It does not say the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    /// Easy to guess.
    #[error("a token has at least {TOKEN_BYTES_MIN} characters; `openssl rand -hex 32` makes a good one")]
    Short,
    /// More than anybody needs.
    #[error("a token has at most {TOKEN_BYTES_MAX} characters")]
    Long,
    /// Header fields could not carry it.
    #[error("a token has letters, digits and signs of ASCII only, without spaces and commas")]
    Characters,
    /// Too many to compare with.
    #[error("more than {TOKENS_MAX} tokens")]
    Many,
    /// Nobody could ask.
    #[error("no token")]
    None,
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

impl Token {
    /// A token of this text.
    pub fn new(text: &str) -> Result<Token, TokenError> {
        match text.len() {
            0..TOKEN_BYTES_MIN => Err(TokenError::Short),
            TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX
                if text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',') =>
            {
                Ok(Token(text.as_bytes().into()))
            }
            TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX => Err(TokenError::Characters),
            _ => Err(TokenError::Long),
        }
    }

    /// Whether a client has shown this one. The time tells its length at most, which is no secret.
    pub(crate) fn is(&self, shown: &[u8]) -> bool {
        let differing = |differing: u8, (ours, theirs): (&u8, &u8)| black_box(differing | (ours ^ theirs));
        self.0.len() == shown.len() && self.0.iter().zip(shown).fold(0, differing) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
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

fn bounded(tokens: Vec<Token>) -> Result<Vec<Token>, TokenError> {
    match tokens.len() {
        0 => Err(TokenError::None),
        1..=TOKENS_MAX => Ok(tokens),
        _ => Err(TokenError::Many),
    }
}

/// The tokens of a file: one a line; lines that begin with `#` are comments.
fn read_tokens(file: &NamedFile, content: &[u8]) -> Result<Vec<Token>, SecretError> {
    let text = str::from_utf8(content).map_err(|_| file.unusable("not a text in UTF-8"))?;
    let lines = text.lines().map(str::trim).enumerate();
    let tokens = lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .take(TOKENS_MAX + 1)
        .map(|(index, line)| {
            Token::new(line).map_err(|error| file.unusable(format!("line {}: {error}", index + 1)))
        })
        .collect::<Result<_, _>>()?;
    bounded(tokens).map_err(|error| file.unusable(error.to_string()))
}

/// The tokens of all listeners.
#[derive(Default)]
pub(crate) struct Access {
    rls: Option<ArcSwap<Vec<Token>>>,
    http: Option<ArcSwap<Vec<Token>>>,
    resp: Option<ArcSwap<Vec<Token>>>,
}

/// A file whose tokens are in force.
pub(crate) struct TokenFile {
    protocol: Protocol,
    file: NamedFile,
    content: Vec<u8>,
}

impl Access {
    /// Reads all tokens; and says which files are to be kept up to date.
    pub(crate) fn load(settings: &TokenSettings) -> Result<(Access, Vec<TokenFile>), SecretError> {
        let mut files = Vec::new();
        let mut load = |protocol, setting, source: &Option<TokenSource>| {
            let tokens = match source {
                None => return Ok(None),
                Some(TokenSource::Listed(tokens)) => tokens.clone(),
                Some(TokenSource::File(path)) => {
                    let file = NamedFile { setting, path: path.clone() };
                    let content = file.read()?;
                    let tokens = read_tokens(&file, &content)?;
                    files.push(TokenFile { protocol, file, content });
                    tokens
                }
            };
            Ok(Some(ArcSwap::from_pointee(tokens)))
        };
        let access = Access {
            http: load(Protocol::Http, "http_tokens", &settings.http)?,
            rls: load(Protocol::Rls, "grpc_tokens", &settings.grpc)?,
            resp: load(Protocol::Resp, "resp_tokens", &settings.resp)?,
        };
        Ok((access, files))
    }

    /// Whether clients have to show a token.
    pub(crate) fn wants_token(&self, protocol: Protocol) -> bool {
        self.tokens(protocol).is_some()
    }

    /// Whether whoever shows this may ask.
    pub(crate) fn admits(&self, protocol: Protocol, shown: Option<&[u8]>) -> bool {
        let Some(tokens) = self.tokens(protocol) else { return true };
        let shown = shown.unwrap_or_default();
        // With all of them, wherever the right one stands.
        tokens.load().iter().fold(false, |found, token| found | token.is(shown))
    }

    fn tokens(&self, protocol: Protocol) -> Option<&ArcSwap<Vec<Token>>> {
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
            let content = contents.first().map(Vec::as_slice).unwrap_or_default();
            let tokens = read_tokens(&file, content)?;
            if let Some(place) = gate.access().tokens(protocol) {
                place.store(Arc::new(tokens));
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

/// The token that a client shows: in a field of its own, or as HTTP has it. The first is for proxies that ask on behalf of somebody else,
/// whose `Authorization` they pass on.
pub(crate) fn shown_in<'a>(own: Option<&'a [u8]>, authorization: Option<&'a [u8]>) -> Option<&'a [u8]> {
    if let Some(token) = own {
        return Some(token.trim_ascii());
    }
    let (scheme, token) = authorization?.split_at_checked(SCHEME.len())?;
    let is_ours = scheme.eq_ignore_ascii_case(SCHEME.as_bytes()) && token.starts_with(b" ");
    is_ours.then(|| token.trim_ascii())
}
