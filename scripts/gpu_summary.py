"""Prints the lines that `gpu_check.sh` writes as tables for a README.

    python3 gpu_summary.py results.jsonl
"""

import json
import sys


def table(head, rows):
    print("\n| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell).replace("|", "/") for cell in row) + " |")


def measured(line):
    ratio = "" if line["ratio"] is None else f"{line['ratio']:.2f}"
    aim = {None: "", True: "met", False: "MISSED"}[line["met"]]
    return line["group"], line["name"], f"{line['value']:,.2f} {line['unit']}", ratio, aim


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for line in lines:
        if "about" in line:
            print(line["about"])
    steps = [line for line in lines if line.get("group") == "step"]
    table(["step", "what", "outcome", "s"],
          [(line["name"], line["what"], line["outcome"], line["seconds"]) for line in steps])
    checks = [line for line in lines if line.get("group") == "python"]
    if checks:
        table(["in Python", "outcome", ""],
              [(line["name"], line["outcome"], line["words"]) for line in checks])
    rows = [measured(line) for line in lines if "value" in line]
    if rows:
        table(["group", "what", "measured", "ratio", "aim"], rows)
    wrong = [line for line in steps + checks if line["outcome"].startswith("FAILED")]
    print(f"\n{len(wrong)} failed, {sum(not line['met'] for line in lines if line.get('met') is not None)} aims missed")


if __name__ == "__main__":
    main()
