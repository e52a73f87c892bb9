// What is known about each byte of a memory: whether anything was written to it, and by whom it was read and written
// last, so that what is right only because lanes happen to run one after the other is found.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace low::simt {

// Who touches memory, and when: launches follow each other, as do the parts of a workgroup's run between barriers.
struct Actor {
  uint32_t launch = 0, workgroup = 0, epoch = 0, lane = 0;
};

class Shadow {
 public:
  // `written`: whether the bytes hold something from the start. `of_workgroups`: each workgroup of each launch begins with
  // bytes that nobody wrote.
  Shadow(uint64_t bytes, bool written, bool of_workgroups = false)
      : bytes_(bytes, Byte{.write = written ? before : 0}), of_workgroups_(of_workgroups) {}

  uint64_t size() const { return bytes_.size(); }
  void set_written(uint64_t begin, uint64_t bytes);
  // What is wrong with reading or writing these bytes, which there are; empty: nothing.
  std::string_view read(uint64_t begin, uint32_t bytes, const Actor& actor);
  std::string_view write(uint64_t begin, uint32_t bytes, const Actor& actor);

 private:
  // Packed actors: 0 is nobody.
  static constexpr uint64_t before = 1;  // an actor of no launch
  struct Byte {
    uint64_t write = 0, read = 0;
  };
  // What this actor sees of an earlier one.
  uint64_t seen(uint64_t earlier, uint64_t now) const;

  std::vector<Byte> bytes_;
  bool of_workgroups_;
};

}  // namespace low::simt
