"""Runs that people look at: artifacts as one page of HTML that needs nothing but itself.

What a page shows is computed here, without a flag; ``ore.cli.report`` writes it.
"""
