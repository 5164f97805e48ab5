"""Which options srun and sbatch have, and which of them take values. Pure.

Needed to find where their own options end and the program begins, and which long option an
abbreviation means. An option that a newer Slurm has besides, with its value as a word of its own,
would be taken for the program's name: write it with ``=``.

Source: asked of the commands of Slurm 22.05 one by one.
"""

from collections.abc import Mapping

from msgspec import Struct

#: The value is needed; may follow behind ``=``; there is none.
VALUE, OPTIONAL, NONE = "value", "optional", "none"

_BOTH = """account acctg-freq bb bbf begin clusters cluster cluster-constraint comment constraint
container core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task chdir deadline delay-boot
dependency distribution error exclude export extra-node-info gid gpu-bind gpu-freq gpus
gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint input job-name licenses mail-type
mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nodefile nodelist nodes
ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode
output partition power priority profile qos reservation signal sockets-per-node switches
tasks-per-node thread-spec threads-per-core time time-min tmp uid wckey"""
_BOTH_NONE = """contiguous help hold no-kill overcommit oversubscribe quiet reboot spread-job
test-only usage use-min-nodes verbose version"""
_SRUN = """accel-bind bcast-exclude cpu-bind epilog het-group jobid mpi msg-timeout ntasks-per-node
pack-group prolog relative slurmd-debug task-epilog task-prolog threads wait"""
_SRUN_OPTIONAL = """bcast compress exclusive immediate kill-on-bad-exit nice propagate resv-ports
send-libs x11"""
_SRUN_NONE = """debugger-test disable-status exact interactive label multi-prog no-allocate overlap
preserve-env pty quit-on-interrupt unbuffered whole"""
_SBATCH = "array batch export-file kill-on-invalid-dep wrap"
_SBATCH_OPTIONAL = "exclusive get-user-env nice propagate"
_SBATCH_NONE = "ignore-pbs no-requeue parsable requeue wait"


class Options(Struct, frozen=True, kw_only=True):
    """A command's own options.

    Attributes:
        command: its name.
        long: by name, whether there is a value.
        short: letters of options with a value; the rest of their word, or the next one.
    """

    command: str
    long: Mapping[str, str]
    short: str


def _table(values: str, optional: str, none: str) -> dict[str, str]:
    return {
        **dict.fromkeys(values.split(), VALUE),
        **dict.fromkeys(optional.split(), OPTIONAL),
        **dict.fromkeys(none.split(), NONE),
    }


SRUN = Options(
    command="srun",
    long=_table(f"{_BOTH} {_SRUN}", _SRUN_OPTIONAL, f"{_BOTH_NONE} {_SRUN_NONE}"),
    short="AbcdeimnopqrtwxBCDFGJLMNSTW",
)
SBATCH = Options(
    command="sbatch",
    long=_table(f"{_BOTH} {_SBATCH}", _SBATCH_OPTIONAL, f"{_BOTH_NONE} {_SBATCH_NONE}"),
    short="AabcdeimnopqtwxBCDFGJLMNS",
)
