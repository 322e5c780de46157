"""ORE, the Orchestrated Reasoning Engine: one prompt, one model call, one answer.

Everything public is found here and loaded when it is first used, so that ``import ore`` costs
next to nothing and needs no package but Python's own.
"""

from importlib import import_module

from ore._version import __version__

_EXPORTS = {
    "ore.cli": ("main", "run"),
    "ore.core": ("ORE",),
    "ore.reasoner": ("AyaReasoner", "Reasoner"),
    "ore.models": ("default_model", "fetch_models"),
    "ore.store": ("FileSessionStore", "SessionStore"),
    "ore.types": (
        "ARTIFACT_VERSION",
        "ExecutionArtifact",
        "Message",
        "Response",
        "Session",
    ),
    "ore.errors": (
        "ArtifactError",
        "BackendError",
        "BackendTimeoutError",
        "CapabilityError",
        "CheckFailedError",
        "ContextTruncatedError",
        "ExtraNotInstalledError",
        "FileAccessError",
        "GateError",
        "HomeError",
        "IncompleteAnswerError",
        "InvalidArtifactError",
        "InvalidSessionError",
        "InvalidSkillError",
        "ModelNotFoundError",
        "OreError",
        "OutputError",
        "PersonaError",
        "ReaderGoneError",
        "ReasonerContractError",
        "ServerUnreachableError",
        "SessionChangedError",
        "SessionError",
        "SessionExistsError",
        "SessionInUseError",
        "SessionNameError",
        "SessionNotFoundError",
        "SessionNotSavedError",
        "SkillError",
        "SkillNotFoundError",
        "SkillResourceNotFoundError",
        "ToolError",
        "ToolFailedError",
        "UnknownToolError",
        "UsageError",
    ),
}
_HOME_OF = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = sorted([*_HOME_OF, "__version__"])


def __getattr__(name: str):
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'ore' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
