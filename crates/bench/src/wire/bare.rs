//! Servers that decide nothing: what tonic and hyper cost by themselves, on the same kind of threads as ours.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::thread;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tonic::service::Routes;

/// Connections that were accepted and not yet taken up.
const HANDED_OUT_MAX: usize = 256;

#[allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, dead_code, unused_imports)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/wire.rs"));
}

use generated::envoy::config::core::v3::HeaderValue;
use generated::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use generated::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use generated::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

/// Answers every question with the same message, as long as Tollgate's.
struct Constant(RateLimitResponse);

#[tonic::async_trait]
impl RateLimitService for Constant {
    async fn should_rate_limit(
        &self,
        _: tonic::Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, tonic::Status> {
        Ok(tonic::Response::new(self.0.clone()))
    }
}

/// tonic, which decodes the question and encodes the answer.
pub(super) async fn serve_tonic() -> io::Result<SocketAddr> {
    let service = RateLimitServiceServer::new(Constant(message()));
    let router = Routes::new(service).into_axum_router();
    let serve = move |stream: TcpStream| {
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let builder = auto::Builder::new(TokioExecutor::new()).http2_only();
            // The generator goes away whenever it likes.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    };
    hand_out(serve).await
}

/// hyper, which reads the body and answers with the same bytes.
pub(super) async fn serve_hyper() -> io::Result<SocketAddr> {
    let serve = |stream: TcpStream| {
        tokio::spawn(async move {
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
            let _ = connection.await;
        });
    };
    hand_out(serve).await
}

/// Accepts connections, and lets one thread with a runtime of its own serve them.
async fn hand_out(serve: impl Fn(TcpStream) + Send + 'static) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (sender, mut inbox) = mpsc::channel::<std::net::TcpStream>(HANDED_OUT_MAX);
    let work = async move {
        while let Some(stream) = inbox.recv().await {
            if let Ok(stream) = TcpStream::from_std(stream) {
                let _ = stream.set_nodelay(true);
                serve(stream);
            }
        }
    };
    thread::Builder::new().name("worker".to_owned()).spawn(move || runtime.block_on(work))?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = stream.into_std() else { continue };
            if sender.send(stream).await.is_err() {
                return;
            }
        }
    });
    Ok(address)
}

/// Two statuses and two header fields, as Tollgate answers two descriptors of the benchmark's rules.
fn message() -> RateLimitResponse {
    let limit = RateLimit { requests_per_unit: 100_000_000, ..RateLimit::default() };
    let status = DescriptorStatus {
        code: Code::Ok.into(),
        current_limit: Some(limit),
        limit_remaining: 99_999_999,
        duration_until_reset: Some(prost_types::Duration { seconds: 32, nanos: 0 }),
    };
    let header = |key: &str, value: &str| HeaderValue {
        key: key.to_owned(),
        value: value.to_owned(),
        ..HeaderValue::default()
    };
    RateLimitResponse {
        overall_code: Code::Ok.into(),
        statuses: vec![status.clone(), status],
        response_headers_to_add: vec![
            header(
                "ratelimit-policy",
                r#""path=/search > user";q=100000000;w=3153600000, "user";q=100000000;w=3153600000"#,
            ),
            header("ratelimit", r#""path=/search > user";r=99999999;t=32"#),
        ],
        ..RateLimitResponse::default()
    }
}

const BODY: &str = r#"{"allowed":true,"limit":100000000,"remaining":99999999,"retry_after":null,"reset_at":1794810576,"quota":100000000,"window":3153600000,"scope":"search","decisions":[{"policy":"search","rule":"search","title":"search","enforcement":"enforced","allowed":true,"cost":1,"limit":100000000,"remaining":99999999,"quota":100000000,"window":3153600000,"retry_after":null,"reset_after":31.536}]}"#;
const FIELDS: [(&str, &str); 6] = [
    ("content-type", "application/json"),
    ("x-ratelimit-limit", "100000000"),
    ("x-ratelimit-remaining", "99999999"),
    ("x-ratelimit-reset", "1794810576"),
    ("ratelimit-policy", r#""search";q=100000000;w=3153600000"#),
    ("ratelimit", r#""search";r=99999999;t=32"#),
];

/// The same answer, whatever the question; but the question is read.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let _ = request.into_body().collect().await;
    let mut response = Response::new(Full::new(Bytes::from_static(BODY.as_bytes())));
    for (name, value) in FIELDS {
        response.headers_mut().insert(name, hyper::header::HeaderValue::from_static(value));
    }
    Ok(response)
}
