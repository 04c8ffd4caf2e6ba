// Executables: what they import and carry.
#include "remote/image/program.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace image = partita::remote::image;
  const auto program = image::read_program({reinterpret_cast<const std::byte*>(data), size});
  static_cast<void>(program);
  return 0;
}
