//! The messages of the protocol, generated from `proto/`, under the names that the rest of the code uses.

#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    dead_code,
    unused_imports
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/wire.rs"));
}

pub(super) use generated::envoy::config::core::v3::HeaderValue;
pub(super) use generated::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
pub(super) use generated::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
pub(super) use generated::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
pub(super) use generated::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit,
};
#[cfg(test)]
pub(super) use generated::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
pub(super) use generated::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
pub(super) use generated::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
pub(super) use generated::envoy::r#type::v3::RateLimitUnit;

/// The definitions themselves, encoded, for reflection.
pub(super) const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
