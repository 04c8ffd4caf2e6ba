#!/usr/bin/env python3
"""Proves that every house check can fail: each runs on a small tree that keeps the rule and on the
same tree with one thing broken, and must name that thing.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class HouseTest(unittest.TestCase):
    TREE = {}  # the files of a tree that passes

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write(self.TREE)

    def write(self, files):
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run_command(self, *command):
        done = subprocess.run(command, cwd=self.root, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def check(self):
        """Runs the check of this class in the tree: (exit status, output)."""
        tool, *arguments = self.CHECK
        return self.run_command(sys.executable, ROOT / "tools" / tool, *arguments)

    def accepted(self, result):
        self.assertEqual(result[0], 0, result[1])

    def refused(self, result, *fragments):
        self.assertNotEqual(result[0], 0, result[1])
        for fragment in fragments:
            self.assertIn(fragment, result[1])

    def refused_with(self, files, *fragments):
        """The tree passes; with these files written over it, it is refused and they are named."""
        self.accepted(self.check())
        self.write(files)
        self.refused(self.check(), *fragments)


class Layers(HouseTest):
    CHECK = ["check_layers.py", ".", "layers.txt"]
    LAYERS = ("base: |\nhw: base |\nplan: base hw | planners\nplanners: plan |\n"
              "verify: plan |\nptx: base |\n")
    TREE = {
        "layers.txt": LAYERS,
        "node/base/a.h": "#include <vector>\n",
        "node/hw/h.h": '#include "base/a.h"\n',
        "node/plan/p.h": '#include "base/a.h"\n#include "hw/h.h"\n',
        "node/plan/p_test.cc": '#include "planners/serving/s.h"\n',
        "node/planners/serving/s.h": '#include "planners/serving/t.h"\n#include "plan/p.h"\n',
        "node/verify/v.cc": '#include "plan/p.h"\n',
        "cuda/ptx/p.h": '#include "base/a.h"\n',
    }

    def test_undeclared_edge(self):
        text = '#include "plan/p.h"\n#include "planners/serving/s.h"\n'
        self.refused_with({"node/verify/v.cc": text},
                          "node/verify/v.cc:2: verify may not include planners")

    def test_nothing_is_inherited(self):
        self.refused_with({"node/verify/w.cc": '#include "hw/h.h"\n'}, "verify may not include hw")

    def test_upward_edge_in_a_header_with_angle_brackets(self):
        self.refused_with({"node/base/a.h": "#include <hw/h.h>\n"},
                          "a.h:1: base may not include hw")

    def test_other_names_of_a_header(self):
        for line in ('#include "../planners/serving/s.h"', '#include "node/planners/serving/s.h"',
                     '#include "planners/./serving/s.h"', '#include "planners//serving/s.h"',
                     '#include "apps/partita/flags.h"', "#include HEADER", '#include_next "hw/h.h"',
                     'import "planners/serving/s.h";', "%:include <planners/serving/s.h>",
                     '#include /* a judge */ "planners/serving/s.h"  // of its own'):
            with self.subTest(line):
                text = f'#include "plan/p.h"\n{line}\n'
                self.refused_with({"node/verify/v.cc": text}, "node/verify/v.cc:2: ")
                self.write(self.TREE)

    def test_header_for_tests(self):
        self.write({"node/plan/testing/w.h": "", "node/verify/v_test.cc":
                    '#include "plan/testing/w.h"\n'})
        self.refused_with({"node/verify/v.cc": '#include "plan/testing/w.h"\n'},
                          "v.cc:1: plan/testing/w.h is for tests alone")

    def test_edge_of_a_unit_test(self):
        self.refused_with({"node/hw/h_test.cc": ' #  include "plan/p.h"\n'},
                          "h_test.cc:1: hw may not include plan")

    def test_edge_that_only_tests_may_use(self):
        self.refused_with({"node/plan/p.cc": '#include "planners/serving/s.h"\n'},
                          "p.cc:1: plan may not include planners")

    def test_edge_that_nobody_uses(self):
        self.refused_with({"node/verify/v.cc": ""},
                          "verify: declares plan, which it does not include")

    def test_edge_that_no_test_uses(self):
        self.refused_with({"node/plan/p_test.cc": ""},
                          "plan: its tests declare planners, which they do not include")

    def test_node_looks_into_no_other_product(self):
        self.refused_with({"layers.txt": self.LAYERS.replace("verify: plan", "verify: plan ptx")},
                          "verify: node/ may not look into cuda/ (ptx)")

    def test_folder_that_is_no_module(self):
        self.refused_with({"node/verify/v.cc": '#include "plan/p.h"\n#include "drivers/x.h"\n',
                           "node/drivers/sim/s.h": "",
                           "layers.txt": self.LAYERS + "drivers/sim: |\n"},
                          "verify may not include drivers/x.h")

    def test_cycle(self):
        self.refused_with({"layers.txt": "base: hw |\nhw: base |\n"}, "cycle: base -> hw")

    def test_file_in_no_module(self):
        self.refused_with({"node/stray/x.cc": ""}, "node/stray/x.cc: in no module")

    def test_dependency_that_is_no_module(self):
        self.refused_with({"layers.txt": "base: ghost |\n"}, "ghost, which is no module")


class ModuleTable(HouseTest):
    CHECK = ["check_table.py", "doc.md", "layers.txt"]
    DOCUMENT = """before
