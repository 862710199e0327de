#!/usr/bin/env python3
"""paho-mqtt 2 with two brokers: when one is gone, the client goes on with the other and sends again what was not answered.
BROKERS=host:port,host:port says where they are."""

import os
import time

import paho.mqtt.client as mqtt

BROKERS = [address.rsplit(":", 1) for address in os.environ.get("BROKERS", "127.0.0.1:1883,127.0.0.1:1884").split(",")]
MESSAGES = int(os.environ.get("MESSAGES", "5"))

came, answered = [], set()


def connected(client, _data, flags, code, _properties):
    print("connected, " + ("the session is there" if flags.session_present else "a new session"), flush=True)
    # The broker keeps the subscription with the session.
    if not flags.session_present:
        client.subscribe("plant/+/temperature", qos=1)


def subscribed(client, *_rest):
    for number in range(MESSAGES):
        client.publish("plant/line1/temperature", f"21.{number}", qos=1)


def message(_client, _data, message):
    print(message.topic, message.payload.decode(), flush=True)
    came.append(message.payload)


# With a session that stays, paho keeps what is not answered, and the broker what has not been taken.
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=f"paho-example-{os.getpid()}", clean_session=False)
client.on_connect, client.on_subscribe, client.on_message = connected, subscribed, message
client.on_publish = lambda _client, _data, mid, *_rest: answered.add(mid)

turn, until = 0, time.monotonic() + 30
running = mqtt.MQTT_ERR_NO_CONN
while (len(answered) < MESSAGES or len(set(came)) < MESSAGES) and time.monotonic() < until:
    if running != mqtt.MQTT_ERR_SUCCESS:
        host, port = BROKERS[turn % len(BROKERS)]
        turn += 1
        try:
            client.connect(host, int(port), keepalive=5)
        except OSError as error:
            print(f"{host}:{port}: {error}", flush=True)
            time.sleep(0.1)
            continue
    running = client.loop(0.1)
client.disconnect()
raise SystemExit(0 if len(answered) == MESSAGES and len(set(came)) == MESSAGES else "not everything came within 30 s")
