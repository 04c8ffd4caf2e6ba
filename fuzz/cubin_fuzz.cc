// Cubins: sections and parameter layouts.
#include "image/fatbin.h"
#include "image/layout.h"
#include "target.h"

FUZZ_TARGET(cubin) {
  namespace image = partita::remote::image;
  const image::Blob blob(reinterpret_cast<const std::byte*>(data), size);
  static_cast<void>(image::cubin_layouts(blob));
  static_cast<void>(image::bare_member(blob));
  return 0;
}
