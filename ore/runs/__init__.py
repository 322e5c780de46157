"""Recorded runs: what shaped one, and planning, checking, comparing and repeating it.

Knows nothing about terminals or servers.
"""
