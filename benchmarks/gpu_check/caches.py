"""What compilers made, which the next call need not make again: `caches.tar` among the results."""

import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

# Of caches.tar: results travel by mail-sized ways.
MIB = 1 << 20
MOST_BYTES = 16 * MIB
# Below the working folder: kernels of steps, and what the peers' compilers keep (pieces.py).
FOLDERS = ("cache", "peers")
BLOCK = tarfile.BLOCKSIZE


def bytes_in_tar(file: Path) -> int:
    """With its head, and a second one for a long name."""
    return 3 * BLOCK + -(-file.stat().st_size // BLOCK) * BLOCK


def is_own(member: tarfile.TarInfo) -> bool:
    """A plain file in one of the folders."""
    parts = Path(member.name).parts
    return member.isfile() and parts[:1] in [(each,) for each in FOLDERS] and ".." not in parts


class Caches:
    """Where programs find what was compiled: with the bundle, by earlier calls, and by this one, whose
    files are added to `caches.tar` while it does not become too large."""

    def __init__(self, bundle: Path, work: Path, results: Path) -> None:
        self.bundle, self.work = bundle, work
        self.tar = results / "caches.tar"
        kernels = work / "cache" / "kernels"
        kernels.mkdir(parents=True, exist_ok=True)
        self.known: set[str] = set()
        self.told = False
        for file in sorted((bundle / "kernels").glob("*.cubin")):
            if not (kernels / file.name).exists():
                shutil.copyfile(file, kernels / file.name)
            self.known.add(self.name(kernels / file.name))
        if self.tar.exists():
            self.unpack()

    def name(self, file: Path) -> str:
        return str(file.relative_to(self.work))

    def unpack(self) -> None:
        before = set(self.known)
        try:
            with tarfile.open(self.tar) as tar:
                for member in filter(is_own, tar):
                    to = self.work / member.name
                    to.parent.mkdir(parents=True, exist_ok=True)
                    to.write_bytes(tar.extractfile(member).read())
                    self.known.add(member.name)
        except (tarfile.TarError, OSError, EOFError):
            # The end of one that was cut off; it is written anew with what was whole.
            self.tar.unlink()
            self.known = before

    def new_files(self) -> Iterator[Path]:
        for folder in FOLDERS:
            for place, _, names in sorted(os.walk(self.work / folder)):
                for file in (Path(place, name) for name in sorted(names)):
                    if self.name(file) not in self.known and not file.is_symlink():
                        yield file

    def keep_new(self) -> str | None:
        """Says what went wrong, or is left out: a piece's files go there all or none."""
        new = list(self.new_files())
        self.known.update(map(self.name, new))
        try:
            held = self.tar.stat().st_size if self.tar.exists() else 0
            more = sum(map(bytes_in_tar, new))
            if held + more > MOST_BYTES:
                return self.too_large(more)
            if new:
                self.append(new)
        except (tarfile.TarError, OSError) as error:
            return f"caches.tar lacks what was compiled just now: {error}"
        return None

    def append(self, files: list[Path]) -> None:
        with tarfile.open(self.tar, "a") as tar:
            for file in files:
                tar.add(file, self.name(file))

    def too_large(self, more: int) -> str | None:
        """Once: later ones are left out, too."""
        told, self.told = self.told, True
        if told:
            return None
        return (
            f"caches.tar may have {MOST_BYTES / MIB:g} MiB: {more / MIB:.1f} MiB that were compiled "
            "just now are left out, as may be later ones"
        )
