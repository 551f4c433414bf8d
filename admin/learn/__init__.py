"""Lessons on the living cluster: scenes that are played by small clients of their own, and copied as tests.

A scene is data, a TOML file in ``scenes/`` (`scene` says how). `playing` plays it, `clients/` has who takes part in
it, `copying` makes a pytest and a shell script of it. `lessons` is what operations are given.
"""
