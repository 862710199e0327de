"""Processes of a measurement: their ports, priorities, and what they say."""

import os
import resource
import socket
import subprocess
import sys
import time

DESCRIPTORS = 20000
# A server listens within this, or the measurement ends.
START_SECONDS = 15


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    numbers = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return numbers


def wait_until_listening(port, child, name, told, end):
    """Until somebody takes connections at the port. If the child ends before, or takes too long, everything is ended and `told()` is shown."""
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if child.poll() is not None or time.monotonic() > until:
                words = told()
                end()
                sys.exit(f"{name} does not listen: {words}")
            time.sleep(0.02)


def scheduled(priority, processors=None):
    """For a child: its priority under SCHED_FIFO where the host allows it, 0 for ordinary scheduling; room for descriptors; and where it
    may run, if not everywhere."""
    def act():
        if processors:
            os.sched_setaffinity(0, processors)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        if priority:
            try:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
            except PermissionError:
                pass
    return act


def said(words):
    """What a program prints, or nothing if it is not there."""
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip()
