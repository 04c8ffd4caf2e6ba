// Executables: what they import and carry.
#include "image/program.h"
#include "target.h"

FUZZ_TARGET(elf_imports) {
  namespace image = partita::remote::image;
  const auto program = image::read_program({reinterpret_cast<const std::byte*>(data), size});
  static_cast<void>(program);
  return 0;
}
