//! Tollgate behind gRPC, HTTP and RESP.
//!
//! A protocol turns bytes into a request, asks the [`Gate`], and turns its verdict into bytes. Protocols know nothing of stores, and
//! whatever is counted is read from the verdict.

mod access;
mod admin;
mod aside;
mod body;
mod client_address;
mod clients;
mod connection;
mod control;
mod drain;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod headers;
mod memory;
mod metrics;
mod process;
mod protocol;
mod reload;
mod room;
mod rulebook;
mod secret;
mod seldom;
mod serve;
mod settings;
mod store;
mod stream;
mod tls;
mod workers;

pub use access::{Token, TokenError, TokenSettings, TokenSource};
pub use admin::{AdminHost, AdminRate, AdminToken, AdminTokenError, AdminTokenSource, Role, key_id};
pub use client_address::{AddressError, AddressSettings, AddressSource, ClientAddress};
pub use gate::{Gate, GateSettings, PathForm};
pub use process::{default_memory_bytes, is_root, prepare};
pub use secret::{NamedFile, SecretError};
pub use serve::{Addresses, Running, ServeError, serve};
pub use settings::{AdminSettings, Listen, LogFormat, SETTINGS, Setting, SettingError, Settings};
pub use store::{HiddenText, StoreError, StoreSettings};
pub use tls::{TlsMode, TlsModes, TlsSettings};
