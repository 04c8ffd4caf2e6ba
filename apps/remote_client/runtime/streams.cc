// Streams, events and functions of the program in their order.
#include <algorithm>

#include "graph_calls.h"

namespace partita::remote::shim {
namespace {

using client::kInvalidValue;
using client::kOk;

constexpr int kHighest = -5;  // priority

Status create_stream(void** stream, unsigned flags, int priority) {
  return give(session().streams.create(flags, std::clamp(priority, kHighest, 0)), stream);
}

Status create_event(void** event, unsigned flags) {
  constexpr unsigned kDisableTiming = 2, kInterprocess = 4;
  if ((flags & kInterprocess) != 0 && (flags & kDisableTiming) == 0) return kInvalidValue;
  return give(session().events.create((flags & kDisableTiming) != 0 ? kNoTiming : 0U), event);
}

Status call_host(void* stream, const client::Callback& callback) {
  return session().kernels.call_host(number_of(stream), callback);
}

}  // namespace

CUDA_EXPORT Status cudaStreamCreate(void** stream) {
  return guarded([&] { return create_stream(stream, 0, 0); });
}
CUDA_EXPORT Status cudaStreamCreateWithFlags(void** stream, unsigned flags) {
  return guarded([&] { return create_stream(stream, flags, 0); });
}
CUDA_EXPORT Status cudaStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  return guarded([&] { return create_stream(stream, flags, priority); });
}
CUDA_EXPORT Status cudaStreamDestroy(void* stream) {
  return guarded([&] { return session().streams.destroy(number_of(stream)); });
}
STREAM_FUNCTION(cudaStreamSynchronize, _ptsz, (void* stream),
                { return session().streams.synchronise(number_of(stream)); })
STREAM_FUNCTION(cudaStreamQuery, _ptsz, (void* stream),
                { return session().streams.query(number_of(stream)); })
STREAM_FUNCTION(cudaStreamWaitEvent, _ptsz, (void* stream, void* event, unsigned flags),
                { return wait_for_event(stream, event, flags); })
STREAM_FUNCTION(cudaStreamGetFlags, _ptsz, (void* stream, unsigned* flags),
                { return give(session().streams.flags(number_of(stream)), flags); })
STREAM_FUNCTION(cudaStreamGetPriority, _ptsz, (void* stream, int* priority),
                { return give(session().streams.priority(number_of(stream)), priority); })
STREAM_FUNCTION(cudaStreamGetId, _ptsz, (void* stream, unsigned long long* id), {
  if (id == nullptr) return kInvalidValue;
  *id = number_of(stream);
  return kOk;
})
STREAM_FUNCTION(cudaStreamGetDevice, _ptsz, (void* stream, int* device),
                { return give(session().streams.device(number_of(stream)), device); })
CUDA_EXPORT Status cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = kHighest;
  return kOk;
}

CUDA_EXPORT Status cudaEventCreate(void** event) {
  return guarded([&] { return create_event(event, 0); });
}
CUDA_EXPORT Status cudaEventCreateWithFlags(void** event, unsigned flags) {
  return guarded([&] { return create_event(event, flags); });
}
CUDA_EXPORT Status cudaEventDestroy(void* event) {
  return guarded([&] { return session().events.destroy(number_of(event)); });
}
STREAM_FUNCTION(cudaEventRecord, _ptsz, (void* event, void* stream),
                { return session().events.record(number_of(event), number_of(stream)); })
STREAM_FUNCTION(cudaEventRecordWithFlags, _ptsz, (void* event, void* stream, unsigned flags),
                { return record_event(stream, event, flags); })
CUDA_EXPORT Status cudaEventSynchronize(void* event) {
  return guarded([&] { return session().events.synchronise(number_of(event)); });
}
CUDA_EXPORT Status cudaEventQuery(void* event) {
  return guarded([&] { return session().events.query(number_of(event)); });
}
CUDA_EXPORT Status cudaEventElapsedTime(float* ms, void* from, void* to) {
  return guarded([&] {
    const auto ns = session().events.elapsed_ns(number_of(from), number_of(to));
    if (!ns) return ns.error();
    if (ms == nullptr) return kInvalidValue;
    constexpr double kPerMillisecond = 1e6;
    *ms = static_cast<float>(static_cast<double>(*ns) / kPerMillisecond);
    return kOk;
  });
}
CUDA_EXPORT Status cudaEventElapsedTime_v2(float* ms, void* from, void* to) {
  return cudaEventElapsedTime(ms, from, to);
}

STREAM_FUNCTION(cudaLaunchHostFunc, _ptsz, (void* stream, void (*function)(void*), void* data), {
  if (function == nullptr) return kInvalidValue;
  return call_host(stream, {.function = function, .data = data});
})
STREAM_FUNCTION(cudaStreamAddCallback, _ptsz,
                (void* stream, void (*function)(void*, int, void*), void* data, unsigned), {
                  if (function == nullptr) return kInvalidValue;
                  return call_host(stream,
                                   {.with_stream = function, .stream = stream, .data = data});
                })

}  // namespace partita::remote::shim
