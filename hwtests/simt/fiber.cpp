#include "hwtests/simt/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/detail/fcontext.hpp>

#include "runtime/base/error.h"

// AddressSanitizer wants to be told of each switch to another stack.
#if defined(__SANITIZE_ADDRESS__)
#define LOW_FIBER_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LOW_FIBER_ASAN
#endif
#endif
#if defined(LOW_FIBER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

// A switch costs five times as much with the sanitizer's second stacks.
extern "C" const char* __asan_default_options() { return "detect_stack_use_after_return=0"; }
#endif

namespace low::simt {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::transfer_t;

// Of a stack, in which the frame lies that its first function never returns from.
constexpr size_t top_bytes = 4096;

size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

void begin_switch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* bottom,
                  [[maybe_unused]] size_t bytes) {
#if defined(LOW_FIBER_ASAN)
  __sanitizer_start_switch_fiber(fake_stack, bottom, bytes);
#endif
}
void end_switch([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** bottom,
                [[maybe_unused]] size_t* bytes) {
#if defined(LOW_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(fake_stack, bottom, bytes);
#endif
}

}  // namespace

FiberStacks::FiberStacks(size_t count) : count_(count) {
  const size_t stride = bytes + page_bytes();
  void* const memory = mmap(nullptr, count * stride, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  LOW_CHECK(memory != MAP_FAILED);
  memory_ = static_cast<std::byte*>(memory);
  for (size_t i = 0; i < count; ++i) LOW_CHECK(mprotect(memory_ + i * stride, page_bytes(), PROT_NONE) == 0);
}

FiberStacks::~FiberStacks() { munmap(memory_, count_ * (bytes + page_bytes())); }

std::byte* FiberStacks::bottom(size_t index) const { return memory_ + index * (bytes + page_bytes()) + page_bytes(); }

struct Fiber::Entry {
  static void run(transfer_t from) {
    auto* const fiber = static_cast<Fiber*>(from.data);
    end_switch(nullptr, &fiber->resumer_bottom_, &fiber->resumer_bytes_);
    fiber->context_ = from.fctx;
    fiber->function_(fiber->argument_);
    fiber->done_ = true;
    begin_switch(nullptr, fiber->resumer_bottom_, fiber->resumer_bytes_);
    boost::context::detail::jump_fcontext(fiber->context_, nullptr);
  }
};

Fiber::Fiber(std::byte* stack_bottom, Function function, void* argument)
    : bottom_(stack_bottom), function_(function), argument_(argument) {
  forget_frames(top_bytes);
  context_ = boost::context::detail::make_fcontext(bottom_ + FiberStacks::bytes, FiberStacks::bytes, Entry::run);
}

Fiber::~Fiber() {
  if (!done_) forget_frames(FiberStacks::bytes);
}

void Fiber::forget_frames([[maybe_unused]] size_t bytes) {
#if defined(LOW_FIBER_ASAN)
  ASAN_UNPOISON_MEMORY_REGION(bottom_ + FiberStacks::bytes - bytes, bytes);
#endif
}

void Fiber::resume() {
  void* fake_stack = nullptr;
  begin_switch(&fake_stack, bottom_, FiberStacks::bytes);
  const transfer_t back = boost::context::detail::jump_fcontext(context_, this);
  end_switch(fake_stack, nullptr, nullptr);
  context_ = back.fctx;
}

void Fiber::wait() {
  begin_switch(&fake_stack_, resumer_bottom_, resumer_bytes_);
  const transfer_t from = boost::context::detail::jump_fcontext(context_, nullptr);
  end_switch(fake_stack_, &resumer_bottom_, &resumer_bytes_);
  context_ = from.fctx;
}

}  // namespace low::simt
