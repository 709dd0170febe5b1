"""A worker outlives a broker that refuses to write, as Valkey does on a full disk."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kombu import Connection, Consumer, Message, Producer, Queue
from kombu.transport import redis
from redis import Redis

from apps.config import consuming
from bin.services import Services

QUEUE = Queue("patient")


@pytest.fixture
def broker() -> Iterator[str]:
    """A separate Valkey, since the other tests share one."""
    folder = Path(tempfile.mkdtemp(prefix="takt-refusing-", dir="/tmp"))  # a short path for sockets
    folder.chmod(0o755)  # PostgreSQL may run as another account
    servers = Services(folder, durable=False)
    try:
        yield servers.acquire().redis_url
    finally:
        servers.destroy()


def refuse(client: Redis, replicas: int) -> None:
    """With one replica asked for and none there, every write is refused; reads are answered."""
    client.config_set("min-replicas-to-write", replicas)


def test_a_refused_acknowledgement_makes_way_for_the_next_message(broker: str) -> None:
    assert redis.Channel.QoS is consuming.PatientQoS
    client = Redis(unix_socket_path=broker.removeprefix("redis+socket://").partition("?")[0])
    taken: list[object] = []

    def take(body: object, message: Message) -> None:
        refuse(client, 1 if body == "first" else 0)
        message.ack()
        refuse(client, 0)
        taken.append(body)

    with Connection(broker, transport_options={"visibility_timeout": 1}) as connection:
        Producer(connection).publish("first", routing_key=QUEUE.name, declare=[QUEUE])
        Producer(connection).publish("second", routing_key=QUEUE.name)
        with Consumer(connection, [QUEUE], callbacks=[take], prefetch_count=1) as consumer:
            while len(taken) < 2:
                connection.drain_events(timeout=10)
            assert taken == ["first", "second"]
            time.sleep(1.1)  # the visibility timeout, after which a worker looks for what nobody acknowledged
            consumer.channel.qos.restore_visible(interval=1)
            while len(taken) < 3:
                connection.drain_events(timeout=10)
    assert taken == ["first", "second", "first"]
