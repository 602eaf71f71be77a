"""Checks that a checkout can be released: python deploy/release.py VERSION. Changes nothing."""

import re
import subprocess
import sys
from pathlib import Path


def problems(root: Path, version: str) -> list[str]:
    """What is missing before this version can be tagged; nothing if it can be."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", version):
        return [f"'{version}' is no version. Write for example: make release VERSION=0.2.0"]
    written = re.search(r'__version__ = "(.+)"', _text(root, "src/elldelta/_version.py"))
    cited = re.search(r"^version: (.+)$", _text(root, "CITATION.cff"), re.MULTILINE)
    changes = _text(root, "CHANGELOG.md")
    section = re.search(rf"^## {re.escape(version)}\b.*\n((?:(?!^## ).*\n?)*)", changes, re.MULTILINE)
    found = []
    if not written or written[1] != version:
        found.append(f"src/elldelta/_version.py says {written[1] if written else 'nothing'}.")
    if not cited or cited[1] != version:
        found.append(f"CITATION.cff says {cited[1] if cited else 'nothing'}.")
    if not section or not re.search(r"^- |\w", section[1], re.MULTILINE):
        found.append(f"CHANGELOG.md has no section '## {version}' with text.")
    if re.search(r"^## Unreleased", changes, re.MULTILINE):
        found.append("CHANGELOG.md still has a section '## Unreleased': give it the name of the version.")
    if _git(root, "status", "--porcelain"):
        found.append("There are changes that are not committed.")
    if _git(root, "tag", "--list", f"v{version}"):
        found.append(f"The tag v{version} is there already.")
    return found


def _text(root: Path, name: str) -> str:
    path = root / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _git(root: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", root, *words], capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    wrong = problems(Path(__file__).parents[1], sys.argv[1])
    sys.stderr.write("".join(f"{line}\n" for line in wrong))
    sys.exit(2 if wrong else 0)
