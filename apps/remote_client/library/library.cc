#include "library.h"

#include <algorithm>

#ifndef PARTITA_LIBRARY_PTX
#error "PARTITA_LIBRARY_PTX names the PTX of the libraries' kernels"
#endif

extern "C" const char partita_library_ptx[];
asm(R"(
    .pushsection .rodata
    .hidden partita_library_ptx
    .globl partita_library_ptx
partita_library_ptx:
    .incbin ")" PARTITA_LIBRARY_PTX R"("
    .byte 0
    .popsection
)");

namespace partita::remote::shim {

Status launch_own(std::string_view name, void* stream, std::uint64_t threads, void** parameters) {
  constexpr std::uint64_t kBlock = 128;
  static client::Module& module = *session().kernels.modules().add_loaded(partita_library_ptx);
  if (const Status status = session().kernels.load(module); status != client::kOk) return status;
  client::Kernel* const kernel = session().kernels.modules().kernel_named(module, name);
  if (kernel == nullptr) return client::kInvalidFunction;
  if (threads == 0) return client::kOk;
  const std::uint64_t block = std::min(threads, kBlock), grid = (threads + block - 1) / block;
  const client::LaunchShape shape{.grid = {static_cast<std::uint32_t>(grid), 1, 1},
                                  .block = {static_cast<std::uint32_t>(block), 1, 1},
                                  .stream = number_of(stream)};
  return session().kernels.launch(*kernel, shape, parameters);
}

}  // namespace partita::remote::shim
