"""Ways out of a confined layer: what a program in there may try, and what holds it; a page lists them.

Each way is a few lines of Python that run inside, with the names of `PRELUDE`.  They call `out` when they got somewhere
they must not get; an error of the system means that they were held.  None does harm where nothing holds it.
"""

# ruff: noqa: E501 - a program of one line stays one

from __future__ import annotations

from dataclasses import dataclass

PRELUDE = r"""
import ctypes, errno, fcntl, glob, json, os, signal, socket, stat, struct, subprocess, sys

at = json.loads(sys.argv[1])
calls = {
    "x86_64": dict(ptrace=101, mount=165, umount2=166, pivot_root=155, unshare=272, setns=308, keyctl=250, fsopen=430,
                   open_tree=428, mount_setattr=442, clone3=435, process_vm_readv=310, pidfd_getfd=438, bpf=321,
                   open_by_handle_at=304, name_to_handle_at=303, init_module=175, reboot=169, acct=163, request_key=249),
    "aarch64": dict(ptrace=117, mount=40, umount2=39, pivot_root=41, unshare=97, setns=268, keyctl=219, fsopen=430,
                    open_tree=428, mount_setattr=442, clone3=435, process_vm_readv=270, pidfd_getfd=438, bpf=280,
                    open_by_handle_at=265, name_to_handle_at=264, init_module=105, reboot=142, acct=89, request_key=218),
}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *arguments):
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    answer = libc.syscall(ctypes.c_long(calls[name]), *given)
    if answer < 0:
        raise OSError(ctypes.get_errno(), name)
    return answer

def out(why):
    print("OUT: %s" % why, flush=True)
    os._exit(1)

def write(path, text="planted", flags=os.O_WRONLY | os.O_CREAT | os.O_APPEND):
    handle = os.open(path, flags, 0o644)
    os.write(handle, text.encode())
    os.close(handle)

def plant(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write(path)

def tried(*actions):
    for action in actions:
        try:
            action()
        except (OSError, ValueError):
            continue
"""


@dataclass(frozen=True)
class Way:
    id: str
    tried: str
    held: str
    """What holds it."""
    code: str


READ_ONLY = "the rest of the disk is read-only"
HIDDEN = "homes, temporary folders and services are not there"
NO_RIGHTS = "no capabilities, none to be had"
APART = "a process space of its own"
ONE_SPACE = "no user namespace below"
LAYER = "writes to the workspace go to the layer"
ENGINE = "the engine's folder is another one inside"
PROC = "/proc/sys is read-only"
LANDLOCK = "Landlock (Linux 6.12)"

