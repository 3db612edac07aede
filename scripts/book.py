"""A hook of MkDocs: links of the docs to files elsewhere in the repository lead to the repository's site."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = re.compile(r"\]\(\.\./([^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown, page, config, files):
    def of_repository(match):
        path, anchor = match[1], match[2] or ""
        if not (ROOT / path).exists():
            raise FileNotFoundError(f"{page.file.src_path} links to {path}, which does not exist")
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"]({config['repo_url']}/{kind}/main/{path}{anchor})"

    return OUTSIDE.sub(of_repository, markdown)
