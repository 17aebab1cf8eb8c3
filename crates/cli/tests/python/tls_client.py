"""What grpcio is answered over TLS. Called as: tls_client.py PORT FOLDER NAME TOKEN, where the folder has ca.pem and, if there is a
name, NAME.pem and NAME.key. Prints what health says and what ShouldRateLimit says, or the codes of their errors.

Messages are written by hand: reflection would need a token.
"""

import pathlib
import sys

import grpc

HEALTH = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING"}
CODES = {0: "UNKNOWN", 1: "OK", 2: "OVER_LIMIT"}

port, folder, name, token = sys.argv[1:]


def read(file):
    return (pathlib.Path(folder) / file).read_bytes() if (pathlib.Path(folder) / file).exists() else None


def field(number, value):
    return bytes([number << 3 | 2, len(value)]) + value


def call(channel, method, request, names):
    stub = channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)
    metadata = [("authorization", f"Bearer {token}")] if token else []
    try:
        response = stub(request, timeout=10, metadata=metadata)
    except grpc.RpcError as error:
        return error.code().name
    # Both answers begin with their code, as a number in field 1.
    assert response[0] == 0x08, response
    return names[response[1]]


credentials = grpc.ssl_channel_credentials(
    root_certificates=read("ca.pem"),
    private_key=read(f"{name}.key") if name else None,
    certificate_chain=read(f"{name}.pem") if name else None,
)
options = [("grpc.ssl_target_name_override", "localhost")]
with grpc.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
    entry = field(1, field(1, b"user") + field(2, b"ann"))
    request = field(1, b"envoy") + field(2, entry)
    print(
        call(channel, "/grpc.health.v1.Health/Check", b"", HEALTH),
        call(channel, "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", request, CODES),
    )
