// One pool of threads for the whole process, passed to whoever has work to split.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace low {

class ThreadPool {
 public:
  // `threads` counts the caller of parallel_for too; 0 or less means one for each hardware thread. Where the system
  // refuses more threads, the pool makes do with those it got.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Threads that work, the caller included; at least 1.
  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(i) once for each i in [0, count), in no particular order, and returns when all are done; what the bodies
  // wrote is visible then. Nothing may depend on which thread ran an index. The caller takes part. A call from inside a
  // body, or while another thread's call has the pool, runs serially on the calling thread, so nobody ever waits for a
  // busy worker. After an exception out of a body, indices above its own may be left out; when all calls have returned,
  // the exception of the lowest index that threw is thrown here: the one that a serial run would have met.
  void parallel_for(int64_t count, const std::function<void(int64_t)>& body);

 private:
  struct Job {
    const std::function<void(int64_t)>& body;
    const int64_t count;
    std::atomic<int64_t> next{0};
    std::mutex mutex{};              // guards what follows
    int64_t failed = INT64_MAX;      // the lowest index that threw
    std::exception_ptr exception{};  // what it threw
  };
  static void run(Job& job) noexcept;
  void work();

  std::mutex caller_;  // held by the call that has the pool
  std::mutex mutex_;   // guards what follows
  std::condition_variable wake_;
  std::condition_variable idle_;
  Job* job_ = nullptr;       // set while new workers may join
  uint64_t generation_ = 0;  // counts jobs, so that a worker joins each at most once
  int busy_ = 0;             // workers inside job_
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace low
