"""Thresholds fitted to the store at hand: what ``manage.py calibrate`` asks, proposes, shows and saves."""

from __future__ import annotations