<!-- modules -->
| module | may include | what |
| --- | --- | --- |
| base | - | things |
| hw | base | GPUs |
| sim | hw, base | worlds |
<!-- /modules -->
"""
    TREE = {"doc.md": DOCUMENT, "layers.txt": "base: \nhw: base\nsim: base hw\n"}

    def test_edge_that_the_table_does_not_show(self):
        self.refused_with({"layers.txt": "base: \nhw: base sim\nsim: base hw\n"},
                          "hw: the table says")

    def test_module_without_a_row(self):
        self.refused_with({"layers.txt": "base: \nhw: base\nsim: base hw\nnew: hw\n"},
                          "new: a module without a row")

    def test_row_without_a_module(self):
        self.refused_with({"layers.txt": "base: \nhw: base\n"}, "sim: a row in the table without")

    def test_missing_table(self):
        self.refused_with({"doc.md": "no table\n"}, "no <!-- modules -->")


class Registered(HouseTest):
    CHECK = ["check_registered.py", ".", "tests.txt"]
    TREE = {
        "tests.txt": "node/hw/a_test.cc\ntests/cli/cli_test.py\n",
        "node/hw/a_test.cc": "",
        "node/hw/a.cc": "",
        "tests/cli/cli_test.py": "",
    }

    def test_unregistered_sources(self):
        strays = ["node/hw/deep/b_test.cc", "apps/x/c_test.cc", "tests/x/d_test.cc",
                  "tests/e_test.py", "fuzz/f_fuzz.cc", "bench/g.cc"]
        self.refused_with({name: "" for name in strays}, "6 unregistered", *strays)


class Tidy(HouseTest):
    CHECK = ["check_tidy.py", "."]
    OWN = '#include "hw/a.h"\n'
    TREE = {
        "node/hw/CMakeLists.txt": "module(NAME hw)\n",
        "node/hw/README.md": "# hw\n",
        "node/hw/a.h": "struct A { std::unordered_map<int, int> seen; };\n",
        "node/hw/a.cc": OWN + "int f(A& a) {\n" + "  a.seen[1]++;\n" * 68 + "}\n",
        "node/drivers/nvml.cc": "#include <nvml.h>\n",
        "docs/a.md": "long " * 40 + " net" + "work/x and /proc/x\n",
    }

    def test_long_line(self):
        self.refused_with({"node/hw/b.cc": "//" + "x" * 99 + "\n"}, "node/hw/b.cc:1: 101 columns")

    def test_long_line_counts_characters_not_bytes(self):
        self.write({"node/hw/b.cc": "//" + "é" * 98 + "\n"})
        self.accepted(self.check())

    def test_long_function(self):
        text = self.OWN + "int f(A& a) {\n" + "  a.seen[1]++;\n" * 69 + "}\n"
        self.refused_with({"node/hw/a.cc": text}, "node/hw/a.cc:2: f has 71 lines")

    def test_class_of_many_functions(self):
        def large(functions, inline):
            text = "struct A;\nclass P::B {\n  int inside() { return x; }\n"
            text += "".join(f"  int f{n}(int);\n" for n in range(functions - inline - 1))
            text += "".join(f"  int g{n}() {{ return {n}; }}\n" for n in range(inline))
            return text + "};\n"

        def bodies(some):
            return "".join(f"int P::B::f{n}(int i) {{ return i; }}\n" for n in some)

        self.write({"node/hw/b.h": large(30, 5), "node/hw/c.cc": bodies(range(12)),
                    "node/hw/d.cc": bodies(range(12, 24))})
        self.refused_with({"node/hw/b.h": large(31, 5)}, "1 complaints",
                          "node/hw/b.h:2: P::B has 31 functions; 30 are the limit")

    def test_two_types_of_one_name(self):
        place = "namespace p::%s {\nstruct B {};\nnamespace {\nstruct C {};\n}\n}\n"
        self.write({"node/hw/b.h": place % "hw", "node/hw/c.h": place % "plan"})
        self.refused_with({"node/hw/d.h": place % "hw"}, "1 complaints",
                          "node/hw/d.h: p::hw::B is also defined in node/hw/b.h")

    def test_own_header_is_not_first(self):
        for text in ("#include <map>\n" + self.OWN, '#include "a.h"\n', "int a;\n"):
            self.write({"node/hw/a.cc": text})
            self.refused(self.check(), "node/hw/a.cc: its first #include")

    def test_long_test(self):
        self.refused_with({"node/hw/a_test.cc": "TEST(A, b) {\n" + "  f();\n" * 69 + "}\n"},
                          "node/hw/a_test.cc:1: TEST has 71 lines")

    def test_long_function_in_a_header(self):
        self.refused_with({"node/hw/b.h": "inline int g() {\n" + "  f();\n" * 69 + "}\n"},
                          "g has 71 lines")

    def test_long_file(self):
        self.refused_with({"node/hw/b.cc": "int a;\n" * 1001}, "node/hw/b.cc: 1001 lines")

    def test_iteration_over_an_unordered_member(self):
        text = self.OWN + "int f(A& a) { for (auto& [k, v] : a.seen) {} }\n"
        self.refused_with({"node/hw/a.cc": text},
                          "node/hw/a.cc:2: iterates over the unordered seen")

    def test_begin_of_an_unordered_local(self):
        text = "int f() {\n  std::unordered_set<int> ids;\n  return *ids.begin();\n}\n"
        self.refused_with({"node/planners/x.cc": text}, "node/planners/x.cc:3: iterates")

    def test_unordered_iteration_elsewhere_is_free(self):
        self.write({"apps/x.cc": "std::unordered_set<int> ids;\nint a = *ids.begin();\n"})
        self.accepted(self.check())

    def test_bans(self):
        lines = ["std::cout << std::endl;", "using namespace std;", "int a = rand();",
                 "// TO" "DO: x", "#include <cuda_runtime.h>", 'auto p = "/wo' 'rk/x";']
        self.refused_with({"node/hw/b.cc": "\n".join(lines) + "\n"}, "6 complaints",
                          *(f"node/hw/b.cc:{number}: " for number in range(1, 7)))

    def test_templates_that_cost_seconds(self):
        text = 'auto a = fmt::join(b, ",");\nfmt::format_to(std::back_inserter(a), "");\n'
        eigen = "#include <Eigen/Core>\n#include <Eigen/QR>\n"
        self.write({"node/base/append.h": text, "node/hw/b_test.cc": text + eigen,
                    "node/base/numeric/b.cc": eigen, "bench/b.cc": text})
        self.accepted(self.check())
        self.refused_with({"apps/b.cc": text, "node/hw/c.cc": eigen}, "3 complaints",
                          "apps/b.cc:1: ", "apps/b.cc:2: ", "node/hw/c.cc:2: ")

    def test_literals_may_be_used(self):
        self.write({"node/hw/b.cc": "using namespace std::string_literals;\nint strand(int);\n"})
        self.accepted(self.check())

    def test_path_of_one_machine_in_a_document_and_a_script(self):
        path = "/wo" "rk/x"
        self.refused_with({"docs/b.md": f"see {path}\n", ".ci/run": f"cd home\ncd {path}\n"},
                          "docs/b.md:1:", ".ci/run:2:")

    def test_missing_and_long_readme(self):
        self.refused_with({"node/plan/CMakeLists.txt": "", "node/hw/README.md": "x\n" * 31},
                          "node/plan/README.md: missing", "node/hw/README.md: more than 30 lines")


class Counting(HouseTest):
    CHECK = ["count_tests.py", "one", "two"]
    TREE = {
        "one/junit.xml": '<testsuite tests="9" failures="0" disabled="1" skipped="2"/>',
        "two/junit.xml": '<testsuite tests="3" failures="0" disabled="0" skipped="0"/>',
    }

    def test_passing(self):
        self.assertEqual(self.check(), (0, "9 passed, 0 failed, 3 skipped\n"))

    def test_failed_test(self):
        report = self.TREE["two/junit.xml"].replace('failures="0"', 'failures="2"')
        self.refused_with({"two/junit.xml": report}, "7 passed, 2 failed, 3 skipped")

    def test_build_without_a_report_or_without_tests(self):
        self.refused_with({"two/junit.xml": self.TREE["two/junit.xml"].replace("3", "0")},
                          "two: no tests", "6 passed, 1 failed, 3 skipped")
        (self.root / "two/junit.xml").unlink()
        self.refused(self.check(), "two: did not build", "6 passed, 1 failed, 3 skipped")


class Purity(HouseTest):
    PURE = """
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
std::string pure(int n) {
  std::mt19937_64 rng(7);
  std::map<std::string, std::shared_ptr<std::vector<double>>> table;
  std::unordered_map<int, int> memo{{n, 1}};
  static const std::string kName = "x";
  std::ostringstream out;
  out << std::uniform_int_distribution<int>(0, n)(rng) << table.size() << memo.at(n) << kName;
  std::vector<int> v(static_cast<std::size_t>(n));
  std::stable_sort(v.begin(), v.end());
  return out.str();
}
"""
    # one function per kind of impurity, and a part of the symbol that must be named
    IMPURE = {
        "auto f0() { return std::chrono::steady_clock::now(); }": "steady_clock3now",
        "auto f1() { return std::chrono::system_clock::now(); }": "system_clock3now",
        "auto f2() { return std::random_device{}(); }": "random_device",
        'auto f3() { return std::getenv("X"); }': "symbol getenv",
        "auto f4() { return time(nullptr); }": "symbol time",
        "auto f5() { return rand(); }": "symbol rand",
        'auto f6() { return std::ifstream("x").good(); }': "basic_ifstream",
        'auto f7() { return fopen("x", "r"); }': "symbol fopen",
        "auto f8() { return socket(1, 2, 3); }": "symbol socket",
        "auto f9() { std::thread([] {}).join(); }": "thread",
        'auto f10() { std::cout << "x"; }': "symbol _ZSt4cout",
        'auto f11(int n) { printf("%d", n); }': "symbol printf",
        'auto f12() { return std::filesystem::exists("x"); }': "filesystem",
        'auto f13() { return dlopen("x", 1); }': "symbol dlopen",
        "auto f14() { return fork(); }": "symbol fork",
        'auto f15() { fmt::print("x"); }': "fmt",
    }
    HEADERS = ("chrono", "cstdio", "cstdlib", "ctime", "dlfcn.h", "filesystem", "fmt/core.h",
               "fstream", "iostream", "random", "sys/socket.h", "thread", "unistd.h")

    def archive(self, source, *flags):
        self.write({"x.cc": source})
        self.accepted(self.run_command("c++", "-std=c++20", *flags, "-c", "x.cc", "-o", "x.o"))
        self.accepted(self.run_command("ar", "rcs", "x.a", "x.o"))
        return self.run_command(sys.executable, ROOT / "tools" / "check_pure.py", "x.a")

    def test_pure_library(self):
        self.accepted(self.archive(self.PURE, "-O2"))
        self.accepted(self.archive(self.PURE, "-O0"))

    def test_every_kind_of_impurity(self):
        source = "".join(f"#include <{name}>\n" for name in self.HEADERS) + "\n".join(self.IMPURE)
        self.refused(self.archive(source, "-O2"), *self.IMPURE.values())

    def test_no_archive_is_no_success(self):
        self.refused(self.run_command(sys.executable, ROOT / "tools" / "check_pure.py"))


class ModuleFunction(HouseTest):
    """module() itself, in a project of two modules where only `upper` may use `lower`."""
    TREE = {
        "CMakeLists.txt": f"""cmake_minimum_required(VERSION 3.25)
