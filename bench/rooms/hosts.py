"""Hosts on links of their own (wire.py)."""

import json
import os
import subprocess


class Hosts:
    """Network namespaces, joined by a switch in user space; all of them end with `end`."""

    made = 0

    def __init__(self, count, fault=None, megabits=None, delay_us=None):
        Hosts.made += 1
        self.prefix = f"vb{os.getpid() % 10000}{chr(ord('a') + Hosts.made % 26)}-"
        words = ["bench/rooms/wire.py", "--prefix", self.prefix, "--hosts", str(count), *(["--fault", fault] if fault else [])]
        words += ["--megabits", str(megabits)] if megabits else []
        words += ["--delay-us", str(delay_us), str(delay_us)] if delay_us is not None else []
        self.child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.child.stdout.readline() != "ready\n":
            raise RuntimeError("the wire does not start")

    def inside(self, host):
        """Words that run what follows them on a host."""
        return ["ip", "netns", "exec", f"{self.prefix}{host}"]

    def address(self, host):
        return f"10.77.0.{host + 1}"

    def say(self, word):
        self.child.stdin.write(f"{word}\n")
        self.child.stdin.flush()

    def cut(self, host):
        """Nothing comes from a host, and nothing to it."""
        self.say(f"cut {host}")

    def heal(self, host):
        self.say(f"heal {host}")

    def way(self, one, other, milliseconds, lost):
        """Frames between two hosts take so long, and such a part of them is lost."""
        self.say(f"way {one} {other} {milliseconds} {lost}")

    def bytes_of(self, host):
        """Bytes that a host has sent so far, those of the wire included."""
        self.say(f"bytes {host}")
        return json.loads(self.child.stdout.readline())

    def end(self):
        self.child.stdin.close()
        self.child.wait()
        self.child.stdout.close()
