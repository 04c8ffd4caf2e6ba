// Cubins: sections and parameter layouts.
#include "remote/image/fatbin.h"
#include "remote/image/layout.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace image = partita::remote::image;
  const image::Blob blob(reinterpret_cast<const std::byte*>(data), size);
  static_cast<void>(image::cubin_layouts(blob));
  static_cast<void>(image::bare_member(blob));
  return 0;
}
