"""What a confined program sees and keeps: HOME, logins, temporary files, processes, network; and when it is so."""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from interlock.errors import ConfigInvalid, WorkspaceFailed
from interlock.settings import SandboxSettings
from interlock.workspace.layers import bubblewrap, layers
from interlock.workspace.layers.bubblewrap import Making, found_out
from interlock.workspace.layers.layers import Layers
from interlock.workspace.values import Needs, RemarkKind

from .conftest import Bench, put

ROOT = os.geteuid() == 0


# -- HOME


@pytest.mark.req("TREE-10")
def test_home_is_private_but_for_an_allow_list(confined: Bench) -> None:
    """Programs and downloads of tool chains, git's harmless settings; no keys and no other settings."""
    home = confined.home
    secrets = ".ssh/id .aws/credentials .netrc .npmrc .config/gh/hosts.yml .git-credentials notes .cache/other/x"
    for name in f"{secrets} .cargo/credentials.toml .m2/settings.xml .gradle/gradle.properties".split():
        put(home / name, "secret")
    put(home / ".cargo/bin/tool", "#!/bin/sh\necho tool\n", 0o755)
    put(home / ".cargo/registry/index", "cached")
    put(home / ".cache/pip/wheel", "cached")
    put(home / ".config/git/ignore", "*.swp\n")
    git = '[user]\n\tname = Ann \\"A\\"\n[http]\n\textraheader = secret\n[credential]\n\thelper = secret\n'
    put(home / ".gitconfig", git)
    layer = confined.open()
    script = "cd; find . -type f | sort; ! grep -rl secret . ; git config user.name; .cargo/bin/tool"
    shown = [line for line in confined.sh(layer, script).splitlines() if "/.pyenv/" not in line]
    assert shown == [
        "./.cache/pip/wheel", "./.cargo/bin/tool", "./.cargo/registry/index", "./.config/git/ignore", "./.gitconfig",
        'Ann "A"', "tool",
    ]  # fmt: skip
    confined.sh(layer, "echo new > ~/.cache/pip/new; echo own > ~/mine; ! echo x > ~/.cargo/bin/tool 2>/dev/null")
    again = confined.open()
    assert confined.sh(again, "cat ~/mine ~/.cache/pip/new") == "own\nnew\n", "a session that goes on finds its files"
    assert not (home / ".cache/pip/new").exists() and not (home / "mine").exists()
    assert confined.sh(confined.open("two"), "ls ~/mine ~/.cache/pip/new 2>/dev/null || echo none") == "none\n"


@pytest.mark.req("TREE-10")
def test_more_can_be_shown(confined: Bench, tmp_path: Path) -> None:
    """What settings and a client name, and what links in folders of PATH lead to."""
    home = confined.home
    put(home / "tools/data", "data")
    put(tmp_path / "else where/file", "file")
    put(tmp_path / "else where/other", "other")
    put(home / "prefix/lib/node_modules/app/cli.sh", '#!/bin/sh\ncat "$(dirname "$(realpath "$0")")/lib.txt"\n', 0o755)
    put(home / "prefix/lib/node_modules/app/lib.txt", "all of it\n")
    put(home / "prefix/secret", "secret")
    (home / "bin").mkdir()
    (home / "bin/app").symlink_to("../prefix/lib/node_modules/app/cli.sh")
    confined.env["PATH"] = f"{home / 'bin'}:{confined.env['PATH']}"
    confined.anew(home=("tools",))
    layer = confined.open(needs=Needs(shows=(str(tmp_path / "else where/file"), str(tmp_path / "absent"))))
    assert confined.sh(layer, "app; cat ~/tools/data; ! echo x > ~/tools/new 2>/dev/null") == "all of it\ndata"
    out = confined.sh(layer, 'cat "$1/file"; ls "$1" ~/prefix', str(tmp_path / "else where"))
    assert "secret" not in out and "other" not in out and "file" in out
    own = put(tmp_path / "own.sh", "#!/bin/sh\necho mine\n", 0o755)
    assert confined.run(layer, [str(own)]).stdout == "mine\n", "a program that is named by its path lies anywhere"
    link = home / ".local/bin/app"
    link.parent.mkdir(parents=True)
    link.symlink_to("../lib/app/bin/app")
    put(home / ".local/lib/app/bin/app", "#!/bin/sh\necho linked\n", 0o755)
    confined.anew()
    assert confined.run(confined.open("two"), [str(link)]).stdout == "linked\n", (
        "also by a link in a folder that is seen"
    )


