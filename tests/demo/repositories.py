"""Git repositories made for a test: small, odd, and the same every time."""

import os
import subprocess
from pathlib import Path

START_S = 1_700_000_000


class Repository:
    """A work tree and its git; every commit is a minute after the one before."""

    def __init__(self, path: Path, *init_options: str) -> None:
        self.path = path
        self.commits = 0
        path.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main", *init_options)

    def git(self, *words: str | bytes, stdin: bytes = b"", author: str = "Ann Other") -> bytes:
        date = f"{START_S + 60 * self.commits} +0100"
        # None of the machine's settings: a failing signature would fail every commit.
        environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("GIT_")},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_AUTHOR_NAME": author,
            "GIT_AUTHOR_EMAIL": "nobody@example.com",
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_NAME": author,
            "GIT_COMMITTER_EMAIL": "nobody@example.com",
            "GIT_COMMITTER_DATE": date,
        }
        done = subprocess.run(
            ["git", *words], cwd=self.path, env=environment, input=stdin, capture_output=True
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def write(self, name: str | bytes, text: str) -> None:
        place = os.path.join(os.fsencode(self.path), os.fsencode(name))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w", encoding="utf-8") as file:
            file.write(text)

    def commit(self, *, author: str = "Ann Other") -> str:
        self.commits += 1
        self.git("add", "--all", author=author)
        self.git(
            "commit", "--quiet", "--allow-empty", "-m", f"number {self.commits}", author=author
        )
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD").decode().strip()


def plain_repository(path: Path, *init_options: str) -> Repository:
    """Adds, updates, a delete and a rename; two people."""
    made = Repository(path, *init_options)
    for name in ("README.md", "src/one.py", "src/two.py", "docs/a.md"):
        made.write(name, f"{name}\n")
    made.commit()
    made.write("src/one.py", "changed\n")
    made.write("empty", "")
    made.commit(author="Bea Nother")
    (made.path / "docs/a.md").unlink()
    made.git("mv", "src/two.py", "src/three.py")
    made.commit()
    made.write("src/one.py", "changed again\n")
    made.commit()
    return made


def odd_repository(path: Path) -> Repository:
    """Everything a tree can hold, and names that are not text."""
    made = plain_repository(path)
    for name in (b"not \xff utf-8", b"new\nline", b'quo"te', b"tab\there", "straße/ünï".encode()):
        made.write(name, "odd\n")
    (made.path / "link").symlink_to("README.md")
    made.commit()
    (made.path / "README.md").chmod(0o755)
    made.commit()
    # A submodule, and names that sort around it.
    made.write("part.x", "before or after?\n")
    made.write("part-x", "before or after?\n")
    made.git("add", "--all")
    made.git("update-index", "--add", "--cacheinfo", f"160000,{made.head()},part")
    made.commits += 1
    made.git("commit", "--quiet", "-m", "a submodule")
    # A file becomes a directory, a directory becomes a file, a link becomes a file.
    made.git("update-index", "--force-remove", "empty", "src/one.py", "src/three.py", "link")
    blob = made.git("hash-object", "-w", "--stdin", stdin=b"other\n").decode().strip()
    for other in ("empty/now-full", "src", "link"):
        made.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{other}")
    made.commits += 1
    made.git("commit", "--quiet", "-m", "other kinds")
    return made


def merged_repository(path: Path) -> Repository:
    """Two branches with deletes on either side."""
    made = plain_repository(path)
    made.git("checkout", "--quiet", "-b", "side", "HEAD~2")
    made.write("side/only.txt", "side\n")
    (made.path / "empty").unlink()
    made.commit(author="Cyd Thirdly")
    made.write("side/only.txt", "side again\n")
    made.commit(author="Cyd Thirdly")
    made.git("checkout", "--quiet", "main")
    made.commits += 1
    made.git("merge", "--quiet", "--no-ff", "-m", "merge", "side")
    made.write("after.txt", "after\n")
    made.commit()
    return made
