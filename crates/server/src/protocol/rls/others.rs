//! Calls that tonic answers: health, reflection, methods that do not exist, and questions that are out of the ordinary.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::Router;
use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request};
use http_body_util::Full;
use hyper::body::{Body, Frame};
use tonic::metadata::GRPC_CONTENT_TYPE;
use tower::Service;

use super::{SHOULD_RATE_LIMIT, reply};
use crate::access::Scope;

/// A body as it arrives.
struct Arriving(RecvStream);

impl Body for Arriving {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let body = &mut self.0;
        match ready!(body.poll_data(context)) {
            Some(Ok(data)) => {
                // What was read makes room for more.
                let _ = body.flow_control().release_capacity(data.len());
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => {
                let trailers: Result<Option<HeaderMap>, h2::Error> = ready!(body.poll_trailers(context));
                Poll::Ready(trailers.transpose().map(|trailers| trailers.map(Frame::trailers)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}

/// Answers a call whose body may still be on its way.
pub(super) async fn answer(router: Router, request: Request<RecvStream>, caller: SendResponse<Bytes>) {
    call(router, request.map(Arriving), caller).await;
}

/// Answers a question whose body is there.
pub(super) async fn answer_whole(
    router: Router,
    scope: Option<Arc<Scope>>,
    body: Bytes,
    caller: SendResponse<Bytes>,
) {
    let mut request = Request::new(Full::new(body));
    if let Some(scope) = scope {
        request.extensions_mut().insert(scope);
    }
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static(SHOULD_RATE_LIMIT);
    request.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
    call(router, request, caller).await;
}

async fn call<B>(mut router: Router, request: Request<B>, mut caller: SendResponse<Bytes>)
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let answered = tokio::select! {
        biased;
        answered = router.call(request) => answered,
        _ = std::future::poll_fn(|context| caller.poll_reset(context)) => return,
    };
    let Ok(response) = answered;
    reply::stream(caller, response).await;
}
