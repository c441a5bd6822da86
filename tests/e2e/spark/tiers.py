"""The daemons that the real jobs run through: memory alone, and files with little memory."""

from dataclasses import dataclass, field
from pathlib import Path

GIANT_RECORD = "giant_record_64_mib"


@dataclass
class Tier:
    """One daemon. files: the budget is so small that every job has to meet segments on disk."""

    name: str
    meaning: str
    capacity: str
    files: bool = False
    direct: bool = True
    giant: object = None  # True: only the giant record; False: all but it; None: all
    data_path: Path = None
    settings: dict = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        return f"{self.name}." if self.files else ""

    def takes(self, job) -> bool:
        return self.giant is None or self.giant == (job.name == GIANT_RECORD)

    def prepare(self, folder: Path) -> None:
        self.settings = {"memory_store.capacity": f'"{self.capacity}"'}
        if not self.files:
            return
        self.data_path = folder / f"data-{self.name}"
        self.data_path.mkdir()
        self.settings |= {
            "localfile_store.data_paths": f'["{self.data_path}"]',
            "localfile_store.direct_io_append_enable": "true" if self.direct else "false",
        }
        if self.giant:
            # The large partition goes to disk by itself, its small neighbours stay in memory.
            self.settings["hybrid_store.memory_single_buffer_max_spill_size"] = '"16M"'
        else:
            # Low, so that the smallest jobs are flushed too.
            self.settings["hybrid_store.memory_spill_high_watermark"] = 0.15
            self.settings["hybrid_store.memory_spill_low_watermark"] = 0.05

    def left_behind(self) -> list:
        if not self.files:
            return []
        apps = self.data_path / "dovetail" / "apps"
        return [str(path) for path in apps.rglob("*")]


def tiers() -> list:
    # Of memory: enough for what one job holds at once, and little enough that shuffles which are
    # never freed show.
    listed = [Tier("memory", "memory alone, 1 GiB", "1G")]
    for name, direct in (("direct", True), ("buffered", False)):
        how = f"files, {name} appends"
        listed += [
            Tier(name, f"{how}, 64 MiB of memory", "64M", True, direct, giant=False),
            Tier(f"{name}_256", f"{how}, 256 MiB of memory", "256M", True, direct, giant=True),
        ]
    return listed
