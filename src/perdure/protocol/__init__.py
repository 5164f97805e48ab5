"""What a task says to us: bytes in, typed events out. Pure.

`lines` cuts output into numbered lines (or finds only those that may be messages), `messages` are
the values that `decoding` reads, `dataset` folds the declared files, and `attempt_messages` folds
one attempt's stream into events for the worker. Nothing here reads, waits or decides.

Source: the RFC idea "task checkpointing"; Open Job Description, "How jobs are run", stdout
messages.
"""

from perdure.protocol.attempt_messages import (
    AttemptMessages,
    ChunkContext,
    Event,
    FilesDeclared,
    KeysIgnored,
    PrefixedSeen,
    Refused,
    ResumeStatusSeen,
    SaveAnnounced,
    StockSeen,
    ValueReported,
)
from perdure.protocol.dataset import Dataset, DatasetFold
from perdure.protocol.decoding import decode
from perdure.protocol.lines import Line, LineSplitter, Overlong
from perdure.protocol.messages import (
    CheckpointFiles,
    CheckpointSave,
    Ends,
    Env,
    Fail,
    FilesMode,
    LogLevel,
    Malformed,
    Message,
    Prefixed,
    Progress,
    RedactedEnv,
    ResumeReport,
    ResumeStatus,
    SessionRuntimeLoglevel,
    Status,
    TaskComplete,
    UnsetEnv,
)

__all__ = [
    "AttemptMessages",
    "CheckpointFiles",
    "CheckpointSave",
    "ChunkContext",
    "Dataset",
    "DatasetFold",
    "Ends",
    "Env",
    "Event",
    "Fail",
    "FilesDeclared",
    "FilesMode",
    "KeysIgnored",
    "Line",
    "LineSplitter",
    "LogLevel",
    "Malformed",
    "Message",
    "Overlong",
    "Prefixed",
    "PrefixedSeen",
    "Progress",
    "RedactedEnv",
    "Refused",
    "ResumeReport",
    "ResumeStatus",
    "ResumeStatusSeen",
    "SaveAnnounced",
    "SessionRuntimeLoglevel",
    "Status",
    "StockSeen",
    "TaskComplete",
    "UnsetEnv",
    "ValueReported",
    "decode",
]
