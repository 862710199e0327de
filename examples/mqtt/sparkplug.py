#!/usr/bin/env python3
"""An edge node that speaks Sparkplug B, with payloads of sparkplug_payload.py: birth, data, and its death as a will. A second
client reads them again. BROKERS=host:port,host:port says where brokers are."""

import os
import time

import paho.mqtt.client as mqtt

from sparkplug_payload import BOOLEAN, DOUBLE, INT64, fields, metric, payload, value

BROKERS = [address.rsplit(":", 1) for address in os.environ.get("BROKERS", "127.0.0.1:1883,127.0.0.1:1884").split(",")]


def dial(name, will=None):
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=f"{name}-{os.getpid()}")
    if will:
        client.will_set("spBv1.0/plant/NDEATH/line1", will, qos=1)
    for host, port in BROKERS:
        try:
            client.connect(host, int(port))
            client.loop_start()
            return client
        except OSError as error:
            print(f"{host}:{port}: {error}", flush=True)
    raise SystemExit("no broker")


seen, ready = [], []


def show(_client, _data, message):
    metrics = [one for number, one in fields(message.payload) if number == 2]
    seen.append(message.topic.split("/")[2])
    for one in metrics:
        print(message.topic, dict(fields(one))[1].decode(), value(one), flush=True)


def wait(what, so):
    until = time.monotonic() + 20
    while not so():
        if time.monotonic() > until:
            raise SystemExit(f"no {what} within 20 s")
        time.sleep(0.01)


reader = dial("host")
reader.on_message = show
reader.on_subscribe = lambda *_rest: ready.append(True)
reader.subscribe("spBv1.0/plant/+/line1", qos=1)
wait("subscription", lambda: ready)
session = metric("bdSeq", INT64, 0)
node = dial("edge", will=payload([session]))
birth = [session, metric("Node Control/Rebirth", BOOLEAN, False), metric("temperature", DOUBLE, 21.5), metric("parts", INT64, 7)]
node.publish("spBv1.0/plant/NBIRTH/line1", payload(birth, 0), qos=0)
node.publish("spBv1.0/plant/NDATA/line1", payload([metric("temperature", DOUBLE, 21.75)], 1), qos=0)
wait("birth and data", lambda: seen == ["NBIRTH", "NDATA"])
# An end without a farewell: the broker says that the node is dead.
node.socket().shutdown(2)
wait("death", lambda: seen == ["NBIRTH", "NDATA", "NDEATH"])
reader.disconnect()
