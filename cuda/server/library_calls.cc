#include "server/library_calls.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <string>

namespace partita::remote::server {
namespace {

// '?' in a name stands for S, D, C and Z; '#' for S and D; '*' for C and Z.
constexpr LibraryFunction kFunctions[] = {
    {"cusolverDn?getrf_bufferSize", "hiipio"},
    {"cusolverDn?getrf", "hiipippp"},
    {"cusolverDn?getrs", "hiiipippip"},
    {"cusolverDn?potrf_bufferSize", "hiipio"},
    {"cusolverDn?potrf", "hiipipip"},
    {"cusolverDn?potrs", "hiiipipip"},
    {"cusolverDn?potrfBatched", "hiipipi"},
    {"cusolverDn?potrsBatched", "hiiipipipi"},
    {"cusolverDn?geqrf_bufferSize", "hiipio"},
    {"cusolverDn?geqrf", "hiipippip"},
    {"cusolverDn#orgqr_bufferSize", "hiiipipo"},
    {"cusolverDn*ungqr_bufferSize", "hiiipipo"},
    {"cusolverDn#orgqr", "hiiipippip"},
    {"cusolverDn*ungqr", "hiiipippip"},
    {"cusolverDn#ormqr_bufferSize", "hiiiiipippio"},
    {"cusolverDn*unmqr_bufferSize", "hiiiiipippio"},
    {"cusolverDn#ormqr", "hiiiiipippipip"},
    {"cusolverDn*unmqr", "hiiiiipippipip"},
    {"cusolverDn?gesvd_bufferSize", "hiio"},
    {"cusolverDn?gesvd", "hiiiipippipipipp"},
    {"cusolverDn?gesvdj_bufferSize", "hiiiipippipiog"},
    {"cusolverDn?gesvdj", "hiiiipippipipipg"},
    {"cusolverDn?gesvdjBatched_bufferSize", "hiiipippipiogi"},
    {"cusolverDn?gesvdjBatched", "hiiipippipipipgi"},
    {"cusolverDn#syevd_bufferSize", "hiiipipo"},
    {"cusolverDn*heevd_bufferSize", "hiiipipo"},
    {"cusolverDn#syevd", "hiiipippip"},
    {"cusolverDn*heevd", "hiiipippip"},
    {"cusolverDn#syevj_bufferSize", "hiiipipoe"},
    {"cusolverDn*heevj_bufferSize", "hiiipipoe"},
    {"cusolverDn#syevj", "hiiipippipe"},
    {"cusolverDn*heevj", "hiiipippipe"},
    {"cusolverDn#syevjBatched_bufferSize", "hiiipipoei"},
    {"cusolverDn*heevjBatched_bufferSize", "hiiipipoei"},
    {"cusolverDn#syevjBatched", "hiiipippipei"},
    {"cusolverDn*heevjBatched", "hiiipippipei"},
    {"cusolverDn?sytrf_bufferSize", "hipio"},
    {"cusolverDn?sytrf", "hiipippip"},
    {"cusolverDnXpotrf_bufferSize", "hqilipliOO"},
    {"cusolverDnXpotrf", "hqilipliplwlp"},
    {"cusolverDnXpotrs", "hqillipliplp"},
    {"cusolverDnXgeqrf_bufferSize", "hqlliplipiOO"},
    {"cusolverDnXgeqrf", "hqlliplipiplwlp"},
    {"cusolverDnXsyevd_bufferSize", "hqiiliplipiOO"},
    {"cusolverDnXsyevd", "hqiiliplipiplwlp"},
    {"cusolverDnXsyevBatched_bufferSize", "hqiiliplipiOOl"},
    {"cusolverDnXsyevBatched", "hqiiliplipiplwlpl"},
    {"cusolverDnXgeev_bufferSize", "hqiiliplipiplipliOO"},
    {"cusolverDnXgeev", "hqiiliplipiplipliplwlp"},
    {"cusolverDnXsytrs_bufferSize", "hilliplpiplOO"},
    {"cusolverDnXsytrs", "hilliplpiplplwlp"},
    {"cublas?trsm_v2", "hiiiiiifpipi", VendorLibrary::blas},
    {"cublas?trsmBatched", "hiiiiiifpipii", VendorLibrary::blas},
    {"cublas?trsv_v2", "hiiiipipi", VendorLibrary::blas},
    {"cublas?trmm_v2", "hiiiiiifpipipi", VendorLibrary::blas},
    {"cublas?symm_v2", "hiiiifpipifpi", VendorLibrary::blas},
    {"cublas?syrk_v2", "hiiiifpifpi", VendorLibrary::blas},
    {"cublas*hemm_v2", "hiiiifpipifpi", VendorLibrary::blas},
    {"cublas*herk_v2", "hiiiifpifpi", VendorLibrary::blas},
    {"cublas?geam", "hiiiifpifpipi", VendorLibrary::blas},
    {"cublas?dgmm", "hiiipipipi", VendorLibrary::blas},
    {"cublas*gemm_v2", "hiiiiifpipifpi", VendorLibrary::blas},
    {"cublas*gemmStridedBatched", "hiiiiifpilpilfpili", VendorLibrary::blas},
    {"cublas*gemmBatched", "hiiiiifpipifpii", VendorLibrary::blas},
    {"cublas*gemv_v2", "hiiifpipifpi", VendorLibrary::blas},
    {"cublas*axpy_v2", "hifpipi", VendorLibrary::blas},
    {"cublas*scal_v2", "hifpi", VendorLibrary::blas},
    {"cublas*getrfBatched", "hipippi", VendorLibrary::blas},
    {"cublas?getrsBatched", "hiiipippioi", VendorLibrary::blas},
    {"cublas?getriBatched", "hipippipi", VendorLibrary::blas},
    {"cublas?geqrfBatched", "hiipipoi", VendorLibrary::blas},
    {"cublas?gelsBatched", "hiiiipipiopi", VendorLibrary::blas},
    {"cudnnGetVersion", "R", VendorLibrary::dnn},
    {"cudnnBackendFinalize", "B", VendorLibrary::dnn},
    {"cudnnBackendGetAttribute", "B", VendorLibrary::dnn},
    {"cudnnBackendExecute", "lVp", VendorLibrary::dnn},
    {"cudnnBackendDestroyDescriptor", "l", VendorLibrary::dnn},
    {"cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize", "hiittttvO", VendorLibrary::dnn},
    {"cudnnGetBatchNormalizationBackwardExWorkspaceSize", "hiittttttvO", VendorLibrary::dnn},
    {"cudnnGetBatchNormalizationTrainingExReserveSpaceSize", "hiivtO", VendorLibrary::dnn},
    {"cudnnBatchNormalizationForwardTrainingEx", "hiifftptptptppdppdppvplpl", VendorLibrary::dnn},
    {"cudnnBatchNormalizationBackwardEx", "hiifffftptptptptptppppdppvplpl", VendorLibrary::dnn},
    {"cudnnDropoutGetStatesSize", "hO", VendorLibrary::dnn},
    {"cudnnSetDropoutDescriptor", "DhFpll", VendorLibrary::dnn},
    {"cudnnGetRNNTempSpaceSizes", "hrixOO", VendorLibrary::dnn},
    {"cudnnGetRNNWeightSpaceSize", "hrO", VendorLibrary::dnn},
    {"cudnnGetRNNWeightParams", "hrilpiTATA", VendorLibrary::dnn},
    {"cudnnRNNForward", "hripxpxptpptpplplplp", VendorLibrary::dnn},
    {"cudnnRNNBackwardData_v8", "hrpxppxptppptppplplplp", VendorLibrary::dnn},
    {"cudnnRNNBackwardWeights_v8", "hripxptpxplplplp", VendorLibrary::dnn},
};

// Functions by name, with the letters of number types put in.
const std::map<std::string, LibraryFunction, std::less<>>& functions() {
  static const auto made = [] {
    std::map<std::string, LibraryFunction, std::less<>> all;
    for (const LibraryFunction& function : kFunctions) {
      const std::size_t at = function.name.find_first_of("?#*");
      const char sort = at == function.name.npos ? 0 : function.name[at];
      for (const char letter : std::string_view(sort == '?'   ? "SDCZ"
                                                : sort == '#' ? "SD"
                                                : sort == '*' ? "CZ"
                                                              : "-")) {
        std::string name(function.name);
        if (sort != 0) name[at] = letter;
        auto [entry, fresh] = all.emplace(name, function);
        entry->second.name = entry->first;
      }
    }
    return all;
  }();
  return made;
}

constexpr std::size_t kRecurrentBytes = 80;

std::size_t bytes_of(char kind) {
  switch (kind) {
    case 'i':
    case 'F':
      return 4;
    case 'l':
    case 'd':
    case 'p':
      return 8;
    case 'e':
    case 'f':
    case 'g':
      return 16;
    case 'r':
      return kRecurrentBytes;
    default:
      return 0;
  }
}

// Of an argument that says itself how long it is.
std::span<const std::byte> counted(WireReader& reader, char kind) {
  constexpr std::uint32_t kMostDimensions = 8, kMostTensors = 4096, kMostSequences = 1 << 15;
  const std::span<const std::byte> all = reader.left;
  const auto count = reader.take<std::uint32_t>();
  std::size_t more = 0;
  if (kind == 't' && count > 0) more = 4 + 8 * std::size_t{count};
  if (kind == 'v' && count > 0) more = 16;
  if (kind == 'V') more = 20 * std::size_t{count};
  if (kind == 'x' && count > 0) more = 24 + 4 * std::size_t{count};
  reader.good = reader.good && count <= (kind == 'V'   ? kMostTensors
                                         : kind == 'x' ? kMostSequences
                                                       : kMostDimensions);
  reader.some(more);
  return reader.good ? all.first(4 + more) : std::span<const std::byte>();
}

}  // namespace

const LibraryFunction* library_function(std::string_view name) {
  const auto found = functions().find(name);
  return found == functions().end() ? nullptr : &found->second;
}

Answered<std::vector<LibraryArgument>> arguments_of(const LibraryFunction& function,
                                                    std::span<const std::byte> bytes) {
  WireReader reader{bytes};
  std::vector<LibraryArgument> arguments;
  for (const char kind : function.kinds) {
    if (kind == 'R') continue;
    LibraryArgument argument{.kind = kind};
    if (std::string_view("tvVx").find(kind) != std::string_view::npos) {
      argument.bytes = counted(reader, kind);
    } else if (std::string_view("efgrB").find(kind) != std::string_view::npos) {
      argument.bytes = reader.some(kind == 'B' ? reader.left.size() : bytes_of(kind));
    } else if (const std::size_t size = bytes_of(kind); size > 0) {
      argument.bytes = reader.some(size);
      if (reader.good) std::memcpy(&argument.word, argument.bytes.data(), size);
    }
    arguments.push_back(argument);
  }
  if (!reader.good || !reader.left.empty())
    return refuse(kInvalidValue, fmt::format("{} with other arguments than it has", function.name));
  return arguments;
}

std::vector<GraphTensor> graph_tensors(std::span<const std::byte> bytes) {
  WireReader reader{bytes};
  std::vector<GraphTensor> tensors(reader.take<std::uint32_t>());
  for (GraphTensor& tensor : tensors) {
    tensor.id = reader.take<std::int64_t>();
    tensor.by_value = reader.take<std::uint32_t>() != 0;
    tensor.word = reader.take<std::uint64_t>();
  }
  return tensors;
}

std::vector<std::uint64_t> addresses_in(const std::vector<LibraryArgument>& arguments) {
  std::vector<std::uint64_t> found;
  for (const LibraryArgument& argument : arguments) {
    if (argument.kind == 'p' && argument.word != 0) found.push_back(argument.word);
    if (argument.kind == 'r') {
      WireReader reader{argument.bytes.subspan(kStatesAt)};
      if (const auto states = reader.take<std::uint64_t>(); states != 0) found.push_back(states);
    }
    if (argument.kind != 'V') continue;
    for (const GraphTensor& tensor : graph_tensors(argument.bytes))
      if (!tensor.by_value && tensor.word != 0) found.push_back(tensor.word);
  }
  return found;
}

}  // namespace partita::remote::server
