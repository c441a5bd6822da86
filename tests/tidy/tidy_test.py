#!/usr/bin/env python3
"""Plants a violation of each tidy rule in a small tree and expects it to be found, and only that."""

import contextlib
import os
import subprocess
import tempfile
import textwrap
import unittest
from pathlib import Path

import tidy
from cpp_functions import functions
from source_tree import SourceTree

HEADER = "#pragma once\n"


@contextlib.contextmanager
def checkout(files: dict):
    """A folder with these files (path -> text)."""
    with tempfile.TemporaryDirectory(prefix="dovetail-tidy-") as name:
        root = Path(name)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        yield root


class TidyTest(unittest.TestCase):
    def faults(self, rule: str, files: dict) -> list:
        with checkout(files) as root:
            return tidy.RULES[rule](SourceTree(root))

    def expect_fault(self, rule: str, files: dict, where: str):
        faults = self.faults(rule, files)
        self.assertEqual(len(faults), 1, faults)
        self.assertTrue(faults[0].startswith(where + ":"), faults[0])

    def expect_include(self, rule: str, path: str, name: str, allowed: bool):
        quoted = name if name.startswith("<") else f'"{name}"'
        files = {path: f"#include {quoted}\n"}
        if not name.startswith("<") and not name.endswith(".pb.h"):
            files[name] = HEADER
        with self.subTest(path=path, name=name):
            if allowed:
                self.assertEqual(self.faults(rule, files), [])
            else:
                self.expect_fault(rule, files, f"{path}:1")

    def test_every_rule_has_a_case_here(self):
        text = Path(__file__).read_text()
        for rule in tidy.RULES:
            self.assertIn(f'"{rule}"', text)

    def test_layers_go_down_only(self):
        for path, name, allowed in (
            ("engine/base/a.h", "engine/engine.h", False),
            ("engine/engine.h", "engine/base/a.h", True),
            ("engine/engine.h", "storage/a.h", False),
            ("storage/a.cc", "engine/engine.h", True),
            ("storage/a.cc", "engine/uring/ring.h", False),
            ("storage/a.cc", "server/reply.h", False),
            ("engine/pool/a.cc", "engine/uring/ring.h", False),
            ("server/reply.cc", "storage/a.h", True),
            ("server/reply.cc", "server/grpc/a.h", False),
            ("server/grpc/a.cc", "server/reply.h", True),
            ("server/grpc/a.cc", "server/tcp/b.h", False),
            ("server/grpc/a.cc", "server/grpc/b.h", True),
            ("server/grpc/a.cc", "server/daemon.h", False),
            ("server/daemon.cc", "server/grpc/a.h", True),
            ("server/daemon.cc", "config/config.h", True),
            ("server/grpc/a.cc", "config/config.h", False),
            ("config/a.cc", "storage/options.h", True),
            ("config/a.cc", "storage/partition.h", False),
            ("config/a.cc", "engine/base/result.h", True),
            ("storage/options.h", "engine/base/result.h", False),
            ("storage/a.cc", "tests/b.h", False),
            ("tests/a.cc", "server/daemon.h", True),
            ("elsewhere/a.cc", "storage/a.h", False),
        ):
            self.expect_include("layers", path, name, allowed)

    def test_options_include_only_the_standard_library(self):
        self.expect_include("layers", "storage/options.h", "<vector>", True)
        self.expect_include("layers", "storage/options.h", "<fmt/format.h>", False)

    def test_includes_are_written_from_the_root(self):
        files = {"storage/a.cc": '#include "b.h"\n', "storage/b.h": HEADER}
        self.expect_fault("layers", files, "storage/a.cc:1")
        self.expect_fault("layers", {"tests/a.cc": '#include "tests/no.h"\n'}, "tests/a.cc:1")

    def test_libraries_stay_where_they_are_wrapped(self):
        for path, name, allowed in (
            ("engine/uring/ring.cc", "<liburing.h>", True),
            ("engine/pool/pool.cc", "<liburing.h>", False),
            ("server/grpc/a.cc", "<grpcpp/grpcpp.h>", True),
            ("server/shuffle_service.cc", "<grpcpp/grpcpp.h>", False),
            ("storage/a.cc", "<google/protobuf/message.h>", False),
            ("storage/a.cc", "<prometheus/counter.h>", False),
            ("config/a.cc", "<toml.hpp>", True),
            ("server/main.cc", "<toml.hpp>", False),
            ("server/grpc/a.cc", "<civetweb.h>", False),
            ("storage/a.cc", "<gtest/gtest.h>", False),
            ("storage/a.cc", "<fmt/format.h>", True),
        ):
            self.expect_include("libraries", path, name, allowed)

    def test_generated_code_stays_at_the_edges(self):
        for path, allowed in (
            ("server/grpc/a.cc", True),
            ("server/coordinator/a.cc", True),
            ("tests/e2e/a.cc", True),
            ("server/shuffle_service.cc", False),
            ("server/tcp/a.cc", False),
            ("storage/a.cc", False),
            ("server/daemon.cc", False),
        ):
            self.expect_include("generated_code", path, "proto/shuffle.pb.h", allowed)
            self.expect_include("generated_code", path, "proto/shuffle.grpc.pb.h", allowed)

    def test_own_header_comes_first(self):
        files = {"storage/a.h": HEADER, "storage/a.cc": '#include <vector>\n#include "storage/a.h"\n'}
        self.expect_fault("own_header_first", files, "storage/a.cc:1")
        files["storage/a.cc"] = '// About it.\n#include "storage/a.h"\n\n#include <vector>\n'
        self.assertEqual(self.faults("own_header_first", files), [])

    def test_headers_have_pragma_once(self):
        self.expect_fault("pragma_once", {"a.h": "int a;\n", "b.h": "// b\n" + HEADER}, "a.h:1")

    def test_long_lines_are_found(self):
        self.expect_fault("line_length", {"a.cc": "\n//" + "x" * 99 + "\n"}, "a.cc:2")
        self.assertEqual(self.faults("line_length", {"a.cc": "//" + "x" * 98 + "\n"}), [])

    def test_bad_whitespace_is_found(self):
        self.expect_fault("whitespace", {"a.md": "a\nb \n"}, "a.md:2")
        self.expect_fault("whitespace", {"a.md": "a\r\nb\n"}, "a.md:1")
        self.expect_fault("whitespace", {"a.md": "a"}, "a.md")
        self.expect_fault("whitespace", {"a.md": "a\n\n"}, "a.md")
        self.assertEqual(self.faults("whitespace", {"a.md": "a\n\nb\n", "empty": ""}), [])

    def test_machine_paths_are_found(self):
        for folder in ("wo" "rk/x", "ro" "ot/x", "ho" "me/x", "tmp/ba" "sh_jobs"):
            with self.subTest(folder=folder):
                self.expect_fault("machine_paths", {"a.md": f"see\n/{folder}\n"}, "a.md:2")
        fine = "frame" "wo" "rk/a build/" "wo" "rk/a /tmp/x ${ROOT}/ro" "ot/x\n"
        self.assertEqual(self.faults("machine_paths", {"a.md": fine}), [])

    def test_leftover_words_are_found(self):
        for word in ("TO" "DO", "FIX" "ME", "XX" "X"):
            with self.subTest(word=word):
                self.expect_fault("leftover_words", {"a.cc": f"\n// {word}: later\n"}, "a.cc:2")
        self.assertEqual(self.faults("leftover_words", {"a.cc": "// to do; MASTO" "DON\n"}), [])

    def test_ignored_folders_are_not_read(self):
        line = "// FIX" "ME\n"
        files = {".gitignore": "/build/\n", "build/a.cc": line, "x/__pycache__/a.cc": line}
        self.assertEqual(self.faults("leftover_words", files), [])
        files["x/build/a.cc"] = line
        self.expect_fault("leftover_words", files, "x/build/a.cc:1")

    def test_long_files_are_found(self):
        self.expect_fault("file_length", {"a.cc": "\n" * 401, "b.py": "\n" * 400}, "a.cc")

    def long_function(self, lines: int) -> dict:
        return {"a.cc": "int b;\n\nvoid A::Run(int x) {\n" + "  x();\n" * (lines - 2) + "}\n"}

    def test_long_functions_are_found(self):
        self.expect_fault("function_length", self.long_function(71), "a.cc:3")
        self.assertEqual(self.faults("function_length", self.long_function(70)), [])
        python = {"a.py": "def run():\n" + "    run()\n" * 70}
        self.expect_fault("function_length", python, "a.py:1")

    def test_the_ratchet_only_shrinks(self):
        entry = "function a.cc A::Run"
        for lines, allowed, fault in (
            (80, f"{entry} 80\n", ""),
            (81, f"{entry} 80\n", "a.cc:3"),
            (79, f"{entry} 80\n", "tests/tidy/ratchet.txt"),
            (70, f"{entry} 80\n", "tests/tidy/ratchet.txt"),
        ):
            with self.subTest(lines=lines):
                files = self.long_function(lines) | {"tests/tidy/ratchet.txt": allowed}
                if fault:
                    self.expect_fault("function_length", files, fault)
                else:
                    self.assertEqual(self.faults("function_length", files), [])
        gone = {"a.cc": "\n", "tests/tidy/ratchet.txt": "file b.cc 500\n"}
        self.expect_fault("file_length", gone, "tests/tidy/ratchet.txt")
        self.assertEqual(
            self.faults("file_length", {"a.cc": "\n" * 500, "tests/tidy/ratchet.txt": "file a.cc 500\n"}),
            [],
        )

    def test_functions_are_told_from_other_braces(self):
        code = textwrap.dedent(
            """\
            // void NotThis() {
            #define NEITHER(x) \\
              void x() {
            namespace a::b {
            namespace {
            constexpr int kTable[] = {1, 2, f(3)};
            const char* kText = R"(void Not() { )" "\\"{";
            constexpr int kNumber = 1'000'000;
            }  // namespace
            template <class T>
            class alignas(64) C : public D<T> {
             public:
              explicit C(int x) : x_{x}, y_(x) {
                Go('{');
              }
              int Get() const { return x_; }
              bool operator==(const C& o) const {
                auto f = [](int i) { return i; };
                return f(1) == 1;
              }

             private:
              int x_{0};
              std::vector<int> z_ = std::vector<int>{1, 2};
            };
            enum class E : int { kA, kB };
            TEST(Suite,
                 Case) {
            }
            }  // namespace a::b
            """
        )
        self.assertEqual(
            functions(code),
            [("C", 13, 3), ("Get", 16, 1), ("operator==", 17, 4), ("Suite.Case", 27, 3)],
        )

    def test_unlisted_sources_are_found(self):
        files = {
            "storage/CMakeLists.txt": "add_library(x a.cc base/b.cc # c.cc\n)\n",
            "storage/a.cc": "",
            "storage/base/b.cc": "",
            "storage/c.cc": "",
        }
        self.expect_fault("sources_listed", files, "storage/c.cc")

    def test_unlisted_tests_are_found(self):
        files = {
            "tests/CMakeLists.txt": "run(${CMAKE_CURRENT_SOURCE_DIR}/x/a_test.py x/b_test.cc)\n",
            "tests/x/a_test.py": "",
            "tests/x/b_test.cc": "",
            "tests/x/c_test.cc": "",
        }
        self.expect_fault("tests_listed", files, "tests/x/c_test.cc")
        del files["tests/x/c_test.cc"]
        files["tests/x/d_test.py"] = ""
        self.expect_fault("tests_listed", files, "tests/x/d_test.py")

    def test_a_header_that_needs_another_does_not_compile_alone(self):
        cmake = os.environ.get("CMAKE_COMMAND", "cmake")
        check = Path(__file__).with_name("header_check.cmake")
        project = (
            "cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES CXX)\n"
            f"include({check})\n"
            "dovetail_header_check(check ${CMAKE_SOURCE_DIR} FOLDERS a EXCLUDE ^a/not)\n"
        )
        files = {
            "CMakeLists.txt": project,
            "a/good.h": HEADER + "#include <string>\ninline std::string s;\n",
            "a/not.h": "#error excluded\n",
            "a/own.h": "#error has a source of its own\n",
            "a/own.cc": "",
        }
        with checkout(files) as root:
            def build():
                command = f"{cmake} -S . -B b >/dev/null && {cmake} --build b --target check"
                return subprocess.run(
                    command, shell=True, cwd=root, capture_output=True, text=True, check=False
                )

            good = build()
            self.assertEqual(good.returncode, 0, good.stdout + good.stderr)
            (root / "a/bad.h").write_text(HEADER + "inline std::string bad;\n")
            bad = build()
            self.assertNotEqual(bad.returncode, 0)
            self.assertIn("bad.h", bad.stdout + bad.stderr)


if __name__ == "__main__":
    unittest.main()
