"""Pages: templates, heads, and the age of what they measure."""

import unittest

from bench.rooms import age, document, noise, render
from bench.rooms.verdicts import Verdict

DOCUMENT = {
    "schema": 1, "measurement": "sim", "command": "bench/run.py measure sim", "commit": "0123456789ab", "dirty": False,
    "machine": {"processors": 2, "model": "A model", "architecture": "x86_64", "kernel": "Linux 6", "virtual": True},
    "date": "2026-01-02T03:04:05+00:00", "stolen_share": 0.0123, "realtime_limit_us": "-1", "settings": {"runs": 3}, "figures": {},
}


class Templates(unittest.TestCase):
    def filled(self, template, **values):
        return render.fill(template, DOCUMENT, values)

    def test_values_and_what_the_document_has_are_filled_in(self):
        self.assertEqual(self.filled("{{a}} in {{settings.runs}} runs", a="x"), "x in 3 runs\n")

    def test_several_lines_are_lines(self):
        self.assertEqual(self.filled("{{rows}}\n", rows=["a", "b"]), "a\nb\n")

    def test_an_empty_value_leaves_no_gap_and_no_section(self):
        self.assertEqual(self.filled("a\n\n{{rows}}\n\n{{?rows}}\n## Rows\n\n{{rows}}\n{{/rows}}\n\nb\n", rows=[]), "a\n\nb\n")
        self.assertEqual(self.filled("a\n{{?rows}}\n{{rows}}\n{{/rows}}\n", rows=["c"]), "a\nc\n")

    def test_sections_stand_in_sections(self):
        template = "{{?a}}\na\n{{?b}}\nb\n{{/b}}\n{{/a}}\n"
        self.assertEqual(self.filled(template, a=True, b=False), "a\n")
        self.assertEqual(self.filled(template, a=True, b=True), "a\nb\n")
        self.assertEqual(self.filled(template, a=False, b=True), "\n")

    def test_what_nobody_gave_is_no_empty_page(self):
        with self.assertRaises(render.Unknown):
            self.filled("{{nobody}}")
        with self.assertRaises(render.Unknown):
            self.filled("{{settings.nobody}}")


class Heads(unittest.TestCase):
    def test_a_head_names_command_commit_tree_machine_and_date(self):
        head = render.head(DOCUMENT)
        for words in ("`bench/run.py measure sim`", "Commit 0123456789ab, work tree unchanged", "2 processors (A model), x86_64, Linux 6", "2026-01-02",
                      "1.2 %"):
            self.assertIn(words, head)
        self.assertIn("with changes in the work tree", render.head(DOCUMENT | {"dirty": True}))

    def test_a_page_says_that_it_is_older_than_the_code(self):
        self.assertEqual(age.told(0, ["crates/sim"]), "")
        self.assertIn("**Older than the code:** 1 commit since, to `crates/sim`.", render.head(DOCUMENT, age.told(1, ["crates/sim"])))
        self.assertIn("2 commits since", age.told(2, ["crates/sim"]))
        self.assertIn("not in this history", age.told(None, ["crates/sim"]))

    def test_a_page_shows_every_verdict_and_misses_loudly(self):
        verdicts = [Verdict("a", "1", noise.MET), Verdict("b", "2", noise.MISSED, "by the floor too"), Verdict("c", "3", noise.NOISE)]
        page = render.page("# T\n\n{{head}}\n\n{{verdicts}}\n", DOCUMENT, {}, verdicts)
        self.assertIn("| a | 1 | met |\n| b | 2 | **missed**, by the floor too |\n| c | 3 | within noise |", page)


class Documents(unittest.TestCase):
    def test_what_has_no_schema_or_another_one_is_refused(self):
        self.assertEqual(document.checked(DOCUMENT, "file"), DOCUMENT)
        for found in ([], {"runs": []}, DOCUMENT | {"schema": 2}, {"schema": 1}):
            with self.assertRaises(document.Trouble):
                document.checked(found, "file")

    def test_parts_that_were_kept_have_commits_of_their_own(self):
        kept = DOCUMENT | {"figures": {"runs": [{"commit": "abc"}, {}]}}
        self.assertEqual(age.of(kept), ["0123456789ab", "abc"])
        self.assertEqual(age.of(DOCUMENT), ["0123456789ab"])
