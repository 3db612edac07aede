"""Counts what a newcomer meets in this tree: names, words, public items, lines, crates.

    python3 scripts/counts.py                  # the files as they are
    python3 scripts/counts.py REVISION...      # the same at each revision, in a column of its own

Needs only git and Python; `cargo tree` counts the crates, only for the files as they are. Items are found by
their first line, not by a compiler: the counts are for comparing two states of the tree.
"""

import collections
import io
import os
import re
import subprocess
import sys
import tarfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SHIPPED = re.compile(r"^(src|engine/src|jpeg/src|ops/src|ops/derive/src|kernels/src|cli/src)/.*\.rs$")
TESTS = re.compile(r"(^|/)tests(/|\.rs$)")
TYPE = re.compile(r"^\s*(pub(?:\([^)]*\))?)?\s*(?:unsafe )?(struct|enum|trait|type|union)\s+([A-Z]\w*)")
ITEM = re.compile(r"^\s*pub (?:const |unsafe |async )*(fn|struct|enum|trait|type|const)\b")
OPENING = re.compile(r"^\s*//[/!]? ?(Of|As|What|Whether|That of|Gives) ")
TESTS_MODULE = re.compile(r"^#\[cfg\(test\)\]\n(?:#\[[^\]]*\]\n)*mod \w+ \{", re.MULTILINE)
WORDS = ["place", "part", "made", "kept", "way", "page", "slot", "told", "lent", "anew", "twin", "nobody"]


def files(revision):
    """Returns the Rust files by their paths."""
    if revision is None:
        names = git("ls-files", "-co", "--exclude-standard", "*.rs").decode().split()
        return {name: read(name) for name in names if os.path.exists(os.path.join(ROOT, name))}
    with tarfile.open(fileobj=io.BytesIO(git("archive", revision))) as archive:
        members = [m for m in archive if m.isfile() and m.name.endswith(".rs")]
        return {m.name: archive.extractfile(m).read().decode() for m in members}


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def read(name):
    with open(os.path.join(ROOT, name)) as file:
        return file.read()


def counts(tree):
    """Yields the rows of the table."""
    shipped = {path: text for path, text in tree.items() if SHIPPED.match(path) and not TESTS.search(path)}
    types, public = collections.Counter(), collections.Counter()
    items = collections.Counter()
    words = collections.Counter()
    openings = 0
    for path, text in shipped.items():
        crate = path.split("/")[0]
        previous_is_comment = False
        for line in TESTS_MODULE.split(text)[0].splitlines():
            if match := TYPE.match(line):
                visible, _, name = match.groups()
                types[name] += 1
                # none.rs defines the names of `device/cuda` again, for a build without GPUs.
                if visible == "pub" and not line.startswith(" ") and path != "src/device/none.rs":
                    public[name] += 1
            if ITEM.match(line) and "cli/" not in path:
                items[crate] += 1
            openings += bool(OPENING.match(line)) and not previous_is_comment
            previous_is_comment = bool(re.match(r"\s*//[/!]? ?\S", line))
            for word in WORDS:
                words[word] += bool(re.search(rf"\b{word}\b", line, re.IGNORECASE))
    yield "types", sum(types.values())
    yield "types that share their name with another", sum(n for n in types.values() if n > 1)
    yield "public types that share their name with another", sum(n for n in public.values() if n > 1)
    for crate in ("src", "engine", "ops", "jpeg", "kernels", "video", "webp"):
        yield f"lines that begin with `pub`, {crate}", items[crate]
    yield "comments that begin with Of, As, What, Whether, That of, Gives", openings
    for word in WORDS:
        yield f"lines with the word {word!r}", words[word]
    for folder in ("src", "engine", "ops", "jpeg", "kernels", "video", "webp", "tests", "benches", "examples"):
        rust = [text for path, text in tree.items() if path.startswith(folder + "/")]
        yield f"lines of Rust, {folder}", sum(text.count("\n") for text in rust)


def crates(*features):
    tree = subprocess.run(
        ["cargo", "tree", "--locked", "-e", "normal", "-p", "fuseloop", "--prefix", "none", *features],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout
    return len({line.removesuffix(" (*)") for line in tree.splitlines() if not line.startswith("fuseloop")})


def main():
    revisions = [*sys.argv[1:], None]
    tables = [dict(counts(files(revision))) for revision in revisions]
    names = [revision or "now" for revision in revisions]
    print("| counted | " + " | ".join(names) + " |")
    print("|---|" + "---:|" * len(names))
    for row in tables[-1]:
        print(f"| {row} | " + " | ".join(str(table.get(row, "")) for table in tables) + " |")
    print(f"| crates of others, default features | {' | ' * (len(names) - 1)}{crates()} |")
    print(f"| crates of others, no features | {' | ' * (len(names) - 1)}{crates('--no-default-features')} |")


if __name__ == "__main__":
    main()
