"""The page ``docs/compiler/targets.md``, made from the target files: ``python -m compiler.targets.reference``."""

from __future__ import annotations

import sys
from pathlib import Path

from compiler.targets.catalogue import load, names

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compiler" / "targets.md"


def page() -> str:
    """Every figure of every shipped target with its source, as Markdown."""
    lines = [
        "# Processor versions\n",
        "This page is made from the files in `compiler/targets/` by `python -m compiler.targets.reference`; a test fails when it",
        "is not current. A processor version is a file, and a new version is a new file. Every figure says where it comes from:",
        "published, derived from published figures, our extension of the published processor, or chosen by us. How to describe",
        "and check a processor of your own: [describe a processor](../how-to/describe-a-processor.md).\n",
    ]
    for name in names():
        target = load(name)
        lines += [f"## `{name}`: {target.title}\n", f"Digest `{target.digest}`, price class `{target.price_class}`.\n"]
        lines += ["| figure | value | source |", "| --- | --- | --- |"]
        for path, (value, source) in target.figures.items():
            lines.append(f"| `{path}` | {_shown(value)} | {source} |")
        lines.append("")
    return "\n".join(lines)


def _shown(value: object) -> str:
    """A figure as it is read: 1,024; 320 x 160 of a tile; a word."""
    if isinstance(value, list | tuple):
        return " x ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def main() -> None:
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")


if __name__ == "__main__":
    main()
