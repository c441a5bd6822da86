"""Who may include what: layers go down only (docs/architecture.md)."""

import re

# Folders of one rank that never include each other.
ISLANDS = (
    "engine/uring/", "engine/pool/",
    "server/grpc/", "server/tcp/", "server/http/", "server/coordinator/",
    "server/bench/", "server/ctl/",
)  # fmt: skip
COMPOSITION = re.compile(r"server/(main|daemon|command_line|disk_setup|disk_probe)[^/]*\.(h|cc)$")
GENERATED = re.compile(r"proto/\w+(\.grpc)?\.pb\.h$")
GENERATED_USERS = ("server/grpc/", "server/coordinator/", "server/bench/", "tests/")

# Headers of libraries, and the paths that may include them. Those not named here (fmt, the C and
# POSIX headers) may be used anywhere.
LIBRARIES = (
    (r"liburing", ("engine/uring/", "tests/engine/")),
    (r"roaring/", ("storage/", "tests/")),
    (r"toml", ("config/", "tests/config/")),
    (r"(grpc|grpcpp|google)/",
     ("server/grpc/", "server/coordinator/", "server/rpc/", "server/bench/", "tests/server/",
      "tests/e2e/")),
    (r"(civetweb|CivetServer)", ("server/http/",)),
    (r"CLI/", ("server/command_line", "server/ctl/", "server/bench/", "tests/bench/",
      "tests/e2e/judge/")),
    (r"asio", ("server/tcp/", "server/bench/", "tests/server/", "tests/e2e/")),
    (r"prometheus/", ("engine/base/", "tests/engine/base/")),
    (r"(gtest|gmock)/", ("tests/",)),
)  # fmt: skip


def rank_of(path: str):
    """The layer of a file; None for what stands beside the layers (config, tests, generated)."""
    if path.startswith("engine/base/"):
        return 0
    if path.startswith("engine/"):
        return 1
    if path.startswith("storage/"):
        return 2
    if COMPOSITION.match(path) or path.startswith(("server/bench/", "server/ctl/")):
        return 5
    if re.match(r"server/[^/]+/", path):
        return 4
    if path.startswith("server/"):
        return 3
    return None


def island_of(path: str) -> str:
    return next((island for island in ISLANDS if path.startswith(island)), "")


def options_only(path: str) -> bool:
    return path.endswith("/options.h")


def layer_fault(path: str, name: str) -> str:
    """Why path must not include name; empty when it may."""
    if path.startswith("tests/"):
        return ""
    if name.startswith("tests/"):
        return "only tests include from tests/"
    if options_only(path):
        return "an options.h is plain data and includes only the standard library"
    if GENERATED.match(name):
        return ""  # a rule of its own
    if path.startswith("config/"):
        fine = name.startswith(("config/", "engine/base/")) or options_only(name)
        return "" if fine else "config includes only options.h files and engine/base"
    if name.startswith("config/"):
        return "" if rank_of(path) == 5 else "only what puts the daemon together sees config"
    above, below = rank_of(path), rank_of(name)
    if above is None or below is None:
        return "this folder has no place among the layers"
    if below > above:
        return f"includes go down only: layer {above} must not see layer {below}"
    if island_of(name) and island_of(path) != island_of(name) and above < 5:
        return f"{island_of(name)} is not for {island_of(path) or 'this layer'}"
    return ""


def layers(tree) -> list:
    """Includes go strictly down, and are written from the root of the repository."""
    faults = []
    for path in tree.cpp():
        for number, quote, name in tree.includes(path):
            where = f"{path}:{number}"
            if quote == '"':
                fault = layer_fault(path, name)
                if not fault and name not in tree.texts and not GENERATED.match(name):
                    fault = 'no such file; write "folder/file.h" from the root'
                if fault:
                    faults.append(f'{where}: "{name}": {fault}')
            elif options_only(path) and re.search(r"[./]", name):
                faults.append(f"{where}: <{name}>: an options.h includes only the standard library")
    return faults


def libraries(tree) -> list:
    """Each library is seen only where it is wrapped."""
    faults = []
    for path in tree.cpp():
        for number, _, name in tree.includes(path):
            for pattern, users in LIBRARIES:
                if re.match(pattern, name) and name not in tree.texts:
                    if not path.startswith(users):
                        faults.append(f"{path}:{number}: {name}: only for {', '.join(users)}")
    return faults


def generated_code(tree) -> list:
    """Code made from proto/ is seen only by the edges that speak it."""
    return [
        f'{path}:{number}: "{name}": only for {", ".join(GENERATED_USERS)}'
        for path in tree.cpp()
        for number, _, name in tree.includes(path)
        if name.endswith(".pb.h")
        and not name.startswith("google/")
        and not path.startswith(GENERATED_USERS)
    ]


def own_header_first(tree) -> list:
    """x.cc includes x.h before anything else, which shows that x.h compiles alone."""
    faults = []
    for path in tree.cpp():
        header = path.removesuffix(".cc") + ".h"
        if path.endswith(".cc") and header in tree.texts:
            includes = tree.includes(path)
            if not includes or includes[0][2] != header:
                faults.append(f'{path}:1: the first include must be "{header}"')
    return faults


def pragma_once(tree) -> list:
    """Every header may be included twice."""
    return [
        f"{path}:1: #pragma once is missing"
        for path in tree.cpp()
        if path.endswith(".h") and "\n#pragma once\n" not in "\n" + tree.texts[path]
    ]
