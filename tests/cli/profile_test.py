"""partita profile: what it shows, converts, fits and plots, against numbers worked out here."""

import csv
import io
import json
import os
import unittest
import xml.etree.ElementTree

from harness import CliTest

LAW = {"model": "m", "launch_ms": 3, "contention_ms": 0, "host_ms": 0, "compute_sm_ms": 56,
       "serial_ms": 0, "traffic_mb": 0, "ramp_requests": 0, "sharpness": 2,
       "process_mib": 1000, "request_mib": 100}


class Profiles(CliTest):
    def setUp(self):
        super().setUp()
        laws = {"api_version": "partita/v1", "kind": "PerformanceLaws", "gpu_model": "A100-80GB",
                "laws": [LAW]}
        self.write("laws.json", json.dumps(laws))

    def predict(self, *args, status=0):
        return self.ok("profile", "predict", "laws.json", "--model", "m", "--gpu", "A100-80GB",
                       *args, status=status)

    def test_show_names_the_best_point_of_every_size(self):
        text = self.ok("profile", "show", "profiles.csv")
        # small on one GPC, batch 8 x 2: 16 requests in 2 + 4 x 16 ms.
        self.assertIn(f"{1000 * 16 / 66:.1f}", text)
        shown = json.loads(self.ok("profile", "show", "profiles.csv", "--model", "large",
                                   "--format", "json"))
        self.assertEqual([(p["model"], len(p["points"])) for p in shown["profiles"]],
                         [("large", 40)])

    def test_import_multiplies_by_processes_and_turns_seconds_into_milliseconds(self):
        os.mkdir(self.path("prof"))
        self.write("prof/net.csv", "Mig instance,Batch size,Workload Number,Throughput,Latency\n"
                                   "2,4,3,10.5,0.25\n2,4,4,0,0\n")
        rows = list(csv.DictReader(io.StringIO(self.ok("profile", "import", "prof"))))
        found = [(r["model"], r["gpcs"], r["batch"], r["processes"], float(r["throughput_rps"]),
                  float(r["latency_ms"])) for r in rows]
        self.assertEqual(found, [("net", "2", "4", "3", 31.5, 250.0)])

    def test_a_folder_of_parvagpus_files_plans_as_its_import(self):
        os.mkdir(self.path("prof"))
        for model in ("small", "large"):
            text = "Mig instance,Batch size,Workload Number,Throughput,Latency\n1,8,3,0,0\n"
            for row in csv.DictReader(io.StringIO(self.read("profiles.csv"))):
                if row["model"] == model:
                    text += (f"{row['gpcs']},{row['batch']},{row['processes']},"
                             f"{float(row['throughput_rps']) / int(row['processes'])!r},"
                             f"{float(row['latency_ms']) / 1000!r}\n")
            self.write(f"prof/{model}.csv", text)
        self.ok("profile", "import", "prof", "-o", "imported.csv")
        self.assertEqual(len(self.read("imported.csv").splitlines()), 81)
        cut = []
        for profiles in ("profiles.csv", "imported.csv", "prof"):
            plan = self.json("plan", "--services", "services.yaml", "--profiles", profiles,
                             "--gpu", "A100-80GB")
            cut.append([[(one["profile"], one["start"], one["service"], one["batch"])
                         for one in gpu["instances"]] for gpu in plan["gpus"]])
        self.assertTrue(cut[0])
        self.assertEqual(cut, cut[:1] * 3)

    def test_import_of_its_own_output_changes_nothing(self):
        self.ok("profile", "import", "profiles.csv", "-o", "one.csv")
        self.ok("profile", "import", "one.csv", "-o", "two.csv")
        self.assertEqual(self.read("one.csv"), self.read("two.csv"))
        self.assertEqual(len(self.read("one.csv").splitlines()), 81)

    def test_predict_follows_the_law(self):
        # One GPC is 14 SMs: 4 ms of device and 3 ms of launching, softly sqrt(3^2 + 4^2) = 5 ms.
        point = json.loads(self.predict("--gpcs", "1", "--batch", "1", "--format", "json"))
        self.assertAlmostEqual(point["latency_ms"], 5)
        self.assertAlmostEqual(point["throughput_rps"], 200)
        self.assertEqual((point["memory_mib"], point["fits_memory"]), (1100, True))

    def test_predict_says_no_and_writes_nothing_when_the_memory_is_not_there(self):
        self.predict("--gpcs", "1", "--batch", "64", "--processes", "2", "-o", "p.txt", status=1)
        with self.assertRaises(FileNotFoundError):
            self.read("p.txt")

    def test_fit_finds_the_law_of_the_points_it_was_given(self):
        self.ok("profile", "import", "laws.json", "-o", "points.csv")
        self.ok("profile", "fit", "points.csv", "--gpu", "A100-80GB", "-o", "fitted.json")
        fitted = json.loads(self.read("fitted.json"))["laws"][0]
        for name in ("launch_ms", "compute_sm_ms", "sharpness"):
            self.assertAlmostEqual(fitted[name] / LAW[name], 1, delta=0.05, msg=name)

    def test_plot_draws_every_point_once_per_panel(self):
        self.ok("profile", "plot", "profiles.csv", "--model", "small", "--format", "svg",
                "-o", "plot.svg")
        root = xml.etree.ElementTree.fromstring(self.read("plot.svg"))
        circles = root.findall("{http://www.w3.org/2000/svg}circle")
        self.assertEqual(len(circles), 2 * 5 * 4)
        self.assertIn("1 to 8", self.ok("profile", "plot", "profiles.csv", "--model", "small"))

    def test_refusals_name_what_is_wrong(self):
        self.write("bad.csv", "model,gpcs,batch,processes,throughput_rps,latency_ms\n"
                              "m,1,1,1,-5,1\n")
        cases = [(["show", "bad.csv"], "bad.csv:2"), (["show", "none.csv"], "none.csv"),
                 (["fit", "laws.json", "--gpu", "A100-80GB"], "laws.json"),
                 (["fit", "profiles.csv", "--gpu", "A1000"], "--gpu"),
                 (["plot", "laws.json", "--model", "n"], "--model"),
                 (["plot", "laws.json", "--model", "m", "--processes", "9"], "--processes"),
                 (["predict", "laws.json", "--model", "m", "--gpu", "A100-80GB", "--gpcs", "5",
                   "--batch", "1"], "--gpcs")]
        for args, named in cases:
            with self.subTest(args):
                result = self.run_partita("profile", *args, "-o", "never")
                self.assertEqual(result.returncode, 2)
                self.assertIn(named, result.stderr.decode())
                with self.assertRaises(FileNotFoundError):
                    self.read("never")


if __name__ == "__main__":
    unittest.main()
