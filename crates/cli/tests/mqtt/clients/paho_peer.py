"""A paho client that waits for what should happen, in the API of paho 1.6 and of paho 2."""

import os
import socket
import ssl
import threading
import time

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

PATIENCE_S = 10
# One for all, since some wait for what several peers have together.
CHANGED = threading.Condition()
API = 2 if hasattr(mqtt, "CallbackAPIVersion") else 1


def properties(kind, **values):
    """Properties of a packet of this kind, such as `PUBLISH`."""
    made = Properties(getattr(PacketTypes, kind))
    for name, value in values.items():
        setattr(made, name, value)
    return made


def reason(code):
    """The number of a reason code, in whatever way this paho gives it."""
    return getattr(code, "value", code)


class Peer:
    """One client. `version` is 3 or 5, `expiry` how long its session outlives the connection."""

    def __init__(self, where, name, version, expiry=0, fresh=True, will=None, connect=None):
        self.version, self.name = version, name
        self.killed = False
        self.messages, self.granted, self.removed, self.session, self.refused, self.ended = [], {}, set(), None, None, None
        more = {} if version == 5 else {"clean_session": expiry == 0}
        if API == 2:
            more["callback_api_version"] = mqtt.CallbackAPIVersion.VERSION2
        self.client = mqtt.Client(client_id=name, protocol=mqtt.MQTTv5 if version == 5 else mqtt.MQTTv311,
                                  transport="websockets" if where.get("websocket") else "tcp",
                                  reconnect_on_failure=False, **more)
        if where.get("authority"):
            self.client.tls_set(where["authority"], where.get("certificate"), where.get("key"), cert_reqs=ssl.CERT_REQUIRED)
        if will:
            self.client.will_set(**will)
        self.client.on_connect, self.client.on_disconnect = self._connected, self._disconnected
        self.client.on_message, self.client.on_subscribe = self._message, self._subscribed
        self.client.on_unsubscribe = self._unsubscribed
        more = {}
        if version == 5:
            more = {"clean_start": fresh, "properties": properties("CONNECT", SessionExpiryInterval=expiry, **(connect or {}))}
        self.client.connect("127.0.0.1", where["port"], keepalive=60, **more)
        self.client.loop_start()
        self.wait("CONNACK", lambda: self.session is not None or self.refused is not None or self.ended is not None)

    def _note(self, act):
        with CHANGED:
            act()
            CHANGED.notify_all()

    def _connected(self, _client, _data, flags, code, *_rest):
        session = flags.session_present if API == 2 else bool(flags["session present"])

        def act():
            if reason(code):
                self.refused = reason(code)
            else:
                self.session = session
        self._note(act)

    def _disconnected(self, _client, _data, *rest):
        code = rest[1] if API == 2 else rest[0]
        self._note(lambda: setattr(self, "ended", reason(code) or 0))

    def _message(self, _client, _data, message):
        self._note(lambda: self.messages.append(message))

    def _subscribed(self, _client, _data, mid, codes, *_rest):
        self._note(lambda: self.granted.__setitem__(mid, [reason(code) for code in codes]))

    def _unsubscribed(self, _client, _data, mid, *_rest):
        self._note(lambda: self.removed.add(mid))

    def wait(self, what, so):
        """Waits until something is so."""
        until = time.monotonic() + PATIENCE_S
        with CHANGED:
            while not so():
                if not CHANGED.wait(until - time.monotonic()):
                    came = [message.payload for message in self.messages]
                    raise AssertionError(f"{self.name}: no {what} within {PATIENCE_S} s; came {came}, ended {self.ended}")

    def subscribe(self, topic, qos=0, **more):
        """Subscribes; what was granted. `more`: noLocal, retainAsPublished, retainHandling; identifier."""
        if self.version == 5:
            identifier = more.pop("identifier", None)
            given = properties("SUBSCRIBE", SubscriptionIdentifier=identifier) if identifier else None
            _, mid = self.client.subscribe(topic, options=SubscribeOptions(qos=qos, **more), properties=given)
        else:
            _, mid = self.client.subscribe(topic, qos)
        self.wait(f"SUBACK for {topic}", lambda: mid in self.granted)
        return self.granted[mid][0]

    def unsubscribe(self, topic):
        """Unsubscribes and waits for the answer."""
        _, mid = self.client.unsubscribe(topic)
        self.wait(f"UNSUBACK for {topic}", lambda: mid in self.removed)

    def publish(self, topic, payload, qos=0, retain=False, **given):
        """Publishes and, but for QoS 0, waits until the broker has answered. `given`: properties."""
        given = properties("PUBLISH", **given) if given else None
        info = self.client.publish(topic, payload, qos, retain, given)
        assert info.rc == 0, f"publish to {topic}: {info.rc}"
        if qos:
            info.wait_for_publish(PATIENCE_S)
            assert info.is_published(), f"{self.name}: no answer to QoS {qos} on {topic}"

    def take(self):
        """The next message."""
        self.wait("message", lambda: self.messages)
        with CHANGED:
            return self.messages.pop(0)

    def expect(self, *payloads):
        """The next messages must have these payloads; returns them."""
        came = []
        for wanted in payloads:
            came.append(self.take())
            got = came[-1].payload.decode()
            assert got == wanted, f"{self.name}: {got!r} instead of {wanted!r}"
        return came

    def kill(self):
        """The connection ends without a farewell."""
        self.killed = True
        # Below TLS and WebSocket, which would take their leave.
        with socket.socket(fileno=os.dup(self.client.socket().fileno())) as below:
            below.shutdown(socket.SHUT_RDWR)
        self.client.loop_stop()

    def leave(self):
        """Says farewell."""
        self.client.disconnect()
        self.wait("end", lambda: self.ended is not None)
        self.client.loop_stop()
