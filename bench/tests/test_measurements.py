"""Every measurement: its judge says of documents that targets are met, missed, or within noise, as each says by itself (`expects`); and its page can
be made of them. Figures of fixtures are made up."""

import glob
import importlib
import json
import os
import tempfile
import unittest

from bench.rooms import age, document, noise, render

FOLDERS = sorted(os.path.basename(os.path.dirname(path)) for path in glob.glob("bench/*/page.md"))
# Of these a run may fail while the others go on.
MAY_FAIL = ("control", "flink", "frame", "kv", "peers")
# Of these every target must be met in every round: noise excuses none.
EXACT = ("replication", "takeovers")


def fixtures(folder):
    return {os.path.basename(path).removesuffix(".json"): document.load(path) for path in sorted(glob.glob(f"bench/{folder}/fixtures/*.json"))}


def part(folder, room):
    return importlib.import_module(f"bench.{folder}.{room}")


class Judges(unittest.TestCase):
    def test_there_are_measurements(self):
        self.assertIn("sim", FOLDERS)
        self.assertGreater(len(FOLDERS), 10)

    def test_each_says_of_a_fixture_what_the_fixture_expects(self):
        for folder in FOLDERS:
            for name, found in fixtures(folder).items():
                with self.subTest(measurement=folder, fixture=name):
                    said = {verdict.target: verdict.outcome for verdict in part(folder, "judge").judge(found)}
                    self.assertEqual(said, found["expects"])

    def test_each_can_say_met_and_missed_and_within_noise(self):
        for folder in FOLDERS:
            with self.subTest(measurement=folder):
                wanted = {"met": noise.MET, "missed": noise.MISSED} | ({} if folder in EXACT else {"noise": noise.NOISE})
                found = fixtures(folder)
                self.assertEqual(set(found), set(wanted))
                for name, outcome in wanted.items():
                    self.assertIn(outcome, found[name]["expects"].values())
                self.assertEqual(set(found["met"]["expects"].values()), {noise.MET})
                if "noise" in found:
                    self.assertNotIn(noise.MISSED, found["noise"]["expects"].values())

    def test_what_failed_of_verge_is_missed_and_not_left_out(self):
        for folder in MAY_FAIL:
            with self.subTest(measurement=folder):
                found = fixtures(folder)["met"]
                for run in found["figures"]["runs"]:
                    if "verge" in (run.get("broker"), run.get("store"), run.get("system")) or folder in ("control", "frame"):
                        run["figures" if folder == "frame" else "report"] = {"failed": "not done", "stolen_share": 0.0}
                outcomes = {verdict.outcome for verdict in part(folder, "judge").judge(found)}
                self.assertIn(noise.MISSED, outcomes)
                self.assertNotIn(noise.MET, outcomes)


class Pages(unittest.TestCase):
    def page(self, folder, found):
        tables = part(folder, "tables")
        drawn = tables.pictures(found) if hasattr(tables, "pictures") else {}
        values = tables.values(found) | {"picture": {title.removesuffix(".svg").replace("-", "_"): picture for title, picture in drawn.items()}}
        with open(f"bench/{folder}/page.md") as file:
            return render.page(file.read(), found, values, part(folder, "judge").judge(found))

    def test_each_can_be_made_of_its_fixtures(self):
        for folder in FOLDERS:
            for name, found in fixtures(folder).items():
                with self.subTest(measurement=folder, fixture=name):
                    page = self.page(folder, found)
                    self.assertTrue(page.startswith("# "))
                    self.assertIn("Commit 0123456789ab, work tree unchanged.", page)
                    self.assertNotIn("{{", page)
                    self.assertNotIn("\n\n\n", page)

    def test_rows_have_the_columns_of_their_table(self):
        for folder in FOLDERS:
            for line, row in self.rows(self.page(folder, fixtures(folder)["met"])):
                with self.subTest(measurement=folder):
                    self.assertEqual(line.count("|"), row.count("|"), f"{line}\n{row}")

    def rows(self, page):
        head = None
        for line in page.splitlines():
            if not line.startswith("|"):
                head = None
            else:
                head = head or line
                yield head, line


class Measurements(unittest.TestCase):
    def test_each_says_what_it_needs_and_which_code_it_measures(self):
        for folder in FOLDERS:
            with self.subTest(measurement=folder):
                measure = part(folder, "measure")
                self.assertTrue(measure.ABOUT and measure.PROGRAMS and callable(measure.measure))
                for path in measure.CODE:
                    self.assertTrue(os.path.exists(path), path)

    def test_pages_without_a_document_are_told_from_others(self):
        found = fixtures("sim")["met"]
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {"sim.md": "# Of a document\n", "sim.json": json.dumps(found), "edge.md": "Commit abcdef012345+. More.\n", "other.md": ""}.items():
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
            rows = {os.path.basename(row["page"]): row for row in age.rows(folder, {name: part(name, "measure") for name in ("sim", "edge")})}
        self.assertEqual({name: row["document"] for name, row in rows.items()}, {"sim.md": True, "edge.md": False, "other.md": False})
        self.assertEqual(rows["edge.md"]["commits"], ["abcdef012345"])
        self.assertEqual([rows["other.md"][key] for key in ("measurement", "commits_since", "older")], [None, None, None])
        self.assertEqual(len(age.table(list(rows.values())).splitlines()), 4)
