"""The files of a checkout, as the tidy rules see them."""

import os
import re
from pathlib import Path

# Folders that hold nothing of ours, at any depth; those named in .gitignore as /name/ come on top.
SKIPPED_FOLDERS = {".git", "__pycache__"}
CPP_SUFFIXES = (".h", ".cc")
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


class SourceTree:
    """Paths are relative to the root, with '/' between folders. Read once, then unchanging."""

    def __init__(self, root: Path):
        self.root = root
        self.texts = {}
        skipped_at_top = self._ignored_at_top()
        for folder, subfolders, names in os.walk(root):
            here = Path(folder)
            skipped = SKIPPED_FOLDERS | (skipped_at_top if here == root else set())
            subfolders[:] = sorted(set(subfolders) - skipped)
            for path in (here / name for name in sorted(names)):
                if path.is_symlink() or not path.is_file():
                    continue
                data = path.read_bytes()
                if b"\0" not in data:
                    relative = path.relative_to(root).as_posix()
                    self.texts[relative] = data.decode("utf-8", "surrogateescape")

    def _ignored_at_top(self) -> set:
        ignore = self.root / ".gitignore"
        lines = ignore.read_text().splitlines() if ignore.exists() else []
        return {line.strip("/") for line in lines if re.fullmatch(r"/[^/*]+/", line)}

    def cpp(self) -> list:
        return [path for path in self.texts if path.endswith(CPP_SUFFIXES)]

    def lines(self, path: str) -> list:
        """(number from 1, text) of every line."""
        return list(enumerate(self.texts[path].split("\n"), 1))

    def includes(self, path: str) -> list:
        """(line number, '"' or '<', name) of every include."""
        found = []
        for number, line in self.lines(path):
            match = INCLUDE.match(line)
            if match:
                found.append((number, match.group(1), match.group(2)))
        return found
