"""Tests of what benches/peers/run.py reports: they need no peer.

    python3 -m unittest discover -s benches/peers
"""

import contextlib
import io
import json
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import run  # noqa: E402

plots = run.plots()
SVG = "{http://www.w3.org/2000/svg}"

RESULTS = {
    "hardware": {"cpu": "A <fast> CPU", "cores": "2 cores"},
    "date": "2026-11-23",
    "versions": {"fuseloop": "0.1.0", "ffcv": "1.0.2"},
    "command": "python benches/peers/run.py",
    "workloads": {
        "W4": {
            "dali": {"images_per_s": 50_000.0, "runs": [50_000.0], "first_batch_s": 2.0},
            "fuseloop": {"images_per_s": 400_000.0, "runs": [400_000.0], "first_batch_s": 0.02},
        },
        "W1": {
            "ffcv": {"images_per_s": 800.0, "runs": [790.0, 800.0, 810.0], "first_batch_s": 7.5},
            "dali": {"images_per_s": 1000.0, "runs": [1000.0], "first_batch_s": 1.7},
            "fuseloop": {
                "images_per_s": 2500.0,
                "runs": [2000.0, 2500.0, 3000.0],
                "first_batch_s": 0.05,
                "before": 3000.0,
                "after": 2000.0,
            },
        },
    },
    "left_out": {"spdl": "pip install spdl: no such version"},
}


class Table(unittest.TestCase):
    def setUp(self):
        self.lines = plots.table(RESULTS).splitlines()

    def test_rows_are_peers_and_columns_are_workloads_in_their_order(self):
        self.assertEqual(
            self.lines[:5],
            [
                "| images/s | W1 | W4 | first batch, s |",
                "|---|---:|---:|---:|",
                "| Fuseloop | 2,500 | 400,000 | 0.02–0.05 |",
                "| FFCV | 800 (3.1x) |  | 7.5 |",
                "| DALI (CPU) | 1,000 (2.5x) | 50,000 (8.0x) | 1.7–2.0 |",
            ],
        )

    def test_what_is_left_out_has_its_reason(self):
        self.assertIn("* spdl: pip install spdl: no such version", self.lines)

    def test_a_machine_that_was_not_quiet_is_reported(self):
        warnings = [line for line in self.lines if "was not quiet" in line]
        self.assertEqual(len(warnings), 1)
        self.assertTrue(warnings[0].startswith("W1: Fuseloop took 3,000 images/s before the others and 2,000"))

    def test_workloads_can_be_chosen(self):
        self.assertIn("| images/s | W4 | first batch, s |", plots.table(RESULTS, ["W4"]))


class Chart(unittest.TestCase):
    def setUp(self):
        self.root = ElementTree.fromstring(plots.chart(RESULTS))

    def bars(self):
        return [(float(bar.get("width")), bar.get("class")) for bar in self.root.iter(f"{SVG}rect")]

    def test_bars_are_as_long_as_the_rates_with_fuseloop_first(self):
        longest = plots.PANEL - plots.LABEL - plots.VALUE
        expected = [(1.0, "ours"), (0.4, None), (0.32, None), (1.0, "ours"), (0.125, None)]
        self.assertEqual(self.bars(), [(longest * share, mark) for share, mark in expected])

    def test_everything_is_within_the_picture(self):
        height = float(self.root.get("height"))
        for element in [*self.root.iter(f"{SVG}rect"), *self.root.iter(f"{SVG}text")]:
            self.assertLess(float(element.get("x")), plots.WIDTH)
            self.assertLess(float(element.get("y")) + plots.BAR - 1, height)

    def test_text_is_escaped(self):
        texts = [element.text for element in self.root.iter(f"{SVG}text")]
        self.assertIn("A <fast> CPU, 2 cores, 2026-11-23", texts)

    def test_the_same_results_give_the_same_bytes(self):
        again = json.loads(json.dumps(RESULTS))
        self.assertEqual(plots.chart(RESULTS), plots.chart(again))

    def test_the_command_writes_both(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = {name: Path(folder, name) for name in ("r.json", "r.md", "r.svg")}
            paths["r.json"].write_text(json.dumps(RESULTS), encoding="utf-8")
            argv = ["plots.py", str(paths["r.json"]), "--table", str(paths["r.md"]), "--chart", str(paths["r.svg"])]
            with mock.patch.object(sys, "argv", argv):
                plots.main()
            self.assertEqual(paths["r.md"].read_text(encoding="utf-8"), plots.table(RESULTS))
            self.assertEqual(paths["r.svg"].read_text(encoding="utf-8"), plots.chart(RESULTS))


class Transform(unittest.TestCase):
    def setUp(self):
        known = {name: RESULTS[name] for name in ("hardware", "date", "versions")}
        times = {"Fuseloop": 0.2, "Fuseloop, from files": 0.75, "torchvision, tensors": 1.3}
        self.results = {**known, "command": "transform.py", "photos": 200, "cpu_ms": times, "ratios": {}, "call_us": 2.04}

    def test_libraries_that_were_measured_have_rows(self):
        rows = [line for line in plots.transform_table(self.results).splitlines() if line.startswith("| ")]
        self.assertEqual(
            rows,
            ["| ms | decoded images | files |", "| Fuseloop | 0.2 | 0.75 |", "| torchvision v2, tensors | 1.3 (6.5x) |  |"],
        )

    def test_the_table_follows_the_others(self):
        with tempfile.TemporaryDirectory() as folder:
            loaders, transform, text = (Path(folder, name) for name in ("r.json", "t.json", "r.md"))
            loaders.write_text(json.dumps(RESULTS), encoding="utf-8")
            transform.write_text(json.dumps(self.results), encoding="utf-8")
            argv = ["plots.py", str(loaders), "--transform", str(transform), "--table", str(text)]
            with mock.patch.object(sys, "argv", argv):
                plots.main()
            expected = plots.table(RESULTS) + plots.transform_table(self.results)
            self.assertEqual(text.read_text(encoding="utf-8"), expected)


class Sources(unittest.TestCase):
    def test_each_source_is_set_beside_the_beton_of_its_workload(self):
        known = {name: RESULTS[name] for name in ("hardware", "date", "versions")}
        rates = {"W1": {".beton": 2000, "datasets": 300}, "W4": {".beton": 7e5, "arrays": 7e5}}
        rows = plots.sources_table({**known, "command": "sources.py", "images_per_s": rates}).splitlines()
        cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows if row.startswith("| W")]
        self.assertEqual([[name, share] for name, _, share in cells],
                         [["W1, .beton", "1.00"], ["W1, datasets", "0.15"], ["W4, .beton", "1.00"], ["W4, arrays", "1.00"]])  # fmt: skip


