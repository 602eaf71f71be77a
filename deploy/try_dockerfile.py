"""Performs the steps of the Dockerfile in a folder, for machines without a container engine.

    python deploy/try_dockerfile.py FOLDER

Absolute paths of the file are moved under the folder, accounts are not made, and instead of the base image
the Python that runs this script is used. Then the command of the image is started, as the image's user if
that is possible, its health check must pass, it must end with 0, and nothing outside volumes and /tmp may
have changed.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATIENCE = 300.0
MOVED = re.compile(r"(?<![\w./*])/(?=(?:build|opt|data|tmp|var/lib/elldelta)\b)")
ACCOUNTS = ("groupadd", "useradd")


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile with their arguments; comments are dropped, continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in joined.splitlines())]


def last(steps: list[tuple[str, str]], name: str) -> str:
    """The arguments of the last instruction of this name: the one that counts."""
    return [rest for found, rest in steps if found == name][-1]


class Building:
    """One attempt to perform the steps under a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.workdir = self.folder
        interpreter = Path(sys.executable).parent
        self.environment = {"PATH": f"{interpreter}:/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"}

    def moved(self, text: str) -> str:
        """Absolute paths under the folder."""
        return MOVED.sub(f"{self.folder}/", text)

    def perform(self, name: str, rest: str) -> None:
        """Performs one instruction; what only tells something is passed over."""
        if name == "WORKDIR":
            self.workdir = Path(self.moved(rest))
            self.workdir.mkdir(parents=True, exist_ok=True)
        elif name == "ENV":
            for word in shlex.split(self.moved(rest)):
                key, _, value = word.partition("=")
                self.environment[key] = value.replace("$PATH", self.environment["PATH"])
        elif name == "COPY":
            self.copy(shlex.split(rest))
        elif name == "RUN":
            parts = [part.strip() for part in rest.split("&&")]
            kept = [part for part in parts if part.split()[0] not in ACCOUNTS]
            script = re.sub(r"--(?:owner|group) \w+ ", "", self.moved(" && ".join(kept)))
            script = re.sub(r"^python\b", shlex.quote(sys.executable), script)
            subprocess.run(["sh", "-ec", script], cwd=self.workdir, env=self._with_index(), check=True)

    def copy(self, words: list[str]) -> None:
        """Copies from the checkout; between stages nothing moves: an environment works in its place only."""
        if words[0].startswith("--from="):
            if words[1] != words[2]:
                raise SystemExit(f"A virtual environment cannot be moved: {words[1]} to {words[2]}")
            return
        *sources, target = words
        for source in sources:
            path, to = ROOT / source, self.workdir / target
            if path.is_dir():
                shutil.copytree(path, to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(path, to)

    def _with_index(self) -> dict[str, str]:
        """What a build may know beside the file: where packages come from."""
        outside = {
            key: value
            for key, value in os.environ.items()
            if key.startswith("PIP_") or "proxy" in key.lower()
        }
        return {**outside, **self.environment}


def changed(folder: Path) -> dict[Path, int]:
    """When each file outside volumes and /tmp was written."""
    free = ("tmp", "data", "var")
    return {
        path: path.stat().st_mtime_ns
        for top in folder.iterdir()
        if top.name not in free
        for path in (top, *top.rglob("*"))
        if not path.is_symlink()
    }


def as_user(building: Building, number: int) -> dict[str, object]:
    """How to start a process as the image's user; as ourselves, with a word, where that is not possible."""
    if os.geteuid() != 0:
        print("Not as the image's user: only root can do that.")
        return {}
    for name in ("tmp", "data", "var/lib/elldelta"):
        (building.folder / name).mkdir(parents=True, exist_ok=True)
        os.chown(building.folder / name, number, number)
    chosen: dict[str, object] = {"user": number, "group": number, "extra_groups": []}
    probe = [building.folder / "opt/elldelta/bin/python", "-c", ""]
    with contextlib.suppress(PermissionError):
        if subprocess.run(probe, cwd="/", check=False, **chosen).returncode == 0:
            return chosen
    print("Not as the image's user: it may not run this Python.")
    for name in ("tmp", "data", "var/lib/elldelta"):
        os.chown(building.folder / name, 0, 0)
    return {}


def serve(building: Building, steps: list[tuple[str, str]]) -> None:
    """Starts the command of the image, asks for its health, and ends it."""
    number = int(last(steps, "USER").partition(":")[0])
    rights = as_user(building, number)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    command = json.loads(last(steps, "ENTRYPOINT")) + json.loads(building.moved(last(steps, "CMD")))
    health = json.loads(re.search(r"CMD (\[.*\])", last(steps, "HEALTHCHECK"))[1].replace("8000", port))
    before = changed(building.folder)
    how = {"cwd": building.workdir, "env": building.environment, **rights}
    process = subprocess.Popen(
        [shutil.which(command[0], path=building.environment["PATH"]), *command[1:], "--port", port], **how
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while subprocess.run(health, stderr=subprocess.DEVNULL, check=False, **how).returncode:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("The service is not healthy.")
            time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        if process.wait(PATIENCE) != 0:
            raise SystemExit(f"The service ended with {process.returncode}.")
    finally:
        if process.poll() is None:
            process.kill()
    if changed(building.folder) != before:
        raise SystemExit("The service has written outside its volumes and /tmp.")
    if not (building.folder / "var/lib/elldelta/agency-key.pem").exists():
        raise SystemExit("The key is not in its volume.")


def main(folder: Path) -> None:
    """Performs all steps, then starts what they have made."""
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    steps = instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    building = Building(folder)
    for name, rest in steps:
        print(name, rest[:100], flush=True)
        building.perform(name, rest)
    serve(building, steps)
    print("Every step was performed; the service was healthy and ended with 0.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
