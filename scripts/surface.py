"""Lists the public surface of the crates, as their documentation shows it, and the public types without an example.

    cargo doc --no-deps --all-features
    python3 scripts/surface.py            # compares it with tests/golden/surface/*.txt
    python3 scripts/surface.py --write    # writes those files anew

One line stands for one item that a user can reach: a type, function, trait, constant or macro by its path, and a
method or associated constant by its whole signature. What is hidden from the documentation is not listed. The page of
each type has an example in Rust, at the type itself or at one of its own methods. Needs only Python. The exit status is
1 where a list differs or an example is missing.
"""

import argparse
import difflib
import html
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
CRATES = ["fuseloop", "fuseloop_ops"]
ITEM = re.compile(r'<li><a href="([\w/]*?)(struct|enum|union|trait|fn|type|constant|macro)\.(\w+)\.html">')
# A trait's own page shows its methods in the list of its implementors' methods, so both kinds of id are read.
MEMBER = re.compile(
    r'<section id="(?:method|tymethod|associatedconstant)\.[\w.-]+"[^>]*>.*?<h4 class="code-header">(.*?)</h4>', re.DOTALL
)
OTHERS = 'id="trait-implementations"', 'id="foreign-impls"', 'id="implementors"', 'id="synthetic-implementations"'
METHODS_OF_OTHERS = 'id="deref-methods-'
EXAMPLE = "rust-example-rendered"
# Types of ours whose methods a public type has by Deref; those of the standard library are not listed.
DEREFERENCED = ["HostBatch"]


def text(markup):
    """Returns the text of a signature in one line."""
    markup = re.sub(r"<[^>]*>", "", re.sub(r"<br ?/?>", " ", markup))
    line = re.sub(r"\s+", " ", html.unescape(markup).replace("ⓘ", "")).strip()
    return re.sub(r",? ([)\]}])", r"\1", re.sub(r"([(\[]) ", r"\1", line))


def own_part(page):
    """Returns the part of a page that describes the item itself, without the traits that it implements."""
    start = page.find('<section id="main-content"')
    ends = [page.find(mark) for mark in OTHERS + (METHODS_OF_OTHERS, 'id="blanket-implementations"')]
    return page[start : min([end for end in ends if end >= 0], default=len(page))]


def own_members(page):
    """Returns the signatures of the members that a type or trait has of its own, not by a trait."""
    own = own_part(page)
    for target in DEREFERENCED:
        at = page.find(f'{METHODS_OF_OTHERS}{target}"')
        if at >= 0:
            ends = [page.find(mark, at) for mark in OTHERS + ('id="blanket-implementations"',)]
            own += page[at : min([end for end in ends if end >= 0], default=len(page))]
    return [text(signature) for signature in MEMBER.findall(own)]


def read_pages(crate, docs):
    """Returns the path, the kind and the page of each public item of a crate."""
    folder = os.path.join(docs, crate)
    with open(os.path.join(folder, "all.html")) as file:
        items = ITEM.findall(file.read())
    pages = []
    for path, kind, name in items:
        with open(os.path.join(folder, path, f"{kind}.{name}.html")) as file:
            pages.append((path.replace("/", "::") + name, kind, file.read()))
    return pages


def surface(pages):
    """Returns the lines of a crate's list, sorted."""
    lines = []
    for path, kind, page in pages:
        lines.append(f"{path}: {kind}")
        if kind in ("struct", "enum", "union", "trait"):
            lines += [f"{path}: {member}" for member in own_members(page)]
    return sorted(lines)


def without_example(pages):
    """Returns the path and the kind of each type whose page has no example."""
    kinds = ("struct", "enum", "union", "trait", "type")
    return [(path, kind) for path, kind, page in pages if kind in kinds and EXAMPLE not in own_part(page)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--write", action="store_true", help="write the lists anew")
    parser.add_argument("--docs", default=os.path.join(ROOT, "target", "doc"), help="what cargo doc wrote")
    arguments = parser.parse_args()
    differ = False
    missing = False
    for crate in CRATES:
        pages = read_pages(crate, arguments.docs)
        for item, kind in without_example(pages):
            print(f"{crate}::{item}: the page of this {kind} has no example")
            missing = True
        found = surface(pages)
        path = os.path.join(ROOT, "tests", "golden", "surface", f"{crate}.txt")
        print(f"{crate}: {len(found)} public items")
        if arguments.write:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write("\n".join(found) + "\n")
            continue
        with open(path) as file:
            listed = file.read().splitlines()
        for line in difflib.unified_diff(listed, found, f"tests/golden/surface/{crate}.txt", "the documentation", n=0, lineterm=""):
            print(line)
            differ = True
    if differ:
        print("The public surface has changed. If that is meant: python3 scripts/surface.py --write")
    if missing:
        print(
            "The page of every public type has an example. End the comment of the type with a block of Rust between "
            "lines of /// ``` that shows what a program does with it; cargo test --doc compiles and runs it."
        )
    return int(differ or missing)


if __name__ == "__main__":
    sys.exit(main())
