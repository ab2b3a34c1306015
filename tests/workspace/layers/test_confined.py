"""What a confined program sees and keeps: HOME, logins, temporary files, processes, network; and when it is so."""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from interlock.errors import ConfigInvalid, WorkspaceFailed
from interlock.settings import SandboxSettings
from interlock.workspace.layers import bubblewrap, layers
from interlock.workspace.layers.bubblewrap import Making, found_out
from interlock.workspace.layers.layers import Layers
from interlock.workspace.values import Needs, RemarkKind

from .conftest import Bench, MakeBench, put, repository

ROOT = os.geteuid() == 0


# -- HOME


@pytest.mark.req("TREE-10")
def test_home_is_private_but_for_an_allow_list(confined: Bench) -> None:
    """Programs and downloads of tool chains, git's harmless settings; no keys and no other settings."""
    home = confined.home
    for name in (
        ".ssh/id",
        ".aws/credentials",
        ".netrc",
        ".npmrc",
        ".config/gh/hosts.yml",
        ".git-credentials",
        "notes",
    ):
        put(home / name, "secret")
    for name in (".cargo/credentials.toml", ".m2/settings.xml", ".gradle/gradle.properties", ".cache/other/x"):
        put(home / name, "secret")
    put(home / ".cargo/bin/tool", "#!/bin/sh\necho tool\n", 0o755)
    put(home / ".cargo/registry/index", "cached")
    put(home / ".cache/pip/wheel", "cached")
    put(home / ".config/git/ignore", "*.swp\n")
    put(
        home / ".gitconfig",
        '[user]\n\tname = Ann \\"A\\"\n[http]\n\textraheader = secret\n[credential]\n\thelper = secret\n',
    )
    layer = confined.open()
    done = confined.run(
        layer, ["sh", "-c", "cd; find . -type f | sort; grep -rl secret . ; git config user.name; .cargo/bin/tool"]
    )
    shown = [line for line in done.out.splitlines() if "/.pyenv/" not in line]
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
    assert confined.run(layer, [str(own)]).out == "mine\n", "a program that is named by its path lies anywhere"
    link = home / ".local/bin/app"
    link.parent.mkdir(parents=True)
    link.symlink_to("../lib/app/bin/app")
    put(home / ".local/lib/app/bin/app", "#!/bin/sh\necho linked\n", 0o755)
    confined.anew()
    assert confined.run(confined.open("two"), [str(link)]).out == "linked\n", "also by a link in a folder that is seen"


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
    assert (
        confined.sh(layer, "ls /tmp/x /var/tmp/x /dev/shm/x 2>/dev/null || echo gone; echo ${TMPDIR-unset}")
        == "gone\nunset\n"
    )


# -- processes


@pytest.mark.req("RUN-12", "TREE-10")
def test_nothing_outlives_the_program(confined: Bench) -> None:
    """A daemon in its own session ends with the program that started it."""
    layer = confined.open()
    mark = f"1000.{os.getpid()}"
    os.mkfifo(layer.exchange / "ready")
    script = f'setsid sh -c "echo ready > ready; exec sleep {mark}" > /dev/null 2>&1 & read line < ready'
    confined.sh(layer, f'cd "$1"; {script}', layer.inside_exchange)
    layer.found({})
    assert mark not in _all_processes()


@pytest.mark.req("RUN-12", "TREE-09")
def test_the_program_ends_with_its_engine_and_how_it_ended_is_remembered(confined: Bench) -> None:
    """An engine that is killed takes the program along; one that had ended has left its exit."""
    layer = confined.open()
    assert layer.exit_file is not None
    confined.sh(layer, "exit 7", check=False)
    assert json.loads(layer.exit_file.read_text().splitlines()[-1]) == {"exit-code": 7}
    os.mkfifo(layer.exchange / "started")
    mark = f"2000.{os.getpid()}"
    wrapped = layer.wrap(
        ["sh", "-c", f'echo s > "$1/started"; exec sleep {mark}', "sh", layer.inside_exchange], confined.env
    )
    starter = "import subprocess, sys; subprocess.run(sys.argv[2:], pass_fds=[int(sys.argv[1])])"
    (status,) = wrapped.pass_fds
    engine = subprocess.Popen(
        [sys.executable, "-c", starter, str(status), *wrapped.argv], env=dict(wrapped.env), pass_fds=[status]
    )
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
    assert mark not in _all_processes() and "exit-code" not in layer.exit_file.read_text()


def test_a_program_that_cannot_be_started_says_so(confined: Bench) -> None:
    """As a shell does; signals are as for any new program, and its environment is what it was given."""
    layer = confined.open()
    done = confined.run(layer, ["no-such-program"])
    assert done.code == 127 and "'no-such-program' cannot be started" in done.err
    code = "import os, signal; print(signal.getsignal(signal.SIGPIPE) == 0, sorted(os.environ))"
    names = confined.run(layer, ["env"], env={"ODD": "a\nb"}).out
    assert "ODD=a\nb" in names and "LC_CTYPE" not in names
    assert confined.python(layer, code)


# -- network


class _Server(BaseHTTPRequestHandler):
    met: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.met.append(f"{self.command} {self.path} {self.headers.get('Host')} {self.headers.get('Proxy-Connection')}")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"served\n")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[::-1])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> object:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield served
        served.shutdown()


