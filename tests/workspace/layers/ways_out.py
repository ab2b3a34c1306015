"""Ways out of a layer: what a program in there may try, and what holds it. The page `docs/sandbox.md` lists them.

Each way is a few lines of Python that run inside, with the names of `PRELUDE`.  They call ``out`` when they got
somewhere they must not get; an error of the system means that they were held.  None does harm where nothing holds it.
"""

# ruff: noqa: E501 - a program of one line stays one

from __future__ import annotations

from dataclasses import dataclass

PRELUDE = r"""
import ctypes, errno, fcntl, glob, json, os, signal, socket, stat, struct, subprocess, sys, tempfile

at = json.loads(sys.argv[2])
machine = os.uname().machine
calls = {
    "x86_64": dict(ptrace=101, mount=165, umount2=166, pivot_root=155, chroot=161, unshare=272, setns=308, keyctl=250,
                   add_key=248, init_module=175, reboot=169, bpf=321, open_by_handle_at=304, name_to_handle_at=303,
                   process_vm_readv=310, perf_event_open=298, swapon=167, acct=163, mknod=133, sethostname=170,
                   request_key=249, io_uring_setup=425, io_uring_enter=426, open_tree=428, move_mount=429, fsopen=430,
                   pidfd_getfd=438, mount_setattr=442, clone3=435, shmget=29, kexec_load=246, iopl=172, quotactl=179),
    "aarch64": dict(ptrace=117, mount=40, umount2=39, pivot_root=41, chroot=51, unshare=97, setns=268, keyctl=219,
                    add_key=217, init_module=105, reboot=142, bpf=280, open_by_handle_at=265, name_to_handle_at=264,
                    process_vm_readv=270, perf_event_open=241, swapon=224, acct=89, mknod=33, sethostname=161,
                    request_key=218, io_uring_setup=425, io_uring_enter=426, open_tree=428, move_mount=429, fsopen=430,
                    pidfd_getfd=438, mount_setattr=442, clone3=435, shmget=194, kexec_load=104, iopl=0, quotactl=60),
}[machine]
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


def tried(*actions):
    "All of them; an error of one does not keep the next from being tried."
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


ROOT = "the rest of the file system is read-only"
GONE = "homes, temporary folders and sockets of services are not there"
NO_CAPS = "no capabilities, and none to be had"
PIDS = "a process namespace of its own"
USERNS = "a user namespace of its own, and none below it"
OVERLAY = "writes to the workspace go to the layer"
ENGINE = "the engine's folder is another one inside"
PROC = "/proc is new, and what steers the machine is read-only or masked in it"
DEVICES = "/dev has no disk and no terminal; devices elsewhere do not work"
NNP = "no new privileges: set-uid programs stay what they are"
KEYS = "a new session keyring, in a user namespace of its own"
FENCE = "Landlock keeps abstract sockets and processes outside out of reach (Linux 6.12)"
LIMITS = "limits that can only be lowered"
LOGINS = "of a login file only tokens come back"

WAYS = (
    Way("link-out", "write through a link that leads out", ROOT,
        "os.symlink(at['victim'], 'l'); write('l'); out('written')"),
    Way("hard-link", "make a hard link to a file outside, and write to it", ROOT,
        "os.link(at['victim'], 'h'); write('h'); out('written')"),
    Way("absolute-path", "write, truncate, rename and remove a file outside by its path", ROOT,
        "tried(lambda: (write(at['victim']), out('written')), lambda: (os.truncate(at['victim'], 0), out('truncated')),"
        "lambda: (os.rename(at['victim'], at['victim'] + 'x'), out('renamed')),"
        "lambda: (os.unlink(at['victim']), out('removed')), lambda: (write(at['victim'] + 'new'), out('added')))"),
    Way("attributes", "change mode, times and attributes of a file outside", ROOT,
        "tried(lambda: (os.chmod(at['victim'], 0o777), out('mode')), lambda: (os.utime(at['victim'], (0, 0)), out('times')),"
        "lambda: (os.setxattr(at['victim'], 'user.x', b'x'), out('attribute')))"),
    Way("flags", "make a file outside immutable, by an open file", ROOT,
        "h = os.open(at['victim'], os.O_RDONLY); fcntl.ioctl(h, 0x40086602, struct.pack('L', 0x10)); out('flagged')"),
    Way("descriptor-mode", "change a file outside by /proc/self/fd of a file that is open for reading", ROOT,
        "h = os.open(at['victim'], os.O_RDONLY); p = '/proc/self/fd/%d' % h\n"
        "tried(lambda: (os.chmod(p, 0o777), out('mode')), lambda: (write(p), out('written')),"
        "lambda: (os.link(p, 'h', follow_symlinks=True), out('linked')))"),
    Way("users-tree", "reach the user's own tree by another name than the workspace's path", OVERLAY,
        "for name in ('/proc/1/root', '/proc/self/root', '/proc/1/cwd', '/proc/self/cwd/..', '/..'):\n"
        "    tried(lambda: write(name + at['workspace'] + '/README.md'))"),
    Way("beside", "write beside the workspace, and to other files of the user", GONE,
        "tried(*(lambda p=p: write(p) for p in (at['beside'], at['secret'], at['home'] + '/.bashrc')))\n"
        "for p in (at['beside'], at['secret']):\n"
        "    if os.path.exists(p) and 'secret' in open(p).read(): out('read ' + p)"),
    Way("other-homes", "look into homes of other users, and for keys in the user's own", GONE,
        "import pwd\n"
        "own = pwd.getpwuid(os.geteuid()).pw_dir\n"
        "for home in ['/root', *glob.glob('/home/*')]:\n"
        "    seen = [at['home'], at['workspace'], os.path.realpath(sys.executable), *map(os.path.realpath, os.environ['PATH'].split(':'))]\n"
        "    if home != own and os.path.isdir(home) and not any(p.startswith(home + '/') for p in seen) and os.listdir(home): out(home)\n"
        "for n in ('.ssh', '.gnupg', '.aws', '.netrc', '.bash_history', '.git-credentials', '.docker', '.kube', '.config/gh'):\n"
        "    if os.path.lexists(os.path.join(own, n)): out(n)"),
    Way("first-process", "look into the first process: its files, its environment, its memory", PIDS,
        "for n in ('root', 'cwd', 'environ', 'mem', 'fd', 'maps'):\n"
        "    p = '/proc/1/' + n\n"
        "    tried(lambda: (os.listdir(p) if n in ('root', 'fd') else os.open(p, os.O_RDWR), None)[1])\n"
        "tried(lambda: (at['engine_secret'] in open('/proc/1/environ').read()) and out('environment'))\n"
        "tried(lambda: [out('descriptor') for f in os.listdir('/proc/1/fd') if at['victim'] in os.readlink('/proc/1/fd/' + f)])"),
    Way("all-processes", "find the engine among the processes, and read its environment", PIDS,
        "for p in glob.glob('/proc/[0-9]*'):\n"
        "    tried(lambda: (at['engine_secret'] in open(p + '/environ', errors='replace').read()) and out(p))\n"
        "    tried(lambda: write(p + '/root' + at['victim']))"),
    Way("engine-by-number", "signal, trace and read the engine by its process number", PIDS,
        "n = at['engine']\n"
        "tried(lambda: (os.kill(n, 0), out('signalled')) if not os.path.exists('/proc/%d' % n) else None)\n"
        "tried(lambda: (os.pidfd_open(n), out('opened')) if not os.path.exists('/proc/%d' % n) else None)"),
    Way("parent", "kill the parent and the first process", PIDS,
        "tried(lambda: os.kill(1, signal.SIGKILL), lambda: os.kill(1, signal.SIGSTOP))\n"
        "if not os.path.exists('/proc/1'): out('killed')"),
    Way("core-pattern", "have the kernel run a program at a crash (core_pattern, modprobe, hotplug)", PROC,
        "for n in ('kernel/core_pattern', 'kernel/modprobe', 'kernel/hotplug', 'kernel/poweroff_cmd', 'vm/drop_caches'):\n"
        "    tried(lambda: (os.open('/proc/sys/' + n, os.O_WRONLY), out(n)))"),
    Way("sysrq", "reach the machine by /proc/sysrq-trigger, kcore, kmsg", PROC,
        "for n in ('sysrq-trigger', 'kcore', 'kmsg', 'kallsyms', 'irq/0/smp_affinity'):\n"
        "    def one():\n"
        "        h = os.open('/proc/' + n, os.O_RDWR)\n"
        "        if os.fstat(h).st_rdev != os.stat('/dev/null').st_rdev: out(n)\n"
        "    tried(one)"),
    Way("binfmt", "register an interpreter for all programs of the machine", PROC,
        "h = os.open('/proc/sys/fs/binfmt_misc/register', os.O_WRONLY); out('opened')"),
    Way("sys", "write to /sys: drivers, kernel modules, power", ROOT,
        "for p in glob.glob('/sys/kernel/*') + glob.glob('/sys/power/*') + glob.glob('/sys/module/*/parameters/*')[:50]:\n"
        "    if os.path.isfile(p): tried(lambda: (os.open(p, os.O_WRONLY), out(p)))"),
    Way("cgroup", "leave or reconfigure the control group (cgroup.procs, release_agent)", ROOT,
        "for p in glob.glob('/sys/fs/cgroup/**/cgroup.procs', recursive=True)[:20] + glob.glob('/sys/fs/cgroup/*/release_agent'):\n"
        "    tried(lambda: (os.open(p, os.O_WRONLY), out(p)))"),
    Way("mount", "mount something: tmpfs, a bind, an overlay, proc", NO_CAPS,
        "tried(*(lambda k=k: (call('mount', k, b'/mnt', k, 0, None), out(str(k))) for k in (b'tmpfs', b'proc', b'overlay')))\n"
        "call('mount', b'/etc', b'/tmp', None, 0x1000, None); out('bind')"),
    Way("remount", "make read-only mounts writable again", NO_CAPS,
        "tried(*(lambda p=p: (call('mount', None, p, None, 0x20 | 0x1000, None), out(str(p))) for p in (b'/', b'/proc/sys', b'/etc')))\n"
        "call('mount_setattr', -100, b'/', 0x8000, struct.pack('=QQQQ', 0, 1, 0, 0), 32); out('set')"),
    Way("unmount", "unmount what hides the home, the engine's folder, /proc/sys", NO_CAPS,
        "for p in ('/home', at['workspace'] + '/.interlock', '/proc/sys', '/proc', '/dev', at['workspace'], '/tmp'):\n"
        "    tried(lambda: (call('umount2', p.encode(), 2), out(p)))"),
    Way("new-mount-api", "mount by the newer calls (fsopen, open_tree, move_mount)", NO_CAPS,
        "tried(lambda: (call('fsopen', b'tmpfs', 0), out('fsopen')), lambda: (call('open_tree', -100, b'/', 1), out('open_tree')))"),
    Way("pivot", "change the root (chroot, pivot_root)", NO_CAPS,
        "tried(lambda: (call('chroot', b'/tmp'), out('chroot')), lambda: (call('pivot_root', b'.', b'.'), out('pivot')))"),
    Way("user-namespace", "make a user namespace below, to be root in it", USERNS,
        "tried(lambda: (call('unshare', 0x10000000), out('unshare')))\n"
        "args = struct.pack('=QQQQQQQQ', 0x10000000, 0, 0, 0, 17, 0, 0, 0)\n"
        "pid = call('clone3', args, len(args))\n"
        "os._exit(0) if pid == 0 else out('clone3')"),
    Way("other-namespaces", "make mount, network or process namespaces", NO_CAPS,
        "tried(*(lambda f=f: (call('unshare', f), out(hex(f))) for f in (0x20000, 0x40000000, 0x20000000, 0x4000000, 0x8000000)))"),
    Way("enter-namespace", "enter the namespaces of other processes", NO_CAPS,
        "for p in glob.glob('/proc/*/ns/*'):\n"
        "    tried(lambda: (call('setns', os.open(p, os.O_RDONLY), 0), out(p)) if os.readlink(p) != os.readlink('/proc/self/ns/' + p.split('/')[-1]) else None)"),
    Way("user-map", "write user and group maps anew", USERNS,
        "tried(*(lambda n=n: (write('/proc/self/' + n, '0 0 1', os.O_WRONLY), out(n)) for n in ('uid_map', 'gid_map')))\n"
        "if os.geteuid() != 0: os.setuid(0); out('root')"),
    Way("trace", "trace the engine, read its memory, take its descriptors (ptrace, process_vm_readv, pidfd_getfd)", PIDS,
        "n = at['engine']\n"
        "if os.path.exists('/proc/%d' % n): sys.exit()\n"
        "tried(lambda: (call('ptrace', 0x4206, n, 0, 0), out('seized')), lambda: (call('pidfd_getfd', os.pidfd_open(n), 0, 0), out('taken')))\n"
        "buffer = ctypes.create_string_buffer(8); one = struct.pack('=QQ', ctypes.addressof(buffer), 8)\n"
        "call('process_vm_readv', n, one, 1, struct.pack('=QQ', 0x400000, 8), 1, 0); out('read')"),
    Way("session-keyring", "find keys of the user's login session", KEYS,
        "k = call('keyctl', 10, -3, b'user', at['key'].encode(), 0); out('key %d' % k)"),
    Way("user-keyring", "find keys of the user's keyring, and request them", KEYS,
        "tried(*(lambda r=r: (call('keyctl', 10, r, b'user', at['key'].encode(), 0), out(str(r))) for r in (-4, -5)))\n"
        "tried(lambda: (call('request_key', b'user', at['key'].encode(), None, 0), out('requested')))\n"
        "tried(lambda: (at['key'] in open('/proc/keys').read()) and out('listed'))"),
    Way("abstract-socket", "connect to an abstract socket of a service", FENCE,
        "s = socket.socket(socket.AF_UNIX); s.connect('\\0' + at['abstract']); out('connected')"),
    Way("named-socket", "connect to a socket of a service that has a name in the file system", GONE,
        "s = socket.socket(socket.AF_UNIX); s.connect(at['socket']); out('connected')"),
    Way("service-sockets", "find sockets of docker, the message bus, agents with keys", GONE,
        "import itertools\n"
        "for folder in ('/run', '/var/run', '/tmp', at['home']):\n"
        "    for above, _, names in os.walk(folder):\n"
        "        if above.startswith(at['workspace']): continue\n"
        "        for n in names:\n"
        "            if stat.S_ISSOCK(os.lstat(os.path.join(above, n)).st_mode): out(os.path.join(above, n))"),
    Way("descriptors", "use descriptors that were left open", "all but the three standard ones are closed",
        "for f in os.listdir('/proc/self/fd'):\n"
        "    if int(f) > 2 and os.path.exists('/proc/self/fd/' + f) and '/proc/' not in os.readlink('/proc/self/fd/' + f): out(os.readlink('/proc/self/fd/' + f))"),
    Way("terminal", "type into the user's terminal", "a session of its own, without a terminal",
        "h = os.open('/dev/tty', os.O_RDWR); fcntl.ioctl(h, 0x5412, b'x'); out('typed')"),
    Way("set-uid", "make a set-uid program and run it; run those that are there", NNP,
        "import shutil\n"
        "shutil.copy('/bin/sh', 'suid'); os.chmod('suid', 0o6755)\n"
        "for p in ('./suid', '/bin/su', '/usr/bin/sudo', '/bin/mount', '/usr/bin/newuidmap', '/usr/bin/pkexec'):\n"
        "    if os.path.exists(p):\n"
        "        subprocess.run([p, '-n', 'true'], stdin=subprocess.DEVNULL, capture_output=True, timeout=5)\n"
        "status = open('/proc/self/status').read()\n"
        "if 'NoNewPrivs:\\t1' not in status: out('privileges can be had')"),
    Way("capabilities", "keep, raise or inherit capabilities, or get them from a file", NO_CAPS,
        "status = dict(l.split(':\\t') for l in open('/proc/self/status').read().splitlines() if ':\\t' in l)\n"
        "for n in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'):\n"
        "    if int(status[n], 16): out(n + status[n])\n"
        "open('c', 'w').close(); os.setxattr('c', 'security.capability', struct.pack('<IIIII', 0x2000001, 0xffffffff, 0, 0xffffffff, 0)); out('file')"),
    Way("devices", "make a device of the disk and read it; use those of /dev", DEVICES,
        "found = [p for p in glob.glob('/dev/*') if stat.S_ISBLK(os.stat(p).st_mode)]\n"
        "if found or os.path.exists('/dev/mem') or os.path.exists('/dev/kmsg'): out(str(found))\n"
        "tried(*(lambda m=m: (os.mknod('d%d' % m, stat.S_IFBLK | 0o666, os.makedev(*[(254, 0), (8, 0), (259, 0)][m])), out('made')) for m in range(3)))\n"
        "os.mknod('mem', stat.S_IFCHR | 0o666, os.makedev(1, 1)); out('memory')"),
    Way("handles", "open files outside by their handle, past all paths", NO_CAPS,
        "handle = struct.pack('=Ii', 128, 0) + bytes(128); number = ctypes.c_int()\n"
        "buffer = ctypes.create_string_buffer(handle)\n"
        "call('name_to_handle_at', -100, at['victim'].encode(), buffer, ctypes.byref(number), 0)\n"
        "h = call('open_by_handle_at', os.open('/', os.O_RDONLY), buffer, os.O_RDWR); out('opened')"),
    Way("io-uring", "write outside by io_uring, past what watches calls", ROOT,
        "params = ctypes.create_string_buffer(120); ring = call('io_uring_setup', 4, params)\n"
        "import mmap\n"
        "values = struct.unpack('=30I', params.raw); sq_off = values[10:20]\n"
        "size = max(sq_off[6] + values[0] * 4, values[20 + 5] + values[1] * 16) + 4096\n"
        "sq = mmap.mmap(ring, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=0)\n"
        "sqes = mmap.mmap(ring, values[0] * 64, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=0x10000000)\n"
        "path = ctypes.create_string_buffer(at['victim'].encode())\n"
        "sqes[0:64] = struct.pack('=BBHiQQIIQHHiQQ', 18, 0, 0, -100, 0, ctypes.addressof(path), 0o600, os.O_WRONLY | os.O_APPEND, 7, 0, 0, 0, 0, 0)\n"
        "sq[sq_off[6]:sq_off[6] + 4] = struct.pack('=I', 0); sq[sq_off[1]:sq_off[1] + 4] = struct.pack('=I', 1)\n"
        "call('io_uring_enter', ring, 1, 1, 1, None, 0)\n"
        "cq_off = values[20:30]; at_cqe = cq_off[5]; result = struct.unpack('=i', sq[at_cqe + 8:at_cqe + 12])[0]\n"
        "if result >= 0: os.write(result, b'planted'); out('opened')"),
    Way("kernel-programs", "load programs and modules into the kernel (bpf, modules, kexec)", NO_CAPS,
        "attr = bytes(128)\n"
        "tried(lambda: (call('bpf', 0, struct.pack('=IIII', 1, 4, 4, 1) + bytes(112), 128), out('bpf')) if os.geteuid() == 0 else None)\n"
        "def refused(name, *a):\n"
        "    try: call(name, *a)\n"
        "    except OSError as e:\n"
        "        if e.errno not in (errno.EPERM, errno.ENOSYS, errno.EACCES): out(name + ' ' + os.strerror(e.errno))\n"
        "refused('init_module', None, 0, b''); refused('kexec_load', 0, 0, None, 0)"),
    Way("machine", "reboot, swap, accounting, host name, clock", NO_CAPS,
        "def refused(name, *a):\n"
        "    try: call(name, *a)\n"
        "    except OSError as e:\n"
        "        if e.errno not in (errno.EPERM, errno.ENOSYS, errno.EACCES): out(name + ' ' + os.strerror(e.errno))\n"
        "    else: out(name)\n"
        "refused('reboot', 0, 0, 0, None); refused('swapon', b'/nowhere', 0); refused('acct', b'/nowhere'); refused('sethostname', b'x', 1)"),
    Way("shared-memory", "reach shared memory, queues and semaphores of others", "an IPC namespace and a /dev/shm of its own",
        "if os.path.exists('/dev/shm/' + at['shm']): out('file')\n"
        "call('shmget', at['shm_key'], 1, 0); out('segment')"),
    Way("overlay-marks", "forge the overlay's own marks: opaque, redirect, whiteouts", "the kernel keeps these names to itself",
        "os.mkdir('marked')\n"
        "for n in ('opaque', 'redirect', 'metacopy', 'origin', 'whiteout', 'impure'):\n"
        "    tried(lambda: os.setxattr('marked', 'user.overlay.' + n, b'y'), lambda: os.setxattr('marked', 'trusted.overlay.' + n, b'/etc'))\n"
        "os.mknod('src/white', stat.S_IFCHR, 0); out('whiteout')"),
    Way("limits", "raise limits: file size, core dumps", LIMITS,
        "import resource\n"
        "for r in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):\n"
        "    tried(lambda: (resource.setrlimit(r, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)), out(str(r)))) if True else None\n"
        "if resource.getrlimit(resource.RLIMIT_CORE)[1] != 0: out('cores')"),
    Way("journal", "add a line to the run's journal", ENGINE,
        "p = at['workspace'] + '/.interlock/runs/r/journal.jsonl'\n"
        "if os.path.exists(p): out('seen')\n"
        "os.makedirs(os.path.dirname(p), exist_ok=True); write(p)"),
    Way("approval", "approve one's own work: an answer in the inbox", ENGINE,
        "p = at['workspace'] + '/.interlock/runs/r/inbox/answer.json'\n"
        "os.makedirs(os.path.dirname(p), exist_ok=True); write(p)"),
    Way("other-layer", "read and write another dispatch's layer", ENGINE,
        "p = at['workspace'] + '/.interlock/layers/other/upper/theirs'\n"
        "if os.path.exists(p): out('seen')\n"
        "os.makedirs(os.path.dirname(p), exist_ok=True); write(p)"),
    Way("own-exit", "forge the exit beside the layer, and the launcher's orders", ENGINE,
        "p = at['layer'] + '/exit.json'\n"
        "if os.path.exists(at['layer'] + '/orders'): out('seen')\n"
        "os.makedirs(os.path.dirname(p), exist_ok=True); write(p)"),
    Way("snapshots", "plant objects in the snapshots' repository", ENGINE,
        "p = at['workspace'] + '/.interlock/snapshots.git/objects/pack/x'\n"
        "os.makedirs(os.path.dirname(p), exist_ok=True); write(p)"),
    Way("facts-of-the-run", "change or remove what a nested run is told of its parent", "a read-only file of its own",
        "p = at['workspace'] + '/.interlock/parent.json'\n"
        "tried(lambda: (write(p), out('written')), lambda: (os.unlink(p), out('removed')), lambda: (os.rename(p, p + 'x'), out('moved')))\n"
        "os.rename(at['workspace'] + '/.interlock', at['workspace'] + '/moved'); out('moved')"),
    Way("roles", "change a role or a prompt that the next agent gets", ENGINE,
        "p = at['workspace'] + '/.interlock/agents/qa.md'\n"
        "tried(lambda: (write(p), out('written')), lambda: (write(p + 'x'), out('added')), lambda: (os.unlink(p), out('removed')))"),
    Way("git-hooks", "leave a hook, a setting or an attribute in git for later", OVERLAY,
        "write('.git/hooks/post-checkout', '#!/bin/sh\\n'); os.chmod('.git/hooks/post-checkout', 0o755)\n"
        "write('.git/config', '[core]\\n\\tfsmonitor = /tmp/evil\\n'); write('.git/info/attributes', '* filter=x\\n')\n"
        "write('.git/objects/info/alternates', '/tmp\\n')"),
    Way("git-history", "rewrite or destroy the user's history", OVERLAY,
        "import shutil\nshutil.rmtree('.git/refs'); os.unlink('.git/HEAD'); shutil.rmtree('.git/objects')"),
    Way("client-settings", "leave settings for the next agent in the workspace", OVERLAY,
        "os.makedirs('.claude', exist_ok=True); write('.claude/settings.json', '{\"hooks\": {}}'); write('CLAUDE.md'); write('.mcp.json')"),
    Way("home-settings", "leave settings, start-up files and jobs in the home", "HOME is private",
        "for n in ('.claude/settings.json', '.bashrc', '.profile', '.ssh/authorized_keys', '.config/systemd/user/x.service', '.gitconfig', '.config/autostart/x'):\n"
        "    p = os.path.join(at['home'], n); os.makedirs(os.path.dirname(p), exist_ok=True); write(p)"),
    Way("login-file", "plant a command in a login file that is brought back", LOGINS,
        "open(at['home'] + '/.client/auth.json', 'w').write(json.dumps({'access_token': 'new', 'mcpServers': {'x': {'command': 'evil'}}}))"),
    Way("tool-chains", "replace a program of a tool chain in the home", "what is written to tool chains is dropped",
        "write(at['home'] + '/.cargo/bin/cargo', 'evil', os.O_WRONLY | os.O_TRUNC)"),
    Way("tool-keys", "read keys that a tool chain keeps in its folder", "they are masked",
        "if 'secret' in open(at['home'] + '/.cargo/credentials.toml').read(): out('read')"),
    Way("jobs", "leave a job for later: cron, at, systemd", ROOT,
        "for p in ('/etc/cron.d/x', '/var/spool/cron/crontabs/root', '/etc/systemd/system/x.service', '/etc/profile.d/x.sh', '/etc/ld.so.preload'):\n"
        "    tried(lambda: (os.open(p, os.O_WRONLY | os.O_CREAT), out(p)) if os.path.isdir(os.path.dirname(p)) else None)"),
    Way("system-programs", "replace a program or library of the system", ROOT,
        "for p in ('/usr/bin/git', '/bin/sh', sys.executable, '/usr/local/bin/interlock-test-evil'):\n"
        "    tried(lambda: (os.open(p, os.O_WRONLY | (0 if os.path.exists(p) else os.O_CREAT)), out(p)))"),
)  # fmt: skip
