"""Which backends can say how likely a given text is."""

from __future__ import annotations

from ore.backends import Backend
from ore.backends.settings import Settings
from ore.errors import CapabilityError
from ore.reasoner import Scorer


def scorer_of(backend: Backend, model_id: str, settings: Settings) -> Scorer:
    """Return what scores given texts with a model; of ``settings``, the sampling has no part in it.

    Args:
        backend: Where the model runs.
        model_id: The model.
        settings: How long may be waited, and how messages become a prompt.

    Raises:
        CapabilityError: The backend can't.
        ModelNotFoundError: The backend knows already that there is no such model.
    """
    made = backend.reasoner(model_id, settings)
    if isinstance(made, Scorer):
        return made
    made.close()
    raise CapabilityError(
        f"The backend '{backend.name}' can't say how likely a given text is: use one that can, as "
        f"`reasoner('embedded:NAME')`.",
        host=backend.host,
    )
