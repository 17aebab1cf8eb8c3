//! A real client over a real socket.

use std::time::Duration;

use tonic::Code;
use tonic::codegen::tokio_stream::{self, StreamExt as _};
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};

use super::super::MESSAGE_BYTES_MAX;
use super::super::decode::DESCRIPTORS_MAX;
use super::super::wire::RateLimitServiceClient;
use super::served::serve;
use super::*;

const RULES: &str = r"
domain: d
descriptors:
- key: one
  rate_limit: {unit: year, requests_per_unit: 1, name: only}
";
const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

async fn connect(gate: &Arc<Gate>) -> Channel {
    let (address, _) = serve(gate).await;
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

fn health_of(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn decides() {
    let mut client = RateLimitServiceClient::new(connect(&gate(RULES)).await);
    for (overall, code) in [("OK", "OK"), ("OVER_LIMIT", "OVER_LIMIT")] {
        let response = client.should_rate_limit(message(&[of("one")])).await.unwrap().into_inner();
        assert_eq!(response.overall_code().as_str_name(), overall);
        assert_eq!(response.statuses[0].code().as_str_name(), code);
        assert_eq!(response.statuses[0].current_limit.as_ref().unwrap().name, "only");
        assert!((1..=2 * 31_536_000).contains(&response.statuses[0].duration_until_reset.unwrap().seconds));
    }
}

#[tokio::test]
async fn refuses() {
    let mut client = RateLimitServiceClient::new(connect(&gate(RULES)).await);
    let status = client.should_rate_limit(message(&[])).await.unwrap_err();
    let text = "rate limit descriptor list must not be empty";
    assert_eq!((status.code(), status.message()), (Code::Unknown, text));

    let huge = message(&[descriptor(&[("one", &"v".repeat(MESSAGE_BYTES_MAX))])]);
    assert_eq!(client.should_rate_limit(huge).await.unwrap_err().code(), Code::OutOfRange);

    // The connection has survived both.
    let mut binary = message(&[of("one")]);
    binary.descriptors[0].entries[0].value = vec![0xff];
    let response = client.should_rate_limit(binary).await.unwrap().into_inner();
    assert_eq!(response.overall_code().as_str_name(), "OK");
}

#[tokio::test]
async fn health_follows_the_gate() {
    let gate = gate(RULES);
    let mut client = HealthClient::new(connect(&gate).await);
    for (ready, status) in [(false, ServingStatus::NotServing), (true, ServingStatus::Serving)] {
        gate.set_ready(ready);
        for service in ["", SERVICE, "ratelimit"] {
            let health = client.check(health_of(service)).await.unwrap().into_inner();
            assert_eq!(health.status(), status, "{service}");
        }
    }
    assert_eq!(client.check(health_of("other")).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn whoever_watches_what_is_not_known_is_told_so_until_the_end() {
    let gate = gate(RULES);
    gate.set_ready(true);
    let mut client = HealthClient::new(connect(&gate).await);
    let mut watch = client.watch(health_of("other")).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::ServiceUnknown);
    gate.set_ready(false);
    let end = tokio::time::timeout(Duration::from_secs(30), watch.message());
    assert_eq!(end.await.unwrap().unwrap(), None);
}

#[tokio::test]
async fn whoever_begins_to_watch_while_the_server_stops_does_not_hold_it() {
    let gate = gate(RULES);
    gate.set_ready(true);
    gate.set_ready(false);
    let mut client = HealthClient::new(connect(&gate).await);
    for (service, status) in [(SERVICE, ServingStatus::NotServing), ("other", ServingStatus::ServiceUnknown)]
    {
        let mut watch = client.watch(health_of(service)).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status(), status);
        let end = tokio::time::timeout(Duration::from_secs(30), watch.message());
        assert_eq!(end.await.unwrap().unwrap(), None, "{service}");
    }
}

#[tokio::test]
async fn every_descriptor_may_have_a_copy_of_the_longest_header() {
    let gate = gate(RULES);
    let mut client = RateLimitServiceClient::new(connect(&gate).await);
    let header = "v".repeat(60 << 10);
    let asked = message(&vec![descriptor(&[("one", &header)]); DESCRIPTORS_MAX]);
    let response = client.should_rate_limit(asked).await.unwrap().into_inner();
    assert_eq!(response.statuses.len(), DESCRIPTORS_MAX);
}

#[tokio::test]
async fn whoever_watches_health_is_told_every_change_and_the_end() {
    let gate = gate(RULES);
    let mut client = HealthClient::new(connect(&gate).await);
    let mut watch = client.watch(health_of(SERVICE)).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    gate.set_ready(true);
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    gate.set_ready(false);
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert_eq!(watch.message().await.unwrap(), None);
}

#[tokio::test]
async fn reflection_lists_and_describes() {
    use v1::server_reflection_request::MessageRequest;
    use v1::server_reflection_response::MessageResponse;

    let mut client = v1::server_reflection_client::ServerReflectionClient::new(connect(&gate(RULES)).await);
    let ask = |message_request| v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(message_request),
    };
    let questions = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol(SERVICE.to_owned())),
        ask(MessageRequest::FileByFilename("google/protobuf/duration.proto".to_owned())),
    ];
    let answers = client.server_reflection_info(tokio_stream::iter(questions)).await.unwrap().into_inner();
    let answers: Vec<_> = answers.map(|answer| answer.unwrap().message_response.unwrap()).collect().await;
    let MessageResponse::ListServicesResponse(list) = &answers[0] else { panic!("{answers:?}") };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    assert!(names.contains(&SERVICE) && names.contains(&"grpc.health.v1.Health"), "{names:?}");
    for answer in &answers[1..] {
        assert!(matches!(answer, MessageResponse::FileDescriptorResponse(_)), "{answer:?}");
    }
}

#[tokio::test]
async fn reflection_of_the_older_version() {
    use v1alpha::server_reflection_request::MessageRequest;

    let mut client =
        v1alpha::server_reflection_client::ServerReflectionClient::new(connect(&gate(RULES)).await);
    let question = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = client.server_reflection_info(tokio_stream::once(question)).await.unwrap();
    let answer = answers.into_inner().message().await.unwrap().unwrap();
    assert!(format!("{answer:?}").contains(SERVICE), "{answer:?}");
}
