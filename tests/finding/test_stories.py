"""From nothing to a report with real parts: an installed wheel, and a file of the workspace."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.finding.planted import SHIP

ROLE = "---\nname: worker\ndescription: Does it.\n---\n\nYou do it.\n"
OURS = SHIP.replace(", needs_roles=False", "").replace('"ship", inputs', '"acme-ship", inputs')


def wheel(folder: Path, version: str, process: str = OURS) -> Path:
    """A package with a playbook, as a build backend makes it."""
    facts = f"acme_playbooks-{version}.dist-info"
    files = {
        "acme/__init__.py": "",
        "acme/ship.py": process,
        "acme/agents/worker.md": ROLE,
        f"{facts}/METADATA": f"Metadata-Version: 2.1\nName: acme-playbooks\nVersion: {version}\n",
        f"{facts}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{facts}/entry_points.txt": "[interlock.playbooks]\nacme-ship = acme.ship:process\n",
    }
    rows = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in files.items()]
    files[f"{facts}/RECORD"] = "\n".join([*rows, f"{facts}/RECORD,,"]) + "\n"
    place = folder / f"acme_playbooks-{version}-py3-none-any.whl"
    with zipfile.ZipFile(place, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return place


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def install(package: Path, site: Path) -> None:
    """What a person does to have it, instead of what they had."""
    shutil.rmtree(site, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--disable-pip-version-check",
    ]
    subprocess.run([*command, "--target", str(site), str(package)], check=True)


@pytest.fixture
def interlock(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The program in a new repository, each call a process of its own."""
    root = tmp_path / "work"
    root.mkdir()
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    paths = filter(None, (str(tmp_path / "site"), os.environ.get("PYTHONPATH")))
    environ = {**kept, "HOME": str(tmp_path / "home"), "PYTHONPATH": os.pathsep.join(paths)}
    (tmp_path / "home").mkdir()

    def call(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "interlock", *words],
            cwd=root,
            env={**environ, "INTERLOCK_RUNNER": "scripted"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    return call


def identity(tmp_path: Path) -> Any:
    (file,) = (tmp_path / "work/.interlock/runs").glob("*/run.json")
    return json.loads(file.read_text())


@pytest.mark.req("OW-02", "OW-03", "OW-05")
def test_a_playbook_from_a_wheel(tmp_path: Path, interlock: Callable[..., Any]) -> None:
    """Found by its name without being asked for trust: run, gate, an upgrade, approve, resume, report."""
    install(wheel(tmp_path, "1.0"), tmp_path / "site")
    (found,) = [one for one in json.loads(interlock("playbooks", "--json").stdout) if one["origin"] == "installed"]
    assert (found["name"], found["place"], found["trusted"]) == ("acme-ship", "acme-playbooks 1.0", True)
    assert [one["name"] for one in found["inputs"]] == ["what", "times"]
    interlock("validate", "acme-ship")
    interlock("run", "acme-ship", "--what", "a", code=4)
    assert identity(tmp_path)["source"]["place"] == "acme-playbooks 1.0"
    assert set(identity(tmp_path)["source"]["files"]) == {"__init__.py", "ship.py", "agents/worker.md"}
    install(wheel(tmp_path, "1.1", OURS.replace('"kept"', '"kept back"')), tmp_path / "site")
    resumed = interlock("resume", "latest", code=4)
    assert "the playbook changed since the run began: from installed acme-playbooks 1.1" in resumed.stderr
    assert "ship.py" in resumed.stderr
    interlock("approve", "latest")
    assert interlock("resume", "latest").stdout == "shipped\n"
    assert "- Status: complete" in interlock("report", "latest").stdout


@pytest.mark.req("OW-02", "OW-03", "OW-04", "OW-05")
def test_a_playbook_from_a_path(tmp_path: Path, interlock: Callable[..., Any]) -> None:
    """Trusted once: run, gate, approve, resume, report; whoever edits it meanwhile is asked again."""
    file = tmp_path / "work/fix.py"
    file.write_text(SHIP)
    assert "--trust" in interlock("run", "./fix.py", "--what", "a", code=2).stderr
    assert not (tmp_path / "work/.interlock").exists()
    interlock("run", "./fix.py", "--what", "a", "--trust", code=4)
    assert identity(tmp_path)["source"]["place"] == "fix.py"
    file.write_text(SHIP.replace('"kept"', '"kept back"'))
    assert "fix.py changed since it was trusted: fix.py" in interlock("approve", "latest", code=2).stderr
    interlock("approve", "latest", "--trust")
    assert interlock("resume", "latest").stdout == "shipped\n"
    assert "- Status: complete" in interlock("report", "latest").stdout
    assert list((tmp_path / "home/.config/interlock/trusted").iterdir())
