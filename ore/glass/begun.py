"""For programs: what goes on with a saved session as it was begun."""

from __future__ import annotations

from dataclasses import replace

from ore.backends.model_options import parse_options
from ore.backends.named import reasoner_with
from ore.backends.settings import Settings
from ore.glass.personas import load_persona
from ore.reasoner import Reasoner
from ore.store.beginnings import Beginning


def begun_with(
    begun: Beginning | None, settings: Settings | None = None, *, host: str | None = None
) -> tuple[Reasoner, str | None]:
    """Return the reasoner and the system prompt that a session was begun with, as ``ORE`` takes them.

    ``ORE(*begun_with(store.beginning("trip")))`` goes on with the session "trip" as the command line
    would. A file that says what a session was begun with is not to be trusted more than the session:
    look at ``begun.backend`` and ``begun.model`` before you send what others must not read.

    Args:
        begun: What ``FileSessionStore.beginning`` returns; None, of an old session, chooses the
            backend and the model as the command line does.
        settings: What else is asked of the model; its options win over those of the beginning.
        host: The server's address; None is what the environment names, else the default one. What a
            session was begun with names none.

    Returns:
        The reasoner, and the system prompt: ``""`` sends none, None is the usual one.

    Raises:
        UsageError: The options, or the backend, can't be used.
        PersonaError: The persona is gone.
        CheckFailedError: The model is not the one that was pinned.
        OreError: What ``ore.reasoner`` raises.
    """
    settings = settings or Settings()
    if begun is None:
        return reasoner_with(None, None, host, settings), None
    options = {**parse_options(begun.options), **settings.options}
    system = begun.system if begun.persona is None else load_persona(begun.persona)
    asked = replace(settings, options=options)
    return reasoner_with(begun.backend, begun.model, host, asked), system
