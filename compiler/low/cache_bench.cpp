// What a lookup in the expansion's caches costs, one thread, against making the result.
//   cache_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only
// Names are CACHE/WHAT/SOURCES/ENTRIES. `hit` is all that DistributedExpander does with the cache on and not with it
// off: the words of the key from sources that are at hand, its hash, the lookup, the shared result. `keys` is the part
// of that before the table; `wide_keys` the same with types and geometries spelled out instead of named by their
// interned ids; `generate` what is done with the cache off; `miss_full` a miss of a cache that keeps nothing more. (Of
// one source nothing is looked up.) Lookups go through all entries in random order; `lookup` is the time of one.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <random>

#include "compiler/low/expand/copy_plan.h"

namespace low {
namespace {

struct CopyRequest {
  CopyDestination destination;
  std::vector<CopySource> sources;
};

TypeId packed(Interners& interners, DType dtype, int64_t rows, int64_t columns) {
  return interners.types.intern({.dtype = dtype, .extents = {rows, columns}});
}

// Request i wants a rectangle of which `sources` shards hold pieces of 8 columns each, as a block of a matrix product
// does that gathers an operand. Requests differ in rows and in where their first shard is cut.
CopyRequest copy_request(Interners& interners, MatrixGeometries& geometries, int64_t sources, int64_t i) {
  const int64_t rows = 1 + i % 64, skipped = i / 64, width = 8 + skipped;
  const int64_t columns = width * sources - skipped;
  CopyRequest request{.destination = {.type = packed(interners, DType::f8e4m3fn, rows, columns),
                                      .geometry = geometries(rows, columns, columns, 1),
                                      .rows = rows,
                                      .columns = columns,
                                      .row_stride = columns,
                                      .column_stride = 1},
                      .sources = {}};
  for (int64_t s = 0; s < sources; ++s) {
    const int64_t first = s == 0 ? 0 : s * width - skipped;
    request.sources.push_back({.type = packed(interners, DType::f8e4m3fn, 81, width),
                               .geometry = geometries(81, width, width, 1),
                               .piece = {0, first, rows, s == 0 ? width - skipped : width},
                               .row_stride = width,
                               .column_stride = 1,
                               .local = s == sources / 2});
  }
  return request;
}

// Descriptor request i: a box of a wider matrix into a packed one.
CopyDescriptorKey descriptor_request(Interners& interners, MatrixGeometries& geometries, int64_t i) {
  const int64_t rows = 1 + i % 64, columns = 8 + i / 64;
  return {.source_type = packed(interners, DType::f8e4m3fn, 81, 384),
          .destination_type = packed(interners, DType::f8e4m3fn, rows, columns),
          .source = geometries(rows, columns, 384, 1),
          .destination = geometries(rows, columns, columns, 1),
          .same_buffer = false};
}

struct Requests {
  ExpansionCaches caches;
  MatrixGeometries geometries{*caches.interners};
  std::vector<CopyRequest> copies;
  std::vector<CopyDescriptorKey> descriptors;
  std::vector<uint64_t> words;

