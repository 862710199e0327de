"""The schedule that is set beside Flink."""

import unittest

from bench.flink import ideal


class Schedules(unittest.TestCase):
    def test_those_that_can_be_followed_by_hand_are_right(self):
        ideal.check()
