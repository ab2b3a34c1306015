"""What a confined program sees and keeps: HOME, logins, temporary files, processes, network."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.errors import ConfigInvalid
from interlock.workspace import Confinement, Mode, Network, Workspace, open_layers
from interlock.workspace.layers import making, probe
from interlock.workspace.layers.folder import LayerFolder
from interlock.workspace.layers.relay import SOCKET_NAME, relay
from tests.own_python import PLACES

from .conftest import CONFINED, Bench, MakeBench, environment


def put(place: Path, text: str = "x", mode: int = 0o644) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(mode)
    return place


@pytest.mark.req("LY-11")
async def test_home_is_private_but_for_what_builds_need(confined: Bench) -> None:
    """Keys are not there, tool chains and caches are; what is written to them, or to HOME, is dropped."""
    home = confined.home
    for name in (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".git-credentials", "notes"):
        put(home / name, "secret")
    put(home / ".cargo/bin/tool", "#!/bin/sh\necho tool\n", 0o755)
    put(home / ".cargo/credentials.toml", "secret")
    put(home / ".cache/pip/wheel", "cached")
    put(home / ".cache/other/x", "secret")
    put(home / ".config/git/ignore", "*.swp\n")
    layer = await confined.layer()
    out = confined.sh(
        layer,
        "cd; find . -type f | sort; cat .cargo/bin/tool; cat .cargo/credentials.toml 2>&1 || true;"
        "echo new > .cache/pip/new; echo more >> .cargo/bin/tool; echo own > mine; git config --global a.b c",
    )
    assert "secret" not in out
    shown = {line for line in out.splitlines() if line.startswith("./") and "credentials" not in line}
    assert shown == {"./.cargo/bin/tool", "./.cache/pip/wheel", "./.config/git/ignore", "./.gitconfig"}
    assert confined.sh(layer, "cat ~/mine; tail -1 ~/.cargo/bin/tool") == "own\nmore\n", "a repair finds it again"
    assert (home / ".cargo/bin/tool").read_text() == "#!/bin/sh\necho tool\n"
    assert "a.b" not in (home / ".gitconfig").read_text() and not (home / ".cache/pip/new").exists()
    assert confined.sh(await confined.layer("run-2"), "ls ~/mine 2>/dev/null || echo gone") == "gone\n"


@pytest.mark.req("LY-11")
async def test_more_can_be_shown_and_programs_on_path_are(confined: Bench, tmp_path: Path) -> None:
    """Named files and folders of any hidden place; what links in a folder of PATH lead to."""
    home = confined.home
    put(home / "tools/data", "data")
    put(tmp_path / "elsewhere/deep/file", "file")
    put(tmp_path / "elsewhere/deep/other", "other")
    put(home / "prefix/lib/node_modules/app/cli.sh", "#!/bin/sh\ncat $(dirname $(realpath $0))/lib.txt\n", 0o755)
    put(home / "prefix/lib/node_modules/app/lib.txt", "all of it\n")
    put(home / "prefix/secret", "secret")
    (home / "bin").mkdir()
    (home / "bin/app").symlink_to("../prefix/lib/node_modules/app/cli.sh")
    confined.env["PATH"] = f"{home / 'bin'}:{confined.env['PATH']}"
    layers = open_layers(confined.workspace, environ=confined.env, maker=confined.maker)
    shown = (home / "tools", tmp_path / "elsewhere/deep/file", tmp_path / "missing")
    layer = await layers.make("run-1", Confinement(home=home, shown=shown))
    assert confined.sh(layer, "app; cat ~/tools/data; echo x > ~/tools/new") == "all of it\ndata"
    out = confined.sh(layer, 'cat "$1/file"; ls "$1" ~/prefix', str(tmp_path / "elsewhere/deep"))
    assert "secret" not in out and "other" not in out and "file" in out
    assert not (home / "tools/new").exists()
    done = confined.run(layer, [str(put(tmp_path / "own.sh", "#!/bin/sh\necho mine\n", 0o755))])
    assert done.out == "mine\n", "a program named by its path can be started wherever it lies"
    (home / "tools/link").symlink_to("/bin/echo")
    assert confined.run(layer, [str(home / "tools/link"), "x"]).out == "x\n", "also a link in a folder that is shown"


@pytest.mark.req("LY-11", "LY-33")
async def test_the_workspaces_own_environment_has_its_python_and_its_links_show_nothing_else(confined: Bench) -> None:
    """Wherever in HOME that Python lies; links that a program left among the programs on PATH lead nowhere."""
    home, root = confined.home, confined.root
    put(home / "odd/place/bin/python3.12", "#!/bin/sh\ncat $(dirname $(realpath $0))/../lib/python3.12/os.py\n", 0o755)
    put(home / "odd/place/lib/python3.12/os.py", "a whole Python\n")
    put(home / "odd/place/secret", "secret")
    key = put(home / ".ssh/id", "secret", 0o600)
    programs = root / ".venv/bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(home / "odd/place/bin/python3.12")
    (root / ".gitignore").write_text(".venv/\ntools\n")
    layer = await confined.layer()
    assert confined.sh(layer, ".venv/bin/python; ls ~/odd/place") == "a whole Python\nbin\nlib\n"
    base = await confined.workspace.snapshot()
    confined.sh(layer, 'ln -s "$1" .venv/bin/key; ln -s "$2" tools; ln -s "$2" .venv/lib', str(key), str(key.parent))
    await layer.take_ignored((await layer.found(base)).ignored)
    assert (programs / "key").read_text() == (root / "tools/id").read_text() == "secret", "outside it is there"
    confined.env["PATH"] = f"{programs}:{root / 'tools'}:{confined.env['PATH']}"
    confined.layers = open_layers(confined.workspace, environ=confined.env, maker=confined.maker)
    again = await confined.layer("run-2")
    assert confined.sh(again, "python; cat .venv/bin/key tools/id ~/.ssh/id || true") == "a whole Python\n"


@pytest.mark.req("LY-11")
async def test_a_refreshed_login_comes_back_and_nothing_else(confined: Bench) -> None:
    """Only tokens, only into a file that the user did not change meanwhile, with its mode."""
    home = confined.home
    login = put(home / ".claude/.credentials.json", json.dumps({"oauth": {"accessToken": "1", "scopes": ["a"]}}), 0o600)
    settings = put(home / ".claude/settings.json", json.dumps({"hooks": {}}))
    gone = home / ".codex/auth.json"
    confinement = Confinement(home=home, login=(login, settings, gone))
    layer = await confined.layer(confinement=confinement)
    mode = confined.sh(layer, "stat -c '%a' ~/.claude ~/.claude/.credentials.json; ls -d ~/.codex 2>/dev/null || true")
    assert mode.split() == ["700", "600"]
    await layer.bring_back_logins()
    assert json.loads(login.read_text())["oauth"]["accessToken"] == "1"
    evil = {"hooks": {"Stop": "curl evil"}, "mcpServers": {"x": {"command": "evil"}}}
    fresh = {"oauth": {"accessToken": "2", "scopes": ["a", "everything"], "expiresAt": 5}, **evil}
    confined.sh(
        layer,
        'printf %s "$1" > ~/.claude/.credentials.json; printf %s "$2" > ~/.claude/settings.json; mkdir -p ~/.codex;'
        "echo x > ~/.codex/auth.json",
        json.dumps(fresh),
        json.dumps(evil),
    )
    await layer.bring_back_logins()
    assert json.loads(login.read_text()) == {"oauth": {"accessToken": "2", "scopes": ["a"], "expiresAt": 5}}
    assert stat.S_IMODE(login.stat().st_mode) == 0o600
    assert json.loads(settings.read_text()) == {"hooks": {}}
    assert not gone.exists()
    confined.sh(layer, "sed -i s/2/3/ ~/.claude/.credentials.json")
    again = await confined.layers.find("run-1", confinement)
    assert again is not None
    await again.bring_back_logins()
    assert json.loads(login.read_text())["oauth"]["accessToken"] == "3", "and again, after a crash too"
    login.write_text(json.dumps({"oauth": {"accessToken": "the user's own"}}))
    confined.sh(layer, "sed -i s/3/4/ ~/.claude/.credentials.json")
    await layer.bring_back_logins()
    assert json.loads(login.read_text())["oauth"]["accessToken"] == "the user's own"
    confined.sh(layer, "rm ~/.claude/.credentials.json; mkfifo ~/.claude/.credentials.json")
    await layer.bring_back_logins()


async def test_without_a_home_the_users_is_hidden(confined: Bench) -> None:
    """A program that gets none finds an empty folder there; a login elsewhere is a private copy in its place."""
    put(confined.home / ".ssh/id", "secret")
    login = put(confined.root.parent / "codex home/auth.json", json.dumps({"access": "1"}), 0o600)
    layer = await confined.layer(confinement=Confinement(login=(login,)))
    assert confined.sh(layer, 'ls -a ~ | wc -l; cat "$1"', str(login)) == '2\n{"access": "1"}'
    confined.sh(layer, 'echo \'{"access": "2"}\' > "$1"', str(login))
    await layer.bring_back_logins()
    assert json.loads(login.read_text()) == {"access": "2"}


@pytest.mark.req("LY-11")
async def test_temporary_folders_are_private(confined: Bench) -> None:
    """/tmp and /var/tmp are empty at first, writable, kept for the layer's next program, and nobody else's."""
    layer = await confined.layer()
    top = Path(*confined.root.parts[:3])
    ours = [Path(sys.prefix).parts[2]] if sys.prefix.startswith("/tmp/") else []  # the tests' Python is shown
    names = confined.sh(layer, "ls /tmp /var/tmp; echo 1 > /tmp/one; echo 2 > /var/tmp/two; mktemp >/dev/null").split()
    assert set(names) <= {"/tmp:", "/var/tmp:", top.name, *ours}
    assert confined.sh(layer, "cat /tmp/one /var/tmp/two") == "1\n2\n"
    assert not Path("/tmp/one").exists() and not Path("/var/tmp/two").exists()
    assert confined.sh(await confined.layer("run-2"), "ls /tmp/one 2>/dev/null || echo gone") == "gone\n"


@pytest.mark.req("LY-11")
async def test_nothing_outlives_the_program(confined: Bench) -> None:
    """A daemon in its own session ends with the program that started it."""
    layer = await confined.layer()
    mark = f"1000.{os.getpid()}{CONFINED.index(confined.maker)}"
    os.mkfifo(layer.exchange / "ready")
    script = f'setsid sh -c "echo ready > $1/ready; exec sleep {mark}" > /dev/null 2>&1 & read line < "$1/ready"'
    confined.sh(layer, script, str(layer.exchange))
    assert mark not in _all_processes()


@pytest.mark.req("LY-11", "LY-34", "LY-38")
async def test_the_program_ends_with_its_engine(confined: Bench) -> None:
    """An engine that is killed takes the program along, and no exit is left; one that had ended keeps its exit."""
    layer = await confined.layer()
    mark = f"interlock-test-{os.getpid()}-{confined.maker}"
    script = 'echo started > "$1/started"; exec python3 -c "import time; time.sleep(1000)" ' + mark
    words = layer.command_line(["sh", "-c", script, "sh", str(layer.exchange)], cwd=layer.root, env=confined.env)
    os.mkfifo(layer.exchange / "started")
    starter = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    engine = subprocess.Popen([sys.executable, "-c", starter, *words], env=confined.env)
    assert (layer.exchange / "started").read_text() == "started\n"
    launcher = int(_children(engine.pid)[0])
    handle = os.pidfd_open(launcher)
    engine.kill()
    engine.wait()
    _wait_for_end(handle)
    assert mark not in _all_processes()
    assert layer.exit() is None


@pytest.mark.req("LY-34")
async def test_requests_to_end_reach_the_program_and_not_its_launcher(confined: Bench) -> None:
    """TERM to everything: the program cleans up and ends as it likes, and that is its exit."""
    layer = await confined.layer()
    os.mkfifo(layer.exchange / "ready")
    script = "trap 'echo cleaned up; exit 9' TERM; echo ready > \"$1/ready\"; while :; do sleep 0.01; done"
    words = layer.command_line(["sh", "-c", script, "sh", str(layer.exchange)], cwd=layer.root, env=confined.env)
    program = subprocess.Popen(words, env=confined.env, stdout=subprocess.PIPE, start_new_session=True)
    assert (layer.exchange / "ready").read_text() == "ready\n"
    for number in _descendants(program.pid):
        os.kill(number, signal.SIGTERM)
    out, _ = program.communicate()
    left = layer.exit()
    assert (out, program.returncode) == (b"cleaned up\n", 9)
    assert left is not None and left.code == 9


@pytest.mark.req("LY-11")
async def test_no_descriptor_and_no_terminal_come_along(confined: Bench) -> None:
    """Only the three standard ones are open; there is no controlling terminal; signals have their default effect."""
    layer = await confined.layer()
    read, write = os.pipe()
    os.set_inheritable(read, True)
    code = (
        "import os, signal;"
        "print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1], os.getsid(0) > 0, "
        "open('/proc/self/status').read().split('SigIgn:')[1].split()[0])"
    )
    words = layer.command_line([sys.executable, "-I", "-S", "-c", code], cwd=layer.root, env=confined.env)
    program = subprocess.Popen(words, env=confined.env, stdout=subprocess.PIPE, text=True, close_fds=False)
    out, _ = program.communicate()
    os.close(read)
    os.close(write)
    handles, session, ignored = out.replace("[0, 1, 2]", "std").split()
    assert (handles, session) == ("std", "True"), "a session whose leader is in there too"
    # Python itself ignores SIGPIPE and SIGXFSZ; the two after 31 are the C library's.
    assert int(ignored, 16) & 0x7FFFFFFF & ~(1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)) == 0
    assert "no" in confined.sh(layer, "(: < /dev/tty) 2>/dev/null && echo yes || echo no")


async def test_the_launchers_first_process_cannot_be_traced(repository: Path, make_bench: MakeBench) -> None:
    """Nobody inside looks into it or stops it: it waits for the program's end."""
    bench = make_bench(repository, "namespaces")
    code = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.ptrace(16, 1, None, None), ctypes.get_errno())\n"
        "try: print(os.readlink('/proc/1/fd/0'), os.readlink('/proc/1/cwd'))\n"
        "except PermissionError: print('hidden')\n"
    )
    assert bench.python(await bench.layer(), code).split() == ["-1", "1", "hidden"]


