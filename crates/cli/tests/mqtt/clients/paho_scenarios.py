"""What MQTT promises, tried with paho. Arguments: a JSON object that says where the broker is, and names of scenarios (all)."""

import json
import os
import sys
import time
import traceback

from paho_peer import API, Peer

SCENARIOS = {}


def scenario(*versions):
    """Names a function after itself and each version of MQTT that it is for."""
    def note(act):
        for version in versions:
            SCENARIOS[f"{act.__name__}-{version}"] = (act, version)
        return act
    return note


class World:
    """Where a scenario takes place: topics and clients of its own."""

    def __init__(self, where, name, version):
        self.where, self.version, self.prefix = where, version, f"paho{API}-{os.getpid()}/{name}"
        self.peers = []

    def peer(self, name, **more):
        self.peers.append(Peer(self.where, f"{self.prefix}/{name}", self.version, **more))
        return self.peers[-1]

    def topic(self, rest):
        return f"{self.prefix}/{rest}"

    def end(self):
        for peer in self.peers:
            if not peer.killed:
                peer.client.disconnect()
                peer.client.loop_stop()


@scenario(3, 5)
def qos(world):
    publisher = world.peer("publisher")
    for wanted in (0, 1, 2):
        subscriber = world.peer(f"subscriber-{wanted}")
        assert subscriber.subscribe(world.topic("+"), wanted) == wanted
        for sent in (0, 1, 2):
            texts = [f"{sent} {number}" for number in range(5)]
            for text in texts:
                publisher.publish(world.topic("t"), text, sent)
            for message in subscriber.expect(*texts):
                assert message.qos == min(sent, wanted), f"QoS {message.qos} of {sent} and {wanted}"
                assert not message.retain and message.topic == world.topic("t")
        subscriber.unsubscribe(world.topic("+"))
        subscriber.subscribe(world.topic("marker"))
        publisher.publish(world.topic("t"), "nobody's")
        publisher.publish(world.topic("marker"), "marker")
        subscriber.expect("marker")
        subscriber.leave()
    big = world.peer("big")
    big.subscribe(world.topic("big"), 1)
    text = "0123456789abcdef" * 4096
    publisher.publish(world.topic("big"), text, 1)
    big.expect(text)


@scenario(3, 5)
def retained(world):
    publisher, live = world.peer("publisher"), world.peer("live")
    live.subscribe(world.topic("#"), 1)
    publisher.publish(world.topic("kept"), "old", 1, True)
    publisher.publish(world.topic("kept"), "new", 1, True)
    for message in live.expect("old", "new"):
        assert not message.retain, "a message that is not from the store is not marked"
    late = world.peer("late")
    late.subscribe(world.topic("#"), 1)
    assert late.expect("new")[0].retain, "a message from the store is marked"
    publisher.publish(world.topic("kept"), "", 1, True)
    live.expect("")
    after = world.peer("after")
    after.subscribe(world.topic("#"), 1)
    publisher.publish(world.topic("marker"), "marker", 1)
    after.expect("marker")


@scenario(3, 5)
def will(world):
    watcher = world.peer("watcher")
    watcher.subscribe(world.topic("#"), 1)
    def dying(name, **more):
        return world.peer(name, will={"topic": world.topic(name), "payload": name, "qos": 1, **more})
    dying("killed").kill()
    watcher.expect("killed")
    dying("leaving").leave()
    dying("kept", retain=True).kill()
    assert not watcher.expect("kept")[0].retain
    late = world.peer("late")
    late.subscribe(world.topic("#"))
    assert late.expect("kept")[0].retain