  Requests(int64_t sources, int64_t entries, const CacheOptions& options = {}) : caches(options) {
    std::mt19937_64 random(1);
    for (int64_t i = 0; i < entries; ++i) {
      copies.push_back(copy_request(*caches.interners, geometries, sources, i));
      descriptors.push_back(descriptor_request(*caches.interners, geometries, i));
    }
    std::ranges::shuffle(copies, random);
    std::ranges::shuffle(descriptors, random);
  }
  BorrowedCopyPlanKey key(const CopyRequest& request) {
    if (!copy_plan_words(request.destination, request.sources, words)) words.clear();
    return {words};
  }
  auto look_up(const CopyRequest& request, ExpansionCaches& in) {
    return in.copy_plans.get(key(request), [&] { return plan_copy(request.destination, request.sources, geometries); });
  }
};

void count_lookups(benchmark::State& state, size_t each) {
  state.counters["lookup"] = benchmark::Counter(static_cast<double>(state.iterations()) * static_cast<double>(each),
                                                benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
// All entries were there: a hit is what was timed.
void check_hits(benchmark::State& state, const CacheStatistics& statistics, size_t entries) {
  if (statistics.entries != entries || statistics.misses != entries) state.SkipWithError("not all lookups were hits");
}

void copy_plan_hit(benchmark::State& state) {
  Requests requests(state.range(0), state.range(1));
  for (const CopyRequest& request : requests.copies) requests.look_up(request, requests.caches);
  for (auto _ : state)
    for (const CopyRequest& request : requests.copies)
      benchmark::DoNotOptimize(requests.look_up(request, requests.caches));
  check_hits(state, requests.caches.copy_plans.statistics(), requests.copies.size());
  count_lookups(state, requests.copies.size());
}

void copy_plan_keys(benchmark::State& state) {
  Requests requests(state.range(0), state.range(1));
  for (auto _ : state)
    for (const CopyRequest& request : requests.copies) benchmark::DoNotOptimize(requests.key(request).hash());
  count_lookups(state, requests.copies.size());
}

void add_words(std::vector<uint64_t>& words, std::span<const int64_t> values) {
  for (const int64_t value : values) words.push_back(static_cast<uint64_t>(value));
}
void add_words(std::vector<uint64_t>& words, const TensorType& type, const Geometry& geometry) {
  words.push_back(static_cast<uint64_t>(type.dtype));
  add_words(words, type.extents);
  for (const std::span<const int64_t> axes : {geometry.extents, geometry.strides}) add_words(words, axes);
}
void copy_plan_wide_keys(benchmark::State& state) {
  Requests requests(state.range(0), state.range(1));
  const Interners& interners = *requests.caches.interners;
  std::vector<uint64_t>& words = requests.words;
  for (auto _ : state)
    for (const CopyRequest& request : requests.copies) {
      const CopyDestination& to = request.destination;
      words.clear();
      add_words(words, interners.types[to.type], interners.geometries[to.geometry]);
      for (const CopySource& source : request.sources) {
        add_words(words, interners.types[source.type], interners.geometries[source.geometry]);
        const Rect& piece = source.piece;
        add_words(words, std::array{piece.row, piece.column, piece.rows, piece.columns, int64_t{source.local}});
      }
      benchmark::DoNotOptimize(WordHash().add(words).result());
    }
  count_lookups(state, requests.copies.size());
}

void copy_plan_generate(benchmark::State& state) {
  Requests requests(state.range(0), state.range(1));
  for (auto _ : state)
    for (const CopyRequest& request : requests.copies)
      benchmark::DoNotOptimize(plan_copy(request.destination, request.sources, requests.geometries));
  count_lookups(state, requests.copies.size());
}

// Into an empty cache, which has to grow as it does in a selection attempt.
void copy_plan_miss(benchmark::State& state) {
  Requests requests(state.range(0), state.range(1));
  for (auto _ : state) {
    state.PauseTiming();
    auto empty = std::make_unique<ExpansionCaches>();
    state.ResumeTiming();
    for (const CopyRequest& request : requests.copies) benchmark::DoNotOptimize(requests.look_up(request, *empty));
    state.PauseTiming();
    if (empty->copy_plans.statistics().misses != requests.copies.size()) state.SkipWithError("a lookup was a hit");
    empty.reset();
    state.ResumeTiming();
  }
  count_lookups(state, requests.copies.size());
}

// A full cache: looked up, made, and not kept.
void copy_plan_miss_full(benchmark::State& state) {
  Requests requests(state.range(0), state.range(1), {.capacity = 0});
  for (auto _ : state)
    for (const CopyRequest& request : requests.copies)
      benchmark::DoNotOptimize(requests.look_up(request, requests.caches));
  if (requests.caches.copy_plans.statistics().hits != 0) state.SkipWithError("a lookup was a hit");
  count_lookups(state, requests.copies.size());
}

void descriptor_hit(benchmark::State& state) {
  Requests requests(1, state.range(0));
  for (const CopyDescriptorKey& key : requests.descriptors) relative_copy(key, requests.caches);
  for (auto _ : state)
    for (const CopyDescriptorKey& key : requests.descriptors)
      benchmark::DoNotOptimize(relative_copy(key, requests.caches));
  check_hits(state, requests.caches.copy_descriptors.statistics(), requests.descriptors.size());
  count_lookups(state, requests.descriptors.size());
}

void descriptor_generate(benchmark::State& state) {
  Requests requests(1, state.range(0));
  for (auto _ : state)
    for (const CopyDescriptorKey& key : requests.descriptors)
      benchmark::DoNotOptimize(plan_relative_copy(key, *requests.caches.interners));
  count_lookups(state, requests.descriptors.size());
}

void descriptor_miss(benchmark::State& state) {
  Requests requests(1, state.range(0));
  const CacheOptions options;
  for (auto _ : state) {
    state.PauseTiming();
    auto empty = std::make_unique<ExpansionCaches>(options);
    empty->interners = requests.caches.interners;  // the keys are ids of its values
    state.ResumeTiming();
    for (const CopyDescriptorKey& key : requests.descriptors) benchmark::DoNotOptimize(relative_copy(key, *empty));
    state.PauseTiming();
    if (empty->copy_descriptors.statistics().misses != requests.descriptors.size())
      state.SkipWithError("a lookup was a hit");
    empty.reset();
    state.ResumeTiming();
  }
  count_lookups(state, requests.descriptors.size());
}

}  // namespace
}  // namespace low

int main(int argc, char** argv) {
  const auto copy_plans = [](const char* name, void (*run)(benchmark::State&)) {
    auto* made = benchmark::RegisterBenchmark(name, run)->Unit(benchmark::kMicrosecond);
    for (const int64_t entries : {1, 2048})
      for (const int64_t sources : {2, 8, 64}) made->Args({sources, entries});
  };
  const auto descriptors = [](const char* name, void (*run)(benchmark::State&)) {
    benchmark::RegisterBenchmark(name, run)->Unit(benchmark::kMicrosecond)->Arg(1)->Arg(512);
  };
  copy_plans("copy_plan/hit", low::copy_plan_hit);
  copy_plans("copy_plan/keys", low::copy_plan_keys);
  copy_plans("copy_plan/wide_keys", low::copy_plan_wide_keys);
  copy_plans("copy_plan/generate", low::copy_plan_generate);
  copy_plans("copy_plan/miss_full", low::copy_plan_miss_full);
  auto* miss = benchmark::RegisterBenchmark("copy_plan/miss", low::copy_plan_miss)->Unit(benchmark::kMicrosecond);
  for (const int64_t sources : {2, 8, 64}) miss->Args({sources, 2048});
  descriptors("descriptor/hit", low::descriptor_hit);
  descriptors("descriptor/generate", low::descriptor_generate);
  benchmark::RegisterBenchmark("descriptor/miss", low::descriptor_miss)->Unit(benchmark::kMicrosecond)->Arg(512);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
