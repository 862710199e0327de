"""Every refusal that a call from Python can meet, at a lane with the keys of the tests, and at one of a node that lacks something."""

import contextlib
import sys
import time

import verge_kv
from verge_kv import Error, Full, Lane, Late, Nothing, Unknown


@contextlib.contextmanager
def refused(kind, words):
    try:
        yield
    except Error as error:
        assert type(error) is kind and words in str(error), repr(error)
    else:
        raise AssertionError(f"not refused: {words}")


def written(write, read, key, value):
    """Writes until it can be read: on a machine that has no time, a node may come to it when it is too late for it."""
    for _ in range(50):
        publishing = soon()
        with contextlib.suppress(Full, Late):
            write(key, value, publishing)
        while verge_kv.now() < publishing + 5 * lane.period:
            time.sleep(0.001)
            if verge_kv.now() >= publishing:
                with contextlib.suppress(Nothing, verge_kv.Gone, verge_kv.Stale):
                    return read(key, publishing)
    raise AssertionError("nothing that was written could be read")


socket, lacking = sys.argv[1:]
with refused(Error, "/nonexistent/kv.sock"):
    Lane("/nonexistent/kv.sock")
with refused(Error, "30 of the lane's 30 tuples"):
    Lane(socket, tuples=31)
with Lane(socket, tuples=2, name="refusals") as lane:
    a, theirs, mine = lane.key("a"), lane.key("theirs"), lane.key("mine")
    with refused(Error, "key `b` is not configured"):
        lane.key("b")
    with refused(Nothing, "key `a`: nothing has been published"):
        lane.read(a)
    while not lane.alive():
        time.sleep(0.001)
    soon = lambda: verge_kv.now() + 5 * lane.period
    with refused(Late, "key `a`: the publishing time was"):
        lane.write(a, b"v", 1)
    with refused(Error, "`writers`"):
        lane.write(theirs, b"v", soon())
    with refused(Error, "key `mine`"):
        lane.write_f64(mine, 0.5, soon())
    with refused(Full, "2 tuples wait"):
        while True:
            lane.write(a, b"a\0b", soon())
    value = written(lane.write, lane.read, a, b"a\0b")
    assert value.value == b"a\0b" and value.stamp <= verge_kv.now()
    with refused(verge_kv.Stale, "older than the freshness"):
        lane.read(a, verge_kv.now())
    publishing, number = written(lane.write_i64, lane.read_i64, mine, -7)
    assert number == -7
    assert lane.nodes == ["only", "other"] and not lane.alarm()
    assert lane.read_vector(mine, publishing) == (publishing, {"only": (-7).to_bytes(8, "little", signed=True)})
    try:
        lane.every(lane.period + 1, lambda job: False)
        raise AssertionError("not refused")
    except ValueError as error:
        assert "whole multiple" in str(error)
    # An error in a task ends the loop, and is the caller's.
    try:
        lane.every(lane.period, lambda job: 1 / 0)
        raise AssertionError("not raised")
    except ZeroDivisionError:
        pass
with refused(Error, "the lane is closed"):
    lane.read(a)
with Lane(lacking) as lane:
    while not lane.alive():
        time.sleep(0.001)
    with refused(Unknown, "this node has missed a job"):
        lane.read(lane.key("a"))
    with refused(Unknown, "this node does not know"):
        lane.write(lane.key("a"), b"v", soon())
with Lane(lacking, fail_safe=True) as lane:
    assert lane.alarm()
    for read in lane.read, lane.read_f64, lane.read_vector:
        with refused(verge_kv.Alarm, "can be trusted"):
            read(lane.key("pendulum/angle"))
print("all is as it should be")