@scenario(3, 5)
def session(world):
    first = world.peer("keeper", expiry=60)
    assert first.session is False
    first.subscribe(world.topic("#"), 2)
    first.leave()
    publisher = world.peer("publisher")
    texts = {1: [f"1 {number}" for number in range(30)], 2: [f"2 {number}" for number in range(30)]}
    for pair in zip(texts[1], texts[2]):
        for sent, text in zip((1, 2), pair):
            publisher.publish(world.topic("t"), text, sent)
    second = world.peer("keeper", expiry=60, fresh=False)
    assert second.session is True, "the session is still there"
    came = {1: [], 2: []}
    while sum(map(len, came.values())) < 60:
        message = second.take()
        came[message.qos].append(message.payload.decode())
    assert came == texts, f"in order and once: {came}"
    second.kill()
    publisher.publish(world.topic("t"), "while away", 1)
    third = world.peer("keeper", expiry=60, fresh=False)
    third.expect("while away")
    third.leave()
    fourth = world.peer("keeper")
    assert fourth.session is False, "a clean start forgets"
    fourth.subscribe(world.topic("marker"))
    publisher.publish(world.topic("t"), "nobody's", 1)
    publisher.publish(world.topic("marker"), "marker", 1)
    fourth.expect("marker")


@scenario(3, 5)
def shared(world):
    members = [world.peer(f"member-{number}") for number in range(2)]
    for member in members:
        member.subscribe(f"$share/group/{world.topic('t')}", 1)
    other = world.peer("other")
    other.subscribe(world.topic("t"), 1)
    publisher = world.peer("publisher")
    texts = [str(number) for number in range(60)]
    for text in texts:
        publisher.publish(world.topic("t"), text, 1)
    other.expect(*texts)
    members[0].wait("share", lambda: sum(len(member.messages) for member in members) >= len(texts))
    parts = [[message.payload.decode() for message in member.messages] for member in members]
    assert sorted(parts[0] + parts[1], key=int) == texts, f"each message goes to one member: {parts}"
    assert all(parts), "both get some"
    members[0].leave()
    publisher.publish(world.topic("t"), "rest", 1)
    members[1].wait("message for who is left", lambda: members[1].messages[-1].payload == b"rest")


@scenario(3, 5)
def takeover(world):
    first = world.peer("one")
    second = world.peer("one")
    first.wait("end of the first connection", lambda: first.ended is not None)
    # Why it ended is looked at in other clients: paho does not read a reason that comes without properties.
    second.subscribe(world.topic("t"), 1)
    second.publish(world.topic("t"), "still here", 1)
    second.expect("still here")


@scenario(5)
def properties(world):
    subscriber, publisher = world.peer("subscriber"), world.peer("publisher")
    subscriber.subscribe(world.topic("t"), 1)
    pairs = [("unit", "K"), ("unit", "again"), ("ä", "ö")]
    publisher.publish(world.topic("t"), "21.5", 1, UserProperty=pairs, ResponseTopic="answers/1", CorrelationData=b"\x00\xff\x01",
                      ContentType="text/plain", PayloadFormatIndicator=1, MessageExpiryInterval=60)
    got = subscriber.expect("21.5")[0].properties
    assert got.UserProperty == pairs, got.UserProperty
    assert (got.ResponseTopic, got.CorrelationData, got.ContentType, got.PayloadFormatIndicator) == (
        "answers/1", b"\x00\xff\x01", "text/plain", 1), got
    assert 0 < got.MessageExpiryInterval <= 60, got.MessageExpiryInterval
    publisher.publish(world.topic("t"), "kept", 1, True, UserProperty=pairs, ContentType="a/b")
    subscriber.expect("kept")
    late = world.peer("late")
    late.subscribe(world.topic("t"), 1)
    got = late.expect("kept")[0].properties
    assert got.UserProperty == pairs and got.ContentType == "a/b", got


@scenario(5)
def expiry(world):
    away = world.peer("away", expiry=60)
    away.subscribe(world.topic("#"), 1)
    away.leave()
    publisher = world.peer("publisher")
    publisher.publish(world.topic("t"), "short", 1, MessageExpiryInterval=1)
    publisher.publish(world.topic("t"), "long", 1, MessageExpiryInterval=60)
    # An interval that must pass, in whole seconds of the broker's clock.
    time.sleep(2.1)
    back = world.peer("away", expiry=60, fresh=False)
    left = back.expect("long")[0].properties.MessageExpiryInterval
    assert 1 <= left <= 58, f"{left} s are left of 60"


