#!/usr/bin/env python3
"""The least client of MQTT 3.1.1: `mqtt.py publish HOST:PORT TOPIC PERIOD_MS` publishes until its input ends, `mqtt.py subscribe HOST:PORT TOPIC` until a
message comes. Each says as JSON when it began to (`began_ns`), and who subscribes when the first message came (`came_ns`), by the monotonic clock."""

import json
import select
import socket
import struct
import sys
import time

PATIENCE = 30


def text(value):
    return struct.pack(">H", len(value)) + value.encode()


def packet(first, body):
    assert len(body) < 128
    return bytes([first, len(body)]) + body


def connect(address):
    host, port = address.rsplit(":", 1)
    stream = socket.create_connection((host, int(port)), PATIENCE)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.sendall(packet(0x10, text("MQTT") + bytes([4, 2]) + struct.pack(">H", 0) + text("")))
    if stream.recv(4)[3:] != b"\0":
        sys.exit("the broker refuses")
    return stream


def say(**words):
    print(json.dumps(words), flush=True)


def publish(stream, topic, period_ms):
    say(began_ns=time.monotonic_ns())
    while True:
        stream.sendall(packet(0x30, text(topic) + b"1"))
        if select.select([sys.stdin], [], [], period_ms / 1e3)[0]:
            return


def subscribe(stream, topic):
    say(began_ns=time.monotonic_ns())
    stream.sendall(packet(0x82, struct.pack(">H", 1) + text(topic) + b"\0"))
    while True:
        got = stream.recv(1)
        if not got:
            sys.exit("the broker has closed")
        if got[0] >> 4 == 3:
            say(came_ns=time.monotonic_ns())
            return
        stream.recv(stream.recv(1)[0])


def main():
    act, address, topic, *more = sys.argv[1:]
    stream = connect(address)
    publish(stream, topic, float(more[0])) if act == "publish" else subscribe(stream, topic)


if __name__ == "__main__":
    main()
