"""Machines that vanish: a command line on each, with a disk of its own, and nothing in common.

Where it can be had (Linux with user namespaces, or root) a machine has a host name and process ids
of its own, so that the next one can tell nothing about the processes of the one before: it goes by
heartbeats alone. All that runs on it dies in one instant, with the first process of its namespace.
"""

import functools
import os
import shutil
import subprocess

from support.command_line import CommandLine

_OWN_IDS = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"]
_AS_ROOT = ["--user", "--map-root-user"]
_SCRIPT = 'hostname "$0" && exec "$@"'


@functools.cache
def apart():
    """The command that runs something on a host of its own; empty where there is none."""
    for command in (_OWN_IDS, [*_OWN_IDS, *_AS_ROOT]):
        if shutil.which("unshare") is None:
            break
        if os.geteuid() != 0 and command is _OWN_IDS:
            continue
        done = subprocess.run(
            [*command, "sh", "-c", _SCRIPT, "a-host", "true"], capture_output=True, check=False
        )
        if done.returncode == 0:
            return tuple(command)
    return ()


class Machine(CommandLine):
    """One machine: everything that perdure leaves on a host is below its folder."""

    def __init__(self, folder, environment):
        folder.mkdir()
        super().__init__(folder)
        self.environment.update(environment)

    def command(self, *arguments):
        command = super().command(*arguments)
        where = apart()
        return [*where, "sh", "-c", _SCRIPT, self.folder.name, *command] if where else command

    def vanish(self):
        """Every process dies, and the disk is gone."""
        self.kill_all()
        shutil.rmtree(self.folder)
