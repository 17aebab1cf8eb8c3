//! Settings that contradict each other, or that would serve clients in a way that the operator did not mean.

use std::net::SocketAddr;
use std::path::Path;

use super::ServeError;
use crate::settings::{Listen, Settings};
use crate::tls::TlsMode;

/// Whether only clients on this machine reach an address, also where it is an IPv4 address written as IPv6.
pub(super) fn is_local(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Refuses to serve no listener at all. Without a data listener there is nothing to limit.
pub(super) fn check_listeners(settings: &Settings) -> Result<(), ServeError> {
    let Settings { http, grpc, resp, admin, .. } = settings;
    match ([http, grpc, resp].iter().all(|listen| **listen == Listen::Off), admin) {
        (true, Listen::Off) => Err(ServeError::NoListener),
        (true, Listen::At(_)) => {
            tracing::warn!("`http`, `grpc` and `resp` are off: only the admin listener is served");
            Ok(())
        }
        (false, _) => Ok(()),
    }
}

/// Refuses to serve other machines on a data listener that lets every client in. TLS alone does not help:
/// it says who the server is, not who the client is.
pub(super) fn check_protected(settings: &Settings) -> Result<(), ServeError> {
    let (tls, tokens) = (settings.tls.modes(), &settings.tokens);
    for (what, at, mode, has_tokens) in [
        ("http", settings.http, tls.http, tokens.http.is_some()),
        ("grpc", settings.grpc, tls.grpc, tokens.grpc.is_some()),
        ("resp", settings.resp, tls.resp, tokens.resp.is_some()),
    ] {
        let Listen::At(address) = at else { continue };
        let is_open = !is_local(address) && mode != TlsMode::Mutual && !has_tokens;
        if is_open && !settings.insecure_listen {
            return Err(ServeError::Unprotected { what, address });
        }
    }
    Ok(())
}

/// An error if the file of the database would lie in a directory that does not exist.
pub(super) fn check_folder(path: &Path) -> Result<(), ServeError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.is_dir()) {
        Some(folder) => Err(ServeError::NoFolder { folder: folder.to_owned() }),
        None => Ok(()),
    }
}
