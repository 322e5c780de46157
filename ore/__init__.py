"""ORE, the Orchestrated Reasoning Engine: one prompt, one model call, one answer.

Everything public is found here and loaded when it is first used, so that ``import ore`` costs
next to nothing and needs no package but Python's own.
"""

__version__ = "1.9.0"

# The public names, written once: type checkers read these lines as they stand, and ``__getattr__``
# below finds in them the module of a name that is used for the first time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ore.artifact import read_artifact as read_artifact
    from ore.artifact import write_artifact as write_artifact
    from ore.artifact.compare import Difference as Difference
    from ore.artifact.log import RunLog as RunLog
    from ore.artifact.signers import Signature as Signature
    from ore.artifact.verify import Checked as Checked
    from ore.backends import Backend as Backend
    from ore.backends import Model as Model
    from ore.backends.engine_turn import EmbeddedReasoner as EmbeddedReasoner
    from ore.backends.named import backend as backend
    from ore.backends.named import reasoner as reasoner
    from ore.backends.openai import OpenAIReasoner as OpenAIReasoner
    from ore.backends.settings import Settings as Settings
    from ore.cli import main as main
    from ore.cli import run as run
    from ore.core import ORE as ORE
    from ore.errors import Advice as Advice
    from ore.errors import ArtifactError as ArtifactError
    from ore.errors import BackendError as BackendError
    from ore.errors import BackendTimeoutError as BackendTimeoutError
    from ore.errors import CapabilityError as CapabilityError
    from ore.errors import CheckFailedError as CheckFailedError
    from ore.errors import ContextTruncatedError as ContextTruncatedError
    from ore.errors import ExtraNotInstalledError as ExtraNotInstalledError
    from ore.errors import FileAccessError as FileAccessError
    from ore.errors import GateError as GateError
    from ore.errors import HomeError as HomeError
    from ore.errors import IncompleteAnswerError as IncompleteAnswerError
    from ore.errors import InvalidArtifactError as InvalidArtifactError
    from ore.errors import InvalidSessionError as InvalidSessionError
    from ore.errors import InvalidSkillError as InvalidSkillError
    from ore.errors import ModelNotFoundError as ModelNotFoundError
    from ore.errors import OreError as OreError
    from ore.errors import OutputError as OutputError
    from ore.errors import PersonaError as PersonaError
    from ore.errors import ReaderGoneError as ReaderGoneError
    from ore.errors import ReasonerContractError as ReasonerContractError
    from ore.errors import SchemaMismatchError as SchemaMismatchError
    from ore.errors import ServerUnreachableError as ServerUnreachableError
    from ore.errors import SessionChangedError as SessionChangedError
    from ore.errors import SessionError as SessionError
    from ore.errors import SessionExistsError as SessionExistsError
    from ore.errors import SessionInUseError as SessionInUseError
    from ore.errors import SessionNameError as SessionNameError
    from ore.errors import SessionNotFoundError as SessionNotFoundError
    from ore.errors import SessionNotSavedError as SessionNotSavedError
    from ore.errors import SkillError as SkillError
    from ore.errors import SkillNotFoundError as SkillNotFoundError
    from ore.errors import SkillResourceNotFoundError as SkillResourceNotFoundError
    from ore.errors import ToolError as ToolError
    from ore.errors import ToolFailedError as ToolFailedError
    from ore.errors import UnknownToolError as UnknownToolError
    from ore.errors import UsageError as UsageError
    from ore.gate import Gate as Gate
    from ore.glass.begun import begun_with as begun_with
    from ore.glass.comparing import Diff as Diff
    from ore.glass.comparing import FolderDiff as FolderDiff
    from ore.glass.comparing import Verdict as Verdict
    from ore.glass.comparing import diff as diff
    from ore.glass.comparing import diff_folders as diff_folders
    from ore.glass.comparing import sign as sign
    from ore.glass.comparing import validate as validate
    from ore.glass.comparing import verify as verify
    from ore.glass.fences import last_code_block as last_code_block
    from ore.glass.influence import Explained as Explained
    from ore.glass.influence import Influence as Influence
    from ore.glass.influence import explain as explain
    from ore.glass.judging import Judgement as Judgement
    from ore.glass.judging import judge as judge
    from ore.glass.judging import judge_checked as judge_checked
    from ore.glass.limits import notices_of as notices_of
    from ore.glass.limits import warnings_of as warnings_of
    from ore.glass.personas import load_persona as load_persona
    from ore.glass.provenance import Sourced as Sourced
    from ore.glass.reopening import Opened as Opened
    from ore.glass.reopening import Reopening as Reopening
    from ore.models import default_model as default_model
    from ore.models import fetch_models as fetch_models
    from ore.reasoner import AyaReasoner as AyaReasoner
    from ore.reasoner import Reasoner as Reasoner
    from ore.reasoner import Scorer as Scorer
    from ore.reasoner.awaiting import AsyncStream as AsyncStream
    from ore.reasoner.stream import Stream as Stream
    from ore.report.page import report_page as report_page
    from ore.report.texts import report_form as report_form
    from ore.report.texts import report_table as report_table
    from ore.router import TEST_ROUTING_TARGET as TEST_ROUTING_TARGET
    from ore.router import Router as Router
    from ore.router import RuleRouter as RuleRouter
    from ore.router import build_targets_from_registry as build_targets_from_registry
    from ore.rows.file_turn import run_file as run_file
    from ore.rows.over_rows import over_rows as over_rows
    from ore.rows.replaying import Replay as Replay
    from ore.rows.replaying import replay as replay
    from ore.rows.replays import Replayed as Replayed
    from ore.rows.replays import replay_file as replay_file
    from ore.rows.replays import replay_files as replay_files
    from ore.rows.replays import write_junit as write_junit
    from ore.rows.row_plan import RowsPlan as RowsPlan
    from ore.rows.row_run import RowRun as RowRun
    from ore.rows.row_turns import Outcome as Outcome
    from ore.rows.tables import Row as Row
    from ore.rows.tables import Table as Table
    from ore.rows.tables import open_table as open_table
    from ore.skills import build_skill_registry as build_skill_registry
    from ore.skills import build_targets_from_skill_registry as build_targets_from_skill_registry
    from ore.skills import load_skill_instructions as load_skill_instructions
    from ore.skills import load_skill_metadata as load_skill_metadata
    from ore.skills import load_skill_resource as load_skill_resource
    from ore.store import Beginning as Beginning
    from ore.store import FileSessionStore as FileSessionStore
    from ore.store import SessionStore as SessionStore
    from ore.store.pages import session_markdown as session_markdown
    from ore.tools import TOOL_REGISTRY as TOOL_REGISTRY
    from ore.tools import Permission as Permission
    from ore.tools import Tool as Tool
    from ore.tools.named_files import read_files as read_files
    from ore.types import ARTIFACT_VERSION as ARTIFACT_VERSION
    from ore.types import ExecutionArtifact as ExecutionArtifact
    from ore.types import Message as Message
    from ore.types import Response as Response
    from ore.types import RoutingDecision as RoutingDecision
    from ore.types import RoutingTarget as RoutingTarget
    from ore.types import Session as Session
    from ore.types import SkillMetadata as SkillMetadata
    from ore.types import ToolResult as ToolResult
    from ore.types.score import Score as Score
    from ore.types.score import ScoredToken as ScoredToken
    from ore.types.turn_plan import Plan as Plan
    from ore.types.turn_plan import PlannedMessage as PlannedMessage
    from ore.types.turn_plan import PlannedPart as PlannedPart


def _modules() -> dict[str, str]:
    """Return the module that each public name comes from, as the lines above say it."""
    with open(__file__, encoding="utf-8") as source:
        imports = [line.split() for line in source if line.startswith("    from ore.")]
    return {words[3]: words[1] for words in imports}


def __getattr__(name: str) -> object:
    from importlib import import_module

    modules = {} if name.startswith("__") and name != "__all__" else _modules()
    if name == "__all__":
        value: object = __dir__()
    elif name == "reasoner":  # the module, which is called as that function
        value = import_module("ore.reasoner")
    elif name in modules:
        value = getattr(import_module(modules[name]), name)
    else:
        raise AttributeError(f"module 'ore' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_modules(), "__version__"])
