//! What tests of the admin listener need: somebody of every role.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use super::{AdminRate, AdminTokenSource, Api, Callers, Guard, Hosts};
use crate::gate::Gate;

pub(super) const READER: &str = "reader-0123456789abcdef";
pub(super) const OPERATOR: &str = "operator-0123456789abcdef";
pub(super) const ADMIN: &str = "admin-0123456789abcdef";

/// An API without a database, for those three.
pub(super) fn api(gate: &Arc<Gate>) -> Api {
    limited(gate, None)
}

/// The same, with a limit on itself.
pub(super) fn limited(gate: &Arc<Gate>, rate: Option<AdminRate>) -> Api {
    let tokens = format!("reader:rita:{READER},operator:otto:{OPERATOR},admin:anna:{ADMIN}");
    let source = AdminTokenSource::parse(&tokens).unwrap();
    let callers = Callers::load(Some(&source), "nowhere".into()).unwrap().callers;
    let hosts = Hosts::new("127.0.0.1:9090".parse().unwrap(), Vec::new());
    Api { gate: Arc::clone(gate), control: None, guard: Guard::new(callers, hosts, rate).unwrap() }
}
