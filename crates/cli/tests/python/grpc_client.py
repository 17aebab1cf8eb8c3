"""What grpcio makes of the gRPC listener. Called as: grpc_client.py PORT PID PART; prints "fine" if that part holds.
The part "ask" takes a list of requests, as JSON, and prints the answers. The part "repeat" takes one request and its metadata, and prints
the code of the answer or of the error, and whether the server says that it was a repeat.

There are no generated stubs: all messages are made from what the server's reflection says about itself.
"""

import concurrent.futures
import json
import os
import pathlib
import signal
import sys
import time

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

RATE_LIMITS = "envoy.service.ratelimit.v3.RateLimitService"
HEALTH = "grpc.health.v1.Health"
HOUR = 3600
UINT32_MAX = 4294967295


class Server:
    def __init__(self, port, pid):
        self.pid = pid
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.reflection = ProtoReflectionDescriptorDatabase(self.channel)
        self.pool = descriptor_pool.DescriptorPool(self.reflection)

    def call(self, service, method, request, timeout=10, metadata=None, with_call=False):
        """A call of one request, made from a dictionary, and one response."""
        kind = self.pool.FindServiceByName(service).FindMethodByName(method)
        request_class, response_class = (
            message_factory.GetMessageClass(message) for message in (kind.input_type, kind.output_type)
        )
        shape = self.channel.unary_stream if kind.server_streaming else self.channel.unary_unary
        stub = shape(
            f"/{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response_class.FromString,
        )
        call = stub.with_call if with_call else stub
        return call(json_format.ParseDict(request, request_class()), timeout=timeout, metadata=metadata)

    def ask(self, *descriptors, domain="d", timeout=10, **more):
        request = {"domain": domain, "descriptors": list(descriptors), **more}
        return self.call(RATE_LIMITS, "ShouldRateLimit", request, timeout)


def entry(key, value="x", **more):
    return {"entries": [{"key": key, "value": value}], **more}


def code(response):
    return response.DESCRIPTOR.fields_by_name["overall_code"].enum_type.values_by_number[response.overall_code].name


def told(response, index=0):
    """A status as (code, limit, remaining, whether it says when to come back)."""
    status = response.statuses[index]
    codes = status.DESCRIPTOR.fields_by_name["code"].enum_type.values_by_number
    limit = status.current_limit.requests_per_unit if status.HasField("current_limit") else None
    has_reset = status.HasField("duration_until_reset")
    if has_reset:
        assert status.duration_until_reset.seconds >= 1, status
    return codes[status.code].name, limit, status.limit_remaining, has_reset


def refusal(call):
    """The code and the text of an error."""
    try:
        call()
    except grpc.RpcError as error:
        return error.code(), error.details()
    raise AssertionError("answered, not refused")


