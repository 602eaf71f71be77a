"""Packages and images: what they promise, and that they work outside the checkout."""

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import urllib.request
from pathlib import Path

import pytest
import yaml

import elldelta

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def script(name):
    """A module of deploy/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "deploy" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def steps():
    return script("try_dockerfile").instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))


def test_the_image_has_two_stages_no_root_volumes_and_a_health_check(steps):
    stages = [rest for name, rest in steps if name == "FROM"]
    assert len(stages) == 2
    assert all(re.fullmatch(r"\S+:\d[\w.-]+(?: AS \w+)?", stage) for stage in stages), "a version, not latest"
    final = steps[[name for name, _ in steps].index("FROM", 1) :]
    found = dict(final)
    assert int(found["USER"].partition(":")[0]) > 0
    assert "pip" not in found["RUN"]
    assert {"/var/lib/elldelta", "/data"} == set(yaml.safe_load(found["VOLUME"]))
    assert "/ready" in found["HEALTHCHECK"]
    assert [rest for name, rest in final if name == "COPY"] == ["--from=build /opt/elldelta /opt/elldelta"]
    # Whatever the libraries cache goes to the folder that stays writable.
    assert {"NUMBA_CACHE_DIR=/tmp/numba", "MPLCONFIGDIR=/tmp/matplotlib"} <= set(found["ENV"].split())


def test_the_image_takes_nothing_from_the_checkout_but_what_it_names(steps):
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        word
        for name, rest in steps
        if name == "COPY" and not rest.startswith("--from")
        for word in rest.split()[:-1]
    }
    assert copied == allowed
    assert "*" in (ROOT / ".dockerignore").read_text().splitlines()


def test_the_services_are_closed_to_each_other_and_to_the_outside():
    document = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
    services = document["services"]
    assert {name for name, service in services.items() if "ports" in service} == {"proxy"}
    assert document["networks"]["inside"]["internal"] is True
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
        assert ":latest" not in service["image"]
    agency = services["agency"]
    assert "--behind-proxy" in agency["command"]
    assert agency["network_mode"] == "service:proxy", "nginx reaches it at 127.0.0.1, and nobody else does"
    assert agency["volumes"] == ["keys:/var/lib/elldelta"]
    assert "cap_add" not in agency
    assert any(volume.startswith("./nginx.conf:") for volume in services["proxy"]["volumes"])
    passwords = re.findall(r"PASSWORD[^\n]*\$\{(\w+):\?", (ROOT / "deploy" / "compose.yaml").read_text())
    assert "DATABASE_PASSWORD" in passwords, "no password is written down, and none is guessed"


def test_the_citation_is_of_this_version_and_names_the_paper():
    document = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(document["version"]) == elldelta.__version__
    assert {"cff-version", "message", "title", "authors"} <= document.keys()
    (paper,) = document["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Rameshwar", "Tandon"]


@pytest.fixture
def checkout(tmp_path):
    """A checkout of a version that can be released."""
    (tmp_path / "src" / "elldelta").mkdir(parents=True)
    (tmp_path / "src" / "elldelta" / "_version.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CITATION.cff").write_text("version: 1.2.3\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3\n\n- Something.\n\n## 1.2.2\n\n- Old.\n")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True)


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "x")


def test_a_version_is_released_if_everything_says_it(checkout):
    problems = script("release").problems
    assert problems(checkout, "1.2.3") == []
    assert len(problems(checkout, "1.2.4")) == 3
    assert "no version" in problems(checkout, "")[0]
    assert "no version" in problems(checkout, "1.2; rm -r x")[0]
    with (checkout / "CHANGELOG.md").open("a") as changes:
        changes.write("## Unreleased\n")
    assert [line.split()[-1] for line in problems(checkout, "1.2.3")] == ["version.", "committed."]
    git(checkout, "checkout", "--quiet", ".")
    git(checkout, "tag", "v1.2.3")
    assert "v1.2.3 is there" in problems(checkout, "1.2.3")[0]


def run(*words, **options):
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Wheel and sdist, as `make dist` builds them."""
    folder = tmp_path_factory.mktemp("dist")
    environment = folder / "build"
    run(sys.executable, "-m", "venv", environment)
    run(
        environment / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "hatchling",
        "-c",
        ROOT / "constraints.txt",
    )
    run(environment / "bin" / "hatchling", "build", "-d", folder, cwd=ROOT)
    shutil.rmtree(environment)
    return folder


@pytest.mark.slow
def test_the_sdist_holds_what_is_needed_to_build_and_test(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "Makefile",
        "constraints.txt",
        "mkdocs.yml",
        "Dockerfile",
        "CITATION.cff",
        "deploy/nginx.conf",
    } <= names
    assert not [name for name in names if name.startswith((".venv", "dist", "site"))]


@pytest.mark.slow
def test_the_wheel_works_outside_the_checkout(built, tmp_path):
    """README's line for an index, with a folder as the index; then demo, the tour and the service."""
    environment, bare = tmp_path / "venv", {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    run(sys.executable, "-m", "venv", environment)
    (line,) = set(re.findall(r"`(pip install 'elldelta\[server\]')`", README))
    index = {
        key: value for key, value in os.environ.items() if key.startswith("PIP_") or "proxy" in key.lower()
    }
    run(
        *(environment / "bin" / "python", "-m", *shlex.split(line), "--quiet"),
        cwd=tmp_path,
        env={**index, **bare, "PIP_FIND_LINKS": str(built), "PIP_CONSTRAINT": str(ROOT / "constraints.txt")},
    )
    command = environment / "bin" / "elldelta"
    run(command, "demo", "--output", tmp_path / "demo", cwd=tmp_path, env=bare)
    blocks = re.findall(r"^```console\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    for text in "".join(blocks).splitlines():
        words = shlex.split(text.removeprefix("$ elldelta "), comments=True)
        done = subprocess.run(
            [command, *words], cwd=tmp_path / "demo", env=bare, capture_output=True, check=False
        )
        assert done.returncode == (3 if "exit code 3" in text else 0), (text, done.stderr)
    service = subprocess.Popen(
        [command, "serve", "--demo", "--port", "0", "--data", tmp_path / "agency"],
        env=bare, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    with contextlib.closing(service.stdout):
        try:
            url = next(text.split()[2] for text in service.stdout if text.startswith("Serving on "))
            with urllib.request.urlopen(url + "/sign-in", timeout=120) as answer:  # noqa: S310 (our own service)
                assert answer.status == 200
            service.send_signal(signal.SIGTERM)
            assert service.wait(300) == 0
        finally:
            if service.poll() is None:
                service.kill()
                service.wait()


@pytest.mark.slow
def test_the_steps_of_the_image_can_be_performed(tmp_path):
    said = run(sys.executable, ROOT / "deploy" / "try_dockerfile.py", tmp_path / "image")
    assert "healthy and ended with 0" in said
