// The threads of one host device. A superstep takes a few microseconds, so handing out its tiles costs one atomic
// operation each, the end of a superstep is a counter, and threads that have nothing to do spin for a moment before
// they sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/format/abi.h"
#include "runtime/host/memory.h"

namespace low {

class HostWorkers {
 public:
  // `threads` counts the caller of run_superstep and is at least 1. Where the system refuses more threads, fewer do the
  // work.
  explicit HostWorkers(int threads);
  ~HostWorkers();
  HostWorkers(const HostWorkers&) = delete;
  HostWorkers& operator=(const HostWorkers&) = delete;

  int threads() const { return static_cast<int>(threads_.size()) + 1; }

  // The functions below are called by one thread at a time.

  // Each thread's scratch has at least this many bytes from now on.
  Result<void> reserve_scratch(uint64_t bytes);
  // Calls entry(&launch, tile, scratch) once for each tile in [0, tiles), and returns when all have returned.
  void run_superstep(abi::HostEntry entry, const abi::Launch& launch, uint32_t tiles);

 private:
  bool run_tile(size_t thread);
  void work(size_t thread);

  // The current superstep. A thread reads it after it took a tile; until that tile is done nobody writes it.
  abi::HostEntry entry_ = nullptr;
  const abi::Launch* launch_ = nullptr;
  uint32_t tiles_ = 0;
  const bool crowded_;               // more threads than processors
  std::vector<HostMemory> scratch_;  // one for each thread, the caller's first

  alignas(64) std::atomic<uint32_t> waiting_{0};     // tiles that no thread has taken, or `stop`
  alignas(64) std::atomic<uint32_t> unfinished_{0};  // tiles that have not returned
  std::vector<std::thread> threads_;
};

}  // namespace low
