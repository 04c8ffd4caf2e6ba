// Many small launches without a wait between them, with parameters of every kind: bytes, shorts,
// a large structure, an array of more than 4 KB in one parameter's neighbourhood.
//     launches          some, checked
//     launches forever  until somebody ends it; fails when the device is gone
//     launches idle     one, then nothing for an hour; fails when the device is gone by then
#include "program.h"

#include <unistd.h>

#include <string>

struct Large {
  double values[40];
  int count;
  char mark;
};

KERNEL(launches_add, (int* sum, int value)) {
  if (threadIdx.x == 0) *sum += value;
}

KERNEL(launches_mixed, (char a, short b, double c, Large large, float4 v, unsigned char d,
                        long long e, double* out)) {
  const int at = static_cast<int>(threadIdx.x);
  if (at < large.count)
    out[at] = large.values[at] + a + b + c + v.x + v.w + d + static_cast<double>(e);
  if (at == large.count) out[at] = large.mark;
}

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  const int launches = 2000;
  int* sum = to_device(std::vector<int>(1, 0));
  while (how == "forever") {
    LAUNCH(launches_add, 1, 32, 0, nullptr, sum, 1);
    MUST(cudaGetLastError());
  }
  if (how == "idle") {
    LAUNCH(launches_add, 1, 32, 0, nullptr, sum, 1);
    MUST(cudaDeviceSynchronize());
    sleep(3600);
    MUST(cudaDeviceSynchronize());
  }
  long long want = 0;
  for (int at = 0; at < launches; ++at) {
    LAUNCH(launches_add, 1, 32, 0, nullptr, sum, at % 7);
    want += at % 7;
  }
  MUST(cudaGetLastError());
  Large large = {};
  large.count = 40;
  large.mark = 'x';
  std::vector<double> values(41);
  for (int at = 0; at < 40; ++at) {
    large.values[at] = at * 0.25;
    values[at] = at * 0.25 - 3 + 1000 + 0.5 + 1 + 4 + 200 - 5000000000.0;
  }
  values[40] = 'x';
  double* out = empty_on_device<double>(41);
  const float4 v = {1, 2, 3, 4};
  LAUNCH(launches_mixed, 1, 64, 0, nullptr, static_cast<char>(-3), static_cast<short>(1000), 0.5,
         large, v, static_cast<unsigned char>(200), -5000000000LL, out);
  const double off = difference(to_host(out, 41), values);
  const int have = to_host(sum, 1)[0];
  return finish("launches", have == want && off == 0, off);
}
