"""What the templates of an Ollama server do with messages, and what is done about it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from ore.backends.go_template import arriving, is_known_to_lose, roles_of
from ore.backends.joining import joined
from ore.backends.ollama import OllamaBackend
from ore.backends.settings import Settings
from ore.errors import BackendError
from ore.types import Message
from tests.cli.test_plan import sources
from tests.support.fake_ollama import FakeOllama
from tests.support.harness import run_ore

SYSTEM, SKILL = Message("system", "You are a clerk."), Message("system", "[Skill:x]\nBe brief.")
FILE, PROMPT = Message("user", "[Tool:file:n.txt]\nA note."), Message("user", "hi")
ANSWER = Message("assistant", "Good morning.")
CHATML = "{{- range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}"
ALL, NO_SYSTEM = {"system", "user", "assistant"}, {"user", "assistant"}
TEMPLATES = {
    "ChatML": (CHATML, ALL),
    "the old way": (
        "{{ if .System }}<|system|>{{ .System }}{{ end }}{{ if .Prompt }}<|user|>{{ .Prompt }}"
        "{{ end }}<|assistant|>{{ .Response }}",
        ALL,
    ),
    "what a block is opened with": (
        "{{ with .System }}<|system|>{{ . }}{{ end }}{{- with .Prompt }}<|user|>{{ . }}{{ end }}",
        ALL,
    ),
    "what a block is opened with, by a name": (
        "{{ if $s := .System }}{{ $s }}{{ end }}{{ .Prompt }}",
        ALL,
    ),
    "what a block for one role is opened with": (
        '{{ range .Messages }}{{ if eq .Role "system" }}{{ with .Content }}{{ . }}{{ end }}'
        '{{ else if eq .Role "user" }}{{ if .Content }}x{{ else with .Content }}{{ . }}{{ end }}'
        "{{ end }}{{ end }}",
        {"system", "user"},
    ),
    "messages of another role, in a block for one": (
        '{{ range .Messages }}{{ if eq .Role "user" }}{{ range $.Messages }}{{ if eq .Role "system" }}'
        "{{ .Content }}{{ end }}{{ end }}{{ .Content }}{{ end }}{{ end }}",
        {"system", "user"},
    ),
    "a message by its number, in a block for one role": (
        '{{ range .Messages }}{{ if eq .Role "user" }}{{ (index $.Messages 0).Content }}{{ .Content }}'
        "{{ end }}{{ end }}",
        ALL,
    ),
    "the system text with the last message": (
        "{{- range $i, $_ := .Messages }}{{- $last := eq (len (slice $.Messages $i)) 1 }}"
        '{{- if eq .Role "user" }}{{- if and $last $.System }}{{ $.System }}\n\n{{ end }}'
        '[INST] {{ .Content }}[/INST]{{- else if eq .Role "assistant" }}{{ .Content }}{{ end }}'
        "{{- end }}",
        ALL,
    ),
    "the system text kept in a variable": (
        '{{- $s := "" }}{{ range .Messages }}{{ if eq .Role "system" }}{{ $s = .Content }}'
        '{{ else if eq .Role "user" }}{{ $s }} {{ .Content }}{{ else }}{{ .Content }}{{ end }}{{ end }}',
        ALL,
    ),
    "two roles in one condition": (
        '{{ range .Messages }}{{ if or (eq .Role "user") (eq .Role "system") }}{{ .Content }}'
        '{{ else if eq .Role "assistant" }}{{ .Content }}{{ end }}{{ end }}',
        ALL,
    ),
    "one condition, several roles": (
        '{{ range .Messages }}{{ if eq .Role "user" "system" }}{{ .Content }}{{ end }}{{ end }}',
        {"user", "system"},
    ),
    "a condition of another kind": (
        '{{ range .Messages }}{{ if not (eq .Role "user") }}{{ .Content }}{{ end }}{{ end }}',
        ALL,
    ),
    "every role but one": (
        '{{ range .Messages }}{{- if ne .Role "system" -}}{{ .Content }}{{ end }}{{ end }}',
        NO_SYSTEM,
    ),
    "every role but one, and that one elsewhere": (
        '{{ range .Messages }}{{ if ne .Role "system" }}{{ .Content }}{{ else }}{{ .Content }}{{ end }}'
        "{{ end }}",
        ALL,
    ),
    "not that role, or something else": (
        '{{ range .Messages }}{{ if or $.Tools (ne .Role "system") }}{{ .Content }}{{ end }}{{ end }}',
        ALL,
    ),
    "a role or something else": (
        '{{ range .Messages }}{{ if or (eq .Role "user") $.Tools }}{{ .Content }}{{ end }}{{ end }}',
        ALL,
    ),
    "braces in a text": ('{{ "}}" }}{{ range .Messages }}{{ .Content }}{{ end }}', ALL),
    "a comment": ("{{- /* .System .Content */ -}}{{ .Prompt }}", NO_SYSTEM),
    "a part in a comment": (
        '{{ range .Messages }}{{/* {{ if eq .Role "system" }}{{ .Content }}{{ end }} */}}'
        '{{ if ne .Role "system" }}{{ .Content }}{{ end }}{{ end }}',
        NO_SYSTEM,
    ),
    "a comment with a quote": ('{{- /* of 5" */ -}}{{ .Prompt }}', NO_SYSTEM),
    "a comment that is open": ("{{ .Prompt }}{{/* {{ .System }}", None),
    "a comment with more behind it": ("{{ .Prompt }}{{/* a */ .System }}", None),
    "a comment on messages": ("{{/* no .Messages */}}{{ .System }} {{ .Prompt }}", ALL),
    "messages kept in a variable": (
        '{{ $all := .Messages }}{{ range .Messages }}{{ if eq .Role "user" }}{{ range $all }}'
        '{{ if eq .Role "system" }}{{ .Content }}{{ end }}{{ end }}{{ .Content }}{{ end }}{{ end }}',
        None,
    ),
    "a message kept in a variable": (
        '{{ $first := index .Messages 0 }}{{ range $i, $m := .Messages }}{{ if eq .Role "user" }}'
        '{{ if eq $first.Role "system" }}{{ $first.Content }}{{ end }}{{ .Content }}{{ end }}{{ end }}',
        None,
    ),
    "messages written whole": (
        '{{ range .Messages }}{{ if eq .Role "user" }}{{ .Content }}{{ else }}{{ json . }}{{ end }}'
        "{{ end }}",
        ALL,
    ),
    "tools written whole": (
        '{{ range .Tools }}{{ json . }}{{ end }}{{ range .Messages }}{{ if ne .Role "system" }}'
        "{{ .Content }}{{ range .ToolCalls }}{{ json . }}{{ end }}{{ end }}{{ end }}",
        NO_SYSTEM,
    ),
    "tools written whole at once": (
        '{{ json .Tools }}{{ range .Messages }}{{ if ne .Role "system" }}{{ .Content }}{{ end }}{{ end }}',
        NO_SYSTEM,
    ),
    "parts of tools written whole": (
        "{{ range .Tools }}{{ with .Function }}{{ json . }}{{ end }}{{ end }}{{ range .Messages }}"
        '{{ if ne .Role "system" }}{{ .Content }}{{ end }}{{ end }}',
        NO_SYSTEM,
    ),
    "a message written whole where it calls no tools": (
        '{{ range .Messages }}{{ if eq .Role "user" }}{{ .Content }}{{ else }}{{ with .ToolCalls }}'
        "{{ json . }}{{ else }}{{ json . }}{{ end }}{{ end }}{{ end }}",
        ALL,
    ),
    "messages written whole among tools": (
        '{{ with .Tools }}{{ range $.Messages }}{{ if eq .Role "user" }}{{ .Content }}{{ else }}'
        "{{ json . }}{{ end }}{{ end }}{{ end }}",
        ALL,
    ),
    "a message written whole behind tools": (
        '{{ range .Messages }}{{ if eq .Role "user" }}{{ .Content }}{{ else }}{{ range $.Tools }}{{ . }}'
        "{{ end }}{{ json . }}{{ end }}{{ end }}",
        ALL,
    ),
    "a condition on a line of its own": (
        '{{ range .Messages }}{{ if eq .Role "user" }}{{ .Content }}{{ else\nif eq .Role "system" }}'
        "{{ .Content }}{{ end }}{{ end }}",
        {"system", "user"},
    ),
    "none": ("{{ .Prompt }}", NO_SYSTEM),
    "no place for system messages": (
        '{{- range .Messages }}{{- if eq .Role "user" }}<|user|>{{ .Content }}'
        '{{- else if eq .Role "assistant" }}{{ .Content }}{{- end }}{{- end }}',
        NO_SYSTEM,
    ),
    "the system text in a condition alone": ("{{ if .System }}S{{ end }}{{ .Prompt }}", NO_SYSTEM),
    "unfinished": ("{{ range .Messages }}{{ .Content }}", None),
    "of another language": ("{% for m in messages %}{{ m.content }}{% endfor %}", None),
    "too long": ("{{ .Prompt }}" + " " * (1 << 17), None),
    "empty": ("", None),
    "no text": (["{{ .Prompt }}"], None),
}


@pytest.mark.invariant
@pytest.mark.parametrize("name", TEMPLATES)
def test_the_roles_that_a_template_has_a_place_for_are_read(name):
    template, roles = TEMPLATES[name]
    assert roles_of(template) == roles


def test_a_hostile_template_is_read_in_no_time():
    for text in ("{{" * 60_000, '{{ "' * 30_000, "{{ if " + "(" * 100_000, "{{ end }}" * 14_000):
        assert roles_of(text) is None
    assert roles_of("{{ if .X }}" * 11_000 + "{{ .Prompt }}") is None


JINJA = TEMPLATES["of another language"][0]
LOSE = [
    ({"template": CHATML, "modelfile": "FROM x\nTEMPLATE c\n"}, False),
    ({"template": CHATML, "renderer": "olmo3"}, True),
    ({"template": "{{ .Prompt }}", "remote_host": "https://ollama.com:443"}, True),
    ({"template": CHATML, "modelfile": "FROM x\nRENDERER qwen3-coder\n"}, True),
    ({"template": CHATML, "modelfile": "FROM x\nTEMPLATE c\nSYSTEM a RENDERER b\n"}, False),
    ({"template": "{{ .Prompt }}", "modelfile": "FROM x\n"}, True),  # RKLLama's
    ({"template": "{{ .Prompt }}"}, True),
    ({"template": CHATML, "modelfile": ""}, True),
    ({"template": "", "modelfile": ""}, False),
    ({"template": JINJA}, True),
    ({"template": 7, "modelfile": ["RENDERER x"]}, False),
    ({}, False),
]


@pytest.mark.parametrize("shown, loses", LOSE)
def test_what_does_not_join_messages_itself_is_known(shown, loses):
    assert is_known_to_lose(shown) is loses
    messages = [SYSTEM, SKILL, FILE, PROMPT]
    assert arriving(shown, messages) == (joined(messages) if loses else (messages, None))
    assert arriving(shown, [SYSTEM, PROMPT]) == ([SYSTEM, PROMPT], None)


def ask(server: FakeOllama, messages: list[Message], **settings):
    return OllamaBackend(server.url).reasoner("llama3.2", Settings(**settings)).reason(messages)


def shows(server: FakeOllama) -> int:
    return [seen.path for seen in server.requests].count("/api/show")


@pytest.mark.invariant
@pytest.mark.parametrize(
    "messages, asks",
    [
        ([PROMPT], 0),
        ([SYSTEM, PROMPT], 0),
        ([SYSTEM, PROMPT, ANSWER, PROMPT], 0),
        ([SYSTEM, SKILL, PROMPT], 1),
        ([SYSTEM, FILE, PROMPT], 1),
    ],
)
def test_a_turn_asks_of_the_template_once_and_only_where_it_could_need_it(messages, asks):
    with FakeOllama() as server:
        server.ollama.shown = {"renderer": "olmo3"}
        metadata = ask(server, messages).metadata
        assert (shows(server), len(server.chats)) == (asks, 1)
        assert ("joined" in metadata) is bool(asks)
        sent = [(each["role"], each["content"]) for each in server.chats[0].json["messages"]]
        assert sent == [(each.role, each.content) for each in joined(messages)[0]]
        ask(server, messages, joins=False)
        assert shows(server) == asks and len(server.chats[1].json["messages"]) == len(messages)


def test_what_a_template_of_the_server_takes_is_sent_as_it_is():
    with FakeOllama() as server:
        assert "joined" not in ask(server, [SYSTEM, SKILL, FILE, PROMPT]).metadata
        assert len(server.chats[0].json["messages"]) == 4


def test_what_has_no_place_is_an_error_before_the_call():
    with FakeOllama() as server:
        server.ollama.shown = {"template": TEMPLATES["no place for system messages"][0]}
        with pytest.raises(BackendError, match="leaves out a message of the role 'system'"):
            ask(server, [SYSTEM, SKILL, PROMPT])
        assert server.chats == []


@pytest.mark.parametrize("version, parts", [("0.29.9", None), ("0.30.0", 3), ("", None)])
def test_a_turn_of_a_model_without_a_template_is_sent_where_llama_cpp_has_one(version, parts):
    with FakeOllama(version=version) as server:
        server.ollama.shown = {"template": "{{ .Prompt }}"}
        with nullcontext() if parts else pytest.raises(BackendError, match="the role 'system'"):
            assert "joined" not in ask(server, [SYSTEM, SKILL, PROMPT]).metadata
        assert [len(each.json["messages"]) for each in server.chats] == [parts][: bool(parts)]


def test_answers_that_have_no_place_need_a_new_conversation():
    template = '{{ range .Messages }}{{ if eq .Role "user" }}{{ .Content }}{{ end }}{{ end }}'
    shown = {"template": template, "modelfile": "FROM x\nTEMPLATE c\n"}
    with pytest.raises(
        BackendError, match=r"of the role 'assistant' .*: begin a new conversation, or"
    ):
        arriving(shown, [PROMPT, ANSWER, FILE, PROMPT])


def test_a_model_of_the_cloud_is_asked_with_all_messages():
    with FakeOllama() as server:
        server.ollama.shown = {"template": "{{ .Prompt }}", "remote_host": "https://ollama.com:443"}
        assert ask(server, [SYSTEM, SKILL, PROMPT]).metadata["joined"] == [[0, 1], [2]]


@pytest.mark.parametrize("modelfile", [None, "", "FROM x\n", "# Modelfile", {"FROM": "x"}])
def test_no_message_is_left_out_for_a_template_that_no_modelfile_names(modelfile):
    with FakeOllama() as server:
        server.ollama.shown = {"template": "{{ .Prompt }}", "modelfile": modelfile}
        assert ask(server, [SYSTEM, SKILL, PROMPT]).metadata["joined"] == [[0, 1], [2]]


@pytest.mark.parametrize("scenario", ["empty-500", "html-200", "not-http", "show-bare"])
def test_a_server_that_does_not_say_its_template_gets_the_messages_as_they_are(scenario):
    with FakeOllama(scenario=scenario, on="/api/show") as server:
        assert ask(server, [SYSTEM, SKILL, PROMPT]).content == "Paris."
        assert len(server.chats[0].json["messages"]) == 3


PLANS = [
    ({"renderer": "olmo3"}, [], [["persona", "skill:writing"]], 2, ""),
    ({}, [], None, 3, ""),
    ({"renderer": "olmo3"}, ["--join-messages", "never"], None, 3, ""),
    ({"system": "Be a pirate."}, ["--no-system"], None, 2, ""),
    ({"messages": [{"role": "user", "content": "a"}]}, [], None, 3, "messages of its Modelfile"),
]


@pytest.mark.parametrize("shown, flags, groups, parts, said", PLANS)
def test_the_plan_says_what_would_be_joined(writing, shown, flags, groups, parts, said):
    with FakeOllama() as server:
        server.ollama.shown = shown
        argv = ("hi", "--host", server.url, "--skill", "writing", "--dry-run", *flags)
        plan = run_ore(*argv, open_backend=lambda *_: OllamaBackend(server.url)).json
        assert plan["joined"] == groups and len(plan["parts"]) == parts
        assert said in " ".join(plan["notes"])
        assert len(sources(run_ore(*argv, open_backend=lambda *_: OllamaBackend(server.url)))) == (
            2 if "--no-system" in flags else 3
        )
        assert server.chats == []


@pytest.mark.parametrize(
    "shown, flags, said",
    [
        ({"template": "{{ .Prompt }}", "version": "0.30.0"}, ["--no-system"], ""),
        ({"template": "{{ .Prompt }}", "version": "0.30.0"}, [], ""),
        ({"system": "Be a pirate."}, ["--no-system"], "the system prompt of its Modelfile: 'Be a"),
        ({"system": "Be a pirate."}, [], ""),
        ({"system": ["Be"], "messages": "x"}, ["--no-system"], ""),
        ({"template": "{{ .Prompt }}"}, ["--no-system"], "has no chat template"),
        ({"template": ""}, ["--no-system"], ""),
        ({"template": "{{ .Prompt }}", "modelfile": "FROM x\n"}, [], ""),
        ({"template": None}, [], ""),
        ({"template": "{{ .Prompt }}", "modelfile": "RENDERER qwen3-vl-instruct\n"}, [], ""),
        ({"template": "{{ .Prompt }}", "remote_host": "https://ollama.com:443"}, [], ""),
        ({"template": "{{ .Prompt }}"}, [], "has no place for a message of the role 'system'"),
    ],
)
def test_the_plan_says_what_an_ollama_model_reads_besides_or_not_at_all(shown, flags, said):
    with FakeOllama(version=shown.get("version", "0.29.9")) as server:
        server.ollama.shown = shown
        argv = ("hi", "--dry-run", *flags)
        plan = run_ore(*argv, open_backend=lambda *_: OllamaBackend(server.url)).json
        assert said in " ".join(plan["notes"]) and bool(said) is bool(plan["notes"])


def test_a_turn_that_was_joined_says_so(writing):
    with FakeOllama() as server:
        server.ollama.shown = {"renderer": "olmo3"}
        argv = ("hi", "--skill", "writing")
        done = run_ore(*argv, open_backend=lambda *_: OllamaBackend(server.url))
        assert "persona and skill:writing" in done.err and done.out == "Paris.\n"
