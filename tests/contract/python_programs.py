"""Small Python programs that must not be able to tell a forked agent from `python3 main.py`.

Each prints only what is the same from run to run. `STDIN` is what every one of them gets.
"""

STDIN = b"first line\nsecond line\n"

PROGRAMS = {
    # The script and how it was called.
    "argv": "import sys; print(sys.argv)",
    "orig_argv": "import sys; print(getattr(sys, 'orig_argv', None))",
    "dunder_file": "print(__file__)",
    "dunder_name": "print(__name__, __package__, __spec__, __doc__, __cached__)",
    "loader": "print(type(__loader__).__name__, __loader__.name, __loader__.path)",
    "globals": "print(sorted(globals()))",
    "main_module": "import sys; print(sys.modules['__main__'].__dict__ is globals())",
    "sys_path": "import sys; print(sys.path)",
    "sys_flags": "import sys; print(sys.flags, sys.warnoptions, sys._xoptions)",
    "executable": "import sys; print(sys.executable, sys.prefix, sys.base_prefix, sys.exec_prefix)",
    "loaded_modules": "import sys; print(sorted(sys.modules))",
    "importer_cache": "import sys; print(sorted(sys.path_importer_cache))",
    "meta_path": "import sys; print(sys.meta_path, sys.path_hooks[:1])",
    "site": "import site; print(site.ENABLE_USER_SITE, site.USER_SITE, site.PREFIXES)",
    "hooks": "import sys; print(sys.excepthook, sys.displayhook, sys.gettrace(), sys.getprofile())",
    "cwd": "import os; print(os.getcwd(), sorted(os.listdir('.')))",
    "own_source": "print(open(__file__).read())",
    "encoding_cookie": "# -*- coding: latin-1 -*-\nprint('caf\u00e9')",
    "future_import": "from __future__ import annotations\nx: Undefined = 1\nprint(__annotations__)",
    "docstring": '"""What I do."""\nprint(__doc__)',
    "empty": "",
    # The stack under it.
    "stack_depth": "import inspect; print(len(inspect.stack()))",
    "print_stack": "import traceback; traceback.print_stack()",
    "getframe_back": "import sys; print(sys._getframe().f_back)",
    "recursion_depth": "def f(n):\n try: return f(n + 1)\n except RecursionError: return n\nprint(f(0))",
    "recursion_error": "def f(): f()\nf()",
    "warning_stacklevel": "import warnings\nwarnings.warn('once', stacklevel=1)\nwarnings.warn('up', stacklevel=2)",
    "faulthandler": "import faulthandler, sys; faulthandler.dump_traceback(file=sys.stdout)",
    # How it ends.
    "syntax_error": "print(1)\ndef broken(:\n  pass",
    "indentation_error": "if True:\nprint(1)",
    "null_division": "def f():\n    return 1 / 0\n\nf()",
    "chained": "try:\n    {}['x']\nexcept KeyError as e:\n    raise ValueError('worse') from e",
    "context": "try:\n    {}['x']\nexcept KeyError:\n    undefined_name",
    "exception_group": "raise ExceptionGroup('many', [ValueError(1), TypeError(2)])",
    "notes": "e = ValueError('x'); e.add_note('a note'); raise e",
    "exit_0": "import sys; sys.exit(0)",
    "exit_3": "import sys; sys.exit(3)",
    "exit_text": "import sys; sys.exit('the reason')",
    "exit_none": "raise SystemExit",
    "exit_big": "import sys; sys.exit(300)",
    "exit_builtin": "exit(4)",
    "os_exit": "import os; print('not flushed', end=''); os._exit(5)",
    "keyboard_interrupt": "raise KeyboardInterrupt",
    "sigint_self": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(5)",
    "sigterm_self": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "sigkill_self": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "abort": "import os; os.abort()",
    "segfault": "import ctypes; ctypes.string_at(0)",
    "broken_pipe": "import os, sys\nr, w = os.pipe(); os.close(r)\nos.dup2(w, 1)\nprint('x' * 9); sys.stdout.flush()",
    "stdout_closed": "import os; print('lost'); os.close(1)",
    "atexit": "import atexit; atexit.register(print, 'last'); print('first')",
    "atexit_raises": "import atexit\n@atexit.register\ndef _(): 1 / 0",
    "excepthook": "import sys\nsys.excepthook = lambda t, v, tb: print('mine', t.__name__, v)\nraise ValueError('x')",
    "excepthook_raises": "import sys\ndef hook(*_): 1 / 0\nsys.excepthook = hook\nraise ValueError('x')",
    "del_at_exit": "class A:\n    def __del__(self): print('gone')\na = A()",
    "unraisable": "class A:\n    def __del__(self): 1 / 0\nA()",
    # Its streams.
    "stdin_read": "import sys; print(repr(sys.stdin.read()))",
    "stdin_input": "print(input('> ')); print(input()); input()",
    "stdin_buffer": "import sys; print(sys.stdin.buffer.read(5), sys.stdin.readline())",
    "stdin_raw": "import os; print(os.read(0, 100))",
    "stream_objects": "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr, sys.__stdout__): print(s, s.errors, "
    "s.line_buffering, s.write_through, s.newlines, s.isatty(), s.fileno(), s.seekable(), s.closed)",
    "buffer_sizes": "import sys; print(sys.stdin.buffer, sys.stdout.buffer.raw.mode, sys.stdin.buffer.raw.closefd)",
    "stdout_order": "import os, sys\nprint('buffered')\nos.write(1, b'direct\\n')\nsys.stdout.flush()",
    "stderr_order": "import os, sys\nsys.stderr.write('part')\nos.write(2, b'direct\\n')",
    "unicode": "import sys; print('\u00e9\u4e2d\U0001f600'); sys.stderr.write('\u00e9\\n')",
    "surrogate_out": "print('\\udc80')",
    "binary_out": "import sys; sys.stdout.buffer.write(bytes(range(256)))",
    "dev_stdout": "open('/dev/stdout', 'w').write('through the device\\n')",
    "proc_self_fd": "import os; print(sorted(os.listdir('/proc/self/fd')))",
    "fd_flags": "import fcntl; print([fcntl.fcntl(n, fcntl.F_GETFL) & 0o4003 for n in range(3)])",
    "next_fd": "import os; print(os.open('/dev/null', 0), os.get_inheritable(1))",
    # What it inherits.
    "environ": "import os; print(sorted(k for k in os.environ if k != 'OLDPWD' and k != '_'))",
    "environ_values": "import os; print(os.environ['PATH'], os.environ['HOME'], os.environ['LANG'])",
    "environ_c": "import subprocess; subprocess.run(['sh', '-c', 'echo $GREETING; echo ${PYTHONPATH-unset}'])",
    "environ_unset": "import os; del os.environ['GREETING']; os.system('echo ${GREETING-gone}')",
    "signals": "import signal; print([(s.name, str(signal.getsignal(s))) for s in sorted(signal.valid_signals()) "
    "if isinstance(s, signal.Signals)])",
    "signal_mask": "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.set_wakeup_fd(-1))",
    "child_signals": "import subprocess; print(subprocess.run(['grep', '^Sig[BIC]', '/proc/self/status'], "
    "capture_output=True, text=True).stdout)",
    "rlimits": "import resource; print([resource.getrlimit(n) for n in range(16)])",
    "umask": "import os; m = os.umask(0); print(oct(m))",
    "ids": "import os; print(os.getuid(), os.getgid(), os.getgroups(), os.getppid(), os.getpgid(0) == os.getpid(), "
    "os.getsid(0) == os.getpid())",
    "dumpable": "import os; print(os.stat('/proc/self/fd').st_uid, os.access('/proc/self/mem', os.R_OK))",
    "status": "print([l for l in open('/proc/self/status') if l.split(':')[0] in "
    "('Threads', 'NoNewPrivs', 'Seccomp', 'CapEff', 'CapBnd', 'Umask')])",
    "nice": "import os; print(os.nice(0), os.sched_getaffinity(0) == os.sched_getaffinity(1))",
    "locale": "import locale, sys; print(locale.setlocale(locale.LC_ALL), sys.getfilesystemencoding(), "
    "locale.getpreferredencoding())",
    "timezone": "import time; print(time.tzname, time.timezone)",
    # Threads, processes, modules.
    "threads": "import threading\nts = [threading.Thread(target=print, args=(i,)) for i in range(5)]\n"
    "for t in ts: t.start(); t.join()\nprint(threading.current_thread().name, threading.active_count())",
    "thread_raises": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T'); t.start(); t.join()",
    "thread_outlives_main": "import threading, time\n"
    "threading.Thread(target=lambda: (threading.main_thread().join(), print('after main'))).start()",
    "daemon_thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "thread_in_atexit": "import atexit, threading\natexit.register(lambda: print(threading.main_thread().is_alive()))",
    "fork": "import os, sys\nif os.fork() == 0:\n    print('child', flush=True); os._exit(7)\n"
    "print('parent', os.waitstatus_to_exitcode(os.wait()[1]))",
    "multiprocessing_fork": "import multiprocessing as m\ndef f(x): return x * x\n"
    "with m.get_context('fork').Pool(2) as p: print(p.map(f, range(5)))",
    "multiprocessing_spawn": "import multiprocessing as m\ndef f(x): return x * x\n"
    "if __name__ == '__main__':\n    with m.get_context('spawn').Pool(2) as p: print(p.map(f, range(5)))",
    "multiprocessing_forkserver": "import multiprocessing as m\ndef f(q): q.put(__name__)\n"
    "if __name__ == '__main__':\n    c = m.get_context('forkserver'); q = c.Queue()\n"
    "    p = c.Process(target=f, args=(q,)); p.start(); print(q.get()); p.join()",
    "process_pool": "from concurrent.futures import ProcessPoolExecutor\ndef f(x): return x + 1\n"
    "if __name__ == '__main__':\n    with ProcessPoolExecutor(2) as e: print(list(e.map(f, range(4))))",
    "subprocess": "import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', 'print(2)']))",
    "asyncio": "import asyncio\nasync def main():\n    p = await asyncio.create_subprocess_exec('echo', 'hi', "
    "stdout=-1)\n    print((await p.communicate())[0])\nasyncio.run(main())",
    "asyncio_signal": "import asyncio, os, signal\nasync def main():\n    e = asyncio.Event()\n"
    "    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, e.set)\n"
    "    os.kill(os.getpid(), signal.SIGUSR1); await e.wait(); print('got it')\nasyncio.run(main())",
    "sigchld_handler": "import os, signal, time\nsignal.signal(signal.SIGCHLD, lambda *_: print('chld'))\n"
    "pid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)\nprint('end')",
    "import_sibling": "import sibling; print(sibling.__file__, sibling.__name__, sibling.WHO)",
    "import_main": "if __name__ == '__main__':\n    import main; print(main.__name__)",
    "shadow_stdlib": "import json; print(json.__file__)",
    "shadow_loaded": "import selectors; print(selectors.__file__)",
    "import_all_agent_uses": "import ctypes, selectors, socket, struct, traceback, typing, shutil; "
    "print(traceback.format_exc(), typing.Any, struct.calcsize('>II'))",
    "no_agent": "import importlib.util; print(importlib.util.find_spec('airlock_agent'))",
    "pickle_main": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))), A.__module__)",
    "runpy": "import runpy; print(runpy.run_module('sibling')['WHO'])",
    "compile_exec": "exec(compile('print(__name__, __file__)', 'x', 'exec'))",
    "gc": "import gc; print(gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.callbacks, gc.garbage)",
    "tempfile": "import tempfile; print(tempfile.gettempdir()); tempfile.TemporaryFile().close()",
    "sqlite": "import sqlite3; print(sqlite3.connect(':memory:').execute('select 1').fetchall())",
    "decimal_context": "import decimal; print(decimal.getcontext())",
    "logging": "import logging; logging.warning('careful'); print(logging.root.handlers)",
    "pdb": "breakpoint()\nprint('on')",
    "settrace": "import sys\nseen = []\nsys.settrace(lambda f, e, a: seen.append(e))\nlen('')\n(lambda: 1)()\n"
    "sys.settrace(None); print(seen)",
    "switch_interval": "import sys; print(sys.getswitchinterval(), sys.getrecursionlimit(), sys.getdlopenflags())",
    "audit": "import sys\nsys.addaudithook(lambda e, a: e == 'os.system' and print('audited', a))\n"
    "import os; os.system('true')",
}

FILES = {
    "sibling.py": b"WHO = 'a file of the caller'\n",
    "json.py": b"'''A module of the caller that has the name of one of the standard library's.'''\n",
    "selectors.py": b"'''A module of the caller that has the name of one that the agent uses.'''\n",
}
