//! One module per protocol: bytes to requests, verdicts to bytes.

pub(crate) mod http;
pub(crate) mod resp;
pub(crate) mod rls;
mod up_to;