@pytest.mark.req("TREE-10", "RUN-15")
def test_a_refreshed_login_comes_back_and_nothing_else(confined: Bench) -> None:
    """Only tokens, only into a file that the person did not change meanwhile, with its mode."""
    home = confined.home
    login = put(home / ".claude/.credentials.json", json.dumps({"oauth": {"accessToken": "1", "scopes": ["a"]}}), 0o600)
    settings = put(home / ".claude/settings.json", json.dumps({"hooks": {}}))
    put(home / ".claude/history", "secret")
    needs = Needs(logins=(".claude/.cred*.json", ".claude/settings.json", ".codex/auth.json"))
    layer = confined.open(needs=needs)
    assert confined.sh(layer, "cd ~/.claude; stat -c %a . .credentials.json; ls -A").split() == [
        "700", "600", ".credentials.json", "settings.json",
    ]  # fmt: skip
    evil = {"hooks": {"Stop": "curl evil"}, "mcpServers": {"x": {"command": "evil"}}}
    fresh = {"oauth": {"accessToken": "2", "scopes": ["a", "everything"], "expiresAt": 5}, **evil}
    script = 'cd; echo "$1" > .claude/.credentials.json; echo "$2" > .claude/settings.json; mkdir .codex; echo x > '
    script += ".codex/auth.json"
    confined.sh(layer, script, json.dumps(fresh), json.dumps(evil))
    layer.logins_back()
    assert json.loads(login.read_text()) == {"oauth": {"accessToken": "2", "scopes": ["a"], "expiresAt": 5}}
    assert stat.S_IMODE(login.stat().st_mode) == 0o600
    assert json.loads(settings.read_text()) == {"hooks": {}} and not (home / ".codex/auth.json").exists()
    login.write_text(json.dumps({"oauth": {"accessToken": "the person's own"}}))
    confined.sh(layer, "sed -i s/2/3/ ~/.claude/.credentials.json")
    layer.logins_back()
    assert "own" in login.read_text()
    confined.sh(layer, "cd; rm -r .claude; ln -s /etc .claude; mkdir .cargo 2>/dev/null || true")
    layer.logins_back()
    layer.refresh_logins()
    assert "own" in confined.sh(layer, "cat ~/.claude/.credentials.json")


def test_what_a_program_left_in_the_way_of_mounts_is_removed(confined: Bench) -> None:
    """Links where the next start lays something."""
    put(confined.home / ".cache/pip/wheel", "cached")
    layer = confined.open()
    confined.sh(layer, "rm -rf .interlock 2>/dev/null || true")
    private = confined.top / ".interlock/layers/run-1/one/home"
    shutil.rmtree(private / ".cache", ignore_errors=True)
    (private / ".cache").symlink_to("/etc")
    assert confined.sh(layer, "cat ~/.cache/pip/wheel; ls -d .interlock/runs") == "cached.interlock/runs\n"


@pytest.mark.req("TREE-10")
def test_temporary_folders_are_private_and_have_a_size(confined: Bench) -> None:
    """Also those in /dev; nothing of them is left."""
    confined.anew(max_bytes=3_000_000)
    layer = confined.open()
    script = "echo x > $d/x; head -c 9000000 /dev/zero > $d/big 2>/dev/null && echo took $d"
    script = f"for d in /tmp /var/tmp /dev/shm; do {script}; done; true"
    assert confined.sh(layer, script) == ""
    left = "ls /tmp/x /var/tmp/x /dev/shm/x 2>/dev/null || echo gone; echo ${TMPDIR-unset}"
    assert confined.sh(layer, left) == "gone\nunset\n"


# -- processes


@pytest.mark.req("RUN-12", "TREE-09")
def test_the_program_ends_with_its_engine_and_how_it_ended_is_remembered(confined: Bench) -> None:
    """An engine that is killed takes the program along; one that had ended has left its exit."""
    layer = confined.open()
    assert layer.exit_file is not None
    confined.sh(layer, "exit 7", check=False)
    assert json.loads(layer.exit_file.read_text().splitlines()[-1]) == {"exit-code": 7}
    os.mkfifo(layer.exchange / "started")
    words = ["sh", "-c", 'echo s > "$1/started"; exec sleep 2000', "sh", layer.inside_exchange]
    wrapped = layer.wrap(words, confined.env)
    starter = "import subprocess, sys; subprocess.run(sys.argv[2:], pass_fds=[int(sys.argv[1])])"
    (status,) = wrapped.pass_fds
    words = [sys.executable, "-c", starter, str(status), *wrapped.argv]
    engine = subprocess.Popen(words, env=dict(wrapped.env), pass_fds=[status])
    os.close(status)
    assert (layer.exchange / "started").read_text() == "s\n"
    child = json.loads(layer.exit_file.read_text().splitlines()[0])["child-pid"]
    handle = os.pidfd_open(child)
    engine.kill()
    engine.wait()
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    assert poll.poll(20_000), "it is still running"
    os.close(handle)
    assert "exit-code" not in layer.exit_file.read_text()


