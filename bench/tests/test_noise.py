"""The rules of noise: what rounds decide together."""

import unittest

from bench.rooms import noise
from bench.rooms.verdicts import bound, exact, has_missed

BELOW_TEN = lambda value: value < 10


class Rounds(unittest.TestCase):
    def test_a_bound_is_met_if_it_holds_in_every_round(self):
        self.assertEqual(noise.outcome([1, 9, 5], BELOW_TEN), noise.MET)

    def test_a_bound_is_missed_if_it_holds_in_no_round(self):
        self.assertEqual(noise.outcome([11, 19, 15], BELOW_TEN), noise.MISSED)

    def test_rounds_that_do_not_agree_decide_nothing(self):
        self.assertEqual(noise.outcome([11, 9, 15], BELOW_TEN), noise.NOISE)

    def test_a_single_round_decides(self):
        self.assertEqual(noise.outcome([11], BELOW_TEN), noise.MISSED)

    def test_a_round_that_failed_is_a_miss(self):
        self.assertEqual(noise.outcome([None], BELOW_TEN), noise.MISSED)
        self.assertEqual(noise.outcome([None, 9], BELOW_TEN), noise.NOISE)
        self.assertEqual(bound("t", [None, 9], BELOW_TEN, 0, "ms").figure, "9 ms, 1 of 2 failed")
        self.assertEqual(bound("t", [None], BELOW_TEN, 0, "ms").figure, "-, 1 of 1 failed")

    def test_a_miss_that_was_disturbed_decides_nothing(self):
        self.assertEqual(noise.outcome([11, 12], BELOW_TEN, [True, True]), noise.NOISE)
        self.assertEqual(noise.outcome([11, 12], BELOW_TEN, [True, False]), noise.MISSED)

    def test_what_holds_although_it_was_disturbed_is_met(self):
        self.assertEqual(noise.outcome([9], BELOW_TEN, [True]), noise.MET)

    def test_without_a_round_nothing_was_measured(self):
        self.assertEqual(noise.outcome([], BELOW_TEN), noise.NOT_MEASURED)
        self.assertEqual(noise.exact([], BELOW_TEN), noise.NOT_MEASURED)

    def test_no_noise_excuses_what_must_hold_in_every_round(self):
        self.assertEqual(noise.exact([0, 0, 1], lambda lost: lost == 0), noise.MISSED)
        self.assertEqual(noise.exact([0, 0, 0], lambda lost: lost == 0), noise.MET)


class Repetitions(unittest.TestCase):
    def test_what_was_made_again_is_said(self):
        calm, shaken = {"tries": 1, "stolen_share": 0.001}, {"tries": 3, "stolen_share": 0.02}
        self.assertIn("None of 1 measurements", noise.disturbances([calm]))
        self.assertIn("1 of 2 measurements", noise.disturbances([calm, shaken]))
        self.assertEqual([noise.is_disturbed(report) for report in (calm, shaken)], [False, True])


class Verdicts(unittest.TestCase):
    def test_a_figure_has_its_rounds_and_its_unit(self):
        self.assertEqual(bound("t", [1.0, 3.0, 2.0], BELOW_TEN, 1, "ms").figure, "2.0 (1.0 … 3.0) ms")
        self.assertEqual(bound("t", [], BELOW_TEN, 1, "ms").figure, "-")

    def test_only_a_miss_is_one(self):
        met, missed, doubtful = (bound("t", rounds, BELOW_TEN) for rounds in ([1], [11], [1, 11]))
        self.assertFalse(has_missed([met, doubtful]))
        self.assertTrue(has_missed([met, missed]))
        self.assertTrue(has_missed([exact("t", [1], lambda lost: lost == 0)]))
