"""Payloads of Sparkplug B, made and read by hand: as much of protobuf as they need."""

import struct
import time

INT64, DOUBLE, BOOLEAN = 4, 10, 11
# Whole numbers with a sign: by type, how many bits they have.
SIGNED = {1: 8, 2: 16, 3: 32, 4: 64}


def varint(value):
    head = b""
    while value > 0x7F:
        head, value = head + bytes([value & 0x7F | 0x80]), value >> 7
    return head + bytes([value])


def field(number, value):
    """A field of a protobuf message, by the kind of its value."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def metric(name, kind, value):
    # name 1, timestamp 3, datatype 4; long_value 11, double_value 13, boolean_value 14.
    return (field(1, name.encode()) + field(3, time.time_ns() // 10**6) + field(4, kind)
            + field({INT64: 11, DOUBLE: 13, BOOLEAN: 14}[kind], value))


def payload(metrics, seq=None):
    # timestamp 1, metrics 2, seq 3.
    return field(1, time.time_ns() // 10**6) + b"".join(field(2, one) for one in metrics) + (b"" if seq is None else field(3, seq))


def fields(data):
    """Number and value of each field."""
    at = 0
    def number():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if not data[at - 1] & 0x80:
                return value
    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        else:
            length = {1: 8, 2: None, 5: 4}[key & 7] or number()
            value, at = data[at:at + length], at + length
            yield key >> 3, struct.unpack({1: "<d", 5: "<f"}[key & 7], value)[0] if key & 7 in (1, 5) else value


def value(metric, kind=None):
    """What a metric is worth. `kind` is its type, which data leave out: births have it."""
    found = dict(fields(metric))
    kind = found.get(4, kind)
    # int_value 10, long_value 11, float_value 12, double_value 13, boolean_value 14, string_value 15; is_null 7.
    if found.get(7):
        return None
    for number in (12, 13):
        if number in found:
            return found[number]
    if 14 in found:
        return bool(found[14])
    if 15 in found:
        return found[15].decode()
    whole = found.get(10, found.get(11))
    if whole is None:
        return None
    if kind in SIGNED:
        bits = SIGNED[kind]
        whole &= (1 << bits) - 1
        return whole - (1 << bits) if whole >> (bits - 1) else whole
    return whole