@pytest.mark.req("LY-11")
async def test_the_network_can_be_cut(confined: Bench) -> None:
    """Without network there is a loopback of its own and nothing else."""
    server = socket.create_server(("127.0.0.1", 0))
    port = str(server.getsockname()[1])
    code = (
        "import socket, sys\n"
        "own = socket.create_server(('127.0.0.1', 0)); socket.create_connection(own.getsockname()); print('own')\n"
        "try: socket.create_connection(('127.0.0.1', int(sys.argv[1])), 1); print('out')\n"
        "except OSError: print('cut')\n"
    )
    cut = await confined.layer("run-1", Confinement(home=confined.home, network=Network.NONE))
    assert confined.python(cut, code, port).split() == ["own", "cut"]
    assert confined.python(await confined.layer("run-2"), code, port).split() == ["own", "out"]
    server.close()


@pytest.mark.req("LY-11")
async def test_the_models_hosts_alone_can_be_reached(confined: Bench) -> None:
    """With the relay, an allowed host is reached through the proxy that the environment names, and no other is."""
    server = socket.create_server(("127.0.0.1", 0))
    host = f"localhost:{server.getsockname()[1]}"
    layer = await confined.layer(confinement=Confinement(home=confined.home, network=Network.MODEL, hosts=(host,)))
    code = (
        "import os, socket, sys\n"
        "place, _, port = os.environ['https_proxy'].removeprefix('http://').partition(':')\n"
        "for host in (sys.argv[1], 'example.com:443'):\n"
        "    with socket.create_connection((place, int(port))) as s:\n"
        "        s.sendall(f'CONNECT {host} HTTP/1.1\\r\\n\\r\\n'.encode()); print(s.recv(100).split()[1].decode())\n"
    )
    import asyncio

    async with relay((host,), layer.exchange / SOCKET_NAME):
        done = await asyncio.to_thread(confined.python, layer, code, host)
    server.close()
    assert done.split() == ["200", "403"]


