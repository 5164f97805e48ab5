"""The extensions of Open Job Description 2023-09 that perdure knows, and CHECKPOINT's words.

Source: openjd-specifications RFCs 0001 to 0008 for the stock ones; docs/checkpoint-extension.md.
"""

CHECKPOINT = "CHECKPOINT"
STOCK_EXTENSIONS = (
    "TASK_CHUNKING",
    "REDACTED_ENV_VARS",
    "FEATURE_BUNDLE_1",
    "EXPR",
    "WRAP_ACTIONS",
)
ALL_EXTENSIONS = (*STOCK_EXTENSIONS, CHECKPOINT)

RESUME_ACTION = "onCheckpointResume"
SUSPENSION = "checkpointCancelation"
SIGNAL = "signalToNotify"
#: The keys that the extension adds to the schema.
EXTENSION_KEYS = (RESUME_ACTION, SUSPENSION, SIGNAL)

STATE_REFERENCE = "Task.Checkpoint.State"
FILE_REFERENCE = "Task.Checkpoint.File"

#: Signals that a program can catch and that mean nothing else: not KILL and STOP (nobody catches
#: them), not the faults (SEGV, BUS, …), not CHLD and PIPE (the system sends them by itself).
SIGNAL_NAMES = (
    "SIGTERM",
    "SIGINT",
    "SIGHUP",
    "SIGQUIT",
    "SIGUSR1",
    "SIGUSR2",
    "SIGALRM",
    "SIGTSTP",
    "SIGCONT",
    "SIGXCPU",
    "SIGWINCH",
)
DEFAULT_SIGNAL_NAME = "SIGTERM"

#: The step keys of FEATURE_BUNDLE_1 that stand for a whole script.
SUGAR_KEYS = ("python", "bash", "cmd", "powershell", "node")
ENVIRONMENT_ACTIONS = ("onEnter", "onExit", "onWrapEnvEnter", "onWrapTaskRun", "onWrapEnvExit")
