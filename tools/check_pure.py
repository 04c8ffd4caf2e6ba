#!/usr/bin/env python3
"""Fails when a library that must be a pure function of its inputs references time, randomness,
files, the terminal, sockets, threads, processes or the environment.

usage: check_pure.py ARCHIVE...
"""
import re
import subprocess
import sys

IMPURE = re.compile(
    r"^_*("
    r"clock|clock_gettime|gettimeofday|time|timespec_get|nanosleep|usleep|sleep|localtime(_r)?|"
    r"getrandom|getentropy|s?rand(_r)?|random|arc4random|[dl]rand48|"
    r"(secure_)?getenv|setenv|environ|setlocale|"
    r"f?open(at)?(64)?(_2)?|freopen(64)?|fdopen|creat(64)?|f?read|f?write|unlink|rename|"
    r"remove|mkdir|opendir|readdir(64)?|l?stat(64)?|access|tmpfile(64)?|mkstemp(64)?|mmap(64)?|"
    r"stdin|stdout|stderr|v?f?printf(_chk)?|puts|fputs|putchar|fputc|fgets|getline|"
    r"socket|connect|bind|listen|accept4?|send(to|msg)?|recv(from|msg)?|poll|epoll_\w+|"
    r"pthread_\w+|fork|vfork|exec\w*|system|popen|posix_spawn\w*|kill|signal|sigaction|"
    r"dlopen|dlsym|"
    r"ZNSt6chrono.*clock.*3nowEv|ZNSt13random_device.*|ZNSt6thread.*|ZNSt10filesystem.*|"
    r"ZNSt8ios_base4InitC\dEv|ZSt[34]c(out|err|log|in)|ZN3fmt.*\dv?printE.*|"
    r"Z(NK?|T[TV])St1[34]basic_([io]?fstream|filebuf).*"
    r")(@.*)?$")


def impure_symbols(archive):
    """(object file, symbol) for every undefined symbol of the archive that is not pure."""
    listing = subprocess.run(["nm", "-u", archive], capture_output=True, text=True, check=True)
    member = "?"
    for line in listing.stdout.splitlines():
        if line.endswith(":"):
            member = line[:-1]
        elif line.split() and IMPURE.match(line.split()[-1]):
            yield member, line.split()[-1]


def main(*archives):
    if not archives:
        sys.exit(__doc__)
    errors = [f"{archive}({member}): impure symbol {symbol}"
              for archive in archives for member, symbol in impure_symbols(archive)]
    for error in errors:
        print(error)
    print(f"{len(archives)} archives checked, {len(errors)} impure references")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