@pytest.mark.req("LY-14")
async def test_the_tree_below_is_live(confined: Bench) -> None:
    """A person's edit is seen by a program that has not touched the file, while it runs."""
    layer = await confined.layer()
    for name in ("ready", "go"):
        os.mkfifo(layer.exchange / name)
    script = 'cat README.md; echo mine > own; echo x > "$1/ready"; read line < "$1/go"; cat README.md new own'
    words = layer.command_line(["sh", "-ec", script, "sh", str(layer.exchange)], cwd=layer.root, env=confined.env)
    program = subprocess.Popen(words, env=confined.env, stdout=subprocess.PIPE)
    (layer.exchange / "ready").read_text()
    (confined.root / "README.md").write_text("a person's\n")
    (confined.root / "new").write_text("theirs too\n")
    (layer.exchange / "go").write_text("go\n")
    out, _ = program.communicate()
    assert out == b"hello\na person's\ntheirs too\nmine\n"


async def test_the_engines_folder_is_another_one_inside(confined: Bench) -> None:
    """What a team shares can be read, the run's folders are not there, and what is written there is the layer's."""
    put(confined.root / ".interlock/agents/qa.md", "role")
    put(confined.root / ".interlock/runs/r/journal.jsonl", "{}")
    layer = await confined.layers.make("run-1", confined.confinement, parent=b'{"run": "outer"}')
    out = confined.sh(
        layer,
        "cat .interlock/agents/qa.md .interlock/parent.json; ls .interlock; mkdir .interlock/runs;"
        "echo j > .interlock/runs/j;"
        "for i in agents/qa.md agents/new parent.json; do (echo x > .interlock/$i) 2>/dev/null && echo WROTE; done;"
        "rm -f .interlock/parent.json 2>/dev/null && echo REMOVED; mv .interlock away 2>/dev/null && echo MOVED; true",
    )
    assert out.startswith('role{"run": "outer"}')
    assert out.replace('role{"run": "outer"}', "").split() == ["agents", "layers", "parent.json"]
    assert not (confined.root / ".interlock/runs/j").exists()
    base = await confined.workspace.snapshot()
    assert (await layer.found(base)).changes == ()
    again = await confined.layers.find("run-1", confined.confinement, parent=b"other")
    assert again is not None and confined.sh(again, "cat .interlock/parent.json") == "other"


