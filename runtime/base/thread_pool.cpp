#include "runtime/base/thread_pool.h"

#include <algorithm>
#include <system_error>

namespace low {
namespace {

// Whether this thread is inside a body of some pool: nested calls run serially.
thread_local bool inside_body = false;

void run_serially(int64_t count, const std::function<void(int64_t)>& body) {
  for (int64_t i = 0; i < count; ++i) body(i);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  const int wanted = threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  try {
    for (int i = 1; i < wanted; ++i) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // Out of threads: fewer do the same work.
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(Job& job) noexcept {
  inside_body = true;
  for (int64_t i = job.next.fetch_add(1, std::memory_order_relaxed); i < job.count;
       i = job.next.fetch_add(1, std::memory_order_relaxed)) {
    try {
      job.body(i);
    } catch (...) {
      // Indices are handed out in order: all below this one have begun, and will be done.
      job.next.store(job.count, std::memory_order_relaxed);
      const std::lock_guard lock(job.mutex);
      if (i >= job.failed) continue;
      job.failed = i;
      job.exception = std::current_exception();
    }
  }
  inside_body = false;
}

void ThreadPool::parallel_for(int64_t count, const std::function<void(int64_t)>& body) {
  if (count <= 1 || inside_body || workers_.empty()) return run_serially(count, body);
  const std::unique_lock caller(caller_, std::try_to_lock);
  if (!caller.owns_lock()) return run_serially(count, body);

  Job job{body, count};
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    ++generation_;
  }
  wake_.notify_all();
  run(job);
  {
    std::unique_lock lock(mutex_);
    job_ = nullptr;  // a worker that wakes up late must not touch this frame
    idle_.wait(lock, [this] { return busy_ == 0; });
  }
  if (job.exception) std::rethrow_exception(std::move(job.exception));
}

void ThreadPool::work() {
  uint64_t done = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || (job_ != nullptr && generation_ != done); });
    if (stopping_) return;
    Job& job = *job_;
    done = generation_;
    ++busy_;
    lock.unlock();
    run(job);
    lock.lock();
    if (--busy_ == 0) idle_.notify_all();
  }
}

}  // namespace low