def answers(server):
    # No match: a domain, a key, a deeper descriptor.
    for response in (
        server.ask(entry("ten"), domain="unknown"),
        server.ask(entry("unknown")),
        server.ask({"entries": [{"key": "ten", "value": "x"}, {"key": "more", "value": "y"}]}),
    ):
        assert (code(response), told(response)) == ("OK", ("OK", None, 0, False)), response
    # Replaced: the replacing one counts, the other is as if it were not there.
    response = server.ask(entry("replaced"), entry("replacing"))
    assert code(response) == "OK", response
    assert [told(response, index) for index in (0, 1)] == [("OK", None, 0, False), ("OK", 5, 4, True)], response
    assert code(server.ask(entry("replaced"))) == "OVER_LIMIT", "alone it counts"
    # Unlimited.
    response = server.ask(entry("unlimited"))
    assert (code(response), told(response)) == ("OK", ("OK", None, UINT32_MAX, False)), response
    # Under, exactly used up, and over.
    response = server.ask(entry("one"))
    assert (code(response), told(response)) == ("OK", ("OK", 1, 0, True)), response
    response = server.ask(entry("one"))
    assert (code(response), told(response)) == ("OVER_LIMIT", ("OVER_LIMIT", 1, 0, True)), response
    response = server.ask(entry("one", "other"))
    assert told(response) == ("OK", 1, 0, True), "another value has a counter of its own"
    response = server.ask(entry("blocked"))
    assert (code(response), told(response)) == ("OVER_LIMIT", ("OVER_LIMIT", 0, 0, True)), response
    # Over, in shadow.
    assert told(server.ask(entry("shadow"))) == ("OK", 1, 0, True)
    response = server.ask(entry("shadow"))
    assert (code(response), told(response)) == ("OK", ("OK", 1, 0, True)), response
    # One status per descriptor, in order, and one that is over is enough.
    response = server.ask(entry("ten"), entry("unknown"), entry("one"), entry("unlimited"))
    assert code(response) == "OVER_LIMIT" and len(response.statuses) == 4, response
    codes = [told(response, index)[0] for index in range(4)]
    assert codes == ["OK", "OK", "OVER_LIMIT", "OK"], response
    response = server.ask(entry("ten"))
    assert told(response) == ("OK", 10, 9, True), "who was denied has taken nothing"
    assert response.statuses[0].current_limit.name == "ten-an-hour", response
    # Quotas: over only when all are.
    quotas = entry("quota-a"), entry("quota-b")
    assert [code(server.ask(*quotas)) for _ in range(4)] == ["OK", "OK", "OVER_LIMIT", "OVER_LIMIT"]


def units(server):
    for name in ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"):
        limit = server.ask(entry("unit", name.lower())).statuses[0].current_limit
        unit = limit.DESCRIPTOR.fields_by_name["unit"].enum_type.values_by_number[limit.unit].name
        assert unit == name, (unit, name)


def costs(server):
    def remaining(*descriptors, **more):
        return told(server.ask(*descriptors, **more))[2]

    assert remaining(entry("ten"), hits_addend=4) == 6
    assert remaining(entry("ten"), hits_addend=0) == 5, "none means one"
    assert code(server.ask(entry("ten"), hits_addend=6)) == "OVER_LIMIT"
    assert remaining(entry("ten", hits_addend=0)) == 5, "what was denied took nothing, and a peek takes nothing"
    assert remaining(entry("ten", hits_addend=2), hits_addend=100) == 3, "a descriptor's own cost wins"
    assert remaining(entry("ten", hits_addend=1, is_negative_hits=True)) == 4
    assert remaining(entry("ten", hits_addend=100, is_negative_hits=True)) == 10, "never above full"
    # A limit that comes with the request has counters of its own.
    own = {"requests_per_unit": 2, "unit": "HOUR"}
    codes = [code(server.ask(entry("ten", limit=own))) for _ in range(3)]
    assert codes == ["OK", "OK", "OVER_LIMIT"], codes
    assert remaining(entry("ten", hits_addend=0)) == 10


def denials(server):
    allowed = server.ask(entry("one"))
    denied = server.ask(entry("one"))
    headers = [{header.key: header.value for header in response.response_headers_to_add} for response in (allowed, denied)]
    assert sorted(headers[0]) == ["ratelimit", "ratelimit-policy"], headers
    assert sorted(headers[1]) == ["content-type", "ratelimit", "ratelimit-policy", "retry-after"], headers
    assert 1 <= int(headers[1]["retry-after"]) <= 2 * HOUR, headers
    assert headers[1]["content-type"] == "application/json", headers
    assert not allowed.raw_body and json.loads(denied.raw_body)["code"] == "rate_limited", denied
    assert not denied.HasField("dynamic_metadata"), "only if it was asked for"


