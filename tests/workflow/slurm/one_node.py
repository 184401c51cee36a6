"""A SLURM cluster of this one machine, for as long as a test needs it. Needs root and Debian's slurm-wlm and munge.

It has the partitions cpu and gpu, and two GPUs that are only device files: SLURM hands them out and sets
CUDA_VISIBLE_DEVICES, and nothing can compute on them. Nothing here is meant for a cluster that others use.
"""

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SYSTEM_CONF = Path("/etc/slurm/slurm.conf")
GPUS = 2
CONF = """\
ClusterName={cluster}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=15
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
# Neither systemd nor cgroups: they may be missing where tests run. Memory is watched by polling instead.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=UsePss,OverMemoryKill
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
# No database: the controller remembers all jobs until it stops.
AccountingStorageType=accounting_storage/none
MinJobAge=86400
GresTypes=gpu
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=100000,sched_interval=1,bf_interval=1
KillWait=5
DefMemPerCPU=500
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=cpu Nodes={node} Default=YES MaxTime=1-00:00:00 State=UP
PartitionName=gpu Nodes={node} MaxTime=1-00:00:00 State=UP
"""


def missing() -> str:
    """Why no SLURM can be started here; empty if one can."""
    if os.geteuid() != 0:
        return "a SLURM of one node needs root"
    commands = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel", "sinfo")
    if absent := [command for command in commands if not shutil.which(command)]:
        return f"a SLURM of one node needs {', '.join(absent)} (apt-get install slurm-wlm munge)"
    if SYSTEM_CONF.exists():
        return f"{SYSTEM_CONF} is there: this machine belongs to a cluster, or one started here still runs"
    return ""


class OneNode:
    """`with OneNode() as slurm:` starts the daemons, and ends them and every job that is left."""

    def __enter__(self) -> "OneNode":
        if why := missing():
            raise RuntimeError(why)
        self.folder = Path(tempfile.mkdtemp(prefix="one-node-slurm-"))
        self.folder.chmod(0o755)  # munge lets clients in only where every user may look
        self.cluster = self.folder.name.lower()
        self.daemons: list[subprocess.Popen] = []
        try:
            self._configure()
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if len(self.daemons) == 3 and self._answers():
                self._run("scancel", "--user=root", check=False)
                self._wait(lambda: not self._run("squeue", "--noheader"), "the end of the jobs", seconds=30)
        finally:
            self._kill_jobs()
            for daemon in reversed(self.daemons):
                daemon.terminate()
                try:
                    daemon.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()
            if SYSTEM_CONF.is_symlink() and SYSTEM_CONF.readlink() == self.folder / "slurm.conf":
                SYSTEM_CONF.unlink()
            shutil.rmtree(self.folder, ignore_errors=True)

    def jobs(self) -> list[dict[str, str]]:
        """SLURM's record of every job so far: the fields of `scontrol show job`, by name."""
        lines = self._run("scontrol", "show", "job", "--oneliner").splitlines()
        return [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in lines if line.startswith("JobId=")]

    def processes(self) -> list[int]:
        """Process ids of the daemons and of all that runs in jobs, known by their environment."""
        marks = (f"SLURM_CONF={self.folder}/".encode(), f"SLURM_CLUSTER_NAME={self.cluster}".encode())
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it ended meanwhile
                environment = (process / "environ").read_bytes()
                if any(mark in environment for mark in marks):
                    found.append(int(process.name))
        return found

    def cancel(self, job: str) -> None:
        self._run("scancel", job)

    def lose_node(self) -> None:
        """Kill slurmd and all that runs in jobs, as a power failure does, and tell the controller so."""
        node = self.daemons.pop()
        node.kill()
        node.wait()
        self._kill_jobs()
        self._run("scontrol", "update", "nodename=one", "state=down", "reason=lost")

    def repair_node(self) -> None:
        """Start slurmd again and let jobs use the node."""
        self._daemon("slurmd", "-D", "-N", "one")
        self._run("scontrol", "update", "nodename=one", "state=resume")
        self._wait(lambda: self._node_is("idle", "mix", "alloc"), "a node that takes jobs")

    def _configure(self) -> None:
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        for number in range(GPUS):
            os.mknod(self.folder / f"nvidia{number}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        (self.folder / "gres.conf").write_text(
            f"Name=gpu File={self.folder}/nvidia[0-{GPUS - 1}] Flags=nvidia_gpu_env\n"
        )
        with socket.socket() as one, socket.socket() as other:
            for taken in (one, other):
                taken.bind(("127.0.0.1", 0))
            ports = {"controller_port": one.getsockname()[1], "node_port": other.getsockname()[1]}
        (self.folder / "slurm.conf").write_text(
            CONF.format(
                **ports,
                folder=self.folder,
                cluster=self.cluster,
                host=socket.gethostname().split(".")[0],
                node="one",
                cpus=max(2, len(os.sched_getaffinity(0))),
                memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20,
                gpus=GPUS,
            )
        )
        # Snakemake's job steps drop SLURM_CONF from their environment, so the file must be where it is looked for.
        SYSTEM_CONF.parent.mkdir(exist_ok=True)
        SYSTEM_CONF.symlink_to(self.folder / "slurm.conf")

    def _start(self) -> None:
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        files = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        options = [f"--{option}={self.folder}/munge.{kind}" for option, kind in files.items()]
        self._daemon("munged", "--foreground", f"--key-file={key}", *options)
        self._wait((self.folder / "munge.socket").exists, "munged")
        self._daemon("slurmctld", "-D")
        self._daemon("slurmd", "-D", "-N", "one")
        self._wait(lambda: self._answers() and self._node_is("idle"), "an idle node")

    def _node_is(self, *states: str) -> bool:
        return self._run("sinfo", "-h", "-o", "%t").split()[0] in states

    def _daemon(self, *command: str) -> None:
        with (self.folder / f"{command[0]}.out").open("w") as out:
            # gres.conf is looked for beside this file.
            environment = os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf")}
            self.daemons.append(
                subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
            )

    def _kill_jobs(self) -> None:
        """Kill all that runs in jobs, and the daemons' helpers of each job."""
        daemons = [daemon.pid for daemon in self.daemons]
        for process in self.processes():
            if process not in daemons:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def _answers(self) -> bool:
        with contextlib.suppress(subprocess.SubprocessError, FileNotFoundError):
            return subprocess.run(["scontrol", "ping"], capture_output=True, timeout=5).returncode == 0
        return False

    def _run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
        return done.stdout

    def _wait(self, ready: Callable[[], bool], what: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not ready():
            for daemon in self.daemons:
                if daemon.poll() is not None:
                    raise RuntimeError(f"{daemon.args[0]} ended with {daemon.returncode}:\n{self._logs()}")
            if time.monotonic() > end:
                raise RuntimeError(f"waited {seconds} s in vain for {what}:\n{self._logs()}")
            time.sleep(0.2)

    def _logs(self) -> str:
        return "\n".join(
            f"{file.name}:\n{file.read_text(errors='replace')[-2000:]}"
            for file in sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")])
        )
