"""The daemons that the real jobs run through: memory alone, and files with little memory.

Files are tried pair by pair, not in every combination: each job meets both engines and both ways of
appending, and each engine and way of appending meets both ways of reading."""

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
    engine: str = "io_uring"
    direct: bool = True
    read_mode: str = "buffered"
    giant: object = None  # True: only the giant record; False: all but it; None: all
    every_second: int = None  # 0 or 1: of the others only those at even or odd places
    data_path: Path = None
    settings: dict = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        return f"{self.name}." if self.files else ""

    def takes(self, job, place: int) -> bool:
        if self.giant is not None and self.giant != (job.name == GIANT_RECORD):
            return False
        return self.every_second is None or self.every_second == place % 2

    def prepare(self, folder: Path) -> None:
        self.settings = {"memory_store.capacity": f'"{self.capacity}"'}
        if not self.files:
            return
        self.data_path = folder / f"data-{self.name}"
        self.data_path.mkdir()
        self.settings |= {
            "localfile_store.data_paths": f'["{self.data_path}"]',
            "localfile_store.engine": f'"{self.engine}"',
            "localfile_store.read_mode": f'"{self.read_mode}"',
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
    for engine, mode, read_mode, every_second in (
        ("io_uring", "direct", "direct", 0),
        ("pool", "buffered", "direct", 0),
        ("io_uring", "buffered", "buffered", 1),
        ("pool", "direct", "buffered", 1),
    ):
        name, how = f"{engine}_{mode}", f"files by {engine}, {mode} appends, {read_mode} reads"
        common = {
            "files": True,
            "engine": engine,
            "direct": mode == "direct",
            "read_mode": read_mode,
        }
        listed.append(
            Tier(
                name,
                f"{how}, 64 MiB of memory",
                "64M",
                giant=False,
                every_second=every_second,
                **common,
            )
        )
        if every_second == 0:
            listed.append(
                Tier(f"{name}_256", f"{how}, 256 MiB of memory", "256M", giant=True, **common)
            )
    return listed
