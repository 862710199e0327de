"""Judges and pages, from fixtures: nothing is measured here."""