async def test_a_nested_interlock_works_in_copies_and_counts_as_confined(confined: Bench) -> None:
    """Inside a confined layer no further namespaces are to be had, and none are needed."""
    layer = await confined.layers.make("run-1", replace(confined.confinement, shown=PLACES), parent=b"{}")
    code = (
        "import asyncio, os, sys; from pathlib import Path; from interlock.workspace import *\n"
        "async def main():\n"
        "    workspace = Workspace(Path('.'), Path('.interlock'))\n"
        "    base = await workspace.snapshot()\n"
        "    layers = open_layers(workspace, environ=os.environ)\n"
        "    layer = await layers.make('inner-1', Confinement(mode=Mode.STRICT), parent=b'{}')\n"
        "    import subprocess\n"
        "    words = layer.command_line(['sh', '-c', 'echo x > x'], cwd=layer.root, env=os.environ)\n"
        "    subprocess.run(words, check=True)\n"
        "    found = await layer.found(base)\n"
        "    print(layers.probe().maker, layer.confined, [c.path for c in found.changes], layer.exit().code)\n"
        "    await bring_in(workspace, await layer.work(base, ['x']), label='inner')\n"
        "asyncio.run(main())\n"
    )
    paths = [path for path in sys.path if path]
    confined.env["PYTHONPATH"] = ":".join(paths)
    done = confined.run(layer, [sys.executable, "-c", code])
    assert done.out.split("\n")[0] == "copy True ['x'] 0", done.err
    assert confined.sh(layer, "cat x") == "x\n"
    assert not (confined.root / "x").exists()


