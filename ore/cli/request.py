"""What the flags ask of a model beyond the prompt: read and checked before anything is sent.

Knows nothing about backends: each takes from the settings what it has, and refuses the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from ore.backends import Settings
from ore.cli.options import Options
from ore.reasoner import Reasoner

_THINK: dict[str | None, bool] = {"on": True, "off": False}


def settings_of(options: Options, on_thinking: Callable[[str], None]) -> Settings:
    """Return the settings that the flags make.

    Args:
        on_thinking: Told of the model's thinking as it arrives, unless ORE is to be quiet.

    Raises:
        UsageError: An option, a duration or a schema is none.
        FileAccessError: The schema's file can't be read.
        ExtraNotInstalledError: ``--schema`` was given, and what validates is missing.
    """
    from ore.backends.model_options import parse_keep_alive, parse_options

    schema = None
    if options.schema is not None:
        from ore.backends.schema import read_schema

        schema = read_schema(options.schema)
    return Settings(
        timeout=options.timeout,
        deadline=options.deadline,
        strict_context=options.strict_context,
        conversation=options.is_repl and options.has_session,
        options=parse_options(options.option),
        think=_THINK.get(options.think, options.think),
        format=schema,
        keep_alive=None if options.keep_alive is None else parse_keep_alive(options.keep_alive),
        on_thinking=None if options.quiet else on_thinking,
    )


def images_of(options: Options) -> tuple[bytes, ...]:
    """Return the images that the flags name.

    Raises:
        FileAccessError: A file can't be read, or is too large.
        UsageError: A file is no image.
    """
    if not options.image:
        return ()
    from ore.backends.images import read_image

    return tuple(read_image(path) for path in options.image)


def checked(reasoner: Reasoner, settings: Settings) -> Reasoner:
    """Return the reasoner, or with a schema, one that lets only fitting answers through."""
    if settings.format is None:
        return reasoner
    from ore.backends.schema import SchemaReasoner

    return SchemaReasoner(reasoner, settings.format)
