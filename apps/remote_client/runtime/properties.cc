#include "properties.h"

#include <algorithm>

namespace partita::remote::shim {
namespace {

// A field of the properties and the attribute of the same meaning.
struct Same {
  int Properties::*field;
  std::uint32_t attribute;
};
constexpr Same kSame[] = {
    {&Properties::regsPerBlock, 12},
    {&Properties::warpSize, 10},
    {&Properties::maxThreadsPerBlock, 1},
    {&Properties::major, 75},
    {&Properties::minor, 76},
    {&Properties::multiProcessorCount, 16},
    {&Properties::integrated, 18},
    {&Properties::maxTexture1D, 21},
    {&Properties::concurrentKernels, 31},
    {&Properties::ECCEnabled, 32},
    {&Properties::pciBusID, 33},
    {&Properties::pciDeviceID, 34},
    {&Properties::pciDomainID, 50},
    {&Properties::tccDriver, 35},
    {&Properties::asyncEngineCount, 40},
    {&Properties::unifiedAddressing, 41},
    {&Properties::memoryBusWidth, 37},
    {&Properties::l2CacheSize, 38},
    {&Properties::maxThreadsPerMultiProcessor, 39},
    {&Properties::streamPrioritiesSupported, 78},
    {&Properties::globalL1CacheSupported, 79},
    {&Properties::localL1CacheSupported, 80},
    {&Properties::regsPerMultiprocessor, 82},
    {&Properties::managedMemory, 83},
    {&Properties::computePreemptionSupported, 90},
    {&Properties::cooperativeLaunch, 95},
    {&Properties::maxBlocksPerMultiProcessor, 106},
    {&Properties::memoryPoolsSupported, 115},
#if PARTITA_CUDART < 13
    {&Properties::clockRate, 13},
    {&Properties::memoryClockRate, 36},
    {&Properties::singleToDoublePrecisionPerfRatio, 87},
#endif
};
struct SameSize {
  std::size_t Properties::*field;
  std::uint32_t attribute;
};
constexpr SameSize kSameSizes[] = {
    {&Properties::sharedMemPerBlock, 8},
    {&Properties::totalConstMem, 9},
    {&Properties::memPitch, 11},
    {&Properties::textureAlignment, 14},
    {&Properties::texturePitchAlignment, 51},
    {&Properties::sharedMemPerMultiprocessor, 81},
    {&Properties::sharedMemPerBlockOptin, 97},
    {&Properties::reservedSharedMemPerBlock, 111},
};

}  // namespace

// Mapped and pageable access stay 0: they do not exist here.
void fill(Properties& properties, const client::Device& device, int number) {
  properties = {};
  const std::size_t length = std::min(device.name.size(), sizeof properties.name - 1);
  std::memcpy(properties.name, device.name.data(), length);
  std::memcpy(properties.uuid, device.uuid_on(number).data(), sizeof properties.uuid);
  properties.totalGlobalMem = device.total_memory;
  for (const Same& same : kSame)
    properties.*same.field = device.attribute_on(same.attribute, number);
  for (const SameSize& same : kSameSizes)
    properties.*same.field =
        static_cast<std::size_t>(std::max(device.attribute(same.attribute), 0));
  for (std::uint32_t i = 0; i < 3; ++i) {
    properties.maxThreadsDim[i] = device.attribute(2 + i);
    properties.maxGridSize[i] = device.attribute(5 + i);
  }
}

}  // namespace partita::remote::shim
