// gRPC hands a call's object from thread to thread, one after the other, but
// its library is built without ThreadSanitizer, which therefore does not see
// the order.
#pragma once

#include <atomic>

namespace gpueta {

// Take() at the start of a callback, Give() at its end: what one callback
// wrote, the next one sees, and the sanitizer knows.
class Handoff {
 public:
  void Take() const { (void)flag_.load(std::memory_order_acquire); }
  void Give() { flag_.store(true, std::memory_order_release); }

 private:
  std::atomic<bool> flag_{false};
};

}  // namespace gpueta
