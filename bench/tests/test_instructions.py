"""What the gate of instructions lets through."""

import unittest

from bench.instructions.judge import compare, judge


class Gate(unittest.TestCase):
    def judged(self, counted, known):
        return judge(compare(counted, known), known)

    def test_what_takes_as_many_or_a_little_more_passes(self):
        self.assertEqual(self.judged({"a": 100.0, "b": 102.9}, {"a": 100.0, "b": 100.0}), ([], []))

    def test_what_takes_more_than_is_tolerated_fails(self):
        wrong, remarks = self.judged({"a": 103.1}, {"a": 100.0})
        self.assertIn("a takes 3.1 % more instructions per message", wrong[0])
        self.assertEqual(remarks, [])

    def test_what_takes_fewer_is_said(self):
        wrong, remarks = self.judged({"a": 90.0}, {"a": 100.0})
        self.assertEqual(wrong, [])
        self.assertIn("fewer instructions", remarks[0])

    def test_a_scenario_that_came_or_went_fails(self):
        wrong, _ = self.judged({"new": 1.0}, {"old": 1.0})
        self.assertEqual(len(wrong), 2)
        self.assertIn("new has no baseline", wrong[0])
        self.assertIn("old is in the baseline and no scenario", wrong[1])
