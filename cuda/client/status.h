// CUDA's error numbers, as cudaError_t and CUresult share them, and what this client answers with.
#pragma once

#include <cstdint>
#include <tl/expected.hpp>

namespace partita::remote::client {

using Status = std::int32_t;

inline constexpr Status kOk = 0;
inline constexpr Status kInvalidValue = 1;
inline constexpr Status kMemoryAllocation = 2;
inline constexpr Status kUnloading = 4;  // the program is ending
inline constexpr Status kInvalidConfiguration = 9;
inline constexpr Status kInvalidPitch = 12;
inline constexpr Status kInvalidSymbol = 13;
inline constexpr Status kInvalidDirection = 21;
inline constexpr Status kLost = 46;  // cudaErrorDevicesUnavailable: the server cannot be reached
inline constexpr Status kMissingConfiguration = 52;
inline constexpr Status kInvalidFunction = 98;
inline constexpr Status kNoDevice = 100;
inline constexpr Status kInvalidDevice = 101;
inline constexpr Status kInvalidImage = 200;
inline constexpr Status kInvalidContext = 201;
inline constexpr Status kNoImageForDevice = 209;
inline constexpr Status kInvalidPtx = 218;  // device code that the server refused
inline constexpr Status kInvalidHandle = 400;
inline constexpr Status kNotFound = 500;
inline constexpr Status kNotReady = 600;
inline constexpr Status kOutOfResources = 701;
inline constexpr Status kCooperativeTooLarge = 720;
inline constexpr Status kNotSupported = 801;
inline constexpr Status kCaptureUnsupported = 900;
inline constexpr Status kCaptureInvalidated = 901;
inline constexpr Status kCaptureUnmatched = 903;
inline constexpr Status kCaptureUnjoined = 904;
inline constexpr Status kCaptureImplicit = 906;
inline constexpr Status kCapturedEvent = 907;
inline constexpr Status kTimedOut = 909;       // cudaErrorTimeout
inline constexpr Status kUpdateFailure = 910;  // cudaErrorGraphExecUpdateFailure
inline constexpr Status kUnknown = 999;

template <class T>
using Got = tl::expected<T, Status>;

inline tl::unexpected<Status> refused(Status status) { return tl::unexpected<Status>(status); }

}  // namespace partita::remote::client
