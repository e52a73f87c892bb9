#include "runtime/host/workers.h"

#include <chrono>
#include <system_error>

namespace low {
namespace {

// A thread that sleeps takes 10 to 50 microseconds to wake up, as long as a short superstep. With a processor for each
// thread, waiting ones spin for longer than the tiles of a superstep differ, and from one short run to the next;
// otherwise they would only keep others from working.
constexpr std::chrono::microseconds patience{100};
constexpr std::chrono::microseconds crowded_patience{5};
constexpr int spins_a_look = 32;  // at the clock

constexpr uint32_t stop = 0xffffffffu;  // instead of a number of tiles: the threads end

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Returns when the value differs from `value`. Whoever changes it calls notify after a sequentially consistent write:
// with a weaker one, the library's check for sleepers could come before the write is visible, and the sleeper would
// miss it.
void wait_while(const std::atomic<uint32_t>& variable, uint32_t value, bool crowded) {
  const auto begin = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < spins_a_look; ++i) {
      if (variable.load(std::memory_order_acquire) != value) return;
      pause();
    }
  } while (std::chrono::steady_clock::now() - begin < (crowded ? crowded_patience : patience));
  variable.wait(value);
}

}  // namespace

HostWorkers::HostWorkers(int threads) : crowded_(static_cast<unsigned>(threads) > std::thread::hardware_concurrency()) {
  scratch_.resize(static_cast<size_t>(threads));
  try {
    for (size_t i = 1; i < scratch_.size(); ++i) threads_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error&) {
    // Out of threads.
  }
}

HostWorkers::~HostWorkers() {
  waiting_ = stop;
  waiting_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Result<void> HostWorkers::reserve_scratch(uint64_t bytes) {
  for (HostMemory& scratch : scratch_) {
    if (scratch.data() != nullptr && scratch.bytes() >= bytes) continue;
    LOW_TRY(scratch, HostMemory::map(bytes));
  }
  return {};
}

// False when there was no tile to take.
bool HostWorkers::run_tile(size_t thread) {
  uint32_t waiting = waiting_.load(std::memory_order_acquire);
  do {
    if (waiting == 0 || waiting == stop) return false;
  } while (!waiting_.compare_exchange_weak(waiting, waiting - 1, std::memory_order_acq_rel, std::memory_order_acquire));
  entry_(launch_, tiles_ - waiting, scratch_[thread].data());
  if (unfinished_.fetch_sub(1) == 1) unfinished_.notify_all();
  return true;
}

void HostWorkers::run_superstep(abi::HostEntry entry, const abi::Launch& launch, uint32_t tiles) {
  if (threads_.empty()) {
    for (uint32_t tile = 0; tile < tiles; ++tile) entry(&launch, tile, scratch_[0].data());
    return;
  }
  entry_ = entry;
  launch_ = &launch;
  tiles_ = tiles;
  unfinished_.store(tiles, std::memory_order_relaxed);
  waiting_ = tiles;
  waiting_.notify_all();
  while (run_tile(0)) {
  }
  // Only tiles that others are at are left: a thread that is still asleep holds up nobody.
  for (uint32_t left = unfinished_; left != 0; left = unfinished_) wait_while(unfinished_, left, crowded_);
}

void HostWorkers::work(size_t thread) {
  while (true) {
    wait_while(waiting_, 0, crowded_);
    if (waiting_ == stop) return;
    while (run_tile(thread)) {
    }
  }
}

}  // namespace low