WAYS = (
    Way("link-out", "write through a link that leads out", READ_ONLY, "os.symlink(at['victim'], 'l'); write('l'); out('written')"),
    Way("hard-link", "make a hard link to a file outside, and write to it", READ_ONLY, "os.link(at['victim'], 'h'); write('h'); out('written')"),
    Way("absolute-path", "write, truncate, rename, remove a file outside by its path", READ_ONLY,
        "tried(lambda: (write(at['victim']), out('written')), lambda: (os.truncate(at['victim'], 0), out('truncated')),"
        "lambda: (os.rename(at['victim'], at['victim'] + 'x'), out('renamed')), lambda: (os.unlink(at['victim']), out('removed')),"
        "lambda: (write(at['victim'] + 'new'), out('added')))"),
    Way("attributes", "change mode, times, attributes and flags of a file outside", READ_ONLY,
        "tried(lambda: (os.chmod(at['victim'], 0o777), out('mode')), lambda: (os.utime(at['victim'], (0, 0)), out('times')),"
        "lambda: (os.setxattr(at['victim'], 'user.x', b'x'), out('attribute')),"
        "lambda: (fcntl.ioctl(os.open(at['victim'], os.O_RDONLY), 0x40086602, struct.pack('L', 0x10)), out('flag')))"),
    Way("descriptor", "write by /proc/self/fd to a file that is open for reading", READ_ONLY,
        "p = '/proc/self/fd/%d' % os.open(at['victim'], os.O_RDONLY)\n"
        "tried(lambda: (os.chmod(p, 0o777), out('mode')), lambda: (write(p), out('written')), lambda: (os.link(p, 'h', follow_symlinks=True), out('linked')))"),
    Way("users-tree", "reach the person's own tree by another name", LAYER,
        "for name in ('/proc/1/root', '/proc/self/root', '/proc/1/cwd', '/proc/self/cwd/..', '/..', '/oldroot', '/newroot'):\n"
        "    tried(lambda: write(name + at['workspace'] + '/README.md'))"),
    Way("beside", "read and write beside the workspace", HIDDEN,
        "tried(*(lambda p=p: write(p) for p in (at['beside'], at['secret'], at['home'] + '/.bashrc')))\n"
        "for p in (at['beside'], at['secret']):\n"
        "    if os.path.exists(p) and 'secret' in open(p).read(): out('read ' + p)"),
    Way("keys", "find keys and settings in HOME", HIDDEN,
        "for n in ('.ssh', '.gnupg', '.aws', '.netrc', '.npmrc', '.bash_history', '.git-credentials', '.docker', '.kube', '.config/gh', '.cargo/credentials.toml'):\n"
        "    if os.path.lexists(os.path.join(at['home'], n)): out(n)"),
    Way("other-homes", "look into homes of others", HIDDEN,
        "import pwd\n"
        "seen = [at['home'], at['workspace'], os.path.realpath(sys.executable), *map(os.path.realpath, os.environ['PATH'].split(':'))]\n"
        "for home in ['/root', *glob.glob('/home/*')]:\n"
        "    if os.path.isdir(home) and not any(p.startswith(home + '/') for p in seen) and os.listdir(home): out(home)"),
    Way("unhide", "unmount what hides homes and the engine's folder", NO_RIGHTS,
        "for p in ('/home', '/root', at['home'], at['workspace'] + '/.interlock/runs', '/proc/sys', '/proc', '/dev', at['workspace'], '/tmp'):\n"
        "    tried(lambda: (call('umount2', p.encode(), 2), out(p)))"),
    Way("first-process", "look into the first process: files, environment, memory", APART,
        "for n in ('root', 'cwd', 'environ', 'mem', 'fd', 'maps'):\n"
        "    p = '/proc/1/' + n\n"
        "    tried(lambda: (os.listdir(p) if n in ('root', 'fd') else os.open(p, os.O_RDWR), None)[1])\n"
        "tried(lambda: (at['engine_secret'] in open('/proc/1/environ').read()) and out('environment'))\n"
        "tried(lambda: write('/proc/1/root' + at['victim']))"),
    Way("all-processes", "find the engine among the processes and read its environment", APART,
        "for p in glob.glob('/proc/[0-9]*'):\n"
        "    tried(lambda: (at['engine_secret'] in open(p + '/environ', errors='replace').read()) and out(p))"),
    Way("signals", "signal and stop the engine by its number", APART,
        "n = at['engine']\n"
        "if not os.path.exists('/proc/%d' % n):\n"
        "    tried(lambda: (os.kill(n, 0), out('signalled')), lambda: (os.pidfd_open(n), out('opened')))\n"
        "tried(lambda: os.kill(1, signal.SIGKILL), lambda: os.kill(1, signal.SIGSTOP))\n"
        "if not os.path.exists('/proc/1'): out('killed')"),
    Way("trace", "trace the engine, read its memory, take its descriptors", APART,
        "n = at['engine']\n"
        "if os.path.exists('/proc/%d' % n): sys.exit()\n"
        "tried(lambda: (call('ptrace', 0x4206, n, 0, 0), out('seized')), lambda: (call('pidfd_getfd', os.pidfd_open(n), 0, 0), out('taken')))\n"
        "buffer = ctypes.create_string_buffer(8); one = struct.pack('=QQ', ctypes.addressof(buffer), 8)\n"
        "call('process_vm_readv', n, one, 1, struct.pack('=QQ', 0x400000, 8), 1, 0); out('read')"),
    Way("outlive", "leave a process behind, in a session of its own", APART,
        "subprocess.Popen(['sh', '-c', 'trap \"\" HUP TERM; sleep ' + at['mark']], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)"),
    Way("core-pattern", "have the kernel run a program (core_pattern, modprobe)", PROC,
        "for n in ('kernel/core_pattern', 'kernel/modprobe', 'kernel/hotplug', 'kernel/poweroff_cmd', 'vm/drop_caches', 'fs/binfmt_misc/register', 'user/max_user_namespaces'):\n"
        "    tried(lambda: (os.open('/proc/sys/' + n, os.O_WRONLY), out(n)))"),
    Way("sysrq", "reach the machine by /proc/sysrq-trigger, kcore, kmsg", PROC,
        "for n in ('sysrq-trigger', 'kcore', 'kmsg'):\n"
        "    tried(lambda: (os.open('/proc/' + n, os.O_RDWR if n == 'kcore' else os.O_WRONLY if n[0] == 's' else os.O_RDONLY), out(n)))"),
    Way("sys", "write to /sys: drivers, modules, power", READ_ONLY,
        "for p in glob.glob('/sys/kernel/*') + glob.glob('/sys/power/*') + glob.glob('/sys/module/*/parameters/*')[:50]:\n"
        "    if os.path.isfile(p): tried(lambda: (os.open(p, os.O_WRONLY), out(p)))"),
    Way("cgroup", "leave or reconfigure the control group", READ_ONLY,
        "for p in glob.glob('/sys/fs/cgroup/**/cgroup.procs', recursive=True)[:20] + glob.glob('/sys/fs/cgroup/*/release_agent'):\n"
        "    tried(lambda: (os.open(p, os.O_WRONLY), out(p)))"),
    Way("mount", "mount something, or make mounts writable again", NO_RIGHTS,
        "tried(*(lambda k=k: (call('mount', k, b'/mnt', k, 0, None), out(str(k))) for k in (b'tmpfs', b'proc', b'overlay')))\n"
        "tried(*(lambda p=p: (call('mount', None, p, None, 0x20 | 0x1000, None), out(str(p))) for p in (b'/', b'/proc/sys', b'/etc')))\n"
        "tried(lambda: (call('fsopen', b'tmpfs', 0), out('fsopen')), lambda: (call('open_tree', -100, b'/', 1), out('open_tree')))\n"
        "call('mount', b'/etc', b'/tmp', None, 0x1000, None); out('bind')"),
    Way("root", "change the root (chroot, pivot_root)", NO_RIGHTS,
        "tried(lambda: (os.chroot('/tmp'), out('chroot')), lambda: (call('pivot_root', b'.', b'.'), out('pivot')))"),
    Way("user-namespace", "make a user namespace, to be root in it", ONE_SPACE,
        "tried(lambda: (call('unshare', 0x10000000), out('unshare')))\n"
        "args = struct.pack('=QQQQQQQQ', 0x10000000, 0, 0, 0, 17, 0, 0, 0)\n"
        "pid = call('clone3', args, len(args))\n"
        "os._exit(0) if pid == 0 else out('clone3')"),
    Way("other-namespaces", "make or enter mount, network, process namespaces", NO_RIGHTS,
        "tried(*(lambda f=f: (call('unshare', f), out(hex(f))) for f in (0x20000, 0x40000000, 0x20000000, 0x4000000, 0x8000000)))\n"
        "for p in glob.glob('/proc/*/ns/*'):\n"
        "    tried(lambda: (call('setns', os.open(p, os.O_RDONLY), 0), out(p)) if os.readlink(p) != os.readlink('/proc/self/ns/' + p.split('/')[-1]) else None)"),
    Way("user-map", "write user and group maps anew", ONE_SPACE,
        "tried(*(lambda n=n: (write('/proc/self/' + n, '0 0 1', os.O_WRONLY), out(n)) for n in ('uid_map', 'gid_map')))\n"
        "if os.geteuid() != 0: os.setuid(0); out('root')"),
    Way("login-keys", "find keys of the person's login (keyrings)", "a keyring of its own",
        "tried(*(lambda r=r: (call('keyctl', 10, r, b'user', at['key'].encode(), 0), out(str(r))) for r in (-3, -4, -5)))\n"
        "call('request_key', b'user', at['key'].encode(), None, 0); out('requested')"),
    Way("abstract-socket", "connect to an abstract socket of a service", LANDLOCK, "s = socket.socket(socket.AF_UNIX); s.connect('\\0' + at['abstract']); out('connected')"),
    Way("named-socket", "connect to a socket in the workspace", "sockets that somebody listens on are hidden", "s = socket.socket(socket.AF_UNIX); s.connect(at['socket']); out('connected')"),
    Way("services", "find sockets of docker, the message bus, agents with keys", HIDDEN,
        "for folder in ('/run', '/var/run', '/tmp', at['home']):\n"
        "    for above, _, names in os.walk(folder):\n"
        "        for n in () if above.startswith(at['workspace']) else names:\n"
        "            if stat.S_ISSOCK(os.lstat(os.path.join(above, n)).st_mode): out(os.path.join(above, n))"),
    Way("descriptors", "use descriptors of the engine", "none is handed on, but the one for the exit status",
        "for f in os.listdir('/proc/self/fd'):\n"
        "    if int(f) > 2 and os.path.exists('/proc/self/fd/' + f) and '/proc/' not in os.readlink('/proc/self/fd/' + f):\n"
        "        if not os.readlink('/proc/self/fd/' + f).endswith('/exit.json') or os.write(int(f), b'{\"exit-code\": 0}'): out(os.readlink('/proc/self/fd/' + f))"),
    Way("terminal", "type into the person's terminal", "a session of its own", "h = os.open('/dev/tty', os.O_RDWR); fcntl.ioctl(h, 0x5412, b'x'); out('typed')"),
    Way("set-uid", "make a set-uid program and run it; run those that are there", "no new privileges",
        "import shutil\n"
        "shutil.copy('/bin/sh', 'suid'); os.chmod('suid', 0o6755)\n"
        "for p in ('./suid', '/bin/su', '/usr/bin/sudo', '/bin/mount', '/usr/bin/newuidmap', '/usr/bin/pkexec'):\n"
        "    if os.path.exists(p): subprocess.run([p, '-n', 'true'], stdin=subprocess.DEVNULL, capture_output=True, timeout=5)\n"
        "if 'NoNewPrivs:\\t1' not in open('/proc/self/status').read(): out('privileges can be had')"),
    Way("capabilities", "keep or gain capabilities", NO_RIGHTS,
        "status = dict(l.split(':\\t') for l in open('/proc/self/status').read().splitlines() if ':\\t' in l)\n"
        "for n in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'):\n"
        "    if int(status[n], 16): out(n + status[n])\n"
        "open('c', 'w').close(); os.setxattr('c', 'security.capability', struct.pack('<IIIII', 0x2000001, 0xffffffff, 0, 0xffffffff, 0)); out('file')"),
    Way("devices", "make a device of the disk; use those of /dev", NO_RIGHTS,
        "found = [p for p in glob.glob('/dev/*') if stat.S_ISBLK(os.stat(p).st_mode)]\n"
        "if found or os.path.exists('/dev/mem') or os.path.exists('/dev/kmsg'): out(str(found))\n"
        "tried(*(lambda n=n: (os.mknod('d%d' % n[0], stat.S_IFBLK | 0o666, os.makedev(*n)), out('made')) for n in ((254, 0), (8, 0), (259, 0))))\n"
        "os.mknod('mem', stat.S_IFCHR | 0o666, os.makedev(1, 1)); out('memory')"),
    Way("handles", "open files outside by their handle, past all paths", NO_RIGHTS,
        "handle = struct.pack('=Ii', 128, 0) + bytes(128); number = ctypes.c_int()\n"
        "buffer = ctypes.create_string_buffer(handle)\n"
        "call('name_to_handle_at', -100, at['victim'].encode(), buffer, ctypes.byref(number), 0)\n"
        "call('open_by_handle_at', os.open('/', os.O_RDONLY), buffer, os.O_RDWR); out('opened')"),
    Way("machine", "load programs into the kernel, reboot, account", NO_RIGHTS,
        "def refused(name, *a):\n"
        "    try: call(name, *a)\n"
        "    except OSError as e:\n"
        "        if e.errno not in (errno.EPERM, errno.ENOSYS, errno.EACCES): out(name + ' ' + os.strerror(e.errno))\n"
        "    else: out(name)\n"
        "refused('init_module', None, 0, b''); refused('reboot', 0, 0, 0, None); refused('acct', b'/nowhere')"),
    Way("shared-memory", "reach shared memory and queues of others", "an IPC space and a /dev/shm of its own",
        "if os.path.exists('/dev/shm/' + at['abstract']): out('file')\n"
        "if libc.shmget(at['shm_key'], 1, 0) >= 0: out('segment')"),
    Way("fill", "fill the disk by /tmp, the memory by /dev", "they have a size; the rest of /dev is read-only",
        "for p in ('/tmp/f', '/var/tmp/f', '/dev/shm/f', '/dev/f', '/run/f'):\n"
        "    def one():\n"
        "        with open(p, 'wb') as f:\n"
        "            for _ in range(40): f.write(bytes(1 << 20))\n"
        "        out(p)\n"
        "    tried(one)"),
    Way("processes", "start processes without end", "RLIMIT_NPROC (of root the kernel counts none)",
        "import resource\n"
        "if resource.getrlimit(resource.RLIMIT_NPROC)[1] not in range(1, 100000): out('no limit')\n"
        "resource.setrlimit(resource.RLIMIT_NPROC, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)); out('raised')"),
    Way("overlay-marks", "forge the overlay's own marks", "the kernel keeps these names to itself",
        "os.mkdir('marked')\n"
        "for n in ('opaque', 'redirect', 'metacopy', 'origin'):\n"
        "    tried(lambda: os.setxattr('marked', 'user.overlay.' + n, b'y'), lambda: os.setxattr('marked', 'trusted.overlay.' + n, b'/etc'))\n"
        "os.mknod('src/white', stat.S_IFCHR, 0); out('whiteout')"),
    Way("plant", "leave devices, pipes, set-uid programs, links out, names of git's", "refused when the work is read",
        "tried(lambda: os.mkfifo('planted.fifo'), lambda: os.symlink('/etc/shadow', 'planted.link'), lambda: socket.socket(socket.AF_UNIX).bind('planted.sock'))\n"
        "tried(lambda: plant('.GIT/hooks/x'), lambda: plant('deep/.git/hooks/post-checkout'), lambda: (write('planted.suid'), os.chmod('planted.suid', 0o4755)))"),
    Way("journal", "see or write a run's journal", ENGINE,
        "p = at['workspace'] + '/.interlock/runs/r/journal.jsonl'\n"
        "if os.path.exists(p): out('seen')\n"
        "plant(p)"),
    Way("approval", "approve one's own work by an answer in the inbox", ENGINE, "plant(at['workspace'] + '/.interlock/runs/r/inbox/answer.json')"),
    Way("other-layer", "see or change another dispatch's layer", ENGINE,
        "p = at['workspace'] + '/.interlock/layers/run-1/other/top/theirs'\n"
        "if os.path.exists(p): out('seen')\n"
        "plant(p)"),
    Way("own-layer", "forge what is known of one's own layer", ENGINE,
        "p = at['workspace'] + '/.interlock/layers/run-1/one/layer.json'\n"
        "if os.path.exists(p): out('seen')\n"
        "plant(p)"),
    Way("trees", "plant objects in the engine's trees", ENGINE,
        "plant(at['workspace'] + '/.interlock/trees.git/objects/pack/x')\n"
        "for f in glob.glob('/dev/interlock-objects/*'): write(f + '/x'); out(f)"),
    Way("roles", "change a role that the next agent gets", LAYER, "write(at['workspace'] + '/.interlock/agents/qa.md')"),
    Way("git-hooks", "leave a hook, a setting, an attribute in git", LAYER,
        "plant('.git/hooks/post-checkout'); write('.git/config', '[core]\\n\\tfsmonitor = /tmp/evil\\n'); write('.git/info/attributes', '* filter=x\\n')\n"
        "write('.git/objects/info/alternates', '/tmp\\n')"),
    Way("git-history", "destroy the person's history", LAYER,
        "import shutil\n"
        "for p in ('.git/refs', '.git/objects'): shutil.rmtree(p, ignore_errors=True)\n"
        "os.unlink('.git/HEAD')"),
    Way("home-settings", "leave settings, start-up files and jobs in HOME", "HOME is private",
        "for n in ('.claude/settings.json', '.bashrc', '.ssh/authorized_keys', '.config/systemd/user/x.service', '.gitconfig', '.config/autostart/x'):\n"
        "    tried(lambda: plant(os.path.join(at['home'], n)))"),
    Way("login-file", "plant a command in a login that is brought back", "of a login only tokens come back",
        "open(at['home'] + '/.client/auth.json', 'w').write(json.dumps({'access_token': 'new', 'mcpServers': {'x': {'command': 'evil'}}}))"),
    Way("tool-chains", "replace a program or a download of a tool chain", "programs are read-only, downloads lie below a layer",
        "tried(lambda: (write(at['home'] + '/.cargo/bin/cargo', 'evil', os.O_WRONLY | os.O_TRUNC), out('program')), lambda: write(at['home'] + '/.cargo/registry/index'))"),
    Way("jobs", "leave a job for later: cron, systemd, profile", READ_ONLY,
        "for p in ('/etc/cron.d/x', '/var/spool/cron/crontabs/root', '/etc/systemd/system/x.service', '/etc/profile.d/x.sh', '/etc/ld.so.preload'):\n"
        "    tried(lambda: (os.open(p, os.O_WRONLY | os.O_CREAT), out(p)) if os.path.isdir(os.path.dirname(p)) else None)"),
    Way("programs", "replace a program of the system", READ_ONLY,
        "for p in ('/usr/bin/git', '/bin/sh', sys.executable, '/usr/local/bin/interlock-test-evil'):\n"
        "    tried(lambda: (os.open(p, os.O_WRONLY | (0 if os.path.exists(p) else os.O_CREAT)), out(p)))"),
    Way("mark", "hide from an inner interlock that it is in a layer", "a mount of its own in a read-only /dev",
        "tried(lambda: (os.unlink('/dev/interlock-layer'), out('removed')), lambda: (os.rename('/dev', '/tmp/dev'), out('moved')), lambda: (call('umount2', b'/dev/interlock-layer', 2), out('unmounted')))"),
)  # fmt: skip