project(fixture LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)
set(BUILD_TESTING ON)
enable_testing()
include({ROOT}/cmake/module.cmake)
include({ROOT}/cmake/testing.cmake)
add_subdirectory(node/lower)
add_subdirectory(node/upper)
""",
        "node/lower/CMakeLists.txt": "module(NAME lower)\n",
        "node/lower/lower.h": "#pragma once\n#include <string>\nstd::string lower();\n",
        "node/lower/lower.cc": '#include "lower/lower.h"\nstd::string lower() { return "x"; }\n',
        "node/upper/CMakeLists.txt": "module(NAME upper DEPENDS lower)\n",
        "node/upper/upper.h": "#pragma once\nint upper();\n",
        "node/upper/alone.h": "#pragma once\n#include <string>\nstd::string alone();\n",
        "node/upper/upper.cc": '#include "lower/lower.h"\n#include "upper/upper.h"\n'
                              "int upper() { return static_cast<int>(lower().size()); }\n",
    }

    def build(self, *targets):
        status, output = self.run_command("cmake", "-G", "Ninja", "-S", ".", "-B", "build")
        self.assertEqual(status, 0, output)
        return self.run_command("cmake", "--build", "build", "--target", *targets)

    def test_links_alone(self):
        self.accepted(self.build("lower_links_alone", "upper_links_alone"))
        sneaky = "int upper();\nint sneaky();\nint sneaky() { return upper(); }\n"
        self.write({"node/lower/sneaky.cc": sneaky})
        self.accepted(self.build("upper"))  # only linking shows it
        self.refused(self.build("lower_links_alone"), "undefined", "upper()")

    def test_headers_alone(self):
        self.accepted(self.build("all_verify_interface_header_sets"))
        self.write({"node/upper/alone.h": "#pragma once\nstd::string alone();\n"})
        self.refused(self.build("all_verify_interface_header_sets"), "alone.h", "std")

    def test_threaded_tests_are_found(self):
        self.write({"node/lower/lower_test.cc": "", "node/upper/upper_test.cc": ""})
        self.assertNotIn("_test", self.threaded_tests())
        self.write({"node/upper/worker.h": "#include <thread>\nstruct W { std::jthread t; };\n"})
        self.assertIn("upper_test", self.threaded_tests())
        self.assertNotIn("lower_test", self.threaded_tests())
        self.write({"node/lower/lower_test.cc": "auto f = std::async([] {});\n"})
        self.assertIn("lower_test", self.threaded_tests())

    def threaded_tests(self):
        """What the target of the thread sanitizer's build needs."""
        self.accepted(self.run_command("cmake", "-G", "Ninja", "-S", ".", "-B", "build"))
        status, inputs = self.run_command("ninja", "-C", "build", "-t", "inputs", "threaded_tests")
        self.assertEqual(status, 0, inputs)
        return inputs

    def test_warnings_are_errors(self):
        self.write({"node/lower/lower.cc": "static int unused() { return 1; }\n"})
        self.refused(self.build("lower"), "-Werror")


if __name__ == "__main__":
    unittest.main()
