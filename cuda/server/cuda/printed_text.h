// PrintedText: what kernels print. CUDA's driver writes it to this process's standard output, when
// it is asked whether something has finished; while this lives that goes to a file in memory
// instead, which never keeps the driver waiting. One at a time. Thread rule: one thread.
#pragma once

#include <memory>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"

namespace partita::remote::cuda {

class PrintedText {
 public:
  static Result<std::unique_ptr<PrintedText>> begin();
  ~PrintedText();  // standard output is what it was
  PrintedText(const PrintedText&) = delete;
  PrintedText& operator=(const PrintedText&) = delete;

  // What came since the last time.
  std::string take();

 private:
  PrintedText(Descriptor file, Descriptor before)
      : file_(std::move(file)), before_(std::move(before)) {}
  Descriptor file_, before_;
};

}  // namespace partita::remote::cuda
