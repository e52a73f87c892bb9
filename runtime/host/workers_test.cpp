#include "runtime/host/workers.h"

#include <gtest/gtest.h>

namespace low {
namespace {

// What the tiles of a superstep share, passed through a memory of the launch.
struct Board {
  std::atomic<uint64_t> begun{0}, ended{0};  // tiles, of all supersteps
  uint64_t ended_before = 0;                 // tiles of the supersteps before the current one
  std::atomic<uint64_t> early{0};            // tiles that began while an earlier superstep was at work
  std::vector<uint64_t> now, next;           // plain data: a tile reads its neighbour's, so a race shows as such too
  std::atomic<uint64_t> without_scratch{0};
};

void step(const abi::Launch* launch, uint32_t tile, unsigned char* scratch) {
  Board& board = *reinterpret_cast<Board*>(launch->memories[abi::memory_arena]);
  board.begun.fetch_add(1, std::memory_order_relaxed);
  if (board.ended.load(std::memory_order_relaxed) < board.ended_before) board.early.fetch_add(1);
  if (scratch == nullptr || reinterpret_cast<uintptr_t>(scratch) % 64 != 0) board.without_scratch.fetch_add(1);
  scratch[0] = static_cast<unsigned char>(tile);
  scratch[199] = static_cast<unsigned char>(tile);
  board.next[tile] = board.now[(tile + 1) % board.now.size()] + 1;
  board.ended.fetch_add(1, std::memory_order_relaxed);
}

TEST(HostWorkers, EveryTileOnceAndNoSuperstepBeforeTheLastOneEnded) {
  for (const int threads : {1, 2, 3, 8}) {
    HostWorkers workers(threads);
    EXPECT_EQ(workers.threads(), threads);
    ASSERT_TRUE(workers.reserve_scratch(200));
    for (const uint32_t tiles : {1u, 2u, 3u, 16u, 61u}) {
      SCOPED_TRACE(testing::Message() << threads << " threads, " << tiles << " tiles");
      Board board;
      board.now.resize(tiles);
      board.next.resize(tiles);
      for (uint32_t i = 0; i < tiles; ++i) board.now[i] = 1000000 * i;
      abi::Launch launch{};
      launch.memories[abi::memory_arena] = reinterpret_cast<unsigned char*>(&board);
      constexpr uint64_t supersteps = 4000;
      for (uint64_t i = 0; i < supersteps; ++i) {
        workers.run_superstep(step, launch, tiles);
        ASSERT_EQ(board.ended, (i + 1) * tiles);
        board.ended_before = (i + 1) * tiles;
        board.now.swap(board.next);
      }
      EXPECT_EQ(board.begun, supersteps * tiles);
      EXPECT_EQ(board.early, 0u);
      EXPECT_EQ(board.without_scratch, 0u);
      // Values wandered one tile to the left in each superstep.
      for (uint32_t i = 0; i < tiles; ++i) EXPECT_EQ(board.now[i], 1000000 * ((i + supersteps) % tiles) + supersteps);
    }
  }
}

TEST(HostWorkers, EndWithoutWork) {
  for (int round = 0; round < 50; ++round) const HostWorkers workers(1 + round % 5);
}

// A pool that ends right after a superstep, when threads are still looking for tiles.
TEST(HostWorkers, EndRightAfterWork) {
  for (int round = 0; round < 300; ++round) {
    HostWorkers workers(3);
    ASSERT_TRUE(workers.reserve_scratch(200));
    Board board;
    board.now.resize(4);
    board.next.resize(4);
    abi::Launch launch{};
    launch.memories[abi::memory_arena] = reinterpret_cast<unsigned char*>(&board);
    workers.run_superstep(step, launch, 4);
    ASSERT_EQ(board.ended, 4u);
  }
}

}  // namespace
}  // namespace low
