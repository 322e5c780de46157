"""The environment as a whole, while another thread takes a variable out of it."""

from __future__ import annotations

import os

import pytest

import ore
from ore.backends.model_names import ModelName
from ore.backends.proxies import proxy_for, takes_no_proxy
from ore.backends.registry import Registry
from ore.errors import OreError
from ore.files.environment import environment
from ore.tools.own import _environment


class Losing(os._Environ):
    """An environment that loses a variable now and then while it is looked through."""

    looks = 0

    def __iter__(self):
        self.looks += 1
        names = list(super().__iter__())
        return iter(["GONE_PROXY", *names] if self.looks % 8 == 1 else names)


@pytest.fixture(autouse=True)
def losing(monkeypatch):
    real, environ = os.environ, {}
    made = Losing(environ, real.encodekey, real.decodekey, real.encodevalue, real.decodevalue)
    environ.update(real._data)
    monkeypatch.setattr(os, "environ", made)
    monkeypatch.setattr("os.putenv", lambda *_: None)
    made["HTTP_PROXY"] = "http://127.0.0.1:1"
    return made


def test_a_variable_that_goes_meanwhile_is_left_out(losing):
    found = environment()
    assert "GONE_PROXY" not in found and found == {name: losing[name] for name in found}


def test_a_tool_gets_its_variables(losing):
    assert _environment(("HTTP_PROXY",))["HTTP_PROXY"] == losing["HTTP_PROXY"]


def test_a_proxy_is_found_while_another_variable_goes():
    assert proxy_for("http://a.example") == "HTTP_PROXY"


def test_it_is_told_whether_an_address_takes_a_proxy():
    for _ in range(8):  # at one look, the variable goes
        assert not takes_no_proxy("http://a.example")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ollama:m", "openai:m"])
def test_a_turn_blames_no_proxy_for_it(name):
    with pytest.raises(OreError, match="through the proxy of HTTP_PROXY"):
        ore.ORE(ore.reasoner(name, host="http://a.example")).execute("hi")


@pytest.mark.slow
def test_a_registry_can_be_asked():
    Registry(ModelName("a.example", "library", "m", "latest")).close()
