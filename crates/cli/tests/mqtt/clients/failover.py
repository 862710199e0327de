"""Clients of two brokers: when a connection ends they go on with the other address.

    failover.py publish PORTS TOPIC QOS     numbered messages, as fast as they are answered, until a line comes on standard input
    failover.py subscribe PORTS TOPIC QOS   a session that stays, until the message `end`

Both print `ready`, then `more` after every thousand messages, and at the end what happened as JSON. PORTS is `port,port` on 127.0.0.1."""

import json
import select
import sys
import time

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

WINDOW = 20
STEP = 1000
PATIENCE_S = 15
PAUSE_S = 0.02
SESSION_S = 600


class Follower:
    """A client that keeps its session and what is not answered, and connects to whoever takes it."""

    def __init__(self, name, ports):
        self.ports, self.turn, self.connections, self.name = ports, 0, [], name
        self.up, self.lost_at, self.longest_gap = False, time.monotonic(), 0.0
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5)
        self.client.max_inflight_messages_set(WINDOW)
        self.client.on_connect, self.client.on_disconnect = self._connected, self._disconnected
        self.session = Properties(PacketTypes.CONNECT)
        self.session.SessionExpiryInterval = SESSION_S
        self.dial()

    def _connected(self, _client, _data, flags, code, _properties):
        if code.is_failure:
            return
        self.up = True
        port = self.ports[self.turn % len(self.ports)]
        self.connections.append({"port": port, "session": flags.session_present})
        if len(self.connections) > 1:
            self.longest_gap = max(self.longest_gap, time.monotonic() - self.lost_at)
        self.begin()

    def _disconnected(self, *_rest):
        if self.up:
            self.lost_at = time.monotonic()
        self.up = False

    def begin(self):
        """What a client does whenever it is connected."""

    def dial(self):
        """Tries the address whose turn it is."""
        # The first connection forgets what an earlier test left; later ones want the session.
        self.client.connect_async("127.0.0.1", self.ports[self.turn % len(self.ports)], keepalive=5,
                                  clean_start=not self.connections, properties=self.session)
        try:
            self.client.reconnect()
        except OSError:
            pass

    def turn_once(self, timeout=0.05):
        """Reads and writes; goes to the other broker if this one is gone."""
        if self.client.loop(timeout) != mqtt.MQTT_ERR_SUCCESS:
            if self.up:
                self._disconnected()
            time.sleep(PAUSE_S)
            self.turn += 1
            self.dial()

    def wait(self, what, so):
        until = time.monotonic() + PATIENCE_S
        while not so():
            if time.monotonic() > until:
                sys.exit(f"{self.name}: no {what} within {PATIENCE_S} s; connections {self.connections}")
            self.turn_once()


def stopped():
    return bool(select.select([sys.stdin], [], [], 0)[0])


def publish(ports, topic, qos):
    me = Follower("publisher", ports)
    waiting, acknowledged = {}, []
    def answered(_client, _data, mid, code, _properties):
        number = waiting.pop(mid, None)
        if number is not None and not code.is_failure:
            acknowledged.append(number)
    me.client.on_publish = answered
    me.wait("connection", lambda: me.up)
    print("ready", flush=True)
    number = 0
    while not stopped():
        while len(waiting) < WINDOW and me.up:
            waiting[me.client.publish(topic, f"{number}", qos).mid] = number
            number += 1
            if number % STEP == 0:
                print("more", flush=True)
        me.turn_once()
    me.wait("answer to all", lambda: not waiting)
    end = me.client.publish(topic, "end", qos)
    me.wait("answer to the end", end.is_published)
    me.client.disconnect()
    return {"published": number, "acknowledged": len(acknowledged), "refused": sorted(set(range(number)) - set(acknowledged)),
            "connections": me.connections, "longest_gap_ms": round(me.longest_gap * 1000)}


def subscribe(ports, topic, qos):
    me = Follower("subscriber", ports)
    # The session is the broker's to keep: a subscription is made once, unless a broker says that it does not know us.
    me.begin = lambda: me.connections[-1]["session"] or me.client.subscribe(topic, qos)
    counts, state = {}, {"granted": False, "ended": False, "steps": 0}
    def came(_client, _data, message):
        text = message.payload.decode()
        state["ended"] = state["ended"] or text == "end"
        counts[text] = counts.get(text, 0) + 1
        if len(counts) % STEP == 0 and len(counts) > state["steps"]:
            state["steps"] = len(counts)
            print("more", flush=True)
    me.client.on_message = came
    me.client.on_subscribe = lambda *_rest: state.update(granted=True)
    me.wait("subscription", lambda: state["granted"])
    print("ready", flush=True)
    while not state["ended"]:
        me.turn_once()
        # Whoever started this may have given up.
        if stopped():
            break
    me.client.disconnect()
    counts.pop("end", None)
    return {"came": sorted(int(text) for text in counts), "twice": sorted(int(text) for text, times in counts.items() if times > 1),
            "connections": me.connections, "longest_gap_ms": round(me.longest_gap * 1000)}


def main():
    role, ports, topic, qos = sys.argv[1:]
    act = {"publish": publish, "subscribe": subscribe}[role]
    print(json.dumps(act([int(port) for port in ports.split(",")], topic, int(qos))), flush=True)


main()
