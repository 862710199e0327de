#!/usr/bin/env python3
"""What `verge-bench-peers crash` is for Verge, for brokers whose official clients find a broker again by themselves: JetStream by
nats-py, MQTT by paho. Prints `ready` and the name of the leader, and what came as JSON at the end."""

import argparse
import asyncio
import json
import struct
import sys
import threading
import time

HEAD = struct.Struct("<QII")
PAYLOAD_BYTES = 64
RETRY_SECONDS = 0.01
# Between two attempts to publish a message while there is no leader.
REPEAT_SECONDS = 0.02
ANSWER_SECONDS = 0.25


def plan(arguments, begin_ns):
    """Topic, number, when it is due; one topic after the other, evenly over the period."""
    period_ns = int(arguments.period_ms * 1e6)
    number = 0
    while (due_ns := begin_ns + number * period_ns // arguments.topics) < begin_ns + int(arguments.seconds * 1e9):
        yield number % arguments.topics, number // arguments.topics, due_ns
        number += 1


def payload(topic, seq, due_ns):
    return HEAD.pack(due_ns, topic, seq) + bytes(PAYLOAD_BYTES - HEAD.size)


async def jetstream(arguments):
    import nats
    from nats.js.api import ConsumerConfig, DeliverPolicy, StorageType

    async def silent(_):
        pass

    async def open_one(name):
        return await nats.connect(arguments.brokers.split(","), name=name, reconnect_time_wait=RETRY_SECONDS, max_reconnect_attempts=-1,
                                  connect_timeout=1, ping_interval=1, max_outstanding_pings=2, error_cb=silent)

    came, sent = [], [0] * arguments.topics
    publisher, subscriber = await open_one("publisher"), await open_one("subscriber")
    stream, listener = publisher.jetstream(timeout=5), subscriber.jetstream(timeout=5)
    storage = {"file": StorageType.FILE, "memory": StorageType.MEMORY}[arguments.storage]
    for attempt in range(100):
        # The cluster elects who keeps its books first.
        try:
            await stream.add_stream(name="crash", subjects=["c0.*"], num_replicas=3, storage=storage)
            break
        except Exception as error:
            if attempt == 99:
                sys.exit(f"no stream: {error}")
            await asyncio.sleep(0.2)

    async def take(message):
        due_ns, topic, seq = HEAD.unpack_from(message.data)
        came.append((topic, seq, due_ns, time.monotonic_ns()))

    await listener.subscribe("c0.*", durable="crash", cb=take, config=ConsumerConfig(deliver_policy=DeliverPolicy.ALL, ack_wait=0.5))

    async def publish(topic):
        """One message of a topic after the other, each until it is answered."""
        while True:
            seq, due_ns = await waiting[topic].get()
            data, headers = payload(topic, seq, due_ns), {"Nats-Msg-Id": f"{topic}-{seq}"}
            while True:
                try:
                    answer = await stream.publish(f"c0.{topic}", data, timeout=ANSWER_SECONDS, headers=headers)
                    answered["repeated" if answer.duplicate else "stored"] += 1
                    break
                except Exception as error:
                    answered[type(error).__name__] = answered.get(type(error).__name__, 0) + 1
                    await asyncio.sleep(REPEAT_SECONDS)

    answered = {"stored": 0, "repeated": 0}
    waiting = [asyncio.Queue() for _ in sent]
    publishers = [asyncio.create_task(publish(topic)) for topic in range(arguments.topics)]
    leader = (await stream.stream_info("crash")).cluster.leader
    begin_ns = time.monotonic_ns() + 50_000_000
    until_ns = begin_ns + int((arguments.seconds + arguments.settle) * 1e9)
    print(f"ready {leader}", flush=True)
    for topic, seq, due_ns in plan(arguments, begin_ns):
        await asyncio.sleep(max(due_ns - time.monotonic_ns(), 0) / 1e9)
        waiting[topic].put_nowait((seq, due_ns))
        sent[topic] += 1
    while time.monotonic_ns() < until_ns and len({row[:2] for row in came}) < sum(sent):
        await asyncio.sleep(0.05)
    for task in publishers:
        task.cancel()
    try:
        answered["in the stream"] = (await stream.stream_info("crash")).state.messages
    except Exception as error:
        answered["no stream"] = str(error)
    print(json.dumps({"sent": sent, "came": came, "troubles": [], "publisher": answered}), flush=True)


def mqtt(arguments):
    import paho.mqtt.client as paho

    host, port = arguments.brokers.rsplit(":", 1)
    came, sent, agreed = [], [0] * arguments.topics, threading.Event()

    def open_one(name):
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
        client.reconnect_delay_set(RETRY_SECONDS, RETRY_SECONDS)
        client.max_inflight_messages_set(1000)
        client.connect(host, int(port), keepalive=5)
        return client

    def take(client, data, message):
        due_ns, topic, seq = HEAD.unpack_from(message.payload)
        came.append((topic, seq, due_ns, time.monotonic_ns()))

    subscriber, publisher = open_one("subscriber"), open_one("publisher")
    subscriber.on_message = take
    subscriber.on_subscribe = lambda *rest: agreed.set()
    subscriber.loop_start()
    publisher.loop_start()
    subscriber.subscribe("c0/+", 1)
    if not agreed.wait(10):
        sys.exit("the broker does not answer a subscription")
    # The session is on disk by now.
    time.sleep(arguments.rest)
    begin_ns = time.monotonic_ns() + 50_000_000
    print("ready -", flush=True)
    for topic, seq, due_ns in plan(arguments, begin_ns):
        time.sleep(max(due_ns - time.monotonic_ns(), 0) / 1e9)
        publisher.publish(f"c0/{topic}", payload(topic, seq, due_ns), 1)
        sent[topic] += 1
    until_ns = time.monotonic_ns() + int(arguments.settle * 1e9)
    while time.monotonic_ns() < until_ns and len({row[:2] for row in list(came)}) < sum(sent):
        time.sleep(0.05)
    print(json.dumps({"sent": sent, "came": list(came), "troubles": []}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["jetstream", "mqtt"])
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--topics", type=int, default=10)
    parser.add_argument("--period-ms", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--settle", type=float, default=10)
    parser.add_argument("--rest", type=float, default=2)
    parser.add_argument("--storage", choices=["file", "memory"], default="file")
    arguments = parser.parse_args()
    if arguments.kind == "jetstream":
        asyncio.run(jetstream(arguments))
    else:
        mqtt(arguments)
    # Connections end with the process; the brokers are ended by who started them.
    sys.stdout.flush()


if __name__ == "__main__":
    main()
