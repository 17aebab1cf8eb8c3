"""What redis-py makes of the RESP listener. Called as: redis_client.py PORT PART; prints "fine" if that part holds.

A day is the period wherever a count has to be exact: nothing comes back while a test runs.
"""

import sys
import threading

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

DAY = 86400


def client(port, **options):
    return redis.Redis(host="127.0.0.1", port=port, socket_timeout=10, **options)


def commands(connection):
    """What every version of the protocol must be able to do."""
    assert connection.ping() is True
    assert connection.execute_command("ECHO", "hello") == b"hello"
    assert connection.execute_command("CL.THROTTLE", "ann", 15, 30, 60) == [0, 16, 15, -1, 2]
    first = connection.execute_command("TG.CHECK", "three-an-hour", "ann")
    assert first[:3] == [1, 3, 2], first
    # Costs are part of the call.
    assert connection.execute_command("TG.CHECK", "three-an-hour", "ann", 2)[:3] == [1, 3, 0]
    denied = connection.execute_command("TG.CHECK", "three-an-hour", "ann")
    assert denied[:3] == [0, 3, 0] and denied[3] > 0, denied
    try:
        connection.execute_command("TG.CHECK", "no-such", "ann")
        raise AssertionError("an unknown policy was answered")
    except redis.ResponseError as error:
        assert "unknown policy" in str(error), error
    assert "redis_version" in connection.info(), connection.info()


def version_2(port):
    commands(client(port, protocol=2))


def version_3(port):
    connection = client(port, protocol=3)
    commands(connection)
    hello = connection.execute_command("HELLO", 3)
    assert hello[b"proto"] == 3, hello


def pipeline(port):
    connection = client(port)
    batch = connection.pipeline(transaction=False)
    for _ in range(500):
        batch.execute_command("CL.THROTTLE", "batch", 99, 1, DAY)
    answers = batch.execute()
    assert [answer[0] for answer in answers] == [0] * 100 + [1] * 400, "in order, and exactly a hundred pass"
    assert [answer[2] for answer in answers[:100]] == list(range(99, -1, -1))
    # An error in the middle concerns one command.
    for words in (["PING"], ["CL.THROTTLE", "batch"], ["PING"]):
        batch.execute_command(*words)
    answers = batch.execute(raise_on_error=False)
    assert isinstance(answers[1], redis.ResponseError) and [answers[0], answers[2]] == [True, True], answers


def threads(port):
    pool = redis.ConnectionPool(host="127.0.0.1", port=port, max_connections=8, socket_timeout=10)
    passed, lock = [], threading.Lock()

    def send():
        connection = redis.Redis(connection_pool=pool)
        count = sum(connection.execute_command("CL.THROTTLE", "shared", 299, 1, DAY)[0] == 0 for _ in range(100))
        with lock:
            passed.append(count)

    senders = [threading.Thread(target=send) for _ in range(8)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert len(passed) == 8 and sum(passed) == 300, passed


def auth(port):
    """As Redis without a password: the default user may say any with its name, others and a mere password are refused."""
    once = Retry(NoBackoff(), 0)
    for protocol, user, complaint in (
        (2, None, "without any password configured"),
        (2, "somebody", "invalid username-password pair"),
        (3, "somebody", "invalid username-password pair"),
    ):
        try:
            client(port, protocol=protocol, username=user, password="secret", retry=once).ping()
            raise AssertionError(f"version {protocol}, user {user}: accepted")
        except redis.AuthenticationError as error:
            assert complaint in str(error), error
    for protocol in (2, 3):
        assert client(port, protocol=protocol, username="default", password="secret", retry=once).ping() is True


def bytes_as_keys(port):
    connection = client(port)
    keys = [b"\xff\x00\xfe", b"\xff\x00\xfd", b"", b"\r\n", "\u00fc".encode(), "\u00fc".encode("latin-1"), b"k" * 100_000]
    for limited in (0, 1):
        answers = [connection.execute_command("CL.THROTTLE", key, 0, 1, DAY)[0] for key in keys]
        assert answers == [limited] * len(keys), (limited, answers)


PARTS = {
    "version_2": version_2,
    "version_3": version_3,
    "pipeline": pipeline,
    "threads": threads,
    "auth": auth,
    "bytes": bytes_as_keys,
}

PARTS[sys.argv[2]](int(sys.argv[1]))
print("fine")