class Run(unittest.TestCase):
    """The order of measuring and what becomes of failures, with stand-ins for what is measured."""

    def run_all(self, only, workloads):
        args = SimpleNamespace(only=only, workloads=workloads)
        order, results = [], {"workloads": {}, "left_out": {}, "versions": {}}

        def fuseloop(*_):
            order.append("fuseloop")
            return {"runs": [3.0 - len(order) / 10], "first_batch_s": 0.02}

        def peer(_, name, *__):
            order.append(name)
            if name == "dali":
                raise run.Failed("no such processor")
            return {"runs": [1.0, 3.0, 2.0], "first_batch_s": 1.0, "layout": "channels last", "versions": {name: "1"}}

        with mock.patch.object(run, "measure_fuseloop", fuseloop), mock.patch.object(run, "measure_peer", peer), \
                contextlib.redirect_stdout(io.StringIO()):
            run.run_all(args, None, None, results)
        return order, results

    def test_fuseloop_is_measured_before_and_after_the_others(self):
        order, results = self.run_all(["fuseloop", "ffcv", "torchvision"], ["W1"])
        self.assertEqual(order, ["fuseloop", "ffcv", "torchvision", "fuseloop"])
        ours = results["workloads"]["W1"]["fuseloop"]
        self.assertEqual(ours["runs"], [2.9, 2.6])
        self.assertEqual((ours["before"], ours["after"]), (2.9, 2.6))

    def test_the_median_of_the_runs_counts(self):
        _, results = self.run_all(["ffcv"], ["W1"])
        self.assertEqual(results["workloads"]["W1"]["ffcv"]["images_per_s"], 2.0)
        self.assertEqual(results["versions"], {"ffcv": "1"})

    def test_a_peer_that_fails_is_left_out_by_name_and_the_others_go_on(self):
        order, results = self.run_all(["dali", "torchvision"], ["W1", "W2"])
        self.assertEqual(order, ["dali", "torchvision", "dali", "torchvision"])
        self.assertEqual(results["left_out"], {f"dali {name}": "no such processor" for name in ("W1", "W2")})
        self.assertIn("torchvision", results["workloads"]["W2"])

    def test_a_peer_that_cannot_be_installed_is_left_out_by_name(self):
        def environment(name):
            if name == "ffcv":
                raise run.Failed("pip install ffcv: no compiler")

        args, left_out = SimpleNamespace(only=["fuseloop", "ffcv", "dali"]), {}
        with mock.patch.object(run, "environment", environment), contextlib.redirect_stdout(io.StringIO()):
            run.ready(args, left_out)
        self.assertEqual(args.only, ["fuseloop", "dali"])
        self.assertEqual(left_out, {"ffcv": "pip install ffcv: no compiler"})

    def test_a_workload_that_a_peer_does_not_have_is_left_out_with_the_reason(self):
        order, results = self.run_all(["webdataset"], ["W4"])
        self.assertEqual(order, [])
        self.assertEqual(list(results["left_out"]), ["webdataset W4"])

    def test_a_program_that_fails_gives_the_line_that_names_the_error(self):
        code = "import sys; print('warming up', file=sys.stderr); raise ValueError('in /a/b/c.py')"
        with self.assertRaisesRegex(run.Failed, r"^a peer: ValueError: in c\.py$"):
            run.called([sys.executable, "-c", code], "a peer")

    def test_a_program_that_is_missing_is_an_error(self):
        with self.assertRaisesRegex(run.Failed, "no such program: no-such-program"):
            run.called(["no-such-program"], "a peer")

    def test_every_environment_has_pinned_requirements(self):
        for name, about in run.ENVIRONMENTS.items():
            for part in filter(None, (name, about.fallback)):
                for line in Path(run.HERE, "requirements", f"{part}.txt").read_text(encoding="utf-8").splitlines():
                    if not line.startswith("#"):
                        self.assertRegex(line, r"^[A-Za-z0-9_.-]+==[0-9a-z.]+$")
        self.assertEqual({peer.environment for peer in run.PEERS.values()} - set(run.ENVIRONMENTS), set())

    def test_every_peer_has_a_loader_and_a_title(self):
        loaders = {path.stem for path in Path(run.HERE, "loaders").glob("*.py")} - {"__init__"}
        self.assertEqual(loaders, set(run.PEERS))
        self.assertEqual({*run.PEERS, "fuseloop"}, set(plots.TITLES))
        self.assertEqual(set(run.WORKLOADS), set(plots.WORKLOADS))


if __name__ == "__main__":
    unittest.main()
