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
    "ore.tools": ("TOOL_REGISTRY", "Permission", "Tool"),
    "ore.gate": ("Gate",),
    "ore.router": ("TEST_ROUTING_TARGET", "Router", "RuleRouter", "build_targets_from_registry"),
    "ore.skills": (
        "build_skill_registry",
        "build_targets_from_skill_registry",
        "load_skill_instructions",
        "load_skill_metadata",
        "load_skill_resource",
    ),
    "ore.types": (
        "ARTIFACT_VERSION",
        "ExecutionArtifact",
        "Message",
        "Response",
        "RoutingDecision",
        "RoutingTarget",
        "Session",
        "SkillMetadata",
        "ToolResult",
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
        "SchemaMismatchError",
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


def __getattr__(name: str) -> object:
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'ore' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
