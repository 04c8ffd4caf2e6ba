#include "server/cuda/printed_text.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace partita::remote::cuda {

Result<std::unique_ptr<PrintedText>> PrintedText::begin() {
  std::fflush(stdout);
  Descriptor file(::memfd_create("printed", MFD_CLOEXEC));
  Descriptor before(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (file.get() < 0 || ::fcntl(file.get(), F_SETFL, O_APPEND) != 0 ||
      ::dup2(file.get(), STDOUT_FILENO) < 0)
    return environment_error("a file for what kernels print", std::strerror(errno));
  return std::unique_ptr<PrintedText>(new PrintedText(std::move(file), std::move(before)));
}

PrintedText::~PrintedText() {
  std::fflush(stdout);
  if (before_.get() >= 0) ::dup2(before_.get(), STDOUT_FILENO);
}

std::string PrintedText::take() {
  std::fflush(stdout);
  struct stat facts = {};
  if (::fstat(file_.get(), &facts) != 0 || facts.st_size == 0) return {};
  std::string text(static_cast<std::size_t>(facts.st_size), '\0');
  const ssize_t got = ::pread(file_.get(), text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  if (::ftruncate(file_.get(), 0) != 0) return {};  // else it would be told again and again
  return text;
}

}  // namespace partita::remote::cuda