def errors(server):
    unknown, bad = grpc.StatusCode.UNKNOWN, grpc.StatusCode.INVALID_ARGUMENT
    assert refusal(lambda: server.ask(entry("ten"), domain="")) == (unknown, "rate limit domain must not be empty")
    assert refusal(lambda: server.ask()) == (unknown, "rate limit descriptor list must not be empty")
    no_unit = entry("ten", limit={"requests_per_unit": 2, "unit": "UNKNOWN"})
    got, text = refusal(lambda: server.ask(no_unit))
    assert got == unknown and "unit" in text, (got, text)
    many = [entry("ten", str(index)) for index in range(129)]
    assert refusal(lambda: server.ask(*many))[0] == bad
    assert refusal(lambda: server.ask({"entries": [{"key": "ten", "value": "x"}] * 33}))[0] == bad
    # More than any proxy makes of a request's headers.
    assert refusal(lambda: server.ask(entry("ten", "x" * (32 << 20))))[0] == grpc.StatusCode.OUT_OF_RANGE
    # Nothing of that has counted, and the connection is as good as new.
    assert told(server.ask(entry("ten", hits_addend=0)))[2] == 10
    assert server.ask(entry("ten", "x" * 500_000)).statuses[0].limit_remaining == 9, "long values are no error"


def parallel(server):
    def send(_):
        return [code(server.ask(entry("many"))) for _ in range(20)]

    server.ask(entry("unknown"))  # all descriptors are there before threads need them
    with concurrent.futures.ThreadPoolExecutor(50) as senders:
        codes = [code for codes in senders.map(send, range(50)) for code in codes]
    assert (codes.count("OK"), codes.count("OVER_LIMIT")) == (300, 700), len(codes)


def is_frozen(pid):
    """Threads stop one after the other, and until then may answer."""
    stats = [stat.read_text() for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.rsplit(") ", 1)[1].startswith("T") for stat in stats)


def deadline(server):
    assert code(server.ask(entry("ten"))) == "OK"
    os.kill(server.pid, signal.SIGSTOP)
    try:
        while not is_frozen(server.pid):
            time.sleep(0.01)
        assert refusal(lambda: server.ask(entry("ten"), timeout=0.2))[0] == grpc.StatusCode.DEADLINE_EXCEEDED
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert code(server.ask(entry("ten"))) == "OK"


def health_status(server, service=""):
    response = server.call(HEALTH, "Check", {"service": service})
    return status_name(response)


def status_name(response):
    return response.DESCRIPTOR.fields_by_name["status"].enum_type.values_by_number[response.status].name


def health(server):
    for service in ("", RATE_LIMITS, "ratelimit"):
        assert health_status(server, service) == "SERVING", service
    assert refusal(lambda: health_status(server, "nobody"))[0] == grpc.StatusCode.NOT_FOUND
    services = set(server.reflection.get_services())
    assert {RATE_LIMITS, HEALTH} <= services, services


def draining(server):
    watch = server.call(HEALTH, "Watch", {"service": ""}, timeout=30)
    assert status_name(next(watch)) == "SERVING"
    os.kill(server.pid, signal.SIGTERM)
    assert status_name(next(watch)) == "NOT_SERVING"
    assert health_status(server) == "NOT_SERVING"
    assert code(server.ask(entry("ten"))) == "OK", "until load balancers have noticed, it goes on"


def ask(server):
    """Asks what it is told to, one after the other, and prints an answer a line."""
    for request in json.loads(sys.argv[4]):
        response = server.call(RATE_LIMITS, "ShouldRateLimit", request)
        print(json.dumps(json_format.MessageToDict(response)))


def repeat(server):
    asked = json.loads(sys.argv[4])
    metadata = tuple(asked["metadata"].items())
    try:
        answer, call = server.call(RATE_LIMITS, "ShouldRateLimit", asked["request"], metadata=metadata, with_call=True)
    except grpc.RpcError as error:
        print(json.dumps([error.code().name, None]))
        return
    print(json.dumps([code(answer), dict(call.initial_metadata()).get("tollgate-repeated")]))


PARTS = (answers, units, costs, denials, errors, parallel, deadline, health, draining)

port, pid, part = sys.argv[1:4]
if part in ("ask", "repeat"):
    {"ask": ask, "repeat": repeat}[part](Server(port, int(pid)))
else:
    {part.__name__: part for part in PARTS}[part](Server(port, int(pid)))
    print("fine")
