"""partita profile: what it shows, converts, fits and plots, against numbers worked out here."""

import csv
import io
import json
import os
import unittest
import xml.etree.ElementTree

from harness import CliTest, source_text

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
                                   "2,4,3,10.5,0.381\n2,4,4,0,0\n")
        rows = list(csv.DictReader(io.StringIO(self.ok("profile", "import", "prof"))))
        found = [(r["model"], r["gpcs"], r["batch"], r["processes"], float(r["throughput_rps"]),
                  float(r["latency_ms"])) for r in rows]
        self.assertEqual(found, [("net", "2", "4", "3", 31.5, 381.0),
                                 ("net", "2", "4", "4", 0, 0)])

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
        self.assertEqual(len(self.read("imported.csv").splitlines()), 83)  # two did not run
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

    def six_rows(self):
        """Six rows of a published profile, with nothing about memory."""
        keys = ("1,1,1", "1,8,1", "2,8,2", "3,16,2", "4,32,3", "7,32,3")
        lines = source_text("data/published/parvagpu/a100-80gb.csv").splitlines()
        rows = [line for line in lines if line.startswith(tuple(f"mobilenetv2,{k}," for k in keys))]
        self.assertEqual(len(rows), 6)
        self.assertNotIn("memory", lines[0])
        return "\n".join([lines[0], *rows, ""])

    def test_six_rows_are_fitted_to_what_they_say_and_to_nothing_else(self):
        self.write("six.csv", self.six_rows())
        done = self.run_partita("profile", "fit", "six.csv", "--gpu", "A100-80GB", "-o", "six.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("memory unknown", done.stderr.decode())
        law = json.loads(self.read("six.json"))["laws"][0]
        self.assertEqual((law["process_mib"], law["request_mib"]), (0, 0))
        # One GPU does with the measured rows, and so it must with their law. When combinations that
        # are not in the file counted as ones that did not run, it took 25.
        self.write_services("name: a, model: mobilenetv2, rate_rps: 5000, slo_ms: 200")
        for profiles in ("six.csv", "six.json"):
            plan = self.json("plan", "--services", "services.yaml", "--profiles", profiles,
                             "--gpu", "A100-80GB")
            self.assertEqual(plan["objective"]["gpus"], 1, profiles)

    def test_a_plan_says_what_of_it_is_predicted(self):
        self.write_services("name: a, model: m, rate_rps: 20, slo_ms: 200")
        plan = ("plan", "--services", "services.yaml", "--gpu", "H100-80GB-SXM5", "--profiles")
        self.ok("profile", "import", "laws.json", "--gpu", "H100-80GB-SXM5", "-o", "imported.csv")
        self.assertIn("predicted:A100-80GB", self.read("imported.csv"))
        where = "by laws learned on A100-80GB, not on H100-80GB-SXM5"
        for profiles in ("laws.json", "imported.csv"):
            made = self.json(*plan, profiles)
            [one] = [i for gpu in made["gpus"] for i in gpu["instances"]]
            self.assertEqual((one["predicted"], one["learned_on"]), (True, "A100-80GB"))
            self.assertTrue(made["services"][0]["predicted"])
            self.assertIn(where, " ".join(self.ok(*plan, profiles).split()))
            self.assertIn("predicted, not measured", self.ok(*plan, profiles, "--format", "svg"))
            # Without its marks, the plan is still found out.
            del one["predicted"], one["learned_on"], made["services"][0]["predicted"]
            self.write("plan.json", json.dumps(made))
            for command in ("verify", "simulate"):
                done = self.run_partita(command, "plan.json", "--services", "services.yaml",
                                        "--profiles", profiles)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(where, done.stderr.decode())
        # Measured there, it is not said.
        measured = self.read("imported.csv").replace(",predicted:A100-80GB", ",measured")
        self.write("imported.csv", measured)
        self.assertNotIn("predicted", self.ok(*plan, "imported.csv").replace("predicted_l", ""))
        self.assertNotIn('"predicted"', self.ok(*plan, "imported.csv", "--format", "json"))

    def test_show_and_predict_say_where_points_come_from(self):
        self.assertIn("predicted: law of A100-80GB", self.ok("profile", "show", "laws.json",
                                                             "--model", "m"))
        self.assertNotIn("SOURCE", self.ok("profile", "show", "profiles.csv", "--model", "small"))
        point = json.loads(self.predict("--gpcs", "1", "--batch", "1", "--format", "json"))
        self.assertEqual((point["predicted"], point["learned_on"]), (True, "A100-80GB"))
        args = ("profile", "predict", "laws.json", "--model", "m", "--gpcs", "1", "--batch", "1")
        self.assertIn("learned on A100-80GB, not on H100-80GB-SXM5",
                      self.ok(*args, "--gpu", "H100-80GB-SXM5"))
        self.assertNotIn("learned on", self.ok(*args, "--gpu", "A100-80GB"))

    def test_a_profile_that_is_nearly_right_is_taken_with_a_warning(self):
        text = self.read("profiles.csv").splitlines()
        model, gpcs, batch, processes, throughput, latency, memory = text[-1].split(",")
        text[-1] = ",".join([model, gpcs, batch, processes, throughput,
                             repr(2 * float(latency)), memory])
        self.write("profiles.csv", "\n".join(text) + "\n")
        for args in (self.plan_args(), ("profile", "show", "profiles.csv")):
            done = self.run_partita(*args)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("warning: profile of large: latency and throughput differ by more than "
                          "1.5 x in 1 of 40 points", done.stderr.decode())

    def test_plot_draws_every_point_once_per_panel(self):
        self.ok("profile", "show", "profiles.csv", "--model", "small", "--format", "svg",
                "-o", "plot.svg")
        self.assertEqual(self.ok("profile", "plot", "profiles.csv", "--model", "small"),
                         self.ok("profile", "show", "profiles.csv", "--model", "small",
                                 "--format", "plot"))
        root = xml.etree.ElementTree.fromstring(self.read("plot.svg"))
        circles = root.findall("{http://www.w3.org/2000/svg}circle")
        self.assertEqual(len(circles), 2 * 5 * 4)
        self.assertIn("1 to 8", self.ok("profile", "plot", "profiles.csv", "--model", "small"))

    def test_law_counts_what_was_left_out(self):
        head, *rows = source_text("data/published/llm/measured.csv").splitlines(True)
        self.write("points.csv", head + "".join(r for r in rows if r.startswith("h200_sxm,trtllm")))
        law = lambda *args: self.ok("profile", "law", "points.csv", "--kind", "llm", *args)
        seen = json.loads(law("--format", "json"))
        unseen = json.loads(law("--leave-out", "concurrency", "--format", "json"))
        shape = json.loads(law("--leave-out", "shape", "--format", "json"))
        self.assertEqual([r["left_out"] for r in (seen, unseen, shape)],
                         ["nothing", "concurrency", "shape"])
        for report in (seen, unseen, shape):
            rows = report["by_configuration"]
            self.assertEqual((report["kind"], report["configurations"]), ("LawReport", len(rows)))
            for name in ("tpot_error", "ttft_error"):
                mean = sum(row[name] for row in rows) / len(rows)
                self.assertAlmostEqual(report[name + "_mean"], mean)
        for name in ("tpot_error_mean", "ttft_error_mean"):  # the less is known, the worse
            self.assertLess(seen[name], unseen[name])
            self.assertLess(unseen[name], shape[name])
        self.assertIn(f"TPOT {100 * unseen['tpot_error_mean']:.1f} %",
                      law("--leave-out", "concurrency"))

    def test_refusals_name_what_is_wrong(self):
        self.write("bad.csv", "model,gpcs,batch,processes,throughput_rps,latency_ms\n"
                              "m,1,1,1,-5,1\n")
        self.write("few.csv", "system,backend,version,model,precision,isl,osl,concurrency,tp,pp,"
                              "attention_dp,moe_tp,moe_ep,ttft_ms,tpot_ms\n"
                              "s,b,,m,,1,1,1,,,,,,1,1\n")
        cases = [(["law", "bad.csv", "--kind", "llm"], "bad.csv:1"),
                 (["law", "few.csv", "--kind", "llm"], "few.csv"),
                 (["law", "few.csv", "--kind", "dnn"], "--kind"),
                 (["show", "bad.csv"], "bad.csv:2"), (["show", "none.csv"], "none.csv"),
                 (["fit", "laws.json", "--gpu", "A100-80GB"], "laws.json"),
                 (["fit", "profiles.csv", "--gpu", "A1000"], "--gpu"),
                 (["show", "laws.json", "--format", "plot"], "--model"),
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