@pytest.mark.req("LY-10")
async def test_uppers_lie_in_memory_where_the_file_system_takes_none(
    confined: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else is the same; the layer is found again, and dropped without a trace."""
    found = probe.probed(confined.root, confined.workspace.home, confined.env, confined.maker)
    monkeypatch.setattr(making, "probed", lambda *_: replace(found, in_memory=True))
    base = await confined.workspace.snapshot()
    layer = await confined.layer()
    confined.sh(layer, "echo x > x; rm src/app.py; mkdir node_modules; echo l > a.log")
    assert await confined.found(layer, base) == {"x": "added", "src/app.py": "deleted"}
    assert not (confined.root / ".interlock/layers/run-1/upper").exists()
    again = await confined.layers.find("run-1", confined.confinement)
    assert again is not None
    assert (await confined.bring(again, base)).paths == ("src/app.py", "x")
    await again.take_ignored(["a.log"])
    assert (confined.root / "a.log").read_text() == "l\n", "across file systems too"
    memory = LayerFolder(confined.workspace.home / "layers", "run-1").memory
    assert memory.is_dir()
    await layer.drop()
    assert not memory.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
@pytest.mark.req("LY-14")
async def test_files_of_another_owner_can_be_changed_by_root(repository: Path, make_bench: MakeBench) -> None:
    """In a tree that belongs to somebody else root's programs write as they would outside; owners are kept."""
    for place in (repository, *repository.rglob("*")):
        os.lchown(place, 12345, 12345)
    (repository / "README.md").chmod(0o600)
    bench = make_bench(repository, "namespaces")
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    bench.sh(layer, "echo more >> README.md; rm src/app.py; echo n > src/new; stat -c %u README.md")
    assert await bench.found(layer, base) == {"README.md": "modified", "src/app.py": "deleted", "src/new": "added"}
    await bench.bring(layer, base)
    status = (repository / "README.md").stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (12345, 0o600)


@pytest.mark.parametrize(
    "name", ["with space", "co:lon", "com,ma", "back\\slash", "quo'te\"s", "ünï", "new\nline", "per%cent"]
)
@pytest.mark.parametrize("maker", CONFINED)
async def test_the_workspace_may_have_any_name(folder: Path, make_bench: MakeBench, maker: str, name: str) -> None:
    """Paths of the workspace need no escaping."""
    root = folder / name
    root.mkdir()
    (root / "a").write_text("a")
    bench = make_bench(root, maker)
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    assert bench.sh(layer, 'pwd; cat a; echo b > "b c"; echo x > "$1/x"', str(layer.exchange)) == f"{root}\na"
    assert await bench.found(layer, base) == {"b c": "added"}


@pytest.mark.req("LY-11")
@pytest.mark.parametrize("maker", CONFINED)
async def test_sockets_that_are_in_sight_lead_nowhere(make_bench: MakeBench, maker: str) -> None:
    """A service's socket in the workspace cannot be connected to; one of the layer's own can."""
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
        root = Path(short).resolve() / "w"
        root.mkdir()
        server.bind(str(root / "service"))
        server.listen()
        bench = make_bench(root, maker)
        code = (
            "import socket\n"
            "own = socket.socket(socket.AF_UNIX); own.bind('own'); own.listen()\n"
            "for name in ('own', 'service'):\n"
            "    try: socket.socket(socket.AF_UNIX).connect(name); print(name)\n"
            "    except OSError: print('refused')\n"
        )
        assert bench.python(await bench.layer(), code).split() == ["own", "refused"]
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(root / "service"))


