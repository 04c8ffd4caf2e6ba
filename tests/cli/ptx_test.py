"""partita ptx run: kernels without a GPU, what they print and do wrong, and clear refusals."""

import re
import struct
import unittest

import harness

KERNELS = """
.version 7.8
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 in, .param .u64 out, .param .f32 by, .param .u32 n)
{
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
  ld.param.f32 %f1, [by]; ld.param.u32 %r5, [n];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  setp.ge.u32 %p1, %r4, %r5;
  @%p1 bra END;
  mul.wide.u32 %rd3, %r4, 4;
  add.u64 %rd4, %rd1, %rd3;
  add.u64 %rd5, %rd2, %rd3;
  ld.global.f32 %f2, [%rd4];
  mul.f32 %f3, %f2, %f1;
  st.global.f32 [%rd5], %f3;
END:
  ret;
}
.visible .entry early(.param .u32 n)
{
  .reg .pred %p<2>; .reg .b32 %r<6>;
  mov.u32 %r1, %tid.x; ld.param.u32 %r2, [n];
  setp.ge.u32 %p1, %r1, %r2;
  @%p1 ret;
  bar.sync 0;
  ret;
}
.visible .entry race(.param .u64 out)
{
  .shared .align 4 .b8 tile[512];
  .reg .b32 %r<6>; .reg .b64 %rd<8>;
  mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.u32 %r4, %r3, %r2;
  st.shared.u32 [%r4], %r1;
  ld.shared.u32 %r5, [%r4+4];
  ld.param.u64 %rd1, [out];
  st.global.u32 [%rd1], %r5;
  ret;
}
"""


class PtxTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        self.write("kernels.ptx", KERNELS)

    def kernel(self, *args):
        """Status, standard output and standard error of a run."""
        done = self.run_partita("ptx", "run", "kernels.ptx", "--kernel", *args)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def scale(self, *more, elements="100"):
        return self.kernel("scale", "--blocks", "4", "--block", "32", "--arg",
                           "buffer:f32:100:ramp",
                           "--arg", f"buffer:f32:{elements}", "--arg", "f32:0.5", "--arg",
                           "u32:100", *more)

    def test_computes(self):
        for more in ((), ("--units", "3"), ("--check", "all")):
            status, out, err = self.scale("--dump", "1:6", *more)
            self.assertEqual((status, out), (0, "buffer 1: 0 0.5 1 1.5 2 2.5\n"), err)
            self.assertIn("0 faults; ", err)

    def test_a_file_fills_a_buffer(self):
        self.write("in.bin", struct.pack("<4f", 8, 6, 4, 2))
        status, out, err = self.kernel(
            "scale", "--block", "4", "--arg", "buffer:f32:4:@in.bin", "--arg", "buffer:f32:4",
            "--arg", "f32:2", "--arg", "u32:4", "--dump", "1")
        self.assertEqual((status, out), (0, "buffer 1: 16 12 8 4\n"), err)

    def test_faults_are_told(self):
        status, _, err = self.scale(elements="50")
        self.assertEqual(status, 1)
        for words in ("out of bounds: write of 4 bytes", "in kernel scale, block (1,0,0), "
                      "thread (18,0,0)", "st.global.f32 [%rd5], %f3;",
                      "0 bytes behind the end of a 200-byte allocation", "1 fault;"):
            self.assertIn(words, err)

    def test_a_prompt_stops_where_something_goes_wrong(self):
        self.write("asked", "break 19\nc\nprint %f3\ndelete 19\nc\nbt\nlane 99\nq\n")
        with open(self.path("asked"), "rb") as asked:
            done = self.run_partita(
                "ptx", "debug", "kernels.ptx", "--kernel", "scale", "--blocks", "4", "--block",
                "32", "--arg", "buffer:f32:100:ramp", "--arg", "buffer:f32:50", "--arg", "f32:0.5",
                "--arg", "u32:100", stdin=asked)
        self.assertEqual(done.returncode, 1)
        said = done.stdout.decode()
        for words in ("warp 0, lanes ffffffff of ffffffff, lane 0\nline 19: st.global.f32",
                      "%f3 = 0\n", "out of bounds: write of 4 bytes",
                      "block (1,0,0), warp 0, lanes ffffffff of ffffffff, lane 18",
                      "scale at line 19: st.global.f32", "lane N: one of the warp"):
            self.assertIn(words, said)

    def test_a_prompt_says_what_it_was_not_asked_well(self):
        self.write("asked", "break 17\nbreak 20\nbreak 9999\nc\nstep 2\nstep x\nturn\nc\nq\n")
        with open(self.path("asked"), "rb") as asked:
            done = self.run_partita(
                "ptx", "debug", "kernels.ptx", "--kernel", "scale", "--block", "32",
                "--arg", "buffer:f32:32:ramp", "--arg", "buffer:f32:32", "--arg", "f32:0.5",
                "--arg", "u32:32", stdin=asked)
        self.assertEqual(done.returncode, 0)
        said = done.stdout.decode()
        lines = re.findall(r"^(?:\(ptx\) )*line (\d+): ", said, re.M)
        self.assertEqual(lines[1:], ["17", "19", "21"])
        for words in ("stops before line 17: ld.global", "stops before line 21: ret;",
                      "no instruction of the PTX is at line 9999",
                      "step N: how many instructions", "there is no turn: `help`"):
            self.assertIn(words, said)

    def test_quit_ends_the_kernel(self):
        launch = ("ptx", "debug", "kernels.ptx", "--kernel", "scale", "--blocks", "4",
                  "--block", "32", "--arg", "buffer:f32:128:1", "--arg", "buffer:f32:128:zero",
                  "--arg", "f32:3", "--arg", "u32:128", "--dump", "1:128")
        for asked, done_of in (("q\n", 0), ("c\n", 128), ("break 21\nc\nquit\n", 32)):
            self.write("asked", asked)
            with open(self.path("asked"), "rb") as lines:
                done = self.run_partita(*launch, stdin=lines)
            self.assertEqual(done.returncode, 0, done.stderr)
            values = done.stdout.decode().split("buffer 1:")[1].split()
            self.assertEqual(values, ["3"] * done_of + ["0"] * (128 - done_of), asked)

    def test_checks_are_asked_for(self):
        race = ("race", "--block", "64", "--arg", "buffer:u32:1")
        self.assertEqual(self.kernel(*race)[0], 0)
        status, _, err = self.kernel(*race, "--check", "races")
        self.assertEqual(status, 1)
        self.assertIn("race: read of 4 bytes", err)
        fresh = ("scale", "--arg", "buffer:f32:1", "--arg", "buffer:f32:1", "--arg", "f32:2",
                 "--arg", "u32:1")
        self.assertEqual(self.kernel(*fresh)[0], 0)
        status, _, err = self.kernel(*fresh, "--check", "memory")
        self.assertEqual(status, 1)
        self.assertIn("uninitialised: read of 4 bytes", err)

    def test_barriers_that_threads_leave_out(self):
        early = ("early", "--block", "96", "--blocks", "2", "--arg", "u32:40")
        self.assertEqual(self.kernel(*early)[0], 0)  # as a GPU runs it
        for check in ("barriers", "all"):
            status, _, err = self.kernel(*early, "--check", check)
            self.assertEqual(status, 1)
            for words in ("divergence\n", "in kernel early, block (0,0,0), thread (0,0,0)",
                          "bar.sync 0;", "without it ended: lanes 8-31 of warp 1, warp 2\n",
                          "and 1 more at this line"):
                self.assertIn(words, err)
        whole = ("early", "--block", "96", "--arg", "u32:96", "--check", "all")
        self.assertEqual(self.kernel(*whole)[0], 0)

    def test_the_status_of_a_fault_is_chosen(self):
        for more, want in ((("7", ), 7), (("0", ), 0), (("1", ), 1)):
            self.assertEqual(self.scale("--fault-exit", *more, elements="50")[0], want)
            self.assertEqual(self.scale("--fault-exit", *more)[0], 0)  # nothing is wrong
        self.assertEqual(self.scale("--fault-exit", "256")[0], 2)

    def test_refusals(self):
        for args, words in (
                (("scael", ), "no kernel 'scael'"), (("race", ), "takes 1 arguments; there are 0"),
                (("race", "--arg", "f31:2"), "no type 'f31'"),
                (("race", "--arg", "u32:x"), "'x' is no whole number"),
                (("race", "--arg", "buffer:u32:0"), "no number of elements"),
                (("race", "--block", "0", "--arg", "u64:0"), "no positive number"),
                (("race", "--block", "2048", "--arg", "u64:0"), "2048 threads"),
                (("race", "--arg", "u64:0", "--check", "rases"), "'rases' is none of")):
            status, _, err = self.kernel(*args)
            self.assertEqual(status, 2, args)
            self.assertIn(words, err)
        self.write("kernels.ptx", KERNELS.replace("mul.f32 %f3", "wibble.f32 %f3"))
        # Of the kernels that run, none is refused for it.
        self.assertEqual(self.kernel("race", "--block", "64", "--arg", "buffer:u32:1")[0], 0)
        status, _, err = self.scale()
        self.assertEqual(status, 3)
        self.assertRegex(err, r"kernels.ptx:\d+: 'wibble.f32' is not supported")


if __name__ == "__main__":
    unittest.main()
