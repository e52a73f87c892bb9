#include "compiler/low/expand/copy_plan.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace low {
namespace {

TypeId matrix_type(Interners& interners, DType dtype, const Shape& extents) {
  return interners.types.intern({.dtype = dtype, .extents = extents});
}

// Two shards, 2 x 3 and 2 x 2, of which rows 1 … 2 and columns 1 … 4 are wanted:
//   a a a b b      . . . . .
//   a a a b b  ->  . a a b b    with rows of another shard below
//   c c c c c      . c c c c
struct Request {
  Interners& interners;  // of all requests that are compared
  MatrixGeometries geometries{interners};
  std::vector<CopySource> sources;
  CopyDestination destination;

  explicit Request(Interners& shared) : interners(shared) {
    sources.push_back({.type = matrix_type(interners, DType::f32, {2, 3}),
                       .geometry = geometries(2, 3, 3, 1),
                       .piece = {0, 0, 1, 2},
                       .row_stride = 3,
                       .column_stride = 1,
                       .local = false});
    sources.push_back({.type = matrix_type(interners, DType::f32, {2, 2}),
                       .geometry = geometries(2, 2, 2, 1),
                       .piece = {0, 2, 1, 2},
                       .row_stride = 2,
                       .column_stride = 1,
                       .local = true});
    sources.push_back({.type = matrix_type(interners, DType::f32, {1, 5}),
                       .geometry = geometries(1, 5, 5, 1),
                       .piece = {1, 0, 1, 4},
                       .row_stride = 5,
                       .column_stride = 1,
                       .local = false});
    destination = {.type = matrix_type(interners, DType::f32, {2, 4}),
                   .geometry = geometries(2, 4, 4, 1),
                   .rows = 2,
                   .columns = 4,
                   .row_stride = 4,
                   .column_stride = 1};
  }
  std::vector<uint64_t> words() {
    std::vector<uint64_t> result;
    EXPECT_TRUE(copy_plan_words(destination, sources, result));
    return result;
  }
};

TEST(CopyPlan, SaysWhichPartOfEachShardGoesWhere) {
  Interners interners;
  Request request(interners);
  const CopyPlan plan = plan_copy(request.destination, request.sources, request.geometries);
  ASSERT_EQ(plan.pieces.size(), 3U);
  // a: 1 x 2 in rows of 3, to row 0, column 0.
  EXPECT_EQ(plan.pieces[0].destination_offset, 0);
  EXPECT_EQ(plan.pieces[0].source, request.geometries(1, 2, 3, 1));
  EXPECT_FALSE(plan.pieces[0].local);
  // b: 1 x 2 to row 0, column 2; it lies on the tile.
  EXPECT_EQ(plan.pieces[1].destination_offset, 2);
  EXPECT_TRUE(plan.pieces[1].local);
  // c: 1 x 4 to row 1.
  EXPECT_EQ(plan.pieces[2].destination_offset, 4);
  EXPECT_EQ(plan.pieces[2].destination, request.geometries(1, 4, 4, 1));
}

// What a key retains: changing any of it misses.
TEST(CopyPlanKey, RetainsAllThatAPlanDependsOn) {
  struct Case {
    const char* field;
    std::function<void(Request&)> change;
  };
  const std::vector<Case> cases = {
      {"destination precision", [](Request& r) { r.destination.type = matrix_type(r.interners, DType::f16, {2, 4}); }},
      {"destination allocation extents",
       [](Request& r) { r.destination.type = matrix_type(r.interners, DType::f32, {2, 8}); }},
      {"destination view", [](Request& r) { r.destination.geometry = r.geometries(2, 4, 8, 1); }},
      {"source precision", [](Request& r) { r.sources[0].type = matrix_type(r.interners, DType::f16, {2, 3}); }},
      {"source allocation extents",
       [](Request& r) { r.sources[0].type = matrix_type(r.interners, DType::f32, {3, 3}); }},
      {"source view", [](Request& r) { r.sources[0].geometry = r.geometries(2, 3, 7, 1); }},
      {"where a source lies, rows", [](Request& r) { r.sources[0].piece.row += 1; }},
      {"where a source lies, columns", [](Request& r) { r.sources[0].piece.column += 1; }},
      {"how much a source holds, rows", [](Request& r) { r.sources[0].piece.rows += 1; }},
      {"how much a source holds, columns", [](Request& r) { r.sources[0].piece.columns += 1; }},
      {"whether a source is on the tile", [](Request& r) { r.sources[0].local = true; }},
      {"the order of sources", [](Request& r) { std::swap(r.sources[0], r.sources[1]); }},
      {"the number of sources", [](Request& r) { r.sources.pop_back(); }},
  };
  Interners interners;
  Request original(interners);
  const std::vector<uint64_t> words = original.words();
  ExpansionCaches caches;
  const auto get = [&](const std::vector<uint64_t>& key) {
    (void)caches.copy_plans.get({key}, [] { return CopyPlan(); });
  };
  get(words);
  for (const Case& one : cases) {
    Request changed(interners);
    one.change(changed);
    const CacheStatistics before = caches.copy_plans.statistics();
    get(changed.words());
    EXPECT_EQ(caches.copy_plans.statistics().misses, before.misses + 1) << one.field;
  }
  const CacheStatistics before = caches.copy_plans.statistics();
  get(Request(interners).words());
  EXPECT_EQ(caches.copy_plans.statistics().hits, before.hits + 1) << "nothing changed";
}

TEST(CopyPlanKey, DoesNotFitWhatNoTileHolds) {
  Interners interners;
  Request request(interners);
  request.sources[0].piece.row = (int64_t{1} << 40);
  std::vector<uint64_t> words;
  EXPECT_FALSE(copy_plan_words(request.destination, request.sources, words));
}

TEST(CopyDescriptorKey, RetainsAllThatADescriptorDependsOn) {
  Interners interners;
  MatrixGeometries geometries(interners);
  const CopyDescriptorKey original{.source_type = matrix_type(interners, DType::f32, {4, 8}),
                                   .destination_type = matrix_type(interners, DType::f32, {2, 8}),
                                   .source = geometries(2, 3, 8, 1),
                                   .destination = geometries(2, 3, 8, 1),
                                   .same_buffer = false};
  struct Case {
    const char* field;
    std::function<void(CopyDescriptorKey&)> change;
  };
  const std::vector<Case> cases = {
      {"source precision", [&](auto& key) { key.source_type = matrix_type(interners, DType::i32, {4, 8}); }},
      {"destination precision", [&](auto& key) { key.destination_type = matrix_type(interners, DType::f16, {2, 8}); }},
      {"source view", [&](auto& key) { key.source = geometries(2, 3, 9, 1); }},
      {"destination view", [&](auto& key) { key.destination = geometries(2, 3, 1, 2); }},
      {"order of the copy", [&](auto& key) { key.source = key.destination = geometries(3, 2, 1, 8); }},
      {"same buffer", [&](auto& key) { key.same_buffer = true; }},
  };
  ExpansionCaches caches;
  const auto get = [&](const CopyDescriptorKey& key) {
    (void)caches.copy_descriptors.get(key, [] { return RelativeCopy(); });
  };
  get(original);
  for (const Case& one : cases) {
    CopyDescriptorKey changed = original;
    one.change(changed);
    const CacheStatistics before = caches.copy_descriptors.statistics();
    get(changed);
    EXPECT_EQ(caches.copy_descriptors.statistics().misses, before.misses + 1) << one.field;
  }
  const CacheStatistics before = caches.copy_descriptors.statistics();
  get(original);
  EXPECT_EQ(caches.copy_descriptors.statistics().hits, before.hits + 1) << "nothing changed";
}

// Rows of 3 of 8 elements to rows of 3 of 4: one loop around a chunk.
TEST(RelativeCopy, IsTheSameWithAndWithoutACache) {
  ExpansionCaches cached, uncached({.enabled = false});
  for (ExpansionCaches* caches : {&cached, &uncached}) {
    MatrixGeometries geometries(*caches->interners);
    const CopyDescriptorKey key{.source_type = matrix_type(*caches->interners, DType::f32, {4, 8}),
                                .destination_type = matrix_type(*caches->interners, DType::f32, {2, 4}),
                                .source = geometries(2, 3, 8, 1),
                                .destination = geometries(2, 3, 4, 1)};
    const RelativeCopy copy = relative_copy(key, *caches);
    const CopyDescriptor& descriptor = caches->interners->descriptors[copy.descriptor];
    EXPECT_EQ(descriptor.counts, Shape{2});
    EXPECT_EQ(descriptor.source_strides, Shape{8});
    EXPECT_EQ(descriptor.destination_strides, Shape{4});
    EXPECT_EQ(descriptor.chunk, 3);
    EXPECT_EQ(caches->copy_descriptors.statistics().lookups(), caches == &cached ? 1U : 0U);
  }
}

}  // namespace
}  // namespace low