def test_a_program_that_cannot_be_started_says_so(confined: Bench) -> None:
    """As a shell does; signals are as for any new program, and its environment is what it was given."""
    layer = confined.open()
    done = confined.run(layer, ["no-such-program"])
    assert done.returncode == 127 and "'no-such-program' cannot be started" in done.stderr
    code = "import os, signal; print(signal.getsignal(signal.SIGPIPE) == 0, sorted(os.environ))"
    names = confined.run(layer, ["env"], env={"ODD": "a\nb"}).stdout
    assert "ODD=a\nb" in names and "LC_CTYPE" not in names
    assert confined.python(layer, code)


# -- network


_GET = (
    "import os, sys, urllib.request, urllib.error\n"
    "for url in sys.argv[1:]:\n"
    "    try: print(urllib.request.urlopen(url, timeout=20).read().decode().strip())\n"
    "    except urllib.error.HTTPError as e: print(e.code, e.read().decode().strip())\n"
    "    except OSError as e: print('no way')\n"
)


@pytest.mark.req("TREE-10")
def test_the_network_is_open_cut_or_leads_to_the_model_alone(confined: Bench, served: ThreadingHTTPServer) -> None:
    """A model of this machine is found at its own address; what was asked for in vain is told."""
    port = served.server_address[1]
    url, other = f"http://127.0.0.1:{port}/x", "http://example.com/y"
    layer = confined.open(needs=Needs(hosts=(f"127.0.0.1:{port}", "api.example.org")))
    assert confined.python(layer, _GET, url).startswith("/x ")
    assert confined.python(layer, _GET, url, network="none") == "no way\n"
    assert layer.found({}).remarks == ()
    for _ in range(2):
        told = confined.python(layer, _GET, url, other, network="model").splitlines()
        assert told[0].startswith("/x ") and told[1].startswith("403 interlock: example.com:80 is not among")
    (remark,) = layer.found({}).remarks
    assert remark.kind is RemarkKind.NETWORK and "example.com:80" in remark.text
    big = (
        "import sys, urllib.request\n"
        "data = bytes(range(256)) * 8192\n"
        "print(urllib.request.urlopen(sys.argv[1], data, timeout=60).read() == data[::-1])\n"
    )
    assert confined.python(layer, big, url, network="model") == "True\n"
    direct = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)"
    assert confined.python(layer, direct, str(port), network="model") == ""
    held = "import os; print([os.readlink(f.path) for f in os.scandir('/proc/self/fd') if int(f.name) > 3])"
    assert "socket" not in confined.python(layer, held, network="model")
    layer.drop()


# -- whose tree it is


@pytest.mark.skipif(not ROOT, reason="only root can give files to others")
@pytest.mark.req("TREE-10")
def test_files_of_another_owner_can_be_changed_by_root(confined: Bench) -> None:
    """In a tree that belongs to somebody else root's programs write as they would outside; owners are kept."""
    for place in (confined.top, *confined.top.rglob("*")):
        os.lchown(place, 12345, 12345)
    (confined.top / "README.md").chmod(0o600)
    confined.anew()
    layer = confined.open(**{"src/two.py": "pending\n"})
    confined.sh(layer, "echo more >> README.md; rm src/app.py; echo n > src/new")
    out = confined.sh(layer, "stat -c %u README.md src/two.py; grep CapEff /proc/self/status")
    assert out.split() == ["12345", "12345", "CapEff:", "000000000000000b"]
    assert confined.changes(layer) == {"README.md": "changed", "src/app.py": "deleted", "src/new": "added"}


@pytest.mark.skipif(ROOT, reason="root may change it")
def test_a_workspace_of_somebody_else_is_worked_on_in_copies(tmp_path: Path) -> None:
    """No namespace of ours may change files of others."""
    assert found_out(Path("/usr"), tmp_path, os.environ["PATH"]).maker == "copy"


# -- other places