@scenario(5)
def options(world):
    one, other = world.peer("one"), world.peer("other")
    one.subscribe(world.topic("local/#"), 1, noLocal=True)
    one.publish(world.topic("local/t"), "own", 1)
    other.publish(world.topic("local/t"), "other's", 1)
    one.expect("other's")
    one.subscribe(world.topic("plain"), 1)
    one.subscribe(world.topic("marked"), 1, retainAsPublished=True)
    for topic, flag in (("plain", False), ("marked", True)):
        other.publish(world.topic(topic), topic, 1, True)
        assert one.expect(topic)[0].retain == flag
    # 0: always, 1: only for a new subscription, 2: never.
    for handling, first, second in ((0, True, True), (1, True, False), (2, False, False)):
        peer = world.peer(f"handling-{handling}")
        peer.subscribe(world.topic("marker"), 1)
        for expected in (first, second):
            peer.subscribe(world.topic("plain"), 1, retainHandling=handling)
            other.publish(world.topic("marker"), "marker", 1)
            peer.expect(*(["plain", "marker"] if expected else ["marker"]))


@scenario(5)
def identifiers(world):
    subscriber, publisher = world.peer("subscriber"), world.peer("publisher")
    subscriber.subscribe(world.topic("a/+"), 1, identifier=1)
    subscriber.subscribe(world.topic("+/b"), 1, identifier=268_435_455)
    publisher.publish(world.topic("a/c"), "one", 1)
    assert subscriber.expect("one")[0].properties.SubscriptionIdentifier == [1]
    publisher.publish(world.topic("a/b"), "both", 1)
    publisher.publish(world.topic("a/c"), "marker", 1)
    found = []
    while (message := subscriber.take()).payload != b"marker":
        found += message.properties.SubscriptionIdentifier
    assert sorted(found) == [1, 268_435_455], f"of one message or of two: {found}"


@scenario(5)
def aliases(world):
    subscriber, publisher = world.peer("subscriber"), world.peer("publisher")
    subscriber.subscribe(world.topic("#"), 1)
    publisher.publish(world.topic("one"), "1", 1, TopicAlias=1)
    publisher.publish(world.topic("two"), "2", 1, TopicAlias=2)
    publisher.publish("", "3", 1, TopicAlias=1)
    publisher.publish("", "4", 0, TopicAlias=2)
    publisher.publish(world.topic("three"), "5", 1, TopicAlias=1)
    publisher.publish("", "6", 2, TopicAlias=1)
    topics = [message.topic.rsplit("/", 1)[1] for message in subscriber.expect("1", "2", "3", "4", "5", "6")]
    assert topics == ["one", "two", "one", "two", "three", "three"], topics


@scenario(5)
def will_delay(world):
    watcher = world.peer("watcher")
    watcher.subscribe(world.topic("#"), 1)
    from paho_peer import properties as made
    def dying(name):
        given = made("WILLMESSAGE", WillDelayInterval=1, UserProperty=[("why", "dead")], ContentType="a/b")
        return world.peer(name, expiry=30, fresh=False,
                          will={"topic": world.topic(name), "payload": name, "qos": 1, "properties": given})
    dying("back").kill()
    again = dying("back")
    killed_at = time.monotonic()
    dying("gone").kill()
    message = watcher.expect("gone")[0]
    assert time.monotonic() - killed_at >= 1, "the delay has not passed"
    assert message.properties.UserProperty == [("why", "dead")] and message.properties.ContentType == "a/b"
    again.leave()


def main():
    where = json.loads(sys.argv[1])
    failed = 0
    for name in sys.argv[2:] or SCENARIOS:
        act, version = SCENARIOS[name]
        world = World(where, name, version)
        try:
            act(world)
            print(f"ok {name}", flush=True)
        except Exception as problem:
            failed += 1
            print(f"FAILED {name}: {problem}", flush=True)
            traceback.print_exc()
        finally:
            world.end()
    sys.exit(1 if failed else 0)


main()
