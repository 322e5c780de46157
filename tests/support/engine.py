"""Whether the embedded engine is installed, for tests that need it and no model of its own."""

from __future__ import annotations

import pytest

from ore.backends.engine_package import engine_version

needs_engine = pytest.mark.skipif(engine_version() is None, reason="the engine is not installed")
