//! What the text of a setting means.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use thiserror::Error;

use super::pins::PinError;
use super::{Listen, LogFormat};
use tollgate_control::AddressError as DatabaseAddressError;
use tollgate_redis::AddressError;

use crate::access::{TokenError, TokenSource};
use crate::admin::{AdminHost, AdminRate, AdminTokenError};
use crate::tls::TlsMode;

/// Why a text is no value of its setting.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    /// There is no such setting.
    #[error("there is no such setting")]
    Unknown,
    /// The text means nothing.
    #[error("\"{text}\" is not {wanted}")]
    Meaningless {
        /// The text.
        text: String,
        /// What would be a value.
        wanted: &'static str,
    },
    /// The text should be secret, and is not repeated.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The same, of the admin API.
    #[error(transparent)]
    AdminToken(#[from] AdminTokenError),
    /// No database. There may be a password in the text.
    #[error("{0}")]
    Database(DatabaseAddressError),
    /// No store. There may be a password in the text.
    #[error("it is neither `memory` nor an address: {0}")]
    Store(#[from] AddressError),
    /// A pin.
    #[error(transparent)]
    Pin(#[from] PinError),
}

pub(super) fn listen(text: &str) -> Result<Listen, SettingError> {
    if text == "off" {
        return Ok(Listen::Off);
    }
    // A bare port, or `:port`, is meant for this machine alone.
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    if let Ok(port) = port {
        return Ok(Listen::loopback(port));
    }
    let address: Option<SocketAddr> = text.parse().ok().or_else(|| text.to_socket_addrs().ok()?.next());
    address
        .map(Listen::At)
        .ok_or_else(|| meaningless(text, "an address such as 127.0.0.1:8080 or [::]:8080, a port, or `off`"))
}

pub(super) fn boolean(text: &str) -> Result<bool, SettingError> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "t" | "yes" | "on" => Ok(true),
        "false" | "0" | "f" | "no" | "off" => Ok(false),
        _ => Err(meaningless(text, "true or false")),
    }
}

pub(super) fn count(text: &str) -> Result<usize, SettingError> {
    text.parse().ok().filter(|&count| count > 0).ok_or_else(|| meaningless(text, "a whole number from 1 on"))
}

pub(super) fn ratio(text: &str) -> Result<f64, SettingError> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| meaningless(text, "a number from 0 to 1, such as 0.8"))
}

/// A percentage of something of which others need a part too.
pub(super) fn percent(text: &str) -> Result<u8, SettingError> {
    let percent = text.parse().ok().filter(|percent| (1..=80).contains(percent));
    percent.ok_or_else(|| meaningless(text, "a whole number from 1 to 80"))
}

/// A size: `512MiB`, `1GiB`, `1Gi`; `512MB`, `1G` in powers of 1000; or a number of bytes. In letters of either case.
pub(super) fn bytes(text: &str) -> Result<usize, SettingError> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let unit = match suffix.trim().to_ascii_lowercase().as_str() {
        "" | "b" => Some(1),
        "kib" | "ki" => Some(1 << 10),
        "mib" | "mi" => Some(1 << 20),
        "gib" | "gi" => Some(1 << 30),
        "kb" | "k" => Some(1_000),
        "mb" | "m" => Some(1_000_000),
        "gb" | "g" => Some(1_000_000_000),
        _ => None,
    };
    let size = unit.and_then(|unit| number.parse::<usize>().ok()?.checked_mul(unit));
    size.ok_or_else(|| meaningless(text, "a size such as 512MiB, 1GiB or 1GB"))
}

/// A length of time: `250ms`, `10s`, `2m`; a bare number is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, SettingError> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let unit_ms = match suffix.trim() {
        "ms" => Some(1),
        "" | "s" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    let length_ms = unit_ms.and_then(|unit_ms| number.parse::<u64>().ok()?.checked_mul(unit_ms));
    let length_ms = length_ms.ok_or_else(|| meaningless(text, "a length of time such as 250ms, 10s or 2m"));
    length_ms.map(Duration::from_millis)
}

/// A level, as we or as envoyproxy/ratelimit call it; or a filter by module. A single word is always meant as a level: as the name of a
/// module, it would silence everything.
pub(super) fn log_level(text: &str) -> Result<String, SettingError> {
    let level = match text.to_ascii_lowercase().as_str() {
        "error" | "fatal" | "panic" => "error",
        "warn" | "warning" => "warn",
        "info" => "info",
        "debug" => "debug",
        "trace" => "trace",
        "off" => "off",
        _ if text.contains(['=', ',']) => text,
        _ => {
            return Err(meaningless(
                text,
                "a level: use error, warn, info, debug, trace or off, or a filter such as `info,tollgate_server=debug`",
            ));
        }
    };
    Ok(level.to_owned())
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, SettingError> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(meaningless(text, "text or json")),
    }
}

pub(super) fn tls_mode(text: &str) -> Result<Option<TlsMode>, SettingError> {
    match text {
        "off" => Ok(Some(TlsMode::Off)),
        "on" => Ok(Some(TlsMode::On)),
        "mutual" => Ok(Some(TlsMode::Mutual)),
        _ => Err(meaningless(text, "off, on or mutual")),
    }
}

pub(super) fn tokens(text: &str) -> Result<Option<TokenSource>, SettingError> {
    Ok(Some(TokenSource::parse(text)?))
}

pub(super) fn admin_hosts(text: &str) -> Result<Vec<AdminHost>, SettingError> {
    AdminHost::parse_list(text)
        .ok_or_else(|| meaningless(text, "a list of names such as admin.example,admin.example:8443"))
}

pub(super) fn rate(text: &str) -> Result<Option<AdminRate>, SettingError> {
    match text {
        "off" => Ok(None),
        _ => text
            .parse()
            .map(Some)
            .map_err(|()| meaningless(text, "a rate such as 50/s, or 50/s:200 with a burst, or `off`")),
    }
}

pub(super) fn meaningless(text: &str, wanted: &'static str) -> SettingError {
    SettingError::Meaningless { text: text.to_owned(), wanted }
}
