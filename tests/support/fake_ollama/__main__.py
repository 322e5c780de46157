"""``python -m tests.support.fake_ollama``: the fake server, by hand."""

from tests.support.fake_ollama import main

main()