@pytest.mark.req("LY-11")
@pytest.mark.parametrize("maker", CONFINED)
async def test_a_socket_in_somebody_elses_closed_folder_hinders_nobody(make_bench: MakeBench, maker: str) -> None:
    """Root sees a socket there, and bubblewrap could not even mask it: nothing that is confined gets there anyway."""
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
        root = Path(short).resolve() / "w"
        closed = root / "closed"
        closed.mkdir(parents=True)
        (root / ".gitignore").write_text("closed/\n")
        server.bind(str(closed / "service"))
        server.listen()
        closed.chmod(0o700 if os.geteuid() == 0 else 0)
        if os.geteuid() == 0:
            os.chown(closed, 65534, 65534)
        bench = make_bench(root, maker)
        code = (
            "import socket\n"
            "try: socket.socket(socket.AF_UNIX).connect('closed/service'); print('connected')\n"
            "except PermissionError: print('refused')\n"
        )
        try:
            assert bench.python(await bench.layer(), code).split() == ["refused"]
        finally:
            closed.chmod(0o700)


@pytest.mark.req("LY-12")
async def test_the_mode_decides(confined: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Off is a copy; strict where nothing confines is refused with the reason and what to do; auto says it."""
    off = await confined.layer("run-1", Confinement(mode=Mode.OFF, home=confined.home))
    assert not off.confined and off.root != confined.root
    strict = await confined.layer("run-2", Confinement(mode=Mode.STRICT, home=confined.home))
    assert strict.confined
    why = probe.Probed(probe.Probe("copy", False, "user namespaces do not work: EPERM", "As root: sysctl x=1."))
    monkeypatch.setattr(making, "probed", lambda *_: why)
    with pytest.raises(ConfigInvalid) as refused:
        await confined.layer("run-3", Confinement(mode=Mode.STRICT))
    assert refused.value.found == "user namespaces do not work: EPERM"
    assert refused.value.remedy == "As root: sysctl x=1."
    auto = await confined.layer("run-3", Confinement(mode=Mode.AUTO))
    assert not auto.confined


@pytest.mark.req("LY-10")
def test_the_probe_says_which_maker_and_why(repository: Path, users_home: Path, tmp_path: Path) -> None:
    """The best that works; an old bubblewrap, or one that fails, is named with its reason."""
    workspace = Workspace(repository, repository / ".interlock")
    env = environment(users_home)
    assert open_layers(workspace, environ=env, maker="copy").probe().maker == "copy"
    with pytest.raises(ConfigInvalid):
        open_layers(workspace, environ=env, maker="magic")
    for script, word in [
        ("#!/bin/sh\necho bubblewrap 0.8.0\n", "older than 0.11"),
        (
            "#!/bin/sh\n[ $1 = --version ] && echo bubblewrap 0.11.0 && exit; echo no permission >&2; exit 1\n",
            "no permission",
        ),
    ]:
        put(tmp_path / "bin/bwrap", script, 0o755)
        probe.forget()
        there = {**env, "PATH": f"{tmp_path / 'bin'}:{env['PATH']}"}
        found = open_layers(workspace, environ=there, maker="bubblewrap").probe()
        assert (found.maker, found.confined) == ("copy", False)
        assert word in found.why
        assert found.remedy
    assert not list((repository / ".interlock").glob("layers/.probe*"))


_PROBE = (
    "import sys, os; from pathlib import Path; from interlock.workspace import *\n"
    "workspace = Workspace(Path(sys.argv[1]), Path(sys.argv[1]) / '.interlock')\n"
    "layers = open_layers(workspace, environ=os.environ, maker=sys.argv[2])\n"
    "print(layers.probe(), flush=True)\n"
    "import asyncio, subprocess\n"
    "async def main():\n"
    "    layer = await layers.make('run-1', Confinement())\n"
    "    line = layer.command_line(['sh', '-c', sys.argv[3]], cwd=layer.root, env=os.environ)\n"
    "    subprocess.run(line, check=True)\n"
    "    await layer.drop()\n"
    "asyncio.run(main())\n"
)


def in_container(script: str, root: Path, maker: str, program: str, env: dict[str, str]) -> str:
    """What a layer's program printed, in mounts that a script changed first, as those of containers are."""
    who = ["--map-root-user"] if os.geteuid() == 0 else ["--map-current-user", "--keep-caps"]
    words = ["unshare", "--user", *who, "--mount", "sh", "-ec", f'{script}; exec "$@"', "sh"]
    words += [sys.executable, "-c", _PROBE, str(root), maker, program]
    env = {**env, "PYTHONPATH": ":".join(path for path in sys.path if path)}
    try:
        done = subprocess.run(words, env=env, cwd=root.parent, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("the program unshare is not installed")
    if "Traceback" not in done.stderr and done.returncode:
        pytest.skip(f"the container cannot be made: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.req("LY-10")
@pytest.mark.parametrize("maker", CONFINED)
def test_a_file_system_that_takes_no_upper_is_noticed(tmp_path: Path, users_home: Path, maker: str) -> None:
    """On an overlay, as in a container, the probe finds by trying that uppers have to lie in memory."""
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    (tmp_path / "lower/README.md").write_text("hello\n")
    script = "mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work,userxattr overlay merged"
    told = in_container(script, tmp_path / "merged", maker, "echo x > x; cat README.md", environment(users_home))
    if f"maker='{maker}'" not in told:
        pytest.skip(told)
    assert "in memory" in told
    assert told.endswith("hello\n")
    assert not (tmp_path / "upper/x").exists()


@pytest.mark.req("LY-10", "LY-11")
@pytest.mark.parametrize("maker", CONFINED)
def test_a_masked_proc_is_used_as_it_is(tmp_path: Path, users_home: Path, maker: str) -> None:
    """Where a container hides parts of /proc, the old one stays: read-only, and other processes are closed in it."""
    root = tmp_path / "work"
    root.mkdir()
    program = (
        "echo 1 > /proc/sys/kernel/core_pattern; ls /proc/1/root/ /proc/1/cwd/; cat /proc/1/environ /proc/keys;"
        "for p in /proc/[0-9]*; do echo x > $p/root/$PWD/out; done 2>/dev/null; ls -d /proc/self/fd"
    )
    told = in_container("mount -t tmpfs x /proc/bus", root, maker, f"({program}) 2>/dev/null", environment(users_home))
    if f"maker='{maker}'" not in told:
        pytest.skip(told)
    assert "/proc is the outer one" in told
    assert told.splitlines()[-1] == "/proc/self/fd"
    assert not (root / "out").exists()


def _all_processes() -> str:
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                found.append((place / "cmdline").read_bytes())
            except OSError:
                continue
    return b"\n".join(found).decode(errors="replace")


def _children(number: int) -> list[str]:
    return Path(f"/proc/{number}/task/{number}/children").read_text().split()


def _descendants(number: int) -> list[int]:
    found = [number]
    for child in _children(number):
        found += _descendants(int(child))
    return found


def _wait_for_end(handle: int) -> None:
    import select

    poll = select.poll()
    poll.register(handle, select.POLLIN)
    assert poll.poll(20_000), "it is still running"
    os.close(handle)
