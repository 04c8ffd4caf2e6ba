// Two processes on one piece of memory, in turns that an event of both keeps: the child is this
// program once more. A handle that nobody made opens nothing. (Of one with another byte CUDA says
// nothing: not all of them are its key.)
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "program.h"

KERNEL(shared_step, (int* values, int count, int times, int more)) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (at < count) values[at] = values[at] * times + more;
}

constexpr int kCount = 1 << 16, kRounds = 20;

template <class Handle>
static std::string as_text(const Handle& handle) {
  std::string text;
  for (const char byte : handle.reserved) {
    text += static_cast<char>('a' + (static_cast<unsigned char>(byte) >> 4));
    text += static_cast<char>('a' + (byte & 15));
  }
  return text;
}
template <class Handle>
static Handle from_text(const char* text) {
  Handle handle;
  for (char& byte : handle.reserved) {
    byte = static_cast<char>((text[0] - 'a') << 4 | (text[1] - 'a'));
    text += 2;
  }
  return handle;
}

static void step(int* values, int times, int more) {
  LAUNCH(shared_step, blocks_for(kCount, 256), 256, 0, nullptr, values, kCount, times, more);
}

// The other one waits until our record is there, and we for his, without looking at what is done.
static void take_turns(int* values, cudaEvent_t mine, cudaEvent_t other, int in, int out,
                       bool first) {
  char token = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (!first || round > 0) {
      if (::read(in, &token, 1) != 1) std::exit(3);
      MUST(cudaStreamWaitEvent(nullptr, other, 0));
    }
    if (first)
      step(values, 3, 1);
    else
      step(values, 1, round);
    MUST(cudaEventRecord(mine, nullptr));
    if (::write(out, &token, 1) != 1) std::exit(3);
  }
}

static int child(char** words) {
  void *memory = nullptr, *again = nullptr;
  cudaEvent_t parents = nullptr, own = nullptr;
  MUST(cudaIpcOpenMemHandle(&memory, from_text<cudaIpcMemHandle_t>(words[1]), 1));
  MUST(cudaIpcOpenMemHandle(&again, from_text<cudaIpcMemHandle_t>(words[1]), 1));
  MUST(cudaIpcOpenEventHandle(&parents, from_text<cudaIpcEventHandle_t>(words[2])));
  MUST(cudaIpcOpenEventHandle(&own, from_text<cudaIpcEventHandle_t>(words[3])));
  take_turns(static_cast<int*>(memory), own, parents, std::atoi(words[4]), std::atoi(words[5]),
             false);
  MUST(cudaDeviceSynchronize());
  MUST(cudaIpcCloseMemHandle(again));
  int there = 0;
  MUST(cudaMemcpy(&there, memory, sizeof there, cudaMemcpyDeviceToHost));
  MUST(cudaIpcCloseMemHandle(memory));
  if (memory != again) std::printf("not so: what is opened twice lies at one place\n");
  const cudaIpcMemHandle_t nobodys = {};
  const bool refused = cudaIpcOpenMemHandle(&memory, nobodys, 1) != cudaSuccess;
  if (!refused) std::printf("not so: a handle that nobody made opens nothing\n");
  return memory == again && refused ? 0 : 1;
}

static int parent(const char* program) {
  int* const values = to_device(std::vector<int>(kCount, 2));
  cudaEvent_t mine = nullptr, childs = nullptr, timed = nullptr;
  MUST(cudaEventCreateWithFlags(&mine, 4 | cudaEventDisableTiming));
  MUST(cudaEventCreateWithFlags(&childs, 4 | cudaEventDisableTiming));
  if (cudaEventCreateWithFlags(&timed, 4) == cudaSuccess) return finish("shared", false, 1);
  cudaGetLastError();
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t events[2];
  MUST(cudaIpcGetMemHandle(&memory, values));
  MUST(cudaIpcGetEventHandle(&events[0], mine));
  MUST(cudaIpcGetEventHandle(&events[1], childs));
  int down[2] = {}, up[2] = {};
  if (::pipe(down) != 0 || ::pipe(up) != 0) return 3;
  const std::string words[] = {as_text(memory), as_text(events[0]), as_text(events[1]),
                               std::to_string(down[0]), std::to_string(up[1])};
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execl(program, program, words[0].c_str(), words[1].c_str(), words[2].c_str(),
            words[3].c_str(), words[4].c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(down[0]), ::close(up[1]);
  take_turns(values, mine, childs, up[0], down[1], true);
  int status = -1;
  ::waitpid(pid, &status, 0);
  MUST(cudaEventSynchronize(childs));
  unsigned want = 2;
  for (int round = 0; round < kRounds; ++round) want = want * 3 + 1 + static_cast<unsigned>(round);
  const std::vector<int> have = to_host(values, kCount);
  int off = 0;
  for (const int one : have) off += one == static_cast<int>(want) ? 0 : 1;
  MUST(cudaFree(values));
  return finish("shared", off == 0 && status == 0, off);
}

int main(int count, char** words) {
  return count == 6 ? child(words) : parent("/proc/self/exe");
}
