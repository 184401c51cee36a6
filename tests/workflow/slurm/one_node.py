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
from collections.abc import Callable, Iterator
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
NodeName=one NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=cpu Nodes=one Default=YES MaxTime=1-00:00:00 State=UP
PartitionName=gpu Nodes=one MaxTime=1-00:00:00 State=UP
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


@contextlib.contextmanager
def running() -> Iterator[None]:
    """Within the block SLURM runs; after it every job and daemon is ended."""
    if why := missing():
        raise RuntimeError(why)
    folder = Path(tempfile.mkdtemp(prefix="one-node-slurm-"))
    folder.chmod(0o755)  # munge lets clients in only where every user may look
    daemons: list[subprocess.Popen] = []

    def start(*command: str) -> None:
        # gres.conf is looked for beside slurm.conf.
        environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
        with (folder / f"{command[0]}.out").open("w") as out:
            own = {"stdout": out, "stderr": out, "env": environment, "start_new_session": True}
            daemons.append(subprocess.Popen(command, **own))

    def wait(ready: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + 60
        while not ready():
            ended = [daemon.args[0] for daemon in daemons if daemon.poll() is not None]
            if ended or time.monotonic() > end:
                logs = sorted([*folder.glob("*.log"), *folder.glob("*.out")])
                texts = [f"{file.name}:\n{file.read_text(errors='replace')[-2000:]}" for file in logs]
                raise RuntimeError("\n".join([f"waited in vain for {what}; ended: {ended}", *texts]))
            time.sleep(0.2)

    try:
        _configure(folder)
        files = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        options = [f"--{option}={folder}/munge.{kind}" for option, kind in files.items()]
        start("munged", "--foreground", f"--key-file={folder}/munge.key", *options)
        wait((folder / "munge.socket").exists, "munged")
        start("slurmctld", "-D")
        start("slurmd", "-D", "-N", "one")
        wait(lambda: _run("sinfo", "-h", "-o", "%t").split()[:1] == ["idle"], "an idle node")
        yield
        _run("scancel", "--user=root")
        wait(lambda: not _run("squeue", "--noheader"), "the end of the jobs")
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for process in Path("/proc").glob("[0-9]*"):  # what is left of jobs
            with contextlib.suppress(OSError):
                seen = (process / "environ").read_text(errors="replace")
                if f"SLURM_CONF={folder}/" in seen or f"CLUSTER_NAME={folder.name.lower()}" in seen:
                    os.kill(int(process.name), signal.SIGKILL)
        if SYSTEM_CONF.is_symlink() and SYSTEM_CONF.readlink() == folder / "slurm.conf":
            SYSTEM_CONF.unlink()
        shutil.rmtree(folder, ignore_errors=True)


def jobs() -> list[dict[str, str]]:
    """SLURM's record of every job so far: the fields of `scontrol show job`, by name."""
    lines = _run("scontrol", "show", "job", "--oneliner").splitlines()
    return [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in lines if line.startswith("JobId=")]


def cancel(job: str) -> None:
    _run("scancel", job)


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout


def _configure(folder: Path) -> None:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    for number in range(GPUS):
        os.mknod(folder / f"nvidia{number}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/nvidia[0-{GPUS - 1}] Flags=nvidia_gpu_env\n")
    with socket.socket() as one, socket.socket() as other:
        for taken in (one, other):
            taken.bind(("127.0.0.1", 0))
        values = {"controller_port": one.getsockname()[1], "node_port": other.getsockname()[1]}
    values |= {"folder": folder, "cluster": folder.name.lower(), "host": socket.gethostname().split(".")[0]}
    values |= {"cpus": max(2, len(os.sched_getaffinity(0))), "gpus": GPUS}
    values["memory"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    (folder / "slurm.conf").write_text(CONF.format(**values))
    # Snakemake's job steps drop SLURM_CONF from their environment, so the file must be where it is looked for.
    SYSTEM_CONF.parent.mkdir(exist_ok=True)
    SYSTEM_CONF.symlink_to(folder / "slurm.conf")
