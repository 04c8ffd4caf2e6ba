// Flow: a part of a brain that is written as a sequence and may stop amid it -- to ask a question
// of the world, or to let time pass -- until the brain's step() goes on with it (node_brain.h).
// Lazy: it begins when it is awaited. Owns its coroutine. What it refers to must outlive it.
// Single-threaded. Internal to actuate.
#pragma once

#include <coroutine>
#include <optional>
#include <utility>

namespace partita::actuate {

template <class T>
class [[nodiscard]] Flow {
 public:
  struct promise_type {
    std::optional<T> value;
    std::coroutine_handle<> parent;

    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> own) noexcept {
        const std::coroutine_handle<> next = own.promise().parent;
        return next ? next : std::noop_coroutine();
      }
      void await_resume() noexcept {}
    };
    Flow get_return_object() {
      return Flow(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    Final final_suspend() noexcept { return {}; }
    void return_value(T result) { value = std::move(result); }
    void unhandled_exception() { throw; }
  };

  Flow(Flow&& other) noexcept : own_(std::exchange(other.own_, nullptr)) {}
  Flow& operator=(Flow&&) = delete;
  ~Flow() {
    if (own_) own_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> parent) noexcept {
    own_.promise().parent = parent;
    return own_;
  }
  T await_resume() { return std::move(*own_.promise().value); }

  // For the outermost one, which nobody awaits.
  void begin() { own_.resume(); }
  bool done() const { return own_.done(); }
  const T& result() const { return *own_.promise().value; }

 private:
  explicit Flow(std::coroutine_handle<promise_type> own) : own_(own) {}
  std::coroutine_handle<promise_type> own_;
};

}  // namespace partita::actuate
