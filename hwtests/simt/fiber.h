// A function on a stack of its own, which runs until it waits and goes on when it is resumed.
#pragma once

#include <cstddef>
#include <memory>

namespace low::simt {

// Stacks of equal size, each with a page below it that nobody may touch.
class FiberStacks {
 public:
  explicit FiberStacks(size_t count);
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;
  ~FiberStacks();

  static constexpr size_t bytes = 256 << 10;
  std::byte* bottom(size_t index) const;

 private:
  std::byte* memory_ = nullptr;
  size_t count_ = 0;
};

class Fiber {
 public:
  using Function = void (*)(void* argument);

  // Nothing runs before resume(). A fiber that is left before its function returned is forgotten: its function may own
  // nothing while it waits.
  Fiber(std::byte* stack_bottom, Function function, void* argument);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // Goes on with the function until it waits or returns.
  void resume();
  bool done() const { return done_; }
  // Called by the function of the fiber that runs: back to whoever resumed it.
  void wait();

 private:
  struct Entry;
  // What the sanitizer knows of frames in the stack's last bytes, which another function will use.
  void forget_frames(size_t bytes);

  std::byte* bottom_;
  Function function_;
  void* argument_;
  void* context_ = nullptr;  // of the function while it waits, of the resumer while it runs
  bool done_ = false;
  void* fake_stack_ = nullptr;  // the sanitizer's
  const void* resumer_bottom_ = nullptr;
  size_t resumer_bytes_ = 0;
};

}  // namespace low::simt
