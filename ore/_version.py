"""The one place that holds ORE's version."""

__version__ = "1.0.0"