_GET = (
    "import os, sys, urllib.request, urllib.error\n"
    "for url in sys.argv[1:]:\n"
    "    try: print(urllib.request.urlopen(url, timeout=20).read().decode().strip())\n"
    "    except urllib.error.HTTPError as e: print(e.code, e.read().decode().strip())\n"
    "    except OSError as e: print('no way')\n"
)


@pytest.mark.req("TREE-10")
def test_the_network_is_open_cut_or_leads_to_the_model_alone(confined: Bench, server: ThreadingHTTPServer) -> None:
    """A model of this machine is found at its own address; what was asked for in vain is told."""
    port = server.server_address[1]
    url, other = f"http://127.0.0.1:{port}/x", "http://example.com/y"
    layer = confined.open(needs=Needs(hosts=(f"127.0.0.1:{port}", "api.example.org")))
    assert confined.python(layer, _GET, url) == "served\n"
    assert confined.python(layer, _GET, url, network="none") == "no way\n"
    assert layer.found({}).remarks == ()
    for _ in range(2):
        told = confined.python(layer, _GET, url, other, network="model").splitlines()
        assert told[0] == "served" and told[1].startswith("403 interlock: example.com:80 is not among")
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
    layer = confined.open(**{"p": "pending\n"})
    confined.sh(layer, "echo x > x; rm src/app.py; cat p; git commit -qam x")
    assert confined.changes(layer) == {"x": "added", "src/app.py": "deleted"}
    assert not (confined.top / ".interlock/layers/run-1/one/top").exists()
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


@pytest.mark.req("TREE-10")
def test_a_masked_proc_is_used_as_it_is(confined: Bench) -> None:
    """Where a container hides parts of /proc the old one stays: read-only, and other processes are closed in it."""
    program = (
        "(echo 1 > /proc/sys/kernel/core_pattern; cat /proc/1/environ; ls /proc/1/root/;"
        'for p in /proc/[0-9]*; do echo x > "$p/root/$PWD/out"; done) 2>/dev/null || true; echo through'
    )
    told = _in_container("mount -t tmpfs x /proc/bus", confined, program)
    assert told.splitlines()[1:] == ["through", ""]
    assert not (confined.top / "out").exists()


@pytest.mark.req("TREE-10")
def test_on_an_overlay_uppers_lie_in_memory(confined: Bench) -> None:
    """As in a container."""
    for name in ("upper", "work"):
        (confined.top.parent / name).mkdir()
    words = 'lowerdir="the work",upperdir=upper,workdir=work,userxattr'
    told = _in_container(f"mount -t overlay -o {words} overlay 'the work'", confined, "echo x > x; cat README.md")
    assert told.splitlines()[1:] == ["hello", ""]
    assert not (confined.top.parent / "upper/x").exists()


def test_sockets_in_the_workspace_lead_nowhere(make: MakeBench) -> None:
    """A service's socket in the workspace cannot be connected to; one of the program's own can."""
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
        top = Path(short).resolve() / "w"
        bench = make(repository(top))
        server.bind(str(top / "service"))
        server.listen()
        code = (
            "import socket\n"
            "own = socket.socket(socket.AF_UNIX); own.bind('own'); own.listen()\n"
            "for name in ('own', 'service'):\n"
            "    try: socket.socket(socket.AF_UNIX).connect(name); print(name)\n"
            "    except OSError: print('refused')\n"
        )
        layer = bench.open()
        assert bench.python(layer, code).split() == ["own", "refused"]
        assert bench.changes(layer) == {}
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(top / "service"))


@pytest.mark.req("TREE-10")
def test_sockets_elsewhere_are_masked(confined: Bench) -> None:
    """A folder that is shown may hold one: a read-only mount does not keep anybody from connecting."""
    serve = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind('/srv/s'); s.listen(); "
        "s.set_inheritable(True); os.execvp(sys.argv[1], sys.argv[1:])"
    )
    script = f'mount -t tmpfs x /srv; set -- python3 -c "{serve}" "$@"'
    reach = "import socket; print(socket.socket(socket.AF_UNIX).connect_ex('/srv/s'))"
    told = _in_container(script, confined, f'python3 -c "{reach}"; ls /srv')
    assert told.split()[-2:] == [str(errno.ECONNREFUSED), "s"]


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
    confined.env["PYTHONPATH"] = ":".join(
        [str(here), str(here / "src"), *(path for path in sys.path if "site-packages" in path)]
    )
    shows = (str(here), *(path for path in sys.path if "site-packages" in path))
    layer = confined.open(needs=Needs(shows=shows))
    done = confined.run(layer, [sys.executable, "-c", code])
    assert done.out == "copy True True False\n{'x': 'added'}\n", done.err
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
    assert (made.maker, made.confined, made.why, made.remedy, made.profile) == (
        "copy", False, "EPERM", "Do this.", "profile",
    )  # fmt: skip
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
    fake = put(
        tmp_path / "bin/bwrap",
        f'#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap 0.11.0 && exit\necho "{said}" >&2; exit 1\n',
        0o755,
    )
    monkeypatch.setattr(bubblewrap, "_programs", lambda path: iter([str(fake)]))
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


def _all_processes() -> str:
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                found.append((place / "cmdline").read_bytes())
            except OSError:
                continue
    return b"\n".join(found).decode(errors="replace")
