"""deploy/lib/setup.sh on machines where something is missing, played by stub commands."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("bash", "basename", "cat", "chmod", "cut", "dirname", "env", "grep", "head", "kill", "ls")
TOOLS += ("mkdir", "mv", "readlink", "rm", "sed", "sha256sum", "sleep", "tail", "touch", "tr")


class SetupTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        # A checkout of its own, so that ours is not touched, and a PATH with nothing unasked.
        library = self.folder / "checkout" / "deploy" / "lib"
        library.mkdir(parents=True)
        self.library = Path(shutil.copy(ROOT / "deploy" / "lib" / "setup.sh", library))
        self.cache = self.folder / "checkout" / ".cache"
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))

    def stub(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def call(self, script: str, **variables: str) -> subprocess.CompletedProcess:
        environment = {"PATH": str(self.bin), "HOME": str(self.folder), **variables}
        command = f'set -euo pipefail; . "{self.library}"; {script}'
        return subprocess.run(
            [shutil.which("bash"), "-c", command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def test_nothing_missing_says_nothing_and_installs_nothing(self):
        self.stub("dpkg-query", "echo installed")
        self.stub("apt-get", f"touch {self.folder}/called")
        done = self.call("setup_build")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertFalse((self.folder / "called").exists())

    def test_root_installs_what_is_missing_only(self):
        self.stub("dpkg-query", 'case "$*" in *cmake*) exit 1 ;; esac; echo installed')
        self.stub("id", "echo 0")
        self.stub("apt-get", f'echo "$*" >> {self.folder}/called')
        done = self.call("setup_build")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("installing 1 Debian packages: cmake", done.stdout)
        calls = (self.folder / "called").read_text().splitlines()
        self.assertEqual(calls, ["update", "install -y --no-install-recommends cmake"])

    def test_without_root_it_says_what_to_ask_for(self):
        self.stub("dpkg-query", "exit 1")
        self.stub("id", "echo 1000")
        done = self.call("setup_build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("only root can install", done.stderr)
        self.assertRegex(done.stderr, r"apt-get install -y --no-install-recommends g\+\+ cmake")

    def test_not_debian(self):
        done = self.call("setup_build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("not a Debian system", done.stderr)
        self.assertEqual(self.call("setup_build", DOVETAIL_NO_APT="1").returncode, 0)

    def test_failed_install_shows_the_log_and_the_command(self):
        self.stub("dpkg-query", "exit 1")
        self.stub("id", "echo 0")
        self.stub("apt-get", "echo 'E: no such mirror'; exit 100")
        done = self.call("setup_build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("E: no such mirror", done.stderr)
        self.assertIn("By hand:", done.stderr)

    def test_java_of_a_wrong_version_is_passed_over(self):
        for version, good in (("1.8.0_402", False), ("21.0.2", False), ("17.0.9", True)):
            self.stub("java", f"echo 'openjdk version \"{version}\" 2023' >&2")
            done = self.call(f'[ "$(java_major {self.bin}/java)" ] && java_major {self.bin}/java')
            major = done.stdout.strip()
            self.assertEqual(major in ("11", "17"), good, f"{version} was read as {major!r}")

    def test_client_jar_must_be_the_published_one(self):
        jar = self.cache / "jars" / "rss-client-spark3-shaded-0.9.2.jar"
        take_folder = 'for a in "$@"; do case $a in -DoutputDirectory=*) d=${a#*=} ;; esac; done'
        self.stub("mvn", f"{take_folder}; echo other > $d/rss-client-spark3-shaded-0.9.2.jar")
        done = self.call("setup_client 0.9.2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not the one that was published", done.stderr)
        self.assertFalse(jar.exists())
        known = hashlib.sha256(b"other\n").hexdigest()
        text = re.sub(r"\[0\.9\.2\]=\w+", f"[0.9.2]={known}", self.library.read_text())
        self.library.write_text(text)
        done = self.call("setup_client 0.9.2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(jar.exists())

    def test_client_jar_without_network(self):
        self.stub("mvn", "echo 'Could not transfer artifact'; exit 1")
        done = self.call("setup_client 0.9.2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Could not transfer artifact", done.stderr)
        self.assertIn("Is the network there", done.stderr)

    def test_broken_off_environment_is_made_again(self):
        """No stamp: pip did not come to its end last time."""
        (self.cache / "venv" / "bin").mkdir(parents=True)
        (self.cache / "venv" / "left_over").touch()
        making = (
            'mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; printf "#!/bin/bash\\n" > "$3/bin/pip"'
        )
        making += '; chmod +x "$3/bin/pip"'
        self.stub("python", f'[ "$1" = -m ] && {{ {making}; }}; exit 0')
        (self.bin / "cp").symlink_to(shutil.which("cp"))
        script = f"find_python() {{ echo {self.bin}/python; }}; setup_venv"
        done = self.call(script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse((self.cache / "venv" / "left_over").exists())
        self.assertIn("making a Python environment", done.stdout)
        self.assertEqual(self.call(script).stdout, "")


if __name__ == "__main__":
    unittest.main()
