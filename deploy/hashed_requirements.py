"""Writes requirements with hashes, without download addresses, from a report of `pip install --report`."""

import json
import sys
from pathlib import Path


def lines(report: dict) -> list[str]:
    """One requirement per package that the report would install, but for the one that is built here."""
    found = []
    for item in report["install"]:
        hashes = item["download_info"].get("archive_info", {}).get("hashes", {})
        if "sha256" in hashes:
            name, version = item["metadata"]["name"], item["metadata"]["version"]
            found.append(f"{name}=={version} --hash=sha256:{hashes['sha256']}")
        elif not item.get("is_direct"):
            raise SystemExit(f"{item['metadata']['name']} has no hash.")
    return sorted(found, key=str.lower)


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines(json.loads(Path(sys.argv[1]).read_text()))) + "\n")
