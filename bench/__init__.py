"""Measurements of Verge, one folder each; `rooms` is what they share, and `run.py` drives them."""