@pytest.mark.req("TREE-10")
def test_uppers_lie_in_memory_where_the_file_system_takes_none(
    confined: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else is the same, checks over the engine's cache too; nothing is left of it."""
    made = found_out(confined.top, confined.top, confined.env["PATH"])
    monkeypatch.setattr(layers, "found_out", lambda *_: replace(made, in_memory=True))
    confined.anew()
    layer = confined.open()
    confined.sh(layer, "echo x > x; rm src/app.py")
    assert confined.changes(layer) == {"x": "added", "src/app.py": "deleted"}
    setup = confined.command(keeps=True)
    confined.sh(setup, "mkdir build; echo s > build/s")
    setup.drop(keep_ignored=True)
    assert confined.sh(confined.command(**{"src/app.py": "2\n"}), "cat build/s src/app.py") == "s\n2\n"
    memory = next(Path("/dev/shm").glob(f"interlock-{os.geteuid()}-*/run-1/one")).parent
    confined.layers.clean("run-1")
    assert not memory.exists()


def _in_container(script: str, bench: Bench, program: str) -> str:
    """What a layer's program printed, in mounts that a script changed first, as those of containers are."""
    code = (
        "import os, subprocess, sys\n"
        "from pathlib import Path\n"
        "from tests.workspace.layers.conftest import Bench\n"
        "from interlock.workspace.layers import surroundings\n"
        "surroundings.SETTLED_S = -1\n"
        "bench = Bench(Path(sys.argv[1]), Path(os.environ['HOME']), 'confined')\n"
        "made = bench.layers.maker()\n"
        "print(made.maker, made.why)\n"
        "print(bench.sh(bench.open(), sys.argv[2]) if made.maker == 'confined' else '')\n"
    )
    who = ["--map-root-user"] if ROOT else ["--map-current-user", "--keep-caps"]
    script += '; exec setpriv --inh-caps=-all --ambient-caps=-all "$@"'
    words = ["unshare", "--user", *who, "--mount", "sh", "-ec", script, "sh"]
    here = Path(__file__).parents[3]
    paths = ":".join([str(here), *(path for path in sys.path if path)])
    done = subprocess.run(
        [*words, sys.executable, "-c", code, str(bench.top), program],
        env={**bench.env, "PYTHONPATH": paths}, cwd=bench.top.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode and "Traceback" not in done.stderr:
        pytest.skip(f"the container cannot be made: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout


_SERVE = (
    "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind('/srv/s'); s.listen(); "
    "s.set_inheritable(True); os.execvp(sys.argv[1], sys.argv[1:])"
)
_CONTAINERS = {
    # what is different there, what a program in a layer does, what it prints
    "a part of /proc is hidden, so that the old one stays, read-only and closed": (
        "mount -t tmpfs x /proc/bus",
        "(echo 1 > /proc/sys/kernel/core_pattern; cat /proc/1/environ; ls /proc/1/root/;"
        'for p in /proc/[0-9]*; do echo x > "$p/root/$PWD/x"; done) 2>/dev/null || true; echo through', "through\n"),
    "the workspace lies on an overlay, so that uppers lie in memory": (
        "mkdir upper work; mount -t overlay -o 'lowerdir=the work,upperdir=upper,workdir=work,userxattr' o 'the work'",
        "echo x > x; cat README.md", "hello\n"),
    "a service listens in a folder that is shown, so that its socket is masked": (
        f'mount -t tmpfs x /srv; set -- python3 -c "{_SERVE}" "$@"',
        "python3 -c \"import socket; print(socket.socket(socket.AF_UNIX).connect_ex('/srv/s'))\"; ls /srv",
        f"{errno.ECONNREFUSED}\ns\n"),
}  # fmt: skip


@pytest.mark.req("TREE-10")
@pytest.mark.parametrize("name", _CONTAINERS)
def test_in_containers(confined: Bench, name: str) -> None:
    """Programs are confined there, too, and what they write stays in the layer."""
    script, program, said = _CONTAINERS[name]
    told = _in_container(script, confined, program)
    assert told.split("\n", 1)[1] == f"{said}\n"
    assert not (confined.top / "x").exists() and not (confined.top.parent / "upper/x").exists()


@pytest.mark.req("RUN-20")
def test_an_interlock_inside_of_a_layer_works_in_copies_and_is_as_confined(confined: Bench) -> None:
    """No second layer is to be had there, and none is needed; the outer run is not seen."""
    put(confined.top / ".interlock/runs/r/journal.jsonl", "outer")
    here = Path(__file__).parents[3]
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from tests.workspace.layers.conftest import Bench\n"
        "bench = Bench(Path('.').resolve(), Path(os.environ['HOME']), 'confined', {'mode': 'strict'})\n"
        "made = bench.layers.maker()\n"
        "layer = bench.open('inner')\n"
        "print(made.maker, made.confined, layer.confined, os.path.exists('.interlock/runs/r'))\n"
        "bench.sh(layer, 'echo x > x')\n"
        "print(bench.changes(layer))\n"
    )
    shows = (str(here), *(path for path in sys.path if "site-packages" in path))
    confined.env["PYTHONPATH"] = ":".join([str(here / "src"), *shows])
    layer = confined.open(needs=Needs(shows=shows))
    done = confined.run(layer, [sys.executable, "-c", code])
    assert done.stdout == "copy True True False\n{'x': 'added'}\n", done.stderr
    assert confined.changes(layer) == {}


# -- how layers are made


@pytest.mark.req("TREE-11")
def test_the_mode_decides(confined: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Off is a copy; where the kernel refuses: strict is an error with the remedy, auto a copy that says so, and a
    workspace that was confined before is an error that names the setting."""
    off = Layers(confined.trees, SandboxSettings(mode="off"), confined.env).maker()
    assert (off.maker, off.confined) == ("copy", False) and off.cost_bytes > 0
    confined.anew(mode="strict")
    assert confined.open().confined
    monkeypatch.setattr(layers, "found_out", lambda top, *_: Making("copy", "EPERM", "Do this.", "profile", top=top))
    for mode, setting in (("strict", "auto"), ("auto", "off")):
        confined.anew(mode=mode)
        with pytest.raises(ConfigInvalid) as refused:
            confined.layers.maker()
        assert refused.value.found == "EPERM" and f'mode = "{setting}"' in (refused.value.remedy or "")
    (confined.top / ".interlock/layers/confined").unlink()
    confined.anew(mode="auto")
    made = confined.layers.maker()
    assert (made.maker, made.confined, made.remedy, made.profile) == ("copy", False, "Do this.", "profile")
    assert not confined.open("copied").confined


_REFUSED = {
    "bwrap: Creating new namespace failed: Operation not permitted": "copy",
    "bwrap: setting up uid map: Permission denied": "copy",
    "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged": "copy",
    "bwrap: Can't make overlay mount on /newroot/x with options y: Invalid argument": "copy",
    "bwrap: Can't mkdir /newroot/x: No space left on device": "error",
    "bwrap: Unknown option --disable-userns": "error",
}


@pytest.mark.req("TREE-11")
@pytest.mark.parametrize("said", list(_REFUSED))
def test_only_the_kernels_own_refusal_means_copies(said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything else that keeps bubblewrap from working is an error."""
    fake = put(tmp_path / "bin/bwrap", f'#!/bin/sh\necho "{said}" >&2; exit 1\n', 0o755)
    monkeypatch.setattr(bubblewrap, "_programs", lambda path: iter([str(fake)]))
    monkeypatch.setattr(bubblewrap, "MEMORY", tmp_path / "none")
    top = tmp_path / "w"
    top.mkdir()
    before = top.stat().st_mtime_ns
    if _REFUSED[said] == "copy":
        refused = found_out(top, top / ".interlock", "/usr/bin:/bin")
        assert refused.maker == "copy" and refused.remedy and said[7:40] in refused.why
    else:
        with pytest.raises(WorkspaceFailed):
            found_out(top, top / ".interlock", "/usr/bin:/bin")
    assert not list(top.iterdir()) and top.stat().st_mtime_ns == before, "whoever only looks leaves no trace"


def test_ubuntus_restriction_is_met_with_a_profile_and_never_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile allows it to bubblewrap alone."""
    monkeypatch.setattr(bubblewrap, "_switch", lambda name: "1" if "apparmor" in name else "")
    remedy, profile = bubblewrap._remedy("/opt/x y/bwrap")
    assert '"/opt/x y/bwrap"' in profile and "userns," in profile
    assert "apparmor_parser" in remedy and "sysctl" not in remedy


def test_an_old_bubblewrap_is_passed_over(tmp_path: Path) -> None:
    """And where there is no other, that is said, with what to install."""
    put(tmp_path / "bwrap", "#!/bin/sh\necho bubblewrap 0.8.0\n", 0o755)
    assert str(tmp_path / "bwrap") not in list(bubblewrap._programs(str(tmp_path)))
